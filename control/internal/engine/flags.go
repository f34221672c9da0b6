package engine

import (
	"iter"

	"steerpoint/steering"
)

// Flags are the alarms of one rule.
type Flags struct {
	Rule                            string
	Degraded, AllDead, Frozen, Held bool
}

func (r *rule) flags(now steering.Instant) Flags {
	d, held := r.machine.Decision(), false
	for _, from := range r.few {
		held = held || from <= now
	}
	return Flags{r.key, d.Degraded, d.AllDead, d.Frozen, held && r.spec.Probe.Enabled}
}

// fewPoints says of which edges too few points have a fresh result, and from when on that is an alarm: at once, but an
// edge of which nothing is known may be new, and has three intervals to be probed.
func (r *rule) fewPoints(now steering.Instant, edges []steering.EdgeStatus) map[string]steering.Instant {
	var few map[string]steering.Instant
	for i := range edges {
		e := &edges[i]
		if !e.Held {
			continue
		}
		from, before := r.few[e.Edge]
		if !before {
			from = now
			if e.Verdict == steering.Unknown {
				from += 3 * r.cfg.Interval
			}
		}
		if few == nil {
			few = map[string]steering.Instant{}
		}
		few[e.Edge] = from
	}
	return few
}

// Flags gives those of one rule.
func (e *Engine) Flags(now steering.Instant, rule string) (Flags, bool) {
	r := e.rules[rule]
	if r == nil {
		return Flags{}, false
	}
	return r.flags(now), true
}

// AllFlags gives those of every rule, in no order.
func (e *Engine) AllFlags(now steering.Instant) iter.Seq[Flags] {
	return func(yield func(Flags) bool) {
		for _, r := range e.rules {
			if !yield(r.flags(now)) {
				return
			}
		}
	}
}
