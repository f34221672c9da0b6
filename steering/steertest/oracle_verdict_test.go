package steertest

import (
	"slices"
	"time"

	"steerpoint/steering"
)

// sees is what a point holds of an edge: up when any address is, down when all are, otherwise unknown.
func (o *oracle) sees(point, edge string) steering.Verdict {
	all := o.edge(edge).Addresses
	down := 0
	for _, a := range all {
		switch o.fold(track{edge, a, point}).state {
		case steering.Up:
			return steering.Up
		case steering.Down:
			down++
		}
	}
	if down == len(all) {
		return steering.Down
	}
	return steering.Unknown
}

// suspend works out which points have no vote.
func (o *oracle) suspend() {
	edges := o.participants()
	up, down := map[string]int{}, map[string]int{}
	for _, p := range o.cfg.Points {
		for _, e := range edges {
			switch o.sees(p, e) {
			case steering.Up:
				up[p]++
			case steering.Down:
				down[p]++
			}
		}
	}
	found := map[string]bool{}
	for _, p := range o.cfg.Points {
		others, fine := 0, 0
		for _, q := range o.cfg.Points {
			if q == p || up[q]+down[q] == 0 {
				continue
			}
			others++
			if down[q]*2 <= up[q]+down[q] {
				fine++
			}
		}
		mostlyFine := fine*2 > others
		isolated := down[p]*100 >= 80*len(edges) && up[p]+down[p] >= 2 && mostlyFine
		still := o.suspended[p] && up[p]*2 < len(edges) && mostlyFine
		if isolated || still {
			found[p] = true
		}
	}
	if len(found)*2 >= len(o.cfg.Points) {
		found = map[string]bool{}
	}
	o.suspended = found
}

// judge works out the verdicts.
func (o *oracle) judge(now steering.Instant) {
	for _, name := range o.participants() {
		addresses := o.edge(name).Addresses
		for _, a := range addresses {
			o.judgeAddress(now, where{name, a})
		}
		was := o.last(name)
		is := judged{at: now, verdict: was.verdict}
		up, down, held, upHeld := 0, 0, 0, 0
		for _, a := range addresses {
			j := o.addresses[where{name, a}]
			if j.held {
				held++
			}
			switch j.verdict {
			case steering.Up:
				up++
				if j.held {
					upHeld++
				}
			case steering.Down:
				down++
			}
		}
		if up > 0 {
			is.verdict = steering.Up
		} else if down == len(addresses) {
			is.verdict = steering.Down
		}
		if is.verdict == steering.Up && up > 0 {
			is.held = upHeld == up
		} else {
			is.held = held > 0
		}
		if len(o.edges[name]) == 0 || is.verdict != was.verdict || is.held != was.held {
			o.edges[name] = append(o.edges[name], is)
		}
	}
}

func (o *oracle) judgeAddress(now steering.Instant, w where) {
	fresh, up, down := 0, 0, 0
	for _, p := range o.cfg.Points {
		if o.suspended[p] {
			continue
		}
		switch o.fold(track{w.edge, w.address, p}).state {
		case steering.Up:
			fresh++
			up++
		case steering.Down:
			fresh++
			down++
		}
	}
	needed := len(o.cfg.Points)/2 + 1
	if o.cfg.MinPoints > 0 {
		needed = o.cfg.MinPoints
	}
	j := judged{at: now, verdict: o.addresses[w].verdict, held: fresh < needed}
	if !j.held && down*2 > fresh {
		j.verdict = steering.Down
	}
	if !j.held && up*2 > fresh {
		j.verdict = steering.Up
	}
	o.addresses[w] = j
}

func (o *oracle) last(edge string) judged {
	if l := o.edges[edge]; len(l) > 0 {
		return l[len(l)-1]
	}
	return judged{}
}

func (o *oracle) verdict(edge string) steering.Verdict { return o.last(edge).verdict }
func (o *oracle) isUp(edge string) bool                { return o.verdict(edge) == steering.Up }
func (o *oracle) isDown(edge string) bool              { return o.verdict(edge) == steering.Down }
func (o *oracle) wellUp(edge string) bool              { return o.isUp(edge) && !o.last(edge).held }

// upSince is when the verdict became up and not held, without a break since.
func (o *oracle) upSince(edge string) (steering.Instant, bool) {
	if !o.wellUp(edge) {
		return 0, false
	}
	// Changes only are logged, so an entry that is up and not held follows one that is not.
	return o.last(edge).at, true
}

