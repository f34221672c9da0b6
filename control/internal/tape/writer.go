package tape

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"steerpoint/steering"
)

// Config says how a tape is kept.
type Config struct {
	Dir string // made if absent
	// MaxAge is how long segments are kept; 0: 90 days.
	MaxAge time.Duration
	// MaxBytes bounds all segments together; the oldest are dropped. 0: 1 GiB.
	MaxBytes int64
	// SegmentBytes and SegmentAge close a segment at the next checkpoint; 0: 8 MiB and 1 h.
	SegmentBytes int64
	SegmentAge   time.Duration
	// Queue is how many records may wait for the disk; 0: 16,384.
	Queue int
	// FlushEvery is how long a record may wait for others of its frame; 0: 1 s.
	FlushEvery time.Duration
	// RetryEvery is the pause after a write that failed; 0: 10 s.
	RetryEvery time.Duration
	// Trouble is told why nothing is written, and nil when that is over; nil: nobody is.
	Trouble func(error)
	Log     *slog.Logger

	create func(path string) (file, error) // nil: the file system's
}

type file interface {
	Write([]byte) (int, error)
	Sync() error
	Close() error
}

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	or(&c.MaxAge, 90*24*time.Hour)
	or(&c.SegmentAge, time.Hour)
	or(&c.FlushEvery, time.Second)
	or(&c.RetryEvery, 10*time.Second)
	if c.MaxBytes == 0 {
		c.MaxBytes = 1 << 30
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = 8 << 20
	}
	if c.Queue == 0 {
		c.Queue = 1 << 14
	}
	if c.Trouble == nil {
		c.Trouble = func(error) {}
	}
	if c.create == nil {
		c.create = func(path string) (file, error) {
			return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
		}
	}
	return c
}

// frameBytes is the size at which a frame is written without waiting for more.
const frameBytes = 32 << 10

// Stats say how a tape is.
type Stats struct {
	Bytes   int64     // of all segments
	Oldest  time.Time // of the oldest record; zero: none
	Records uint64    // written by this process
	Missing uint64    // records of this process that are not on the tape
}

// Writer appends to a tape. Put is for one goroutine; the other methods may run at the same time.
type Writer struct {
	cfg     Config
	records chan Record
	flushes chan chan struct{}
	ended   chan struct{} // Run has returned

	refused uint64 // by Put, and not on the tape as a gap yet; of Put's goroutine

	need    atomic.Bool // a checkpoint
	written atomic.Uint64
	missing atomic.Uint64

	// Of Run's goroutine.
	number  uint64
	enc     *encoder
	out     file
	seg     segment
	since   steering.Instant // first record of the segment
	unsaid  uint64           // records lost that are not on the tape as a gap yet
	retryAt time.Time
	failing bool
	inFrame uint64                            // records in the frame that is being filled
	sizes   struct{ checkpoint, after int64 } // bytes of the newest checkpoint, and since
	rare    atomic.Bool
}

// NewWriter makes a writer; Run writes. A segment that a killed process left open is cut at its last whole frame and closed.
func NewWriter(cfg Config) (*Writer, error) {
	cfg = cfg.withDefaults()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("tape: %w", err)
	}
	w := &Writer{
		cfg: cfg, records: make(chan Record, cfg.Queue), flushes: make(chan chan struct{}), ended: make(chan struct{}),
	}
	list, err := segments(cfg.Dir)
	if err != nil {
		return nil, err
	}
	for i := range list {
		w.number = max(w.number, list[i].number)
		if !list[i].closed {
			w.closeLeft(&list[i])
		}
	}
	w.need.Store(true)
	return w, nil
}

// closeLeft closes a segment of an earlier process.
func (w *Writer) closeLeft(s *segment) {
	whole, err := s.whole()
	if err == nil && whole < s.size {
		w.cfg.Log.Warn("tape: the end of a segment is torn and was cut off", "file", s.path, "bytes", s.size-whole, "kept", whole)
	}
	switch {
	case err == nil && whole <= int64(len(magic)):
		err = os.Remove(s.path) // nothing is in it
	case err == nil:
		err = s.compress(whole)
	}
	if err != nil {
		w.cfg.Log.Warn("tape: a segment stays open", "file", s.path, "error", err)
	}
}

// Put gives the writer a record, and reports whether it took it. It never waits.
func (w *Writer) Put(r Record) bool {
	if w.refused > 0 {
		select {
		case w.records <- Record{Kind: Gap, Now: r.Now, Missing: w.refused}:
			w.refused = 0
			w.need.Store(true)
		default:
		}
	}
	if w.refused == 0 {
		select {
		case w.records <- r:
			return true
		default:
		}
	}
	w.refused++
	w.missing.Add(1)
	return false
}

// Wants reports whether a checkpoint must come now: nothing can be read without one.
func (w *Writer) Wants() bool { return w.need.Load() && len(w.records) < cap(w.records)/2 }

// Rare reports whether checkpoints are so large that they are most of the tape: then they should be rarer.
func (w *Writer) Rare() bool { return w.rare.Load() }

// Flush returns when everything put so far is in the file, or ctx ends.
func (w *Writer) Flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case w.flushes <- done:
	case <-w.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("tape: %w", ctx.Err())
	}
	select {
	case <-done:
		return nil
	case <-w.ended:
		return nil
	}
}

// Stats looks how the tape is.
func (w *Writer) Stats() (Stats, error) {
	s := Stats{Records: w.written.Load(), Missing: w.Missing()}
	list, err := segments(w.cfg.Dir)
	for i := range list {
		s.Bytes += list[i].size
	}
	if len(list) > 0 {
		s.Oldest = list[0].wall
	}
	return s, err
}

// Missing is how many records of this process are not on the tape.
func (w *Writer) Missing() uint64 { return w.missing.Load() }

