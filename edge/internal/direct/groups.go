package direct

import (
	"maps"

	"steerpoint/steering/selection"
)

// Groups are the origin groups of all services, in no order.
func (s *Site) Groups() []*Group {
	var all []*Group
	for _, v := range s.services {
		for g := range maps.Values(v.groups) {
			all = append(all, g)
		}
	}
	return all
}

// Healthy are the origins of which so many of the last probes succeeded as are needed.
func (g *Group) Healthy() selection.Origins {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state.Healthy()
}

// Settled reports whether there are as many results of probes as the groups look at.
func (e *Endpoint) Settled() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, u := range e.uses {
		h := &u.group.Spec.Health
		if e.samples.Judge(h.Samples, h.Successes).Seen < h.Samples {
			return false
		}
	}
	return true
}
