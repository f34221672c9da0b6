package engine

import (
	"slices"
	"strings"
	"time"

	"steerpoint/spec"
	"steerpoint/steering"
)

// AnswerChange is a rule that would answer differently at once under another configuration.
type AnswerChange struct {
	Service, Rule, Scope string
	From, To             string // as people read it: edge (addresses); "" : no such rule
	Cause                steering.Cause
	Reason               string
}

// Simulate says which rules would answer differently now under another set and other overrides, knowing what is known.
// It changes nothing.
func (e *Engine) Simulate(now steering.Instant, wall time.Time, set *spec.Set, overrides []Override) ([]AnswerChange, []Warning) {
	other := &Engine{points: e.points, rules: map[string]*rule{}}
	other.adopt(set, overrides)
	var out []AnswerChange
	seen := map[string]bool{}
	for _, c := range other.compile(now) {
		key := c.base.Key()
		seen[key] = true
		if ch, differs := other.simulate(now, wall, c, e.rules[key]); differs {
			out = append(out, ch)
		}
	}
	for key, r := range e.rules {
		if !seen[key] {
			out = append(out, AnswerChange{Service: r.base.Service, Rule: r.base.Name, Scope: r.base.Scope, From: r.answer(now)})
		}
	}
	slices.SortFunc(out, func(a, b AnswerChange) int {
		return strings.Compare(a.Service+"/"+a.Rule, b.Service+"/"+b.Rule)
	})
	return out, other.warnings
}

// simulate runs a copy of one rule under c. old is the rule as it is, or nil.
func (e *Engine) simulate(now steering.Instant, wall time.Time, c compiled, old *rule) (AnswerChange, bool) {
	r := e.makeRule(now, wall, c)
	from := ""
	if old != nil {
		from = old.answer(now)
		if m, err := steering.RestoreRule(old.cfg, old.state(now), now); err == nil {
			m.SetWall(now, wall)
			r.machine, r.force, r.freeze = m, old.force, old.freeze
			r.pending = append(r.pending, m.Configure(now, c.cfg)...)
		}
	}
	e.override(now, r)
	events := append(r.pending, r.machine.Advance(now)...)
	ch := AnswerChange{Service: c.base.Service, Rule: c.base.Name, Scope: c.base.Scope, From: from, To: r.answer(now)}
	for _, ev := range events {
		if ev.Kind == steering.EventDecision {
			ch.Cause, ch.Reason = ev.Cause, ev.Reason
		}
	}
	return ch, ch.From != ch.To
}

// answer says what the rule answers, as people read it.
func (r *rule) answer(now steering.Instant) string {
	d := r.machine.Decision()
	names := d.Set
	switch {
	case d.AllDead && d.AllDown == steering.AllDownEmpty:
		return "nothing"
	case d.AllDead && d.AllDown == steering.AllDownAll:
		names = d.List
	case d.AllDead && d.AllDown == steering.AllDownFirst && len(d.List) > 0:
		names = d.List[:1]
	case len(names) == 0:
		names = []string{d.Edge}
	}
	down := map[string]bool{}
	for _, edge := range r.machine.Status(now) {
		for _, a := range edge.Addresses {
			down[edge.Edge+" "+a.Address] = a.Verdict == steering.Down && edge.Verdict != steering.Down
		}
	}
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, r.destination(name, down))
	}
	return strings.Join(parts, ", ")
}

// destination is an edge with the addresses it answers with.
func (r *rule) destination(edge string, down map[string]bool) string {
	for i := range r.cfg.ServiceEdges {
		e := &r.cfg.ServiceEdges[i]
		if e.Name != edge {
			continue
		}
		var live []string
		for _, a := range r.answered(e) {
			if !down[edge+" "+a] {
				live = append(live, a)
			}
		}
		return edge + " (" + strings.Join(live, ", ") + ")"
	}
	return edge
}

// answered is what an edge answers with: also addresses of families that the rule does not probe, and a name as one
// however many of its families are probed.
func (r *rule) answered(e *steering.EdgeConfig) []string {
	edge := r.service.Edge(e.Name)
	switch {
	case edge == nil:
		return e.Addresses
	case edge.Target != "":
		return []string{string(edge.Target)}
	}
	out := make([]string, len(edge.Addresses))
	for i, a := range edge.Addresses {
		out[i] = a.String()
	}
	return out
}
