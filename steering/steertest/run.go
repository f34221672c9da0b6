package steertest

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"steerpoint/steering"
)

// Options of a run.
type Options struct {
	// Machine makes the decision machines; nil: the core of package steering.
	Machine Factory
	// With, when set, holds from time 0 to the end in place of the timeline's own resources. Its apply lines are
	// left out and nothing is expected: the question is what would have happened.
	With *Section
	// Restore makes machines from saved states, for state lines; nil: the core's, or with a Machine of another kind none.
	Restore Restorer

	// trace, for tests, is called after every input that is not the mere passing of time.
	trace func(now steering.Instant, key string, in Input, d steering.Decision, m Machine)
	// also, for tests, evaluates every rule at these further instants, in order.
	also []steering.Instant
}

// Run replays the timeline. The error is an Errors for a timeline that cannot be run; expectations that do not hold
// are in the Result.
func (tl *Timeline) Run(loader Loader, opts Options) (*Result, error) {
	l, err := load(tl, loader)
	if err != nil {
		return nil, err
	}
	if len(tl.Sections) == 0 {
		return nil, Errors{{File: tl.Name, Code: CodeSyntax, Text: "no resources: the first section holds at the start"}}
	}
	r := &runner{tl: tl, opts: opts, loaded: l, result: &Result{}, epoch: tl.Epoch, byKey: map[string]*running{}, frozen: map[string]steering.Instant{}}
	if r.opts.Machine == nil {
		r.opts.Machine = Core
		if r.opts.Restore == nil {
			r.opts.Restore = CoreRestore
		}
	}
	start := l.sections[tl.Sections[0].Name]
	if opts.With != nil {
		rules, err := loader(opts.With.Name, opts.With.Data, tl.Points)
		if err != nil {
			return nil, Errors{{File: opts.With.Name, Code: CodeLoad, Text: err.Error()}}
		}
		start = newResources(rules)
	}
	if err := r.run(start); err != nil {
		return nil, err
	}
	return r.result, nil
}

// Compare replays the timeline with its own resources and with others.
func (tl *Timeline) Compare(loader Loader, with Section) (*Difference, error) {
	before, err := tl.Run(loader, Options{})
	if err != nil {
		return nil, err
	}
	after, err := tl.Run(loader, Options{With: &with})
	if err != nil {
		return nil, err
	}
	return &Difference{Before: before, After: after}, nil
}

// runner is one run.
type runner struct {
	tl     *Timeline
	opts   Options
	loaded *loaded
	result *Result

	res     *resources // those that hold now
	rules   []*running
	byKey   map[string]*running
	targets map[*Statement][]target          // expansions under res
	frozen  map[string]steering.Instant      // service freezes: until, 0 for ever
	heard   map[target]map[string][]*running // who takes an observation, by point
	epoch   time.Time                        // wall time of instant 0, as the newest state line has it
	drained map[string]bool                  // service/edge
	halted  bool                             // until the next state line
	applies applies                          // what of the recording other resources could use
}

// running is one rule that exists now.
type running struct {
	cfg     steering.RuleConfig
	machine Machine
	d       steering.Decision
	begun   bool // was evaluated once
	due     bool // must be evaluated when all events of this time are in
}

// cursor is a statement on its way through time; order is its place in the file.
type cursor struct {
	st    *Statement
	order int
	next  steering.Instant
}

// queue is a heap of cursors by time, then by place in the file.
type queue []*cursor

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].next, q[j].next), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*cursor)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

func (r *runner) run(start *resources) error {
	if err := r.bounded(start); err != nil {
		return err
	}
	r.hold(r.tl.Begin, start)
	events, checks, end := r.agenda()
	also := r.opts.also
	// The time it begins always comes: the core is first evaluated then.
	for t, more := r.tl.Begin, true; more; {
		if err := r.pass(t); err != nil {
			return err
		}
		if err := r.events(t, &events); err != nil {
			return err
		}
		for len(also) > 0 && also[0] <= t {
			r.allDue()
			also = also[1:]
		}
		if len(checks) > 0 && checks[0].At.From <= t {
			r.allDue()
		}
		if err := r.settle(t); err != nil {
			return err
		}
		for len(checks) > 0 && checks[0].At.From <= t {
			r.check(t, checks[0])
			checks = checks[1:]
		}
		var next []steering.Instant
		if len(events) > 0 {
			next = append(next, events[0].next)
		}
		if len(checks) > 0 {
			next = append(next, checks[0].At.From)
		}
		if len(also) > 0 {
			next = append(next, also[0])
		}
		if t < end {
			next = append(next, end)
		}
		if more = len(next) > 0; more {
			t = slices.Min(next)
		}
	}
	r.countSwitches()
	r.applies.tell(r, start)
	return nil
}

