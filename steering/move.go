package steering

import (
	"fmt"
	"strings"
	"time"

	"steerpoint/steering/damping"
	"steerpoint/steering/health"
	"steerpoint/steering/quorum"
	"steerpoint/steering/selection"
)

const verdictDown = quorum.Down

// move is a change of the decision.
type move struct {
	to       string   // the edge; for a weighted rule the first of set
	set      []string // ModeWeighted
	fallback string   // the fallback's target, while to stays the edge behind it
	cause    Cause
	left     []string // edges left because of down or slow: they get the flap penalty
	evidence string   // the edge whose votes the switch log keeps
	reason   string
	explain  func() string // makes reason when it is needed
}

// name is the decision as the switch log writes it.
func (r *Rule) name() string {
	switch {
	case r.fallback != "":
		return fallbackName(r.fallback)
	case r.mode == ModeWeighted && len(r.set) > 0:
		return strings.Join(r.set, ",")
	default:
		return r.current
	}
}

// propose applies an automatic move unless the rule is frozen; then it says what would have moved.
func (r *Rule) propose(now Instant, m move) bool {
	if !r.freeze.on {
		r.apply(now, m)
		return true
	}
	to := m.to
	if m.set != nil {
		to = strings.Join(m.set, ",")
	}
	if m.fallback != "" {
		to = fallbackName(m.fallback)
	}
	r.held = fmt.Sprintf("would move to %s, cause %s", to, m.cause)
	return false
}

// apply makes the move: every change but the initial decision sets the lock.
func (r *Rule) apply(now Instant, m move) {
	if m.explain != nil {
		m.reason = m.explain()
	}
	ev := Event{Kind: EventDecision, At: now, From: r.answered, Cause: m.cause, Reason: m.reason}
	if e := r.edge(m.evidence); e != nil {
		ev.Votes = r.voteList(e)
		if (m.cause == CauseDown || m.cause == CauseSlow || m.cause == CauseFallback) && r.t0Set {
			ev.Detection = now - r.t0
		}
	}
	r.current, r.set, r.fallback = m.to, m.set, m.fallback
	if r.mode == ModeWeighted && len(m.set) > 0 {
		r.current = m.set[0]
	}
	r.cause, r.since = m.cause, now
	r.seq++
	r.better = damping.Clock{}
	if m.cause != CauseInitial {
		r.switched, r.lastSwitch = true, now
	}
	r.answered = r.name()
	ev.To = r.answered
	r.emit(ev)
	if m.cause == CauseDown || m.cause == CauseSlow {
		r.penalize(now, m.left)
	}
}

func (r *Rule) penalize(now Instant, left []string) {
	for _, name := range left {
		e := r.edge(name)
		if e == nil {
			continue
		}
		was := e.penalty.Suppressed
		e.penalty.Leave(now)
		if e.penalty.Suppressed && !was {
			r.emit(Event{
				Kind: EventDamped, At: now, Edge: name, Damped: true,
				Reason: fmt.Sprintf("edge %s keeps failing (flap penalty %.0f): it goes behind all others for %s",
					name, e.penalty.Points, (e.penalty.ReuseAt - now).Round(time.Second)),
			})
		}
	}
}

func (r *Rule) setDegraded(now Instant, degraded bool, reason string) {
	if r.degraded == degraded {
		return
	}
	r.degraded = degraded
	if !degraded {
		reason = "an edge that is not down answers again"
	}
	r.emit(Event{Kind: EventDegraded, At: now, Degraded: degraded, Reason: reason})
}

func (r *Rule) emit(e Event) {
	e.Rule = r.cfg.Key()
	r.events = append(r.events, e)
}

func (r *Rule) emitVerdict(now Instant, e *edgeState, was quorum.Verdict, wasHeld bool) {
	r.emit(Event{
		Kind: EventVerdict, At: now, Edge: e.name, Reason: r.verdictReason(e),
		VerdictFrom: Verdict(was), VerdictTo: Verdict(e.verdict), HeldFrom: wasHeld, HeldTo: e.held,
		Votes: r.voteList(e),
	})
}

func (r *Rule) verdictReason(e *edgeState) string {
	ups, downs, points := 0, 0, len(r.cfg.Points)*len(e.addresses)
	for j := range e.addresses {
		v := r.votes(&e.addresses[j])
		ups, downs = ups+v.Ups, downs+v.Downs
	}
	if e.held {
		return fmt.Sprintf("edge %s stays %s, held: only %d of %d views are fresh", e.name, Verdict(e.verdict), ups+downs, points)
	}
	return fmt.Sprintf("edge %s is %s: %d up and %d down of %d views", e.name, Verdict(e.verdict), ups, downs, points)
}

// failureReason says who sees the edge failing, and how.
func (r *Rule) failureReason(e *edgeState, cause Cause) string {
	var who []string
	for j := range e.addresses {
		a := &e.addresses[j]
		for p := range a.points {
			if s := &a.points[p]; s.health.State == health.Down && !r.suspended[p] {
				who = append(who, fmt.Sprintf("%s (%s, for %s)", r.cfg.Points[p], s.cause, (r.now-s.health.RunStart).Round(time.Millisecond)))
			}
		}
	}
	if len(who) > 6 {
		who = append(who[:6], fmt.Sprintf("and %d more", len(who)-6))
	}
	return fmt.Sprintf("%s is %s for %s", e.name, cause, strings.Join(who, ", "))
}

func (r *Rule) betterReason(m move, to, cur int) string {
	t, c := &r.table[to], &r.table[cur]
	if m.cause == CauseAvailability {
		return fmt.Sprintf("%s had %d failures in %d probes of the last 10 minutes, %s %d in %d, for %s",
			r.current, c.Failures, c.Observations, m.to, t.Failures, t.Observations, r.dwell())
	}
	return fmt.Sprintf("%s answers in %s, %s in %s, for %s without a break",
		m.to, score(t), r.current, score(c), r.dwell())
}

func score(e *selection.Edge) time.Duration {
	return time.Duration(e.Score4 / 4).Round(10 * time.Microsecond)
}

func (r *Rule) voteList(e *edgeState) []Vote {
	out := make([]Vote, 0, len(e.addresses)*len(r.cfg.Points))
	for j := range e.addresses {
		a := &e.addresses[j]
		for p := range a.points {
			s := &a.points[p]
			out = append(out, Vote{
				Point: r.cfg.Points[p], Address: a.name, State: Verdict(s.health.State), Suspended: r.suspended[p],
				Fails: int(s.health.Fails), Oks: int(s.health.Oks), Since: runStart(&s.health), LastAt: s.health.LastAt, LastCause: s.cause,
			})
		}
	}
	return out
}

func runStart(m *health.Machine) Instant {
	if m.RunOpen {
		return m.RunStart
	}
	return 0
}
