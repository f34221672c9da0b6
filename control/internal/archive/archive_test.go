package archive

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func opened(t testing.TB, path string, limit int64) *Archive {
	t.Helper()
	a := New(path, limit)
	if err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// at is the ID of a second, and second its time.
func at(s int) string          { return formatID(second(s).UnixNano()) }
func second(s int) time.Time   { return time.Unix(int64(s), 0).UTC() }
func file(t testing.TB) string { return filepath.Join(t.TempDir(), "history.db") }
func ids(rows []SwitchRow) (out []string) {
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

// entries are the switches of seconds from..to-1, of two services in turn.
func entries(from, to int) []SwitchPart {
	var out []SwitchPart
	for i := from; i < to; i++ {
		out = append(out, SwitchPart{ID: at(i), Service: fmt.Sprintf("s%d", i%2), Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	return out
}

// TestTwiceIsOnce proves that what is written again changes nothing, that later records find their switch, and that one
// whose switch is not kept is left out.
// Covers: B8
func TestTwiceIsOnce(t *testing.T) {
	a := opened(t, file(t), 0)
	parts := append(entries(1, 4),
		SwitchPart{ID: at(2), Part: Publication, Value: []byte(`"p"`)}, SwitchPart{ID: at(2), Part: Undone, Value: []byte(`"u"`)},
		SwitchPart{ID: at(99), Part: Undone, Value: []byte(`"of nothing"`)})
	for range 2 {
		must(t, a.WriteSwitches(t.Context(), parts, 7))
	}
	must(t, a.WriteSwitches(t.Context(), []SwitchPart{{ID: at(2), Service: "other", Value: []byte("other")}}, 0))
	rows, err := a.Switches(t.Context(), SwitchQuery{Limit: 10})
	must(t, err)
	if want := []string{at(3), at(2), at(1)}; !slices.Equal(ids(rows), want) {
		t.Fatalf("%v, want %v", ids(rows), want)
	}
	if r := rows[1]; string(r.Entry) != `{"n":2}` || string(r.Publication) != `"p"` || string(r.Undone) != `"u"` {
		t.Errorf("%s %s %s", r.Entry, r.Publication, r.Undone)
	}
	if n, err := a.Cursor(t.Context(), SwitchLog); err != nil || n != 7 {
		t.Errorf("cursor %d, %v; want 7", n, err)
	}
	if n, err := a.Cursor(t.Context(), AuditLog); err != nil || n != 0 {
		t.Errorf("cursor of the other log %d, %v; want 0", n, err)
	}
	if err := a.WriteSwitches(t.Context(), []SwitchPart{{ID: "no number"}}, 9); err == nil {
		t.Error("an ID that is none is taken")
	}
	if n, _ := a.Cursor(t.Context(), SwitchLog); n != 7 {
		t.Errorf("cursor %d after a write that failed, want 7", n)
	}
}

// TestPagesOfSwitches proves that pages by cursor, service and time give every entry once.
// Covers: B8
func TestPagesOfSwitches(t *testing.T) {
	a := opened(t, file(t), 0)
	must(t, a.WriteSwitches(t.Context(), entries(1, 1201), 1))
	var got []string
	for q := (SwitchQuery{Service: "s1", Since: second(101), Limit: 7}); ; {
		rows, err := a.Switches(t.Context(), q)
		must(t, err)
		got = append(got, ids(rows)...)
		if len(rows) < q.Limit {
			break
		}
		q.Before = rows[len(rows)-1].ID
	}
	var want []string
	for i := 1199; i >= 101; i -= 2 {
		want = append(want, at(i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
}

func line(s int, action, name, document string) Line {
	l := Line{ID: at(s), Revision: int64(s), Time: second(s), Actor: "anna", Action: action, Kind: "Service", Name: name, Reason: fmt.Sprint("r", s)}
	if l.Gone = document == ""; !l.Gone {
		l.Document = []byte(document)
	}
	return l
}

// TestRevisions proves that every write of a resource is a revision with its document, that a deletion is one too, that a
// line without a document (a node's) is none, and that resources no line told of are there from the first copy on.
// Covers: issue4 history
func TestRevisions(t *testing.T) {
	a := opened(t, file(t), 0)
	node := Line{ID: at(9), Revision: 9, Time: second(9), Actor: "bob", Action: "join", Kind: "Node", Name: "shop"}
	lines := []Line{line(1, "create", "shop", "one"), line(2, "update", "shop", "two"), line(3, "create", "mail", "mail"), line(4, "delete", "shop", ""), node}
	for range 2 {
		must(t, a.WriteAudit(t.Context(), lines, 9))
		must(t, a.Seed(t.Context(), []Line{
			{Revision: 3, Time: second(3), Kind: "Service", Name: "mail", Document: []byte("mail")}, // known
			{Revision: 1, Time: second(3), Kind: "Service", Name: "old", Document: []byte("old")},
			{Revision: 1, Time: second(3), Kind: "Service", Name: "older", Document: []byte("older")},
		}))
	}
	got := func(name string) (out []string) {
		must(t, a.Revisions(t.Context(), "Service", name, "", 10, func(r Line) error {
			out = append(out, fmt.Sprint(r.Revision, r.Action, string(r.Document), r.Gone))
			return nil
		}))
		return out
	}
	for name, want := range map[string]string{
		"shop": "[4deletetrue 2updatetwofalse 1createonefalse]", "mail": "[3createmailfalse]", "old": "[1oldfalse]", "older": "[1olderfalse]", "none": "[]",
	} {
		if g := fmt.Sprint(got(name)); g != want {
			t.Errorf("%s: %s, want %s", name, g, want)
		}
	}
	two, err := a.Revision(t.Context(), "Service", "shop", 2)
	must(t, err)
	if len(two) != 2 || string(two[0].Document) != "two" || string(two[1].Document) != "one" || !two[0].Time.Equal(second(2)) || two[0].Reason != "r2" {
		t.Errorf("revision 2 and the one before: %+v", two)
	}
	if none, err := a.Revision(t.Context(), "Service", "shop", 77); err != nil || len(none) != 0 {
		t.Errorf("a revision that never was: %v, %v", none, err)
	}
	for q, want := range map[AuditQuery]string{
		{}:                        "[9 4 3 2 1]",
		{Kind: "service"}:         "[4 3 2 1]",
		{Name: "shop"}:            "[9 4 2 1]",
		{Actor: "bob"}:            "[9]",
		{Since: second(3)}:        "[9 4 3]",
		{Before: at(3)}:           "[2 1]",
		{Kind: "Node", Name: "x"}: "[]",
	} {
		q.Limit = 10
		rows, err := a.Audit(t.Context(), q)
		must(t, err)
		revs := []int64{}
		for _, r := range rows {
			revs = append(revs, r.Revision)
		}
		if fmt.Sprint(revs) != want {
			t.Errorf("%+v: %v, want %s", q, revs, want)
		}
	}
}

// TestPruneByAge proves that pruning leaves everything needed to go back to any state since then: the revision in force
// at that time stays, whatever its age, and what was deleted before goes whole.
// Covers: issue4 history, issue4 prune
func TestPruneByAge(t *testing.T) {
	a := opened(t, file(t), 0)
	must(t, a.WriteSwitches(t.Context(), entries(1, 6001), 1))
	lines := []Line{
		line(1, "create", "shop", "one"), line(2, "update", "shop", "two"), line(200, "update", "shop", "three"),
		line(3, "create", "gone", "x"), line(4, "delete", "gone", ""), line(5, "create", "going", "x"), line(150, "delete", "going", ""),
	}
	must(t, a.WriteAudit(t.Context(), lines, 1))
	must(t, a.Prune(t.Context(), second(100)))
	rows, err := a.Switches(t.Context(), SwitchQuery{Limit: 10000})
	must(t, err)
	if len(rows) != 5901 || rows[len(rows)-1].ID != at(100) {
		t.Errorf("%d switches from %s on, want 5901 from %s on", len(rows), rows[len(rows)-1].ID, at(100))
	}
	for name, want := range map[string]string{"shop": "[200 2]", "gone": "[]", "going": "[150 5]"} {
		revs := []int64{}
		must(t, a.Revisions(t.Context(), "Service", name, "", 10, func(r Line) error {
			revs = append(revs, r.Revision)
			return nil
		}))
		if fmt.Sprint(revs) != want {
			t.Errorf("%s: %v, want %s", name, revs, want)
		}
	}
	audit, err := a.Audit(t.Context(), AuditQuery{Limit: 10})
	must(t, err)
	if len(audit) != 2 {
		t.Errorf("%d audit lines, want 2", len(audit))
	}
}

// TestBoundBySize proves that a file above its bound drops its oldest history, gives the room back to the disk, and keeps
// the newest.
// Covers: issue4 prune
func TestBoundBySize(t *testing.T) {
	path := file(t)
	a := opened(t, path, 2<<20)
	big := bytes.Repeat([]byte("x"), 2000)
	for from := 1; from < 5001; from += 1000 {
		parts := entries(from, from+1000)
		for i := range parts {
			parts[i].Value = big
		}
		must(t, a.WriteSwitches(t.Context(), parts, 1))
	}
	must(t, a.WriteAudit(t.Context(), []Line{line(5001, "create", "shop", "one")}, 1))
	dropped, err := a.Shrink(t.Context())
	if err != nil || !dropped {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	if size, err := a.Size(t.Context()); err != nil || size > 2<<20 || size < 1<<20 {
		t.Errorf("%d bytes are used, %v; want a little less than the bound", size, err)
	}
	must(t, a.Sync(t.Context()))
	if info, err := os.Stat(path); err != nil || info.Size() > 3<<20 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	rows, err := a.Switches(t.Context(), SwitchQuery{Limit: 1})
	if err != nil || len(rows) != 1 || rows[0].ID != at(5000) {
		t.Errorf("the newest switch is gone: %v, %v", ids(rows), err)
	}
	if dropped, err := a.Shrink(t.Context()); err != nil || dropped {
		t.Errorf("a file within its bound lost something: %v, %v", dropped, err)
	}
}

// TestOlderFileIsMigrated proves that a file of every earlier version becomes one of this version, with its rows, and with
// the very schema of a new one; and that a newer one is refused and not touched.
// Covers: issue4 migration
func TestOlderFileIsMigrated(t *testing.T) {
	schema := func(path string) (out []string) {
		db, err := open(path, false)
		must(t, err)
		defer db.Close()
		rows, err := db.QueryContext(t.Context(), `SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name`)
		must(t, err)
		defer rows.Close()
		for rows.Next() {
			var s string
			must(t, rows.Scan(&s))
			out = append(out, s)
		}
		return out
	}
	fresh := file(t)
	opened(t, fresh, 0)
	want := schema(fresh)
	for version := 1; version <= len(steps); version++ {
		path := file(t)
		db, err := open(path, true)
		must(t, err)
		for n := range version {
			must(t, step(t.Context(), db, n))
		}
		_, err = db.ExecContext(t.Context(), `INSERT INTO switches (id, service, entry) VALUES (1, 's', '{}'); INSERT INTO cursors VALUES ('switches', 5)`)
		must(t, errors.Join(err, db.Close()))
		a := opened(t, path, 0)
		rows, err := a.Switches(t.Context(), SwitchQuery{Service: "s", Limit: 5})
		if err != nil || len(rows) != 1 || a.Made() {
			t.Errorf("version %d: %d rows, %v, taken for new: %v", version, len(rows), err, a.Made())
		}
		if n, err := a.Cursor(t.Context(), SwitchLog); n != 5 || err != nil {
			t.Errorf("version %d: cursor %d, %v", version, n, err)
		}
		if got := schema(path); !slices.Equal(got, want) {
			t.Errorf("version %d: schema\n%s\nwant\n%s", version, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	path := file(t)
	db, err := open(path, true)
	must(t, err)
	must(t, step(t.Context(), db, 0))
	_, err = db.ExecContext(t.Context(), fmt.Sprintf("PRAGMA user_version = %d", len(steps)+1))
	must(t, errors.Join(err, db.Close()))
	if err := New(path, 0).Open(t.Context()); !errors.Is(err, ErrNewer) {
		t.Errorf("%v, want that it is newer", err)
	}
}

// TestDamagedFileIsSetAside proves that a file that is torn, overwritten or another program's is called damaged, that it
// is renamed whole, and that a new one begins in its place.
// Covers: issue2 state files, issue4 damage
func TestDamagedFileIsSetAside(t *testing.T) {
	foreign := func(t *testing.T, path string) {
		must(t, os.Remove(path))
		db, err := sql.Open("sqlite", path)
		must(t, err)
		_, err = db.ExecContext(t.Context(), `CREATE TABLE theirs (x)`)
		must(t, errors.Join(err, db.Close()))
	}
	for name, harm := range map[string]func(t *testing.T, path string){
		"text": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat("hello ", 100)), 0o600))
		},
		"cut short": func(t *testing.T, path string) { must(t, os.Truncate(path, 4096+100)) },
		"foreign":   foreign,
		"overwritten": func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			must(t, err)
			for i := 4096; i < len(b); i++ { // all but the header
				b[i] = 0xa5
			}
			must(t, os.WriteFile(path, b, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t)
			a := opened(t, path, 0)
			must(t, a.WriteSwitches(t.Context(), entries(1, 1000), 1))
			must(t, a.Close())
			harm(t, path)
			before, err := os.ReadFile(path)
			must(t, err)
			err = a.Open(t.Context())
			if err == nil { // some damage shows only where it is
				_, err = a.Switches(t.Context(), SwitchQuery{Limit: 1000})
				if check := a.Check(t.Context()); !errors.Is(check, ErrDamaged) {
					t.Errorf("check: %v", check)
				}
			}
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("%v, want that it is damaged", err)
			}
			to, err := a.SetAside()
			must(t, err)
			after, err := os.ReadFile(to)
			if err != nil || len(after) != len(before) {
				t.Fatalf("%s is not the damaged file: %v", to, err)
			}
			for i := range before {
				if before[i] != after[i] {
					t.Fatalf("byte %d of the damaged file changed", i)
				}
			}
			must(t, a.Open(t.Context()))
			if !a.Made() {
				t.Error("the new file is not called new")
			}
			must(t, a.WriteSwitches(t.Context(), entries(1, 10), 1))
		})
	}
}

// TestTakenFileIsNoticed proves that a file removed while it is open is noticed: what is written to it would be lost.
// Covers: issue4 damage
func TestTakenFileIsNoticed(t *testing.T) {
	path := file(t)
	a := opened(t, path, 0)
	if !a.Present() {
		t.Error("the open file is called absent")
	}
	must(t, os.Remove(path))
	if a.Present() {
		t.Error("the removed file is called present")
	}
	if to, err := a.SetAside(); err != nil || to != "" {
		t.Errorf("nothing to set aside: %q, %v", to, err)
	}
	must(t, a.Open(t.Context()))
	must(t, a.WriteSwitches(t.Context(), entries(1, 10), 1))
}

// TestFullDisk proves on a really full disk that a write fails by name, that nothing of it is half there, that reading
// goes on, and that writing does once there is room.
// Covers: issue4 disk full
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	a := New(filepath.Join(dir, "history.db"), 0)
	must(t, a.Open(t.Context()))
	defer a.Close()
	must(t, a.WriteSwitches(t.Context(), entries(1, 101), 1))
	big := entries(101, 103)
	big[0].Value, big[1].Value = []byte("small"), bytes.Repeat([]byte("x"), 2<<20)
	if err := a.WriteSwitches(t.Context(), big, 2); !errors.Is(err, ErrFull) {
		t.Fatalf("%v, want that it is full", err)
	}
	rows, err := a.Switches(t.Context(), SwitchQuery{Limit: 1000})
	if n, _ := a.Cursor(t.Context(), SwitchLog); err != nil || len(rows) != 100 || n != 1 {
		t.Errorf("%d rows, cursor %d, %v; want 100 and 1", len(rows), n, err)
	}
	must(t, a.WriteSwitches(t.Context(), big[:1], 3))
}

// TestClosedFileRefuses proves that a file that is not open says so, and can be opened.
// Covers: issue4 history
func TestClosedFileRefuses(t *testing.T) {
	a := New(file(t), 0)
	if _, err := a.Switches(t.Context(), SwitchQuery{Limit: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want that it is closed", err)
	}
	must(t, a.Open(t.Context()))
	defer a.Close()
	if info, err := os.Stat(a.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := New(filepath.Join(t.TempDir(), "no", "folder"), 0).Open(t.Context()); err == nil {
		t.Error("a file in no folder is opened")
	}
}

// manySwitches writes n switches of the size they have with 10 points, in batches as they come.
func manySwitches(t testing.TB, a *Archive, n int) {
	t.Helper()
	vote := `{"edge":"east","address":"192.0.2.1","point":"p","state":"down","ageSeconds":1.5,"cause":"timeout"},`
	value := []byte(`{"service":"s","rule":"default","votes":[` + strings.TrimSuffix(strings.Repeat(vote, 10), ",") + `]}`)
	for from := 0; from < n; from += 1000 {
		parts := make([]SwitchPart, 0, 2000)
		for i := from; i < min(from+1000, n); i++ {
			parts = append(parts, SwitchPart{ID: formatID(int64(i + 1)), Service: fmt.Sprintf("s%d", i%100), Value: value})
			if i > 0 {
				parts = append(parts, SwitchPart{ID: formatID(int64(i)), Part: Undone, Value: []byte(`{"seconds":3}`)})
			}
		}
		must(t, a.WriteSwitches(t.Context(), parts, int64(from+1)))
	}
}

// TestManySwitches proves that 100,000 switches are written and read in pages with little memory. Without STEER_LONG=1
// it is a tenth of them.
// Covers: B8, issue4 history
func TestManySwitches(t *testing.T) {
	n := 10_000
	if os.Getenv("STEER_LONG") != "" {
		n = 100_000
	}
	path := file(t)
	a := opened(t, path, 0)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	manySwitches(t, a, n)
	seen, last := 0, ""
	for {
		rows, err := a.Switches(t.Context(), SwitchQuery{Before: last, Limit: 1000})
		must(t, err)
		if seen += len(rows); len(rows) < 1000 {
			break
		}
		last = rows[len(rows)-1].ID
	}
	if seen != n {
		t.Errorf("%d read, %d written", seen, n)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 32<<20 {
		t.Errorf("%d MiB more are held after it", grown>>20)
	}
	size, err := a.Size(t.Context())
	must(t, err)
	t.Logf("%d switches, %d bytes each", n, size/int64(n))
}

// BenchmarkWriteSwitches is the rate at which switches with the votes of 10 points go into the file.
func BenchmarkWriteSwitches(b *testing.B) {
	a := New(file(b), 0)
	must(b, a.Open(context.Background()))
	defer a.Close()
	b.ResetTimer()
	manySwitches(b, a, b.N)
}

// TestCopy proves that a copy has every row, that only its owner reads it, and that it takes the place of no file.
// Covers: issue4 backup
func TestCopy(t *testing.T) {
	a := opened(t, file(t), 0)
	must(t, a.WriteSwitches(t.Context(), entries(1, 4), 7))
	path := file(t)
	must(t, a.CopyTo(t.Context(), path))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %04o", info.Mode().Perm())
	}
	rows, err := opened(t, path, 0).Switches(t.Context(), SwitchQuery{Limit: 10})
	if want := []string{at(3), at(2), at(1)}; err != nil || !slices.Equal(ids(rows), want) {
		t.Errorf("%v, want %v: %v", ids(rows), want, err)
	}
	if err := a.CopyTo(t.Context(), path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
}
