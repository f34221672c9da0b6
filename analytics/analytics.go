// Package analytics keeps what was measured as series: of each edge in each rule, and of each rule as it steered its
// visitors, in cells of ten seconds, on disk for 90 days. Decisions do not depend on it: what it is told it takes without
// waiting for the disk, and a disk that is full or damaged costs series and nothing else.
package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/analytics/internal/cells"
	"steerpoint/analytics/internal/shelf"
	"steerpoint/report"
)

// ErrUnavailable is matched by errors of Query while the series on disk cannot be read: they are being opened, or the
// disk is in trouble. What it wraps says why.
var ErrUnavailable = errors.New("series are not available")

// Width is the length of a cell, the shortest step of a query.
const Width = cells.Width

// Config says how series are kept.
type Config struct {
	Dir       string           // folder of the series; made if absent. Required
	Retention time.Duration    // how long series are kept; 0: 90 days
	MaxBytes  int64            // the most they may take on disk; the oldest go first. 0: 8 GiB
	Now       func() time.Time // the wall clock that Measurement.At is of; nil: time.Now

	block time.Duration // of tests: the length of the shortest blocks
}

// News is told what an operator must know. Its methods are called by the goroutine of Run.
type News interface {
	// SeriesTrouble says why nothing is written to disk, and nil when that is over.
	SeriesTrouble(error)
	// SeriesLost says what is missing from now on, and where its files are: at path.
	SeriesLost(path, message string)
}

// Analytics keeps series. Make it with New, then Run it. Measured and Answered may be called before.
type Analytics struct {
	cfg  Config
	news News
	log  *slog.Logger
	book *cells.Book
	day  cells.Day

	// using guards shelf against being closed or replaced while somebody reads. nil: not open; why says the reason.
	using sync.RWMutex
	shelf *shelf.Shelf
	why   error

	waiting waiting
	suspect chan struct{} // a reader met damage
	metrics metrics
	size    atomic.Int64 // of the shelf, in bytes, as of the last step; 0: not open

	// Of the goroutine of Run.
	begun       bool // what the process before left is taken over
	missing     bool // the folder was gone after the process had it open, and nobody was told yet
	torn        bool // a write failed, so that the log may end in a part of it
	failing     bool
	lastTrouble error
	pause       time.Duration // before the next try
	retryAt     time.Time
	checked     time.Time // when the disk was last read for damage
}

// retryMost bounds the pause between two tries at a disk in trouble.
const retryMost = 5 * time.Minute

// waitMost bounds the cells that wait for a disk that takes none: about 40 MB. The oldest are dropped and counted.
const waitMost = 200_000

// waiting is the cells that are closed and not on disk yet.
type waiting struct {
	mu      sync.Mutex
	cells   []cells.Cell
	dropped uint64
}

// New makes series with the metrics of their plane. Nothing is read or written before Run.
func New(cfg Config, news News, reg prometheus.Registerer, log *slog.Logger) (*Analytics, error) {
	if cfg.Dir == "" {
		return nil, errors.New("series: no folder is given")
	}
	if cfg.Retention == 0 {
		cfg.Retention = 90 * 24 * time.Hour
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 8 << 30
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Analytics{
		cfg: cfg, news: news, log: log, book: cells.NewBook(), suspect: make(chan struct{}, 1),
		why: errors.New("they are being opened"),
	}
	if err := a.metrics.init(reg, a); err != nil {
		return nil, fmt.Errorf("metrics of series: %w", err)
	}
	return a, nil
}

// Measured takes one observation of an edge in a rule. It waits for nothing.
func (a *Analytics) Measured(m report.Measurement) { a.book.Measured(m) }

// Answered takes what a rule answers from now on. It waits for nothing.
func (a *Analytics) Answered(r report.Answer) { a.book.Answered(r) }

// Day gives availability and mean latency of the last 24 hours, to a quarter of an hour: of an edge, or, with edge "", of
// the rule as steered. ok is false when nothing was observed.
func (a *Analytics) Day(service, rule, edge string) (f report.Figures, ok bool) {
	key := cells.Key{Service: service, Rule: rule, Edge: edge}
	var t cells.Tally
	a.waiting.look(func([]cells.Cell) { // no cell is closed meanwhile
		t = a.day.Of(key, a.cfg.Now())
		open := a.book.Sum(key)
		t.Add(&open)
	})
	return t.Figures(), t.Probes > 0
}

// Run works until ctx ends; then it writes what is closed, keeps what is open for the next process, and closes the files.
func (a *Analytics) Run(ctx context.Context) error {
	a.start(ctx)
	tick := time.NewTicker(Width)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			a.stop()
			return nil
		case <-tick.C:
			a.step(ctx)
		case <-a.suspect:
			a.check(ctx)
		}
	}
}

