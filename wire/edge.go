package wire

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// EdgeAsk is a question of what a gateway would do with a request. Its answer goes up by Client.Explained with the same ID.
type EdgeAsk struct {
	ID       string              `json:"id"`
	Question report.EdgeQuestion `json:"question"`
	Timeout  time.Duration       `json:"timeout"` // nobody waits for the answer longer
}

// EdgeUpdate is what came down the stream of a gateway: exactly one of Full, Ask and State is set. A snapshot always comes
// whole: one of a thousand services is a hundred kilobytes, packed, and changes when somebody changes it.
type EdgeUpdate struct {
	Full    *snapshot.EdgePack
	Ask     *EdgeAsk
	State   *NodeState
	Arrived time.Time // see Update
	Bytes   int       // of the frame
}

// edgeLine keeps the newest snapshot alone: nothing leads from one to the next.
func edgeLine() lineOf[snapshot.EdgePack] {
	return lineOf[snapshot.EdgePack]{version: func(p *snapshot.EdgePack) uint64 { return p.Version() }}
}

// PublishEdge makes p the newest snapshot of gateways. It waits for nobody: each takes the newest when it can.
func (h *Hub) PublishEdge(p *snapshot.EdgePack) {
	h.edge.put(p)
	h.nudge(report.SnapshotEdge)
}

func (h *Hub) followEdge(r *request) (any, error) {
	return nil, h.follow(r, report.SnapshotEdge, h.edge.next)
}

// Explain asks a gateway what it would do with a request. An error is a *pki.Refusal with code NODE_AWAY or BUSY, what the
// gateway said of why it does not know, or ctx's.
func (h *Hub) Explain(ctx context.Context, node string, q report.EdgeQuestion) (report.EdgeAnswer, error) {
	a := EdgeAsk{ID: rand.Text(), Question: q, Timeout: awaited(ctx, h.cfg.CallTimeout)}
	got, err := h.await(ctx, followerKey{node, report.SnapshotEdge}, a.ID, a)
	switch {
	case err != nil:
		return report.EdgeAnswer{}, err
	case got.Answer == nil:
		return report.EdgeAnswer{}, fmt.Errorf("gateway %s did not say: %.200s", node, got.Failure)
	}
	return *got.Answer, nil
}

// await hands a question to a node and waits for what comes of it.
func (h *Hub) await(ctx context.Context, who followerKey, id string, question any) (answer, error) {
	h.mu.Lock()
	f := h.followers[who]
	h.mu.Unlock()
	if f == nil {
		return answer{}, away(who)
	}
	answered := h.asks.add(id, who)
	defer h.asks.remove(id)
	if !f.ask(question) {
		return answer{}, pki.Refuse(pki.Busy, who.String()+" has too many questions open", "try again in a moment")
	}
	select {
	case got := <-answered:
		return got, nil
	case <-f.done:
		return answer{}, away(who)
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%s did not answer: %w", who, ctx.Err())
	}
}

// String is the node as people call it.
func (k followerKey) String() string {
	what := map[string]string{report.SnapshotDNS: "name server", report.SnapshotProbe: "point", report.SnapshotEdge: "gateway"}
	return what[k.kind] + " " + k.node
}

// FollowEdge follows the snapshots of gateways, like FollowDNS. have is told to control, which sends the whole all the same.
func (c *Client) FollowEdge(ctx context.Context, have uint64, take func(EdgeUpdate) error) error {
	return c.follow(ctx, "edge", have, edgeFrame(take))
}

func edgeFrame(take func(EdgeUpdate) error) takeFrame {
	return func(kind byte, payload []byte, arrived time.Time, size int) error {
		u := EdgeUpdate{Arrived: arrived, Bytes: size}
		var err error
		switch kind {
		case frameFull:
			u.Full, err = decode[snapshot.EdgePack](payload)
		case frameState:
			u.State, err = decode[NodeState](payload)
		case frameAsk:
			u.Ask, err = decode[EdgeAsk](payload)
		default:
			return nil // of a newer control
		}
		if err != nil {
			return err
		}
		return take(u)
	}
}

// Explained answers an EdgeAsk: with the answer, or with the reason why there is none.
func (c *Client) Explained(ctx context.Context, askID string, a report.EdgeAnswer, failure string) error {
	out := answer{ID: askID, Failure: failure}
	if failure == "" {
		out.Answer = &a
	}
	return c.call(ctx, "result", out, nil)
}
