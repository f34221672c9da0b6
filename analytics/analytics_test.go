package analytics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"steerpoint/report"
)

var begin = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// heard keeps what an operator is told.
type heard struct {
	mu      sync.Mutex
	trouble error
	lost    []string
}

func (h *heard) SeriesTrouble(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = err
}

func (h *heard) SeriesLost(path, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = append(h.lost, path+": "+message)
}

// rig is Analytics with its clock in the test's hands. The test does what Run does.
type rig struct {
	*Analytics
	t    *testing.T
	dir  string
	now  time.Time
	news *heard
}

func start(t *testing.T, dir string, now time.Time) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir, now: now, news: &heard{}}
	var err error
	r.Analytics, err = New(Config{Dir: dir, Now: func() time.Time { return r.now }}, r.news, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r.start(t.Context())
	return r
}

// kill leaves everything as a process does that is killed.
func (r *rig) kill() {
	if err := r.shelf.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// again ends the process, by a stop or a kill, and starts another on the same folder.
func (r *rig) again(kill bool) *rig {
	if kill {
		r.kill()
	} else {
		r.stop()
	}
	return start(r.t, r.dir, r.now)
}

func (r *rig) query(q report.SeriesQuery) []report.Series {
	r.t.Helper()
	out, err := r.Query(r.t.Context(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// dumb keeps everything it is told, and adds it up anew for every question.
type dumb struct {
	measured []report.Measurement
	answers  []report.Answer
}

// weight is the part an observation has in its rule as steered, and whether it counts as a failure whatever it is.
func (d *dumb) weight(m *report.Measurement) (w float64, empty bool) {
	for i := range d.answers {
		a := &d.answers[i]
		if a.Service != m.Service || a.Rule != m.Rule || !a.At.Before(m.At) {
			continue
		}
		w, empty = 0, a.Empty // the newest before it counts
		for _, t := range a.Targets {
			if t.Edge == m.Edge && t.Address == m.Address {
				w = t.Weight
			}
		}
	}
	return w, empty
}

type dumbSum struct {
	probes, ok, seconds float64
	latencies           [][2]float64 // seconds, weight
}

func (s *dumbSum) add(ok bool, latency time.Duration, w float64) {
	s.probes += w
	if ok {
		s.ok += w
		s.seconds += latency.Seconds() * w
		s.latencies = append(s.latencies, [2]float64{latency.Seconds(), w})
	}
}

func (s *dumbSum) p95() float64 {
	slices.SortFunc(s.latencies, func(a, b [2]float64) int { return int(math.Copysign(1, a[0]-b[0])) })
	total, below := 0.0, 0.0
	for _, l := range s.latencies {
		total += l[1]
	}
	for _, l := range s.latencies {
		if below += l[1]; below >= 0.95*total*(1-1e-12) {
			return l[0]
		}
	}
	return 0
}

// sums adds up what a query asks for: by rule and edge, and by the start of the step, -1 for all.
func (d *dumb) sums(q report.SeriesQuery) map[string]map[int64]*dumbSum {
	out := map[string]map[int64]*dumbSum{}
	from, to := q.From.Truncate(Width), q.To.Truncate(Width)
	for i := range d.measured {
		m := &d.measured[i]
		if m.Service != q.Service || m.At.Before(from) || !m.At.Before(to) || q.Rule != "" && m.Rule != q.Rule {
			continue
		}
		put := func(key string, ok bool, w float64) {
			if out[key] == nil {
				out[key] = map[int64]*dumbSum{}
			}
			step := m.At.Unix() - m.At.Unix()%int64(q.Step.Seconds())
			for _, at := range []int64{-1, step} {
				if out[key][at] == nil {
					out[key][at] = &dumbSum{}
				}
				out[key][at].add(ok, m.Latency, w)
			}
		}
		if q.Edges && (q.Edge == "" || q.Edge == m.Edge) {
			put(m.Rule+"/"+m.Edge, m.OK, 1)
		}
		if w, empty := d.weight(m); q.Steered && w > 0 {
			put(m.Rule+"/", m.OK && !empty, w)
		}
	}
	return out
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

// agree holds figures against the dumb sum.
func agree(f *report.Figures, want *dumbSum, latency bool) error {
	if !near(f.Probes, want.probes) || !near(f.OK, want.ok) {
		return fmt.Errorf("%v of %v ok, want %v of %v", f.OK, f.Probes, want.ok, want.probes)
	}
	if !latency || want.ok == 0 {
		return nil
	}
	if mean := want.seconds / want.ok; math.Abs(f.Mean.Seconds()-mean) > 1e-8 {
		return fmt.Errorf("mean %v, want %v s", f.Mean, mean)
	}
	if got, exact := f.P95.Seconds(), want.p95(); got < exact/1.0445 || got > exact*1.0445 {
		return fmt.Errorf("p95 %v s, exactly %v s", got, exact)
	}
	return nil
}

func (r *rig) compare(d *dumb, q report.SeriesQuery) error {
	got, want := r.query(q), d.sums(q)
	if len(got) != len(want) {
		return fmt.Errorf("%d series, want %d", len(got), len(want))
	}
	for i := range got {
		s := &got[i]
		w := want[s.Rule+"/"+s.Edge]
		if w == nil {
			return fmt.Errorf("series %s/%s should not be", s.Rule, s.Edge)
		}
		if err := agree(&s.Total, w[-1], q.Latency); err != nil {
			return fmt.Errorf("%s/%s in all: %w", s.Rule, s.Edge, err)
		}
		if len(s.Points) != len(w)-1 {
			return fmt.Errorf("%s/%s: %d points, want %d", s.Rule, s.Edge, len(s.Points), len(w)-1)
		}
		for j := range s.Points {
			p := &s.Points[j]
			if w[p.Start.Unix()] == nil {
				return fmt.Errorf("%s/%s: a point at %v should not be", s.Rule, s.Edge, p.Start)
			}
			if err := agree(&p.Figures, w[p.Start.Unix()], q.Latency); err != nil {
				return fmt.Errorf("%s/%s at %v: %w", s.Rule, s.Edge, p.Start, err)
			}
		}
	}
	return nil
}

// story makes a random life: observations of all ages up to a minute, switches, stops and kills.
type story struct {
	*rig
	dumb
	rand *rand.Rand
}

func (s *story) move(rule string) {
	a := report.Answer{At: s.now, Service: "shop", Rule: rule}
	switch s.rand.IntN(6) {
	case 0: // a fallback, that nothing probes
	case 1:
		a.Empty = true
		fallthrough
	case 2: // two edges share
		for i, w := range []float64{50, 150} {
			a.Targets = append(a.Targets, report.AnswerTarget{Edge: edges[i], Address: edges[i] + "1", Weight: w})
		}
	default:
		e := edges[s.rand.IntN(len(edges))]
		for n := range 1 + s.rand.IntN(2) {
			a.Targets = append(a.Targets, report.AnswerTarget{Edge: e, Address: fmt.Sprint(e, n+1), Weight: 0.5})
		}
	}
	s.Answered(a)
	s.answers = append(s.answers, a)
}

var edges = []string{"east", "west", "north"}

func (s *story) observe() {
	m := report.Measurement{
		At: s.now.Add(-time.Duration(s.rand.Int64N(int64(3 * time.Second)))), Service: "shop", Rule: []string{"default", "china"}[s.rand.IntN(2)],
		Edge: edges[s.rand.IntN(3)], OK: s.rand.IntN(8) > 0, Latency: time.Duration(math.Exp(s.rand.NormFloat64()+17)) * time.Nanosecond,
	}
	if s.rand.IntN(10) == 0 { // from a spool
		m.At = s.now.Add(-time.Duration(s.rand.Int64N(int64(time.Minute))))
	}
	m.Address = fmt.Sprint(m.Edge, 1+s.rand.IntN(2))
	s.Measured(m)
	s.measured = append(s.measured, m)
}

// window asks for a random part of the life.
func (s *story) window() report.SeriesQuery {
	span := s.now.Sub(begin)
	from := begin.Add(time.Duration(s.rand.Int64N(int64(span))))
	q := report.SeriesQuery{
		Service: "shop", From: from, To: from.Add(time.Minute + time.Duration(s.rand.Int64N(int64(span)))),
		Step: time.Duration(1+s.rand.IntN(100)) * Width, Edges: s.rand.IntN(4) > 0, Steered: s.rand.IntN(4) > 0, Latency: s.rand.IntN(4) > 0,
	}
	if s.rand.IntN(3) == 0 {
		q.Rule = "default"
	}
	if s.rand.IntN(4) == 0 {
		q.Edge = edges[s.rand.IntN(3)]
	}
	return q
}

// TestAgreesWithADumbSum lives through random hours with switches, late observations and restarts, and asks for random
// windows in between: every count is exact, every mean is, and p95 is in the bucket of the exact one.
// Covers: A12, B8, issue4 series, issue4 series restart
func TestAgreesWithADumbSum(t *testing.T) {
	lives := uint64(4)
	if os.Getenv("STEER_LONG") != "" {
		lives = 20
	}
	for seed := range lives {
		s := &story{rig: start(t, t.TempDir(), begin), rand: rand.New(rand.NewPCG(seed, 7))}
		for range 400 {
			s.now = s.now.Add(time.Duration(s.rand.Int64N(int64(40 * time.Second))))
			for range s.rand.IntN(12) {
				s.observe()
			}
			if s.rand.IntN(20) == 0 {
				s.now = s.now.Add(time.Millisecond)
				s.move([]string{"default", "china"}[s.rand.IntN(2)])
				s.now = s.now.Add(time.Millisecond)
			}
			switch s.rand.IntN(60) {
			case 0, 1, 2, 3, 4, 5, 6, 7:
				s.step(t.Context())
			case 8:
				s.restart(seed%2 == 0)
			case 9, 10:
				if err := s.compare(&s.dumb, s.window()); err != nil {
					t.Fatalf("seed %d at %v: %v", seed, s.now, err)
				}
			}
		}
		all := report.SeriesQuery{Service: "shop", From: begin.Add(-time.Minute), To: s.now.Add(Width), Step: time.Minute, Edges: true, Steered: true, Latency: true}
		if err := s.compare(&s.dumb, all); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		s.restart(false)
		if err := s.compare(&s.dumb, all); err != nil {
			t.Errorf("seed %d after a restart: %v", seed, err)
		}
		s.checkDay(seed)
		if s.book.Late() != 0 || len(s.news.lost) != 0 || s.news.trouble != nil {
			t.Errorf("seed %d: %d late, lost %v, trouble %v", seed, s.book.Late(), s.news.lost, s.news.trouble)
		}
		s.stop()
	}
}

// restart ends the process. What a killed one had not written to its file of open cells is gone, so it writes before. What is
// answered is said anew, as control does.
func (s *story) restart(kill bool) {
	if kill {
		s.step(s.t.Context())
	}
	s.rig = s.again(kill)
	newest := map[string]report.Answer{}
	for _, a := range s.answers {
		newest[a.Rule] = a
	}
	s.now = s.now.Add(2 * time.Minute) // nothing comes of the time before, whose answers are forgotten
	for _, a := range newest {
		a.At = s.now
		s.Answered(a)
		s.answers = append(s.answers, a)
	}
	s.now = s.now.Add(time.Minute)
}

// checkDay holds the figures of the last 24 hours against the dumb sum: a life is shorter.
func (s *story) checkDay(seed uint64) {
	q := report.SeriesQuery{Service: "shop", From: begin.Add(-time.Minute), To: s.now.Add(Width), Step: time.Minute, Edges: true, Steered: true}
	for key, sums := range s.sums(q) {
		rule, edge, _ := strings.Cut(key, "/")
		f, ok := s.Day("shop", rule, edge)
		want := sums[-1]
		if !ok || math.Abs(f.Probes-want.probes) > 0.01 || math.Abs(f.OK-want.ok) > 0.01 || math.Abs(f.Mean.Seconds()-want.seconds/want.ok) > 1e-5 {
			s.t.Errorf("seed %d: 24 hours of %s: %+v %v, want %v of %v", seed, key, f, ok, want.ok, want.probes)
		}
	}
	if _, ok := s.Day("shop", "default", "none"); ok {
		s.t.Error("figures of an edge that is not there")
	}
}

// TestKilledLosesTenSeconds kills a process between two steps: what the file of open cells has is there, and nothing
// counts twice.
// Covers: A12, issue4 series restart
func TestKilledLosesTenSeconds(t *testing.T) {
	r := start(t, t.TempDir(), begin)
	var d dumb
	see := func(at time.Duration) {
		m := report.Measurement{At: begin.Add(at), Service: "shop", Rule: "default", Edge: "east", Address: "east1", OK: true, Latency: time.Millisecond}
		r.Measured(m)
		d.measured = append(d.measured, m)
	}
	for at := time.Duration(0); at < 5*time.Minute; at += time.Second {
		r.now = begin.Add(at)
		see(at)
		if at%Width == 0 {
			r.step(t.Context())
		}
	}
	kept := len(d.measured)
	for at := 5 * time.Minute; at < 5*time.Minute+9*time.Second; at += time.Second {
		see(at)
	}
	r = r.again(true)
	defer func() { r.stop() }()
	all := report.SeriesQuery{Service: "shop", From: begin, To: begin.Add(time.Hour), Step: time.Minute, Edges: true, Latency: true}
	got := r.query(all)
	if len(got) != 1 || got[0].Total.Probes > float64(len(d.measured)) || got[0].Total.Probes < float64(kept-9) {
		t.Fatalf("%+v of %d", got, len(d.measured))
	}
	r.now = begin.Add(10 * time.Minute)
	r.step(t.Context())
	after := r.query(all)
	if after[0].Total != got[0].Total {
		t.Errorf("written: %+v, before %+v", after[0].Total, got[0].Total)
	}
}

// TestFullDiskCostsSeriesOnly fills the disk: observations are taken all the same, the operator is told, and when there
// is room again everything is written, nothing twice.
// Covers: issue4 series disk full
func TestFullDiskCostsSeriesOnly(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	r := start(t, filepath.Join(dir, "series"), begin)
	var d dumb
	minute := func(n int) {
		for i := range 60 {
			for e := range 20 {
				m := report.Measurement{At: r.now.Add(time.Duration(i) * time.Second), Service: "shop", Rule: "default", Edge: fmt.Sprint("e", e), Address: "x", OK: i%7 > 0, Latency: time.Duration(n+i*e) * time.Millisecond}
				r.Measured(m)
				d.measured = append(d.measured, m)
			}
		}
		r.now = r.now.Add(time.Minute)
		r.retryAt = time.Time{} // the clock of retries is the machine's
		r.step(t.Context())
	}
	minute(1)
	minute(2)
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	for n := 0; r.news.trouble == nil && n < 200; n++ {
		minute(n)
	}
	if !errors.Is(r.news.trouble, unix.ENOSPC) {
		t.Fatalf("trouble: %v", r.news.trouble)
	}
	minute(3)
	if n, dropped := r.waiting.count(); n == 0 || dropped != 0 {
		t.Errorf("%d cells wait, %d dropped", n, dropped)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	minute(4)
	if r.news.trouble != nil {
		t.Fatalf("with room again: %v", r.news.trouble)
	}
	if n, _ := r.waiting.count(); n != 0 || len(r.news.lost) != 0 {
		t.Errorf("%d cells still wait; lost: %q", n, r.news.lost)
	}
	all := report.SeriesQuery{Service: "shop", From: begin, To: r.now.Add(time.Minute), Step: time.Hour, Edges: true, Latency: true}
	if err := r.compare(&d, all); err != nil {
		t.Error(err)
	}
	r = r.again(false)
	if err := r.compare(&d, all); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	r.stop()
}

// fill writes until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 16, 4096, 1} {
		for {
			if _, err := io.WriteString(f, strings.Repeat("x", size)); err != nil {
				break
			}
		}
	}
}

// TestRunOpensWritesAndEnds runs the plane as the program does: it tells why it cannot be read yet, then answers, and what
// was open when it ended is there for the next one.
// Covers: A12, issue4 series restart
func TestRunOpensWritesAndEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "series")
	q := report.SeriesQuery{Service: "shop", From: time.Now().Add(-time.Minute), To: time.Now().Add(time.Hour), Step: Width, Edges: true}
	for n := 1; n <= 2; n++ {
		a, err := New(Config{Dir: dir}, &heard{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		a.Measured(report.Measurement{At: time.Now(), Service: "shop", Rule: "default", Edge: "east", Address: "x", OK: true, Latency: time.Millisecond})
		if _, err := a.Query(t.Context(), q); !errors.Is(err, ErrUnavailable) {
			t.Errorf("not open: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		var got []report.Series
		for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if got, err = a.Query(t.Context(), q); err == nil {
				break
			}
		}
		if err != nil || len(got) != 1 || got[0].Total.Probes != float64(n) {
			t.Errorf("start %d: %+v, %v", n, got, err)
		}
		if f, ok := a.Day("shop", "default", "east"); !ok || f.Probes != float64(n) {
			t.Errorf("start %d: 24 hours %+v", n, f)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := a.Query(t.Context(), q); !errors.Is(err, ErrUnavailable) {
			t.Errorf("closed: %v", err)
		}
	}
}

// TestDamagedOpenCells are set aside and named; everything else is there.
// Covers: issue2 state files, issue4 series damage
func TestDamagedOpenCells(t *testing.T) {
	r := start(t, t.TempDir(), begin)
	r.Measured(report.Measurement{At: begin, Service: "shop", Rule: "default", Edge: "east", Address: "x", OK: true})
	r.stop()
	if err := os.WriteFile(r.openFile(), []byte("no such thing"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = start(t, r.dir, begin)
	defer r.stop()
	if len(r.news.lost) != 1 || !strings.Contains(r.news.lost[0], ".damaged-") {
		t.Errorf("told: %q", r.news.lost)
	}
	if _, err := r.Query(t.Context(), report.SeriesQuery{Service: "shop", From: begin, To: begin.Add(time.Minute), Step: time.Second}); err == nil {
		t.Error("a step of a second is taken")
	}
}

// TestQueriesSeeEachCellOnce asks without a pause while cells go from memory to disk: each is always counted, and once.
// Covers: A12, issue4 series
func TestQueriesSeeEachCellOnce(t *testing.T) {
	var now atomic.Int64 // seconds after begin
	a, err := New(Config{Dir: t.TempDir(), Now: func() time.Time { return begin.Add(time.Duration(now.Load()) * time.Second) }}, &heard{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.start(t.Context())
	const seconds = 600
	a.Answered(report.Answer{At: begin.Add(-time.Second), Service: "shop", Rule: "default", Targets: []report.AnswerTarget{{Edge: "east", Address: "x", Weight: 1}}})
	for i := range seconds {
		a.Measured(report.Measurement{At: begin.Add(time.Duration(i) * time.Second), Service: "shop", Rule: "default", Edge: "east", Address: "x", OK: true, Latency: time.Millisecond})
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for at := int64(60); at < 720; at += 20 {
			now.Store(at)
			a.step(t.Context())
		}
	}()
	all := report.SeriesQuery{Service: "shop", From: begin, To: begin.Add(time.Hour), Step: time.Minute, Edges: true, Steered: true}
	for busy := true; busy; {
		select {
		case <-written:
			busy = false // and once more
		default:
		}
		got, err := a.Query(t.Context(), all)
		if err != nil || len(got) != 2 || got[0].Total.Probes != seconds || got[1].Total.Probes != seconds {
			t.Fatalf("at %d s: %+v, %v", now.Load(), got, err)
		}
		if f, ok := a.Day("shop", "default", "east"); !ok || f.Probes != seconds {
			t.Fatalf("at %d s: 24 hours %+v", now.Load(), f)
		}
	}
	if n, _ := a.waiting.count(); n != 0 || len(a.book.Open("")) != 0 {
		t.Errorf("%d cells wait, %d are open", n, len(a.book.Open("")))
	}
	a.stop()
}
