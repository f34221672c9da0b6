package snapshot

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"steerpoint/spec"
	"steerpoint/steering"
)

// ruleAnswer turns a decision into choices.
type ruleAnswer struct {
	entry   *entry
	service *spec.Service
	rule    *spec.Rule
	state   []steering.EdgeStatus
	zones   *zoneSet // where the addresses of names are found
}

// undecided answers in priority order: nothing is known, and nothing is down.
func (a *ruleAnswer) undecided() ([]DNSChoice, error) {
	enabled := a.enabled()
	if len(enabled) == 0 {
		return nil, refuse(ProblemNoAnswer, a.rule.Name, "none of its edges is enabled: enable one")
	}
	if a.rule.Mode != spec.Weighted {
		enabled = enabled[:1]
	}
	return a.edges(enabled)
}

func (a *ruleAnswer) enabled() (names []string) {
	for _, name := range a.rule.Edges {
		if e := a.service.Edge(name); e != nil && e.Enabled {
			names = append(names, name)
		}
	}
	return names
}

// inForce are the edges that take part now, less those disabled since the decision: a schedule may have put another
// list in place of the rule's own.
func (a *ruleAnswer) inForce(d *steering.Decision) (names []string) {
	for _, name := range d.List {
		if e := a.service.Edge(name); e != nil && e.Enabled {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return a.enabled()
	}
	return names
}

func (a *ruleAnswer) choices(d *steering.Decision) ([]DNSChoice, error) {
	if target, ok := strings.CutPrefix(d.Edge, "fallback:"); ok {
		return a.fallback(target)
	}
	switch d.AllDown {
	case steering.AllDownEmpty:
		return nil, nil
	case steering.AllDownAll:
		return a.all(d)
	case steering.AllDownFirst:
		if list := a.inForce(d); len(list) > 0 {
			return a.edges(list[:1])
		}
	}
	if len(d.Set) > 0 {
		return a.edges(d.Set)
	}
	return a.edges([]string{d.Edge})
}

// edges makes one choice of each edge.
func (a *ruleAnswer) edges(names []string) (out []DNSChoice, err error) {
	for _, name := range names {
		c, err := a.choice(name)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (a *ruleAnswer) fallback(target string) ([]DNSChoice, error) {
	out := DNSChoice{Edge: "fallback:" + target}
	if addr, err := netip.ParseAddr(target); err == nil {
		out.A, out.AAAA = split([]netip.Addr{addr.Unmap()})
		out.HasA, out.HasAAAA = len(out.A) > 0, len(out.AAAA) > 0
		return []DNSChoice{out}, nil
	}
	var err error
	if out.Target, err = a.target("the fallback", target); err == nil {
		err = a.shape(&out)
	}
	a.flatten(&out)
	return []DNSChoice{out}, err
}

func (a *ruleAnswer) target(what, name string) (string, error) {
	t := fqdn(name)
	if t == a.entry.made.CNAME || slices.Contains(a.entry.plan.names, t) {
		return "", refuse(ProblemLoop, a.rule.Name, "%s points at %s, a name of the service itself: resolvers would go in circles: give it the edge's own name", what, name)
	}
	return t, nil
}

// all is one answer of every edge's addresses; a name cannot be part of it.
func (a *ruleAnswer) all(d *steering.Decision) ([]DNSChoice, error) {
	enabled := a.inForce(d)
	merged := DNSChoice{Edge: strings.Join(enabled, ",")}
	for _, name := range enabled {
		c, err := a.choice(name)
		if err != nil {
			return nil, err
		}
		if c.Target != "" {
			a.entry.problems = append(a.entry.problems, Problem{
				Code: ProblemAllNames, Service: a.service.Name, Rule: a.rule.Name,
				Message: fmt.Sprintf("whenAllDown is all, and edge %s is a name, of which an answer can hold only one: "+
					"the answer is held instead", name),
			})
			return a.edges([]string{d.Edge})
		}
		merged.A, merged.AAAA = append(merged.A, c.A...), append(merged.AAAA, c.AAAA...)
		merged.HasA, merged.HasAAAA = merged.HasA || c.HasA, merged.HasAAAA || c.HasAAAA
	}
	merged.A, merged.AAAA = a.cap(merged.Edge, unique(merged.A)), a.cap(merged.Edge, unique(merged.AAAA))
	return []DNSChoice{merged}, nil
}

func unique(addrs []netip.Addr) (out []netip.Addr) {
	for _, x := range addrs {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// choice is one edge as an answer: its target, or its addresses less those that are down. When all addresses are down
// they all stay: an empty answer is given only where the rule says so. A fixed rule heeds no probe.
func (a *ruleAnswer) choice(name string) (DNSChoice, error) {
	e := a.service.Edge(name)
	if e == nil {
		return DNSChoice{}, refuse(ProblemNoAnswer, a.rule.Name, "edge %s is not defined in the service", name)
	}
	out := DNSChoice{Edge: name, Weight: cmp.Or(e.Weight, 50)}
	if e.Target != "" {
		var err error
		if out.Target, err = a.target("edge "+name, string(e.Target)); err == nil {
			err = a.shape(&out)
		}
		a.flatten(&out)
		return out, err
	}
	if len(e.Addresses) == 0 {
		return out, refuse(ProblemNoAnswer, a.rule.Name, "edge %s has neither a target nor addresses that this version can answer with: give it one", name)
	}
	var every, well []netip.Addr
	for _, x := range e.Addresses {
		if slices.Contains(every, x.Addr) {
			continue
		}
		every = append(every, x.Addr)
		if a.rule.Mode == spec.Fixed || !a.down(name, x.Addr) {
			well = append(well, x.Addr)
		}
	}
	if len(well) == 0 {
		well = every
	}
	hasA, hasAAAA := split(every)
	out.HasA, out.HasAAAA = len(hasA) > 0, len(hasAAAA) > 0
	out.A, out.AAAA = split(well)
	out.A, out.AAAA = a.cap(name, out.A), a.cap(name, out.AAAA)
	return out, nil
}

// cap keeps an answer within MaxAnswerAddresses of a family, in the order written.
func (a *ruleAnswer) cap(edge string, addrs []netip.Addr) []netip.Addr {
	if len(addrs) <= MaxAnswerAddresses {
		return addrs
	}
	a.entry.problems = append(a.entry.problems, Problem{
		Code: ProblemTooMany, Service: a.service.Name, Rule: a.rule.Name,
		Message: fmt.Sprintf("edge %s has %d addresses of one family to answer with: the first %d are answered", edge, len(addrs), MaxAnswerAddresses),
	})
	return addrs[:MaxAnswerAddresses]
}

// down reports whether an address of an edge is down.
func (a *ruleAnswer) down(edge string, addr netip.Addr) bool {
	for i := range a.state {
		if a.state[i].Edge != edge {
			continue
		}
		for _, s := range a.state[i].Addresses {
			if x, ok := steering.IsAddress(s.Address); ok && x.Unmap() == addr {
				return s.Verdict == steering.Down
			}
		}
	}
	return false
}

func split(addrs []netip.Addr) (a, aaaa []netip.Addr) {
	for _, x := range addrs {
		if x.Is4() {
			a = append(a, x)
		} else {
			aaaa = append(aaaa, x)
		}
	}
	return a, aaaa
}
