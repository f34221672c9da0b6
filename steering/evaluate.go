package steering

import (
	"fmt"
	"slices"
	"time"

	"steerpoint/steering/health"
	"steerpoint/steering/latency"
	"steerpoint/steering/quorum"
	"steerpoint/steering/selection"
)

// evaluate brings everything that follows from time and observations up to now. inclusive tests expiries that fall
// exactly on now: not before every observation of that time has been taken.
func (r *Rule) evaluate(now Instant, inclusive bool) {
	r.now = now
	r.expire(now, inclusive)
	r.suspend(now)
	r.judge(now)
	r.damp(now)
	// A move makes another edge the current one, whose failure, T0 and dwell clock begin to count at that instant and may
	// make the next move possible. It ends by itself, since each move sets the lock; the bound is for locks of nothing.
	for range maxMoves {
		seq := r.seq
		r.updateT0()
		r.decide(now)
		if r.seq == seq {
			break
		}
	}
	r.announce(now, inclusive)
}

// maxMoves bounds the moves of one instant.
const maxMoves = 8

func (r *Rule) expire(now Instant, inclusive bool) {
	for e := range r.edges {
		for a := range r.edges[e].addresses {
			points := r.edges[e].addresses[a].points
			for p := range points {
				at := points[p].health.ExpiresAt(silence * r.cfg.Interval)
				if at != 0 && (at < now || inclusive && at == now) {
					points[p].health.Expire()
				}
			}
		}
	}
}

// suspend takes the vote from points that have lost their own network.
func (r *Rule) suspend(now Instant) {
	for p := range r.views {
		r.views[p] = r.view(p)
	}
	var before [64]bool
	was := append(before[:0], r.suspended...)
	if !quorum.Suspend(r.views, len(r.edges), r.suspended) {
		return
	}
	for p, s := range r.suspended {
		if s == was[p] {
			continue
		}
		v := r.views[p]
		kind, reason := EventSuspended, fmt.Sprintf("point %s sees %d of %d edges down while the other points are mostly fine: it has no vote",
			r.cfg.Points[p], v.Downs, len(r.edges))
		if !s {
			kind, reason = EventRestored, fmt.Sprintf("point %s has its vote back: it sees %d of %d edges up", r.cfg.Points[p], v.Ups, len(r.edges))
		}
		r.emit(Event{Kind: kind, At: now, Point: r.cfg.Points[p], Reason: reason})
	}
}

// view is what point p sees of the rule's edges.
func (r *Rule) view(p int) (v quorum.View) {
	for e := range r.edges {
		switch r.edges[e].seenBy(p) {
		case health.Up:
			v.Ups++
		case health.Down:
			v.Downs++
		}
	}
	return v
}

// seenBy is what point p sees of the edge: up when any address is, down when all are.
func (e *edgeState) seenBy(p int) health.State {
	downs := 0
	for a := range e.addresses {
		switch e.addresses[a].points[p].health.State {
		case health.Up:
			return health.Up
		case health.Down:
			downs++
		}
	}
	if downs == len(e.addresses) {
		return health.Down
	}
	return health.Unknown
}

// judge updates the verdicts of every address and edge, and the cool-down clocks.
func (r *Rule) judge(now Instant) {
	for i := range r.edges {
		e := &r.edges[i]
		for j := range e.addresses {
			a := &e.addresses[j]
			a.verdict, a.held = quorum.Judge(a.verdict, r.votes(a), r.cfg.MinPoints)
		}
		verdict, held := e.combine()
		if verdict != e.verdict || held != e.held {
			was, wasHeld := e.verdict, e.held
			e.verdict, e.held = verdict, held
			if verdict != was {
				e.since = now
			}
			r.emitVerdict(now, e, was, wasHeld)
		}
		e.known = e.known || verdict != quorum.Unknown
		e.up.Hold(now, verdict == quorum.Up && !held)
	}
}

func (r *Rule) votes(a *addressState) (v quorum.Votes) {
	v.Points = len(a.points)
	for p := range a.points {
		if r.suspended[p] {
			continue
		}
		switch a.points[p].health.State {
		case health.Up:
			v.Ups++
		case health.Down:
			v.Downs++
		}
	}
	return v
}

