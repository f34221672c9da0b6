package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"steerpoint/spec"
)

// owner says who has a name already: a name server, a service, a record, or a delegation it lies at or below; "" if nobody. e
// is the service that asks; nil: none in particular.
func (c *Compiler) owner(name string, e *entry) string {
	if who := c.owners[name]; who != "" {
		return who
	}
	if who := c.zones.taken[name]; who != "" {
		return who
	}
	if cut := c.zones.cutOf(name); cut != "" && c.zones.around(name) != "" {
		if !c.zones.cuts[cut] {
			return "the DNAME record of " + cut
		}
		return "the name servers that " + cut + " is delegated to"
	}
	if e != nil && e.names != "" && c.zones.beside[name] && !c.zones.isApex(name) {
		return "records of a zone, beside which no CNAME can stand (" + e.names + ")"
	}
	return ""
}

// aliasOf is the target of the ALIAS record at a name, "" if there is none.
func (z *zoneSet) aliasOf(name string) string {
	for _, s := range z.order {
		for _, a := range s.aliases {
			if a.owner == name {
				return a.target
			}
		}
	}
	return ""
}

// claimFlat makes a service answer with addresses at a name where nothing else can be answered. As long as not all are known
// the name is not answered for: an empty answer would be kept by resolvers.
func (c *Compiler) claimFlat(e *entry, name, why string) {
	e.wantsFlat = e.wantsFlat || e.names != ""
	if e.names != "" && !e.flatReady {
		e.claim.problems = append(e.claim.problems, Problem{
			Code: ProblemAlias, Service: e.name,
			Message: fmt.Sprintf("%s, where only addresses can be answered; %s, whose addresses are not known yet: it is not answered until they are", why, e.names),
		})
		return
	}
	e.claim.flat = append(e.claim.flat, name)
}

// claimAliases gives the owners of ALIAS records to the services they point at.
func (c *Compiler) claimAliases() {
	c.targets = nil
	aliases := c.zones.aliases()
	steered := make(map[string]bool, len(aliases))
	c.aliasFails = nil
	for _, a := range aliases {
		e := c.serviceAt(a.target)
		switch {
		case e == nil:
			continue
		case e.claim.kept != nil:
			if !slices.Contains(e.claim.kept.Flat, a.owner) {
				c.aliasFails = append(c.aliasFails, c.noAddress(a, "service "+e.name+", which cannot be compiled now"))
			}
		case e.names == "": // all of its answers are addresses: one more name
			e.claim.flat = append(e.claim.flat, a.owner)
		default:
			c.claimFlat(e, a.owner, "the ALIAS at "+a.owner+" points at it")
		}
		steered[a.owner] = true
	}
	if !maps.Equal(steered, c.steered) {
		c.steered, c.unfinished = steered, true
	}
}

// unknown tells of the ALIAS records of no service that have no addresses.
func (c *Compiler) unknown() (out []Problem) {
	for _, a := range c.zones.aliases() {
		if c.steered[a.owner] {
			continue
		}
		addrs, ok := c.zones.addresses(a.target, 0)
		switch {
		case len(addrs.A)+len(addrs.AAAA) > 0:
		case c.zones.ours(a.target):
			out = append(out, c.noAddress(a, a.target+", which has no addresses in our zones"))
		case !ok:
			out = append(out, c.noAddress(a, a.target+", whose addresses are not known yet"))
		default:
			out = append(out, c.noAddress(a, a.target+", which has no addresses"))
		}
	}
	return out
}

func (c *Compiler) noAddress(a alias, what string) Problem {
	zone := ""
	if s := c.zones.zoneAround(strings.TrimPrefix(a.owner, "*.")); s != nil {
		zone = s.spec.Name
	}
	return Problem{Code: ProblemAlias, Zone: zone, Message: "the ALIAS at " + a.owner + " points at " + what + ": no address is answered until there is one"}
}

// serviceAt is the service that answers for a name, itself or by a wildcard; nil if none.
func (c *Compiler) serviceAt(name string) *entry {
	who, found := strings.CutPrefix(c.owners[name], "service ")
	if !found && c.owners[name] == "" {
		for _, up, ok := strings.Cut(name, "."); ok && up != "" && !found; _, up, ok = strings.Cut(up, ".") {
			who, found = strings.CutPrefix(c.owners["*."+up], "service ")
		}
	}
	if !found {
		return nil
	}
	return c.byName[who]
}