// start opens the disk and takes over what the process before left.
func (a *Analytics) start(ctx context.Context) {
	if err := a.open(ctx); err != nil {
		a.trouble(err)
	}
}

// stop ends as cleanly as the disk lets it. A disk in trouble is tried once more, without the pause; if it takes nothing
// still, the closed cells wait for the next process with the open ones.
func (a *Analytics) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a.retryAt = time.Time{}
	if a.step(ctx); a.failing {
		a.keepAll()
	}
	a.close()
}

// step closes cells whose time has come, writes them, and keeps the open ones in a file.
func (a *Analytics) step(ctx context.Context) {
	now := a.cfg.Now()
	a.waiting.take(func() []cells.Cell {
		closed := a.book.Close(now)
		for i := range closed {
			a.day.Add(closed[i].Key, closed[i].Start, &closed[i].Tally)
		}
		return closed
	})
	if a.failing || a.shelf == nil {
		if err := a.reopen(ctx); err != nil {
			a.trouble(err)
			return
		}
	}
	if err := a.write(ctx); err != nil {
		a.trouble(err)
		return
	}
	if err := a.keepOpen(); err != nil {
		a.trouble(err)
		return
	}
	a.size.Store(a.shelf.Size())
	a.day.Forget(now)
	if a.failing {
		a.failing, a.pause, a.retryAt = false, 0, time.Time{}
		a.news.SeriesTrouble(nil)
	}
}

// write puts the cells that wait on disk.
func (a *Analytics) write(ctx context.Context) error {
	list := a.waiting.peek()
	if len(list) == 0 {
		return nil
	}
	refused, err := a.shelf.Append(ctx, list, func() { a.waiting.drop(len(list)) })
	if err != nil {
		a.torn = true
		return err
	}
	a.metrics.cells.Add(float64(len(list)))
	if refused > 0 {
		a.metrics.refused.Add(float64(refused))
		a.log.Warn("series: samples are older than what is on disk, and not taken", "samples", refused)
	}
	return nil
}

// trouble notes why the disk takes nothing. Each try opens the files anew, which reads the log: so the pause between two
// grows.
func (a *Analytics) trouble(err error) {
	a.failing, a.lastTrouble = true, err
	if now := time.Now(); !now.Before(a.retryAt) {
		a.pause = min(max(2*a.pause, Width), retryMost)
		a.retryAt = now.Add(a.pause - Width/2) // steps are a Width apart, more or less
	}
	a.news.SeriesTrouble(err)
}

// take adds the cells that f closes. Nobody looks meanwhile, so that no cell is seen in neither place.
func (w *waiting) take(f func() []cells.Cell) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cells = append(w.cells, f()...)
	w.bound()
}

// bound drops the oldest cells above waitMost.
func (w *waiting) bound() {
	if over := len(w.cells) - waitMost; over > 0 {
		w.cells = append([]cells.Cell(nil), w.cells[over:]...)
		w.dropped += uint64(over)
	}
}

// merge adds the cells that f gives, of which some may wait already: the disk takes one sample of a key and time.
func (w *waiting) merge(f func() []cells.Cell) {
	w.mu.Lock()
	defer w.mu.Unlock()
	type place struct {
		cells.Key
		start int64
	}
	at := make(map[place]int, len(w.cells))
	for i := range w.cells {
		at[place{w.cells[i].Key, w.cells[i].Start}] = i
	}
	for _, c := range f() {
		p := place{c.Key, c.Start}
		if i, ok := at[p]; ok {
			w.cells[i].Add(&c.Tally)
			continue
		}
		at[p] = len(w.cells)
		w.cells = append(w.cells, c)
	}
	cells.Sort(w.cells)
	w.bound()
}

// peek gives the cells; they do not change any more.
func (w *waiting) peek() []cells.Cell {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cells[:len(w.cells):len(w.cells)]
}

// drop forgets the first n.
func (w *waiting) drop(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cells = w.cells[n:]; len(w.cells) == 0 {
		w.cells = nil
	}
}

// look shows the cells while none is added or dropped.
func (w *waiting) look(f func([]cells.Cell)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.cells)
}

func (w *waiting) count() (now int, dropped uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.cells), w.dropped
}

func (a *Analytics) openFile() string { return filepath.Join(a.cfg.Dir, "open.cells") }
