package steering

import (
	"slices"
	"time"

	"steerpoint/steering/damping"
	"steerpoint/steering/health"
	"steerpoint/steering/latency"
	"steerpoint/steering/quorum"
	"steerpoint/steering/selection"
)

const (
	// silence is how many intervals without an observation make a point's view unknown.
	silence = 3
	// maxLatency caps what a point may claim, far above any timeout, so that products of latencies cannot overflow.
	maxLatency = time.Hour
	// recheck is the prober's pause after a failure: an open run of n missing failures can end this soon.
	recheck = time.Second
)

// pointState is what is known of one (edge, address, point).
type pointState struct {
	health   health.Machine
	baseline latency.Baseline
	recent   latency.Recent
	window   latency.Window
	cause    string // of the newest failure
}

// addressState is one address of an edge: judged by itself.
type addressState struct {
	name    string
	points  []pointState // parallel to Rule.cfg.Points
	verdict quorum.Verdict
	held    bool
}

// edgeState is one enabled edge that takes part in the rule now or by its schedule.
type edgeState struct {
	name      string
	weight    int
	addresses []addressState
	verdict   quorum.Verdict
	held      bool
	since     Instant // of the verdict
	known     bool    // the verdict has been up or down at some time
	up        damping.Clock
	penalty   damping.Penalty
}

// Rule is the machine of one rule. It is not safe for concurrent use. Make it with NewRule or RestoreRule.
//
// Invariants after every call: next is 0 or later than the last evaluation (or equal to it right after Observe);
// current is an enabled edge of the rule unless forced, held by a freeze, or "" before the first evaluation; seq
// grows by one with every EventDecision.
type Rule struct {
	cfg       RuleConfig
	edges     []edgeState // enabled ones, in the order of cfg, then those only schedules name
	suspended []bool      // parallel to cfg.Points

	now  Instant
	list []string // the edges in force now: enabled, in order; what schedule or config last put in place
	mode Mode     // in force with list

	configured   bool    // cfg changed since list was last put in place
	wallAt       Instant // wall is the wall time of this instant
	wall         time.Time
	scheduleNext Instant // when the schedule next changes the list; 0: never
	scheduleDue  bool    // the schedule is looked at in the next evaluation whatever scheduleNext says

	decided  bool
	firstAt  Instant // of the initial decision
	current  string
	set      []string // ModeWeighted
	fallback string   // the target that answers while every edge is down, or ""
	answered string   // To of the newest decision; name() unless a change of mode is under way
	cause    Cause
	since    Instant
	seq      uint64
	degraded bool
	allDead  bool
	held     string

	lastSwitch Instant
	switched   bool
	t0         Instant // earliest first failure of the current edge's failing runs
	t0Set      bool
	better     damping.Clock

	force  override
	freeze override

	next    Instant
	soonest Instant

	events []Event
	scratch
}

// override is a force or a freeze: on until an instant, 0 for ever.
type override struct {
	on    bool
	edge  string // of a force
	until Instant
}

func (o *override) over(now Instant) bool { return o.on && o.until != 0 && now >= o.until }

// scratch is memory that evaluations reuse: nothing is allocated in steady state.
type scratch struct {
	order   []int // indexes of edges in the order of choice
	table   []selection.Edge
	in      []bool
	views   []quorum.View
	medians []time.Duration
}

// NewRule makes a rule that knows nothing and has decided nothing; its first evaluation makes the initial decision.
func NewRule(cfg RuleConfig) *Rule {
	r := &Rule{cfg: cfg, configured: true}
	r.rebuild(nil, nil, nil)
	return r
}

// Config is the configuration in use.
func (r *Rule) Config() RuleConfig { return r.cfg }

// Observe takes one observation. Times announced before now are evaluated first, so that a late caller gets what a
// punctual one would have got. Observations of edges, addresses or points the rule does not have are ignored. The
// events are valid until the next call.
func (r *Rule) Observe(now Instant, o Observation) []Event {
	now = r.begin(now)
	if r.observe(now, o) || !r.decided {
		r.evaluate(now, false)
	}
	return r.events
}

