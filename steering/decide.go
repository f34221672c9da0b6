package steering

import (
	"fmt"
	"slices"
	"strings"

	"steerpoint/steering/damping"
	"steerpoint/steering/health"
	"steerpoint/steering/selection"
)

// decide makes the initial decision, then heeds overrides, changes of the list, and the mode's own rules, in that
// order.
func (r *Rule) decide(now Instant) {
	r.held = ""
	r.endOverrides(now)
	r.syncList(now)
	r.arrange(now)
	if len(r.list) == 0 { // an operator disabled every edge: what was answered stays, but for a force
		if r.force.on {
			r.begun(now)
			r.holdForce(now)
		}
		return
	}
	if !r.decided {
		r.initial(now)
	}
	r.setAllDead(now, r.everyEdgeDown())
	if r.force.on {
		r.holdForce(now)
		return
	}
	r.returnToList(now)
	switch r.mode {
	case ModeFixed:
		r.decideFixed(now)
	case ModeFailover, ModeQuality:
		r.decideSingle(now)
	case ModeWeighted:
		r.decideWeighted(now)
	}
}

// returnToList takes an edge of the rule when a force that has ended had named one that is not.
func (r *Rule) returnToList(now Instant) {
	const what = "the forced edge is not in the rule"
	outside := func(name string) bool { return !slices.Contains(r.list, name) }
	switch {
	case r.mode == ModeFixed: // returns by its own rule
	case r.mode == ModeWeighted && slices.ContainsFunc(r.set, outside):
		r.filterSet(now, CauseConfig, what)
	case r.mode != ModeWeighted && outside(r.current):
		r.replaceCurrent(now, CauseConfig, what)
	}
}

func (r *Rule) everyEdgeDown() bool {
	for i := range r.table {
		if !r.table[i].Down {
			return false
		}
	}
	return len(r.table) > 0
}

func (r *Rule) setAllDead(now Instant, dead bool) {
	if dead == r.allDead {
		return
	}
	r.allDead = dead
	reason := "an edge of the rule is not down any more"
	if dead {
		reason = "every edge of the rule is down: " + r.answerOfAllDown().consequence()
	}
	r.emit(Event{Kind: EventAllDown, At: now, AllDown: dead, Reason: reason})
}

// endOverrides ends a force or freeze whose time is over, and a force onto an edge that is gone or disabled.
func (r *Rule) endOverrides(now Instant) {
	if r.freeze.over(now) {
		r.freeze = override{}
	}
	if !r.force.on {
		return
	}
	if e := r.serviceEdge(r.force.edge); r.force.over(now) || e == nil || !e.Enabled {
		r.force = override{}
	}
}

// begun marks the time of the first decision.
func (r *Rule) begun(now Instant) {
	if !r.decided {
		r.decided, r.firstAt = true, now
	}
}

func (r *Rule) initial(now Instant) {
	r.begun(now)
	m := move{cause: CauseInitial}
	switch r.mode {
	case ModeFixed:
		m.to, m.reason = r.list[0], "the rule is fixed"
	case ModeWeighted:
		m.set = r.notDown()
		m.reason = "every edge that is not down shares"
	default:
		m.to = r.nameAt(selection.Start(r.table))
		m.reason = "the first edge that is not down"
	}
	r.apply(now, m)
}

func (r *Rule) notDown() (set []string) {
	for _, name := range r.list {
		if i := r.index(name); r.edges[i].verdict != verdictDown {
			set = append(set, name)
		}
	}
	if len(set) == 0 {
		set = append(set, r.list...)
	}
	return set
}

func (r *Rule) nameAt(row int) string { return r.edges[r.order[row]].name }

func (r *Rule) rowOf(name string) int {
	for row, i := range r.order {
		if r.edges[i].name == name {
			return row
		}
	}
	return selection.None
}

