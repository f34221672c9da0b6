package steertest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"steerpoint/steering"
)

// oracle is the second implementation of the decision rules: written from the design text alone, as slow and as obvious as
// possible. It keeps every observation and works out what it needs from the history; only what the text itself calls
// "as it was" is carried along. It is never fast, never saved, and knows no event but decisions.
type oracle struct {
	cfg   steering.RuleConfig
	epoch time.Time

	history   map[track][]record
	known     map[track]memo // folded histories, by their length
	addresses map[where]judged
	edges     map[string][]judged // changes of each edge's verdict and held mark
	suspended map[string]bool
	additions map[string][]steering.Instant // when each edge was left for being down or slow

	now                      steering.Instant
	list                     []string // edges that take part, schedule and enabled flags applied
	mode                     steering.Mode
	decided                  bool
	firstAt                  steering.Instant
	current                  string
	members                  []string
	fallback                 string // target, while a fallback answers
	cause                    steering.Cause
	since                    steering.Instant
	seq                      uint64
	switched                 bool
	lastSwitch               steering.Instant
	degraded, dead           bool
	t0Set, betterSet         bool
	t0, betterAt             steering.Instant
	forced                   string // "" while no force holds
	forcedUntil, frozenUntil steering.Instant
	forceEnded, frozen       bool
	events                   []steering.Event
}

// track is what one history is about; where is an address of an edge.
type (
	track struct{ edge, address, point string }
	where struct{ edge, address string }
)

// record is one entry of a history: an observation, with the thresholds that held when it came, or a silence noticed.
type record struct {
	at         steering.Instant
	silence    bool
	ok         bool
	latency    time.Duration
	cause      string
	fall, rise int
	slowMilli  int64
}

// judged is a verdict from an instant on.
type judged struct {
	at      steering.Instant
	verdict steering.Verdict
	held    bool
}

// change is a change of the edge list that has yet to be followed.
type change struct {
	before []string // the order before it
	answer string   // and the answer
	mode   steering.Mode
	cause  steering.Cause
}

func newOracle(cfg steering.RuleConfig, epoch time.Time) Machine {
	o := &oracle{
		cfg: cfg, epoch: epoch, history: map[track][]record{}, known: map[track]memo{}, addresses: map[where]judged{},
		edges: map[string][]judged{}, suspended: map[string]bool{}, additions: map[string][]steering.Instant{}, mode: cfg.Mode,
	}
	return o
}

// Step implements Machine.
func (o *oracle) Step(now steering.Instant, in Input) (steering.Decision, []steering.Event) {
	o.events = nil
	for next := o.next(); o.decided && next != 0 && next < now; next = o.next() {
		o.notice(next)
		o.evaluate(next, nil)
	}
	var c *change
	switch {
	case in.Observation != nil:
		o.observe(now, *in.Observation)
	case in.Config != nil:
		c = o.configure(now, *in.Config)
	case in.Force != nil:
		o.force(now, *in.Force)
	case in.Freeze != nil:
		o.frozen, o.frozenUntil = in.Freeze.Until >= 0, in.Freeze.Until
	default:
		o.notice(now)
	}
	o.evaluate(now, c)
	return o.decision(now), o.events
}

// Restart implements Machine: a restart changes nothing.
func (o *oracle) Restart() (Machine, error) { return o, nil }

// participants are the edges that are observed: those the rule or a window of its schedule names, and that are enabled.
func (o *oracle) participants() []string {
	names := slices.Clone(o.cfg.Edges)
	for _, w := range o.cfg.Schedule {
		for _, e := range w.Edges {
			if !slices.Contains(names, e) {
				names = append(names, e)
			}
		}
	}
	return o.enabled(names)
}

func (o *oracle) enabled(names []string) []string {
	var out []string
	for _, name := range names {
		if e := o.edge(name); e != nil && e.Enabled {
			out = append(out, name)
		}
	}
	return out
}

func (o *oracle) edge(name string) *steering.EdgeConfig {
	for i := range o.cfg.ServiceEdges {
		if o.cfg.ServiceEdges[i].Name == name {
			return &o.cfg.ServiceEdges[i]
		}
	}
	return nil
}

