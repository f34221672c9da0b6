package store

import (
	"encoding/json"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestCookieMaster: it is written once whoever comes first, is the same after a restart, and the one that a version before kept
// so that it could be read is gone.
//
// Covers: issue5 cookies
func TestCookieMaster(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if m, err := s.CookieMaster(t.Context()); err != nil || m.Revision != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := s.commit(t.Context(), "an older program", nil, []clientv3.Op{clientv3.OpPut(openCookieKey, "open")}); err != nil {
		t.Fatal(err)
	}
	one, other := CookieMaster{Sealed: json.RawMessage(`"a"`)}, CookieMaster{Sealed: json.RawMessage(`"b"`)}
	must(t, s.WriteCookieMaster(t.Context(), &one))
	if err := s.WriteCookieMaster(t.Context(), &other); !errors.Is(err, ErrConflict) || one.Revision == 0 {
		t.Errorf("written over: %v, %+v", err, one)
	}
	must(t, s.Close())
	s = open(t, dir)
	again, err := s.CookieMaster(t.Context())
	must(t, err)
	if string(again.Sealed) != `"a"` || again.Revision != one.Revision {
		t.Errorf("%s at %d, want %s at %d", again.Sealed, again.Revision, one.Sealed, one.Revision)
	}
	_, err = s.Dump(t.Context(), func(p Pair) error {
		if p.Key == openCookieKey {
			t.Error("the open one is still there")
		}
		return nil
	})
	must(t, err)
	again.Sealed = json.RawMessage(`"c"`)
	must(t, s.WriteCookieMaster(t.Context(), &again, Audit{Kind: "CookieMaster"}))
}

// TestShared: what name servers share is what was written last.
//
// Covers: issue5 tsig, issue5 cookies
func TestShared(t *testing.T) {
	s := open(t, t.TempDir())
	if v, err := s.Shared(t.Context()); err != nil || v.Envelope != nil {
		t.Fatalf("%+v, %v", v, err)
	}
	for _, text := range []string{"one", "two"} {
		must(t, s.WriteShared(t.Context(), &Shared{Envelope: []byte(text)}))
		if v, err := s.Shared(t.Context()); err != nil || string(v.Envelope) != text {
			t.Errorf("%+v, %v", v, err)
		}
	}
	if _, err := s.commit(t.Context(), "damage", nil, []clientv3.Op{clientv3.OpPut(sharedKey, "{")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Shared(t.Context()); err == nil {
		t.Error("a damaged record is read")
	}
}
