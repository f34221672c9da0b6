package steertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"steerpoint/steering"
)

// answer is what a decision names: the edge, a weighted rule's set in list order, or "fallback:<target>".
func answer(d steering.Decision) string {
	if len(d.Set) > 0 && !strings.HasPrefix(d.Edge, "fallback:") {
		return strings.Join(d.Set, ",")
	}
	return d.Edge
}

func locked(d steering.Decision, now steering.Instant) bool { return now < d.LockEnd }

// check tests one expectation after all events of its time.
func (r *runner) check(now steering.Instant, st *Statement) {
	if r.opts.With != nil {
		return
	}
	x := r.byKey[st.Rule]
	if x == nil {
		r.miss(st, "there is no such rule at that time", "")
		return
	}
	if st.Kind == KindExpectVerdict {
		r.checkVerdict(now, x, st)
		return
	}
	got := st.Want
	same := answer(x.d) == st.Edge
	if got.Cause != nil {
		same = same && *got.Cause == string(x.d.Cause)
	}
	if got.Since != nil {
		same = same && *got.Since == x.d.Since
	}
	if got.Degraded != nil {
		same = same && *got.Degraded == x.d.Degraded
	}
	if got.Locked != nil {
		same = same && *got.Locked == locked(x.d, now)
	}
	if !same {
		is := fmt.Sprintf("%s cause=%s since=%s degraded=%t locked=%t", answer(x.d), x.d.Cause, seconds(x.d.Since), x.d.Degraded, locked(x.d, now))
		r.miss(st, is, x.machine.Status(now).Why())
	}
}

func (r *runner) checkVerdict(now steering.Instant, x *running, st *Statement) {
	name, address, one := strings.Cut(st.Edge, "@")
	status := x.machine.Status(now)
	i := slices.IndexFunc(status.Edges, func(e steering.EdgeStatus) bool { return e.Edge == name })
	if i < 0 {
		r.miss(st, "the rule has no such edge at that time", status.Why())
		return
	}
	got, held := status.Edges[i].Verdict, status.Edges[i].Held
	if one {
		j := slices.IndexFunc(status.Edges[i].Addresses, func(a steering.AddressStatus) bool { return a.Address == address })
		if j < 0 {
			r.miss(st, "the edge has no such address at that time", status.Why())
			return
		}
		got, held = status.Edges[i].Addresses[j].Verdict, status.Edges[i].Addresses[j].Held
	}
	if word(got) != st.Verdict {
		is := word(got)
		if held {
			is += " (held: too few points)"
		}
		r.miss(st, is, status.Why())
	}
}

// miss records an expectation that does not hold: the line, what is so, and why.
func (r *runner) miss(st *Statement, is, why string) {
	text := fmt.Sprintf("want %q, but it is: %s", st.String(), is)
	if why = oneLine(why); why != "" {
		text += "; why: " + why
	}
	r.result.Failures = append(r.result.Failures, Failure{File: r.tl.Name, Line: st.Line, Text: text})
}

// countSwitches tests the expect-switches lines, when the run is over.
func (r *runner) countSwitches() {
	if r.opts.With != nil {
		return
	}
	for i := range r.tl.Statements {
		st := &r.tl.Statements[i]
		if st.Kind != KindExpectSwitches {
			continue
		}
		var seen []string
		for _, s := range r.result.Switches {
			at := time.Duration(s.At)
			if s.Key() == st.Rule && !s.initial() && (!st.Windowed || st.At.From <= at && at <= st.At.To) {
				seen = append(seen, s.String())
			}
		}
		if len(seen) != st.Count {
			r.miss(st, fmt.Sprintf("%d: %s", len(seen), listOrNone(seen)), "")
		}
	}
	slices.SortStableFunc(r.result.Failures, func(a, b Failure) int { return a.Line - b.Line })
}

func word(v steering.Verdict) string {
	switch v {
	case steering.Up:
		return "up"
	case steering.Down:
		return "down"
	}
	return "unknown"
}
