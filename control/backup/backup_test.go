package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// made is a backup with a store of three values of so many bytes each, and two files.
func made(t testing.TB, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	m := &Manifest{Header: Header{Program: "test", Created: time.Unix(1000, 0).UTC()}, Revision: 9}
	w, err := NewWriter(&b, m)
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	check(w.Add(CoreState, 5, strings.NewReader("state, and what came later")))
	for i := range 3 {
		check(w.AddPair(Pair{Key: fmt.Sprint("k", i), Created: 1, Written: 2, Version: 3}, bytes.Repeat([]byte{'x', byte(i * 100)}, size/2)))
	}
	check(w.EndStore())
	check(w.Add("tape/0000000001-20260102T030405.000Z.tape.gz", 3, strings.NewReader("abc")))
	check(w.Close())
	return b.Bytes()
}

// TestBackupIsRead proves that what was written is read: members in order, pairs with values that are text and that are
// not, of a file only what it had at the time.
// Covers: issue4 backup
func TestBackupIsRead(t *testing.T) {
	var names []string
	pairs := 0
	m, err := Read(bytes.NewReader(made(t, partBytes/4)), func(m Member, content io.Reader) error {
		names = append(names, m.Name)
		if InStore(m.Name) {
			return Pairs(m, content, func(p Pair, value []byte) error {
				if want := bytes.Repeat([]byte{'x', byte(pairs * 100)}, partBytes/8); p.Key != fmt.Sprint("k", pairs) || p.Written != 2 || !bytes.Equal(value, want) {
					t.Errorf("pair %d is %s, %d bytes", pairs, p.Key, len(value))
				}
				pairs++
				return nil
			})
		}
		b, err := io.ReadAll(content)
		if m.Name == CoreState && string(b) != "state" {
			t.Errorf("%s is %q", m.Name, b)
		}
		return err
	})
	if err != nil || pairs != 3 || m.Keys != 3 || m.Revision != 9 || m.Format != Format || len(m.Members) != len(names) || len(names) < 4 {
		t.Errorf("%d pairs, members %v, manifest %+v, %v", pairs, names, m, err)
	}
}

// TestDamageIsFound proves that a file that is cut off or changed at any of many places is damaged, with and without a
// reader that looks at it, and never read as whole.
// Covers: issue4 backup
func TestDamageIsFound(t *testing.T) {
	whole := made(t, 2000)
	step := max(len(whole)/150, 1)
	same := 0
	for at := 0; at < len(whole); at += step {
		if _, err := Verify(bytes.NewReader(whole[:at])); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut off at %d: %v", at, err)
		}
		if at <= 10 { // gzip's header names a time and a system, of which nothing depends
			continue
		}
		b := bytes.Clone(whole)
		b[at] ^= 1
		_, err := Verify(bytes.NewReader(b))
		if err == nil && bytes.Equal(unzipped(t, b), unzipped(t, whole)) { // a bit that says nothing, between two blocks
			same++
			continue
		}
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("changed at %d of %d: %v", at, len(whole), err)
		}
	}
	if same > 15 {
		t.Errorf("%d changes are said to change nothing", same)
	}
}

