package geo_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/maxmind/mmdbwriter"

	"steerpoint/geo"
)

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace puts a file in place by rename, as downloaders do.
func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	write(t, path+".new", data)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func countryOf(s *geo.Store, addr string) string {
	return s.DB().Lookup(netip.MustParseAddr(addr)).Place.Country
}

// TestStoreKeepsTheOldOnABadFile is the life of a store: built-in table, first load, renewal by rename and in place,
// and every way a file goes bad, each of which changes nothing and is named.
//
// Covers: field 58, field 59, field 61
func TestStoreKeepsTheOldOnABadFile(t *testing.T) {
	dir := t.TempDir()
	list, db := filepath.Join(dir, "own.list"), filepath.Join(dir, "city.mmdb")
	jp := writeMMDB(t, mmdbwriter.Options{}, record{"10.0.0.0/8", flatRecord("JP", "", "")})
	fr := writeMMDB(t, mmdbwriter.Options{}, record{"10.0.0.0/8", flatRecord("FR", "", "")})
	store, err := geo.NewStore(geo.Config{Lists: []string{list}, Databases: []string{db}})
	if err != nil {
		t.Fatal(err)
	}
	if got := countryOf(store, "8.8.8.8"); got != "US" {
		t.Errorf("before the first load 8.8.8.8 is in %q, want the built-in US", got)
	}
	if _, err := store.Reload(); err == nil || !strings.Contains(err.Error(), list) || !strings.Contains(err.Error(), db) {
		t.Errorf("two files are absent: %v, want both named", err)
	}
	write(t, list, []byte("10.1.0.0/16 country=CN\n"))
	write(t, db, jp)
	reload := func(wantChanged bool) {
		t.Helper()
		if changed, err := store.Reload(); err != nil || changed != wantChanged {
			t.Fatalf("Reload: changed %t, %v; want %t", changed, err, wantChanged)
		}
	}
	reload(true)
	reload(false)
	if a, b, c := countryOf(store, "10.1.0.1"), countryOf(store, "10.2.0.1"), countryOf(store, "8.8.8.8"); a != "CN" || b != "JP" || c != "US" {
		t.Errorf("loaded: %q %q %q, want CN by the list, JP by the database, US by the built-in table", a, b, c)
	}

	for _, bad := range []struct {
		name, code string
		damage     func()
	}{
		{"cut short", geo.CodeMMDB, func() { replace(t, db, append(fr[:len(fr)/2:len(fr)/2], []byte(mmdbMarker)...)) }},
		{"cut before the marker", geo.CodeFormat, func() { replace(t, db, fr[:len(fr)/2]) }},
		{"empty", geo.CodeEmpty, func() { write(t, db, nil) }},
		{"gzip", geo.CodeFormat, func() { write(t, db, []byte("\x1f\x8b\x08\x00rest")) }},
		{"ipdb", geo.CodeDamaged, func() { write(t, db, []byte("\x00\x00\x00\x20{\"build\":1}\x00\x00")) }},
		{"an error page", geo.CodeListLine, func() { write(t, db, []byte("<html>not found</html>\n")) }},
		{"a folder", geo.CodeRead, func() { remove(t, db); mkdir(t, db) }},
		{"gone", geo.CodeRead, func() { remove(t, db) }},
	} {
		bad.damage()
		before := store.DB()
		changed, err := settle(store)
		var e *geo.Error
		if changed || !errors.As(err, &e) || e.Code != bad.code || e.File != db {
			t.Errorf("%s: changed %t, %v; want %s naming the file", bad.name, changed, err, bad.code)
		}
		if store.DB() != before || countryOf(store, "10.2.0.1") != "JP" {
			t.Errorf("%s: the old database is not kept", bad.name)
		}
		if f := store.Files(); f[0].Err != nil || f[1].Err == nil || !f[1].Kept {
			t.Errorf("%s: the files stand so: %+v", bad.name, f)
		}
	}

	// A bad list keeps the list from before, and does not keep the new database from being used.
	write(t, db, fr)
	replace(t, list, []byte("10.1.0.0/33 country=CN\n"))
	changed, err := settle(store)
	if !changed || err == nil || !strings.Contains(err.Error(), list+":1:") || strings.Contains(err.Error(), db) {
		t.Errorf("a bad list: changed %t, %v", changed, err)
	}
	if a, b := countryOf(store, "10.1.0.1"), countryOf(store, "10.2.0.1"); a != "CN" || b != "FR" {
		t.Errorf("with a bad list: %q %q, want CN by the list before, FR by the new database", a, b)
	}
	replace(t, list, []byte("10.1.0.0/16 country=DE\n"))
	reload(true)
	if got := countryOf(store, "10.1.0.1"); got != "DE" {
		t.Errorf("after repair 10.1.0.1 is in %q, want DE", got)
	}
}

