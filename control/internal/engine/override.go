package engine

import (
	"slices"

	"steerpoint/steering"
)

// OverrideKind says what an override does.
type OverrideKind uint8

// The kinds of overrides.
const (
	Force OverrideKind = iota + 1
	Freeze
	Drain
)

// Override is one Override resource with its end on the core's clock.
type Override struct {
	Name    string
	Kind    OverrideKind
	Service string           // of what it names; "" for a drained point
	Rule    string           // name within the service: Force, and Freeze of one rule
	Edge    string           // Force, and Drain of an edge
	Point   string           // Drain of a point, or of a node, which is a point of its name
	Node    bool             // Drain of the whole node, and not of its votes alone
	Until   steering.Instant // 0: until it is taken back
	Order   int64            // revision: of two that exclude each other, the later one holds
	Ended   bool             // a Drain whose end was seen
}

// active reports whether an override holds at now.
func (o *Override) active(now steering.Instant) bool {
	return !o.Ended && (o.Until == 0 || o.Until > now)
}

// untilSlack is how far two ends of one override may differ and count as the same: the end restored from a state and
// the one worked out anew from the resource differ by what the clocks drift.
const untilSlack = 2 * steering.Instant(1e9)

func sameEnd(a, b steering.Instant) bool {
	if a == 0 || b == 0 {
		return a == b
	}
	return max(a-b, b-a) <= untilSlack
}

// override gives a machine the force and the freeze that hold for it now, if they differ from what it has.
func (e *Engine) override(now steering.Instant, r *rule) {
	force, freeze := e.wanted(now, r)
	// The machine ends a force whose edge is disabled or drained. The Override is still there, and status and a restart
	// go by it: it holds again as soon as the edge is back.
	ended := force.edge != "" && !r.machine.Decision().Forced
	if ended || force.edge != r.force.edge || !sameEnd(force.until, r.force.until) {
		e.tell(now, r, Call{Kind: CallForce, Edge: force.edge, Until: force.until})
		r.pending = append(r.pending, r.machine.Force(now, force.edge, force.until)...)
		r.force = force
	}
	r.force.name = force.name
	if (freeze.name == "") != (r.freeze.name == "") || !sameEnd(freeze.until, r.freeze.until) {
		until := freeze.until
		if freeze.name == "" {
			until = -1
		}
		e.tell(now, r, Call{Kind: CallFreeze, Until: until})
		r.pending = append(r.pending, r.machine.Freeze(now, until)...)
		r.freeze = freeze
	}
	r.freeze.name = freeze.name
}

// wanted gives what holds for a rule: the latest force, and the freeze that lasts longest.
func (e *Engine) wanted(now steering.Instant, r *rule) (force, freeze applied) {
	var order int64
	for i := range e.overrides {
		o := &e.overrides[i]
		if o.Service != r.base.Service || !o.active(now) || (o.Rule != "" && o.Rule != r.base.Name) {
			continue
		}
		switch {
		case o.Kind == Force && o.Order >= order:
			force, order = applied{o.Name, o.Edge, o.Until}, o.Order
		case o.Kind == Freeze && (freeze.name == "" || (freeze.until != 0 && (o.Until == 0 || o.Until > freeze.until))):
			freeze = applied{o.Name, "", o.Until}
		}
	}
	return force, freeze
}

// drained reports whether an edge of a service is drained now.
func (e *Engine) drained(now steering.Instant, service, edge string) bool {
	return slices.ContainsFunc(e.overrides, func(o Override) bool {
		return o.Kind == Drain && o.Edge == edge && o.Service == service && edge != "" && o.active(now)
	})
}

func (e *Engine) drainedPoint(now steering.Instant, point string) bool {
	return slices.ContainsFunc(e.overrides, func(o Override) bool {
		return o.Kind == Drain && o.Point == point && point != "" && o.active(now)
	})
}

// NodeDrained reports whether a whole node is drained now.
func (e *Engine) NodeDrained(now steering.Instant, node string) bool {
	return slices.ContainsFunc(e.overrides, func(o Override) bool {
		return o.Kind == Drain && o.Node && o.Point == node && o.active(now)
	})
}

// endDrains marks the drains whose time is over and reports whether there was one.
func (e *Engine) endDrains(now steering.Instant) bool {
	found := false
	for i := range e.overrides {
		if o := &e.overrides[i]; o.Kind == Drain && !o.Ended && o.Until != 0 && o.Until <= now {
			o.Ended, found = true, true
		}
	}
	return found
}

// Active reports whether the override of that name holds at now.
func (e *Engine) Active(now steering.Instant, name string) bool {
	return slices.ContainsFunc(e.overrides, func(o Override) bool { return o.Name == name && o.active(now) })
}

// Overrides gives all overrides, also those that are over.
func (e *Engine) Overrides() []Override { return e.overrides }
