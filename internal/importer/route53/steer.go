package route53

import (
	"fmt"
	"slices"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// member is one choice of a routing policy: the sets of both address families that go together.
type member struct {
	lead   *set
	sets   []*set
	edge   string
	probed bool // Route 53 asks for its health
}

// steered makes a service of the sets of a name, if it is steered.
func (c *converter) steered(name string) {
	if !c.mixed(name) {
		return
	}
	var choices, plain []*set
	for _, s := range c.byName[name] {
		switch {
		case !isAddress(s.kind):
		case s.policy == simple && s.alias != nil:
			c.pending = append(c.pending, s)
		case s.policy == simple:
			plain = append(plain, s)
		default:
			choices = append(choices, s)
		}
	}
	if len(choices) == 0 {
		for _, s := range plain {
			c.simpleBesideAlias(s)
		}
		return
	}
	svc, err := c.service(name, choices[0])
	if err != nil {
		for _, s := range slices.Concat(choices, plain) {
			c.b.Lost(s.n, fmt.Sprintf("%s record set %s of %s", s.kind, s.id, name), "left out: "+err.Error(), "")
		}
		return
	}
	members := c.members(svc, choices, plain)
	if len(members) == 0 {
		c.b.Drop(svc)
		c.b.Remark(choices[0].n, "the steered name "+name, "left out: it has no destination", "")
		return
	}
	c.rules(svc, members)
}

// simpleBesideAlias keeps the static addresses of a name whose other family is an alias.
func (c *converter) simpleBesideAlias(s *set) {
	if s.kind == "CNAME" || s.n.Get("HealthCheckId") != nil {
		c.b.Lost(s.n, s.kind+" record set of "+s.name, "left out: the name is an alias too", "")
		return
	}
	c.records(s)
}

func (c *converter) service(name string, first *set) (*importer.Service, error) {
	if !c.zone.Holds(name) {
		return nil, fmt.Errorf("it lies outside the zone %s", c.zone.Name())
	}
	svc, err := c.b.Service(name, first.n)
	if err != nil {
		return nil, fmt.Errorf("the name %w", err)
	}
	return svc, nil
}

// members pairs the sets of both families by their identifiers and makes an edge of each pair.
func (c *converter) members(svc *importer.Service, choices, plain []*set) []*member {
	lead := choices[0]
	var out []*member
	for _, s := range choices {
		if s.policy != lead.policy {
			c.b.Lost(s.n, fmt.Sprintf("%s record set %s of %s with %s routing", s.kind, s.id, s.name, s.policy), "left out: the name has "+lead.policy+" routing", "")
			continue
		}
		if m := pair(out, s); m != nil {
			m.sets = append(m.sets, s)
			continue
		}
		out = append(out, &member{lead: s, sets: []*set{s}})
	}
	c.ttl(svc, choices, plain)
	var everywhere []spec.Address
	for _, s := range plain {
		if slices.ContainsFunc(choices, asksHealth) || lead.policy == failover || lead.policy == latency || lead.policy == proximity {
			c.b.Lost(s.n, s.kind+" record set of "+s.name+" without routing, beside others with it", "left out: an edge is up while one of its addresses is, so an address that all edges share would hide a failure", "give each edge an address of its own in this family")
			continue
		}
		c.b.Remark(s.n, s.kind+" record set of "+s.name+" without routing, beside others with it", "its addresses are in every edge", "")
		everywhere = append(everywhere, c.addresses(s)...)
	}
	out = slices.DeleteFunc(out, func(m *member) bool { return !c.edge(svc, m, everywhere) })
	return out
}

// asksHealth reports whether Route 53 answers with a set only while something is healthy.
func asksHealth(s *set) bool {
	return s.n.Get("HealthCheckId") != nil || s.alias.Get("EvaluateTargetHealth").Is("true")
}

// pair finds the choice of the other address family that a set belongs to.
func pair(members []*member, s *set) *member {
	for _, m := range members {
		same := m.lead.id == s.id && s.id != "" || tree.Equal(m.lead.location, s.location) && s.policy != weighted && s.policy != multivalue
		if same && !slices.ContainsFunc(m.sets, func(o *set) bool { return o.kind == s.kind }) {
			return m
		}
	}
	return nil
}

// ttl gives the service the shortest TTL of its sets.
func (c *converter) ttl(svc *importer.Service, lists ...[]*set) {
	shortest, at := 0, (*tree.Node)(nil)
	for _, s := range slices.Concat(lists...) {
		if v := s.seconds(); at == nil || v < shortest {
			shortest, at = v, s.n
			if s.ttl != nil {
				at = s.ttl
			}
		}
	}
	svc.SetTTL(shortest, 0, at)
	for _, s := range slices.Concat(lists...) {
		if v := s.seconds(); s.ttl != nil && v != svc.TTL() && v != shortest {
			c.b.Changed(s.ttl, fmt.Sprintf("TTL %d of record set %s of %s", v, s.id, s.name), fmt.Sprintf("TTL %ds for the name", svc.TTL()), "")
		}
	}
}

// edge makes the edge of a choice.
func (c *converter) edge(svc *importer.Service, m *member, everywhere []spec.Address) bool {
	e := importer.Edge{Name: m.lead.id, At: m.lead.n}
	for _, s := range m.sets {
		list, target := c.destination(s)
		if target != "" && e.Target != "" && target != e.Target {
			c.b.Lost(s.n, s.kind+" record set "+s.id+" of "+s.name+" to "+string(target), "left out: the other address family goes to "+string(e.Target), "")
			continue
		}
		e.Addresses = append(e.Addresses, list...)
		if target != "" {
			e.Target = target
		}
		m.probed = m.probed || asksHealth(s)
	}
	if e.Target != "" {
		if len(e.Addresses)+len(everywhere) > 0 {
			c.b.Remark(m.lead.n, "record set "+m.lead.id+" of "+m.lead.name+" is a name in one address family and addresses in the other", "only the name "+string(e.Target)+" is used", "see that it has both families")
		}
		e.Addresses = nil
	} else {
		for _, a := range everywhere {
			if !slices.Contains(e.Addresses, a) {
				e.Addresses = append(e.Addresses, a)
			}
		}
		e.Addresses = importer.Distinct(e.Addresses)
	}
	if m.lead.policy == weighted {
		c.weight(m, &e)
	}
	if m.edge = svc.AddEdge(e); m.edge == "" {
		c.b.Lost(m.lead.n, "record set "+m.lead.id+" of "+m.lead.name, "left out: it leads nowhere, or back to the name itself", "")
		return false
	}
	for _, s := range m.sets {
		s.n.Get("SetIdentifier").Use()
	}
	return true
}

// weight reads the weights of a choice. Route 53 never answers with weight 0 while another is above it.
func (c *converter) weight(m *member, e *importer.Edge) {
	for i, s := range m.sets {
		v, ok := s.location.Int()
		switch {
		case !ok || v < 0 || v > 255:
			c.b.Lost(s.location, "Weight "+s.location.String(), "the default weight", "")
			continue
		case i > 0 && v != e.Weight && !(v == 0 && e.Disabled):
			c.b.Changed(s.location, fmt.Sprintf("Weight %d of the other address family", v), fmt.Sprintf("weight %d for both", e.Weight), "")
			continue
		}
		e.Weight, e.Disabled = v, v == 0
	}
}
