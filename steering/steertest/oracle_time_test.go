package steertest

import (
	"time"

	"steerpoint/steering"
)

func (o *oracle) dwell() time.Duration {
	if o.cfg.Dwell > 0 {
		return o.cfg.Dwell
	}
	return 3 * o.cfg.Interval
}

// opening is one time a window is open, in the rule's own instants.
type opening struct {
	from, to steering.Instant
	edges    []string
}

// openings are the times the schedule is open around now, in the order of the schedule.
func (o *oracle) openings(now steering.Instant) []opening {
	var out []opening
	for _, w := range o.cfg.Schedule {
		today := o.epoch.Add(now).In(w.Zone)
		for d := -2; d <= 9; d++ {
			midnight := time.Date(today.Year(), today.Month(), today.Day()+d, 0, 0, 0, 0, w.Zone)
			if !w.Days[midnight.Weekday()] {
				continue
			}
			clock := func(plus int, at time.Duration) steering.Instant {
				day := today.Day() + d + plus
				wall := time.Date(today.Year(), today.Month(), day, int(at/time.Hour), int(at%time.Hour/time.Minute),
					int(at%time.Minute/time.Second), int(at%time.Second), w.Zone)
				return wall.Sub(o.epoch)
			}
			span := 0
			if w.From > w.To {
				span = 1
			}
			out = append(out, opening{clock(0, w.From), clock(span, w.To), w.Edges})
		}
	}
	return out
}

// scheduled is the list that holds at now: that of the first window that is open, otherwise, or when that has no enabled
// edge, the rule's own.
func (o *oracle) scheduled(now steering.Instant) []string {
	for _, w := range o.openings(now) {
		if w.from <= now && now < w.to {
			if list := o.enabled(w.edges); len(list) > 0 {
				return list
			}
			break
		}
	}
	return o.enabled(o.cfg.Edges)
}

// next is the earliest instant after now at which anything could change by itself.
func (o *oracle) next() steering.Instant {
	var next steering.Instant
	consider := func(at steering.Instant) {
		if at > o.now && (next == 0 || at < next) {
			next = at
		}
	}
	for t := range o.history {
		f := o.fold(t)
		if f.heard {
			consider(f.lastAt + 3*o.cfg.Interval)
		}
		if o.mode == steering.ModeQuality {
			for _, x := range f.outcomes {
				consider(x.at + 10*time.Minute)
			}
		}
	}
	for _, e := range o.participants() {
		if since, ok := o.upSince(e); ok {
			consider(since + o.cfg.Cooldown)
		}
		if _, reuse, suppressed := o.penalty(e, o.now); suppressed {
			consider(reuse)
		}
	}
	if o.decided {
		consider(o.firstAt + o.cfg.Cooldown)
	}
	if o.switched {
		consider(o.lastSwitch + o.cfg.Lock)
	}
	if o.betterSet {
		consider(o.betterAt + o.dwell())
	}
	if o.forced != "" {
		consider(o.forcedUntil)
	}
	if o.frozen {
		consider(o.frozenUntil)
	}
	for _, w := range o.openings(o.now) {
		consider(w.from)
		consider(w.to)
	}
	return next
}

func (o *oracle) decision(now steering.Instant) steering.Decision {
	d := steering.Decision{
		Edge: o.name(), Cause: o.cause, Since: o.since, Seq: o.seq, Degraded: o.degraded, AllDead: o.dead,
		Forced: o.forced != "", Frozen: o.frozen, Next: o.next(),
	}
	if o.mode == steering.ModeWeighted && o.fallback == "" {
		d.Set = o.members
	}
	if o.switched {
		d.LockEnd = o.lastSwitch + o.cfg.Lock
	}
	return d
}

// Status implements Machine.
func (o *oracle) Status(now steering.Instant) Status {
	s := Status{Why: o.String}
	for _, e := range o.participants() {
		j := o.last(e)
		points, _, suppressed := o.penalty(e, now)
		score, _ := o.score4(e)
		es := steering.EdgeStatus{
			Edge: e, Enabled: true, Verdict: j.verdict, Held: j.held, Since: j.at, Confirmed: o.confirmed(e),
			Damped: suppressed, Penalty: points, Score: time.Duration(score / 4),
		}
		es.UpSince, _ = o.upSince(e)
		for _, a := range o.edge(e).Addresses {
			v := o.addresses[where{e, a}]
			es.Addresses = append(es.Addresses, steering.AddressStatus{Address: a, Verdict: v.verdict, Held: v.held})
		}
		s.Edges = append(s.Edges, es)
	}
	return s
}