// agenda sorts the statements into what happens and what is expected, and finds the last instant the timeline names.
func (r *runner) agenda() (events queue, checks []*Statement, end steering.Instant) {
	for i := range r.tl.Statements {
		st := &r.tl.Statements[i]
		switch {
		case st.Kind == KindExpect || st.Kind == KindExpectVerdict:
			checks = append(checks, st)
		case st.Kind != KindExpectSwitches:
			events = append(events, &cursor{st: st, order: i, next: st.At.From})
		}
		end = max(end, st.At.To)
	}
	heap.Init(&events)
	slices.SortStableFunc(checks, func(a, b *Statement) int { return cmp.Compare(a.At.From, b.At.From) })
	return events, checks, end
}

// bounded refuses a timeline whose observations are more than a machine should be asked for. Sections of more edges may be
// applied later, so the largest counts.
func (r *runner) bounded(start *resources) error {
	var errs Errors
	total := int64(0)
	for i := range r.tl.Statements {
		st := &r.tl.Statements[i]
		if st.Kind != KindObserve {
			continue
		}
		points := len(st.Points)
		if st.Points[0] == All {
			points = len(r.tl.Points)
		}
		widest := len(start.targets(st.Edges))
		for _, res := range r.loaded.sections {
			widest = max(widest, len(res.targets(st.Edges)))
		}
		// Each factor is at most MaxEvents, so the product of two fits; a zero third factor makes it harmless.
		each := int64(points) * int64(widest)
		if times := st.At.times(); each > 0 && times > (MaxEvents-total)/each {
			errs = append(errs, &LineError{r.tl.Name, st.Line, CodeLimit, fmt.Sprintf(
				"with this line the timeline has more than %d observations (%d times, %d points, %d addresses here); a larger STEP makes fewer",
				MaxEvents, times, points, widest)})
			return errs
		}
		total += st.At.times() * each
	}
	return nil
}

// hold makes res the resources from now on: rules that are gone end, new ones start, the others are configured.
func (r *runner) hold(now steering.Instant, res *resources) {
	r.res = res
	r.targets = map[*Statement][]target{}
	old := r.byKey
	r.rules, r.byKey = nil, map[string]*running{}
	for i := range res.rules {
		cfg := &res.rules[i]
		x := old[cfg.Key()]
		fresh := x == nil
		if fresh {
			x = &running{}
		}
		if fresh {
			x.cfg = r.withoutDrained(cfg)
			x.machine = r.opts.Machine(x.cfg, r.epoch)
		}
		r.rules = append(r.rules, x)
		r.byKey[cfg.Key()] = x
		switch until, frozen := r.frozen[cfg.Service]; {
		case !fresh:
			r.reconfigure(now, x, cfg)
			continue
		case r.halted:
		case frozen && (until == 0 || until > now):
			r.step(now, x, Input{Freeze: &Freeze{Until: until}})
		case now > r.tl.Begin:
			// At the beginning the first event comes before the first evaluation.
			r.step(now, x, Input{})
		}
	}
	r.hearers()
}

// hearers works out anew who takes which observations.
func (r *runner) hearers() {
	r.heard = map[target]map[string][]*running{}
	for _, x := range r.rules {
		r.listen(x)
	}
}

