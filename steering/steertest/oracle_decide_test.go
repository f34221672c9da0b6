package steertest

import (
	"slices"
	"strings"

	"steerpoint/steering"
)

// evaluate brings everything up to now.
func (o *oracle) evaluate(now steering.Instant, c *change) {
	o.now = now
	if o.forced != "" && o.forcedUntil > 0 && now >= o.forcedUntil {
		o.forced, o.forceEnded = "", true
	}
	if o.frozen && o.frozenUntil > 0 && now >= o.frozenUntil {
		o.frozen = false
	}
	if list := o.scheduled(now); !slices.Equal(list, o.list) {
		switch {
		case !o.decided:
			o.list = list
		case c == nil && o.frozen: // the schedule waits for the end of the freeze
		default:
			if c == nil {
				c = &change{before: o.order(o.list, now), answer: o.name(), mode: o.mode, cause: steering.CauseSchedule}
			}
			o.list = list
		}
	}
	if !o.decided {
		c = nil // nothing is answered yet that a change could move
	}
	if c != nil && c.mode != o.mode {
		o.convert(c.mode)
		if len(o.list) == 0 && o.forced == "" && o.mode != steering.ModeWeighted && o.name() != c.answer {
			o.decide(now, c.answer, c.cause)
		}
	}
	o.suspend()
	o.judge(now)
	if len(o.list) == 0 && o.forced == "" {
		return // nothing to choose from: the decision stays
	}
	if len(o.list) > 0 {
		o.dead = !slices.ContainsFunc(o.list, func(e string) bool { return !o.isDown(e) })
	}
	// A move may make the next one possible at the same instant; none is possible for ever, since each sets the lock.
	for range 8 {
		seq := o.seq
		o.updateT0()
		o.pass(now, c)
		c = nil
		if o.seq == seq {
			return
		}
	}
}

// name is what the decision answers.
func (o *oracle) name() string {
	if o.fallback != "" {
		return "fallback:" + o.fallback
	}
	if o.mode == steering.ModeWeighted {
		return strings.Join(o.members, ",")
	}
	return o.current
}

func (o *oracle) locked(now steering.Instant) bool {
	return o.switched && now < o.lastSwitch+o.cfg.Lock
}

// decide writes down that the answer changed from what it was.
func (o *oracle) decide(now steering.Instant, from string, cause steering.Cause) {
	o.cause, o.since = cause, now
	o.seq++
	o.betterSet = false
	if from != "" {
		o.switched, o.lastSwitch = true, now
	}
	o.events = append(o.events, steering.Event{
		Kind: steering.EventDecision, At: now, Rule: o.cfg.Key(), From: from, To: o.name(), Cause: cause,
	})
}

// moveTo makes an edge, or a set in a weighted rule, the answer.
func (o *oracle) moveTo(now steering.Instant, edges []string, cause steering.Cause) {
	o.moveFrom(o.name(), now, edges, cause)
}

func (o *oracle) moveFrom(from string, now steering.Instant, edges []string, cause steering.Cause) {
	answering, members := o.fallback, o.members
	if cause == steering.CauseDown || cause == steering.CauseSlow {
		left := []string{o.current}
		if o.mode == steering.ModeWeighted {
			left = o.members
		}
		for _, e := range left {
			if !slices.Contains(edges, e) {
				o.additions[e] = append(o.additions[e], now)
			}
		}
	}
	o.fallback = ""
	o.place(edges)
	if o.name() == from || o.mode == steering.ModeWeighted && answering == "" && sameSet(members, o.members) {
		return
	}
	o.decide(now, from, cause)
}

// sameSet: a weighted set in another order is the same set, and no switch.
func sameSet(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(e string) bool { return !slices.Contains(b, e) })
}

// place sets the edge or set behind the answer. A set is kept in list order.
func (o *oracle) place(edges []string) {
	o.current = edges[0]
	o.members = nil
	if o.mode != steering.ModeWeighted {
		return
	}
	for _, e := range o.list {
		if slices.Contains(edges, e) {
			o.members = append(o.members, e)
		}
	}
	if len(o.members) == 0 {
		o.members = edges // forced to an edge that is not in the rule
	}
}

// pass tries one move.
func (o *oracle) pass(now steering.Instant, c *change) {
	order := o.order(o.list, now)
	if !o.decided {
		o.start(now)
		return
	}
	if o.forced != "" {
		o.degraded, o.betterSet = false, false
		o.moveTo(now, []string{o.forced}, steering.CauseForced)
		return
	}
	ended := o.forceEnded
	o.forceEnded = false
	if o.mode == steering.ModeFixed {
		o.fixed(now, c)
		return
	}
	if c != nil || ended {
		if o.followList(now, c, order) {
			return
		}
	}
	if o.whenAllDown(now, order) {
		return
	}
	switch o.mode {
	case steering.ModeFailover:
		o.failover(now, order)
	case steering.ModeQuality:
		o.quality(now, order)
	case steering.ModeWeighted:
		o.weighted(now)
	}
}