func (r *Rule) holdForce(now Instant) {
	r.better = damping.Clock{}
	r.setDegraded(now, false, "")
	if r.name() == r.force.edge {
		return
	}
	m := move{to: r.force.edge, cause: CauseForced, reason: "an operator's override"}
	if r.mode == ModeWeighted {
		m.set = []string{r.force.edge}
	}
	r.apply(now, m)
}

// syncList puts the list that config and schedule ask for in place, and moves when that changes what the rule answers.
func (r *Rule) syncList(now Instant) {
	if !r.configured && !r.scheduleDue && (r.scheduleNext == 0 || now < r.scheduleNext) {
		return
	}
	list, boundary := r.wanted(now)
	cause := CauseSchedule
	if r.configured {
		cause = CauseConfig
	}
	r.scheduleNext, r.scheduleDue = boundary, false
	if r.mode == r.cfg.Mode && slices.Equal(list, r.list) {
		r.configured = false
		return
	}
	if cause == CauseSchedule && r.freeze.on && r.decided {
		r.scheduleDue = true // until the freeze ends
		r.held = fmt.Sprintf("the schedule would put [%s] in place of [%s]", strings.Join(list, ", "), strings.Join(r.list, ", "))
		return
	}
	oldOrder, oldMode := r.appendOrderNames(r.list), r.mode
	r.list, r.mode, r.configured = list, r.cfg.Mode, false
	if !r.decided {
		return
	}
	r.convertMode(oldMode)
	if r.force.on {
		return
	}
	r.arrange(now)
	seq := r.seq
	if len(list) > 0 {
		r.moveForList(now, cause, oldOrder)
	}
	if r.seq == seq && oldMode == ModeWeighted && r.name() != r.answered { // a set became one edge: visitors are answered otherwise
		r.apply(now, move{to: r.current, set: r.set, fallback: r.fallback, cause: cause, reason: "the rule's mode changed"})
	}
}

// convertMode carries the current edge over between a set and a single edge.
func (r *Rule) convertMode(was Mode) {
	switch {
	case r.mode == ModeWeighted && was != ModeWeighted:
		r.set = []string{r.current}
	case r.mode != ModeWeighted:
		r.set = nil
	}
}

func (r *Rule) appendOrderNames(list []string) []string {
	names := make([]string, 0, len(list))
	for _, damped := range [2]bool{false, true} {
		for _, name := range list {
			e := r.edge(name)
			if suppressed := e != nil && e.penalty.Suppressed; suppressed == damped {
				names = append(names, name)
			}
		}
	}
	return names
}

// moveForList applies decisions.md section 3 to a change of the edge list, order, enabled flags or mode.
func (r *Rule) moveForList(now Instant, cause Cause, oldOrder []string) {
	what := "the rule's edges changed"
	if cause == CauseSchedule {
		what = "the schedule put another list in place"
	}
	if r.mode == ModeWeighted {
		r.filterSet(now, cause, what)
		return
	}
	at := r.rowOf(r.current)
	switch {
	case at == selection.None:
		r.replaceCurrent(now, cause, what)
	case r.mode == ModeFixed:
		if r.current != r.list[0] {
			r.apply(now, move{to: r.list[0], cause: cause, reason: what})
		}
	case r.mode == ModeFailover && r.fallback == "":
		for row := range at {
			name := r.nameAt(row)
			if t := &r.table[row]; t.Up && !t.Held && !before(oldOrder, name, r.current) {
				r.apply(now, move{to: name, cause: cause, reason: what + ": " + name + " now stands first and is up"})
				return
			}
		}
	}
}

// before reports whether a stands before b in order.
func before(order []string, a, b string) bool {
	i, j := slices.Index(order, a), slices.Index(order, b)
	return i >= 0 && j >= 0 && i < j
}

