package route53

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// rules makes the rules of a service by its policy.
func (c *converter) rules(svc *importer.Service, members []*member) {
	probe := c.probe(svc, members)
	first := members[0]
	var edges []string
	for _, m := range members {
		edges = append(edges, m.edge)
	}
	all := importer.Rule{Scope: importer.Everybody(), Edges: edges, Probe: probe, At: first.lead.n}
	switch first.lead.policy {
	case failover:
		all.Mode, all.AllDown, all.Edges = spec.Failover, "first", c.failover(members)
		svc.AddRule(all)
	case latency, proximity:
		all.Mode = spec.Quality
		for _, m := range members {
			for _, s := range m.sets {
				c.b.Changed(s.location, fmt.Sprintf("%s routing of %s: %s", s.policy, s.name, s.location), "a quality rule: what our probe points measure decides, not the place of the destination", "put probe points where your visitors are")
			}
		}
		svc.AddRule(all)
	case geo:
		c.places(svc, members, probe)
	case byCIDR:
		c.networks(svc, members, probe)
	case multivalue:
		all.Mode = spec.Weighted
		for _, m := range members {
			m.useLocations()
		}
		c.b.Remark(first.lead.n, "multivalue answers of "+first.lead.name, "a weighted rule: one of the healthy at a time, not up to eight", "for several addresses in one answer put them into one edge")
		svc.AddRule(all)
	default:
		all.Mode, all.Edges = spec.Weighted, c.weighted(svc, members)
		svc.AddRule(all)
	}
}

func (m *member) useLocations() {
	for _, s := range m.sets {
		if s.location.Kind == tree.Scalar {
			s.location.Use()
		}
		s.location.UseKeys("ContinentCode", "CountryCode", "SubdivisionCode", "CollectionId", "LocationName")
	}
}

// failover orders the edges: primaries first.
func (c *converter) failover(members []*member) []string {
	sorted := slices.Clone(members)
	for _, m := range sorted {
		m.useLocations()
		if !m.lead.location.Is("PRIMARY") && !m.lead.location.Is("SECONDARY") {
			c.b.Changed(m.lead.location, "Failover "+m.lead.location.String(), "taken for SECONDARY", "")
		}
	}
	slices.SortStableFunc(sorted, func(a, b *member) int {
		rank := func(m *member) int {
			if m.lead.location.Is("PRIMARY") {
				return 0
			}
			return 1
		}
		return cmp.Compare(rank(a), rank(b))
	})
	var out []string
	for _, m := range sorted {
		out = append(out, m.edge)
	}
	return out
}

// weighted gives the edges of a weighted rule, and says what its weights cannot.
func (c *converter) weighted(svc *importer.Service, members []*member) []string {
	var out []string
	for _, m := range members {
		if slices.Contains(out, m.edge) {
			c.b.Remark(m.lead.n, "record set "+m.lead.id+" of "+m.lead.name+" with destination and weight of another", "one edge, whose weight counts once", "give that edge the sum of the weights")
		}
		out = append(out, m.edge)
	}
	list := svc.EdgesOf(out)
	switch {
	case !slices.ContainsFunc(list, func(e spec.Edge) bool { return e.Enabled }):
		svc.EnableAll()
		c.b.Remark(members[0].lead.n, "every weight of "+members[0].lead.name+" is 0", "equal weights, as Route 53 answers then", "")
	case slices.ContainsFunc(list, func(e spec.Edge) bool { return !e.Enabled }):
		c.b.Remark(members[0].lead.n, "weight 0 in "+members[0].lead.name, "the edge is disabled: it is not answered with when all others are down either", "")
	}
	return out
}

// places makes a rule a location. A choice that Route 53 probes falls back to those of the larger places around it.
func (c *converter) places(svc *importer.Service, members []*member, probe importer.Probe) {
	byPlace := map[string]*member{}
	for _, m := range members {
		byPlace[m.place()] = m
	}
	for _, m := range members {
		code := m.place()
		sc, err := scopeOf(code)
		if err != nil {
			for _, s := range m.sets {
				c.b.Lost(s.n, "geolocation "+s.location.String()+" of "+s.name, "left out: "+err.Error(), "write a rule with the countries you mean")
			}
			continue
		}
		r := importer.Rule{Scope: sc, Mode: spec.Fixed, Edges: []string{m.edge}, Probe: importer.Probe{Off: true}, At: m.lead.n}
		if m.probed {
			r.Mode, r.Probe = spec.Failover, probe
			for _, up := range above(code, sc) {
				if o := byPlace[up]; o != nil {
					r.Edges = append(r.Edges, o.edge)
				}
			}
		}
		m.useLocations()
		if !svc.AddRule(r) {
			c.b.Lost(m.lead.n, "geolocation "+m.lead.location.String()+" of "+m.lead.name, "left out: another record set has the same place", "")
		}
	}
	c.catchAll(svc, members[0])
}