// start is the first decision: nothing is damped, and the first edge that is not down is taken.
func (o *oracle) start(now steering.Instant) {
	var fine []string
	for _, e := range o.list {
		if !o.isDown(e) {
			fine = append(fine, e)
		}
	}
	switch {
	case len(o.list) == 0:
		fine = []string{o.forced}
	case len(fine) == 0, o.mode == steering.ModeFixed:
		fine = o.list
	}
	if o.mode != steering.ModeWeighted {
		fine = fine[:1]
	}
	o.place(fine)
	o.decided, o.firstAt = true, now
	o.decide(now, "", steering.CauseInitial)
}

// convert carries what is in use over to another mode.
func (o *oracle) convert(from steering.Mode) {
	if o.mode == steering.ModeWeighted {
		o.members = []string{o.current}
	}
	if from == steering.ModeWeighted {
		o.current = o.members[0] // the first stands for the set
		o.members = nil
	}
}

func (o *oracle) fixed(now steering.Instant, c *change) {
	o.degraded, o.betterSet = false, false
	cause := steering.CauseRecovered
	from := o.name()
	if c != nil {
		cause, from = c.cause, c.answer
	}
	if o.frozen && cause == steering.CauseRecovered {
		return
	}
	o.moveFrom(from, now, o.list[:1], cause)
}

// followList moves as a change of the list asks, or as the end of a force on an edge that is not in the rule does.
func (o *oracle) followList(now steering.Instant, c *change, order []string) bool {
	cause := steering.CauseConfig
	if c != nil {
		cause = c.cause
	}
	stay := slices.Contains(o.list, o.current)
	to := []string{o.current}
	if o.mode == steering.ModeWeighted {
		to = nil
		for _, e := range o.members {
			if slices.Contains(o.list, e) {
				to = append(to, e)
			}
		}
		stay = len(to) > 0
	}
	switch {
	case !stay:
		to = []string{o.replacement(order)}
	case o.mode == steering.ModeFailover && c != nil:
		to = []string{o.ahead(c.before, order)}
	}
	if o.fallback != "" {
		// The answer stays with the fallback; the edge behind it changes unseen.
		o.place(to)
		return false
	}
	from := o.name()
	if c != nil && c.mode == steering.ModeWeighted {
		from = c.answer // the set, which may have been turned into one edge by a change of mode
	}
	seq := o.seq
	o.moveFrom(from, now, to, cause)
	return o.seq != seq
}

func (o *oracle) replacement(order []string) string {
	for _, e := range order {
		if o.isUp(e) {
			return e
		}
	}
	for _, e := range order {
		if !o.isDown(e) {
			return e
		}
	}
	return order[0]
}

// ahead is the first edge of the new order that now stands before the current one, did not before, and is well up.
func (o *oracle) ahead(before, order []string) string {
	old := before
	if i := slices.Index(before, o.current); i >= 0 {
		old = before[:i]
	} else {
		old = nil
	}
	for _, e := range order[:slices.Index(order, o.current)] {
		if !slices.Contains(old, e) && o.wellUp(e) {
			return e
		}
	}
	return o.current
}

// whenAllDown enters and leaves a fallback, and tells whether one answers.
func (o *oracle) whenAllDown(now steering.Instant, order []string) bool {
	configured := o.cfg.AllDown == steering.AllDownFallback
	if o.fallback == "" && (!configured || !o.dead || o.frozen) {
		return false
	}
	o.betterSet = false
	o.degraded = true
	from := o.name()
	switch {
	case !configured: // an operator's doing, which a freeze does not stop
		o.fallback = ""
		o.decide(now, from, steering.CauseConfig)
	case o.frozen:
	case o.dead:
		if o.fallback != o.cfg.Fallback {
			o.fallback = o.cfg.Fallback
			o.decide(now, from, steering.CauseFallback)
		}
	default:
		if to := o.destination(now, order, true); len(to) > 0 {
			o.degraded = false
			o.moveTo(now, to, steering.CauseFallback)
		}
	}
	return true
}

// destination is where the mode goes when what is in use is down; nothing when nothing is confirmed.
func (o *oracle) destination(now steering.Instant, order []string, current bool) []string {
	var confirmed []string
	for _, e := range order {
		if !current && (e == o.current && o.mode != steering.ModeWeighted || slices.Contains(o.members, e)) {
			continue
		}
		if o.confirmed(e) {
			confirmed = append(confirmed, e)
		}
	}
	if len(confirmed) == 0 || o.mode == steering.ModeWeighted {
		return confirmed
	}
	if o.mode == steering.ModeQuality {
		in, _ := o.round(now, order)
		var best string
		for _, e := range in {
			if slices.Contains(confirmed, e) && (best == "" || o.score(e) < o.score(best)) {
				best = e
			}
		}
		if best != "" {
			return []string{best}
		}
	}
	return confirmed[:1]
}

