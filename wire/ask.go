package wire

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// NodeAway is the code of an ask to a node that follows no stream now.
const NodeAway = "NODE_AWAY"

// asks are the probes that somebody waits for.
type asks struct {
	mu   sync.Mutex
	open map[string]openAsk
}

type openAsk struct {
	who    followerKey
	answer chan answer // holds one
}

func (a *asks) add(id string, who followerKey) chan answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[string]openAsk{}
	}
	o := openAsk{who: who, answer: make(chan answer, 1)}
	a.open[id] = o
	return o.answer
}

func (a *asks) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
}

// answered hands an answer to who waits. One that nobody waits for, or of another node, is nobody's.
func (a *asks) answered(node string, ans answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o, ok := a.open[ans.ID]; ok && o.who.node == node {
		delete(a.open, ans.ID)
		o.answer <- ans
	}
}

// gone answers for a node whose stream ended.
func (a *asks) gone(who followerKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, o := range a.open {
		if o.who == who {
			delete(a.open, id)
			o.answer <- answer{ID: id, Failure: "the connection to it was lost"}
		}
	}
}

// Probe has a point probe a task now, outside of its schedule. An error is a *pki.Refusal with code NODE_AWAY or BUSY,
// what the point said of why it did not probe, or ctx's.
func (h *Hub) Probe(ctx context.Context, point string, task snapshot.ProbeTask) (report.Observation, error) {
	a := Ask{ID: rand.Text(), Task: task, Timeout: awaited(ctx, task.Timeout+time.Second)}
	got, err := h.await(ctx, followerKey{point, report.SnapshotProbe}, a.ID, a)
	switch {
	case err != nil:
		return report.Observation{}, err
	case got.Observation == nil:
		return report.Observation{}, fmt.Errorf("point %s did not probe: %.200s", point, got.Failure)
	}
	return *got.Observation, nil
}

// awaited is how long an answer is waited for: as ctx says, or else for usual.
func awaited(ctx context.Context, usual time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return usual
}

func away(who followerKey) error {
	r := pki.Refuse(NodeAway, who.String()+" is not connected", "steer node list shows which are")
	r.Status = 503
	return r
}
