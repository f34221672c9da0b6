package steering

import (
	"fmt"
	"slices"
	"strings"

	"steerpoint/steering/selection"
)

// decideWeighted keeps the set of edges that share: a member that is down leaves at once, an edge that has been well
// for its cool-down joins. The set is never empty: when every member is down it is held.
func (r *Rule) decideWeighted(now Instant) {
	if r.answerAllDown(now) {
		return
	}
	stay, gone := r.splitSet()
	if len(stay) == 0 {
		r.replaceSet(now)
		return
	}
	if len(gone) > 0 {
		m := move{set: stay, cause: CauseDown, left: gone, evidence: gone[0]}
		if r.allOnlySlow(gone) {
			m.cause = CauseSlow
		}
		m.explain = func() string { return r.failureReason(r.edge(gone[0]), m.cause) + r.also(gone) }
		if !r.propose(now, m) {
			r.setDegraded(now, false, "")
			return
		}
	}
	r.setDegraded(now, false, "")
	r.joinSet(now)
}

func (r *Rule) also(gone []string) string {
	if len(gone) == 1 {
		return ""
	}
	return "; so is " + strings.Join(gone[1:], ", ")
}

// splitSet divides the members into those not down and those down, in list order. Nothing is allocated while no
// member is down.
func (r *Rule) splitSet() (stay, gone []string) {
	for _, name := range r.set {
		if e := r.edge(name); e != nil && e.verdict == verdictDown {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return r.set, nil
	}
	for _, name := range r.set {
		if !slices.Contains(gone, name) {
			stay = append(stay, name)
		}
	}
	return stay, gone
}

// replaceSet: every member is down; confirmed edges outside take over, else the set is held.
func (r *Rule) replaceSet(now Instant) {
	to := r.confirmedSet()
	if len(to) == 0 {
		r.setDegraded(now, true, "every edge of the set is down and no other is confirmed well")
		return
	}
	m := move{set: to, cause: CauseDown, left: r.set, evidence: r.set[0]}
	if r.allOnlySlow(r.set) {
		m.cause = CauseSlow
	}
	m.explain = func() string { return "every edge of the set is down" }
	if !r.propose(now, m) {
		r.setDegraded(now, true, "every edge of the set is down and the rule is frozen")
		return
	}
	r.setDegraded(now, false, "")
}

func (r *Rule) allOnlySlow(names []string) bool {
	for _, n := range names {
		if e := r.edge(n); e == nil || !r.onlySlow(e) {
			return false
		}
	}
	return true
}

// confirmedSet are the confirmed edges, in list order.
func (r *Rule) confirmedSet() (set []string) {
	for _, name := range r.list {
		if row := r.rowOf(name); row != selection.None && r.table[row].Confirmed {
			set = append(set, name)
		}
	}
	return set
}

func (r *Rule) joinSet(now Instant) {
	if now < r.lockEnd() {
		return
	}
	join := 0
	for _, name := range r.list {
		if row := r.rowOf(name); row != selection.None && r.table[row].Cooled && !slices.Contains(r.set, name) {
			join++
		}
	}
	if join == 0 {
		return
	}
	var set, joined []string
	for _, name := range r.list {
		member := slices.Contains(r.set, name)
		if !member && r.table[r.rowOf(name)].Cooled {
			joined = append(joined, name)
			member = true
		}
		if member {
			set = append(set, name)
		}
	}
	r.propose(now, move{
		set: set, cause: CauseRecovered, evidence: joined[0],
		reason: fmt.Sprintf("%s has been up without a break for its cool-down of %s", strings.Join(joined, ", "), r.cfg.Cooldown),
	})
}
