package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"steerpoint/spec/internal/names"
	"steerpoint/steering/scope"
)

func (c *checker) rules(s *Service) {
	var labels []string
	catchAll := -1
	scopesSound := c.sound("rules") || len(s.Rules) > 0
	for i := range s.Rules {
		r := &s.Rules[i]
		path := at("rules[%d]", i)
		labels = append(labels, r.Name)
		c.rule(s, r, path)
		scopesSound = scopesSound && c.sound(path+".scope")
		switch {
		case r.Scope.Any && catchAll < 0:
			catchAll = i
		case r.Scope.Any:
			c.fail(path+".scope", "*", valueError{CodeCatchAllTwice, "is the scope of rule " + s.Rules[catchAll].Name + " too", "exactly one rule with scope \"*\"", ""})
		}
	}
	c.uniqueNames("rules", labels, "rule")
	if catchAll < 0 && scopesSound && len(s.Rules) > 0 {
		c.errs = append(c.errs, Error{c.finding("rules", "", valueError{CodeNoCatchAll, "no rule is for everybody", "exactly one rule with scope \"*\"", ""})})
	}
	c.overlaps(s)
	c.oneTTL(s)
	c.probedSomewhere(s)
}

// overlaps refuses two rules that claim one visitor at the same level: nothing would say which of them wins.
func (c *checker) overlaps(s *Service) {
	scopes := make([]scope.Scope, len(s.Rules))
	for i := range s.Rules {
		scopes[i] = s.Rules[i].Scope.Scope()
	}
	for i := range scopes {
		for j := range i {
			if scopes[i].Any || !scope.Overlap(scopes[i], scopes[j]) {
				continue
			}
			c.fail(at("rules[%d].scope", i), scopes[i].Canonical(), valueError{
				CodeScopeOverlap, fmt.Sprintf("claims visitors that rule %s claims too (%s)", s.Rules[j].Name, scopes[j].Canonical()),
				"scopes of one kind that have no visitor in common", "",
			})
			break
		}
	}
}

// oneTTL refuses rules with different TTLs: the service CNAME is one record set for whoever shares a resolver, and a
// record set has one TTL (RFC 2181 section 5.2).
func (c *checker) oneTTL(s *Service) {
	for i := range s.Rules {
		r := &s.Rules[i]
		path := at("rules[%d].ttl", i)
		if i > 0 && s.RuleTTL(r) != s.RuleTTL(&s.Rules[0]) {
			at := path
			if r.TTL == 0 {
				at = "rules[0].ttl"
			}
			c.fail(at, s.RuleTTL(r).String(), valueError{
				CodeTwoTTLs, fmt.Sprintf("is the ttl of rule %s, but rule %s has %s; one name has one TTL", r.Name, s.Rules[0].Name, s.RuleTTL(&s.Rules[0])),
				"one ttl for all rules of a service: set dns.ttl", "",
			})
			return
		}
		if r.TTL != 0 && s.DNS.MinTTL > r.TTL {
			c.fail(path, r.TTL.String(), valueError{CodeMinTTL, "is shorter than dns.minTTL " + s.DNS.MinTTL.String(), "at least dns.minTTL", ""})
		}
	}
	if ttl := s.DNS.TTL; ttl > longTTL {
		c.warn("dns.ttl", ttl.String(), valueError{CodeLongTTL, "is long: visitors follow a switch only after it", "", ""})
	}
}

// probedSomewhere warns when every rule's probing is off although a probe is configured (field case 38).
func (c *checker) probedSomewhere(s *Service) {
	plain := Probe{}
	fillProbe(&plain)
	plain.Enabled = false
	configured := false
	for i := range s.Rules {
		if s.Rules[i].Probe.Enabled {
			return
		}
		configured = configured || !sameProbe(&s.Rules[i].Probe, &plain)
	}
	if configured {
		c.warn("rules", "", valueError{CodeProbeOff, "a probe is configured but probing is off in every rule, so nothing moves by itself", "", ""})
	}
}

func (c *checker) rule(s *Service, r *Rule, path string) {
	if c.sound(path + ".scope") {
		c.scope(r, path+".scope")
	}
	c.ruleEdges(s, r.Edges, path+".edges")
	if r.Mode == Fixed && len(r.Edges) > 1 {
		c.warn(path+".edges", "", valueError{CodeFixedEdges, fmt.Sprintf("a fixed rule answers with its first edge, %s; the others are never used", r.Edges[0]), "", ""})
	}
	if r.Mode != Fixed && r.Mode != "" && !r.Probe.Enabled {
		c.warn(path+".probe.enabled", "false", valueError{CodeProbeOff, fmt.Sprintf("is set, so this %s rule never moves by itself", r.Mode), "", ""})
	}
	c.whenAllDown(s, r, path)
	c.schedule(s, r, path+".schedule")
	c.probe(s, r, path+".probe")
}

func (c *checker) scope(r *Rule, path string) {
	if r.Scope.Any {
		return
	}
	sc := r.Scope.raw()
	if err := sc.Validate(); err != nil {
		c.fail(path, "", valueError{CodeBadScope, err.Error(), `"*", or one of cidr, asn, continent, country, isp, country+isp, country+province(+isp), country(+province)+city(+isp)`, ""})
		return
	}
	for i, a := range r.Scope.ASN {
		if a.reserved() {
			c.warn(at("%s.asn[%d]", path, i), fmt.Sprint(uint32(a)), valueError{CodeNoMatch, "is reserved; no network on the Internet has it", "", ""})
		}
	}
	for i, p := range r.Scope.CIDR {
		if p.Addr().IsMulticast() || p.Addr().IsUnspecified() && p.Bits() == p.Addr().BitLen() {
			c.warn(at("%s.cidr[%d]", path, i), p.String(), valueError{CodeNoMatch, "holds no address a visitor can have", "", ""})
		}
	}
}

