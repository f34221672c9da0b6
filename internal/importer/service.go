package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
	"steerpoint/steering/scope"
)

// maxList is how many edges, rules or values of a scope spec accepts.
const maxList = 1000

// maxPlaces bounds the values of all scopes of a service, so that its file stays below the 4 MiB that spec reads.
const maxPlaces = 50_000

// Service is a steered name on its way to a Service.
type Service struct {
	b    *Builder
	at   *tree.Node
	spec spec.Service

	edgeAt    map[string]*tree.Node
	edgeNames map[string]int // by destination, weight and state: index in spec.Edges
	cells     map[string]bool
	cities    []scope.Scope
	rules     []rule
}

// rule is a rule with the place it comes from.
type rule struct {
	spec.Rule
	at *tree.Node
}

// Rule is what AddRule takes.
type Rule struct {
	Scope   spec.Scope // one value of one place; rules that differ in that value alone become one
	Mode    spec.Mode
	Edges   []string // as AddEdge named them
	Probe   Probe
	AllDown string // "" for the default
	At      *tree.Node
}

// Service begins a service for a name, such as www.example.com or *.example.com. The error says what is wrong with the
// name.
func (b *Builder) Service(name string, at *tree.Node) (*Service, error) {
	var d spec.Domain
	if err := d.UnmarshalText([]byte(name)); err != nil {
		return nil, err
	}
	s := &Service{b: b, at: at, spec: b.plain.service, edgeAt: map[string]*tree.Node{}, edgeNames: map[string]int{}, cells: map[string]bool{}}
	s.spec.Domains, s.spec.Edges, s.spec.Rules = []spec.Domain{d}, nil, nil
	b.services = append(b.services, s)
	return s, nil
}

// Drop takes a service away again: what was to be in it could not be said.
func (b *Builder) Drop(s *Service) {
	b.services = slices.DeleteFunc(b.services, func(o *Service) bool { return o == s })
}

// Find gives the service of a name.
func (b *Builder) Find(name string) *Service {
	var d spec.Domain
	if d.UnmarshalText([]byte(name)) != nil {
		return nil
	}
	for _, s := range b.services {
		if slices.Contains(s.spec.Domains, d) {
			return s
		}
	}
	return nil
}

// AddDomain gives the service one more name. It returns false where the name cannot be one, or where an edge is a name
// and apex says that no CNAME may stand there.
func (s *Service) AddDomain(name string, apex bool) bool {
	var d spec.Domain
	if d.UnmarshalText([]byte(name)) != nil || s.b.Find(name) != nil || apex && s.HasTarget() {
		return false
	}
	s.spec.Domains = append(s.spec.Domains, d)
	return true
}

// HasTarget reports whether an edge is a name.
func (s *Service) HasTarget() bool {
	return slices.ContainsFunc(s.spec.Edges, func(e spec.Edge) bool { return e.Target != "" })
}

// couldName reports whether an answer of the service may be a name.
func (s *Service) couldName() bool {
	fallback := func(r spec.Rule) bool {
		_, err := netip.ParseAddr(r.WhenAllDown.Target)
		return r.WhenAllDown.Policy == "fallback" && err != nil
	}
	return s.HasTarget() || slices.ContainsFunc(s.spec.Rules, fallback)
}

// Host is the first domain, with a wildcard's star as www: what a probe can ask for.
func (s *Service) Host() string {
	if rest, wild := strings.CutPrefix(string(s.spec.Domains[0]), "*."); wild {
		return "www." + rest
	}
	return string(s.spec.Domains[0])
}

// Edge is what AddEdge takes: addresses or a target.
type Edge struct {
	Name      string // a wish; it is made a label and unique
	Addresses []spec.Address
	Target    spec.HostName
	Weight    int  // 0: the default
	Disabled  bool // never answered with
	At        *tree.Node
}

