package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"steerpoint/internal/hidden"
	"steerpoint/spec"
)

// signedPair is a certificate for names, signed by another or by itself, and its key.
func signedPair(t *testing.T, serial int64, by *x509.Certificate, byKey *ecdsa.PrivateKey, names ...string) (c *x509.Certificate, key *ecdsa.PrivateKey, chain, keyText string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{SerialNumber: big.NewInt(serial).String()}, DNSNames: names, IsCA: len(names) == 0, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if by == nil {
		by, byKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, &key.PublicKey, byKey)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return c, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}

// A chain and a key of a Secret that gateways could not serve, or clients not take, are told of by control: a key of another
// certificate, another name, a chain in another order. Nothing of the key is told.
//
// Covers: issue6 tls
func TestPairsAreLookedAt(t *testing.T) {
	root, rootKey, rootText, _ := signedPair(t, 1, nil, nil)
	middle, middleKey, middleText, _ := signedPair(t, 2, root, rootKey)
	_, _, leafText, key := signedPair(t, 3, middle, middleKey, "www.example.com", "*.example.com")
	_, _, _, otherKey := signedPair(t, 4, nil, nil, "www.example.com")
	for _, tt := range []struct{ what, names, chain, key, want string }{
		{"right", "www.example.com *.example.com a.example.com", leafText + middleText, key, ""},
		{"with its root", "www.example.com", leafText + middleText + rootText, key, ""},
		{"alone", "*.example.com", leafText, key, ""},
		{"no chain", "www.example.com", "the chain", key, "cannot be served"},
		{"no key", "www.example.com", leafText, "the key", "cannot be served"},
		{"the key of another", "www.example.com", leafText, otherKey, "private key does not match"},
		{"of another name", "www.example.com example.com", leafText + middleText, key, "is not for example.com; it is for www.example.com, *.example.com"},
		{"a wildcard it has not", "*.www.example.com", leafText + middleText, key, "is not for *.www.example.com"},
		{"in another order", "www.example.com", leafText + rootText + middleText, key, "certificate 2 of its chain did not sign the one before it"},
		{"the server's last", "www.example.com", middleText + leafText, key, "cannot be served"},
	} {
		w := &spec.Certificate{}
		for n := range strings.FieldsSeq(tt.names) {
			w.Names = append(w.Names, spec.Domain(n))
		}
		got := pairProblem(w, tt.chain, hidden.New(tt.key))
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || strings.Contains(got, tt.key) {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}
