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

// plan is what follows from a service's resource alone.
type plan struct {
	rules  []planned // in the total order of scopes
	scopes []scope.Scope
	key    string   // of the scope set
	names  []string // of the service, as FQDNs, its CNAME left out: no edge may point at them
	// target says which part of it could answer with a name after a switch; "": none.
	target string
	mixed  bool // it could answer with names and with addresses
}

type planned struct {
	rule        *spec.Rule
	key         string // "service/rule"
	scope       string
	ttl, minTTL time.Duration
}

func newPlan(s *spec.Service) *plan {
	p := &plan{names: make([]string, 0, len(s.Domains)+1), target: couldName(s), mixed: mixed(s)}
	for _, d := range s.Domains {
		p.names = append(p.names, fqdn(d))
	}
	order := make([]int, len(s.Rules))
	scopes := make([]scope.Scope, len(s.Rules)) // normalizing is what costs most in here
	for i := range s.Rules {
		order[i], scopes[i] = i, s.Rules[i].Scope.Scope()
	}
	slices.SortStableFunc(order, func(a, b int) int { return scope.Compare(scopes[a], scopes[b]) })
	var key strings.Builder
	for _, i := range order {
		r, text := &s.Rules[i], scopes[i].Canonical()
		p.rules = append(p.rules, planned{r, s.Name + "/" + r.Name, text, time.Duration(s.RuleTTL(r)), time.Duration(s.RuleMinTTL(r))})
		p.scopes = append(p.scopes, scopes[i])
		key.WriteString(text)
		key.WriteByte('\n')
	}
	p.key = key.String()
	return p
}

// compile makes what a service answers, beside no other. It reports whether what it may answer at could change by it.
func (c *Compiler) compile(e *entry, in *DNSInput) bool {
	e.dirty = false
	c.outdate(e)
	failed, names, ready := e.err != nil, e.names, e.flatReady
	first := e.plan == nil
	switch {
	case !first:
	case e.spec == nil:
		e.plan = &plan{}
	default:
		e.plan = newPlan(e.spec)
	}
	e.made, e.table, e.problems, e.names = DNSService{}, nil, nil, ""
	if shape := c.oneShape(e); shape != e.oneShape {
		e.oneShape, c.targets = shape, nil
	}
	e.flat = e.wantsFlat
	c.compiled++
	if e.err = c.answers(e, in); e.err == nil && !e.oneShape {
		e.names = cmp.Or(e.plan.target, e.made.answersName())
	}
	e.flatReady = e.err == nil && e.flat && e.made.flatReady()
	return first || failed != (e.err != nil) || names != e.names || ready != e.flatReady
}

func (c *Compiler) answers(e *entry, in *DNSInput) error {
	s := e.spec
	if s == nil {
		return refuse(ProblemUnread, "", "this version cannot read it, and nothing steers it: run the version that wrote it, or apply it again")
	}
	zone, err := c.zones.of(s)
	if err != nil {
		return err
	}
	e.made = DNSService{
		Name: s.Name, Zone: zone, CNAME: serviceCNAME(s, zone), Table: NoTable, NegativeTTL: time.Duration(s.DNS.NegativeTTL),
		Made: in.Now, Rules: make([]DNSRule, 0, len(e.plan.rules)),
	}
	if n := len(e.plan.scopes); n == 0 || !e.plan.scopes[n-1].Any {
		return refuse(ProblemScopes, "", `it has no rule with scope "*": somebody would get no answer: add one`)
	}
	for i := range e.plan.rules {
		answer, err := c.rule(e, &e.plan.rules[i], in.Now)
		if err != nil {
			return err
		}
		e.made.Rules = append(e.made.Rules, answer)
	}
	if len(e.plan.scopes) > 1 {
		if e.table, err = c.tables.get(e.plan.key, e.plan.scopes); err != nil {
			return refuse(ProblemScopes, "", "its scopes do not make a table: %v", err)
		}
	}
	return nil
}

// claim is what a service has beside the others.
type claim struct {
	err      error       // its own name is another's
	kept     *DNSService // its answers of before, in place of those that cannot be compiled; nil: none
	hosted   []string
	flat     []string
	problems []Problem // domains left out
}

// claims gives names to services, in their order: the first that asks has a name, but nobody gets another service's
// CNAME.
func (c *Compiler) claims() {
	c.owners, c.cnames = make(map[string]string, 2*len(c.entries)), make(map[string]string, len(c.entries))
	for name := range c.zones.servers {
		c.owners[name] = "name server"
	}
	for _, e := range c.entries {
		if name := e.cname(); name != "" {
			c.cnames[name] = e.name
		}
	}
	before := make([]claim, len(c.entries))
	for i, e := range c.entries {
		before[i], e.claim, e.wantsFlat = e.claim, claim{}, false
		if owner := c.owner(e.made.CNAME, e); e.err == nil && owner != "" {
			e.claim.err = refuse(ProblemNameTaken, "", "its name %s belongs to %s already: rename one of them", e.made.CNAME, owner)
		}
		if e.err == nil && e.claim.err == nil {
			c.claim(e)
		} else if e.out != nil {
			e.claim.kept = c.keep(e.out)
		}
	}
	c.claimAliases()
	for i, e := range c.entries {
		if !before[i].equal(&e.claim) {
			c.outdate(e)
		}
	}
}