// AddEdge gives the service an edge and returns its name: the one of an equal edge if there is one. It returns "" where
// the edge cannot be: without a destination, a target that is the service itself, or one edge too many.
func (s *Service) AddEdge(e Edge) string {
	if len(e.Addresses) == 0 && e.Target == "" || s.owns(string(e.Target)) || len(s.spec.Edges) >= maxList {
		return ""
	}
	key := fmt.Sprint(e.Addresses, e.Target, e.Weight, e.Disabled)
	if i, ok := s.edgeNames[key]; ok {
		return s.spec.Edges[i].Name
	}
	out := s.b.plain.edge()
	out.Name = unique(Label(e.Name, "edge"), func(name string) bool { return s.spec.Edge(name) != nil })
	out.Addresses, out.Target, out.Enabled = e.Addresses, e.Target, !e.Disabled
	if e.Weight > 0 {
		out.Weight = e.Weight
	}
	s.edgeNames[key], s.edgeAt[out.Name] = len(s.spec.Edges), e.At
	s.spec.Edges = append(s.spec.Edges, out)
	return out.Name
}

// owns reports whether the service answers for a name, by a wildcard too: sending visitors there would be a circle.
func (s *Service) owns(name string) bool {
	return slices.ContainsFunc(s.spec.Domains, func(d spec.Domain) bool {
		parent, wild := strings.CutPrefix(string(d), "*")
		return name == string(d) || wild && strings.HasSuffix(name, parent)
	})
}

// SetTTL sets the TTL in seconds, and the shortest one; 0 for a default. A value outside of what spec takes is listed.
func (s *Service) SetTTL(ttl, shortest int, at *tree.Node) {
	if ttl > 0 || at != nil {
		s.spec.DNS.TTL = s.b.ttl(ttl, at)
	}
	if shortest > 0 {
		s.spec.DNS.MinTTL = min(s.b.ttl(shortest, at), s.spec.DNS.TTL)
	}
}

// TTL is the TTL in seconds.
func (s *Service) TTL() int { return int(s.spec.DNS.TTL / seconds(1)) }

func (b *Builder) ttl(n int, at *tree.Node) spec.Duration {
	ok := min(max(n, minTTL), maxTTL)
	if ok != n && at != nil {
		b.Changed(at, fmt.Sprintf("TTL %d", n), fmt.Sprintf("TTL %ds; it must be %d to %d", ok, minTTL, maxTTL), "")
	}
	return seconds(ok)
}

// AddRule gives the service a rule. It returns false where an earlier rule has the same visitors, or without
// an edge.
func (s *Service) AddRule(r Rule) bool {
	cell := r.Scope.String()
	if s.cells[cell] || len(r.Edges) == 0 {
		return false
	}
	if len(r.Scope.City) > 0 { // a city may be named with its province and without
		sc := r.Scope.Scope()
		if slices.ContainsFunc(s.cities, func(o scope.Scope) bool { return scope.Overlap(o, sc) }) {
			return false
		}
		s.cities = append(s.cities, sc)
	}
	s.cells[cell] = true
	out := s.b.plain.rule()
	out.Scope, out.Mode, out.Edges = r.Scope, r.Mode, once(r.Edges)
	out.Probe = r.Probe.spec(out.Probe)
	if r.AllDown != "" {
		var a spec.AllDown
		if a.UnmarshalText([]byte(r.AllDown)) == nil && !s.owns(a.Target) {
			out.WhenAllDown = a
		}
		if a.Policy == "all" && !s.AllAddresses(r.Edges) { // a name has one CNAME
			out.WhenAllDown = spec.AllDown{Policy: "first"}
		}
	}
	s.rules = append(s.rules, rule{out, r.At})
	return true
}

// HasCatchAll reports whether a rule is for everybody.
func (s *Service) HasCatchAll() bool { return s.cells["*"] }

// EdgesOf gives edges by name as they stand in the service.
func (s *Service) EdgesOf(names []string) []spec.Edge {
	var out []spec.Edge
	for _, n := range names {
		if e := s.spec.Edge(n); e != nil {
			out = append(out, *e)
		}
	}
	return out
}

// HasAddress reports whether an edge has the address.
func (s *Service) HasAddress(a spec.Address) bool {
	return slices.ContainsFunc(s.spec.Edges, func(e spec.Edge) bool { return slices.Contains(e.Addresses, a) })
}