// combine makes the edge's verdict from its addresses': up when any is, down when all are, otherwise as it was. It is
// held when no address that carries an up is free of doubt, and otherwise when any address is in doubt.
func (e *edgeState) combine() (verdict quorum.Verdict, held bool) {
	ups, downs, sure, anyHeld := 0, 0, 0, false
	for i := range e.addresses {
		a := &e.addresses[i]
		anyHeld = anyHeld || a.held
		switch a.verdict {
		case quorum.Up:
			ups++
			if !a.held {
				sure++
			}
		case quorum.Down:
			downs++
		}
	}
	switch {
	case ups > 0:
		return quorum.Up, sure == 0
	case downs == len(e.addresses):
		return quorum.Down, anyHeld
	default:
		return e.verdict, anyHeld
	}
}

func (r *Rule) damp(now Instant) {
	for i := range r.edges {
		if e := &r.edges[i]; e.penalty.Release(now) {
			r.emit(Event{
				Kind: EventDamped, At: now, Edge: e.name, Damped: false,
				Reason: fmt.Sprintf("edge %s is back in its place: its flap penalty has fallen below 750", e.name),
			})
		}
	}
}

// firstFailure is T0 of an edge: for each address the earliest first failure among the runs of the points that vote it
// down, of these the latest, since only then was no address left. ok is false while an address has no down vote.
func (r *Rule) firstFailure(e *edgeState) (at Instant, ok bool) {
	for j := range e.addresses {
		first, found := Instant(0), false
		for p := range e.addresses[j].points {
			h := &e.addresses[j].points[p].health
			if h.State == health.Down && !r.suspended[p] && (!found || h.RunStart < first) {
				first, found = h.RunStart, true
			}
		}
		if !found {
			return 0, false
		}
		at = max(at, first)
	}
	return at, len(e.addresses) > 0
}

// updateT0 moves T0 while points vote the current edge down; otherwise it keeps its last value. Of a weighted set it
// is the latest of its members', since traffic was well while any of them was.
func (r *Rule) updateT0() {
	if !r.decided {
		return
	}
	if r.mode != ModeWeighted || len(r.set) == 0 {
		if e := r.edge(r.current); e != nil {
			if at, ok := r.firstFailure(e); ok {
				r.t0, r.t0Set = at, true
			}
		}
		return
	}
	latest := Instant(0)
	for _, name := range r.set {
		e := r.edge(name)
		if e == nil {
			return
		}
		at, ok := r.firstFailure(e)
		if !ok {
			return
		}
		latest = max(latest, at)
	}
	r.t0, r.t0Set = latest, true
}

// confirmed: the edge is up and was seen well after the current edge's failure began.
func (r *Rule) confirmed(e *edgeState) bool {
	if e.verdict != quorum.Up || !r.t0Set {
		return false
	}
	for j := range e.addresses {
		for p := range e.addresses[j].points {
			h := &e.addresses[j].points[p].health
			if !r.suspended[p] && h.HasOK && h.LastOK > r.t0 {
				return true
			}
		}
	}
	return false
}

// arrange fills order and table from the list in force: damped edges go behind all others, their order kept.
func (r *Rule) arrange(now Instant) {
	r.order = r.appendOrder(r.order[:0], r.list)
	r.table = r.table[:len(r.order)]
	r.in = r.in[:len(r.order)]
	for i, e := range r.order {
		r.fill(&r.table[i], &r.edges[e], now)
	}
}

func (r *Rule) appendOrder(dst []int, list []string) []int {
	for _, damped := range [2]bool{false, true} {
		for _, name := range list {
			i := r.index(name)
			if i >= 0 && r.edges[i].penalty.Suppressed == damped {
				dst = append(dst, i)
			}
		}
	}
	return dst
}

func (r *Rule) index(name string) int {
	for i := range r.edges {
		if r.edges[i].name == name {
			return i
		}
	}
	return -1
}

func (r *Rule) fill(t *selection.Edge, e *edgeState, now Instant) {
	*t = selection.Edge{
		Up: e.verdict == quorum.Up, Down: e.verdict == quorum.Down, Held: e.held,
		Confirmed: r.confirmed(e), Cooled: e.up.Reached(now, r.cfg.Cooldown), Damped: e.penalty.Suppressed,
	}
	if r.mode != ModeQuality {
		return
	}
	t.Score4, t.HasScore = r.score4(e)
	t.Observations, t.Failures = r.availability(e, now)
}

