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
	if !probeKindHere(p.Kind) {
		c.fail(path+".kind", p.Kind, valueError{CodeNotYet, "comes with a later version", "http, https, tcp", ""})
		return
	}
	c.probeURL(s, r, path)
	c.points(p, path)
	http := s.ProbeKind(r) != "tcp"
	switch {
	case p.Expect.Body != "" && !http:
		c.fail(path+".expect.body", p.Expect.Body, valueError{CodeContradiction, "cannot be expected of a tcp probe", "kind http or https", ""})
	case p.Expect.Body != "" && p.Method != "GET":
		c.fail(path+".expect.body", p.Expect.Body, valueError{CodeContradiction, "cannot be expected: the answer to " + p.Method + " has no body", "method: GET", ""})
	}
	if timeout := p.timeout(); p.Expect.MaxLatency > timeout {
		c.fail(path+".expect.maxLatency", p.Expect.MaxLatency.String(), valueError{CodeContradiction, "is above the timeout " + timeout.String() + ", so it would never matter", "at most the timeout", ""})
	}
}

func probeKindHere(kind string) bool {
	return kind == "" || kind == "http" || kind == "https" || kind == "tcp"
}

func (c *checker) probeURL(s *Service, r *Rule, path string) {
	p := &r.Probe
	switch {
	case p.URL == "" && p.Enabled && len(s.Domains) > 0 && s.Domains[0].Wildcard():
		c.fail(path, "", valueError{
			CodeNeedsURL, fmt.Sprintf("the first domain %s is a wildcard and gives no host to probe", s.Domains[0]), "probe.url: https://<a name under it>/", "",
		})
	case p.URL != "" && !fits(p.Kind, p.URL.Scheme()):
		c.fail(path+".kind", p.Kind, valueError{CodeContradiction, "does not fit the url " + string(p.URL), p.URL.Scheme() + ", or leave it out", ""})
	}
}

// fits: http covers both schemes of HTTP, and a tcp probe takes host and port of any URL.
func fits(kind, scheme string) bool {
	return kind == "" || kind == "tcp" || kind == scheme || kind == "http" && scheme == "https"
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
