package authdns

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"steerpoint/internal/atomicfile"
	"steerpoint/snapshot"
)

// The file that keeps the newest map; see snapshot.MarshalMap for its versions.
const (
	stateKind    = "dns-map"
	stateVersion = snapshot.MapVersion
)

// stateShare is how many times as long as the last write took the next one waits at least, so that a map that is large
// takes no more than a twentieth of a processor and a disk.
const stateShare = 19

// ReadMap reads a map that a name server keeps on disk. A missing file matches fs.ErrNotExist, a damaged one
// atomicfile.ErrDamaged, one of a newer program atomicfile.ErrNewer. Whether the map validates, Swap says.
func ReadMap(file string) (*snapshot.DNS, error) {
	version, payload, err := atomicfile.Read(file, stateKind, stateVersion)
	if err != nil {
		return nil, err
	}
	d, err := snapshot.UnmarshalMap(version, payload)
	if err != nil {
		return nil, &atomicfile.DamagedError{Path: file, Why: "it is whole but not a map: " + err.Error()}
	}
	return d, nil
}

// loadState makes the map on disk the current one. Whatever is wrong with the file, the server goes on without it:
// control will send a map, and until then answers say "not ready".
func (s *Server) loadState() {
	if s.cfg.StateFile == "" {
		return
	}
	d, err := ReadMap(s.cfg.StateFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.log.Info("no map on disk: answering SERVFAIL until control sends one", "file", s.cfg.StateFile)
		return
	case errors.Is(err, atomicfile.ErrDamaged):
		s.setAside(err)
		return
	case err != nil:
		s.log.Error("the map on disk cannot be used: answering SERVFAIL until control sends one", "file", s.cfg.StateFile, "error", err)
		return
	}
	if err := s.swap(d, true); err != nil {
		s.setAside(&atomicfile.DamagedError{Path: s.cfg.StateFile, Why: "it is whole but its map does not validate: " + err.Error()})
		return
	}
	s.kept.Store(true)
	s.log.Info("answering by the map on disk until control sends a newer one", "file", s.cfg.StateFile,
		"version", d.Version, "created", d.Created, "names", s.responder.Index().Names())
}

// setAside keeps a damaged file under another name, for people to look at.
func (s *Server) setAside(why error) {
	aside, err := atomicfile.SetAside(s.cfg.StateFile)
	if err != nil {
		s.log.Error("the map on disk is damaged and cannot be set aside: answering SERVFAIL until control sends one",
			"error", why, "setAside", err)
		return
	}
	s.log.Error("the map on disk is damaged: it is set aside, answering SERVFAIL until control sends one",
		"error", why, "movedTo", aside)
}

// keepState writes the newest map to disk until ctx ends, and at the end: the first change at once, then at most one write
// every StateEvery, and of a large map fewer, but at once one whose keys can be opened after one whose could not. Queries and
// swaps never wait for it.
func (s *Server) keepState(ctx context.Context) {
	if s.cfg.StateFile == "" {
		return
	}
	defer s.saveState(context.WithoutCancel(ctx))
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		case <-s.pressing:
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		began := time.Now()
		s.saveState(ctx)
		pause.Reset(s.statePause(time.Since(began)))
	}
}

// statePause is how long after a write that took so long the next one waits.
func (s *Server) statePause(took time.Duration) time.Duration {
	return max(s.cfg.StateEvery, stateShare*took)
}

// saveState writes the current map if it is not on disk yet. What could not be written is tried again at the next
// change and at the end.
func (s *Server) saveState(ctx context.Context) {
	s.mu.Lock()
	d, unsaved := s.current, s.unsaved
	s.unsaved = false
	s.mu.Unlock()
	if !unsaved {
		return
	}
	payload, err := d.MarshalMap()
	if err == nil {
		err = atomicfile.WriteParts(s.cfg.StateFile, stateKind, stateVersion, payload...)
	}
	s.metrics.saved(err)
	if err == nil {
		s.removeOpenKeys()
		s.mu.Lock()
		s.kept.Store(s.current == d)
		s.mu.Unlock()
	}
	if err != nil {
		s.mu.Lock()
		s.unsaved = true
		s.mu.Unlock()
		s.log.ErrorContext(ctx, "the map cannot be kept on disk: a restart would answer by an older one, or none",
			"file", s.cfg.StateFile, "version", d.Version, "error", err)
	}
}
