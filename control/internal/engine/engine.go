// Package engine holds the machines of all rules and feeds them: observations by probe task, configuration, overrides
// and time. It does no I/O and reads no clock; one goroutine uses it. What must be stored and published comes out as
// Outcomes.
package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

// Outcome is what one input did to one rule. Its parts are copies: later inputs do not change them.
type Outcome struct {
	Rule, Service, Name, Scope string
	Events                     []steering.Event
	// Ended: the rule is gone; nothing below is set.
	Ended    bool
	Decision steering.Decision
	Edges    []steering.EdgeStatus
	// State is set when the decision record must be written: a verdict or the decision changed.
	State *steering.State
	// Override is the force behind a decision with cause forced, if one is.
	Override string
}

// Warning is something about the configuration in use that its owner should know.
type Warning struct{ Rule, Code, Message string }

// rule is one machine with what stands around it.
type rule struct {
	key     string
	service *spec.Service
	spec    *spec.Rule
	base    steering.RuleConfig // as compiled from the resources
	cfg     steering.RuleConfig // less what is drained
	machine *steering.Rule
	warning string

	due  steering.Instant // when to advance it at the latest; 0: never. Not later than the machine's Next.
	slot int              // in the queue

	force, freeze applied
	soonest       steering.Instant // as last given out
	allDown       steering.AllDown // as last given out: what is answered while every edge is down
	list          []string         // the edges that is about
	verdicts      uint64           // fingerprint of the addresses' verdicts as last given out
	// few has the edges whose verdict is held, and from when on that is an alarm.
	few     map[string]steering.Instant
	pending []steering.Event

	told steering.Instant // newest instant the machine was told; kept while Engine.trace is set
}

// applied is the override last given to a machine.
type applied struct {
	name  string // of the Override; "": none
	edge  string
	until steering.Instant
}

// intake is one task at one point: where its observations go, and the instant of the newest.
type intake struct {
	uses   []*target
	newest steering.Instant
	key    any // what a recorder keeps of it; nil: nothing yet, or its uses have changed
}

// target is one use of a probe task, with what tells whether an observation can change a verdict.
type target struct {
	rule          *rule
	edge, address string
	ok            bool
	streak        int // equal results in a row, none later than the interval after the one before
	last          steering.Instant
}

// Engine is all rules of this process.
type Engine struct {
	points    []steering.Point
	set       *spec.Set
	services  []*spec.Service
	overrides []Override
	rules     map[string]*rule
	queue     queue
	targets   map[string]map[string]*intake // by point, then task
	probes    map[string]*snapshot.Probe    // by point
	version   uint64                        // of the newest probe snapshot
	slow      map[snapshot.TaskUse]map[string]time.Duration
	warnings  []Warning
	kept      map[string]steering.State // of rules that may come, by key
	refused   []error                   // kept states that could not be used
	trace     func(*Call)               // of a replica: told every call of a machine; nil: nobody is
}

// New makes an engine without rules. Points are all probe points there are.
func New(points []steering.Point) *Engine {
	return &Engine{
		points: points, set: spec.NewSet(nil), rules: map[string]*rule{},
		targets: map[string]map[string]*intake{}, probes: map[string]*snapshot.Probe{},
	}
}

// Points gives all probe points there are, drained ones included.
func (e *Engine) Points() []steering.Point { return e.points }

// SetPoints says which probe points there are. Rules that get others keep what they know by the points that stay;
// what left is forgotten. A point that is gone has no snapshot any more.
func (e *Engine) SetPoints(now steering.Instant, points []steering.Point) []Outcome {
	e.points = points
	for name := range e.probes {
		if !slices.ContainsFunc(points, func(p steering.Point) bool { return p.Name == name }) {
			delete(e.probes, name)
		}
	}
	return e.configure(now)
}

// StartVersions makes the versions of probe snapshots begin above first: points keep a version over a restart of
// control, and the same number must not mean other tasks.
func (e *Engine) StartVersions(first uint64) { e.version = max(e.version, first) }