// settle looks as often as a store asks for, as the program does after a signal.
func settle(s *geo.Store) (changed bool, err error) {
	for {
		now, err := s.Reload()
		changed = changed || now
		if !s.Unsettled() {
			return changed, err
		}
	}
}

// TestWrittenInPlace proves that a file that is written in place is not taken before it has come to rest, and that a
// rename is taken at once; what is not replaced is not read again.
//
// Covers: issue4 reload, field 59
func TestWrittenInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.list")
	write(t, path, []byte("10.0.0.0/8 country=CN\n"))
	store, err := geo.NewStore(geo.Config{Lists: []string{path}, NoBuiltin: true})
	if err != nil {
		t.Fatal(err)
	}
	look := func(wantChanged, wantUnsettled bool, want string) {
		t.Helper()
		changed, err := store.Reload()
		if err != nil || changed != wantChanged || store.Unsettled() != wantUnsettled || countryOf(store, "10.0.0.1") != want {
			t.Fatalf("changed %t, unsettled %t, %v, country %q; want %t %t %q",
				changed, store.Unsettled(), err, countryOf(store, "10.0.0.1"), wantChanged, wantUnsettled, want)
		}
	}
	look(true, false, "CN")
	appendTo(t, path, "11.0.0.0/8 country=FR\n")
	look(false, true, "CN") // a first half, whole by itself
	appendTo(t, path, "10.0.0.0/9 country=JP\n")
	look(false, true, "CN") // it moved: its writer is not done
	look(true, false, "JP")
	replace(t, path, []byte("10.0.0.0/8 country=FR\n"))
	look(true, false, "FR")

	// Set back in time to what it was, the file counts as the one that was read: it is not read again.
	stat, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, []byte("10.0.0.0/8 country=DE\n"))
	if err := os.Chtimes(path, stat.ModTime(), stat.ModTime()); err != nil {
		t.Fatal(err)
	}
	look(false, false, "FR")
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

const mmdbMarker = "\xab\xcd\xefMaxMind.com"

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestOverwrittenInPlace proves that a loaded file may be overwritten with garbage at once: it is in memory, not mapped.
//
// Covers: field 59
func TestOverwrittenInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "city.mmdb")
	data := writeMMDB(t, mmdbwriter.Options{}, record{"10.0.0.0/8", flatRecord("JP", "", "")})
	write(t, path, data)
	source, err := geo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := geo.New(source).Lookup(netip.MustParseAddr("10.0.0.1")).Place.Country; got != "JP" {
		t.Errorf("10.0.0.1 is in %q, want JP", got)
	}
}

// TestReadersSeeOldOrNew proves that readers during reloads see one whole database; run it with -race.
func TestReadersSeeOldOrNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.list")
	texts := [][]byte{[]byte("10.0.0.0/8 country=CN\n11.0.0.0/8 country=CN\n"), []byte("10.0.0.0/8 country=JP\n11.0.0.0/8 country=JP\n")}
	write(t, path, texts[0])
	store, err := geo.NewStore(geo.Config{Lists: []string{path}, NoBuiltin: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Reload(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				db := store.DB()
				a := db.Lookup(netip.MustParseAddr("10.0.0.1")).Place
				b := db.Lookup(netip.MustParseAddr("11.0.0.1")).Place
				if a != b || a.Country == "" {
					t.Errorf("one database says %v and %v", a, b)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 50 {
		replace(t, path, texts[i%2])
		if _, err := store.Reload(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
}
