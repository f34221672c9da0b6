package snapshot

import (
	"net/netip"
	"slices"
	"strings"

	"steerpoint/spec"
)

// In a signed zone a name has one shape for everybody: resolvers keep a denial that one client got for all of their clients
// (RFC 8198), so a name that is a CNAME for some and has addresses for others would be denied to one of them. A service with
// answers of both kinds is therefore answered with the addresses of its names, as at an apex.

// mixed reports whether a service could answer with names and with addresses.
func mixed(s *spec.Service) bool {
	if len(targetsOf(s)) == 0 {
		return false
	}
	for i := range s.Edges {
		if e := &s.Edges[i]; e.Enabled && len(e.Addresses) > 0 {
			return true
		}
	}
	for i := range s.Rules {
		w := &s.Rules[i].WhenAllDown
		if _, err := netip.ParseAddr(w.Target); w.Policy == "fallback" && err == nil {
			return true
		}
	}
	return false
}

// takeSigned notes which zones are signed, or are to be, and has services compiled again that this changes.
func (c *Compiler) takeSigned(before []*spec.Zone, in *DNSInput) {
	s := in.Signing
	if c.signedBy == s && c.last != nil && slices.Equal(before, in.Zones) {
		return
	}
	signed := map[string]bool{}
	for _, z := range in.Zones {
		if z.DNSSEC.Enabled {
			signed[fqdn(z.Zone)] = true
		}
	}
	if s != nil {
		for i := range s.Zones {
			signed[s.Zones[i].Zone] = true // also one that is to leave, as long as it is signed
		}
	}
	c.signedBy, c.signed = s, signed
	for _, e := range c.entries {
		if e.plan != nil && e.plan.mixed && e.oneShape != c.oneShape(e) {
			c.touch(e)
		}
	}
}

// oneShape reports whether a service answers with addresses only, since one of its names lies in a signed zone.
func (c *Compiler) oneShape(e *entry) bool {
	if e.spec == nil || !e.plan.mixed || len(c.signed) == 0 {
		return false
	}
	return slices.ContainsFunc(append([]string{e.cname()}, e.plan.names...), func(name string) bool {
		return name != "" && c.signed[c.zones.around(strings.TrimPrefix(name, "*."))]
	})
}

// shape makes of a choice that is a name its addresses, where the service has one shape.
func (a *ruleAnswer) shape(c *DNSChoice) error {
	if c.Target == "" || !a.entry.oneShape {
		return nil
	}
	addrs, ok := a.zones.addresses(c.Target, 0)
	if len(addrs.A)+len(addrs.AAAA) == 0 {
		why := "which has none"
		if !ok {
			why = "which are not known yet"
		}
		return refuse(ProblemAlias, a.rule.Name, "a name of the service is in a signed zone, so that it answers with addresses only, since some edges have addresses: %s is to be answered with those of %s, %s", c.Edge, c.Target, why)
	}
	c.Target = ""
	c.A, c.AAAA = addrs.A[:min(len(addrs.A), MaxAnswerAddresses)], addrs.AAAA[:min(len(addrs.AAAA), MaxAnswerAddresses)]
	c.HasA, c.HasAAAA = len(c.A) > 0, len(c.AAAA) > 0
	return nil
}
