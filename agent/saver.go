package agent

import (
	"context"
	"encoding/json"
)

// saver keeps the newest snapshot of a kind on disk: the first change at once, then at most one write every
// Config.SaveEvery.
type saver[T any] struct {
	a   *Agent
	box *mailbox[T]

	file, kind     string
	version        int
	about, trouble string // what is complained of when it cannot be written
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
		err = s.a.store.keep(s.a.store.path(s.file), s.kind, s.version, b)
	}
	if err != nil {
		s.a.complain(s.about, "NODE_DISK", s.trouble, err)
		s.box.restore(v)
		return
	}
	s.a.settle(s.about)
}
