package direct

import "sync/atomic"

// failOpen is what is known of a group none of whose origins was healthy.
type failOpen struct {
	choices atomic.Uint64 // made although nobody was
	said    atomic.Bool   // it was told
}

// FailOpens is how many choices the group has made, since this node first had it, although none of its origins was healthy.
func (g *Group) FailOpens() uint64 { return g.open.choices.Load() }

// FailOpenChange is a group that has no healthy origin any more, or has one again.
type FailOpenChange struct {
	Group *Group
	Open  bool
}

// FailOpenChanges gives the groups of an endpoint that changed so since they were last given. A group with one enabled origin
// is never open: that one is asked in any case. While not all origins have been looked at, a group has not fallen ill.
func (e *Endpoint) FailOpenChanges() (changes []FailOpenChange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, u := range e.uses {
		open, known := u.group.isOpen()
		if known && u.group.open.said.Swap(open) != open {
			changes = append(changes, FailOpenChange{u.group, open})
		}
	}
	return changes
}

// isOpen reports whether no origin is healthy; known: so many have been looked at that this can be told.
func (g *Group) isOpen() (open, known bool) {
	enabled := 0
	for i := range g.Spec.Origins {
		if g.Spec.Origins[i].Enabled {
			enabled++
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	healthy := g.state.Healthy()
	return healthy == 0 && enabled > 1, healthy != 0 || g.state.Judged()
}
