package steering

import (
	"fmt"
	"strings"
	"time"
)

// String names the verdict for people and programs.
func (v Verdict) String() string {
	switch v {
	case Up:
		return "up"
	case Down:
		return "down"
	default:
		return "unknown"
	}
}

// String is the mode's word in a Service.
func (m Mode) String() string {
	switch m {
	case ModeFixed:
		return "fixed"
	case ModeFailover:
		return "failover"
	case ModeQuality:
		return "quality"
	case ModeWeighted:
		return "weighted"
	default:
		return "none"
	}
}

// String is the word of whenAllDown in a Service.
func (a AllDown) String() string {
	switch a {
	case AllDownAll:
		return "all"
	case AllDownFirst:
		return "first"
	case AllDownEmpty:
		return "empty"
	case AllDownFallback:
		return "fallback"
	default:
		return "hold"
	}
}

// consequence says what visitors get while every edge is down.
func (a AllDown) consequence() string {
	switch a {
	case AllDownAll:
		return "the rule answers with all of them"
	case AllDownFirst:
		return "the rule answers with its first"
	case AllDownEmpty:
		return "the rule answers with nothing"
	case AllDownFallback:
		return "the fallback answers"
	default:
		return "the answer is held"
	}
}

// Status is a view of every enabled edge of the rule at now, in the order of its configuration.
func (r *Rule) Status(now Instant) []EdgeStatus {
	out := make([]EdgeStatus, 0, len(r.edges))
	for i := range r.edges {
		e := &r.edges[i]
		s := EdgeStatus{
			Edge: e.name, Enabled: true, Verdict: Verdict(e.verdict), Held: e.held, Since: e.since,
			Confirmed: r.confirmed(e), Damped: e.penalty.Suppressed, Penalty: e.penalty.Value(now), Availability: 1,
		}
		if e.up.On {
			s.UpSince = e.up.Since
		}
		if score, ok := r.score4(e); ok {
			s.Score = time.Duration(score / 4)
		}
		observations, failures := r.availability(e, now)
		if s.Observations = observations; observations > 0 {
			s.Availability = float64(observations-failures) / float64(observations)
		}
		for j := range e.addresses {
			s.Addresses = append(s.Addresses, r.addressStatus(&e.addresses[j]))
		}
		byAddress := r.voteList(e)
		n := len(r.cfg.Points)
		for j := range s.Addresses {
			s.Addresses[j].Votes = byAddress[j*n : (j+1)*n]
		}
		out = append(out, s)
	}
	return out
}

func (r *Rule) addressStatus(a *addressState) AddressStatus {
	s := AddressStatus{Address: a.name, Verdict: Verdict(a.verdict), Held: a.held}
	for p := range a.points {
		if above := a.points[p].baseline.SlowAbove(r.cfg.SlowMilli); above > 0 {
			if s.SlowAbove == nil {
				s.SlowAbove = make(map[string]time.Duration)
			}
			s.SlowAbove[r.cfg.Points[p]] = above
		}
	}
	return s
}

// Describe prints the whole state of the rule for people and tests.
func (r *Rule) Describe(now Instant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s) answers %s since %s, cause %s", r.cfg.Key(), r.mode, orNone(r.name()), r.since, orNone(string(r.cause)))
	r.describeFlags(&b, now)
	for i := range r.edges {
		r.describeEdge(&b, now, &r.edges[i])
	}
	return b.String()
}

func (r *Rule) describeFlags(b *strings.Builder, now Instant) {
	if r.degraded {
		b.WriteString(", degraded")
	}
	if end := r.lockEnd(); end > now {
		fmt.Fprintf(b, ", locked until %s", end)
	}
	if r.force.on {
		fmt.Fprintf(b, ", forced to %s%s", r.force.edge, untilText(r.force.until))
	}
	if r.freeze.on {
		fmt.Fprintf(b, ", frozen%s", untilText(r.freeze.until))
	}
	if r.held != "" {
		fmt.Fprintf(b, " (%s)", r.held)
	}
	if r.t0Set {
		fmt.Fprintf(b, ", failure of the current edge began at %s", r.t0)
	}
	if r.better.On {
		fmt.Fprintf(b, ", a better edge since %s", r.better.Since)
	}
	b.WriteByte('\n')
}

func (r *Rule) describeEdge(b *strings.Builder, now Instant, e *edgeState) {
	fmt.Fprintf(b, "  %-12s %s", e.name, Verdict(e.verdict))
	if e.held {
		b.WriteString(" held")
	}
	fmt.Fprintf(b, " since %s", e.since)
	if e.up.On {
		fmt.Fprintf(b, ", well since %s", e.up.Since)
	}
	if score, ok := r.score4(e); ok {
		fmt.Fprintf(b, ", score %s", time.Duration(score/4))
	}
	if n, f := r.availability(e, now); n > 0 {
		fmt.Fprintf(b, ", %d/%d ok", n-f, n)
	}
	if v := e.penalty.Value(now); v >= 1 {
		fmt.Fprintf(b, ", flap penalty %.0f", v)
	}
	if e.penalty.Suppressed {
		fmt.Fprintf(b, " (last in order until %s)", e.penalty.ReuseAt)
	}
	b.WriteByte('\n')
	for j := range e.addresses {
		a := &e.addresses[j]
		if len(e.addresses) > 1 {
			fmt.Fprintf(b, "    %s %s\n", a.name, Verdict(a.verdict))
		}
		for p := range a.points {
			r.describePoint(b, p, &a.points[p])
		}
	}
}

func (r *Rule) describePoint(b *strings.Builder, p int, s *pointState) {
	fmt.Fprintf(b, "      %-10s %s", r.cfg.Points[p], s.health.State)
	switch {
	case !s.health.Seen:
		b.WriteString(", nothing seen yet")
	case s.health.RunOpen:
		fmt.Fprintf(b, ", failing since %s (%s), %d in a row, %d oks since", s.health.RunStart, s.cause, s.health.Fails, s.health.Oks)
	default:
		fmt.Fprintf(b, ", %d oks in a row", s.health.Oks)
	}
	if s.health.Seen {
		fmt.Fprintf(b, ", last seen at %s", s.health.LastAt)
	}
	if r.suspended[p] {
		b.WriteString(", no vote: its own network seems lost")
	}
	b.WriteByte('\n')
}

func orNone(s string) string {
	if s == "" {
		return "nothing yet"
	}
	return s
}

func untilText(until Instant) string {
	if until == 0 {
		return ""
	}
	return " until " + until.String()
}
