package agent

import (
	"context"
	"errors"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

// errResync ends a stream because what came does not fit what the node has: the next one asks for everything.
var errResync = errors.New("asking control for the whole snapshot")

// follow keeps one stream standing: once opens it and returns when it has ended.
func (a *Agent) follow(ctx context.Context, kind string, once func(ctx context.Context, s session) error) error {
	b := a.newBackoff()
	for resynced := false; ctx.Err() == nil; {
		s, gen := a.link.get()
		err := once(ctx, s)
		again := a.again.heard() // what this stream rang itself is no news to it
		stood := a.streamDown(kind)
		if ctx.Err() != nil {
			return nil
		}
		if _, now := a.link.get(); now != gen { // it ended because a renewal opened another session
			continue
		}
		if stood >= steady {
			b.reset()
		}
		resync := errors.Is(err, errResync)
		if resync && !resynced { // at once, but not over and over: the whole one may not fit either
			resynced = true
			continue
		}
		resynced = resync
		pause := b.delay()
		if a.heard(err) {
			pause = shortened(hopeless, a.jitter)
		}
		a.cutOff(kind, err)
		wait(ctx, pause, again)
	}
	return nil
}

// cutOff tells of a stream that ended or cannot be opened: once, and then once a minute.
func (a *Agent) cutOff(kind string, err error) {
	if pki.CodeOf(err) == pki.CertExpired { // the renewal is under way, and says so if it fails
		return
	}
	a.complain(kind, "CONTROL_AWAY", "control cannot be followed for "+kind+" snapshots; this node goes on by the last it has", err)
}

// streamUp notes that control speaks on a stream.
func (a *Agent) streamUp(kind string) {
	a.mu.Lock()
	was := a.streams[kind]
	if !was.up {
		a.streams[kind] = streamState{up: true, since: time.Now()}
	}
	a.mu.Unlock()
	if was.up {
		return
	}
	a.settle(kind)
	a.again.ring()
	a.log.Info("following control", "snapshots", kind, "away", time.Since(was.since).Round(time.Millisecond))
}

// streamDown notes that a stream has ended, and gives how long it stood.
func (a *Agent) streamDown(kind string) (stood time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.streams[kind]
	if !s.up {
		return 0
	}
	a.streams[kind] = streamState{since: time.Now()}
	return time.Since(s.since)
}

func (a *Agent) stream(kind string) streamState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.streams[kind]
}

// dnsFollower brings maps to the name server.
type dnsFollower struct {
	a     *Agent
	plane DNSPlane
	base  *snapshot.DNS // what deltas are applied to: the map that answers
	whole bool          // ask for the whole map, whatever base is
	told  bool          // control has said on this stream what it set for the node
}

func newDNSFollower(a *Agent, plane DNSPlane) *dnsFollower {
	return &dnsFollower{a: a, plane: plane, base: plane.Current()}
}

func (f *dnsFollower) run(ctx context.Context) error {
	return f.a.follow(ctx, report.SnapshotDNS, func(ctx context.Context, s session) error {
		have := f.version()
		if f.whole {
			have, f.whole = 0, false
		}
		f.told = false
		return s.down.FollowDNS(ctx, have, f.take)
	})
}

func (f *dnsFollower) version() uint64 {
	if f.base == nil {
		return 0
	}
	return f.base.Version
}

func (f *dnsFollower) take(u wire.Update) error {
	f.a.streamUp(report.SnapshotDNS)
	f.told = f.a.hearState(u.State, f.told)
	switch {
	case u.Full != nil:
		f.swap(u.Full, u.Arrived)
	case u.Delta != nil:
		var d *snapshot.DNS
		err := f.a.guarded(func() (err error) { d, err = u.Delta.Apply(f.base); return err })
		if err != nil {
			f.whole = true
			f.refuse(u.Delta.To, u.Arrived, err)
			return errResync
		}
		if !f.swap(d, u.Arrived) {
			f.whole = true // the name server may refuse what a wrong base made of the delta
			return errResync
		}
	}
	return nil
}

// swap hands a map on and answers for it. A map that is refused is refused: the stream goes on, and the next may do.
func (f *dnsFollower) swap(d *snapshot.DNS, arrived time.Time) bool {
	if err := f.a.guarded(func() error { return f.plane.Swap(d) }); err != nil {
		f.refuse(d.Version, arrived, err)
		return false
	}
	f.base = d
	f.a.settle("map")
	f.a.ack(report.Ack{Snapshot: report.SnapshotDNS, Version: d.Version, OK: true, Using: d.Version, Took: time.Since(arrived)})
	return true
}

func (f *dnsFollower) refuse(version uint64, arrived time.Time, err error) {
	f.a.complain("map", "MAP_REFUSED", "a map of control cannot be used; the one before answers on", err)
	f.a.ack(report.Ack{
		Snapshot: report.SnapshotDNS, Version: version, Reason: coded("MAP_REFUSED", err), Using: f.version(), Took: time.Since(arrived),
	})
}
