package route53

import (
	"strings"

	"steerpoint/internal/importer"
	"steerpoint/spec"
)

// aliasName is where an alias points, without the last dot.
func (s *set) aliasName() string {
	return strings.ToLower(strings.TrimSuffix(unescape(s.alias.Get("DNSName").Str()), "."))
}

// useAlias marks the fields of an alias that need no counterpart.
func (s *set) useAlias() {
	s.alias.Get("HostedZoneId").Use()
	s.alias.Get("EvaluateTargetHealth").Use()
}

// aliases settles the aliases without a policy, once it is known which names are steered.
func (c *converter) aliases() {
	for _, s := range c.pending {
		c.alias(s)
	}
}

func (c *converter) alias(s *set) {
	to := s.aliasName()
	s.useAlias()
	what := s.kind + " alias of " + s.name + " to " + to
	apex := s.name == c.zone.Name()
	if own := c.b.Find(s.name); own != nil { // the other family of the name, settled before
		if c.b.Find(to) != own {
			c.b.Lost(s.n, what, "left out: the name is steered by its other record sets", "see that their edges have both address families")
		}
		return
	}
	if t := c.b.Find(to); t != nil && t.AddDomain(s.name, apex) {
		c.b.Remark(s.n, what, "the name is one more domain of that service", "")
		return
	}
	if known := c.known(to); len(known) > 0 {
		for _, k := range known {
			if k.Type == s.kind {
				for _, v := range k.Values {
					c.zone.Record(s.name, s.kind, k.TTL, v, s.alias.Get("DNSName"))
				}
			}
		}
		c.b.Remark(s.n, what, "a copy of the addresses of that name: a change there must be made here too", "")
		return
	}
	switch {
	case apex:
		c.b.Lost(s.n, what, "left out: at the zone itself no CNAME can stand", "write an A record or a Service with the addresses behind "+to)
	case s.kind != "A" && s.kind != "AAAA":
		c.b.Lost(s.n, what, "left out: only aliases of addresses have a counterpart", "write the record itself")
	case c.zone.Lookup(s.name, "CNAME") != nil: // the other family said the same
		if set := c.zone.Lookup(s.name, "CNAME"); set.Values[0] != to+"." {
			c.b.Lost(s.n, what, "left out: the other address family has another target", "")
		}
	default:
		c.zone.Record(s.name, "CNAME", s.seconds(), to+".", s.alias.Get("DNSName"))
		c.b.Remark(s.n, what, "a CNAME record", "")
	}
}

// known gives the static addresses of a name of the same file.
func (c *converter) known(name string) []*importer.Set {
	var out []*importer.Set
	for _, kind := range []string{"A", "AAAA"} {
		if s := c.zone.Lookup(name, kind); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// destination is where a record set sends visitors: addresses, or a name.
func (c *converter) destination(s *set) (list []spec.Address, target spec.HostName) {
	switch {
	case s.alias != nil:
		to := s.aliasName()
		s.useAlias()
		for _, k := range c.known(to) {
			if k.Type != s.kind {
				continue
			}
			for _, v := range k.Values {
				var a spec.Address
				if a.UnmarshalText([]byte(v)) == nil {
					list = append(list, a)
				}
			}
		}
		if len(list) > 0 {
			c.b.Remark(s.n, "alias "+s.id+" of "+s.name+" to "+to, "a copy of the addresses of that name", "")
			return list, ""
		}
		if err := target.UnmarshalText([]byte(to)); err != nil {
			c.b.Lost(s.alias, "alias of "+s.name+" to "+to, "left out: the name "+err.Error(), "")
		}
		return nil, target
	case s.kind == "CNAME":
		for i, v := range s.values {
			if err := target.UnmarshalText([]byte(v.Text)); err != nil || i > 0 {
				c.b.Lost(v, "CNAME "+v.Text+" of "+s.name, "left out: it is no usable name, or one too many", "")
				continue
			}
			v.Use()
		}
		return nil, target
	}
	return c.addresses(s), ""
}