// Set gives the resources in use.
func (e *Engine) Set() *spec.Set { return e.set }

// Services gives the services in use.
func (e *Engine) Services() []*spec.Service { return e.services }

// Len is the number of rules.
func (e *Engine) Len() int { return len(e.rules) }

// Warnings gives what is odd about the configuration in use.
func (e *Engine) Warnings() []Warning { return e.warnings }

// Observe gives one observation to every rule that has a use for its task. Observations of a point that could not
// probe at all, of unknown tasks and of drained points are no votes.
func (e *Engine) Observe(now steering.Instant, o *report.Observation) []Outcome {
	if o.Cause == report.CauseLocal {
		return nil
	}
	var out []Outcome
	in := e.targets[o.Point][o.Task]
	if in == nil {
		return nil
	}
	for _, t := range in.uses {
		r := t.rule
		events := r.machine.Observe(now, steering.Observation{
			Edge: t.edge, Address: t.address, Point: o.Point, OK: o.OK, Latency: o.Latency, Cause: string(o.Cause),
		})
		settled := t.settled(now, o.OK)
		if outcome, ok := e.after(now, r, events, !settled); ok {
			out = append(out, outcome)
		}
	}
	return out
}

// settled notes a result and reports whether it repeats so many before it that no verdict can change by it: then the
// costly look at every address is left out. Where latency counts, any ok may be a failure. After a gap the point may have
// lost its vote meanwhile, and gets it back by this result.
func (t *target) settled(now steering.Instant, ok bool) bool {
	cfg := &t.rule.cfg
	if t.ok != ok || now-t.last >= 2*cfg.Interval {
		t.ok, t.streak = ok, 0
	}
	t.last = now
	t.streak++
	return cfg.SlowMilli == 0 && t.streak > max(cfg.Fall, cfg.Rise)+1
}

// Has reports whether a point has a task, and how many rules use it.
func (e *Engine) Has(point, task string) int {
	if in := e.targets[point][task]; in != nil {
		return len(in.uses)
	}
	return 0
}

// disorder is how much older than the newest one of its task an observation may be. Less is the way between two
// machines; more is one that was overtaken, and would break a run of results that came after it.
const disorder = 5 * time.Second

// Admission says what may become of an observation.
type Admission uint8

// What becomes of an observation.
const (
	Admitted   Admission = iota
	NoTask               // the point has no such task
	OutOfOrder           // it is older than one of its task that was admitted
)

// Admit judges an observation of an instant before Observe takes it.
func (e *Engine) Admit(at steering.Instant, o *report.Observation) Admission {
	in := e.targets[o.Point][o.Task]
	switch {
	case in == nil:
		return NoTask
	case at < in.newest-disorder:
		return OutOfOrder
	}
	in.newest = max(in.newest, at)
	return Admitted
}

// Advance runs every rule whose time has come.
func (e *Engine) Advance(now steering.Instant) []Outcome {
	var out []Outcome
	if e.endDrains(now) {
		out = e.configure(now)
	}
	for {
		r := e.queue.first()
		if r == nil || r.due > now {
			return out
		}
		next := r.machine.Decision().Next
		if next == 0 || next > now {
			e.schedule(r, next) // observations have moved it since
			continue
		}
		e.tell(now, r, Call{Kind: CallAdvance})
		if outcome, ok := e.after(now, r, r.machine.Advance(now), true); ok {
			out = append(out, outcome)
		}
		if d := r.machine.Decision(); d.Next != 0 && d.Next <= now {
			e.schedule(r, now+1) // never spin on one rule
		} else {
			e.schedule(r, d.Next)
		}
	}
}

// Next is the instant of the next Advance; 0: none is due.
func (e *Engine) Next() steering.Instant {
	var next steering.Instant
	if r := e.queue.first(); r != nil {
		next = r.due
	}
	for i := range e.overrides {
		if o := &e.overrides[i]; o.Kind == Drain && !o.Ended && o.Until != 0 && (next == 0 || o.Until < next) {
			next = o.Until
		}
	}
	return next
}

