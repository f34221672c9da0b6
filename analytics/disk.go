package analytics

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"steerpoint/analytics/internal/cells"
	"steerpoint/analytics/internal/shelf"
	"steerpoint/internal/atomicfile"
)

// The file of open cells is written with every step: without it a process that is killed would take the last 75 seconds
// with it, and one that is stopped would write half cells.
const (
	openKind   = "open-cells"
	openFormat = 1
)

// checkPause is the time between two searches for damage: each reads everything.
const checkPause = 10 * time.Minute

func (a *Analytics) shelfConfig() shelf.Config {
	return shelf.Config{
		Dir: a.cfg.Dir, Retention: a.cfg.Retention, MaxBytes: a.cfg.MaxBytes, Block: a.cfg.block, Log: a.log,
	}
}

// open opens the disk. The first time it takes over what the process before left: the cells that were open, and the last
// day.
func (a *Analytics) open(ctx context.Context) error {
	s, lost, err := shelf.Open(ctx, a.shelfConfig(), a.cfg.Now())
	if a.torn {
		// A write that failed has torn the log, and nothing came after it: what it was about waits still.
		lost = slices.DeleteFunc(lost, func(l shelf.Lost) bool { return l.Mended })
	}
	a.tell(lost)
	if err == nil && !a.begun {
		a.begin(ctx, s)
	}
	a.using.Lock()
	defer a.using.Unlock()
	a.shelf, a.why = s, err
	return err
}

// begin takes over what the process before left.
func (a *Analytics) begin(ctx context.Context, s *shelf.Shelf) {
	a.begun = true
	open := int64(0)
	if newest, ok := s.Newest(); ok {
		open = newest + Width.Milliseconds()
	}
	if list := a.readOpen(); len(list) > 0 {
		a.book.Restore(list, open)
	}
	if err := a.readDay(ctx, s); err != nil && ctx.Err() == nil {
		a.log.Warn("series: the last day could not be read; figures of the last 24 hours begin now", "error", err)
		a.suspectDamage()
	}
}

// reopen tries again after trouble. A TSDB whose log could not be written goes on with a torn log: opened anew, it mends
// that.
func (a *Analytics) reopen(ctx context.Context) error {
	if time.Now().Before(a.retryAt) {
		return a.lastTrouble
	}
	a.close()
	if err := a.open(ctx); err != nil {
		return err
	}
	a.torn = false
	return nil
}

// close closes the disk, if it is open.
func (a *Analytics) close() {
	a.using.Lock()
	defer a.using.Unlock()
	if a.shelf == nil {
		return
	}
	if err := a.shelf.Close(); err != nil {
		a.log.Warn("series not closed", "error", err)
	}
	a.shelf, a.why = nil, errors.New("they are closed")
}

// check looks for what a reader stumbled over, and sets it aside.
func (a *Analytics) check(ctx context.Context) {
	if a.shelf == nil || !a.checked.IsZero() && time.Since(a.checked) < checkPause {
		return
	}
	a.checked = time.Now()
	a.using.Lock()
	defer a.using.Unlock()
	checked, lost, err := a.shelf.Check(ctx, a.cfg.Now())
	a.shelf, a.why = checked, err
	a.tell(lost)
	if err != nil {
		a.trouble(err)
	}
}

func (a *Analytics) tell(lost []shelf.Lost) {
	for _, l := range lost {
		a.log.Error("series are lost", "what", l.What, "path", l.Path, "error", l.Err)
		a.news.SeriesLost(l.Path, fmt.Sprintf("%s is missing from the series: %v. The files are kept as %s", l.What, l.Err, l.Path))
	}
}

func (a *Analytics) suspectDamage() {
	select {
	case a.suspect <- struct{}{}:
	default:
	}
}

// readDay sums up what is on disk of the last 24 hours.
func (a *Analytics) readDay(ctx context.Context, s *shelf.Shelf) error {
	now := a.cfg.Now()
	snap, err := s.Snapshot(shelf.Query{From: now.Add(-24 * time.Hour).UnixMilli(), To: now.UnixMilli(), Edges: true, Steered: true, Latency: true}, func() {})
	if err != nil {
		return err
	}
	err = snap.Each(ctx, func(k cells.Key) func(int64, *cells.Tally) {
		return func(start int64, part *cells.Tally) { a.day.Add(k, start, part) }
	})
	return errors.Join(err, snap.Close())
}

// keepOpen writes the cells that are open, for the process after this one.
func (a *Analytics) keepOpen() error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(a.book.Open("")); err != nil {
		return fmt.Errorf("open cells: %w", err)
	}
	if err := atomicfile.Write(a.openFile(), openKind, openFormat, b.Bytes()); err != nil {
		return fmt.Errorf("open cells: %w", err)
	}
	return nil
}

// readOpen reads the cells that were open. A damaged file is set aside: a minute is missing then.
func (a *Analytics) readOpen() []cells.Cell {
	var list []cells.Cell
	_, payload, err := atomicfile.Read(a.openFile(), openKind, openFormat)
	if err == nil {
		if err = gob.NewDecoder(bytes.NewReader(payload)).Decode(&list); err == nil {
			return list
		}
		err = fmt.Errorf("%s: %w", a.openFile(), err)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, atomicfile.ErrNewer) {
		return nil
	}
	lost := shelf.Lost{What: "the last minute before the start", Path: a.openFile(), Err: err}
	if aside, asideErr := atomicfile.SetAside(a.openFile()); asideErr == nil {
		lost.Path = aside
	}
	a.tell([]shelf.Lost{lost})
	return nil
}
