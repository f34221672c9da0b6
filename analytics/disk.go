package analytics

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	if _, err := os.Stat(a.cfg.Dir); a.begun && errors.Is(err, fs.ErrNotExist) {
		a.missing = true // it is made anew, maybe by a try that then fails
	}
	s, lost, err := shelf.Open(ctx, a.shelfConfig(), a.cfg.Now())
	if a.torn {
		// A write that failed has torn the log, and nothing came after it: what it was about waits still.
		lost = slices.DeleteFunc(lost, func(l shelf.Lost) bool { return l.Mended })
	}
	a.tell(lost)
	if err == nil {
		a.size.Store(s.Size())
		a.tellMissing()
		if !a.begun {
			a.begin(ctx, s)
		}
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
		a.waiting.merge(func() []cells.Cell {
			// The disk could not be opened for a while: these would be closed by now, as are those beside them.
			over := a.book.Restore(list, open)
			for i := range over {
				a.day.Add(over[i].Key, over[i].Start, &over[i].Tally)
			}
			return over
		})
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
	a.size.Store(0)
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
		a.size.Store(0)
		a.trouble(err)
	}
}

func (a *Analytics) tell(lost []shelf.Lost) {
	for _, l := range lost {
		a.log.Error("series are lost", "what", l.What, "path", l.Path, "error", l.Err)
		message := fmt.Sprintf("%s is missing from the series: %v", l.What, l.Err)
		if !l.Mended { // what is mended stays where it is, less what was damaged
			message += ". The files are kept as " + l.Path
		}
		a.news.SeriesLost(l.Path, message)
	}
}

// tellMissing says that the folder was taken away, once there is another.
func (a *Analytics) tellMissing() {
	if !a.missing {
		return
	}
	a.missing = false
	a.log.Error("series are lost: the folder was missing; a new one is begun", "path", a.cfg.Dir)
	a.news.SeriesLost(a.cfg.Dir, fmt.Sprintf("the folder %s was missing; a new one is begun, without what was measured before. "+
		"To have that again, stop the process, put the folder back in place of the new one, and start it", a.cfg.Dir))
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
func (a *Analytics) keepOpen() error { return a.writeOpen(a.book.Open("")) }

// keepAll writes the cells that are open and those that wait for the disk, for the process after this one.
func (a *Analytics) keepAll() {
	list := append(slices.Clone(a.waiting.peek()), a.book.Open("")...)
	if len(list) == 0 {
		return
	}
	n := len(list)
	if !a.begun { // what the process before left was not taken over, and must not be written over
		list = append(a.readOpen(), list...)
	}
	if err := a.writeOpen(list); err != nil {
		a.log.Error("series: cells of ten seconds could not be kept, and are missing from the series; see that the disk has room and can be written", "cells", n, "error", err)
		return
	}
	a.log.Warn("series: the disk took no samples; the next process writes them", "cells", n, "file", a.openFile(), "error", a.lastTrouble)
}

func (a *Analytics) writeOpen(list []cells.Cell) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(list); err != nil {
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
