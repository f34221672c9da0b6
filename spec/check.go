package spec

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// checker finds what is wrong with one resource by itself. Fields whose decoding failed are in failed; what rests on
// one of them is not judged, so that one mistake gives one error.
type checker struct {
	r      *Resource
	src    *source
	failed map[string]bool
	errs   Errors
	warns  []Warning
}

// finding places e at a path; value is the text shown, "" for none.
func (c *checker) finding(path, value string, e valueError) Finding {
	f := Finding{
		Code: e.code, Kind: c.r.Kind, Name: c.r.Name, Path: path,
		Problem: e.problem, Allowed: e.allowed, Suggest: e.suggest,
	}
	if value != "" {
		f.Value = shown(value)
	}
	if c.src != nil {
		p := c.src.at(path)
		f.File, f.Line, f.Column = c.src.file, p.Line, p.Column
	}
	return f
}

func (c *checker) fail(path, value string, e valueError) {
	if len(c.errs) < maxErrors && c.sound(path) {
		c.errs = append(c.errs, Error{c.finding(path, value, e)})
	}
}

func (c *checker) warn(path, value string, e valueError) {
	if len(c.warns) < maxErrors && c.sound(path) {
		c.warns = append(c.warns, Warning{c.finding(path, value, e)})
	}
}

// told reports whether an error at the path was found here already.
func (c *checker) told(path string) bool {
	return slices.ContainsFunc(c.errs, func(e Error) bool { return e.Path == path })
}

// sound reports whether no decoding error lies at one of the paths, above it or below it.
func (c *checker) sound(paths ...string) bool {
	for bad := range c.failed {
		for _, p := range paths {
			if bad == "" || inside(bad, p) || p != "" && inside(p, bad) {
				return false
			}
		}
	}
	return true
}

// inside reports whether path a is b or lies below it.
func inside(a, b string) bool {
	if !strings.HasPrefix(a, b) {
		return false
	}
	return len(a) == len(b) || b == "" || a[len(b)] == '.' || a[len(b)] == '['
}

func at(format string, i ...any) string { return fmt.Sprintf(format, i...) }

func (c *checker) resource() {
	switch {
	case c.r.Service != nil:
		c.service(c.r.Service)
	case c.r.Zone != nil:
		c.zone(c.r.Zone)
		c.transfer(c.r.Zone)
	case c.r.Override != nil:
		c.override(c.r.Override)
	case c.r.Notifier != nil:
		c.notifier(c.r.Notifier)
	case c.r.Secret != nil:
		c.secret(c.r.Secret)
	case c.r.RuleSet != nil:
		c.ruleSet(c.r.RuleSet)
	case c.r.Certificate != nil:
		c.certificate(c.r.Certificate)
	}
}