// Run writes until ctx ends, and then what is left.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.ended)
	tick := time.NewTicker(w.cfg.FlushEvery)
	defer tick.Stop()
	for {
		select {
		case r := <-w.records:
			w.take(&r)
		case <-tick.C:
			w.flush()
		case done := <-w.flushes:
			w.drain()
			close(done)
		case <-ctx.Done():
			w.drain()
			w.shut()
			return nil
		}
	}
}

// drain writes everything that waits.
func (w *Writer) drain() {
	for {
		select {
		case r := <-w.records:
			w.take(&r)
			continue
		default:
		}
		w.flush()
		return
	}
}

// take writes one record, or counts it as lost.
func (w *Writer) take(r *Record) {
	if r.Kind == Checkpoint {
		w.roll(r)
	}
	if w.out == nil {
		w.lose(1)
		return
	}
	if w.unsaid > 0 {
		gap := Record{Kind: Gap, Now: r.Now, Missing: w.unsaid}
		w.add(&gap)
		w.unsaid = 0
	}
	before := len(w.enc.buf)
	w.add(r)
	if size := int64(len(w.enc.buf) - before); r.Kind == Checkpoint {
		w.sizes.checkpoint, w.sizes.after = size, 0
	} else {
		w.sizes.after += size
	}
	w.rare.Store(w.sizes.checkpoint > 256<<10 && w.sizes.after < w.sizes.checkpoint)
	// A decision is what people look for: a killed process has it on its tape.
	if len(w.enc.buf) >= frameBytes || r.Kind == Decided || r.Kind == Checkpoint {
		w.flush()
	}
	if w.seg.size >= w.cfg.SegmentBytes {
		w.need.Store(true)
	}
}

func (w *Writer) lose(n uint64) {
	w.missing.Add(n)
	w.unsaid += n
}

func (w *Writer) add(r *Record) {
	if err := w.enc.add(r); err != nil {
		w.cfg.Log.Error("tape: a record cannot be written", "error", err)
		w.lose(1)
		return
	}
	w.written.Add(1)
	w.inFrame++
}

// flush writes the frame that is being filled.
func (w *Writer) flush() {
	if w.out == nil {
		if w.failing && !time.Now().Before(w.retryAt) {
			w.need.Store(true) // a checkpoint opens a segment
		}
		return
	}
	if w.enc.empty() {
		return
	}
	b := w.enc.frame()
	if _, err := w.out.Write(b); err != nil {
		w.fail(err)
		return
	}
	w.seg.size += int64(len(b))
	w.inFrame = 0
}

// fail gives the segment up. What waits in the frame is lost; the file is cut by whoever reads it.
func (w *Writer) fail(err error) {
	w.lose(w.inFrame)
	w.inFrame = 0
	w.number++ // one that is left out tells the reader that records are missing
	if w.out != nil {
		_ = w.out.Close() // the error that matters is there already
		w.out = nil
		w.closeLeft(&w.seg)
	}
	w.retryAt, w.failing = time.Now().Add(w.cfg.RetryEvery), true
	w.cfg.Trouble(fmt.Errorf("tape: %w", err))
}

// roll opens a segment for a checkpoint, if there is none or the open one is full.
func (w *Writer) roll(r *Record) {
	w.need.Store(false)
	if w.failing && time.Now().Before(w.retryAt) {
		return
	}
	if w.out != nil {
		w.flush()
		if w.out == nil || w.seg.size < w.cfg.SegmentBytes && r.Now-w.since < w.cfg.SegmentAge && !r.Checkpoint.Start {
			return
		}
		w.shut()
	}
	w.number++
	w.seg = segment{number: w.number, wall: r.Checkpoint.Wall, path: filepath.Join(w.cfg.Dir, segmentName(w.number, r.Checkpoint.Wall)+openSuffix)}
	w.enc, w.since = newEncoder(), r.Now
	w.retain(r.Checkpoint.Wall)
	err := os.MkdirAll(w.cfg.Dir, 0o700) // it may have been removed since
	if err == nil {
		var out file
		if out, err = w.cfg.create(w.seg.path); err == nil {
			w.out = out
			_, err = out.Write([]byte(magic))
		}
	}
	if err != nil {
		w.fail(err)
		return
	}
	w.seg.size = int64(len(magic))
	if w.failing {
		w.failing = false
		w.cfg.Trouble(nil)
	}
}

// shut closes the open segment.
func (w *Writer) shut() {
	if w.out == nil {
		return
	}
	w.flush()
	if w.out == nil {
		return
	}
	err := errors.Join(w.out.Sync(), w.out.Close())
	w.out = nil
	if err == nil {
		err = w.seg.compress(w.seg.size)
	}
	if err != nil {
		w.cfg.Log.Warn("tape: a segment stays open", "file", w.seg.path, "error", err)
	}
}

// retain drops what is too old or too much, the oldest first, and never the open segment.
func (w *Writer) retain(now time.Time) {
	list, err := segments(w.cfg.Dir)
	if err != nil {
		w.cfg.Log.Warn("tape: old segments stay", "error", err)
		return
	}
	total := int64(0)
	for i := range list {
		total += list[i].size
	}
	for i := range list {
		s := &list[i]
		// A segment is as old as the one after it begins.
		end := now
		if i+1 < len(list) {
			end = list[i+1].wall
		}
		if total <= w.cfg.MaxBytes && now.Sub(end) <= w.cfg.MaxAge {
			break
		}
		if err := os.Remove(s.path); err != nil {
			w.cfg.Log.Warn("tape: an old segment stays", "file", s.path, "error", err)
			break
		}
		total -= s.size
		w.cfg.Log.Info("tape: an old segment was dropped", "file", s.path)
	}
}
