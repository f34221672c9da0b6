package engine

import "iter"

// Flags are the alarms of one rule.
type Flags struct {
	Rule                            string
	Degraded, AllDead, Frozen, Held bool
}

func (r *rule) flags() Flags {
	d := r.machine.Decision()
	return Flags{r.key, d.Degraded, d.AllDead, d.Frozen, r.held && r.spec.Probe.Enabled}
}

// Flags gives those of one rule.
func (e *Engine) Flags(rule string) (Flags, bool) {
	r := e.rules[rule]
	if r == nil {
		return Flags{}, false
	}
	return r.flags(), true
}

// AllFlags gives those of every rule, in no order.
func (e *Engine) AllFlags() iter.Seq[Flags] {
	return func(yield func(Flags) bool) {
		for _, r := range e.rules {
			if !yield(r.flags()) {
				return
			}
		}
	}
}