// score4 is four times the edge's score: the median over its fresh up points of the median of each one's last oks.
func (r *Rule) score4(e *edgeState) (s int64, ok bool) {
	r.medians = r.medians[:0]
	for j := range e.addresses {
		for p := range e.addresses[j].points {
			s := &e.addresses[j].points[p]
			if s.health.State != health.Up || r.suspended[p] {
				continue
			}
			if m, ok := s.recent.Median2(); ok {
				r.medians = append(r.medians, m)
			}
		}
	}
	m, ok := latency.Middle2(r.medians)
	return int64(m), ok
}

func (r *Rule) availability(e *edgeState, now Instant) (observations, failures int) {
	for j := range e.addresses {
		for p := range e.addresses[j].points {
			if r.suspended[p] {
				continue
			}
			w := &e.addresses[j].points[p].window
			w.Prune(now)
			n, f := w.Counts()
			observations, failures = observations+n, failures+f
		}
	}
	return observations, failures
}

// announce computes when the rule could next change without an observation, and how soon the answer could.
func (r *Rule) announce(now Instant, inclusive bool) {
	next := Instant(0)
	consider := func(at Instant) {
		if (at > now || at == now && !inclusive) && (next == 0 || at < next) {
			next = at
		}
	}
	after := func(at Instant) { // conditions that were tested at now: only later ones count
		if at > now {
			consider(at)
		}
	}
	for i := range r.edges {
		r.announceEdge(&r.edges[i], consider, after)
	}
	after(r.lockEnd())
	if r.better.On {
		after(r.better.Since + r.dwell())
	}
	if r.mode == ModeFailover {
		after(r.firstAt + r.cfg.Cooldown)
	}
	if r.force.on {
		after(r.force.until)
	}
	if r.freeze.on {
		after(r.freeze.until)
	}
	after(r.scheduleNext)
	r.next = next
	r.soonest = r.soonestChange(now)
}

func (r *Rule) announceEdge(e *edgeState, consider, after func(Instant)) {
	for j := range e.addresses {
		for p := range e.addresses[j].points {
			s := &e.addresses[j].points[p]
			if at := s.health.ExpiresAt(silence * r.cfg.Interval); at != 0 {
				consider(at)
			}
			if r.mode == ModeQuality {
				if at, ok := s.window.Oldest(); ok {
					after(at + latency.Horizon)
				}
			}
		}
	}
	if e.up.On {
		after(e.up.Since + r.cfg.Cooldown)
	}
	if e.penalty.Suppressed {
		after(e.penalty.ReuseAt)
	}
}

// soonestChange is the earliest instant at which an open failure run, lock, cool-down or dwell could change the
// answer; 0 while none is open.
func (r *Rule) soonestChange(now Instant) Instant {
	if r.mode == ModeFixed || !r.decided || r.freeze.on || r.force.on {
		return 0
	}
	soonest := Instant(0)
	consider := func(at Instant) {
		if at = max(at, now+recheck); soonest == 0 || at < soonest {
			soonest = at
		}
	}
	for i := range r.edges {
		e := &r.edges[i]
		switch {
		case r.answers(e.name):
			r.openRuns(e, now, consider)
		case r.mode == ModeQuality || !e.up.On:
		case r.mode == ModeWeighted || r.standsBefore(e.name):
			consider(max(e.up.Since+r.cfg.Cooldown, r.lockEnd()))
		}
	}
	if r.mode == ModeQuality && r.better.On {
		consider(max(r.better.Since+r.dwell(), r.lockEnd()))
	}
	return soonest
}

// answers reports whether the edge is what visitors are sent to now.
func (r *Rule) answers(name string) bool {
	if r.mode == ModeWeighted {
		return slices.Contains(r.set, name)
	}
	return name == r.current
}

func (r *Rule) standsBefore(name string) bool {
	for _, i := range r.order {
		switch r.edges[i].name {
		case r.current:
			return false
		case name:
			return true
		}
	}
	return false
}

// openRuns offers the time each open failing run of the edge needs at least to take its point down. A point that is
// down already keeps the answer open: the next ok elsewhere may move it.
func (r *Rule) openRuns(e *edgeState, now Instant, consider func(Instant)) {
	for j := range e.addresses {
		for p := range e.addresses[j].points {
			h := &e.addresses[j].points[p].health
			if !h.RunOpen || r.suspended[p] {
				continue
			}
			missing := max(r.cfg.Fall-int(h.Fails), 1)
			if h.State == health.Down {
				missing = 1
			}
			consider(now + time.Duration(missing)*recheck)
		}
	}
}
