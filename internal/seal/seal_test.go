package seal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steerpoint/internal/atomicfile"
	"steerpoint/internal/hidden"
)

var day = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const planted = "pl4nted-value-of-the-test"

func keys(t testing.TB) (*Keys, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seal.key")
	k, err := Create(path, day)
	if err != nil {
		t.Fatal(err)
	}
	return k, path
}

func mustSeal(t testing.TB, k *Keys, p Place, values map[string]hidden.Text) *Sealed {
	t.Helper()
	s, err := k.Seal(p, values)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s) // as it is kept
	if err != nil {
		t.Fatal(err)
	}
	var back Sealed
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return &back
}

// TestSealAndOpen: values come back as they were, from a key file that was read again too; equal values are sealed into
// different texts.
//
// Covers: issue4 secrets sealed
func TestSealAndOpen(t *testing.T) {
	k, path := keys(t)
	p := Place{"Secret", "pager"}
	values := map[string]hidden.Text{"token": hidden.New(planted), "same": hidden.New(planted), "empty": hidden.New(""), "lines": hidden.New("a\nb\x00ü\n")}
	s := mustSeal(t, k, p, values)
	again, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range values {
		for _, by := range []*Keys{k, again} {
			if got, err := by.Open(p, s, name); err != nil || !got.Equal(want) {
				t.Errorf("%s: %q, %v", name, got.Reveal(), err)
			}
		}
	}
	if string(s.Values["token"]) == string(s.Values["same"]) {
		t.Error("equal values have equal sealed texts")
	}
	if err := again.Check(p, s); err != nil {
		t.Error(err)
	}
	if _, err := k.Open(p, s, "other"); !errors.Is(err, ErrAbsent) {
		t.Errorf("a key that is not there: %v", err)
	}
}

// TestSealedTextsStayInPlace: what was sealed for one kind, name and key opens for no other, under no other data key, and
// not after any change.
//
// Covers: issue4 secrets sealed
func TestSealedTextsStayInPlace(t *testing.T) {
	k, _ := keys(t)
	p := Place{"Secret", "pager"}
	s := mustSeal(t, k, p, map[string]hidden.Text{"a": hidden.New("first value"), "b": hidden.New("second value")})
	other := mustSeal(t, k, Place{"Secret", "other"}, map[string]hidden.Text{"a": hidden.New("third value")})
	shut := func(what string, place Place, x Sealed, key string) {
		t.Helper()
		if v, err := k.Open(place, &x, key); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: opened as %q, %v", what, v.Reveal(), err)
		} else if strings.Contains(err.Error(), "value") {
			t.Errorf("%s: the error says %v", what, err)
		}
		if k.Check(place, &x) == nil {
			t.Errorf("%s: the check finds nothing", what)
		}
	}
	swapped := *s
	swapped.Values = map[string][]byte{"a": s.Values["b"], "b": s.Values["a"]}
	shut("keys exchanged", p, swapped, "a")
	shut("another name", Place{"Secret", "page"}, *s, "a")
	shut("another kind", Place{"Secre", "tpager"}, *s, "a")
	moved := *s
	moved.Values = map[string][]byte{"a": other.Values["a"]}
	shut("a value of another Secret", p, moved, "a")
	moved.Key = other.Key
	shut("a value of another Secret with its data key", p, moved, "a")
	newer := *s
	newer.Format = 2
	shut("a newer format", p, newer, "a")
	for i := range s.Key {
		x := *s
		x.Key = append([]byte(nil), s.Key...)
		x.Key[i] ^= 1
		shut("a changed data key", p, x, "a")
	}
	for i := range s.Values["a"] {
		x := *s
		x.Values = map[string][]byte{"a": append([]byte(nil), s.Values["a"]...)}
		x.Values["a"][i] ^= 0x80
		shut("a changed value", p, x, "a")
	}
	shut("nothing", p, Sealed{Format: 1, Master: k.Current(), Values: map[string][]byte{"a": nil}}, "a")
}

// TestOtherKey: another sealing key opens nothing and says which one is needed.
//
// Covers: issue4 seal key
func TestOtherKey(t *testing.T) {
	k, _ := keys(t)
	wrong, _ := keys(t)
	p := Place{"Secret", "pager"}
	s := mustSeal(t, k, p, map[string]hidden.Text{"a": hidden.New(planted)})
	_, err := wrong.Open(p, s, "a")
	if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), k.Current()) || wrong.Has(k.Current()) {
		t.Errorf("%v", err)
	}
	// One that takes on the name does not open either.
	s.Master = wrong.Current()
	if _, err := wrong.Open(p, s, "a"); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}

// TestFingerprint is the same for the same value in its place, and tells nothing of any other.
//
// Covers: issue4 secrets sealed
func TestFingerprint(t *testing.T) {
	k, path := keys(t)
	again, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	wrong, _ := keys(t)
	p := Place{"Secret", "pager"}
	v := hidden.New(planted)
	f := k.Fingerprint(p, "a", v)
	if len(f) != 16 || f != again.Fingerprint(p, "a", v) {
		t.Errorf("%q, then %q", f, again.Fingerprint(p, "a", v))
	}
	for what, other := range map[string]string{
		"another value": k.Fingerprint(p, "a", hidden.New(planted+"x")), "another key": k.Fingerprint(p, "b", v),
		"another Secret": k.Fingerprint(Place{"Secret", "x"}, "a", v), "another sealing key": wrong.Fingerprint(p, "a", v),
	} {
		if other == f {
			t.Errorf("%s has the same fingerprint", what)
		}
	}
}

