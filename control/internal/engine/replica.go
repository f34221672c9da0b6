package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

// CallKind says what a machine was told.
type CallKind uint8

// The kinds of calls.
const (
	CallObserve   CallKind = iota + 1 // Observation
	CallAdvance                       // time passed
	CallConfigure                     // it has another configuration
	CallForce                         // Edge, Until; Edge "" ends a force
	CallFreeze                        // Until; below 0 ends a freeze
	CallNew                           // the rule is new
)

// Call is one call of the machine of a rule, before it is made.
type Call struct {
	Kind CallKind
	Rule string // service/rule
	// At is the instant the machine takes it for: it does not go back behind what it was told before.
	At          steering.Instant
	Observation steering.Observation
	Edge        string
	Until       steering.Instant
}

// tell informs the tracer of a replica.
func (e *Engine) tell(now steering.Instant, r *rule, c Call) {
	if e.trace == nil {
		return
	}
	r.told = max(r.told, now)
	c.Rule, c.At = r.key, r.told
	e.trace(&c)
}

func sameUse(a, b *target) bool {
	return a.rule.key == b.rule.key && a.edge == b.edge && a.address == b.address
}

// Key gives what a recorder keeps of a task of a point, made by fresh when there is nothing yet or the rules that use the
// task have changed; nil if the point has no such task.
func (e *Engine) Key(point, task string, fresh func([]snapshot.TaskUse) any) any {
	in := e.targets[point][task]
	if in == nil {
		return nil
	}
	if in.key == nil {
		uses := make([]snapshot.TaskUse, 0, len(in.uses))
		for _, t := range in.uses {
			uses = append(uses, snapshot.TaskUse{Service: t.rule.base.Service, Rule: t.rule.base.Name, Edge: t.edge, Address: t.address})
		}
		in.key = fresh(uses)
	}
	return in.key
}

// Checkpoint gives the states of all machines as they are, in no order: their instants are those of their last calls.
func (e *Engine) Checkpoint() []steering.State {
	out := make([]steering.State, 0, len(e.rules))
	for _, r := range e.rules {
		out = append(out, r.machine.State())
	}
	return out
}

// Replica makes an engine that goes on from a checkpoint exactly as the one it was taken of: no time lies between. trace,
// unless nil, is told every call of a machine. A rule whose state cannot be used is an error of its own and is not there.
func Replica(now steering.Instant, wall time.Time, set *spec.Set, overrides []Override, points []steering.Point, states []steering.State, trace func(*Call)) (*Engine, []error) {
	e := New(points)
	e.trace = trace
	e.adopt(set, overrides)
	byKey := map[string]steering.State{}
	for _, s := range states {
		byKey[s.Rule] = s
	}
	var errs []error
	for _, c := range e.compile(now) {
		s, known := byKey[c.base.Key()]
		if !known {
			errs = append(errs, fmt.Errorf("rule %s has no state", c.base.Key()))
			continue
		}
		m, err := steering.RestoreRule(c.cfg, s, s.At)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r := e.makeRule(now, wall, c)
		r.machine, r.told = m, s.At
		m.SetWall(now, wall)
		// Evaluates it at its last instant again, as its last observation did: that works out what is not in the state.
		m.Configure(s.At, c.cfg)
		force, freeze := e.wanted(now, r)
		if s.Force.On {
			r.force = applied{force.name, s.Force.Edge, s.Force.Until}
		}
		if s.Freeze.On {
			r.freeze = applied{freeze.name, "", s.Freeze.Until}
		}
		e.rules[r.key] = r
		e.schedule(r, r.machine.Decision().Next)
	}
	e.compileProbes()
	return e, errs
}

// Replay gives the rules of a replica an observation that the engine took.
func (e *Engine) Replay(at steering.Instant, point string, uses []snapshot.TaskUse, ok bool, latency time.Duration, cause string) {
	for _, u := range uses {
		r := e.rules[u.Service+"/"+u.Rule]
		if r == nil {
			continue
		}
		o := steering.Observation{Edge: u.Edge, Address: u.Address, Point: point, OK: ok, Latency: latency, Cause: cause}
		e.tell(at, r, Call{Kind: CallObserve, Observation: o})
		r.machine.Observe(at, o)
		if d := r.machine.Decision(); d.Next != 0 && (r.due == 0 || d.Next < r.due) {
			e.schedule(r, d.Next)
		}
	}
}

// Due reports whether Advance would do something.
func (e *Engine) Due(now steering.Instant) bool {
	next := e.Next()
	return next != 0 && next <= now
}

// Configs gives the configurations of a service's rules as their machines have them, by rule.
func (e *Engine) Configs(service string) []steering.RuleConfig {
	var out []steering.RuleConfig
	for _, key := range slices.Sorted(maps.Keys(e.rules)) {
		if r := e.rules[key]; r.base.Service == service {
			out = append(out, r.cfg)
		}
	}
	return out
}

// Drained names the edges of a service that are drained now, in order.
func (e *Engine) Drained(now steering.Instant, service string) []string {
	var out []string
	for i := range e.overrides {
		if o := &e.overrides[i]; o.Kind == Drain && o.Service == service && o.Edge != "" && o.active(now) {
			out = append(out, o.Edge)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// State gives the state of one machine as it is; ok is false when there is no such rule.
func (e *Engine) State(key string) (s steering.State, ok bool) {
	r := e.rules[key]
	if r == nil {
		return s, false
	}
	return r.machine.State(), true
}
