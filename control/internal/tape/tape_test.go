package tape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/control/internal/engine"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

var origin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const base = time.Hour // instant of origin

// wall is the wall time of a number of seconds after the origin, instant the core's.
func wall(s float64) time.Time           { return origin.Add(time.Duration(s * 1e9)) }
func instant(s float64) steering.Instant { return base + time.Duration(s*1e9) }

func checkpoint(s float64, start bool) Record {
	return Record{Kind: Checkpoint, Now: instant(s), Checkpoint: &State{
		Start: start, Version: "test", Wall: wall(s), Documents: []Document{{Kind: "Service", Name: "shop", Revision: 3, Document: []byte(`{"kind":"Service"}`)}},
		Overrides: []engine.Override{{Name: "o", Kind: engine.Drain, Service: "shop", Edge: "a", Until: instant(s + 60), Ended: true}},
		Points:    []steering.Point{{Name: "p", Labels: map[string]string{"country": "CN"}}},
		Rules:     []steering.State{{Format: 1, Rule: "shop/default", At: instant(s), Points: []string{"p"}}},
	}}
}

var sources = []*Source{
	{Point: "p", Task: "t1", Uses: []snapshot.TaskUse{{Service: "shop", Rule: "default", Edge: "a", Address: "192.0.2.1"}}},
	{Point: "q", Task: "t2"},
}

// story is some records of every kind, a second apart.
func story() []Record {
	out := []Record{checkpoint(0, true)}
	for i := 1; i < 20; i++ {
		now := instant(float64(i))
		r := Record{Kind: Observation, Now: now, At: now, Source: sources[i%2], OK: i%3 != 0}
		if r.OK {
			r.Latency = time.Duration(i) * 1234567
		} else {
			r.Cause = "timeout"
		}
		if i%4 == 0 {
			r.At -= 300 * time.Millisecond
		}
		out = append(out, r)
	}
	now := instant(20)
	return append(out,
		Record{Kind: Advance, Now: now},
		Record{Kind: Configured, Now: now, Change: &Change{Put: []Document{{Kind: "Service", Name: "x", Document: []byte(`{}`)}}, Deleted: []string{"Service/y"}}},
		Record{Kind: Points, Now: now, Points: []steering.Point{{Name: "p", Silent: true}}},
		Record{Kind: Decided, Now: now, Decision: &Decision{Rule: "shop/default", At: now, From: "a", To: "b", Cause: "down"}},
	)
}

// running is a writer that runs until stop.
func running(t *testing.T, cfg Config) (w *Writer, stop func()) {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.FlushEvery == 0 {
		cfg.FlushEvery = time.Hour
	}
	w, err := NewWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var once sync.Once
	go func() { _ = w.Run(ctx) }()
	stop = func() { once.Do(func() { cancel(); <-w.ended }) }
	t.Cleanup(stop)
	return w, stop
}

