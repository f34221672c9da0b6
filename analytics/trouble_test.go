package analytics

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/analytics/internal/shelf"
	"steerpoint/report"
)

// life measures an edge once a second, and adds up in a dumb way what must be there.
type life struct {
	*rig
	dumb
}

func (l *life) minutes(n int) {
	l.t.Helper()
	for range n * 60 {
		m := report.Measurement{At: l.now, Service: "shop", Rule: "default", Edge: "east", Address: "x", OK: true, Latency: time.Millisecond}
		l.Measured(m)
		l.measured = append(l.measured, m)
		if l.now = l.now.Add(time.Second); l.now.Second()%10 == 0 {
			l.step(l.t.Context())
		}
	}
}

// whole holds everything that was measured against what is kept, and against the last 24 hours.
func (l *life) whole(when string) {
	l.t.Helper()
	all := report.SeriesQuery{Service: "shop", From: begin, To: l.now.Add(time.Minute), Step: time.Minute, Edges: true, Latency: true}
	if err := l.compare(&l.dumb, all); err != nil {
		l.t.Errorf("%s: %v", when, err)
	}
	if f, ok := l.Day("shop", "default", "east"); !ok || f.Probes != float64(len(l.measured)) {
		l.t.Errorf("%s: 24 hours %+v of %d", when, f, len(l.measured))
	}
}

// ill makes the disk take nothing until well is called: there is no place for the file that looks for room. Other files can be
// written.
func (l *life) ill() (well func()) {
	l.t.Helper()
	path := filepath.Join(l.dir, "room.tmp")
	if err := os.Mkdir(path, 0o700); err != nil {
		l.t.Fatal(err)
	}
	l.trouble(errors.New("a write failed"))
	return func() {
		if err := os.Remove(path); err != nil {
			l.t.Fatal(err)
		}
		l.retryAt = time.Time{}
	}
}

// TestStopAfterTrouble stops a process whose disk is well again, though the pause before the next try is not over: what
// waited is written.
// Covers: issue4 series disk full, issue4 series restart
func TestStopAfterTrouble(t *testing.T) {
	l := &life{rig: start(t, t.TempDir(), begin)}
	l.minutes(3)
	well := l.ill()
	l.minutes(5)
	if n, _ := l.waiting.count(); n == 0 {
		t.Fatal("nothing waits")
	}
	well()
	l.retryAt = time.Now().Add(time.Hour)
	l.rig = l.again(false)
	if l.news.trouble != nil || len(l.news.lost) != 0 {
		t.Errorf("trouble %v, lost %q", l.news.trouble, l.news.lost)
	}
	l.whole("after a restart")
	l.stop()
}

// TestStopInTrouble stops a process whose disk takes nothing, starts another on that disk, stops it too, and heals the disk
// under the third: what waited is handed on, and is written once, also where a cell is of more than one of them.
// Covers: issue4 series disk full, issue4 series restart
func TestStopInTrouble(t *testing.T) {
	l := &life{rig: start(t, t.TempDir(), begin)}
	l.minutes(3)
	l.now = l.now.Add(5 * time.Second) // stops are in the middle of a cell
	well := l.ill()
	for range 2 {
		l.minutes(5)
		if n, _ := l.waiting.count(); n == 0 {
			t.Fatal("nothing waits")
		}
		l.rig = l.again(false)
		if l.news.trouble == nil {
			t.Fatal("the disk is well")
		}
	}
	l.minutes(5)
	well()
	l.step(t.Context())
	if l.news.trouble != nil || len(l.news.lost) != 0 {
		t.Fatalf("trouble %v, lost %q", l.news.trouble, l.news.lost)
	}
	l.whole("with the disk well")
	l.rig = l.again(false)
	l.whole("after a restart")
	l.stop()
}

// TestStopThatKeepsNothing stops a process that can write nowhere: its log says how many cells are gone.
// Covers: issue4 series disk full
func TestStopThatKeepsNothing(t *testing.T) {
	l := &life{rig: start(t, t.TempDir(), begin)}
	l.minutes(1)
	var told strings.Builder
	l.log = slog.New(slog.NewTextHandler(&told, nil))
	l.ill()
	l.minutes(2)
	n, _ := l.waiting.count()
	n += len(l.book.Open(""))
	if err := os.MkdirAll(filepath.Join(l.openFile()+".tmp", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.stop()
	if want := fmt.Sprintf("cells=%d", n); !strings.Contains(told.String(), "could not be kept") || !strings.Contains(told.String(), want) {
		t.Errorf("told %q, want %s", told.String(), want)
	}
}

// TestFolderMovedAway takes the folder away under the process: a new one is begun, and the operator is told, once.
// Covers: issue4 series damage
func TestFolderMovedAway(t *testing.T) {
	l := &life{rig: start(t, filepath.Join(t.TempDir(), "series"), begin)}
	l.minutes(2)
	if len(l.news.lost) != 0 {
		t.Fatalf("told of a first start: %q", l.news.lost)
	}
	if err := os.Rename(l.dir, l.dir+"-away"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.now = l.now.Add(Width)
		l.retryAt = time.Time{}
		l.step(t.Context())
	}
	if l.news.trouble != nil || len(l.news.lost) != 1 || !strings.HasPrefix(l.news.lost[0], l.dir+": ") || !strings.Contains(l.news.lost[0], "was missing") {
		t.Errorf("trouble %v, told %q", l.news.trouble, l.news.lost)
	}
	l.stop()
}

// TestMendedFilesAreNotKept tells of a log that was mended: only what is set aside has files to look at.
// Covers: issue4 series damage
func TestMendedFilesAreNotKept(t *testing.T) {
	r := start(t, t.TempDir(), begin)
	defer r.stop()
	r.tell([]shelf.Lost{
		{What: "the end of the log", Path: "series/wal", Err: errors.New("it is torn"), Mended: true},
		{What: "a block", Path: "series/x.damaged-1", Err: errors.New("bad checksum")},
	})
	want := []string{
		"series/wal: the end of the log is missing from the series: it is torn",
		"series/x.damaged-1: a block is missing from the series: bad checksum. The files are kept as series/x.damaged-1",
	}
	if !slices.Equal(r.news.lost, want) {
		t.Errorf("told %q", r.news.lost)
	}
}

// TestMetricsDoNotWait reads the metrics while the series are checked for damage, which may take minutes.
// Covers: issue4 series damage
func TestMetricsDoNotWait(t *testing.T) {
	reg := prometheus.NewRegistry()
	a, err := New(Config{Dir: t.TempDir(), Now: func() time.Time { return begin }}, &heard{}, reg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.start(t.Context())
	a.Measured(report.Measurement{At: begin.Add(-2 * time.Minute), Service: "shop", Rule: "default", Edge: "east", Address: "x", OK: true})
	a.step(t.Context())
	size := make(chan float64, 1)
	a.using.Lock() // as check does
	go func() {
		families, err := reg.Gather()
		if err != nil {
			t.Error(err)
		}
		v := -1.0
		for _, f := range families {
			if f.GetName() == "steer_analytics_size_bytes" {
				v = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		size <- v
	}()
	select {
	case v := <-size:
		if v <= 0 {
			t.Errorf("size %v", v)
		}
	case <-time.After(time.Minute):
		t.Error("metrics wait for the check")
	}
	a.using.Unlock()
	a.stop()
	if v := a.size.Load(); v != 0 {
		t.Errorf("size when closed: %v", v)
	}
}
