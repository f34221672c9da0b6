package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/tape"
	"steerpoint/steering"
)

// follow writes the calls that a record made of the service's machines.
func (x *export) follow(r *tape.Record) error {
	if !x.begun || x.halted {
		return x.jump(r) // as soon as there is something to begin with
	}
	if r.Kind == tape.Observation {
		if len(x.calls) > 0 {
			x.comment(r.Wall)
			x.observe()
		}
		return nil
	}
	if x.svc() == nil {
		x.resources, x.drained = "", nil
		x.settle()
		fmt.Fprintf(&x.lines, "# service %s was deleted\nhalt %s\n", x.service, seconds(x.end))
		x.halted = true
		return nil
	}
	if len(x.calls) == 0 && r.Kind != tape.Configured {
		return nil
	}
	x.configs = x.past.engine.Configs(x.service)
	if x.gone() || slices.ContainsFunc(x.calls, func(c engine.Call) bool { return c.Kind != engine.CallAdvance }) {
		x.comment(r.Wall)
		change, err := x.differs(r.Now)
		if err != nil {
			return err
		}
		if change.kinds() > 1 {
			return x.jump(r)
		}
		if err := x.hold(r.Now, r.Now); err != nil {
			return err
		}
	}
	x.operations()
	x.known(r.Now)
	return nil
}

// gone reports whether a rule that the timeline has is not there any more.
func (x *export) gone() bool {
	for rule := range x.answers {
		if !slices.ContainsFunc(x.configs, func(c steering.RuleConfig) bool { return c.Key() == rule }) {
			return true
		}
	}
	return false
}

// known forgets rules that are gone, and begins to know new ones.
func (x *export) known(now steering.Instant) {
	was := x.answers
	x.answers = map[string]string{}
	for _, cfg := range x.configs {
		x.answers[cfg.Key()] = was[cfg.Key()]
	}
	for rule, d := range x.open {
		if _, there := x.answers[rule]; !there {
			if d.At < now {
				x.expect(d) // at that time it was there
			}
			delete(x.open, rule)
		}
	}
}

// operations writes forces and freezes, and notes which rules saw time pass.
func (x *export) operations() {
	for i := range x.calls {
		c := &x.calls[i]
		at := seconds(c.At)
		delete(x.advanced, c.Rule)
		switch c.Kind {
		case engine.CallAdvance:
			x.advanced[c.Rule] = c.At
		case engine.CallForce:
			service, _, _ := strings.Cut(c.Rule, "/")
			if e := x.svc().Edge(c.Edge); c.Edge == "" || service != x.service || e == nil || !e.Enabled {
				fmt.Fprintf(&x.lines, "unforce %s %s\n", at, c.Rule)
			} else {
				fmt.Fprintf(&x.lines, "force %s %s %s%s\n", at, c.Rule, c.Edge, bounded(c))
			}
		case engine.CallFreeze:
			if c.Until < 0 {
				fmt.Fprintf(&x.lines, "unfreeze %s %s\n", at, c.Rule)
			} else {
				fmt.Fprintf(&x.lines, "freeze %s %s%s\n", at, c.Rule, bounded(c))
			}
		}
	}
}

func bounded(c *engine.Call) string {
	if c.Until == 0 {
		return ""
	}
	return " for " + max(c.Until-c.At, 1).String()
}

// sight is what one observation is to the rules that took it at one instant.
type sight struct {
	at            steering.Instant
	edge, address string
	rules         []string
}

// observe writes an observation: one line for the rules that took it at the same instant. Which rules those are is said
// unless a timeline would give it to the same ones.
func (x *export) observe() {
	var seen []sight
	for i := range x.calls {
		c := &x.calls[i]
		if x.advanced[c.Rule] == c.At {
			// Time had come to this instant before the observation did: silences that end now have been judged.
			fmt.Fprintf(&x.lines, "tick %s %s\n", seconds(c.At), c.Rule)
		}
		delete(x.advanced, c.Rule)
		s := sight{at: c.At, edge: c.Observation.Edge, address: c.Observation.Address}
		j := slices.IndexFunc(seen, func(o sight) bool { return o.at == s.at && o.edge == s.edge && o.address == s.address })
		if j < 0 {
			j, seen = len(seen), append(seen, s)
		}
		seen[j].rules = append(seen[j].rules, c.Rule)
	}
	slices.SortStableFunc(seen, func(a, b sight) int { return cmp.Compare(a.at, b.at) })
	o := &x.calls[0].Observation
	outcome := "fail " + o.Cause
	if o.OK {
		outcome = "ok " + min(max(o.Latency, 1), time.Hour).String()
	}
	x.points[o.Point] = true
	for _, s := range seen {
		edge := s.edge
		if len(x.addresses(s.edge)) > 1 {
			edge += "@" + s.address
		}
		fmt.Fprintf(&x.lines, "%s %s %s %s", seconds(s.at), o.Point, edge, outcome)
		if slices.Sort(s.rules); !slices.Equal(s.rules, x.hearers(s.edge, s.address, o.Point)) {
			fmt.Fprintf(&x.lines, " only %s", strings.Join(s.rules, ","))
		}
		x.lines.WriteByte('\n')
	}
}

// addresses are those that any rule of the service probes an edge by: rules may differ in families.
func (x *export) addresses(edge string) []string {
	var out []string
	for _, cfg := range x.configs {
		for _, e := range cfg.ServiceEdges {
			for _, a := range e.Addresses {
				if e.Name == edge && !slices.Contains(out, a) {
					out = append(out, a)
				}
			}
		}
	}
	return out
}

// hearers are the rules to which a timeline gives an observation of an edge's address by a point, in order.
func (x *export) hearers(edge, address, point string) []string {
	var out []string
	for _, cfg := range x.configs {
		names := slices.Clone(cfg.Edges)
		for _, w := range cfg.Schedule {
			names = append(names, w.Edges...)
		}
		enabled := slices.ContainsFunc(cfg.ServiceEdges, func(e steering.EdgeConfig) bool {
			return e.Name == edge && e.Enabled && slices.Contains(e.Addresses, address)
		})
		if enabled && slices.Contains(names, edge) && slices.Contains(cfg.Points, point) {
			out = append(out, cfg.Key())
		}
	}
	return out
}

// comment names the wall time once a minute, for people.
func (x *export) comment(wall time.Time) {
	if m := wall.UTC().Truncate(time.Minute); m.After(x.minute) {
		x.minute = m
		fmt.Fprintf(&x.lines, "# %s\n", m.Format(time.RFC3339))
	}
}
