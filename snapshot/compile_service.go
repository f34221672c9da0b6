package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"steerpoint/spec"
	"steerpoint/steering"
	"steerpoint/steering/scope"
)

// serviceError stops one service and has a code.
type serviceError struct {
	code, rule, message string
}

func (e *serviceError) Error() string { return e.message }

func refuse(code, rule, format string, args ...any) error {
	return &serviceError{code, rule, fmt.Sprintf(format, args...)}
}

// service compiles one service, or carries its former answers over.
func (c *dnsCompiler) service(s *spec.Service) {
	made, err := c.compileService(s)
	if err == nil {
		c.claim(s, &made)
		c.out.Services = append(c.out.Services, made)
		return
	}
	p := Problem{Code: ProblemNoAnswer, Service: s.Name, Message: err.Error()}
	var se *serviceError
	if errors.As(err, &se) {
		p.Code, p.Rule = se.code, se.rule
	}
	p.Kept = c.carryOver(s.Name)
	p.Lost = !p.Kept
	if p.Kept {
		p.Message += "; its answers stay as they were"
	} else {
		p.Message += "; it is not answered"
	}
	c.problems = append(c.problems, p)
}

// carryOver takes a service's answers from the previous snapshot, as far as its names are still to be had.
func (c *dnsCompiler) carryOver(name string) bool {
	if c.in.Previous == nil {
		return false
	}
	i := slices.IndexFunc(c.in.Previous.Services, func(s DNSService) bool { return s.Name == name })
	if i < 0 {
		return false
	}
	old := c.in.Previous.Services[i]
	if c.zoneOf(old.CNAME) != old.Zone || c.owners[old.CNAME] != "" {
		return false
	}
	c.owners[old.CNAME] = "service " + name
	old.Hosted = slices.Clone(old.Hosted)
	old.Hosted = slices.DeleteFunc(old.Hosted, func(h string) bool {
		other := c.cnames[h]
		if c.zoneOf(h) == "" || c.owners[h] != "" || other != "" && other != name || c.isApex(h) && old.answersName() != "" {
			return true
		}
		c.owners[h] = "service " + name
		return false
	})
	old.Rules = slices.Clone(old.Rules)
	for j := range old.Rules {
		old.Rules[j].Soonest = 0 // counted from a snapshot long gone
	}
	if old.Table != NoTable {
		old.Table = c.addTable(c.in.Previous.Tables[old.Table])
	}
	c.out.Services = append(c.out.Services, old)
	return true
}

func (c *dnsCompiler) compileService(s *spec.Service) (DNSService, error) {
	zone, err := c.serviceZone(s)
	if err != nil {
		return DNSService{}, err
	}
	made := DNSService{
		Name: s.Name, Zone: zone, CNAME: serviceCNAME(s, zone), Table: NoTable,
		NegativeTTL: time.Duration(s.DNS.NegativeTTL),
	}
	if owner := c.owners[made.CNAME]; owner != "" {
		return made, refuse(ProblemNameTaken, "", "its name %s belongs to %s already: rename one of them", made.CNAME, owner)
	}
	rules := slices.Clone(s.Rules)
	slices.SortStableFunc(rules, func(a, b spec.Rule) int { return scope.Compare(a.Scope.Scope(), b.Scope.Scope()) })
	if len(rules) == 0 || !rules[len(rules)-1].Scope.Any {
		return made, refuse(ProblemScopes, "", `it has no rule with scope "*": somebody would get no answer: add one`)
	}
	scopes := make([]scope.Scope, len(rules))
	for i := range rules {
		scopes[i] = rules[i].Scope.Scope()
		answer, err := c.rule(s, &rules[i], &made)
		if err != nil {
			return made, err
		}
		made.Rules = append(made.Rules, answer)
	}
	if len(scopes) > 1 {
		table, err := c.cache.table(scopes)
		if err != nil {
			return made, refuse(ProblemScopes, "", "its scopes do not make a table: %v", err)
		}
		made.Table = c.addTable(table)
	}
	return made, nil
}

func (c *dnsCompiler) serviceZone(s *spec.Service) (string, error) {
	if s.DNS.Zone == "" {
		if len(c.steering) == 1 {
			return c.steering[0], nil
		}
		return "", refuse(ProblemNoZone, "", "it names no dns.zone and there are %d steering zones: name one", len(c.steering))
	}
	zone := fqdn(s.DNS.Zone)
	if !slices.Contains(c.steering, zone) {
		return "", refuse(ProblemNoZone, "", "its zone %s is not a steering zone of ours: apply a Zone with steering: true for it", s.DNS.Zone)
	}
	return zone, nil
}

