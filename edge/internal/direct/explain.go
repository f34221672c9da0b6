package direct

import (
	"time"

	"steerpoint/edge/internal/affinity"
	"steerpoint/edge/internal/rules"
	"steerpoint/steering/selection"
)

// Explanation says how a request would be decided, step by step. It counts nothing and takes no turn.
type Explanation struct {
	Decision Decision
	// Rules are those that were looked at, in order.
	Rules []rules.Trace
	// Access is the policy that decided, counted from 0; -1: none fitted.
	Access int
	// Cookie is what the session cookie says; None where the group keeps no sessions.
	Cookie affinity.Finding
	// Named is the origin that the cookie names, where it is Found.
	Named int
	// Choice is how the origin is chosen in Decision.Group; without steps where there is an answer without an origin.
	Choice selection.Trace
}

// Explain says how a request would be decided. Rate limits are not asked.
func (s *Site) Explain(r *rules.Request, now time.Duration) *Explanation {
	e := &Explanation{Access: -1}
	d := &e.Decision
	if !s.begin(r, d) {
		return e
	}
	e.Rules = rules.Explain(d.Route.sets, r, &d.outcome)
	ok, by := d.Route.Service.access.Admits(r)
	e.Access = by
	if !ok {
		d.refuse(403, ReasonAccess)
		return e
	}
	if d.finish(r); d.Status != 0 {
		return e
	}
	ask, found := d.Group.ask(r, 0)
	e.Cookie = found
	for i := range d.Group.Spec.Origins {
		if ask.Session.Has(i) {
			e.Named = i
		}
	}
	d.Group.mu.Lock()
	defer d.Group.mu.Unlock()
	e.Choice = d.Group.state.Explain(now, ask)
	return e
}

// Assume takes what probes are said to have found of an origin. It is for explanations: gateways record what they measure.
func (g *Group) Assume(origin int, h selection.Health) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.SetHealth(0, origin, h)
}