// TestKeyFile: the file is for its owner alone and is not written over; a file that is missing, damaged, another, of a newer
// version or readable by others is refused with the reason and without any of the key.
//
// Covers: issue4 seal key
func TestKeyFile(t *testing.T) {
	k, path := keys(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Create(path, day); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made over another: %v", err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte, mode fs.FileMode) string {
		t.Helper()
		f := filepath.Join(filepath.Dir(path), name)
		if err := os.WriteFile(f, text, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(f, mode); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if _, err := Read(filepath.Join(filepath.Dir(path), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Read(write("open", good, 0o640)); !errors.Is(err, ErrReadable) {
		t.Errorf("a file the group can read: %v", err)
	}
	if _, err := Read(filepath.Dir(path)); err == nil {
		t.Error("a folder is read")
	}
	for at := range good { // any byte of it
		bad := append([]byte(nil), good...)
		bad[at] ^= 4
		got, err := Read(write("bad", bad, 0o600))
		if err == nil && got.Current() == k.Current() {
			t.Fatalf("byte %d is changed, and the key is the same", at)
		}
		if err != nil && strings.Contains(err.Error(), string(good[len(good)-40:len(good)-10])) {
			t.Fatalf("the error holds the key: %v", err)
		}
	}
	for n := range good {
		if _, err := Read(write("short", good[:n], 0o600)); err == nil {
			t.Fatalf("the first %d bytes are read", n)
		}
	}
	other := filepath.Join(filepath.Dir(path), "other")
	for what, payload := range map[string]string{
		"no JSON": "x", "no keys": `{"keys":[]}`, "a short key": `{"keys":[{"name":"0011223344556677","key":"AAAA"}]}`,
		"a name that does not fit": `{"keys":[{"name":"0011223344556677","key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}]}`,
	} {
		if err := atomicfile.Write(other, fileKind, fileFormat, []byte(payload)); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(other); err == nil {
			t.Errorf("%s: read", what)
		}
	}
	if err := atomicfile.Write(other, fileKind, fileFormat+1, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(other); !errors.Is(err, atomicfile.ErrNewer) {
		t.Errorf("a newer file: %v", err)
	}
}

// TestRenew: a new key seals from then on, and the older ones open what they sealed, after reading the file again too.
//
// Covers: issue4 secret rotation
func TestRenew(t *testing.T) {
	first, path := keys(t)
	p := Place{"Secret", "pager"}
	old := mustSeal(t, first, p, map[string]hidden.Text{"a": hidden.New(planted)})
	second, err := first.Renew(path, day.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	fresh := mustSeal(t, second, p, map[string]hidden.Text{"a": hidden.New(planted)})
	if fresh.Master != second.Current() || fresh.Master == old.Master || again.Current() != second.Current() {
		t.Errorf("sealed by %s, %s; the file begins with %s", old.Master, fresh.Master, again.Current())
	}
	for _, s := range []*Sealed{old, fresh} {
		if v, err := again.Open(p, s, "a"); err != nil || v.Reveal() != planted {
			t.Errorf("by %s: %v", s.Master, err)
		}
	}
	if _, err := first.Open(p, fresh, "a"); !errors.Is(err, ErrNoKey) {
		t.Errorf("the older keys alone: %v", err)
	}
	for len(again.list) < maxKeys {
		again.list = append(again.list, again.list[0])
	}
	if _, err := again.Renew(path, day); err == nil {
		t.Error("the file grows without end")
	}
}

// BenchmarkSealOpen seals a Secret of one value of 32 bytes and opens it.
func BenchmarkSealOpen(b *testing.B) {
	k, _ := keys(b)
	p := Place{"Secret", "pager"}
	values := map[string]hidden.Text{"a": hidden.New(strings.Repeat("x", 32))}
	for b.Loop() {
		s, err := k.Seal(p, values)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := k.Open(p, s, "a"); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzOpen: whatever stands in the place of a sealed value, opening it gives an error and never a panic; only what the key
// itself sealed opens.
//
// Covers: issue4 secrets sealed
func FuzzOpen(f *testing.F) {
	k, _ := keys(f)
	p := Place{"Secret", "pager"}
	good, err := json.Marshal(mustSeal(f, k, p, map[string]hidden.Text{"a": hidden.New(planted)}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(strings.Replace(string(good), `"a"`, `"b"`, 1)))
	f.Add([]byte(`{"format":1,"master":"` + k.Current() + `","key":"AAAA","values":{"a":""}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Sealed
		if json.Unmarshal(text, &s) != nil {
			return
		}
		if v, err := k.Open(p, &s, "a"); err == nil && v.Reveal() != planted {
			t.Errorf("%q opens as %q", text, v.Reveal())
		}
		if err := k.Check(p, &s); err == nil && len(s.Values) > 0 {
			if _, ok := s.Values["a"]; !ok || len(s.Values) > 1 {
				t.Errorf("%q is whole", text)
			}
		}
	})
}
