package acmetest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
)

// maxBody bounds a request, in octets.
const maxBody = 64 << 10

// strict64 is base64url without padding and without bits left over, as RFC 7515 has it.
func strict64() *base64.Encoding { return base64.RawURLEncoding.Strict() }

// jws is a signed text in flattened form.
type jws struct {
	Protected string `json:"protected"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

type header struct {
	Alg   string          `json:"alg"`
	Nonce string          `json:"nonce"`
	URL   string          `json:"url"`
	KID   string          `json:"kid"`
	JWK   json.RawMessage `json:"jwk"`
}

// signed is a request whose signature, nonce and URL are right.
type signed struct {
	payload []byte // nil: POST-as-GET
	account *account
	jwk     json.RawMessage
	key     *ecdsa.PublicKey
}

func decode(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("something follows")
	}
	return nil
}

// read checks a request (RFC 8555 section 6.2 to 6.5).
func (ca *CA) read(r *http.Request) (*signed, error) {
	if kind := r.Header.Get("Content-Type"); kind != "application/jose+json" {
		return nil, &problem{http.StatusUnsupportedMediaType, "malformed", "content type " + kind}
	}
	if r.Header.Get("User-Agent") == "" {
		return nil, malformed("no User-Agent")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, malformed("body: %v", err)
	}
	var j jws
	if err := decode(body, &j); err != nil {
		return nil, malformed("no flattened JWS: %v", err)
	}
	protected, err := strict64().DecodeString(j.Protected)
	if err != nil {
		return nil, malformed("protected: %v", err)
	}
	var h header
	if err := decode(protected, &h); err != nil {
		return nil, malformed("protected: %v", err)
	}
	out := &signed{}
	if err := ca.keyOf(&h, out); err != nil {
		return nil, err
	}
	if err := verify(out.key, h.Alg, &j); err != nil {
		return nil, err
	}
	ca.mu.Lock()
	fresh := ca.nonces[h.Nonce]
	delete(ca.nonces, h.Nonce)
	ca.mu.Unlock()
	if !fresh {
		return nil, &problem{http.StatusBadRequest, "badNonce", "the nonce was used, or is none of ours"}
	}
	if want := ca.server.URL + r.URL.Path; h.URL != want {
		return nil, &problem{http.StatusUnauthorized, "unauthorized", "signed for " + h.URL + " and sent to " + want}
	}
	if j.Payload == "" {
		return out, nil
	}
	if out.payload, err = strict64().DecodeString(j.Payload); err != nil {
		return nil, malformed("payload: %v", err)
	}
	return out, nil
}

// keyOf finds the key of a request: exactly one of jwk and kid.
func (ca *CA) keyOf(h *header, out *signed) error {
	var err error
	switch {
	case (h.KID == "") == (len(h.JWK) == 0):
		return malformed("exactly one of jwk and kid is needed")
	case h.KID == "":
		out.jwk = h.JWK
		if out.key, err = parseJWK(h.JWK); err != nil {
			return &problem{http.StatusBadRequest, "badPublicKey", err.Error()}
		}
	default:
		ca.mu.Lock()
		out.account = ca.accounts[h.KID]
		ca.mu.Unlock()
		if out.account == nil {
			return &problem{http.StatusBadRequest, "accountDoesNotExist", h.KID + " is no account"}
		}
		out.key = out.account.key
	}
	return nil
}

func parseJWK(b []byte) (*ecdsa.PublicKey, error) {
	var k struct{ Kty, Crv, X, Y string }
	if err := json.Unmarshal(b, &k); err != nil {
		return nil, err
	}
	x, err := strict64().DecodeString(k.X)
	if err != nil {
		return nil, err
	}
	y, err := strict64().DecodeString(k.Y)
	if err != nil {
		return nil, err
	}
	if k.Kty != "EC" || k.Crv != "P-256" || len(x) != 32 || len(y) != 32 {
		return nil, fmt.Errorf("the key is no P-256 key")
	}
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
}

func verify(key *ecdsa.PublicKey, alg string, j *jws) error {
	if alg != "ES256" {
		return &problem{http.StatusBadRequest, "badSignatureAlgorithm", alg}
	}
	sig, err := strict64().DecodeString(j.Signature)
	if err != nil || len(sig) != 64 {
		return malformed("signature of %d octets: %v", len(sig), err)
	}
	sum := sha256.Sum256([]byte(j.Protected + "." + j.Payload))
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return malformed("the signature is wrong")
	}
	return nil
}

// thumbprint is that of an account's key (RFC 7638).
func thumbprint(key *ecdsa.PublicKey) string {
	b, err := key.Bytes()
	if err != nil {
		return ""
	}
	text := fmt.Sprintf(`{"crv":"P-256","kty":"EC","x":%q,"y":%q}`, strict64().EncodeToString(b[1:33]), strict64().EncodeToString(b[33:]))
	sum := sha256.Sum256([]byte(text))
	return strict64().EncodeToString(sum[:])
}

// bound checks what ties an account to a customer (RFC 8555 section 7.3.4).
func (ca *CA) bound(raw json.RawMessage, s *signed) error {
	refused := func(why string) error {
		return &problem{http.StatusUnauthorized, "unauthorized", "external account binding: " + why}
	}
	var j jws
	if err := decode(raw, &j); err != nil {
		return malformed("external account binding: %v", err)
	}
	protected, err := strict64().DecodeString(j.Protected)
	if err != nil {
		return malformed("external account binding: %v", err)
	}
	var h header
	if err := decode(protected, &h); err != nil {
		return malformed("external account binding: %v", err)
	}
	key, known := ca.cfg.Bindings[h.KID]
	if !known || h.Alg != "HS256" || h.Nonce != "" || h.URL != ca.server.URL+"/account" {
		return refused("customer " + h.KID + ", algorithm " + h.Alg)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(j.Protected + "." + j.Payload))
	sig, err := strict64().DecodeString(j.Signature)
	if err != nil || !hmac.Equal(sig, mac.Sum(nil)) {
		return refused("the signature is wrong")
	}
	payload, err := strict64().DecodeString(j.Payload)
	if err != nil {
		return malformed("external account binding: %v", err)
	}
	own, err := parseJWK(payload)
	if err != nil || !own.Equal(s.key) {
		return refused("it is of another key")
	}
	return nil
}

func mailto(contact string) bool {
	address, ok := strings.CutPrefix(contact, "mailto:")
	name, host, at := strings.Cut(address, "@")
	return ok && at && name != "" && strings.Contains(host, ".")
}
