package envelope

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
)

func opener(t *testing.T) *Opener {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o, err := NewOpener(key)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestSealAndOpen: every reader opens an envelope, and nobody else; it does not hold the text.
//
// Covers: issue5 dnssec keys sealed
func TestSealAndOpen(t *testing.T) {
	a, b, stranger := opener(t), opener(t), opener(t)
	text := []byte("the text that must not show")
	e, err := Seal("test", text, []Reader{a.Reader(), b.Reader()})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(e, text) {
		t.Error("the envelope shows its text")
	}
	for _, o := range []*Opener{a, b} {
		if got, err := o.Open("test", e); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %q, %v", o.Reader().Name(), got, err)
		}
	}
	if got := Readers(e); len(got) != 2 || got[0] != a.Reader().Name() || got[1] != b.Reader().Name() || Readers([]byte("none")) != nil {
		t.Errorf("readers %v", got)
	}
	if got, err := stranger.Open("test", e); !errors.Is(err, ErrNotAddressed) {
		t.Errorf("a stranger: %q, %v", got, err)
	}
	if got, err := a.Open("another use", e); !errors.Is(err, ErrDamaged) {
		t.Errorf("another use: %q, %v", got, err)
	}
}

// TestDamagedEnvelopes: whatever is changed, an envelope does not open, and nothing panics.
//
// Covers: issue5 dnssec keys sealed
func TestDamagedEnvelopes(t *testing.T) {
	o, other := opener(t), opener(t)
	e, err := Seal("test", []byte("text"), []Reader{o.Reader(), other.Reader()})
	if err != nil {
		t.Fatal(err)
	}
	var s sealed
	if err := json.Unmarshal(e, &s); err != nil {
		t.Fatal(err)
	}
	shut := func(what string, change func(*sealed)) {
		t.Helper()
		var c sealed
		if err := json.Unmarshal(e, &c); err != nil {
			t.Fatal(err)
		}
		change(&c)
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := o.Open("test", b); err == nil {
			t.Errorf("%s: opens as %q", what, got)
		}
	}
	shut("a newer format", func(c *sealed) { c.Format++ })
	shut("slips exchanged", func(c *sealed) { c.Slips[0].Key, c.Slips[1].Key = c.Slips[1].Key, c.Slips[0].Key })
	shut("no slip", func(c *sealed) { c.Slips = nil })
	for i := range s.Text {
		shut("a changed text", func(c *sealed) { c.Text[i] ^= 1 })
	}
	for i := range s.Slips[0].Key {
		shut("a changed slip", func(c *sealed) { c.Slips[0].Key[i] ^= 0x80 })
	}
	for n := range e {
		if _, err := o.Open("test", e[:n]); err == nil {
			t.Fatalf("the first %d octets open", n)
		}
	}
}

// TestOtherKeys: only P-256 keys read.
//
// Covers: issue5 dnssec keys sealed
func TestOtherKeys(t *testing.T) {
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewOpener(large); err == nil {
		t.Error("a P-384 key is taken")
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewOpener(ed); err == nil {
		t.Error("an Ed25519 key is taken")
	}
	if _, err := Seal("test", nil, []Reader{[]byte("no point")}); err == nil {
		t.Error("a reader without a key is sealed to")
	}
}