func (c *checker) service(s *Service) {
	c.unique("domains", texts(s.Domains), "domain")
	c.certificates(s)
	c.dns(s)
	c.edges(s)
	c.rules(s)
	c.gateway(s)
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// unique refuses a value that a list holds twice.
func (c *checker) unique(path string, values []string, noun string) {
	first := map[string]int{}
	for i, v := range values {
		if j, twice := first[v]; twice {
			c.fail(at("%s[%d]", path, i), v, valueError{CodeRepeated, fmt.Sprintf("stands here twice (first in %s[%d])", path, j), "each " + noun + " once", ""})
			continue
		}
		first[v] = i
	}
}

// uniqueNames refuses two entries of one name; the error is at the name of the later one.
func (c *checker) uniqueNames(path string, values []string, noun string) {
	first := map[string]int{}
	for i, v := range values {
		if j, twice := first[v]; twice && v != "" {
			c.fail(at("%s[%d].name", path, i), v, valueError{CodeRepeated, fmt.Sprintf("is the name of %s[%d] too", path, j), "a name of its own for each " + noun, ""})
			continue
		}
		first[v] = i
	}
}

// certificates checks which certificates the domains have, and puts the domains in their one form: that of domains.
func (c *checker) certificates(s *Service) {
	var byDomain map[string]string
	for _, domain := range slices.Sorted(maps.Keys(s.Certificates)) {
		cert := s.Certificates[domain]
		path := "certificates." + domain
		var d Domain
		if err := d.UnmarshalText([]byte(domain)); err != nil || !slices.Contains(s.Domains, d) {
			c.fail(path, domain, valueError{CodeUndefined, "is no domain of the service", strings.Join(texts(s.Domains), ", "), ""})
			d = Domain(domain)
		}
		if _, twice := byDomain[string(d)]; twice {
			c.fail(path, domain, valueError{CodeDuplicate, "is written twice: it is " + string(d), "each domain once", ""})
		}
		if byDomain == nil {
			byDomain = map[string]string{}
		}
		byDomain[string(d)] = cert
		if e := checkFormat("label", cert); e != nil {
			c.fail(path, cert, valueError{CodeBadName, "is no certificate", "auto, or the name of a Certificate", ""})
		}
	}
	s.Certificates = byDomain
}

func (c *checker) dns(s *Service) {
	if s.DNS.Provider != "builtin" {
		c.fail("dns.provider", s.DNS.Provider, valueError{CodeNotYet, "needs a DNSProvider, which comes with a later version", "builtin", ""})
	}
	if s.DNS.MinTTL > s.DNS.TTL && c.sound("dns.ttl") {
		c.fail("dns.minTTL", s.DNS.MinTTL.String(), valueError{CodeMinTTL, "is longer than the ttl " + s.DNS.TTL.String(), "at most the ttl", ""})
	}
}

// longTTL is where following a switch starts to take longer than an outage people notice: five minutes.
const longTTL = 300e9

func (c *checker) edges(s *Service) {
	used := map[string]bool{}
	for _, r := range s.Rules {
		for _, e := range r.Edges {
			used[e] = true
		}
		for _, w := range r.Schedule {
			for _, e := range w.Edges {
				used[e] = true
			}
		}
	}
	var labels []string
	dest := map[string]int{}
	for i := range s.Edges {
		e := &s.Edges[i]
		labels = append(labels, e.Name)
		path := at("edges[%d]", i)
		c.edge(e, path)
		if !used[e.Name] && c.sound("rules") {
			c.warn(path, e.Name, valueError{CodeUnusedEdge, "is used by no rule", "", ""})
		}
		key := destination(e)
		if j, twice := dest[key]; twice && key != "" {
			c.warn(path, e.Name, valueError{CodeSameEdge, "is the same destination as " + s.Edges[j].Name, "", ""})
			continue
		}
		dest[key] = i
	}
	c.uniqueNames("edges", labels, "edge")
	c.families(s, used)
}

// destination identifies where an edge sends visitors, in a form that equal destinations share; "" if unknown.
func destination(e *Edge) string {
	if e.Target != "" {
		return string(e.Target)
	}
	list := make([]string, len(e.Addresses))
	for i, a := range e.Addresses {
		list[i] = a.String()
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// maxAnswered is how many addresses of one family an answer holds.
const maxAnswered = 10

func (c *checker) edge(e *Edge, path string) {
	var set []string
	for _, k := range []struct {
		name string
		set  bool
	}{{"nodes", len(e.Nodes) > 0}, {"provider", e.Provider != ""}, {"target", e.Target != ""}, {"addresses", len(e.Addresses) > 0}} {
		if k.set || c.failed[path+"."+k.name] {
			set = append(set, k.name)
		}
	}
	if len(set) != 1 {
		problem := "has none of them"
		if len(set) > 1 {
			problem = "has " + strings.Join(set, " and ")
		}
		c.fail(path, e.Name, valueError{CodeOneOf, problem, "exactly one of nodes, provider, target, addresses", ""})
	}
	c.unique(path+".addresses", addressTexts(e.Addresses), "address")
	v4, v6 := 0, 0
	for i, a := range e.Addresses {
		if a.Is4() {
			v4++
		} else {
			v6++
		}
		if word := notPublic(a.Addr); word != "" {
			c.warn(at("%s.addresses[%d]", path, i), a.String(), valueError{CodePrivate, "is a " + word + " address; visitors on the Internet cannot reach it", "", ""})
		}
	}
	if v4 > maxAnswered || v6 > maxAnswered {
		c.warn(path+".addresses", "", valueError{CodeManyAddresses, fmt.Sprintf("%d addresses of one family; an answer holds %d of them", max(v4, v6), maxAnswered), "", ""})
	}
}

func addressTexts(list []Address) []string {
	out := make([]string, len(list))
	for i, a := range list {
		if a.IsValid() {
			out[i] = a.String()
		} else {
			out[i] = fmt.Sprint("invalid ", i)
		}
	}
	return out
}

func notPublic(a netip.Addr) string {
	switch {
	case a.IsLoopback():
		return "loopback"
	case a.IsPrivate():
		return "private"
	case a.IsLinkLocalUnicast():
		return "link-local"
	}
	return ""
}

// families warns of edges that differ in address families: while one without IPv6 answers, a resolver keeps "no AAAA"
// for all of its clients.
func (c *checker) families(s *Service, used map[string]bool) {
	first, firstShape := -1, ""
	targets, addresses := 0, 0
	for i := range s.Edges {
		e := &s.Edges[i]
		if !used[e.Name] || len(e.Addresses) == 0 {
			if used[e.Name] && e.Target != "" {
				targets++
			}
			continue
		}
		addresses++
		shape := familyWords(e)
		switch {
		case first < 0:
			first, firstShape = i, shape
		case shape != firstShape:
			c.warn(at("edges[%d].addresses", i), "", valueError{CodeFamilies, fmt.Sprintf("%s has %s, but %s has %s; a negative answer is kept for all clients of a resolver", e.Name, shape, s.Edges[first].Name, firstShape), "", ""})
		}
	}
	if targets > 0 && addresses > 0 {
		c.warn("edges", "", valueError{CodeMixedShapes, "some edges are names and some are addresses; the service's answer is a CNAME or addresses, by edge", "", ""})
	}
}

func familyWords(e *Edge) string {
	v4 := slices.ContainsFunc(e.Addresses, func(a Address) bool { return a.Is4() })
	v6 := slices.ContainsFunc(e.Addresses, func(a Address) bool { return a.Is6() })
	switch {
	case v4 && v6:
		return "IPv4 and IPv6"
	case v6:
		return "IPv6 only"
	}
	return "IPv4 only"
}