// takeResolved notes the addresses of names elsewhere, and which services that concerns.
func (c *Compiler) takeResolved(r *Resolved) {
	if r == c.zones.resolved {
		return
	}
	c.zones.resolved, c.unfinished = r, true
	c.touchFlat()
}

// touchFlat has the services compiled again that answer with addresses in the place of names.
func (c *Compiler) touchFlat() {
	for _, e := range c.entries {
		if (e.wantsFlat || e.oneShape) && e.spec != nil {
			c.touch(e)
		}
	}
}

// flatten compiles services again of which addresses in the place of names are wanted since, or no longer. It reports whether
// names may have changed hands by it.
func (c *Compiler) flatten(in *DNSInput) bool {
	changed := false
	for _, e := range c.entries {
		if e.spec != nil && e.wantsFlat != e.flat {
			changed = c.compile(e, in) || changed
		}
	}
	return changed
}

// finishZones puts the addresses of ALIAS records into the zones.
func (c *Compiler) finishZones() {
	if !c.unfinished {
		return
	}
	c.unfinished, c.targets = false, nil
	z := &c.zones
	made := slices.Clone(z.zones)
	for i, s := range z.order {
		made[i].Records = z.withAliases(s, c.steered)
	}
	c.unknowns = c.unknown()
	if c.last != nil && EqualZones(made, c.last.Zones) {
		z.zones, z.sum = c.last.Zones, c.last.zonesSum
		return
	}
	z.zones, z.sum = made, sumZones(made)
}

// Targets are the names elsewhere whose addresses the snapshot is made of, or would be, as FQDNs in ascending order: who calls
// Compile resolves them and gives what they are in DNSInput.Resolved.
func (c *Compiler) Targets() []string {
	if c.targets != nil {
		return c.targets
	}
	want := map[string]bool{}
	for _, a := range c.zones.aliases() {
		if !c.steered[a.owner] {
			c.zones.elsewhere(a.target, want, 0)
		}
	}
	for _, e := range c.entries {
		if (e.wantsFlat || e.oneShape) && e.spec != nil {
			for _, name := range targetsOf(e.spec) {
				c.zones.elsewhere(name, want, 0)
			}
		}
	}
	c.targets = append([]string{}, slices.Sorted(maps.Keys(want))...)
	return c.targets
}

// elsewhere adds the name that a name leads to over CNAMEs of ours, if that lies elsewhere.
func (z *zoneSet) elsewhere(name string, want map[string]bool, depth int) {
	if !z.ours(name) {
		want[name] = true
		return
	}
	for _, r := range z.at(name) {
		if r.Type == "CNAME" && depth < maxChain {
			z.elsewhere(fqdn(r.Data[0]), want, depth+1)
		}
	}
}

// targetsOf are the names that a service could answer with.
func targetsOf(s *spec.Service) []string {
	var out []string
	for i := range s.Edges {
		if e := &s.Edges[i]; e.Enabled && e.Target != "" {
			out = append(out, fqdn(e.Target))
		}
	}
	for i := range s.Rules {
		if target, ok := fallbackName(&s.Rules[i]); ok {
			out = append(out, fqdn(target))
		}
	}
	return out
}

// flatten gives a choice that is a name the addresses of it, where they are wanted.
func (a *ruleAnswer) flatten(c *DNSChoice) {
	if c.Target == "" || !a.entry.flat {
		return
	}
	addrs, _ := a.zones.addresses(c.Target, 0)
	c.FlatA, c.FlatAAAA = addrs.A, addrs.AAAA
	c.FlatA, c.FlatAAAA = c.FlatA[:min(len(c.FlatA), MaxAnswerAddresses)], c.FlatAAAA[:min(len(c.FlatAAAA), MaxAnswerAddresses)]
}

// flatReady reports whether every answer has addresses where addresses are wanted.
func (s *DNSService) flatReady() bool {
	for i := range s.Rules {
		for j := range s.Rules[i].Choices {
			if c := &s.Rules[i].Choices[j]; c.Target != "" && len(c.FlatA)+len(c.FlatAAAA) == 0 {
				return false
			}
		}
	}
	return true
}
