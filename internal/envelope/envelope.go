// Package envelope seals one text to several readers, each known by a P-256 key of its own: a text is encrypted once, by a
// key made for it alone (AES-256-GCM), and that key once for each reader (HPKE, RFC 9180: DHKEM(P-256, HKDF-SHA256),
// HKDF-SHA256, AES-256-GCM).
//
// It is for what goes to machines by way of files and messages that others may read. Who wrote an envelope it does not
// say: that is for the channel it came by.
//
// Invariant: what was sealed for one use opens for that use alone.
package envelope

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

var (
	// ErrNotAddressed: the envelope is not for this reader.
	ErrNotAddressed = errors.New("it is not sealed to the key of this machine")
	// ErrDamaged: it is, and it does not open; or it is no envelope.
	ErrDamaged = errors.New("the envelope is damaged, or was made for another use")
)

// format is the version of sealed.
const format = 1

const keyBytes = 32 // AES-256

// sealed is an envelope as JSON.
type sealed struct {
	Format int    `json:"format"`
	Slips  []slip `json:"slips"`
	Text   []byte `json:"text"` // behind its nonce of 96 bits
}

// slip is the key of the text, for one reader.
type slip struct {
	Reader string `json:"reader"`
	Key    []byte `json:"key"`
}

// Reader is who can open an envelope: the public half of a P-256 key, as an uncompressed point (SEC 1, 65 octets).
type Reader []byte

// ReaderOf is the reader with a public key, which must be an ECDSA key on P-256.
func ReaderOf(pub crypto.PublicKey) (Reader, error) {
	k, ok := pub.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("envelopes go to P-256 keys, not to a %T", pub)
	}
	p, err := k.ECDH()
	if err != nil || p.Curve() != ecdh.P256() {
		return nil, errors.New("envelopes go to P-256 keys, not to keys on another curve")
	}
	return p.Bytes(), nil
}

// Name tells readers apart: 16 hexadecimal digits.
func (r Reader) Name() string {
	sum := sha256.Sum256(r)
	return hex.EncodeToString(sum[:8])
}

func info(use string) []byte { return fmt.Appendf(nil, "steerpoint envelope v%d %q", format, use) }

// Seal encrypts a text for readers and a use. Nobody at all may be a reader: then nobody can open it.
func Seal(use string, text []byte, readers []Reader) ([]byte, error) {
	key := make([]byte, keyBytes)
	defer clear(key)
	_, _ = rand.Read(key) // it never fails
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	out := sealed{Format: format, Slips: []slip{}, Text: aead.Seal(nil, nil, text, info(use))}
	for _, r := range readers {
		pub, err := hpke.DHKEM(ecdh.P256()).NewPublicKey(r)
		if err != nil {
			return nil, fmt.Errorf("envelope: reader %s has no P-256 key: %w", r.Name(), err)
		}
		k, err := hpke.Seal(pub, hpke.HKDFSHA256(), hpke.AES256GCM(), info(use), key)
		if err != nil {
			return nil, fmt.Errorf("envelope: seal to reader %s: %w", r.Name(), err)
		}
		out.Slips = append(out.Slips, slip{r.Name(), k})
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	return b, nil
}

// Readers are the names of those an envelope is sealed to, in their order; nil: it is no envelope.
func Readers(envelope []byte) (names []string) {
	var s sealed
	if json.Unmarshal(envelope, &s) != nil {
		return nil
	}
	for i := range s.Slips {
		names = append(names, s.Slips[i].Reader)
	}
	return names
}

// newAEAD is AES-256-GCM with a random nonce in front of the text: a key seals one.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Opener opens envelopes to one reader.
type Opener struct {
	reader Reader
	key    hpke.PrivateKey
}

// NewOpener makes the opener of a private key, which must be an ECDSA key on P-256.
func NewOpener(key crypto.Signer) (*Opener, error) {
	reader, err := ReaderOf(key.Public())
	if err != nil {
		return nil, err
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("envelopes are opened by P-256 keys, not by a %T", key)
	}
	exchange, err := private.ECDH()
	if err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	k, err := hpke.NewDHKEMPrivateKey(exchange)
	if err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	return &Opener{reader, k}, nil
}

// Reader is the reader it opens for.
func (o *Opener) Reader() Reader { return o.reader }

// Open gives the text. The error matches ErrNotAddressed or ErrDamaged, and holds nothing of it.
func (o *Opener) Open(use string, envelope []byte) ([]byte, error) {
	var s sealed
	if json.Unmarshal(envelope, &s) != nil || s.Format != format {
		return nil, ErrDamaged
	}
	name := o.Reader().Name()
	for i := range s.Slips {
		if s.Slips[i].Reader != name {
			continue
		}
		key, err := hpke.Open(o.key, hpke.HKDFSHA256(), hpke.AES256GCM(), info(use), s.Slips[i].Key)
		if err != nil || len(key) != keyBytes {
			return nil, ErrDamaged
		}
		defer clear(key)
		aead, err := newAEAD(key)
		if err != nil {
			return nil, err
		}
		text, err := aead.Open(nil, nil, s.Text, info(use))
		if err != nil {
			return nil, ErrDamaged
		}
		return text, nil
	}
	return nil, ErrNotAddressed
}