// listen enters a rule as a hearer of its points about its edges, those of its schedule included.
func (r *runner) listen(x *running) {
	names := slices.Clone(x.cfg.Edges)
	for _, w := range x.cfg.Schedule {
		names = append(names, w.Edges...)
	}
	for _, e := range x.cfg.ServiceEdges {
		if !e.Enabled || !slices.Contains(names, e.Name) {
			continue
		}
		for _, address := range e.Addresses {
			to := target{x.cfg.Service, e.Name, address}
			if r.heard[to] == nil {
				r.heard[to] = map[string][]*running{}
			}
			for _, point := range x.cfg.Points {
				r.heard[to][point] = append(r.heard[to][point], x)
			}
		}
	}
}

// step drives one machine and keeps its switches.
func (r *runner) step(now steering.Instant, x *running, in Input) {
	d, events := x.machine.Step(now, in)
	x.d = d
	x.begun = true
	for i := range events {
		if e := &events[i]; e.Kind == steering.EventDecision {
			r.result.Switches = append(r.result.Switches, Switch{
				At: Seconds(e.At), Service: x.cfg.Service, Rule: x.cfg.Name, From: e.From, To: e.To, Cause: string(e.Cause),
			})
		}
	}
	if r.opts.trace != nil && in != (Input{}) {
		r.opts.trace(now, x.cfg.Key(), in, d, x.machine)
	}
}

// pass lets time go on to t: every instant before t that a rule announced is evaluated, in order of time. Rules that
// announced t itself are marked due, since the events of t come first.
func (r *runner) pass(t steering.Instant) error {
	if r.halted {
		return nil
	}
	for {
		var first *running
		for _, x := range r.rules {
			if x.d.Next > 0 && x.d.Next < t && (first == nil || x.d.Next < first.d.Next) {
				first = x
			}
		}
		if first == nil {
			break
		}
		if err := r.announced(first); err != nil {
			return err
		}
	}
	for _, x := range r.rules {
		x.due = x.due || x.d.Next > 0 && x.d.Next <= t
	}
	return nil
}

// announced evaluates a rule at the instant it announced.
func (r *runner) announced(x *running) error {
	at := x.d.Next
	r.step(at, x, Input{})
	if x.d.Next != 0 && x.d.Next <= at {
		return fmt.Errorf("replay %s: rule %s, evaluated at %s, announced its next change for %s, which is not later",
			r.tl.Name, x.cfg.Key(), seconds(at), seconds(x.d.Next))
	}
	return nil
}

func (r *runner) allDue() {
	for _, x := range r.rules {
		x.due = true
	}
}

// settle evaluates at t, after its events, the rules that are due.
func (r *runner) settle(t steering.Instant) error {
	if r.halted {
		return nil
	}
	for _, x := range r.rules {
		if !x.due && x.begun && (x.d.Next == 0 || x.d.Next > t) {
			continue
		}
		x.due = false
		r.step(t, x, Input{})
		if x.d.Next != 0 && x.d.Next <= t {
			return fmt.Errorf("replay %s: rule %s, evaluated at %s, announced its next change for %s, which is not later",
				r.tl.Name, x.cfg.Key(), seconds(t), seconds(x.d.Next))
		}
	}
	return nil
}

// events applies everything that happens at t, in file order.
func (r *runner) events(t steering.Instant, q *queue) error {
	for len(*q) > 0 && (*q)[0].next <= t {
		c := (*q)[0]
		if err := r.apply(t, c.st); err != nil {
			return err
		}
		c.next += c.st.At.Step
		if c.st.At.Step == 0 || c.next > c.st.At.To {
			heap.Pop(q)
		} else {
			heap.Fix(q, 0)
		}
	}
	return nil
}

func (r *runner) apply(t steering.Instant, st *Statement) error {
	if r.halted && st.Kind != KindApply && st.Kind != KindDrain && st.Kind != KindUndrain && st.Kind != KindState {
		return nil // nobody listens
	}
	switch st.Kind {
	case KindState:
		if err := r.state(t, st); err != nil {
			return err
		}
	case KindHalt:
		r.halt(t)
	case KindTick:
		r.tick(t, st)
	case KindDrain, KindUndrain:
		r.drain(t, st)
	case KindUnforce:
		r.unforce(t, st)
	case KindObserve:
		r.observe(t, st)
	case KindForce:
		r.force(t, st)
	case KindFreeze, KindUnfreeze:
		r.freeze(t, st)
	case KindApply:
		if r.opts.With == nil {
			r.hold(t, r.loaded.sections[st.File])
		}
	case KindRestart:
		for _, x := range r.rules {
			m, err := x.machine.Restart()
			if err != nil {
				return fmt.Errorf("replay %s: restart at %s: rule %s: %w", r.tl.Name, seconds(t), x.cfg.Key(), err)
			}
			// Evaluated only when the other events of t are in, as without the restart.
			x.machine, x.due = m, true
		}
	}
	r.begin(t)
	return nil
}

