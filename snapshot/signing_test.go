package snapshot

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func signing(text string) *Signing {
	return &Signing{
		Zones: []SignedZone{{Zone: "example.net.", Life: time.Hour, KeyTTL: time.Minute, Keys: []ZoneKey{{Tag: 7, Flags: 257, Public: []byte(text), Signs: true}}}},
		Keys:  []byte(text),
	}
}

// overWire is a delta as another machine gets it.
func overWire(t *testing.T, d *DNSDelta) *DNSDelta {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	out := new(DNSDelta)
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDeltasCarrySigning: zone keys that come, change, stay and go are the same at the other end of a delta; a delta that
// would lead to other keys than it is meant for is refused.
//
// Covers: issue5 dnssec keys sealed
func TestDeltasCarrySigning(t *testing.T) {
	steps := []*Signing{nil, signing("one"), signing("one"), signing("two"), nil, signing("three")}
	var here, there *DNS
	for i, s := range steps {
		next := &DNS{Version: uint64(i + 1), Created: time.Unix(int64(i), 0).UTC(), Signing: s}
		d := DiffDNS(here, next)
		got, err := overWire(t, d).Apply(there)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if !got.Equal(next) || got.Signing.digest() != s.digest() {
			t.Fatalf("step %d: %+v", i, got.Signing)
		}
		here, there = next, got
	}
	d := DiffDNS(&DNS{Version: 1}, &DNS{Version: 2, Signing: signing("one")})
	if d.Signing == nil {
		t.Fatal("new keys do not travel")
	}
	if same := DiffDNS(&DNS{Version: 1, Signing: signing("one")}, &DNS{Version: 2, Signing: signing("one")}); same.Signing != nil {
		t.Error("keys travel that the other end has")
	}
	d.Signing = signing("other")
	if _, err := d.Apply(&DNS{Version: 1}); !errors.Is(err, ErrDigest) {
		t.Errorf("other keys: %v", err)
	}
	d.Signing = nil
	if _, err := d.Apply(&DNS{Version: 1, Signing: signing("old")}); !errors.Is(err, ErrDigest) {
		t.Errorf("keys that are missing: %v", err)
	}
}

// TestOldControl: a delta of a control that knows no signing is taken, and leads to none.
//
// Covers: issue5 dnssec keys sealed
func TestOldControl(t *testing.T) {
	d := DiffDNS(&DNS{Version: 1}, &DNS{Version: 2})
	got, err := d.Apply(&DNS{Version: 1, Signing: signing("one")})
	if err != nil || got.Signing != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