// Advance evaluates the rule at every announced time up to now, and at now.
func (r *Rule) Advance(now Instant) []Event {
	now = r.begin(now)
	r.evaluate(now, true)
	return r.events
}

// Configure puts a new configuration of the same rule in place. What is known of edges, addresses and points that
// stay is kept; what leaves is forgotten.
func (r *Rule) Configure(now Instant, cfg RuleConfig) []Event {
	now = r.begin(now)
	old, points, suspended := r.edges, r.cfg.Points, r.suspended
	was, list, all := r.cfg, r.enabled(r.cfg.Edges), r.participants()
	r.cfg = cfg
	// Another set of points, or another interval, is no reason for another list: a schedule that waits for the end of a
	// freeze goes on waiting, whatever node comes or goes.
	if cfg.Mode != was.Mode || !slices.Equal(r.enabled(cfg.Edges), list) || !slices.Equal(r.participants(), all) ||
		!slices.EqualFunc(cfg.Schedule, was.Schedule, Window.equal) {
		r.configured = true
	}
	r.rebuild(old, points, suspended)
	r.evaluate(now, false)
	return r.events
}

// Force makes the rule answer with edge until an instant (0: for ever); edge "" ends a force. An edge the service
// does not have, or that is disabled, ends it too.
func (r *Rule) Force(now Instant, edge string, until Instant) []Event {
	now = r.begin(now)
	r.force = override{on: edge != "", edge: edge, until: until}
	r.evaluate(now, false)
	return r.events
}

// Freeze stops every automatic move until an instant (0: for ever); a negative until ends it.
func (r *Rule) Freeze(now, until Instant) []Event {
	now = r.begin(now)
	r.freeze = override{on: until >= 0, until: max(until, 0)}
	r.evaluate(now, false)
	return r.events
}

// SetWall says what the wall clock shows at now. Only schedules read it; the next evaluation heeds it.
func (r *Rule) SetWall(now Instant, wall time.Time) {
	r.wallAt, r.wall, r.scheduleDue = now, wall, true
}

// begin starts a call: the clock never runs backwards, and announced times that have passed come first.
func (r *Rule) begin(now Instant) Instant {
	r.events = r.events[:0]
	now = max(now, r.now)
	for r.next != 0 && r.next < now {
		r.evaluate(r.next, true)
	}
	return now
}

// observe records one result and reports whether the rule knows what it is about.
func (r *Rule) observe(now Instant, o Observation) bool {
	e := r.edge(o.Edge)
	p := slices.Index(r.cfg.Points, o.Point)
	if e == nil || p < 0 {
		return false
	}
	a := slices.IndexFunc(e.addresses, func(a addressState) bool { return a.name == o.Address })
	if a < 0 {
		return false
	}
	s := &e.addresses[a].points[p]
	ok, slow := o.OK, false
	if ok {
		x := min(max(o.Latency, 0), maxLatency)
		if slow = s.baseline.OK(now, x, r.cfg.SlowMilli); slow {
			ok, s.cause = false, string(CauseSlow)
		} else {
			s.recent.Add(x)
		}
	} else {
		s.cause, slow = o.Cause, o.Cause == string(CauseSlow)
	}
	s.health.Step(now, ok, slow, r.cfg.Fall, r.cfg.Rise)
	s.window.Add(now, ok)
	return true
}

func (r *Rule) edge(name string) *edgeState {
	for i := range r.edges {
		if r.edges[i].name == name {
			return &r.edges[i]
		}
	}
	return nil
}