// claim takes the service's names, leaving out domains that cannot be answered here.
func (c *dnsCompiler) claim(s *spec.Service, made *DNSService) {
	c.owners[made.CNAME] = "service " + s.Name
	for _, d := range s.Domains {
		name := fqdn(d)
		if c.zoneOf(name) == "" || name == made.CNAME {
			continue // elsewhere: points at the service CNAME
		}
		var p Problem
		owner := c.owners[name]
		if other := c.cnames[name]; other != "" {
			owner = "service " + other
		}
		switch {
		case owner != "":
			p = Problem{Code: ProblemNameTaken, Message: fmt.Sprintf("domain %s belongs to %s already: it is not answered for this service", d, owner)}
		case c.isApex(name) && namesTarget(s, made) != "":
			p = Problem{Code: ProblemApexName, Message: fmt.Sprintf("domain %s is the apex of a zone, where only addresses can be answered, and %s: "+
				"give every edge addresses, or use a name below the zone; the domain is not answered", d, namesTarget(s, made))}
		default:
			c.owners[name] = "service " + s.Name
			made.Hosted = append(made.Hosted, name)
			continue
		}
		p.Service = s.Name
		c.problems = append(c.problems, p)
	}
}

// namesTarget says what of a service could answer with a name, after a switch or now; "" if nothing can.
func namesTarget(s *spec.Service, made *DNSService) string {
	for i := range s.Edges {
		if e := &s.Edges[i]; e.Enabled && e.Target != "" {
			return fmt.Sprintf("edge %s is the name %s", e.Name, e.Target)
		}
	}
	for i := range s.Rules {
		if target, ok := fallbackName(&s.Rules[i]); ok {
			return fmt.Sprintf("rule %s falls back to the name %s", s.Rules[i].Name, target)
		}
	}
	return made.answersName()
}

// answersName says which rule answers with a name now.
func (s *DNSService) answersName() string {
	for i := range s.Rules {
		for _, c := range s.Rules[i].Choices {
			if c.Target != "" {
				return fmt.Sprintf("rule %s answers with the name %s", s.Rules[i].Rule, c.Target)
			}
		}
	}
	return ""
}

func fallbackName(r *spec.Rule) (string, bool) {
	if r.WhenAllDown.Policy != "fallback" {
		return "", false
	}
	_, err := netip.ParseAddr(r.WhenAllDown.Target)
	return r.WhenAllDown.Target, err != nil
}

// rule compiles what one rule answers now.
func (c *dnsCompiler) rule(s *spec.Service, r *spec.Rule, made *DNSService) (DNSRule, error) {
	state, known := c.in.Rules[s.Name+"/"+r.Name]
	out := DNSRule{
		Rule: r.Name, Scope: r.Scope.String(), Decision: state.Decision.Seq, Degraded: state.Decision.Degraded,
		TTL: time.Duration(s.RuleTTL(r)), MinTTL: time.Duration(s.RuleMinTTL(r)),
	}
	if left := state.Decision.Soonest - c.in.Now; state.Decision.Soonest != 0 && left > 0 {
		out.Soonest = left
	}
	a := ruleAnswer{c: c, service: s, rule: r, state: state.Edges, names: append([]string{made.CNAME}, hostedNames(s)...)}
	var err error
	if known && state.Decision.Edge != "" {
		out.Choices, err = a.choices(&state.Decision)
	} else {
		out.Choices, err = a.undecided()
	}
	return out, err
}

func hostedNames(s *spec.Service) (names []string) {
	for _, d := range s.Domains {
		names = append(names, fqdn(d))
	}
	return names
}

// ruleAnswer turns a decision into choices.
type ruleAnswer struct {
	c       *dnsCompiler
	service *spec.Service
	rule    *spec.Rule
	state   []steering.EdgeStatus
	names   []string // of the service itself: no edge may point at them
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
	out.Target, err = a.target("the fallback", target)
	return []DNSChoice{out}, err
}

func (a *ruleAnswer) target(what, name string) (string, error) {
	t := fqdn(name)
	if slices.Contains(a.names, t) {
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
			a.c.problems = append(a.c.problems, Problem{
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
		out.Target, err = a.target("edge "+name, string(e.Target))
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
	a.c.problems = append(a.c.problems, Problem{
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
