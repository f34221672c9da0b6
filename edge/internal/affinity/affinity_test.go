package affinity

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

func key(id byte) Key { return Key{id, bytes.Repeat([]byte{id}, SecretSize)} }

func newGroup(t testing.TB, keys []Key, name string, origins ...string) *Group {
	t.Helper()
	g, err := NewGroup(keys, name, origins)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A value brings back the origin it was made for, in its group and in no other.
//
// Covers: C6, gateway T36
func TestRoundTrip(t *testing.T) {
	a := newGroup(t, []Key{key(1)}, "shop/web", "tokyo", "osaka", "kyoto")
	b := newGroup(t, []Key{key(1)}, "shop/api", "tokyo", "osaka", "kyoto")
	for i := range 3 {
		v := a.Append(nil, nil, i)
		if got, f := a.Find(v); got != i || f != Found {
			t.Errorf("origin %d: %d, %v", i, got, f)
		}
		if got, f := b.Find(v); got != 0 || f != None {
			t.Errorf("another group takes it: %d, %v", got, f)
		}
	}
	gone := newGroup(t, []Key{key(1)}, "shop/web", "tokyo")
	if _, f := gone.Find(a.Append(nil, nil, 1)); f != Unknown {
		t.Errorf("an origin that is gone: %v", f)
	}
	moved := newGroup(t, []Key{key(1)}, "shop/web", "kyoto", "osaka")
	if got, f := moved.Find(a.Append(nil, nil, 1)); got != 1 || f != Found {
		t.Errorf("origins in another order: %d, %v", got, f)
	}
}

// A response replaces the entry of its own group alone; the first of more than eight groups is forgotten.
//
// Covers: C6
func TestEntriesOfGroups(t *testing.T) {
	var groups []*Group
	for i := range MaxEntries + 1 {
		groups = append(groups, newGroup(t, []Key{key(1)}, fmt.Sprint("g", i), "a", "b"))
	}
	var v []byte
	for i := range MaxEntries {
		v = groups[i].Append(nil, v, 0)
	}
	v = groups[3].Append(nil, v, 1)
	for i := range MaxEntries {
		want := 0
		if i == 3 {
			want = 1
		}
		if got, f := groups[i].Find(v); got != want || f != Found {
			t.Errorf("group %d: %d, %v", i, got, f)
		}
	}
	if len(v) != MaxValue {
		t.Errorf("%d bytes, want %d", len(v), MaxValue)
	}
	v = groups[MaxEntries].Append(nil, v, 1)
	if _, f := groups[0].Find(v); f != None {
		t.Errorf("the oldest entry: %v", f)
	}
	if got, f := groups[MaxEntries].Find(v); got != 1 || f != Found || len(v) != MaxValue {
		t.Errorf("the newest entry: %d, %v", got, f)
	}
}

// Values of the key before are read as long as it is there; new ones are made with the new key.
//
// Covers: C6, gateway R14
func TestKeysRotate(t *testing.T) {
	origins := []string{"a", "b"}
	old, both, later := newGroup(t, []Key{key(1)}, "g", origins...), newGroup(t, []Key{key(2), key(1)}, "g", origins...), newGroup(t, []Key{key(2)}, "g", origins...)
	v := old.Append(nil, nil, 1)
	if got, f := both.Find(v); got != 1 || f != Found {
		t.Errorf("%d, %v", got, f)
	}
	w := both.Append(nil, v, 1)
	if got, f := later.Find(w); got != 1 || f != Found {
		t.Errorf("%d, %v", got, f)
	}
	if len(w) != len(v) {
		t.Errorf("the entry made with the old key is still there: %d bytes", len(w))
	}
	if _, f := later.Find(v); f != None {
		t.Errorf("without its key: %v", f)
	}
	for name, keys := range map[string][]Key{"none": nil, "twice": {key(1), key(1)}, "short": {{1, []byte("short")}}} {
		if _, err := NewGroup(keys, "g", origins); err == nil {
			t.Errorf("keys %s are accepted", name)
		}
	}
}

// Whatever stands in the cookie, it is a session of the group or it is none: forged, cut, long or made with another key.
//
// Covers: C6, gateway T34, gateway fault 53
func TestForged(t *testing.T) {
	g := newGroup(t, []Key{key(1)}, "g", "10.0.0.1:80", "b")
	v := g.Append(nil, nil, 0)
	if bytes.Contains(v, []byte("10.0")) {
		t.Error("the value names an address")
	}
	for i := range v {
		for _, c := range []byte("A-z") {
			w := bytes.Clone(v)
			if w[i] == c {
				continue
			}
			w[i] = c
			if _, f := g.Find(w); f == Found {
				t.Fatalf("changed at %d: %s", i, w)
			}
		}
	}
	for _, w := range []string{"", "x", string(v[:len(v)-1]), string(v) + "=", string(v) + "\n", strings.Repeat("A", 10<<10), string(v) + string(v) + "A", "!!!!"} {
		if _, f := g.Find([]byte(w)); f == Found {
			t.Errorf("%.40q is a session", w)
		}
	}
	other := newGroup(t, []Key{{1, bytes.Repeat([]byte{9}, SecretSize)}}, "g", "10.0.0.1:80", "b")
	if _, f := g.Find(other.Append(nil, nil, 0)); f == Found {
		t.Error("a value made with another secret")
	}
	if got := g.Append(nil, []byte("broken!"), 1); !bytes.Equal(got, g.Append(nil, nil, 1)) {
		t.Errorf("beside a broken value: %s", got)
	}
}

// The hot path allocates nothing.
//
// Covers: C6
func TestFindAllocatesNothing(t *testing.T) {
	g := newGroup(t, []Key{key(1), key(2)}, "g", "a", "b", "c")
	v := g.Append(nil, nil, 2)
	dst := make([]byte, 0, MaxValue)
	n := testing.AllocsPerRun(100, func() {
		g.Find(v)
		g.Append(dst, v, 1)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzValue: no value breaks anything, what Append makes is read back, and entries of others are kept.
//
// Covers: C6, gateway T34
func FuzzValue(f *testing.F) {
	g, other := newGroup(f, []Key{key(1), key(2)}, "g", "a", "b"), newGroup(f, []Key{key(2)}, "h", "a", "b")
	f.Add([]byte(""), 0)
	f.Add(g.Append(nil, nil, 1), 0)
	f.Add(other.Append(nil, g.Append(nil, nil, 1), 1), 1)
	f.Add([]byte(base64.RawURLEncoding.EncodeToString(make([]byte, MaxEntries*entrySize))), 1)
	f.Fuzz(func(t *testing.T, value []byte, origin int) {
		if origin < 0 || origin > 1 {
			return
		}
		was, found := other.Find(value)
		v := g.Append(nil, value, origin)
		if got, f := g.Find(v); got != origin || f != Found || len(v) > MaxValue {
			t.Fatalf("%d, %v of %q", got, f, v)
		}
		if now, f := other.Find(v); found == Found && len(value) < MaxValue && (now != was || f != Found) {
			t.Fatalf("the other group's session is lost: %d, %v", now, f)
		}
		if again := g.Append(nil, v, origin); !bytes.Equal(again, v) {
			t.Fatalf("%q becomes %q", v, again)
		}
	})
}
