package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"steerpoint/internal/atomicfile"
)

// diskFile is where a kind of snapshot is kept for the next start, and how that is told of.
type diskFile struct {
	file, kind string
	version    int
	holds      string // what is in it, in one word
	about      string // what is complained of when it cannot be written
	// Sentences, of one that cannot be written, is damaged, or cannot be used as it is.
	unkept, damaged, unusable string
}

// load reads the file into v, and reports whether it is there and good; whole, if not nil, says what else v must be. Whatever is
// wrong is told here: the node starts without, and control sends another. One that is damaged is set aside.
func (d *diskFile) load(a *Agent, v any, whole func() error) bool {
	path := a.store.path(d.file)
	_, b, err := atomicfile.Read(path, d.kind, d.version)
	if err == nil {
		bad := json.Unmarshal(b, v)
		if bad == nil && whole != nil {
			bad = whole()
		}
		if bad != nil {
			err = &atomicfile.DamagedError{Path: path, Why: "it is whole but holds no " + d.holds + ": " + bad.Error()}
		}
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, atomicfile.ErrDamaged):
		aside, asideErr := atomicfile.SetAside(path)
		a.log.Error(d.damaged, "error", err, "movedTo", aside, "setAside", asideErr)
	default:
		a.log.Error(d.unusable, "file", path, "error", err)
	}
	return false
}

// saver keeps the newest snapshot of a kind on disk: the first change at once, then at most one write every
// Config.SaveEvery.
type saver[T any] struct {
	a    *Agent
	box  *mailbox[T]
	disk diskFile
}

func newSaver[T any](a *Agent, d diskFile) *saver[T] {
	return &saver[T]{a: a, box: newMailbox[T](), disk: d}
}

func (s *saver[T]) run(ctx context.Context) error {
	defer s.save()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.box.more:
		}
		s.save()
		if !wait(ctx, s.a.cfg.SaveEvery, nil) {
			return nil
		}
	}
}

// save writes what waits. What cannot be written is tried again with the next change, and at the end.
func (s *saver[T]) save() {
	v, ok := s.box.take()
	if !ok {
		return
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = s.a.store.keep(s.a.store.path(s.disk.file), s.disk.kind, s.disk.version, b)
	}
	if err != nil {
		s.a.complain(s.disk.about, "NODE_DISK", s.disk.unkept, err)
		s.box.restore(v)
		return
	}
	s.a.settle(s.disk.about)
}