func (e *Engine) schedule(r *rule, due steering.Instant) {
	r.due = due
	e.queue.fix(r)
}

// after looks at what a call did to a rule. Look: also at the addresses' verdicts, of which there are no events.
func (e *Engine) after(now steering.Instant, r *rule, events []steering.Event, look bool) (Outcome, bool) {
	d := r.machine.Decision()
	if d.Next != 0 && (r.due == 0 || d.Next < r.due) {
		e.schedule(r, d.Next)
	}
	// A change of whenAllDown, or of the edges it is about, is no event of the rule, but another answer.
	record := len(events) > 0 || d.AllDown != r.allDown || d.AllDown != steering.AllDownHold && !slices.Equal(d.List, r.list)
	publish := (d.Soonest == 0) != (r.soonest == 0) || d.Soonest < r.soonest
	if !record && !publish && !look {
		return Outcome{}, false
	}
	edges := r.machine.Status(now)
	if sum := fingerprint(edges); sum != r.verdicts {
		r.verdicts, record = sum, true
		r.few = r.fewPoints(now, edges)
	}
	if !record && !publish {
		return Outcome{}, false
	}
	r.soonest, r.allDown, r.list = d.Soonest, d.AllDown, d.List
	out := Outcome{
		Rule: r.key, Service: r.service.Name, Name: r.spec.Name, Scope: r.cfg.Scope,
		Events: slices.Clone(events), Decision: d, Edges: edges, Override: r.force.name,
	}
	out.Decision.Set = slices.Clone(d.Set)
	if record {
		s := r.state(now)
		out.State = &s
	}
	return out, true
}

// state is the machine's state, known to hold at now: nothing was due since it was last called.
func (r *rule) state(now steering.Instant) steering.State {
	s := r.machine.State()
	s.At = max(s.At, now)
	return s
}

// fingerprint is a sum over every verdict of every address (FNV-1a).
func fingerprint(edges []steering.EdgeStatus) uint64 {
	h := uint64(14695981039346656037)
	mix := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for i := range edges {
		mix(byte(edges[i].Verdict))
		if edges[i].Held {
			mix(0x40)
		}
		for j := range edges[i].Addresses {
			a := &edges[i].Addresses[j]
			mix(byte(a.Verdict) | 0x10)
			if a.Held {
				mix(0x20)
			}
		}
	}
	return h
}

// States gives the state of every rule, and those kept for rules that may come, for the snapshot on disk.
func (e *Engine) States(now steering.Instant) []steering.State {
	out := make([]steering.State, 0, len(e.rules)+len(e.kept))
	for _, r := range e.rules {
		out = append(out, r.state(now))
	}
	return slices.AppendSeq(out, maps.Values(e.kept))
}

// Restore makes rules for a first configuration from what is known of them. What cannot be used is an error of its
// own, and its rule starts anew.
func (e *Engine) Restore(now steering.Instant, wall time.Time, set *spec.Set, overrides []Override, saved map[string]steering.State) ([]Outcome, []error) {
	var errs []error
	e.adopt(set, overrides)
	for _, c := range e.compile(now) {
		r := e.makeRule(now, wall, c)
		if s, known := saved[c.base.Key()]; known {
			if err := r.goOn(now, wall, s); err != nil {
				errs = append(errs, err)
			}
		}
		e.rules[r.key] = r
	}
	return e.settle(now), errs
}

// goOn makes a new rule go on from what was known of it. After an error it starts anew.
func (r *rule) goOn(now steering.Instant, wall time.Time, s steering.State) error {
	m, err := steering.RestoreRule(r.cfg, s, now)
	if err != nil {
		return fmt.Errorf("rule %s starts anew: %w", r.key, err)
	}
	r.machine = m
	m.SetWall(now, wall)
	if s.Force.On {
		r.force = applied{"restored", s.Force.Edge, s.Force.Until}
	}
	if s.Freeze.On {
		r.freeze = applied{"restored", "", s.Freeze.Until}
	}
	return nil
}