func unzipped(t *testing.T, file []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// entry is one file of a tar made by hand.
type entry struct{ name, text string }

func packed(t testing.TB, entries ...entry) []byte {
	t.Helper()
	b, err := pack(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pack fails where a tar cannot hold the name of an entry.
func pack(entries ...entry) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.text)), Mode: 0o600}
		if strings.HasPrefix(e.text, "-> ") {
			h.Typeflag, h.Linkname, h.Size, e.text = tar.TypeSymlink, e.text[3:], 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// TestForeignFilesAreRefused proves that archives which are no backups of this form are refused by the right error: of a
// newer version, without a manifest, with one that says something else, with names that lead elsewhere, with links.
// Covers: issue4 backup
func TestForeignFilesAreRefused(t *testing.T) {
	head := func(format int) entry {
		b, err := json.Marshal(Header{Format: format, Program: "9.9"})
		if err != nil {
			t.Fatal(err)
		}
		return entry{headerName, string(b)}
	}
	empty := entry{manifestName, `{"format":1,"members":[]}`}
	for what, c := range map[string]struct {
		file []byte
		want error
	}{
		"of a newer format":            {packed(t, head(Format+1), entry{"of/the/future", "x"}), ErrNewer},
		"without a format":             {packed(t, head(0), empty), ErrDamaged},
		"another archive":              {packed(t, entry{"etc/passwd", "x"}), ErrDamaged},
		"an empty archive":             {packed(t), ErrDamaged},
		"without a manifest":           {packed(t, head(1), entry{CoreState, "x"}), ErrDamaged},
		"a member more":                {packed(t, head(1), entry{CoreState, "x"}, empty), ErrDamaged},
		"a member less":                {packed(t, head(1), entry{manifestName, `{"format":1,"members":[{"name":"core.state","size":1}]}`}), ErrDamaged},
		"another sum":                  {packed(t, head(1), entry{CoreState, "x"}, entry{manifestName, `{"format":1,"members":[{"name":"core.state","size":1,"sha256":"00"}]}`}), ErrDamaged},
		"something after the manifest": {packed(t, head(1), empty, entry{CoreState, "x"}), ErrDamaged},
		"a name that leads out":        {packed(t, head(1), entry{"../../etc/cron.d/x", "x"}, empty), ErrDamaged},
		"a whole path":                 {packed(t, head(1), entry{"/etc/cron.d/x", "x"}, empty), ErrDamaged},
		"a link":                       {packed(t, head(1), entry{CoreState, "-> /etc/passwd"}, empty), ErrDamaged},
		"a member twice":               {packed(t, head(1), entry{CoreState, "x"}, entry{CoreState, "x"}, empty), ErrDamaged},
		"a manifest of another":        {packed(t, head(1), entry{manifestName, `{"format":1,"created":"2020-01-01T00:00:00Z","members":[]}`}), ErrDamaged},
		"a manifest that is no JSON":   {packed(t, head(1), entry{manifestName, "{"}), ErrDamaged},
		"nothing":                      {nil, ErrDamaged},
	} {
		if _, err := Verify(bytes.NewReader(c.file)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if m, err := Verify(bytes.NewReader(packed(t, head(1), empty))); err != nil || m.Format != 1 {
		t.Errorf("the smallest that is whole: %v", err)
	}
}

// TestReadErrorsAreNoDamage proves that a disk that cannot be read, or a member that cannot be written, is not called a
// damaged backup.
// Covers: issue4 backup
func TestReadErrorsAreNoDamage(t *testing.T) {
	broken := errors.New("input/output error")
	whole := made(t, 2000)
	_, err := Verify(io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), errReader{broken}))
	if !errors.Is(err, broken) || errors.Is(err, ErrDamaged) {
		t.Errorf("a disk that fails: %v", err)
	}
	_, err = Read(bytes.NewReader(whole), func(Member, io.Reader) error { return broken })
	if !errors.Is(err, broken) || errors.Is(err, ErrDamaged) {
		t.Errorf("a member that cannot be written: %v", err)
	}
}

type errReader struct{ err error }

// Read implements io.Reader.
func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// FuzzRead proves that no file, whatever is in it, makes the reader panic, take a name that leads elsewhere, or say that
// it is whole without a manifest that fits.
// Covers: issue4 backup
func FuzzRead(f *testing.F) {
	f.Add("steer-backup.json", `{"format":1}`, "core.state", "x", `{"format":1,"members":[{"name":"core.state","size":1,"sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}]}`)
	f.Add("steer-backup.json", `{"format":2}`, "store/000001.jsonl", "{}\n", "")
	f.Fuzz(func(t *testing.T, first, head, name, text, manifest string) {
		for _, content := range []string{head, text, manifest} {
			if strings.HasPrefix(content, "-> ") {
				return // this test's notation of a link
			}
		}
		file, err := pack(entry{first, head}, entry{name, text}, entry{manifestName, manifest})
		if err != nil {
			return
		}
		m, err := Read(bytes.NewReader(file), func(m Member, content io.Reader) error {
			if !known.MatchString(m.Name) || strings.Contains(m.Name, "..") {
				t.Errorf("member %q", m.Name)
			}
			if InStore(m.Name) {
				return Pairs(m, content, func(Pair, []byte) error { return nil })
			}
			return nil
		})
		if err == nil && (len(m.Members) != 1 || m.Members[0].Name != name) {
			t.Errorf("whole, with members %+v", m.Members)
		}
	})
}
