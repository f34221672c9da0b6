package shelf

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/analytics/internal/cells"
)

var begin = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

var edgeKey, ruleKey = cells.Key{Service: "s", Rule: "r", Edge: "a"}, cells.Key{Service: "s", Rule: "r"}

func config(dir string) Config {
	return Config{Dir: dir, Retention: 90 * 24 * time.Hour, MaxBytes: 1 << 30, Log: slog.New(slog.DiscardHandler)}
}

func opened(t *testing.T, cfg Config, now time.Time) (*Shelf, []Lost) {
	t.Helper()
	s, lost, err := Open(t.Context(), cfg, now)
	if err != nil {
		t.Fatal(err)
	}
	return s, lost
}

// put appends one cell of an edge and one of its rule every step.
func put(t *testing.T, s *Shelf, from time.Time, n int, step time.Duration) {
	t.Helper()
	var list []cells.Cell
	for i := range n {
		var tally cells.Tally
		tally.Probes, tally.OK, tally.Seconds = 2, 1, 0.02
		tally.Latency.Add(0.02, 1)
		start := cells.StartOf(from.Add(time.Duration(i) * step))
		list = append(list, cells.Cell{Key: edgeKey, Start: start, Tally: tally}, cells.Cell{Key: ruleKey, Start: start, Tally: tally})
	}
	if refused, err := s.Append(t.Context(), list, func() {}); err != nil || refused != 0 {
		t.Fatalf("append: %d refused, %v", refused, err)
	}
}

// sum reads everything between two times.
func sum(ctx context.Context, s *Shelf, from, to time.Time) (map[cells.Key]*cells.Tally, error) {
	snap, err := s.Snapshot(Query{From: from.UnixMilli(), To: to.UnixMilli(), Edges: true, Steered: true, Latency: true}, func() {})
	if err != nil {
		return nil, err
	}
	out := map[cells.Key]*cells.Tally{}
	err = snap.Each(ctx, func(k cells.Key) func(int64, *cells.Tally) {
		if out[k] == nil {
			out[k] = &cells.Tally{}
		}
		return func(_ int64, part *cells.Tally) { out[k].Add(part) }
	})
	if closeErr := snap.Close(); err == nil {
		err = closeErr
	}
	return out, err
}

func wantProbes(t *testing.T, s *Shelf, from, to time.Time, want float64) {
	t.Helper()
	got, err := sum(t.Context(), s, from, to)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []cells.Key{edgeKey, ruleKey} {
		if got[k] == nil {
			got[k] = &cells.Tally{}
		}
		if got[k].Probes != want || got[k].OK != want/2 {
			t.Fatalf("%v from %v to %v: %+v, want %v probes", k, from, to, got[k], want)
		}
	}
}