// cname is the service's own name; "" if that is not known.
func (e *entry) cname() string {
	switch {
	case e.spec == nil && e.out != nil:
		return e.out.CNAME
	case e.spec == nil:
		return ""
	case e.zone == "":
		return ""
	}
	return serviceCNAME(e.spec, e.zone)
}

func (c *claim) equal(o *claim) bool {
	return slices.Equal(c.hosted, o.hosted) && slices.Equal(c.flat, o.flat) && slices.Equal(c.problems, o.problems) &&
		(c.err == nil && c.kept == nil && o.err == nil && o.kept == nil)
}

// claim takes the service's names, leaving out domains that cannot be answered here.
func (c *Compiler) claim(e *entry) {
	service := "service " + e.name
	c.owners[e.made.CNAME] = service
	for i, name := range e.plan.names {
		if c.zones.around(name) == "" || name == e.made.CNAME {
			continue // elsewhere: points at the service CNAME
		}
		d := e.spec.Domains[i]
		owner := c.owner(name, e)
		if other := c.cnames[name]; other != "" {
			owner = "service " + other
		}
		var p Problem
		switch {
		case owner != "":
			p = Problem{Code: ProblemNameTaken, Message: fmt.Sprintf("domain %s belongs to %s already: it is not answered for this service", d, owner)}
		case c.zones.isApex(name) && e.names != "":
			c.owners[name] = service
			c.claimFlat(e, name, fmt.Sprintf("domain %s is the apex of a zone", d))
			continue
		default:
			c.owners[name] = service
			e.claim.hosted = append(e.claim.hosted, name)
			continue
		}
		p.Service = e.name
		e.claim.problems = append(e.claim.problems, p)
	}
}

// keep makes of a service's answers of before what can still be answered, as far as its names are still to be had.
func (c *Compiler) keep(before *DNSService) *DNSService {
	old := *before
	if c.zones.around(old.CNAME) != old.Zone || c.owner(old.CNAME, nil) != "" || old.answersName() != "" && c.zones.beside[old.CNAME] {
		return nil
	}
	service := "service " + old.Name
	c.owners[old.CNAME] = service
	named := old.answersName() != ""
	lost := func(name string) bool {
		other := c.cnames[name]
		return c.zones.around(name) == "" || c.owner(name, nil) != "" || other != "" && other != old.Name || named && c.zones.beside[name]
	}
	old.Hosted = slices.DeleteFunc(slices.Clone(old.Hosted), func(h string) bool {
		if lost(h) || c.zones.isApex(h) && named {
			return true
		}
		c.owners[h] = service
		return false
	})
	old.Flat = slices.DeleteFunc(slices.Clone(old.Flat), func(h string) bool {
		if target := c.zones.aliasOf(h); target != "" { // whose it is, claimAliases says
			return target != old.CNAME && !slices.Contains(old.Hosted, target)
		}
		if lost(h) || !c.zones.isApex(h) {
			return true
		}
		c.owners[h] = service
		return false
	})
	old.Rules = slices.Clone(old.Rules)
	for j := range old.Rules {
		old.Rules[j].Soonest = 0 // what was open then is no longer followed
	}
	return &old
}

// failure is the problem of a service that could not be compiled.
func failure(e *entry, err error) Problem {
	p := Problem{Code: ProblemNoAnswer, Service: e.name, Message: err.Error(), Kept: e.claim.kept != nil}
	var se *serviceError
	if errors.As(err, &se) {
		p.Code, p.Rule = se.code, se.rule
	}
	p.Lost = !p.Kept
	if p.Kept {
		p.Message += "; its answers stay as they were"
	} else {
		p.Message += "; it is not answered"
	}
	return p
}

// couldName says what of a service could answer with a name after a switch; "" if nothing can.
func couldName(s *spec.Service) string {
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
	return ""
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
func (c *Compiler) rule(e *entry, p *planned, now steering.Instant) (DNSRule, error) {
	state, known := c.rules[p.key]
	out := DNSRule{
		Rule: p.rule.Name, Scope: p.scope, Decision: state.Decision.Seq, Degraded: state.Decision.Degraded,
		TTL: p.ttl, MinTTL: p.minTTL,
	}
	if left := state.Decision.Soonest - now; state.Decision.Soonest != 0 && left > 0 {
		out.Soonest = left
	}
	a := ruleAnswer{entry: e, service: e.spec, rule: p.rule, state: state.Edges, zones: &c.zones}
	var err error
	if known && state.Decision.Edge != "" {
		out.Choices, err = a.choices(&state.Decision)
	} else {
		out.Choices, err = a.undecided()
	}
	return out, err
}
