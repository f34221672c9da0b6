package answer

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"

	"steerpoint/snapshot"
)

// addServices makes the services, or takes them over from old.
func (b *builder) addServices(tables []Table, old *Index) {
	d := b.ix.d
	b.ix.services = make([]*service, len(d.Services))
	var byName map[string]int // of old; made when the services do not stand where they stood
	for i := range d.Services {
		s := &d.Services[i]
		if s.Revision == 0 {
			b.ix.services[i] = b.service(s, tables)
			continue
		}
		j, ok := i, i < len(old.d.Services) && old.d.Services[i].Name == s.Name
		if !ok {
			if byName == nil {
				byName = make(map[string]int, len(old.d.Services))
				for k := range old.d.Services {
					byName[old.d.Services[k].Name] = k
				}
			}
			j, ok = byName[s.Name]
		}
		if ok && old.d.Services[j].Equal(s) && old.services[j].table == tableOf(s, tables) {
			b.ix.services[i] = old.services[j]
		} else {
			b.ix.services[i] = b.service(s, tables)
		}
	}
}

// tableOf is the table a service with several rules looks up; nil: it has none, or needs none.
func tableOf(s *snapshot.DNSService, tables []Table) Table {
	if len(s.Rules) < 2 || s.Table < 0 || s.Table >= len(tables) {
		return nil
	}
	return tables[s.Table]
}

// service makes a service; nil after a fault that leaves none.
func (b *builder) service(s *snapshot.DNSService, tables []Table) *service {
	what := "service " + s.Name
	made := &service{name: s.Name, negTTL: b.seconds(what+": negativeTTL", s.NegativeTTL)}
	switch {
	case len(s.Rules) == 0:
		b.fail("%s has no rules", what)
		return nil
	case len(s.Rules) >= int(unmapped):
		b.fail("%s has %d rules: at most %d", what, len(s.Rules), unmapped-1)
		return nil
	case len(s.Rules) > 1:
		if made.table = tableOf(s, tables); made.table == nil {
			b.fail("%s names table %d of %d", what, s.Table, len(tables))
			return nil
		}
	}
	made.rules = make([]rule, len(s.Rules))
	for i := range s.Rules {
		made.rules[i] = b.rule(s, &s.Rules[i])
		for j := range made.rules[i].choices {
			made.named = made.named || made.rules[i].choices[j].cname != nil
		}
	}
	for k := range kinds {
		made.tailored[k] = made.dependsOnClient(k)
	}
	return made
}

// nameService gives a service its names.
func (b *builder) nameService(i int) {
	s := &b.ix.d.Services[i]
	for _, name := range append([]string{s.CNAME}, s.Hosted...) {
		n, _ := b.owned("service "+s.Name, name)
		switch {
		case n == nil:
		case n.service != 0:
			b.fail("%s is a name of service %s and of service %s", name, b.ix.d.Services[n.service-1].Name, s.Name)
		default:
			n.service = int32(i) + 1
		}
	}
}

// dependsOnClient reports whether who asks makes a difference to a kind of question.
func (s *service) dependsOnClient(k kind) bool {
	if len(s.rules) == 1 && len(s.rules[0].eligible[k]) <= 1 {
		return false
	}
	for i := range s.rules {
		for j := range s.rules[i].choices {
			if s.rules[i].choices[j].set(k) != nil {
				return true
			}
		}
	}
	return false // NODATA for everyone
}

func (b *builder) rule(s *snapshot.DNSService, r *snapshot.DNSRule) rule {
	what := fmt.Sprintf("rule %s/%s", s.Name, r.Rule)
	made := rule{
		name: r.Rule, scope: r.Scope, decision: r.Decision, degraded: r.Degraded,
		ttl: b.seconds(what+": ttl", r.TTL), minTTL: b.seconds(what+": minTTL", r.MinTTL),
	}
	if made.minTTL > made.ttl {
		b.fail("%s: minTTL %s is above ttl %s", what, r.MinTTL, r.TTL)
	}
	if left := b.ix.d.Left(s, r); left > 0 {
		made.deadline = b.now + left
	}
	for i := range r.Choices {
		made.choices = append(made.choices, b.choice(what, s.Name, &r.Choices[i]))
		if c := &made.choices[i]; len(r.Choices) > 1 && c.weight <= 0 {
			b.fail("%s: edge %s has weight %d: want 1 to 1000", what, c.edge, r.Choices[i].Weight)
		}
	}
	for k := range kinds {
		made.eligible[k] = eligible(made.choices, k)
	}
	return made
}

func (b *builder) choice(what, serviceName string, c *snapshot.DNSChoice) choice {
	what += ": edge " + c.Edge
	made := choice{edge: c.Edge, weight: float64(c.Weight), hash: nameHash(serviceName, c.Edge)}
	if (c.Target != "") == (len(c.A)+len(c.AAAA) > 0) {
		b.fail("%s: want a target or addresses, and not both", what)
		return made
	}
	if c.Target != "" {
		target, err := packName(c.Target)
		if err != nil {
			b.fail("%s: target: %w", what, err)
			return made
		}
		made.cname = b.intern(what, dns.TypeCNAME, 0, [][]byte{target})
		return made
	}
	if !all(c.A, netip.Addr.Is4) || !all(c.AAAA, func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }) {
		b.fail("%s: an address stands in the wrong family: a %v, aaaa %v", what, c.A, c.AAAA)
		return made
	}
	if len(c.A) > 0 {
		made.a = b.intern(what, typeA, 0, rdatas(c.A))
	}
	if len(c.AAAA) > 0 {
		made.aaaa = b.intern(what, typeAAAA, 0, rdatas(c.AAAA))
	}
	return made
}

func all(addrs []netip.Addr, is func(netip.Addr) bool) bool {
	for _, a := range addrs {
		if !is(a) || a.Zone() != "" {
			return false
		}
	}
	return true
}