func shut(t *testing.T, s *Shelf) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestKeptForTheRetention lets five days of cells go by, compacting as time does, with three days to keep: what is younger
// is all there, exactly, what is older goes by blocks.
// Covers: A12, B8, issue4 series retention
func TestKeptForTheRetention(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Retention, cfg.Block = 3*24*time.Hour, 6*time.Hour
	s, _ := opened(t, cfg, begin.Add(5*24*time.Hour))
	const perDay, step = 24 * 12, 5 * time.Minute
	for quarter := range 5 * 4 {
		put(t, s, begin.Add(time.Duration(quarter)*6*time.Hour), perDay/4, step)
		if err := s.db.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	end := begin.Add(5 * 24 * time.Hour)
	if err := s.db.Compact(t.Context()); err != nil { // retention is applied to blocks as they are loaded
		t.Fatal(err)
	}
	wantProbes(t, s, end.Add(-60*time.Hour), end, 2*perDay*2.5)
	wantProbes(t, s, begin, begin.Add(24*time.Hour), 0)
	// A window that cuts blocks and head is exact too, and after a restart the same.
	wantProbes(t, s, end.Add(-31*time.Hour), end.Add(-2*time.Hour), 2*29*12)
	size := s.Size()
	shut(t, s)
	s, lost := opened(t, cfg, end)
	defer shut(t, s)
	if len(lost) != 0 || size <= 0 {
		t.Errorf("lost %v, size %d", lost, size)
	}
	wantProbes(t, s, end.Add(-31*time.Hour), end.Add(-2*time.Hour), 2*29*12)
	if newest, ok := s.Newest(); !ok || newest != end.Add(-step).UnixMilli() {
		t.Errorf("newest %v", time.UnixMilli(newest).UTC())
	}
}

// damage flips bytes in the middle of what the largest file that matches holds.
func damage(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("nothing matches %s: %v", pattern, err)
	}
	var name string
	var b []byte
	for _, n := range names {
		x, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(x) > len(b) {
			name, b = n, x
		}
	}
	used := len(bytes.TrimRight(b, "\x00")) // a log is filled up to its page
	for i := used / 2; i < min(used/2+64, used); i++ {
		b[i] ^= 0x55
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// twoBlocks makes a shelf of two blocks and a head, and closes it. The blocks begin at begin and two hours later.
func twoBlocks(t *testing.T) Config {
	t.Helper()
	cfg := config(t.TempDir())
	s, _ := opened(t, cfg, begin)
	put(t, s, begin, 6*60, time.Minute) // six hours
	if err := s.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(s.db.Blocks()); n != 2 {
		t.Fatalf("%d blocks", n)
	}
	shut(t, s)
	return cfg
}

// TestDamageIsSetAsideAndNamed damages the log, an index and a chunk: each is named, nothing of it is deleted, and the
// rest can be read.
// Covers: A12, issue4 series damage
func TestDamageIsSetAsideAndNamed(t *testing.T) {
	now := begin.Add(6 * time.Hour)
	t.Run("log", func(t *testing.T) {
		cfg := config(t.TempDir())
		s, _ := opened(t, cfg, begin)
		put(t, s, begin, 30, time.Minute)
		for i := range 30 { // more records, so that the middle lies between two of them
			put(t, s, begin.Add(time.Hour+time.Duration(i)*time.Minute), 1, time.Minute)
		}
		shut(t, s)
		damage(t, filepath.Join(cfg.Dir, "wal", "0*"))
		s, lost := opened(t, cfg, now)
		defer shut(t, s)
		if len(lost) != 1 || !strings.Contains(lost[0].What, "log") {
			t.Errorf("lost: %+v", lost)
		}
		put(t, s, begin.Add(3*time.Hour), 5, time.Minute)
		wantProbes(t, s, begin.Add(3*time.Hour), begin.Add(4*time.Hour), 10)
	})
	t.Run("index", func(t *testing.T) {
		cfg := twoBlocks(t)
		indexes, err := filepath.Glob(filepath.Join(cfg.Dir, "*", "index"))
		if err != nil || len(indexes) != 2 {
			t.Fatalf("%v, %v", indexes, err)
		}
		if err := os.Truncate(indexes[0], 10); err != nil {
			t.Fatal(err)
		}
		s, lost := opened(t, cfg, now)
		defer shut(t, s)
		if len(lost) != 1 || !strings.Contains(lost[0].Path, ".damaged-") || lost[0].Err == nil {
			t.Fatalf("lost: %+v", lost)
		}
		if _, err := os.Stat(filepath.Join(lost[0].Path, "index")); err != nil {
			t.Errorf("the damaged block is not kept: %v", err)
		}
		got, err := sum(t.Context(), s, begin, now)
		if err != nil || got[edgeKey].Probes != 2*4*60 {
			t.Errorf("the rest: %+v, %v", got[edgeKey], err)
		}
	})
	t.Run("chunk", func(t *testing.T) {
		cfg := twoBlocks(t)
		damage(t, filepath.Join(cfg.Dir, "*", "chunks", "000001"))
		s, lost := opened(t, cfg, now)
		if len(lost) != 0 {
			t.Fatalf("seen without reading: %+v", lost)
		}
		if _, err := sum(t.Context(), s, begin, now); err == nil {
			t.Fatal("a damaged chunk was read")
		}
		s, lost, err := s.Check(t.Context(), now)
		if err != nil || len(lost) != 1 || !strings.Contains(lost[0].What, "what was measured from") {
			t.Fatalf("lost: %+v, %v", lost, err)
		}
		defer shut(t, s)
		got, err := sum(t.Context(), s, begin, now)
		if err != nil || got[edgeKey].Probes != 2*4*60 {
			t.Errorf("the rest: %+v, %v", got[edgeKey], err)
		}
	})
}

// TestClockThatWasWrong has samples of next year: what is measured now must not wait for it.
// Covers: issue2 clock step, issue4 series damage
func TestClockThatWasWrong(t *testing.T) {
	cfg := config(t.TempDir())
	s, _ := opened(t, cfg, begin)
	put(t, s, begin, 10, time.Minute)
	put(t, s, begin.Add(365*24*time.Hour), 10, time.Minute)
	shut(t, s)
	s, lost := opened(t, cfg, begin.Add(time.Hour))
	defer shut(t, s)
	if len(lost) == 0 || !strings.Contains(lost[0].What, "clock was wrong") {
		t.Errorf("lost: %+v", lost)
	}
	put(t, s, begin.Add(time.Hour), 10, time.Minute)
	wantProbes(t, s, begin.Add(time.Hour), begin.Add(2*time.Hour), 20)
	// A clock that goes back by an hour loses nothing.
	put(t, s, begin.Add(10*time.Minute), 10, time.Minute)
	wantProbes(t, s, begin.Add(10*time.Minute), begin.Add(20*time.Minute), 20)
	if refused, err := s.Append(t.Context(), []cells.Cell{{Key: edgeKey, Start: begin.Add(-48 * time.Hour).UnixMilli(), Tally: cells.Tally{Probes: 1}}}, func() {}); err != nil || refused != 2 {
		t.Errorf("two days back: %d refused, %v", refused, err)
	}
}

// TestQueriesSelect narrows by service, rule and edge.
// Covers: A12
func TestQueriesSelect(t *testing.T) {
	s, _ := opened(t, config(t.TempDir()), begin)
	defer shut(t, s)
	var list []cells.Cell
	for _, service := range []string{"s", "t"} {
		for _, rule := range []string{"r", "q"} {
			for _, edge := range []string{"", "a", "b"} {
				list = append(list, cells.Cell{Key: cells.Key{Service: service, Rule: rule, Edge: edge}, Start: begin.UnixMilli(), Tally: cells.Tally{Probes: 1}})
			}
		}
	}
	if _, err := s.Append(t.Context(), list, func() {}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{Query{Service: "s", Edges: true, Steered: true}, "[s/q/ s/q/a s/q/b s/r/ s/r/a s/r/b]"},
		{Query{Service: "s", Rule: "r", Edges: true}, "[s/r/a s/r/b]"},
		{Query{Service: "s", Edge: "b", Edges: true}, "[s/q/b s/r/b]"},
		{Query{Service: "t", Steered: true}, "[t/q/ t/r/]"},
		{Query{Service: "none", Edges: true, Steered: true}, "[]"},
	} {
		tt.q.From, tt.q.To = begin.UnixMilli(), begin.Add(cells.Width).UnixMilli()
		snap, err := s.Snapshot(tt.q, func() {})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		if err := snap.Each(t.Context(), func(k cells.Key) func(int64, *cells.Tally) {
			return func(int64, *cells.Tally) { names[k.Service+"/"+k.Rule+"/"+k.Edge] = true }
		}); err != nil {
			t.Fatal(err)
		}
		if err := snap.Close(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(sortedKeys(names)); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.q, got, tt.want)
		}
	}
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
