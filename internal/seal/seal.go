// Package seal encrypts values that are kept in places others may read: the store, history, backups.
//
// A value is sealed by a data key, one for every write of a Secret, and the data key by the sealing key in a file of its own
// (AES-256-GCM both times). Everything that is needed to open a value but the sealing key stands beside the value, so a
// copy of the store is complete and worth nothing without that file. A key-management service would take the place of the
// sealing key: the name of the key stands in every sealed value.
//
// Invariant: what was sealed for one kind, name and key opens for these alone, so sealed texts cannot be exchanged for each
// other by who can write to the store.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"steerpoint/internal/hidden"
)

// Errors a caller branches on.
var (
	// ErrNoKey: the key that sealed it is not in the key file.
	ErrNoKey = errors.New("sealed by a key that is not at hand")
	// ErrDamaged: the key is there, and the sealed text is not what that key made of this place.
	ErrDamaged = errors.New("sealed text is damaged, or belongs to another place")
	// ErrAbsent: there is no value of that key.
	ErrAbsent = errors.New("no such key")
)

// format is the version of Sealed.
const format = 1

const keyBytes = 32 // AES-256

// Sealed holds values that only the right sealing key opens. It is kept as JSON.
type Sealed struct {
	Format int               `json:"format"`
	Master string            `json:"master"` // name of the sealing key
	Key    []byte            `json:"key"`    // the data key, sealed by the sealing key
	Values map[string][]byte `json:"values"` // by key, sealed by the data key
}

// Place is what values are sealed for: a resource.
type Place struct{ Kind, Name string }

// bound is the associated data of one sealed text. Quoting keeps the parts apart whatever they hold.
func (p Place) bound(what, key string) []byte {
	return fmt.Appendf(nil, "steerpoint %s v%d %q %q %q", what, format, p.Kind, p.Name, key)
}

// Keys are the sealing keys of a key file: the first one seals, all of them open. They do not change.
type Keys struct{ list []master }

// master is one sealing key and what is made of it, each for one use alone.
type master struct {
	entry
	wrap cipher.AEAD // seals data keys
	mark []byte      // keys fingerprints
}

// newMaster makes of a key what it is used for (HKDF, RFC 5869).
func newMaster(e entry) (master, error) {
	part := func(use string, n int) ([]byte, error) {
		return hkdf.Key(sha256.New, e.Key, nil, "steerpoint seal v1 "+use, n)
	}
	id, err := part("name", 8)
	if err != nil {
		return master{}, fmt.Errorf("sealing key: %w", err)
	}
	if len(e.Key) != keyBytes || e.Name != hex.EncodeToString(id) {
		return master{}, errors.New("sealing key: it does not fit its name")
	}
	wrap, err := part("data keys", keyBytes)
	if err != nil {
		return master{}, fmt.Errorf("sealing key: %w", err)
	}
	mark, err := part("fingerprints", keyBytes)
	if err != nil {
		return master{}, fmt.Errorf("sealing key: %w", err)
	}
	aead, err := newAEAD(wrap)
	return master{e, aead, mark}, err
}

// newAEAD is AES-256-GCM with a random nonce of 96 bits in front of each text: one key may seal 2^32 of them, and a data
// key seals one Secret.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Current is the name of the key that seals.
func (k *Keys) Current() string { return k.list[0].Name }

func (k *Keys) find(name string) *master {
	for i := range k.list {
		if k.list[i].Name == name {
			return &k.list[i]
		}
	}
	return nil
}

// Has reports whether a key of that name opens.
func (k *Keys) Has(name string) bool { return k.find(name) != nil }

// Seal seals the values of one resource under a fresh data key.
func (k *Keys) Seal(p Place, values map[string]hidden.Text) (*Sealed, error) {
	m := &k.list[0]
	key := make([]byte, keyBytes)
	defer clear(key)
	_, _ = rand.Read(key) // it never fails
	data, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	s := &Sealed{Format: format, Master: m.Name, Key: m.wrap.Seal(nil, nil, key, p.bound("data key", m.Name)), Values: map[string][]byte{}}
	for name, v := range values {
		plain := []byte(v.Reveal())
		s.Values[name] = data.Seal(nil, nil, plain, p.bound("value", name))
		clear(plain)
	}
	return s, nil
}

// Open gives one value. The error matches ErrNoKey, ErrDamaged or ErrAbsent, and holds nothing of the value.
func (k *Keys) Open(p Place, s *Sealed, name string) (hidden.Text, error) {
	data, err := k.dataKey(p, s)
	if err != nil {
		return hidden.Text{}, err
	}
	text, ok := s.Values[name]
	if !ok {
		return hidden.Text{}, ErrAbsent
	}
	plain, err := data.Open(nil, nil, text, p.bound("value", name))
	if err != nil {
		return hidden.Text{}, ErrDamaged
	}
	defer clear(plain)
	return hidden.New(string(plain)), nil
}

// Check opens every value and keeps none. The error is as that of Open.
func (k *Keys) Check(p Place, s *Sealed) error {
	data, err := k.dataKey(p, s)
	if err != nil {
		return err
	}
	for name, text := range s.Values {
		plain, err := data.Open(nil, nil, text, p.bound("value", name))
		clear(plain)
		if err != nil {
			return fmt.Errorf("key %s: %w", name, ErrDamaged)
		}
	}
	return nil
}

// dataKey opens the data key.
func (k *Keys) dataKey(p Place, s *Sealed) (cipher.AEAD, error) {
	if s.Format != format {
		return nil, fmt.Errorf("%w: it has format %d, this version reads %d", ErrDamaged, s.Format, format)
	}
	m := k.find(s.Master)
	if m == nil {
		return nil, fmt.Errorf("%w: %q", ErrNoKey, s.Master)
	}
	key, err := m.wrap.Open(nil, nil, s.Key, p.bound("data key", m.Name))
	if err != nil {
		return nil, ErrDamaged
	}
	defer clear(key)
	return newAEAD(key)
}

// Fingerprint is a keyed hash of a value: 16 hexadecimal digits, equal for equal values of one key of one resource. Without
// the sealing key nothing can be guessed from it, and values of different places cannot be compared.
func (k *Keys) Fingerprint(p Place, name string, v hidden.Text) string {
	mac := hmac.New(sha256.New, k.list[0].mark)
	mac.Write(p.bound("fingerprint", name))
	mac.Write([]byte{0})
	mac.Write([]byte(v.Reveal()))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}
