package engine

import (
	"maps"
	"slices"

	"steerpoint/spec"
	"steerpoint/steering"
)

// View is one rule as it is now.
type View struct {
	Key      string
	Service  *spec.Service
	Rule     *spec.Rule
	Config   steering.RuleConfig
	Decision steering.Decision
	Edges    []steering.EdgeStatus // those that take part
	// ForceUntil and FreezeUntil are ends of overrides in force; 0: for ever, or none.
	ForceUntil, FreezeUntil steering.Instant
	Force, Freeze           string // names of the Overrides
	Warning                 string
}

// Views gives the rules of one service, or of all for "", by service and rule.
func (e *Engine) Views(now steering.Instant, service string) []View {
	var out []View
	for _, key := range slices.Sorted(maps.Keys(e.rules)) {
		if r := e.rules[key]; service == "" || r.base.Service == service {
			out = append(out, r.view(now))
		}
	}
	return out
}

// View gives one rule.
func (e *Engine) View(now steering.Instant, key string) (View, bool) {
	r := e.rules[key]
	if r == nil {
		return View{}, false
	}
	return r.view(now), true
}

func (r *rule) view(now steering.Instant) View {
	d := r.machine.Decision()
	d.Set = slices.Clone(d.Set)
	v := View{
		Key: r.key, Service: r.service, Rule: r.spec, Config: r.cfg, Decision: d,
		Edges: r.machine.Status(now), Warning: r.warning,
	}
	if d.Forced {
		v.ForceUntil, v.Force = r.force.until, r.force.name
	}
	if d.Frozen {
		v.FreezeUntil, v.Freeze = r.freeze.until, r.freeze.name
	}
	return v
}

// DrainUntil tells whether an edge (service set) or a point (service "") is drained, and until when; 0: no end.
func (e *Engine) DrainUntil(now steering.Instant, service, name string) (until steering.Instant, drained bool) {
	for i := range e.overrides {
		o := &e.overrides[i]
		match := o.Service == service && ((service == "" && o.Point == name) || (service != "" && o.Edge == name))
		if o.Kind == Drain && match && o.active(now) {
			if o.Until == 0 {
				return 0, true
			}
			until, drained = max(until, o.Until), true
		}
	}
	return until, drained
}
