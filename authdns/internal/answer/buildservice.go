package answer

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"steerpoint/snapshot"
)

func (b *builder) addService(s *snapshot.DNSService, tables []Table, now time.Duration) {
	what := "service " + s.Name
	made := &service{name: s.Name, negTTL: b.seconds(what+": negativeTTL", s.NegativeTTL)}
	switch {
	case len(s.Rules) == 0:
		b.fail("%s has no rules", what)
		return
	case len(s.Rules) >= int(unmapped):
		b.fail("%s has %d rules: at most %d", what, len(s.Rules), unmapped-1)
		return
	case len(s.Rules) > 1:
		if s.Table < 0 || s.Table >= len(tables) || tables[s.Table] == nil {
			b.fail("%s names table %d of %d", what, s.Table, len(tables))
			return
		}
		made.table = tables[s.Table]
	}
	for i := range s.Rules {
		made.rules = append(made.rules, b.rule(s, &s.Rules[i], now))
	}
	for k := range kinds {
		made.tailored[k] = made.dependsOnClient(k)
	}
	for _, name := range append([]string{s.CNAME}, s.Hosted...) {
		n, _ := b.owned(what, name)
		switch {
		case n == nil:
		case n.service != nil:
			b.fail("%s is a name of service %s and of service %s", name, n.service.name, s.Name)
		default:
			n.service = made
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

func (b *builder) rule(s *snapshot.DNSService, r *snapshot.DNSRule, now time.Duration) rule {
	what := fmt.Sprintf("rule %s/%s", s.Name, r.Rule)
	made := rule{
		name: r.Rule, scope: r.Scope, decision: r.Decision, degraded: r.Degraded,
		ttl: b.seconds(what+": ttl", r.TTL), minTTL: b.seconds(what+": minTTL", r.MinTTL),
	}
	if made.minTTL > made.ttl {
		b.fail("%s: minTTL %s is above ttl %s", what, r.MinTTL, r.TTL)
	}
	if r.Soonest > 0 {
		made.deadline = now + r.Soonest
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