// place is the location as CONTINENT/COUNTRY/SUBDIVISION, "*" for the default.
func (m *member) place() string {
	l := m.lead.location
	text := func(key string) string {
		if n := l.Get(key); n != nil {
			return strings.ToUpper(n.Text)
		}
		return ""
	}
	if text("CountryCode") == "*" {
		return "*"
	}
	return text("ContinentCode") + "/" + text("CountryCode") + "/" + text("SubdivisionCode")
}

func scopeOf(code string) (spec.Scope, error) {
	if code == "*" {
		return importer.Everybody(), nil
	}
	p := strings.SplitN(code, "/", 3)
	if p[1] == "" {
		return importer.Continent(p[0])
	}
	return importer.Place(p[1], p[2], "")
}

// above gives the larger places around one, the nearest first.
func above(code string, sc spec.Scope) []string {
	if code == "*" {
		return nil
	}
	p := strings.SplitN(code, "/", 3)
	var out []string
	if p[2] != "" {
		out = append(out, "/"+p[1]+"/")
	}
	if p[1] != "" {
		out = append(out, importer.ContinentOf(sc)+"//")
	}
	return append(out, "*")
}

// networks makes a rule a CIDR location.
func (c *converter) networks(svc *importer.Service, members []*member, probe importer.Probe) {
	for _, m := range members {
		name := ""
		if n := m.lead.location.Get("LocationName"); n != nil {
			name = n.Text
		}
		r := importer.Rule{Mode: spec.Fixed, Edges: []string{m.edge}, Probe: importer.Probe{Off: true}, At: m.lead.n}
		if name == "*" {
			r.Scope = importer.Everybody()
			m.useLocations()
			svc.AddRule(r)
			continue
		}
		blocks := c.blocks[name]
		if m.probed {
			r.Mode, r.Probe = spec.Failover, probe
			for _, o := range members {
				if n := o.lead.location.Get("LocationName"); n != nil && n.Text == "*" {
					r.Edges = append(r.Edges, o.edge)
				}
			}
		}
		if len(blocks) == 0 {
			c.b.Lost(m.lead.n, "CIDR location "+name+" of "+m.lead.name, "left out: its blocks are not in the file", "export them with `aws route53 list-cidr-blocks --collection-id ID` and import again with --cidr-blocks FILE")
			continue
		}
		m.useLocations()
		for _, n := range blocks {
			c.network(svc, r, n.Get("CidrBlock").String())
			n.UseKeys("CidrBlock", "LocationName")
		}
	}
	c.catchAll(svc, members[0])
}

func (c *converter) network(svc *importer.Service, r importer.Rule, block string) {
	sc, changed, err := importer.CIDR(block)
	if changed && err == nil {
		c.b.Remark(r.At, "CIDR block "+block+" with address bits beyond its length", "the block "+sc.String(), "")
	}
	if err != nil {
		c.b.Remark(r.At, "CIDR block "+block, "left out: "+err.Error(), "")
		return
	}
	r.Scope = sc
	if !svc.AddRule(r) {
		c.b.Remark(r.At, "CIDR block "+block, "left out: another location has it too", "")
	}
}

// catchAll adds the rule for everybody that every service needs.
func (c *converter) catchAll(svc *importer.Service, m *member) {
	if svc.HasCatchAll() {
		return
	}
	c.b.Remark(m.lead.n, m.lead.name+" has no record set for everybody else, who get no answer from Route 53", "they get the edge "+m.edge, "choose an edge for the rule default")
	svc.AddRule(importer.Rule{Scope: importer.Everybody(), Mode: spec.Fixed, Edges: []string{m.edge}, Probe: importer.Probe{Off: true}, At: m.lead.n})
}