// begin gives every rule its first evaluation, which comes after the first event there is.
func (r *runner) begin(t steering.Instant) {
	if r.halted {
		return
	}
	for _, x := range r.rules {
		if !x.begun {
			r.step(t, x, Input{})
		}
	}
}

func (r *runner) observe(t steering.Instant, st *Statement) {
	targets, ok := r.targets[st]
	if !ok {
		targets = r.res.targets(st.Edges)
		r.targets[st] = targets
	}
	every := st.Points[0] == All
	o := steering.Observation{OK: st.OK, Latency: st.Latency, Cause: st.Cause}
	for _, point := range r.tl.Points {
		if !every && !slices.Contains(st.Points, point) {
			continue
		}
		for _, to := range targets {
			o.Edge, o.Address, o.Point = to.edge, to.address, point
			r.result.Events++
			took := false
			for _, x := range r.heard[to][point] {
				if len(st.Only) > 0 && !slices.Contains(st.Only, x.cfg.Key()) {
					continue
				}
				took = true
				r.step(t, x, Input{Observation: &o})
			}
			r.applies.observed(to, took)
			r.begin(t)
		}
		if len(targets) == 0 {
			r.applies.nowhere(st)
		}
	}
}

func until(t steering.Instant, st *Statement) steering.Instant {
	if st.For == 0 {
		return 0
	}
	return t + st.For
}

func (r *runner) force(t steering.Instant, st *Statement) {
	x := r.byKey[st.Rule]
	if x == nil {
		r.refuse(st, "force %s: there is no rule %s at %s", st.Edge, st.Rule, seconds(t))
		return
	}
	if e := r.res.edge(x.cfg.Service, st.Edge); e == nil || !e.Enabled {
		r.refuse(st, "force %s: at %s service %s has no enabled edge of that name", st.Edge, seconds(t), x.cfg.Service)
		return
	}
	r.step(t, x, Input{Force: &Force{Edge: st.Edge, Until: until(t, st)}})
	x.due = true
}

func (r *runner) unforce(t steering.Instant, st *Statement) {
	x := r.byKey[st.Rule]
	if x == nil {
		r.refuse(st, "unforce: there is no rule %s at %s", st.Rule, seconds(t))
		return
	}
	r.step(t, x, Input{Force: &Force{}})
	x.due = true
}

// freeze begins or ends a freeze.
func (r *runner) freeze(t steering.Instant, st *Statement) {
	service, _, one := strings.Cut(st.Rule, "/")
	end, word := until(t, st), "freeze"
	switch {
	case st.Kind == KindUnfreeze:
		end, word = -1, "unfreeze"
		if !one {
			delete(r.frozen, service)
		}
	case !one:
		r.frozen[service] = end
	}
	found := false
	for _, x := range r.rules {
		if x.cfg.Key() == st.Rule || !one && x.cfg.Service == service {
			found = true
			r.step(t, x, Input{Freeze: &Freeze{Until: end}})
			x.due = true
		}
	}
	if !found && one {
		r.refuse(st, "%s: there is no rule %s at %s", word, st.Rule, seconds(t))
	}
}

// refuse records a statement that cannot be carried out. Under other resources it is a note: they may well lack
// the rule or the edge.
func (r *runner) refuse(st *Statement, format string, args ...any) {
	f := Failure{File: r.tl.Name, Line: st.Line, Text: fmt.Sprintf(format, args...)}
	if r.opts.With != nil {
		r.result.Notes = append(r.result.Notes, f.String())
		return
	}
	r.result.Failures = append(r.result.Failures, f)
}
