package wire

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
)

func edgePack(version uint64) *snapshot.EdgePack {
	return &snapshot.EdgePack{
		Edge:   &snapshot.Edge{Version: version, Services: []snapshot.EdgeService{{Name: "shop", Groups: []snapshot.EdgeGroup{}, Routes: []snapshot.EdgeRoute{}}}},
		Sealed: &snapshot.Sealed{Envelope: []byte("sealed")},
	}
}

func followEdge(t testing.TB, c *Client, have uint64) *following[EdgeUpdate] {
	return startFollowing(t, func(ctx context.Context, take func(EdgeUpdate) error) error { return c.FollowEdge(ctx, have, take) })
}

// A gateway gets the newest snapshot whole, whatever it says it has, and each one after it; one that is told twice is sent once.
//
// Covers: A7, issue6 node
func TestFollowEdge(t *testing.T) {
	r := newRig(t, nil)
	r.hub.PublishEdge(edgePack(1))
	r.hub.PublishEdge(edgePack(2))
	r.hub.NodeState("g1", NodeState{Drained: true})
	f := followEdge(t, r.node(t, "g1", RoleEdge), 2)
	if u := f.next(t); u.State == nil || !u.State.Drained {
		t.Fatalf("first came %+v, want the state", u)
	}
	u := f.next(t)
	if u.Full.Version() != 2 || string(u.Full.Sealed.Envelope) != "sealed" || u.Bytes == 0 {
		t.Fatalf("then came %+v", u)
	}
	r.hub.PublishEdge(edgePack(3))
	if u = f.next(t); u.Full.Version() != 3 {
		t.Fatalf("then came %+v", u)
	}
	back := edgePack(1) // control went back to an older copy of its data
	r.hub.PublishEdge(back)
	if u = f.next(t); u.Full.Version() != 1 {
		t.Fatalf("then came %+v", u)
	}
	err := r.node(t, "p1", RoleProbe).FollowEdge(t.Context(), 0, func(EdgeUpdate) error { return nil })
	wantCode(t, err, pki.RoleRefused)
	if err := r.node(t, "g1", RoleEdge).Ack(t.Context(), report.Ack{Snapshot: report.SnapshotEdge, Version: 3, OK: true}); err != nil {
		t.Error(err)
	}
	wantCode(t, r.node(t, "p1", RoleProbe).Ack(t.Context(), report.Ack{Snapshot: report.SnapshotEdge, Version: 3, OK: true}), pki.RoleRefused)
}

// A question goes down a gateway's stream and its answer comes up; one that is away, silent, or lost while it is asked is told of.
//
// Covers: issue6 explain live
func TestExplainRelayed(t *testing.T) {
	r := newRig(t, nil)
	q := report.EdgeQuestion{URL: "http://www.example.com/", Client: netip.MustParseAddr("192.0.2.1")}
	_, err := r.hub.Explain(t.Context(), "g1", q)
	wantCode(t, err, NodeAway)
	c := r.node(t, "g1", RoleEdge)
	f := followEdge(t, c, 0)
	r.control.await(t, "connected g1 edge", 1)
	type result struct {
		a   report.EdgeAnswer
		err error
	}
	ask := func(ctx context.Context) chan result {
		done := make(chan result, 1)
		go func() {
			a, err := r.hub.Explain(ctx, "g1", q)
			done <- result{a, err}
		}()
		return done
	}
	done := ask(t.Context())
	u := f.next(t)
	if u.Ask == nil || u.Ask.Question.URL != q.URL || u.Ask.Question.Client != q.Client || u.Ask.Timeout <= 0 {
		t.Fatalf("%+v", u)
	}
	if err := r.node(t, "g2", RoleEdge).Explained(t.Context(), u.Ask.ID, report.EdgeAnswer{Origin: "of another"}, ""); err != nil {
		t.Error(err)
	}
	if err := c.Explained(t.Context(), u.Ask.ID, report.EdgeAnswer{URL: q.URL, Origin: "a"}, ""); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || got.a.Origin != "a" {
		t.Errorf("%+v", got)
	}
	done = ask(t.Context())
	if err := c.Explained(t.Context(), f.next(t).Ask.ID, report.EdgeAnswer{}, "no snapshot yet"); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err == nil || !strings.Contains(got.err.Error(), "gateway g1 did not say: no snapshot yet") {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if got := <-ask(ctx); !errors.Is(got.err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %+v", got)
	}
	done = ask(t.Context())
	for u = f.next(t); u.Ask == nil; u = f.next(t) {
	}
	f.cancel()
	if got := <-done; got.err == nil {
		t.Errorf("the stream was lost: %+v", got)
	}
}
