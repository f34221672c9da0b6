package spec

import (
	"cmp"
	"reflect"
	"slices"
	"time"
)

// Defaults that depend on other fields. The fields stay zero in a Resource; these fill them in.
const (
	defaultMinTTL  = Duration(5 * time.Second)
	defaultTimeout = Duration(5 * time.Second)
	// defaultPoints is the least number of points of which one may fail alone without deciding anything.
	defaultPoints = 3
)

// Edge finds an edge of the service by name, or nil.
func (s *Service) Edge(name string) *Edge {
	for i := range s.Edges {
		if s.Edges[i].Name == name {
			return &s.Edges[i]
		}
	}
	return nil
}

// Rule finds a rule of the service by name, or nil.
func (s *Service) Rule(name string) *Rule {
	for i := range s.Rules {
		if s.Rules[i].Name == name {
			return &s.Rules[i]
		}
	}
	return nil
}

// RuleTTL is the TTL of a rule's answers: its own, or dns.ttl.
func (s *Service) RuleTTL(r *Rule) Duration {
	if r.TTL != 0 {
		return r.TTL
	}
	return s.DNS.TTL
}

// RuleMinTTL is the shortest TTL a rule's answers get while a change is near: dns.minTTL, by default 5s, and never
// more than the rule's TTL.
func (s *Service) RuleMinTTL(r *Rule) Duration {
	if s.DNS.MinTTL != 0 {
		return min(s.DNS.MinTTL, s.RuleTTL(r))
	}
	return min(defaultMinTTL, s.RuleTTL(r))
}

// ProbeURL is what a rule's probes ask for; "" only where no URL can be made, which is an error while the probe is on.
func (s *Service) ProbeURL(r *Rule) ProbeURL {
	if r.Probe.URL != "" || len(s.Domains) == 0 || s.Domains[0].Wildcard() {
		return r.Probe.URL
	}
	host := string(s.Domains[0])
	switch r.Probe.Kind {
	case "http":
		return ProbeURL("http://" + host + "/")
	case "tcp":
		return ProbeURL("tcp://" + host + ":443")
	case "udp16", "icmp":
		return ProbeURL(r.Probe.Kind + "://" + host)
	case "grpcs":
		return ProbeURL("grpcs://" + host + "/")
	case "dns", "grpc": // nothing tells the name to ask for, or the port
		return ""
	}
	return ProbeURL("https://" + host + "/")
}

// ProbeKind is the kind of a rule's tasks: the scheme of the URL, or tcp where that is the kind. Kind http covers https
// too, and grpc covers grpcs: the URL decides.
func (s *Service) ProbeKind(r *Rule) string {
	if r.Probe.Kind == "tcp" {
		return "tcp"
	}
	if u := s.ProbeURL(r); u != "" {
		return u.Scheme()
	}
	return cmp.Or(r.Probe.Kind, "https")
}

// ProbeTimeout is the time one probe of the rule may take: 5s by default, and never more than the interval.
func (r *Rule) ProbeTimeout() Duration { return r.Probe.timeout() }

func (p *Probe) timeout() Duration {
	if p.Timeout != 0 {
		return p.Timeout
	}
	return min(defaultTimeout, p.Interval)
}

// DwellTime is how long another edge must stay better before a quality rule moves: 3 x interval by default.
func (r *Rule) DwellTime() Duration {
	if r.Dwell != 0 {
		return r.Dwell
	}
	return 3 * r.Probe.Interval
}

// near is true when points are chosen near the scope, which is the default.
func (p *Points) near() bool { return len(p.Labels) == 0 && len(p.Names) == 0 }

func (p *Points) count() int {
	if p.Count == 0 {
		return defaultPoints
	}
	return p.Count
}

// fillProbe gives an empty probe its fixed defaults.
func fillProbe(p *Probe) { setDefaults(reflect.ValueOf(p).Elem()) }

func sameProbe(a, b *Probe) bool { return reflect.DeepEqual(a, b) }

// Effective gives a copy with every default filled in that the resource alone decides, also those that depend on
// other fields. dns.zone stays as it is: only a Set knows it.
func (r *Resource) Effective() Resource {
	out := *r
	switch {
	case r.Service != nil:
		out.Service = r.Service.effective()
	case r.Zone != nil:
		z := *r.Zone
		if z.SOA.MName == "" && len(z.NS) > 0 {
			z.SOA.MName = z.NS[0].Name
		}
		if z.SOA.RName == "" {
			z.SOA.RName = "hostmaster." + z.Zone
		}
		out.Zone = &z
	}
	return out
}

func (s *Service) effective() *Service {
	out := *s
	out.Rules = slices.Clone(s.Rules)
	for i := range out.Rules {
		r := &out.Rules[i]
		old := &s.Rules[i]
		r.TTL, r.Dwell = s.RuleTTL(old), r.DwellTime()
		r.Probe.URL, r.Probe.Kind, r.Probe.Timeout = s.ProbeURL(old), s.ProbeKind(old), r.ProbeTimeout()
		if r.Probe.Points.near() {
			r.Probe.Points.Near, r.Probe.Points.Count = "scope", r.Probe.Points.count()
		}
		r.Schedule = slices.Clone(r.Schedule)
		for j := range r.Schedule {
			r.Schedule[j].Days = r.Schedule[j].everyDay()
		}
	}
	if out.DNS.MinTTL == 0 && len(s.Rules) > 0 {
		out.DNS.MinTTL = s.RuleMinTTL(&s.Rules[0])
	}
	out.effectiveGateway()
	out.Routes = slices.Clone(s.Routes)
	for i := range out.Routes {
		if len(out.Routes[i].Domains) == 0 {
			out.Routes[i].Domains = s.Domains
		}
	}
	return &out
}