// EnableAll enables every edge, with the default weight.
func (s *Service) EnableAll() {
	for i := range s.spec.Edges {
		s.spec.Edges[i].Enabled, s.spec.Edges[i].Weight = true, s.b.plain.service.Edges[0].Weight
	}
}

// AllAddresses reports whether every one of the edges is addresses.
func (s *Service) AllAddresses(names []string) bool {
	return !slices.ContainsFunc(s.EdgesOf(names), func(e spec.Edge) bool { return e.Target != "" })
}

// join makes one rule of those that differ in one value of the scope alone, names them, and takes away what is too much.
func (s *Service) join() {
	first := map[string]int{}
	var out []rule
	for n, r := range s.rules {
		if n >= maxPlaces && !r.Scope.Any {
			s.b.Lost(r.at, "rule for "+r.Scope.String(), fmt.Sprintf("left out: a service has at most %d places here", maxPlaces), "use larger ranges")
			continue
		}
		key := fmt.Sprint(shape(&r.Scope), r.Mode, r.Edges, r.Probe, r.WhenAllDown)
		i, ok := first[key]
		if !ok || r.Scope.Any || size(&out[i].Scope) >= maxList {
			first[key] = len(out)
			out = append(out, r)
			continue
		}
		extend(&out[i].Scope, &r.Scope)
	}
	for i := range out {
		if len(s.spec.Rules) >= maxList-1 && !out[i].Scope.Any {
			s.b.Lost(out[i].at, "rule for "+out[i].Scope.String(), "left out: a service has at most "+fmt.Sprint(maxList)+" rules", "join some of them")
			continue
		}
		out[i].Name = unique(Label(ruleName(&out[i].Scope), "rule"), func(name string) bool { return s.spec.Rule(name) != nil })
		s.spec.Rules = append(s.spec.Rules, out[i].Rule)
	}
	s.dropUnused()
	if s.probed() && slices.ContainsFunc(s.spec.Edges, dual) {
		s.b.Remark(s.at, "the two address families of "+string(s.spec.Domains[0])+", each judged by itself", "an edge is up while an address of either family is, and down when all are", "where one family fails alone, make a service for each")
	}
}

// probed reports whether anything moves by itself.
func (s *Service) probed() bool {
	return slices.ContainsFunc(s.spec.Rules, func(r spec.Rule) bool { return r.Probe.Enabled && r.Mode != spec.Fixed })
}

func dual(e spec.Edge) bool {
	v4 := slices.ContainsFunc(e.Addresses, func(a spec.Address) bool { return a.Is4() })
	return v4 && slices.ContainsFunc(e.Addresses, func(a spec.Address) bool { return a.Is6() })
}

// dropUnused takes away edges no rule uses: they were made for a rule that was then listed as lost.
func (s *Service) dropUnused() {
	used := map[string]bool{}
	for i := range s.spec.Rules {
		for _, e := range s.spec.Rules[i].Edges {
			used[e] = true
		}
	}
	s.spec.Edges = slices.DeleteFunc(s.spec.Edges, func(e spec.Edge) bool { return !used[e.Name] })
}

func (s *Service) resource() spec.Resource {
	return spec.Resource{Kind: spec.KindService, Name: s.spec.Name, Service: &s.spec}
}

// Label makes a DNS label of at most 40 characters of a text; other is taken when nothing is left.
func Label(text, other string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, text)
	for strings.Contains(text, "--") {
		text = strings.ReplaceAll(text, "--", "-")
	}
	text = strings.Trim(text[:min(len(text), 40)], "-")
	if text == "" {
		return other
	}
	return text
}

// unique appends a number to a label that is taken.
func unique(label string, taken func(string) bool) string {
	if !taken(label) {
		return label
	}
	for i := 2; ; i++ {
		tail := fmt.Sprintf("-%d", i)
		if name := strings.TrimRight(label[:min(len(label), 40-len(tail))], "-") + tail; !taken(name) {
			return name
		}
	}
}

// once drops repeats.
func once(list []string) []string {
	var out []string
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
