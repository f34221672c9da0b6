package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

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
	asker *asker[report.EdgeAnswer]
}

func edgeDisk() diskFile {
	return diskFile{
		file: edgeFile, kind: edgeKind, version: edgeVersion, holds: "snapshot", about: "edgeDisk",
		unkept:   "the gateway's snapshot cannot be kept on disk: a restart would begin with an older one",
		damaged:  "the gateway's snapshot on disk is damaged: it is set aside, and control is asked for another",
		unusable: "the gateway's snapshot on disk cannot be used: control is asked for another",
	}
}

func newEdgeFollower(a *Agent, plane EdgePlane) *edgeFollower {
	return &edgeFollower{
		a: a, plane: plane, saver: newSaver[*snapshot.EdgePack](a, edgeDisk()),
		asker: &asker[report.EdgeAnswer]{
			a: a, places: make(chan struct{}, maxAsks), node: "gateway", busy: fmt.Sprintf("answers %d questions", maxAsks), one: "question",
			send: func(s session) sendAnswer[report.EdgeAnswer] { return s.edge.Explained },
		},
	}
}

func (f *edgeFollower) run(ctx context.Context) error {
	defer f.asker.wg.Wait()
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

// ask has a question answered, for which nobody waits longer than it says.
func (f *edgeFollower) ask(ctx context.Context, q wire.EdgeAsk) {
	f.asker.ask(ctx, question[report.EdgeAnswer]{
		id: q.ID, about: slog.String("url", q.Question.URL), sendIn: min(callTime, cmp.Or(max(q.Timeout, 0), callTime)),
		answer: func(context.Context) (report.EdgeAnswer, error) {
			got, err := f.plane.Explain(&q.Question)
			if err != nil {
				return report.EdgeAnswer{}, err
			}
			return *got, nil
		},
	})
}

// LoadEdge makes a gateway serve by the snapshot on disk, before anybody is asked. Whatever is wrong with it, the gateway starts
// without, and control sends another.
func (a *Agent) LoadEdge(plane EdgePlane) {
	d, p := edgeDisk(), new(snapshot.EdgePack)
	if !d.load(a, p, p.Whole) {
		return
	}
	if err := a.guarded(func() error { return plane.Swap(p) }); err != nil {
		a.log.Error(d.unusable, "file", a.store.path(d.file), "error", err)
		return
	}
	a.log.Info("serving by the snapshot on disk until control sends a newer one", "version", p.Version(), "services", len(p.Edge.Services))
}