// replaceCurrent takes another edge for one that is no longer in the rule.
func (r *Rule) replaceCurrent(now Instant, cause Cause, what string) {
	to := r.nameAt(selection.FirstUp(r.table))
	if r.mode == ModeFixed {
		to = r.list[0]
	}
	if r.fallback != "" {
		r.current = to // the fallback goes on answering
		return
	}
	r.apply(now, move{to: to, cause: cause, reason: what + ": " + r.current + " is gone"})
}

// filterSet keeps the members of a weighted set that are still in the rule.
func (r *Rule) filterSet(now Instant, cause Cause, what string) {
	var keep []string
	for _, name := range r.list {
		if slices.Contains(r.set, name) {
			keep = append(keep, name)
		}
	}
	if len(keep) == 0 {
		keep = []string{r.nameAt(selection.FirstUp(r.table))}
	}
	if r.fallback != "" {
		r.set, r.current = keep, keep[0]
		return
	}
	if !sameMembers(keep, r.set) {
		r.apply(now, move{set: keep, cause: cause, reason: what})
		return
	}
	r.set, r.current = keep, keep[0]
	r.answered = r.name()
}

func sameMembers(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for _, n := range a {
		if !slices.Contains(b, n) {
			return false
		}
	}
	return true
}

func (r *Rule) decideFixed(now Instant) {
	r.leaveFallback(now)
	r.setDegraded(now, false, "")
	if r.current != r.list[0] {
		r.propose(now, move{to: r.list[0], cause: CauseRecovered, reason: "the rule is fixed and nothing forces another edge"})
	}
}

// decideSingle is failover and quality: one current edge.
func (r *Rule) decideSingle(now Instant) {
	if r.answerAllDown(now) {
		return
	}
	cur := r.rowOf(r.current)
	outForAvailability := false
	if r.mode == ModeQuality {
		outForAvailability = selection.Round(r.table, r.in, cur)
	}
	if r.table[cur].Down || r.tiedSinceStart(now, cur) {
		r.better = damping.Clock{}
		r.leaveFailed(now, cur)
		return
	}
	r.setDegraded(now, false, "")
	if r.mode == ModeFailover {
		r.returnEarlier(now, cur)
		return
	}
	r.moveFaster(now, cur, outForAvailability)
}

// tiedSinceStart: a verdict that was never known counts as down once the cool-down has passed since the first decision
// and at least half of its fresh points are down.
func (r *Rule) tiedSinceStart(now Instant, cur int) bool {
	e := &r.edges[r.order[cur]]
	if r.mode != ModeFailover || e.known || now-r.firstAt < r.cfg.Cooldown {
		return false
	}
	ups, downs := 0, 0
	for p, suspended := range r.suspended {
		switch seen := e.seenBy(p); {
		case suspended:
		case seen == health.Up:
			ups++
		case seen == health.Down:
			downs++
		}
	}
	return downs > 0 && downs >= ups
}

// choose is the destination for a current edge that failed.
func (r *Rule) choose(skip int) int {
	if r.mode == ModeQuality {
		if to := selection.BestConfirmed(r.table, r.in, skip); to != selection.None {
			return to
		}
	}
	return selection.FirstConfirmed(r.table, skip)
}

func (r *Rule) leaveFailed(now Instant, cur int) {
	to := r.choose(cur)
	if to == selection.None {
		if !r.degraded {
			r.setDegraded(now, true, r.current+" is down and no other edge is confirmed well")
		}
		return
	}
	cause := CauseDown
	e := &r.edges[r.order[cur]]
	if r.onlySlow(e) {
		cause = CauseSlow
	}
	m := move{to: r.nameAt(to), cause: cause, left: []string{r.current}, evidence: r.current}
	m.explain = func() string { return r.failureReason(e, cause) + "; " + m.to + " is up and was seen well since" }
	if !r.propose(now, m) {
		r.setDegraded(now, true, r.current+" is down and the rule is frozen")
		return
	}
	r.setDegraded(now, false, "")
}

