package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir, Timeout: 30 * time.Second}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(kind, name string, rev int64, doc string) Write {
	return Write{Kind: kind, Name: name, Revision: rev, Document: json.RawMessage(doc), Meta: Meta{Actor: "test"}}
}

// TestWriteIsAllOrNothing proves compare-and-set over several resources and over the whole set.
func TestWriteIsAllOrNothing(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	now := time.Unix(1000, 0)
	rev, err := s.WriteResources(ctx, 0, []Write{put("Service", "a", 0, `{"a":1}`), put("Zone", "z", 0, `{}`)},
		[]Audit{{Time: now, Actor: "me", Action: "create", Kind: "Service", Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Resources(ctx)
	if err != nil || len(v.Resources) != 2 || v.Generation != rev || v.Resources[0].Revision != rev {
		t.Fatalf("view %+v, %v; want two resources at revision %d", v, err, rev)
	}
	for name, try := range map[string]func() error{
		"old generation": func() error {
			_, err := s.WriteResources(ctx, 0, []Write{put("Service", "b", 0, `{}`)}, nil)
			return err
		},
		"one old revision of two": func() error {
			_, err := s.WriteResources(ctx, rev, []Write{put("Service", "c", 0, `{}`), put("Service", "a", rev-1, `{"a":2}`)}, nil)
			return err
		},
		"create what exists": func() error {
			_, err := s.WriteResources(ctx, rev, []Write{put("Service", "a", 0, `{"a":2}`)}, nil)
			return err
		},
	} {
		if err := try(); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
	}
	after, err := s.Resources(ctx)
	if err != nil || len(after.Resources) != 2 || after.Generation != rev {
		t.Errorf("after refused writes: %+v, %v", after, err)
	}
	trail, err := s.AuditTrail(ctx, 10)
	if err != nil || len(trail) != 1 || trail[0].Actor != "me" {
		t.Errorf("audit %+v, %v", trail, err)
	}
}

// TestWatchKeepsWritesWhole proves that one write arrives as one slice, in order, from a given revision on.
func TestWatchKeepsWritesWhole(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	w := s.WatchResources(ctx, 0)
	gen := int64(0)
	for i := range 3 {
		var ws []Write
		for j := range 200 {
			ws = append(ws, put("Service", fmt.Sprintf("s%d-%d", i, j), 0, `{"long":"`+strings.Repeat("x", 100)+`"}`))
		}
		var err error
		if gen, err = s.WriteResources(ctx, gen, ws, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		batch := <-w
		if len(batch) != 200 || !strings.HasPrefix(batch[0].Name, fmt.Sprintf("s%d-", i)) {
			t.Fatalf("batch %d: %d resources, first %s", i, len(batch), batch[0].Name)
		}
	}
	if _, err := s.WriteResources(ctx, gen, []Write{{Kind: "Service", Name: "s0-0", Revision: mustRev(t, s, "s0-0")}}, nil); err != nil {
		t.Fatal(err)
	}
	if b := <-w; len(b) != 1 || b[0].Document != nil {
		t.Fatalf("deletion arrived as %+v", b)
	}
}

func mustRev(t *testing.T, s *Store, name string) int64 {
	t.Helper()
	v, err := s.Resources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.Resources {
		if r.Name == name {
			return r.Revision
		}
	}
	t.Fatalf("no resource %s", name)
	return 0
}

// TestReopenKeepsEverything proves that acknowledged writes and the order of IDs outlive the process, also when the
// wall clock goes back in between.
func TestReopenKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx := t.Context()
	id := s.NextID(time.Unix(2000, 0))
	if _, err := s.CommitDecisions(ctx, []Commit{{
		Rule: "shop/default", Record: []byte(`{"seq":2}`),
		Switches: []Entry{{id, []byte(`{"n":1}`)}},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	d, err := s.Decisions(ctx)
	if err != nil || string(d["shop/default"]) != `{"seq":2}` {
		t.Fatalf("decisions %v, %v", d, err)
	}
	if next := s.NextID(time.Unix(1000, 0)); next <= id {
		t.Errorf("id %s after restart is not above %s", next, id)
	}
}

// TestBatches proves that thousands of rules commit in order and a rule twice in one call keeps the later record.
func TestBatches(t *testing.T) {
	s := open(t, t.TempDir())
	var cs []Commit
	for i := range 1200 {
		cs = append(cs, Commit{Rule: fmt.Sprintf("s/r%04d", i), Record: []byte("1")})
	}
	cs = append(cs, Commit{Rule: "s/r0003", Record: []byte("2")}, Commit{Rule: "s/r0004"})
	n, err := s.CommitDecisions(t.Context(), cs)
	if err != nil || n != len(cs) {
		t.Fatalf("%d committed, %v", n, err)
	}
	d, err := s.Decisions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(d) != 1199 || string(d["s/r0003"]) != "2" || d["s/r0004"] != nil {
		t.Errorf("%d records, r0003=%q r0004=%q", len(d), d["s/r0003"], d["s/r0004"])
	}
}

// TestBatchLimits proves the bounds of one transaction.
func TestBatchLimits(t *testing.T) {
	big := make([]byte, batchBytes/2)
	for _, c := range []struct {
		name string
		in   []Commit
		want int
	}{
		{"one", []Commit{{Rule: "a"}}, 1},
		{"same rule twice", []Commit{{Rule: "a"}, {Rule: "b"}, {Rule: "a"}}, 2},
		{"bytes", []Commit{{Rule: "a", Record: big}, {Rule: "b", Record: big}, {Rule: "c", Record: big}}, 2},
		{"one too big alone goes alone", []Commit{{Rule: "a", Record: append(big, make([]byte, batchBytes)...)}, {Rule: "b"}}, 1},
	} {
		if got := batchLen(c.in); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestSwitchPages proves order, filter, cursor and later records of the switch log.
// Covers: A12, B8
func TestSwitchPages(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	var ids []string
	for i := range 25 {
		ids = append(ids, s.NextID(time.Unix(int64(1000+i), 0)))
		c := Commit{Rule: "s/r", Record: []byte("1"), Switches: []Entry{{ids[i], fmt.Appendf(nil, `%d`, i)}}}
		if i > 0 {
			c.Undone = []Entry{{ids[i-1], fmt.Appendf(nil, `"undone by %d"`, i)}}
		}
		if _, err := s.CommitDecisions(ctx, []Commit{c}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.WritePublications(ctx, []Entry{{ids[3], []byte(`"p"`)}}); err != nil {
		t.Fatal(err)
	}
	odd := func(b json.RawMessage) bool { return (b[len(b)-1]-'0')%2 == 1 }
	var got []string
	cursor := ""
	for range 10 {
		page, next, err := s.SwitchPage(ctx, cursor, time.Time{}, 5, odd)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			got = append(got, string(r.Entry)+string(r.Publication)+string(r.Undone))
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	want := `23"undone by 24" 21"undone by 22" 19"undone by 20" 17"undone by 18" 15"undone by 16" 13"undone by 14" ` +
		`11"undone by 12" 9"undone by 10" 7"undone by 8" 5"undone by 6" 3"p""undone by 4" 1"undone by 2"`
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	all := func(json.RawMessage) bool { return true }
	if page, _, err := s.SwitchPage(ctx, "", time.Unix(1020, 0), 100, all); err != nil || len(page) != 5 {
		t.Errorf("since: %d entries, %v; want 5", len(page), err)
	}
}

// TestDamagedStoreIsNamed proves that missing and torn files give an error naming the file, and change nothing.
// Covers: issue2 state files
func TestDamagedStoreIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, member string)
		want string
	}{
		"database missing": {func(t *testing.T, m string) { must(t, os.Remove(filepath.Join(m, "snap", "db"))) }, "snap/db is missing"},
		"log missing":      {func(t *testing.T, m string) { must(t, os.RemoveAll(filepath.Join(m, "wal"))) }, "wal holds no log"},
		"database torn": {func(t *testing.T, m string) {
			must(t, os.WriteFile(filepath.Join(m, "snap", "db"), []byte("torn"), 0o600))
		}, "does not start"},
		"log overwritten": {func(t *testing.T, m string) {
			logs, _ := filepath.Glob(filepath.Join(m, "wal", "*.wal"))
			must(t, os.WriteFile(logs[0], []byte(strings.Repeat("garbage!", 4096)), 0o600))
		}, "does not start"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			if _, err := s.WriteResources(t.Context(), 0, []Write{put("Service", "a", 0, `{}`)}, nil); err != nil {
				t.Fatal(err)
			}
			must(t, s.Close())
			c.harm(t, filepath.Join(dir, "member", "member"))
			_, err := Open(t.Context(), Config{Dir: dir}, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v; want one that names %s and says %q", err, dir, c.want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestClosedStoreRefuses proves that operations on a stopped store end with an error and never hang.
func TestClosedStoreRefuses(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Close())
	if _, err := s.CommitDecisions(context.Background(), []Commit{{Rule: "a/b", Record: []byte("1")}}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("commit on a closed store: %v", err)
	}
}

// TestFullStoreComesBack proves that a store at its quota refuses writes by name, reads on, and writes again once it
// is relieved or restarted, since its history is what took the room.
// Covers: issue2 disk full
func TestFullStoreComesBack(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Quota: 8 << 20, Timeout: 30 * time.Second}
	s, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	big := []byte(strings.Repeat("x", 512<<10))
	for i := 0; err == nil && i < 100; i++ {
		_, err = s.CommitDecisions(t.Context(), []Commit{{Rule: "a/b", Record: big}})
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("%v, want that it is full", err)
	}
	if d, err := s.Decisions(t.Context()); err != nil || len(d) != 1 {
		t.Errorf("reading a full store: %d, %v", len(d), err)
	}
	must(t, s.Relieve(t.Context()))
	for err = nil; err == nil; {
		_, err = s.CommitDecisions(t.Context(), []Commit{{Rule: "a/b", Record: big}})
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("%v, want that it is full again", err)
	}
	must(t, s.Close())
	s, err = Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.CommitDecisions(t.Context(), []Commit{{Rule: "a/b", Record: []byte("1")}}); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// TestAuditGivesWay proves that a store filled by its audit trail takes writes again: the oldest lines go, the newest and
// all resources stay.
// Covers: issue2 disk full
func TestAuditGivesWay(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir(), Quota: 8 << 20, Timeout: 30 * time.Second}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	doc := json.RawMessage(`"` + strings.Repeat("x", 256<<10) + `"`)
	var v View
	last := 0
	for ; err == nil && last < 200; last++ {
		v, err = s.Resources(t.Context())
		must(t, err)
		w := Write{Kind: "Service", Name: "shop", Document: json.RawMessage(`{}`)}
		if len(v.Resources) > 0 {
			w.Revision = v.Resources[0].Revision
		}
		_, err = s.WriteResources(t.Context(), v.Generation, []Write{w}, []Audit{{Name: strconv.Itoa(last), Before: doc}})
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("%v, want that it is full", err)
	}
	must(t, s.Relieve(t.Context()))
	if _, err := s.CommitDecisions(t.Context(), []Commit{{Rule: "a/b", Record: []byte("1")}}); err != nil {
		t.Errorf("after relief: %v", err)
	}
	trail, err := s.AuditTrail(t.Context(), 1)
	// The write that reaches the quota is refused by etcd before it is done, or reported as refused after: both happen.
	if err != nil || len(trail) != 1 || trail[0].Name != strconv.Itoa(last-2) && trail[0].Name != strconv.Itoa(last-1) {
		t.Errorf("the newest line is gone: %d lines, %v", len(trail), err)
	}
	if v, err = s.Resources(t.Context()); err != nil || len(v.Resources) != 1 {
		t.Errorf("resources: %d, %v", len(v.Resources), err)
	}
}