// ruleEdges checks the edges of a rule or of a window.
func (c *checker) ruleEdges(s *Service, edges []string, path string) {
	c.unique(path, edges, "edge")
	known := make([]string, len(s.Edges))
	for i := range s.Edges {
		known[i] = s.Edges[i].Name
	}
	enabled := false
	for i, name := range edges {
		e := s.Edge(name)
		at := at("%s[%d]", path, i)
		if e == nil && !c.namesKnown(s) {
			return // the edge may be the one whose name is wrong
		}
		if e == nil {
			c.fail(at, name, valueError{CodeUndefined, "is not defined in edges", strings.Join(known, ", "), names.Nearest(name, known)})
			enabled = true // it may be meant to be: one mistake, one error
			continue
		}
		enabled = enabled || e.Enabled
		switch {
		case len(e.Nodes) > 0:
			c.fail(at, name, valueError{CodeNotYet, "is made of our gateways (nodes), and this version has none to resolve it by", "an edge with target or addresses", ""})
		case e.Provider != "":
			c.fail(at, name, valueError{CodeNotYet, "is managed at a vendor (provider), which comes with a later version", "an edge with target or addresses", ""})
		}
	}
	if !enabled && len(edges) > 0 {
		c.fail(path, "", valueError{CodeNoEnabledEdge, "every edge here is disabled", "at least one edge with enabled: true", ""})
	}
}

// namesKnown is false when some edge's name could not be read.
func (c *checker) namesKnown(s *Service) bool {
	for i := range s.Edges {
		if !c.sound(at("edges[%d].name", i)) {
			return false
		}
	}
	return c.sound("edges") || len(s.Edges) > 0
}

func (c *checker) whenAllDown(s *Service, r *Rule, path string) {
	if r.WhenAllDown.Policy != "all" {
		return
	}
	for _, name := range r.Edges {
		if e := s.Edge(name); e != nil && e.Target != "" {
			c.fail(path+".whenAllDown", "all", valueError{
				CodeAllNeedsAddr, fmt.Sprintf("needs edges that are addresses, but %s is a name", name), "hold, first, empty, fallback:<name or address>", "",
			})
			return
		}
	}
}

func (c *checker) schedule(s *Service, r *Rule, path string) {
	for i := range r.Schedule {
		w := &r.Schedule[i]
		here := at("%s[%d]", path, i)
		c.ruleEdges(s, w.Edges, here+".edges")
		if w.From == w.To || w.From == 24*60 {
			c.fail(here+".to", w.To.String(), valueError{CodeBadWindow, "ends when it starts, or starts at the end of the day", "a later time; from 00:00 to 24:00 is a whole day", ""})
		}
		if _, err := time.LoadLocation(w.TZ); err != nil || w.TZ == "" || w.TZ == "Local" {
			c.fail(here+".tz", w.TZ, valueError{CodeBadWindow, "is no time zone", "an IANA name such as UTC, Asia/Shanghai or Europe/Berlin", ""})
		}
		if w.TZ != r.Schedule[0].TZ && c.sound(here+".tz") && !c.told(here+".tz") {
			c.fail(here+".tz", w.TZ, valueError{CodeBadWindow, "differs from the time zone of the first entry, " + r.Schedule[0].TZ, "one time zone for the schedule of a rule", ""})
		}
		days := make([]string, len(w.Days))
		for k, d := range w.Days {
			text, _ := d.MarshalText() // never fails
			days[k] = string(text)
		}
		c.unique(here+".days", days, "day")
		for j := range i {
			if r.Schedule[j].TZ == w.TZ && w.overlaps(&r.Schedule[j]) {
				c.fail(here, "", valueError{CodeWindowOverlap, fmt.Sprintf("this window and schedule[%d] hold at the same time", j), "windows that do not overlap", ""})
				break
			}
		}
	}
}

// minutesOfWeek is the length of the circle windows lie on.
const minutesOfWeek = 7 * 24 * 60

// spans gives start and length of each of the window's occurrences, in minutes of the week.
func (w *Window) spans() [][2]int {
	length := int(w.To - w.From)
	if length <= 0 {
		length += 24 * 60
	}
	var out [][2]int
	for _, d := range w.everyDay() {
		out = append(out, [2]int{int(d)*24*60 + int(w.From), length})
	}
	return out
}

func (w *Window) everyDay() []Day {
	if len(w.Days) > 0 {
		return w.Days
	}
	return []Day{0, 1, 2, 3, 4, 5, 6}
}

func (w *Window) overlaps(o *Window) bool {
	for _, a := range w.spans() {
		if slices.ContainsFunc(o.spans(), func(b [2]int) bool {
			ab := (b[0] - a[0] + minutesOfWeek) % minutesOfWeek
			ba := (a[0] - b[0] + minutesOfWeek) % minutesOfWeek
			return ab < a[1] || ba < b[1]
		}) {
			return true
		}
	}
	return false
}
