package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"sync"
	"time"

	"steerpoint/internal/atomicfile"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

const (
	edgeKind    = "edge-snapshot"
	edgeVersion = 1
)

// ErrNotYet is matched by the error of EdgePlane.Swap when a snapshot is good and cannot be used yet: its secrets are not sealed
// to this node. Control seals them to a node that is new with the next one, so it is no refusal.
var ErrNotYet = errors.New("the secrets of the snapshot are not for this gateway yet")

// EdgePlane is the gateway of the node, as *edge.Snapshots with an adapter is.
type EdgePlane interface {
	// Swap makes a snapshot the one that serves. On an error the one before goes on.
	Swap(p *snapshot.EdgePack) error
	// Explain says what it would do with a request.
	Explain(q *report.EdgeQuestion) (*report.EdgeAnswer, error)
	// State describes it; its Version is 0 while there is none.
	State() report.NodeEdge
}

// edgeFollower brings snapshots to the gateway, and the questions of people.
type edgeFollower struct {
	a     *Agent
	plane EdgePlane
	told  bool // control has said on this stream what it set for the node
	saver *saver[*snapshot.EdgePack]
	asks  chan struct{} // a place for each question under way
	wg    sync.WaitGroup
}

func newEdgeFollower(a *Agent, plane EdgePlane) *edgeFollower {
	return &edgeFollower{
		a: a, plane: plane, asks: make(chan struct{}, maxAsks),
		saver: &saver[*snapshot.EdgePack]{
			a: a, box: newMailbox[*snapshot.EdgePack](), file: edgeFile, kind: edgeKind, version: edgeVersion,
			about: "edgeDisk", trouble: "the gateway's snapshot cannot be kept on disk: a restart would begin with an older one",
		},
	}
}

func (f *edgeFollower) run(ctx context.Context) error {
	defer f.wg.Wait()
	return f.a.follow(ctx, report.SnapshotEdge, func(ctx context.Context, s session) error {
		f.told = false
		return s.edge.FollowEdge(ctx, f.plane.State().Version, func(u wire.EdgeUpdate) error { return f.take(ctx, u) })
	})
}

func (f *edgeFollower) take(ctx context.Context, u wire.EdgeUpdate) error {
	f.a.streamUp(report.SnapshotEdge)
	f.told = f.a.hearState(u.State, f.told)
	switch {
	case u.Ask != nil:
		f.ask(ctx, *u.Ask)
	case u.Full != nil:
		f.swap(u.Full, u.Arrived)
	}
	return nil
}

// swap hands a snapshot on and answers for it. One that is refused is refused: the stream goes on, and the next may do.
func (f *edgeFollower) swap(p *snapshot.EdgePack, arrived time.Time) {
	err := p.Whole()
	if err == nil {
		err = f.a.guarded(func() error { return f.plane.Swap(p) })
	}
	const about = "gateway"
	ack := report.Ack{Snapshot: report.SnapshotEdge, Version: p.Version(), Using: p.Version(), Took: time.Since(arrived)}
	switch {
	case err == nil:
		f.saver.box.put(p)
		f.a.settle(about)
		ack.OK = true
	case errors.Is(err, ErrNotYet):
		f.a.complain(about, "EDGE_SECRETS_MISSING", "a snapshot of control waits for its secrets; the gateway goes on by the one before, if there is one", err)
		return
	default:
		f.a.complain(about, "SNAPSHOT_REFUSED", "a snapshot of control cannot be used; the gateway goes on by the one before", err)
		ack.Reason, ack.Using = coded("SNAPSHOT_REFUSED", err), f.plane.State().Version
	}
	f.a.ack(ack)
}

// ask answers a question and sends the answer up. The stream does not wait for it.
func (f *edgeFollower) ask(ctx context.Context, q wire.EdgeAsk) {
	f.a.metrics.asks.Inc()
	answer, failure := report.EdgeAnswer{}, fmt.Sprintf("gateway %s answers %d questions already; ask again in a moment", f.a.Name(), maxAsks)
	free := true
	select {
	case f.asks <- struct{}{}:
	default:
		free = false
	}
	f.wg.Go(func() {
		if free {
			defer func() { <-f.asks }()
			answer, failure = f.answer(&q.Question)
		}
		s, _ := f.a.link.get()
		ctx, cancel := context.WithTimeout(ctx, min(callTime, cmp.Or(max(q.Timeout, 0), callTime)))
		defer cancel()
		if err := s.edge.Explained(ctx, q.ID, answer, failure); err != nil && ctx.Err() == nil {
			f.a.heard(err)
			f.a.log.Warn("the answer to a question did not reach control", "ask", q.ID, "error", err)
		}
	})
}

// answer answers one. A fault in it is one answer's, and not the process's.
func (f *edgeFollower) answer(q *report.EdgeQuestion) (a report.EdgeAnswer, failure string) {
	defer func() {
		if v := recover(); v != nil {
			f.a.log.Error("a question failed inside of this node", "url", q.URL, "panic", v, "stack", string(debug.Stack()))
			failure = "the question failed inside of gateway " + f.a.Name() + "; its log says more"
		}
	}()
	got, err := f.plane.Explain(q)
	if err != nil {
		return a, err.Error()
	}
	return *got, ""
}

// LoadEdge makes a gateway serve by the snapshot on disk, before anybody is asked. Whatever is wrong with it, the gateway starts
// without, and control sends another.
func (a *Agent) LoadEdge(plane EdgePlane) {
	path := a.store.path(edgeFile)
	_, b, err := atomicfile.Read(path, edgeKind, edgeVersion)
	p := new(snapshot.EdgePack)
	if err == nil {
		jsonErr := json.Unmarshal(b, p)
		if jsonErr == nil {
			jsonErr = p.Whole()
		}
		if jsonErr != nil {
			err = &atomicfile.DamagedError{Path: path, Why: "it is whole but holds no snapshot: " + jsonErr.Error()}
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.Is(err, atomicfile.ErrDamaged):
		aside, asideErr := atomicfile.SetAside(path)
		a.log.Error("the gateway's snapshot on disk is damaged: it is set aside, and control is asked for another",
			"error", err, "movedTo", aside, "setAside", asideErr)
		return
	case err == nil:
		err = a.guarded(func() error { return plane.Swap(p) })
	}
	if err != nil {
		a.log.Error("the gateway's snapshot on disk cannot be used: control is asked for another", "file", path, "error", err)
		return
	}
	a.log.Info("serving by the snapshot on disk until control sends a newer one", "version", p.Version(), "services", len(p.Edge.Services))
}