func (o *oracle) cooled(edge string, now steering.Instant) bool {
	since, ok := o.upSince(edge)
	return ok && now-since >= o.cfg.Cooldown
}

// voters are the points that vote an address down.
func (o *oracle) votersDown(w where) []folded {
	var out []folded
	for _, p := range o.cfg.Points {
		if f := o.fold(track{w.edge, w.address, p}); !o.suspended[p] && f.state == steering.Down {
			out = append(out, f)
		}
	}
	return out
}

// firstFailure is the earliest first failure among those who vote the edge down, for the address where it is latest.
func (o *oracle) firstFailure(edge string) (steering.Instant, bool) {
	e := o.edge(edge)
	if e == nil || !slices.Contains(o.participants(), edge) {
		return 0, false
	}
	var latest steering.Instant
	for i, a := range e.Addresses {
		voters := o.votersDown(where{edge, a})
		if len(voters) == 0 {
			return 0, false
		}
		earliest := voters[0].downStart
		for _, f := range voters {
			earliest = min(earliest, f.downStart)
		}
		if i == 0 || earliest > latest {
			latest = earliest
		}
	}
	return latest, true
}

// updateT0 sets T0 from the edge in use, or from the set when every member of it is voted down.
func (o *oracle) updateT0() {
	edges := []string{o.current}
	if o.mode == steering.ModeWeighted {
		edges = o.members
	}
	var latest steering.Instant
	for i, e := range edges {
		at, ok := o.firstFailure(e)
		if !ok {
			return
		}
		if i == 0 || at > latest {
			latest = at
		}
	}
	if len(edges) > 0 {
		o.t0, o.t0Set = latest, true
	}
}

func (o *oracle) confirmed(edge string) bool {
	if !o.isUp(edge) || !o.t0Set {
		return false
	}
	for _, a := range o.edge(edge).Addresses {
		for _, p := range o.cfg.Points {
			if o.suspended[p] {
				continue
			}
			for _, x := range o.fold(track{edge, a, p}).outcomes {
				if x.ok && x.at > o.t0 {
					return true
				}
			}
		}
	}
	return false
}

// failureCause is slow when every failure of everyone voting the edges down was slow since its run began, and there is such
// a vote for each of them.
func (o *oracle) failureCause(edges []string) steering.Cause {
	for _, e := range edges {
		votes := 0
		for _, a := range o.edge(e).Addresses {
			for _, f := range o.votersDown(where{e, a}) {
				votes++
				if !f.allSlow {
					return steering.CauseDown
				}
			}
		}
		if votes == 0 {
			return steering.CauseDown
		}
	}
	return steering.CauseSlow
}

// median of values times 2: an even count takes the mean of the middle two.
func median2(values []int64) int64 {
	s := slices.Clone(values)
	slices.Sort(s)
	n := len(s)
	if n%2 == 1 {
		return 2 * s[n/2]
	}
	return s[n/2-1] + s[n/2]
}

// score4 is an edge's score in quarters of a nanosecond.
func (o *oracle) score4(edge string) (int64, bool) {
	var medians []int64
	for _, a := range o.edge(edge).Addresses {
		for _, p := range o.cfg.Points {
			f := o.fold(track{edge, a, p})
			if o.suspended[p] || f.state != steering.Up {
				continue
			}
			oks := make([]int64, 0, 5) // the last five
			for _, x := range slices.Backward(f.outcomes) {
				if x.ok && len(oks) < 5 {
					oks = append(oks, int64(x.latency))
				}
			}
			if len(oks) == 0 {
				continue
			}
			medians = append(medians, median2(oks))
		}
	}
	if len(medians) == 0 {
		return 0, false
	}
	return median2(medians), true
}

// availability counts the observations in (now-10m, now] of points that have a vote.
func (o *oracle) availability(edge string, now steering.Instant) (oks, all int64) {
	for _, a := range o.edge(edge).Addresses {
		for _, p := range o.cfg.Points {
			if o.suspended[p] {
				continue
			}
			for _, x := range o.fold(track{edge, a, p}).outcomes {
				if x.at > now-10*time.Minute && x.at <= now {
					all++
					if x.ok {
						oks++
					}
				}
			}
		}
	}
	return oks, all
}
