package direct

import (
	"time"

	"steerpoint/report"
)

// Report says what this node knows of the origins of the group.
func (g *Group) Report(now time.Duration) report.EdgeGroup {
	out := report.EdgeGroup{Service: g.Service, Group: g.Spec.Name, Origins: make([]report.EdgeOrigin, len(g.Spec.Origins))}
	h := &g.Spec.Health
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range out.Origins {
		v := g.state.View(now, i)
		out.Origins[i] = report.EdgeOrigin{
			Origin: g.Spec.Origins[i].Name, Enabled: v.Enabled, Draining: v.Draining, Probed: h.Enabled, Healthy: v.Healthy || !h.Enabled,
			Good: v.Good, Seen: v.Seen, Samples: h.Samples, Needed: h.Successes, OutFor: v.OutFor, Share: v.Share, Failure: g.failures[i],
		}
		if v.Known {
			out.Origins[i].Latency = v.Latency
		}
	}
	return out
}

// Said notes what was wrong with the newest probe of the endpoint, in a sentence; empty: nothing.
func (e *Endpoint) Said(failure string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failure = failure
	e.tell()
}

// tell gives the groups what was said. The lock is held.
func (e *Endpoint) tell() {
	for _, u := range e.uses {
		u.group.mu.Lock()
		if e.failure == "" {
			delete(u.group.failures, u.origin)
		} else {
			if u.group.failures == nil {
				u.group.failures = map[int]string{}
			}
			u.group.failures[u.origin] = e.failure
		}
		u.group.mu.Unlock()
	}
}