func (o *oracle) takes(t track) bool {
	return slices.Contains(o.participants(), t.edge) && slices.Contains(o.edge(t.edge).Addresses, t.address) &&
		slices.Contains(o.cfg.Points, t.point)
}

func (o *oracle) observe(now steering.Instant, in steering.Observation) {
	t := track{in.Edge, in.Address, in.Point}
	if !o.takes(t) {
		return
	}
	o.history[t] = append(o.history[t], record{
		at: now, ok: in.OK, latency: in.Latency, cause: in.Cause, fall: o.cfg.Fall, rise: o.cfg.Rise, slowMilli: o.cfg.SlowMilli,
	})
}

// notice enters a silence for every point whose last observation is three intervals old.
func (o *oracle) notice(now steering.Instant) {
	for t, h := range o.history {
		last := h[len(h)-1]
		if !last.silence && now >= last.at+3*o.cfg.Interval {
			o.history[t] = append(h, record{at: now, silence: true})
		}
	}
}

func (o *oracle) force(now steering.Instant, f Force) {
	if o.forced != "" {
		o.forceEnded = true
	}
	o.forced, o.forcedUntil = f.Edge, f.Until
	if e := o.edge(f.Edge); e == nil || !e.Enabled {
		o.forced = ""
	}
	if o.forced != "" {
		o.forceEnded = false
	}
}

func (o *oracle) configure(now steering.Instant, cfg steering.RuleConfig) *change {
	before, mode, answer := o.order(o.list, now), o.mode, o.name()
	plain := o.list
	asked := o.asked()
	o.cfg, o.mode = cfg, cfg.Mode
	o.forget()
	// A shorter interval makes silences of what was none; only those that end right now may still be broken.
	o.notice(now - 1)
	if e := o.edge(o.forced); o.forced != "" && (e == nil || !e.Enabled) {
		o.forced, o.forceEnded = "", true
	}
	if o.asked() == asked {
		return nil // what the schedule asks for now, it asks for by itself
	}
	o.list = o.scheduled(now)
	if slices.Equal(plain, o.list) && mode == o.mode {
		return nil
	}
	return &change{before: before, answer: answer, mode: mode, cause: steering.CauseConfig}
}

// asked is all of a configuration that says which edges answer, and when.
func (o *oracle) asked() string {
	text := fmt.Sprint(o.cfg.Mode, o.enabled(o.cfg.Edges), o.participants())
	for _, w := range o.cfg.Schedule {
		text += fmt.Sprint(w.Days, w.From, w.To, w.Zone, w.Edges)
	}
	return text
}

// forget drops everything about edges, addresses and points that are not observed any more.
func (o *oracle) forget() {
	in := o.participants()
	for t := range o.history {
		if !o.takes(t) {
			delete(o.history, t)
			delete(o.known, t)
		}
	}
	for a := range o.addresses {
		if !slices.Contains(in, a.edge) || !slices.Contains(o.edge(a.edge).Addresses, a.address) {
			delete(o.addresses, a)
		}
	}
	for e := range o.edges {
		if !slices.Contains(in, e) {
			delete(o.edges, e)
		}
	}
	for e := range o.additions {
		if !slices.Contains(in, e) {
			delete(o.additions, e)
		}
	}
	for p := range o.suspended {
		if !slices.Contains(o.cfg.Points, p) {
			delete(o.suspended, p)
		}
	}
}

// memo is a folded history and how many records were folded.
type memo struct {
	records int
	folded  folded
}

// folded is what a history says at its end.
type folded struct {
	state      steering.Verdict
	fails, oks int
	downStart  steering.Instant // start of the failing run that took it down
	allSlow    bool             // every failure since downStart was slow
	outcomes   []outcome        // every observation as it counts, slow ones as failures
	lastAt     steering.Instant
	heard      bool // lastAt has not been followed by a silence
}

type outcome struct {
	at      steering.Instant
	ok      bool
	latency time.Duration
}

func (o *oracle) fold(t track) folded {
	h := o.history[t]
	if m, ok := o.known[t]; ok && m.records == len(h) {
		return m.folded
	}
	f := fold(h)
	o.known[t] = memo{len(h), f}
	return f
}