// onlySlow: every failure of every point voting the edge down, since its run began, was slowness.
func (r *Rule) onlySlow(e *edgeState) bool {
	found := false
	for j := range e.addresses {
		for p := range e.addresses[j].points {
			h := &e.addresses[j].points[p].health
			if h.State == health.Down && !r.suspended[p] {
				if !h.AllSlow {
					return false
				}
				found = true
			}
		}
	}
	return found
}

func (r *Rule) returnEarlier(now Instant, cur int) {
	if now < r.lockEnd() {
		return
	}
	to := selection.FirstCooled(r.table, cur)
	if to == selection.None {
		return
	}
	m := move{to: r.nameAt(to), cause: CauseRecovered}
	m.evidence = m.to
	m.explain = func() string {
		return fmt.Sprintf("%s stands before %s and has been up without a break for its cool-down of %s", m.to, r.current, r.cfg.Cooldown)
	}
	r.propose(now, m)
}

func (r *Rule) moveFaster(now Instant, cur int, outForAvailability bool) {
	to, better := r.betterThan(cur, outForAvailability)
	r.better.Hold(now, better)
	if !r.better.Reached(now, r.dwell()) || now < r.lockEnd() {
		return
	}
	m := move{to: r.nameAt(to), cause: CauseFaster}
	if outForAvailability {
		m.cause = CauseAvailability
	}
	m.evidence = m.to
	m.explain = func() string { return r.betterReason(m, to, cur) }
	r.propose(now, m)
}

// betterThan gives the challenger of the current edge and whether it is better now.
func (r *Rule) betterThan(cur int, outForAvailability bool) (to int, better bool) {
	to = selection.Challenger(r.table, r.in, cur)
	if to == selection.None {
		return to, false
	}
	return to, outForAvailability || r.in[cur] && selection.Faster(r.table[to].Score4, r.table[cur].Score4)
}

// answerAllDown enters and leaves a fallback, and reports whether one is in force.
func (r *Rule) answerAllDown(now Instant) bool {
	enter := r.allDead && r.cfg.AllDown == AllDownFallback
	if r.fallback == "" && !enter {
		return false
	}
	r.better = damping.Clock{}
	switch {
	case enter && r.fallback != r.cfg.Fallback:
		m := move{to: r.current, set: r.set, fallback: r.cfg.Fallback, cause: CauseFallback, evidence: r.current, reason: "every edge is down"}
		if r.fallback != "" {
			m.cause, m.reason = CauseConfig, "the fallback's target changed"
		}
		if !r.propose(now, m) {
			r.setDegraded(now, true, "every edge is down and the rule is frozen")
			return true
		}
		r.setDegraded(now, true, "every edge is down: the fallback answers")
	case enter:
		r.setDegraded(now, true, "every edge is down: the fallback answers")
	case r.cfg.AllDown != AllDownFallback:
		r.leaveFallback(now)
		return false
	default:
		return !r.returnFromFallback(now)
	}
	return true
}

// leaveFallback goes back to the current edge because the configuration no longer has a fallback here.
func (r *Rule) leaveFallback(now Instant) {
	if r.fallback != "" {
		r.apply(now, move{to: r.current, set: r.set, cause: CauseConfig, reason: "the rule no longer has a fallback"})
	}
}

// returnFromFallback goes to the first edge that is confirmed again, if there is one.
func (r *Rule) returnFromFallback(now Instant) bool {
	if r.mode == ModeQuality {
		selection.Round(r.table, r.in, selection.None)
	}
	to := r.choose(selection.None)
	if to == selection.None {
		return false
	}
	m := move{to: r.nameAt(to), cause: CauseFallback, reason: r.nameAt(to) + " is up again"}
	if r.mode == ModeWeighted {
		m.set = r.confirmedSet()
	}
	m.evidence = m.to
	if !r.propose(now, m) {
		return false
	}
	r.setDegraded(now, false, "")
	return true
}