// fail leaves what is down, or holds it.
func (o *oracle) fail(now steering.Instant, order []string) {
	o.betterSet = false
	to := o.destination(now, order, false)
	// A freeze holds the failed one too, and that shows.
	o.degraded = len(to) == 0 || o.frozen
	left := []string{o.current}
	if o.mode == steering.ModeWeighted {
		left = o.members
	}
	if len(to) > 0 && !o.frozen {
		o.moveTo(now, to, o.failureCause(left))
	}
}

// tied tells of an edge that nobody ever agreed about and that half of those who see it find down.
func (o *oracle) tied(edge string, now steering.Instant) bool {
	if o.verdict(edge) != steering.Unknown || now-o.firstAt < o.cfg.Cooldown {
		return false
	}
	fresh, down := 0, 0
	for _, p := range o.cfg.Points {
		if o.suspended[p] {
			continue
		}
		switch o.sees(p, edge) {
		case steering.Up:
			fresh++
		case steering.Down:
			fresh++
			down++
		}
	}
	return down > 0 && down*2 >= fresh
}

func (o *oracle) failover(now steering.Instant, order []string) {
	if o.isDown(o.current) || o.tied(o.current, now) {
		o.fail(now, order)
		return
	}
	o.degraded, o.betterSet = false, false
	if o.locked(now) || o.frozen {
		return
	}
	for _, e := range order[:slices.Index(order, o.current)] {
		if o.cooled(e, now) {
			o.moveTo(now, []string{e}, steering.CauseRecovered)
			return
		}
	}
}

func (o *oracle) score(edge string) int64 {
	s, _ := o.score4(edge)
	return s
}

// round is the edges quality chooses among, and those left out of it for their availability.
func (o *oracle) round(now steering.Instant, order []string) (in, unavailable []string) {
	var candidates []string
	for _, e := range order {
		if _, ok := o.score4(e); !ok || !o.wellUp(e) {
			continue
		}
		otherUp := slices.ContainsFunc(o.list, func(x string) bool { return x != e && o.isUp(x) })
		if !o.damped(e, now) || !otherUp {
			candidates = append(candidates, e)
		}
	}
	best, bestOks, bestAll := "", int64(0), int64(0)
	for _, e := range candidates {
		oks, all := o.availability(e, now)
		if all == 0 {
			oks, all = 1, 1
		}
		if best == "" || oks*bestAll > bestOks*all {
			best, bestOks, bestAll = e, oks, all
		}
	}
	_, bestSeen := int64(0), int64(0)
	if best != "" {
		oks, all := o.availability(best, now)
		bestSeen = all - oks
	}
	for _, e := range candidates {
		oks, all := o.availability(e, now)
		fails := all - oks
		if all == 0 {
			oks, all = 1, 1
		}
		// oks/all < bestOks/bestAll - 2/100
		if 100*oks*bestAll < 100*bestOks*all-2*all*bestAll && fails-bestSeen >= 3 {
			unavailable = append(unavailable, e)
		} else {
			in = append(in, e)
		}
	}
	return in, unavailable
}

func (o *oracle) quality(now steering.Instant, order []string) {
	if o.isDown(o.current) {
		o.fail(now, order)
		return
	}
	o.degraded = false
	in, unavailable := o.round(now, order)
	challenger := ""
	for _, e := range in {
		if e != o.current && (challenger == "" || o.score(e) < o.score(challenger)) {
			challenger = e
		}
	}
	better, cause := false, steering.CauseFaster
	switch {
	case challenger == "":
	case slices.Contains(in, o.current):
		gain := o.score(o.current) - o.score(challenger)
		better = 10*o.score(challenger) < 9*o.score(o.current) && gain >= 4*5_000_000
	case slices.Contains(unavailable, o.current):
		better, cause = true, steering.CauseAvailability
	}
	if !better {
		o.betterSet = false
		return
	}
	if !o.betterSet {
		o.betterSet, o.betterAt = true, now
	}
	if now-o.betterAt >= o.dwell() && !o.locked(now) && !o.frozen {
		o.moveTo(now, []string{challenger}, cause)
	}
}

func (o *oracle) weighted(now steering.Instant) {
	o.betterSet = false
	var stay, gone []string
	for _, e := range o.members {
		if o.isDown(e) {
			gone = append(gone, e)
		} else {
			stay = append(stay, e)
		}
	}
	if len(stay) == 0 {
		o.fail(now, o.list)
		return
	}
	o.degraded = false
	if o.frozen {
		return
	}
	if len(gone) > 0 {
		o.moveTo(now, stay, o.failureCause(gone))
		return
	}
	join := slices.Clone(o.members)
	for _, e := range o.list {
		if !slices.Contains(o.members, e) && o.cooled(e, now) && !o.locked(now) {
			join = append(join, e)
		}
	}
	o.moveTo(now, join, steering.CauseRecovered)
}