// Keep gives the states of rules that are not there because nothing of their services can be read. A rule that comes by
// Configure and has one goes on from it, as in Restore.
func (e *Engine) Keep(states map[string]steering.State) { e.kept = states }

// Kept gives the states that still wait for their rules, by key. The caller may delete what no longer may be used.
func (e *Engine) Kept() map[string]steering.State { return e.kept }

// Refused gives what could not be used of kept states since the last call: these rules have started anew.
func (e *Engine) Refused() []error {
	errs := e.refused
	e.refused = nil
	return errs
}

// Configure puts another configuration in place.
func (e *Engine) Configure(now steering.Instant, wall time.Time, set *spec.Set, overrides []Override) []Outcome {
	e.adopt(set, overrides)
	var out []Outcome
	seen := map[string]bool{}
	for _, c := range e.compile(now) {
		key := c.base.Key()
		seen[key] = true
		r := e.rules[key]
		if r == nil {
			r = e.makeRule(now, wall, c)
			e.rules[key] = r
			if s, known := e.kept[key]; known {
				delete(e.kept, key)
				if err := r.goOn(now, wall, s); err != nil {
					e.refused = append(e.refused, err)
				}
			}
			e.tell(now, r, Call{Kind: CallNew})
			continue
		}
		r.service, r.spec, r.base, r.warning = c.service, c.rule, c.base, c.warning
		e.reconfigure(now, r, c.cfg)
	}
	for _, key := range slices.Sorted(maps.Keys(e.rules)) {
		if !seen[key] {
			r := e.rules[key]
			e.queue.remove(r)
			delete(e.rules, key)
			out = append(out, Outcome{Rule: key, Service: r.base.Service, Name: r.base.Name, Scope: r.base.Scope, Ended: true})
		}
	}
	return append(out, e.settle(now)...)
}

// reconfigure gives a machine its configuration, if that differs, and keeps what it says for settle.
func (e *Engine) reconfigure(now steering.Instant, r *rule, cfg steering.RuleConfig) {
	if !sameConfig(&r.cfg, &cfg) {
		r.cfg = cfg
		e.tell(now, r, Call{Kind: CallConfigure})
		r.pending = append(r.pending, r.machine.Configure(now, cfg)...)
	}
}

// configure puts the present configuration in place again, after a drain has ended.
func (e *Engine) configure(now steering.Instant) []Outcome {
	for _, c := range e.compile(now) {
		if r := e.rules[c.base.Key()]; r != nil {
			r.warning = c.warning
			e.reconfigure(now, r, c.cfg)
		}
	}
	return e.settle(now)
}

// settle gives every rule its overrides, evaluates it and hands out what changed; then the tasks follow.
func (e *Engine) settle(now steering.Instant) []Outcome {
	var out []Outcome
	for _, key := range slices.Sorted(maps.Keys(e.rules)) {
		r := e.rules[key]
		e.override(now, r)
		e.tell(now, r, Call{Kind: CallAdvance})
		events := append(r.pending, r.machine.Advance(now)...)
		r.pending = nil
		if outcome, ok := e.after(now, r, events, true); ok {
			out = append(out, outcome)
		}
		e.schedule(r, r.machine.Decision().Next)
	}
	e.compileProbes()
	return out
}

func (e *Engine) makeRule(now steering.Instant, wall time.Time, c compiled) *rule {
	r := &rule{
		key: c.base.Key(), service: c.service, spec: c.rule, base: c.base, cfg: c.cfg, warning: c.warning,
		machine: steering.NewRule(c.cfg), slot: -1, verdicts: ^uint64(0),
	}
	r.machine.SetWall(now, wall)
	return r
}