// rebuild makes the edge states of the present configuration, taking over what old knows.
func (r *Rule) rebuild(old []edgeState, oldPoints []string, oldSuspended []bool) {
	r.edges = nil
	for _, name := range r.participants() {
		c := r.serviceEdge(name)
		next := edgeState{name: name, weight: max(c.Weight, 1)}
		var from *edgeState
		if i := slices.IndexFunc(old, func(e edgeState) bool { return e.name == name }); i >= 0 {
			from = &old[i]
			next = *from
			next.weight = max(c.Weight, 1)
		}
		next.addresses = r.rebuildAddresses(c, from, oldPoints)
		r.edges = append(r.edges, next)
	}
	r.suspended = make([]bool, len(r.cfg.Points))
	for i, p := range r.cfg.Points {
		if j := slices.Index(oldPoints, p); j >= 0 {
			r.suspended[i] = oldSuspended[j]
		}
	}
	r.scheduleDue = true
	n := len(r.edges)
	r.scratch = scratch{
		order: make([]int, 0, n), table: make([]selection.Edge, n), in: make([]bool, n),
		views: make([]quorum.View, len(r.cfg.Points)),
	}
}

func (r *Rule) rebuildAddresses(c *EdgeConfig, from *edgeState, oldPoints []string) []addressState {
	out := make([]addressState, len(c.Addresses))
	for i, name := range c.Addresses {
		out[i] = addressState{name: name, points: make([]pointState, len(r.cfg.Points))}
		if from == nil {
			continue
		}
		j := slices.IndexFunc(from.addresses, func(a addressState) bool { return a.name == name })
		if j < 0 {
			continue
		}
		was := &from.addresses[j]
		out[i].verdict, out[i].held = was.verdict, was.held
		for k, p := range r.cfg.Points {
			if l := slices.Index(oldPoints, p); l >= 0 {
				out[i].points[k] = was.points[l]
			}
		}
	}
	return out
}

// participants are the enabled edges the rule may answer with, now or by its schedule, in order.
func (r *Rule) participants() []string {
	var out []string
	add := func(names []string) {
		for _, n := range names {
			if e := r.serviceEdge(n); e != nil && e.Enabled && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	add(r.cfg.Edges)
	for _, w := range r.cfg.Schedule {
		add(w.Edges)
	}
	return out
}

func (r *Rule) serviceEdge(name string) *EdgeConfig {
	for i := range r.cfg.ServiceEdges {
		if r.cfg.ServiceEdges[i].Name == name {
			return &r.cfg.ServiceEdges[i]
		}
	}
	return nil
}

// dwell is how long a challenger must be better.
func (r *Rule) dwell() time.Duration {
	if r.cfg.Dwell > 0 {
		return r.cfg.Dwell
	}
	return 3 * r.cfg.Interval
}

func (r *Rule) lockEnd() Instant {
	if !r.switched {
		return 0
	}
	return r.lastSwitch + r.cfg.Lock
}

// Decision is what the rule answers now.
func (r *Rule) Decision() Decision {
	d := Decision{
		Edge: r.current, List: r.list, Cause: r.cause, Since: r.since, Seq: r.seq, Degraded: r.degraded, AllDead: r.allDead,
		Forced: r.force.on, Frozen: r.freeze.on, Held: r.held, LockEnd: r.lockEnd(), Next: r.next, Soonest: r.soonest,
		ScheduleNext: r.scheduleNext,
	}
	if r.mode == ModeWeighted {
		d.Set = r.set
	}
	if r.fallback != "" {
		d.Edge, d.Set = fallbackName(r.fallback), nil
	}
	if r.allDead {
		d.AllDown = r.answerOfAllDown()
	}
	return d
}

// answerOfAllDown is what is answered while every edge is down: what the configuration says, unless the rule never moves,
// an override stands above it, or a freeze keeps it from entering its fallback.
func (r *Rule) answerOfAllDown() AllDown {
	if r.mode == ModeFixed || r.force.on || r.cfg.AllDown == AllDownFallback && r.fallback == "" && r.freeze.on {
		return AllDownHold
	}
	return r.cfg.AllDown
}

func fallbackName(target string) string { return "fallback:" + target }