func put(t *testing.T, w *Writer, records ...Record) {
	t.Helper()
	for _, r := range records {
		if !w.Put(r) {
			t.Fatal("a record was not taken")
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// read gives the records of a range.
func read(t *testing.T, dir string, from, to time.Time) []Record {
	t.Helper()
	var out []Record
	if err := Open(dir).Range(from, to, func(r *Record) error { out = append(out, *r); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// told leaves out what the reader adds.
func told(records []Record) []Record {
	out := slices.Clone(records)
	for i := range out {
		out[i].Wall = time.Time{}
	}
	return out
}

// TestWhatIsReadIsWhatWasWritten reads every kind of record back: from the open segment, the closed one, and from the
// middle.
//
// Covers: issue4 tape
func TestWhatIsReadIsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	w, stop := running(t, Config{Dir: dir})
	want := story()
	put(t, w, want...)
	if d := cmp.Diff(want, told(read(t, dir, origin, wall(100)))); d != "" {
		t.Errorf("while it is written:\n%s", d)
	}
	stop()
	list, err := segments(dir)
	if err != nil || len(list) != 1 || !list[0].closed {
		t.Fatalf("segments %+v, %v", list, err)
	}
	got := read(t, dir, origin, wall(100))
	if d := cmp.Diff(want, told(got)); d != "" {
		t.Errorf("after it was closed:\n%s", d)
	}
	for _, r := range got {
		if !r.Wall.Equal(origin.Add(r.Now - base)) {
			t.Errorf("wall time of %v is %v", r.Now, r.Wall)
		}
	}
	if got := read(t, dir, wall(5), wall(7)); len(got) != 8 {
		t.Errorf("%d records up to the seventh second, with the checkpoint", len(got))
	}
	var before *BeforeError
	err = Open(dir).Range(wall(-1), wall(3), func(*Record) error { return nil })
	if !errors.As(err, &before) || !before.Oldest.Equal(origin) || !errors.Is(err, ErrBefore) {
		t.Errorf("before the tape: %v", err)
	}
	if err := Open(filepath.Join(dir, "none")).Range(origin, origin, nil); !errors.Is(err, ErrBefore) || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty tape: %v", err)
	}
	stopped := errors.New("stopped")
	if err := Open(dir).Range(origin, wall(9), func(*Record) error { return stopped }); !errors.Is(err, stopped) {
		t.Errorf("the caller's error: %v", err)
	}
}

// TestTruncatedAnywhere cuts a small segment at every byte, and damages it all over: what is read is a prefix. The next
// writer cuts the torn end off and goes on.
//
// Covers: issue4 tape crash
func TestTruncatedAnywhere(t *testing.T) {
	dir := t.TempDir()
	w, _ := running(t, Config{Dir: dir})
	want := story()[:9]
	for _, r := range want {
		put(t, w, r) // a frame each
	}
	list, _ := segments(dir)
	whole, err := os.ReadFile(list[0].path)
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	name := filepath.Base(list[0].path)
	prefix := func(what string, b []byte) int {
		if err := os.WriteFile(filepath.Join(other, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		var got []Record
		err := Open(other).Range(origin, wall(100), func(r *Record) error { got = append(got, *r); return nil })
		if err != nil && !errors.Is(err, ErrBefore) {
			t.Fatalf("%s: %v", what, err)
		}
		if len(got) > len(want) || len(got) > 0 && !cmp.Equal(want[:len(got)], told(got)) {
			t.Fatalf("%s: %d records are no prefix", what, len(got))
		}
		return len(got)
	}
	last := 0
	for n := range len(whole) + 1 {
		k := prefix(fmt.Sprintf("cut at %d", n), whole[:n])
		if k < last {
			t.Fatalf("cut at %d: %d records, %d of less", n, k, last)
		}
		last = k
	}
	if last != len(want) {
		t.Errorf("%d of %d records of the whole segment", last, len(want))
	}
	for n := 0; n < len(whole); n += 7 {
		b := bytes.Clone(whole)
		b[n] ^= 0x40
		prefix(fmt.Sprintf("damaged at %d", n), b)
	}
}

// TestTornTailIsCut starts a writer on a folder with a torn segment.
//
// Covers: issue4 tape crash
func TestTornTailIsCut(t *testing.T) {
	dir := t.TempDir()
	w, _ := running(t, Config{Dir: dir})
	put(t, w, story()...)
	list, _ := segments(dir)
	b, _ := os.ReadFile(list[0].path)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, filepath.Base(list[0].path)), append(b, 1, 2, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	again, stop := running(t, Config{Dir: other, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "torn") || !strings.Contains(log.String(), list[0].path[len(dir)+1:]) {
		t.Errorf("the log says: %s", &log)
	}
	put(t, again, checkpoint(100, true), Record{Kind: Advance, Now: instant(101)})
	stop()
	got := read(t, other, origin, wall(200))
	if len(got) != len(story())+2 || got[len(got)-1].Kind != Advance {
		t.Errorf("%d records", len(got))
	}
}

// TestSegmentsRollAndAreDropped fills segments by size and time, and keeps no more than is wanted.
//
// Covers: issue4 tape retention
func TestSegmentsRollAndAreDropped(t *testing.T) {
	dir := t.TempDir()
	w, stop := running(t, Config{Dir: dir, SegmentAge: 10 * time.Second, MaxAge: time.Minute})
	for i := range 20 {
		put(t, w, checkpoint(float64(10*i), i == 0), Record{Kind: Advance, Now: instant(float64(10*i) + 5)})
	}
	list, _ := segments(dir)
	if len(list) < 6 || len(list) > 9 || list[0].wall.Before(wall(110)) {
		t.Errorf("%d segments, from %v", len(list), list[0].wall)
	}
	if s, err := w.Stats(); err != nil || !s.Oldest.Equal(list[0].wall) || s.Bytes == 0 || s.Missing != 0 {
		t.Errorf("stats %+v", s)
	}
	stop()
	// One in the middle is lost: there is a gap, and all else.
	list, _ = segments(dir)
	if err := os.Remove(list[3].path); err != nil {
		t.Fatal(err)
	}
	var kinds []Kind
	for _, r := range read(t, dir, list[1].wall, wall(1000)) {
		kinds = append(kinds, r.Kind)
	}
	if !slices.Equal(kinds[:6], []Kind{Checkpoint, Advance, Checkpoint, Advance, Gap, Checkpoint}) {
		t.Errorf("kinds %v", kinds)
	}
	small, _ := running(t, Config{Dir: dir, SegmentAge: time.Second, MaxBytes: 1})
	put(t, small, checkpoint(300, true))
	if list, _ := segments(dir); len(list) != 1 {
		t.Errorf("%d segments are left of a budget of a byte", len(list))
	}
}

// TestASlowDisk proves that Put never waits: what does not fit is a gap on the tape, with its number, and a checkpoint is
// wanted.
//
// Covers: issue4 tape slow disk
func TestASlowDisk(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWriter(Config{Dir: dir, Queue: 4, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w.Put(checkpoint(0, true))
	taken := 0
	for i := range 10 { // nobody writes
		if w.Put(Record{Kind: Advance, Now: instant(float64(i))}) {
			taken++
		}
	}
	if taken != 3 || w.Missing() != 7 {
		t.Errorf("%d taken, %d missing", taken, w.Missing())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, w, Record{Kind: Advance, Now: instant(11)})
	if !w.Wants() {
		t.Error("no checkpoint is wanted after a gap")
	}
	put(t, w, checkpoint(12, false))
	if w.Wants() {
		t.Error("a checkpoint is wanted right after one")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var missing uint64
	for _, r := range read(t, dir, origin, wall(100)) {
		missing += r.Missing
	}
	if missing != 7 {
		t.Errorf("%d missing by the tape", missing)
	}
}

// fullDisk is a file system that is full while full is set.
type fullDisk struct {
	mu   sync.Mutex
	full bool
}

func (d *fullDisk) set(full bool) { d.mu.Lock(); defer d.mu.Unlock(); d.full = full }

func (d *fullDisk) create(path string) (file, error) {
	f, err := os.Create(path)
	return &fullFile{d, f}, err
}

type fullFile struct {
	d *fullDisk
	*os.File
}

var errFull = errors.New("no space left on device")

// Write takes half of what does not fit, as a disk does.
func (f *fullFile) Write(b []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.full {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, errFull
	}
	return f.File.Write(b)
}

// TestAFullDisk proves that a full disk stops the tape and nothing else, that it is told, and that the tape goes on with a gap
// when there is room.
//
// Covers: issue4 tape disk full
func TestAFullDisk(t *testing.T) {
	disk, dir := &fullDisk{}, t.TempDir()
	trouble := make(chan error, 100)
	w, stop := running(t, Config{Dir: dir, create: disk.create, Trouble: func(err error) { trouble <- err }, RetryEvery: time.Nanosecond})
	put(t, w, checkpoint(0, true), Record{Kind: Advance, Now: instant(1)})
	disk.set(true)
	put(t, w, Record{Kind: Advance, Now: instant(2)})
	if err := <-trouble; !errors.Is(err, errFull) {
		t.Errorf("told: %v", err)
	}
	put(t, w, Record{Kind: Advance, Now: instant(3)}, checkpoint(4, false), Record{Kind: Advance, Now: instant(5)})
	disk.set(false)
	for len(trouble) > 0 {
		<-trouble
	}
	put(t, w, Record{Kind: Advance, Now: instant(6)})
	if !w.Wants() {
		t.Fatal("no checkpoint is wanted")
	}
	put(t, w, checkpoint(7, false), Record{Kind: Advance, Now: instant(8)})
	if err := <-trouble; err != nil {
		t.Errorf("told: %v", err)
	}
	stop()
	got := read(t, dir, origin, wall(100))
	var kinds []Kind
	for _, r := range got {
		kinds = append(kinds, r.Kind)
	}
	if !slices.Equal(kinds, []Kind{Checkpoint, Advance, Gap, Gap, Checkpoint, Advance}) &&
		!slices.Equal(kinds, []Kind{Checkpoint, Advance, Gap, Checkpoint, Advance}) {
		t.Errorf("kinds %v", kinds)
	}
	if got[len(got)-1].Now != instant(8) {
		t.Errorf("last %+v", got[len(got)-1])
	}
}

// TestOneWriteFails proves that the reader is told of what a single failed write lost, also when the next segment opens at the
// first try.
//
// Covers: issue4 tape disk full
func TestOneWriteFails(t *testing.T) {
	disk, dir := &fullDisk{}, t.TempDir()
	w, stop := running(t, Config{Dir: dir, create: disk.create, RetryEvery: time.Nanosecond})
	put(t, w, checkpoint(0, true), Record{Kind: Advance, Now: instant(1)})
	disk.set(true)
	put(t, w, Record{Kind: Advance, Now: instant(2)})
	disk.set(false)
	put(t, w, checkpoint(3, false), Record{Kind: Advance, Now: instant(4)})
	stop()
	for _, end := range []float64{2, 100} { // also to who asks for the time that is missing
		got := read(t, dir, origin, wall(end))
		if !slices.ContainsFunc(got, func(r Record) bool { return r.Kind == Gap }) {
			t.Errorf("no gap in %d records up to second %v", len(got), end)
		}
	}
}

// TestTheFolderIsRemoved proves that the tape goes on in a new folder when somebody took the old one away.
//
// Covers: issue4 tape
func TestTheFolderIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tape")
	w, stop := running(t, Config{Dir: dir, RetryEvery: time.Nanosecond, SegmentBytes: 1})
	put(t, w, checkpoint(0, true), Record{Kind: Advance, Now: instant(1)})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	put(t, w, checkpoint(2, false), Record{Kind: Advance, Now: instant(3)})
	stop()
	if got := read(t, dir, wall(2), wall(100)); len(got) != 2 || got[1].Now != instant(3) {
		t.Errorf("in the new folder: %+v", got)
	}
}

// FuzzFrames feeds the reader anything: it fails or gives records, and never more than there is.
func FuzzFrames(f *testing.F) {
	e := newEncoder()
	for _, r := range story() {
		if err := e.add(&r); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(bytes.Clone(e.frame()))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		var d decoder
		for {
			payload, err := readFrame(r)
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, errTorn) {
					t.Fatal(err)
				}
				// What has no checksum is still taken apart without harm.
				if len(b) > frameHead {
					_ = (&decoder{}).records(b[frameHead:], func(*Record) error { return nil })
				}
				return
			}
			if d.records(payload, func(*Record) error { return nil }) != nil {
				return
			}
		}
	})
}

// BenchmarkPut is what an observation costs the loop and the writer together.
func BenchmarkPut(b *testing.B) {
	dir := b.TempDir()
	w, err := NewWriter(Config{Dir: dir, Queue: 1 << 16, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = w.Run(ctx) }()
	w.Put(checkpoint(0, true))
	b.ReportAllocs()
	now := instant(0)
	for i := 0; b.Loop(); i++ {
		now += 33*time.Microsecond + time.Duration(i%977)
		w.Put(Record{Kind: Observation, Now: now, At: now - 12345678, Source: sources[i&1], OK: true, Latency: 20*time.Millisecond + time.Duration(i%7919)*time.Microsecond})
		if i&(1<<15-1) == 0 {
			_ = w.Flush(ctx) // the writer's time counts here
		}
	}
	_ = w.Flush(ctx)
	cancel()
	<-w.ended
	b.ReportMetric(float64(w.Missing())/float64(b.N), "missing/op")
}

// BenchmarkEncode is what an observation costs the writer, and its bytes.
func BenchmarkEncode(b *testing.B) {
	e := newEncoder()
	b.ReportAllocs()
	now, size := instant(0), 0
	for i := 0; b.Loop(); i++ {
		now += 33*time.Microsecond + time.Duration(i%977)
		_ = e.add(&Record{Kind: Observation, Now: now, At: now - 12345678, Source: sources[i&1], OK: true, Latency: 20*time.Millisecond + time.Duration(i%7919)*time.Microsecond})
		if len(e.buf) > frameBytes {
			size += len(e.frame())
		}
	}
	b.ReportMetric(float64(size)/float64(b.N), "bytes/op")
}
