package spec

import (
	"fmt"
	"strings"
)

func (c *checker) probe(s *Service, r *Rule, path string) {
	p := &r.Probe
	if p.Timeout > p.Interval {
		c.fail(path+".timeout", p.Timeout.String(), valueError{CodeTimeout, "is above the interval " + p.Interval.String(), "at most the interval", ""})
	}
	c.probeURL(s, r, path)
	c.points(p, path)
	c.expect(s.ProbeKind(r), p, path)
	c.probeFamilies(s, r, path)
	if timeout := p.timeout(); p.Expect.MaxLatency > timeout {
		c.fail(path+".expect.maxLatency", p.Expect.MaxLatency.String(), valueError{CodeContradiction, "is above the timeout " + timeout.String() + ", so it would never matter", "at most the timeout", ""})
	}
}

// usualStatus is the default of expect.status.
const usualStatus = "200-399"

// expect finds what makes no sense for a kind. A tcp probe with expectations of HTTP is let pass but for a body, as the
// first version did.
func (c *checker) expect(kind string, p *Probe, path string) {
	web, secure := kind == "http" || kind == "https", kind == "https" || kind == "grpcs"
	no := func(field, value, allowed string) {
		c.fail(path+field, value, valueError{CodeContradiction, "cannot be expected of kind " + kind, allowed, ""})
	}
	switch {
	case p.Expect.Body != "" && !web && kind != "dns":
		no(".expect.body", p.Expect.Body, "kind http, https or dns")
	case p.Expect.Body != "" && web && p.Method != "GET":
		c.fail(path+".expect.body", p.Expect.Body, valueError{CodeContradiction, "cannot be expected: the answer to " + p.Method + " has no body", "method: GET", ""})
	}
	if p.Expect.CertDays > 0 && !secure {
		no(".expect.certDays", fmt.Sprint(p.Expect.CertDays), "kind https or grpcs")
	}
	if web || kind == "tcp" {
		return
	}
	if p.Method == "GET" {
		c.fail(path+".method", p.Method, valueError{CodeContradiction, "is a method of HTTP, and the probe is of kind " + kind, "leave it out", ""})
	}
	if status := p.Expect.Status.String(); status != usualStatus {
		no(".expect.status", status, "kind http or https")
	}
	if !p.Expect.TLSVerify && !secure {
		no(".expect.tlsVerify", "false", "kind https or grpcs")
	}
}

// probeFamilies: every edge of the rule must have something to probe.
func (c *checker) probeFamilies(s *Service, r *Rule, path string) {
	families := r.Probe.Families
	c.unique(path+".families", families, "family")
	if len(families) == 0 {
		return
	}
	for _, name := range r.everyEdge() {
		e := s.Edge(name)
		if e == nil || len(e.Addresses) == 0 || len(e.probed(families)) > 0 {
			continue
		}
		c.fail(path+".families", strings.Join(families, ", "), valueError{CodeContradiction, "leaves nothing of edge " + name + " to probe, which has " + familyWords(e), "a family that every edge of the rule has", ""})
	}
}

func (c *checker) probeURL(s *Service, r *Rule, path string) {
	p := &r.Probe
	switch {
	case p.URL == "" && p.Enabled && (p.Kind == "dns" || p.Kind == "grpc"):
		c.fail(path, "", valueError{CodeNeedsURL, "nothing tells what a " + p.Kind + " probe asks for", "probe.url: " + schemeOf(p.Kind).form, ""})
	case p.URL == "" && p.Enabled && len(s.Domains) > 0 && s.Domains[0].Wildcard():
		c.fail(path, "", valueError{
			CodeNeedsURL, fmt.Sprintf("the first domain %s is a wildcard and gives no host to probe", s.Domains[0]), "probe.url: https://<a name under it>/", "",
		})
	case p.URL != "" && !fits(p.Kind, p.URL.Scheme()):
		c.fail(path+".kind", p.Kind, valueError{CodeContradiction, "does not fit the url " + string(p.URL), p.URL.Scheme() + ", or leave it out", ""})
	}
}

// fits: http and grpc cover both of their schemes, and a tcp probe takes host and port of any URL that has them.
func fits(kind, scheme string) bool {
	switch kind {
	case "", scheme:
		return true
	case "http":
		return scheme == "https"
	case "grpc":
		return scheme == "grpcs"
	case "tcp":
		return scheme != "udp16" && scheme != "icmp" && scheme != "dns"
	}
	return false
}

func (c *checker) points(p *Probe, path string) {
	here := path + ".points"
	var set []string
	for _, k := range []struct {
		name string
		set  bool
	}{{"near", p.Points.Near != ""}, {"labels", len(p.Points.Labels) > 0}, {"names", len(p.Points.Names) > 0}} {
		if k.set {
			set = append(set, k.name)
		}
	}
	if len(set) > 1 {
		c.fail(here, "", valueError{CodeOneOf, "has " + strings.Join(set, " and "), "one of near, labels, names", ""})
		return
	}
	if p.Points.Count != 0 && len(set) == 1 && set[0] != "near" {
		c.fail(here+".count", fmt.Sprint(p.Points.Count), valueError{CodeContradiction, "goes with near, not with " + set[0], "leave it out: every such point takes part", ""})
		return
	}
	c.unique(here+".names", p.Points.Names, "point")
	have := p.Points.count()
	if len(p.Points.Names) > 0 {
		have = len(p.Points.Names)
	}
	if len(p.Points.Labels) == 0 && p.MinPoints > have {
		c.fail(path+".minPoints", fmt.Sprint(p.MinPoints), valueError{CodeMinPoints, fmt.Sprintf("is more than the rule's %d points, so no verdict would ever change", have), fmt.Sprintf("0 to %d", have), ""})
	}
}