func fold(h []record) folded {
	f := folded{outcomes: make([]outcome, 0, len(h))}
	var runStart steering.Instant
	var causesSinceDown []string
	slow := slowness(h)
	for i, r := range h {
		if r.silence {
			f.state, f.fails, f.oks, f.heard = steering.Unknown, 0, 0, false
			continue
		}
		ok, cause := r.ok, r.cause
		if slow[i] {
			ok, cause = false, "slow"
		}
		f.outcomes = append(f.outcomes, outcome{r.at, ok, r.latency})
		f.lastAt, f.heard = r.at, true
		if ok {
			f.fails = 0
			f.oks++
			switch f.state {
			case steering.Unknown:
				f.state = steering.Up
			case steering.Down:
				if f.oks >= r.rise {
					f.state = steering.Up
				}
			}
			continue
		}
		f.oks = 0
		f.fails++
		if f.fails == 1 {
			runStart = r.at
		}
		if f.state == steering.Down {
			causesSinceDown = append(causesSinceDown, cause)
			continue
		}
		if f.fails == 1 {
			causesSinceDown = nil
		}
		causesSinceDown = append(causesSinceDown, cause)
		if f.fails >= r.fall {
			f.state, f.downStart = steering.Down, runStart
		}
	}
	f.allSlow = !slices.ContainsFunc(causesSinceDown, func(c string) bool { return c != "slow" })
	return f
}

// slowness tells of each record whether it is an ok that counts as failed for being slow.
func slowness(h []record) []bool {
	out := make([]bool, len(h))
	const learn = 8
	var (
		n              int           // oks learnt, up to 8
		sum, base      time.Duration // of the oks being learnt; the baseline
		healthy, limit time.Duration // last baseline healthy oks made; bound on the one being learnt, 0: none
		slowRun        bool
		firstSlow      steering.Instant
	)
	for i, r := range h {
		if r.silence || !r.ok {
			continue
		}
		if slowRun && r.at-firstSlow >= 30*time.Minute {
			slowRun, n, sum = false, 0, 0
			limit = time.Duration(int64(healthy) * r.slowMilli / 1000)
		}
		switch {
		case n < learn:
			n++
			sum += r.latency
			if n < learn {
				break
			}
			base = sum / learn
			if limit == 0 {
				healthy = base
			} else {
				base = min(base, limit)
			}
		case r.slowMilli > 0 && int64(r.latency)*1000 > r.slowMilli*int64(base):
			out[i] = true
			if !slowRun {
				slowRun, firstSlow = true, r.at
			}
		default:
			base += (r.latency - base) / 16
			healthy = base
			slowRun = false
		}
	}
	return out
}

// penalty is an edge's penalty at an instant, and the instant at which a suppressed edge returns; suppressed tells
// whether it is one.
func (o *oracle) penalty(edge string, now steering.Instant) (points float64, reuse steering.Instant, suppressed bool) {
	const halfLife = float64(15 * time.Minute)
	var last steering.Instant
	for i, at := range o.additions[edge] {
		if i > 0 {
			points *= math.Exp2(-float64(at-last) / halfLife)
			suppressed = suppressed && at < reuse
		}
		points += 1000
		last = at
		suppressed = suppressed || points > 3000
		ms := math.Ceil(halfLife * math.Log2(points/750) / float64(time.Millisecond))
		reuse = at + steering.Instant(ms)*time.Millisecond
	}
	if last < now {
		points *= math.Exp2(-float64(now-last) / halfLife)
	}
	return points, reuse, suppressed && now < reuse
}

func (o *oracle) damped(edge string, now steering.Instant) bool {
	_, _, suppressed := o.penalty(edge, now)
	return suppressed
}

// order puts the damped edges of a list behind the others.
func (o *oracle) order(list []string, now steering.Instant) []string {
	var front, back []string
	for _, e := range list {
		if o.damped(e, now) {
			back = append(back, e)
		} else {
			front = append(front, e)
		}
	}
	return append(front, back...)
}

func (o *oracle) String() string {
	return fmt.Sprintf("oracle of %s at %s: %q", o.cfg.Key(), o.now, o.name())
}
