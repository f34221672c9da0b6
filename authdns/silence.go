package authdns

import (
	"context"
	"fmt"
	"time"

	"steerpoint/snapshot"
)

// Current is the map that answers; nil: none. It must not be changed: the next one shares most of it.
func (s *Server) Current() *snapshot.DNS {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Queries is how many queries were answered since the start.
func (s *Server) Queries() uint64 { return s.metrics.answered() }

// Confirm notes that control has just been heard: the map that answers is its newest, or newer ones are on their way.
func (s *Server) Confirm() { s.heard.Store(int64(time.Since(s.epoch))) }

// silence is how long control has not been heard; 0 where that is not watched.
func (s *Server) silence() time.Duration {
	if s.cfg.SilentAfter == 0 {
		return 0
	}
	return max(0, time.Since(s.epoch)-time.Duration(s.heard.Load()))
}

// watchSilence lets answers say when control is silent: they are as good as the last map, and whoever looks into one
// should see that.
func (s *Server) watchSilence(ctx context.Context) {
	if s.cfg.SilentAfter == 0 {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.responder.SetNote(s.note())
		}
	}
}

// note is what answers say while control is silent; "" while it is not.
func (s *Server) note() string {
	silent := s.silence()
	if silent < s.cfg.SilentAfter || silent == 0 {
		return ""
	}
	m := s.Map()
	return fmt.Sprintf("no word from control for %s: answered by map %d of %s",
		silent.Truncate(time.Second), m.Version, m.Created.UTC().Format(time.RFC3339))
}
