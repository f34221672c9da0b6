package snapshot

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"steerpoint/internal/rrdata"
	"steerpoint/spec"
)

// staticZone is what a Zone's records come to, whatever other zones there are.
type staticZone struct {
	spec     *spec.Zone
	name     string
	sets     []DNSRecord // by name and type; those of type ALIAS left out
	aliases  []alias
	problems []Problem

	served []DNSRecord // sets, less those that another zone answers for
}

// alias is one ALIAS record: owner answers with the addresses of target.
type alias struct {
	zone, owner, target string
	ttl                 time.Duration
}

// maxSetOctets of one record set fit into any message, beside all that goes with them.
const maxSetOctets = 60_000

// maxRecordProblems of one zone are told one by one.
const maxRecordProblems = 20

// addRecords compiles the records of all zones of the set, or takes them from old.
func (z *zoneSet) addRecords(configured map[string]bool, old *zoneSet) {
	for i, placeholder := range z.order {
		var s *staticZone
		if old != nil && old.static[placeholder.spec] != nil {
			again := *old.static[placeholder.spec]
			s = &again
		} else {
			s = newStaticZone(placeholder.spec, z.zones[i].Name)
		}
		z.order[i], z.static[s.spec] = s, s
		z.problems = append(z.problems, s.problems...)
		z.serve(s, configured)
	}
	for i, s := range z.order {
		z.zones[i].Records = s.served
	}
}

// newStaticZone compiles the records of one zone. What cannot be served is a problem and left out: what was written for
// another version must not keep the rest from being answered.
func newStaticZone(z *spec.Zone, name string) *staticZone {
	s := &staticZone{spec: z, name: name}
	b := &staticBuilder{staticZone: s, types: map[string][]string{}}
	for i := range z.Records {
		b.record(&z.Records[i])
	}
	b.left()
	slices.SortFunc(s.sets, byNameAndType)
	s.served = s.sets
	return s
}

func byNameAndType(a, b DNSRecord) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Type, b.Type))
}

type staticBuilder struct {
	*staticZone
	types map[string][]string // by owner, of what was taken
	more  int                 // problems that are not told one by one
}

func (b *staticBuilder) refuse(r *spec.Record, format string, args ...any) {
	if len(b.problems) >= maxRecordProblems {
		b.more++
		return
	}
	b.problems = append(b.problems, Problem{
		Code: ProblemRecord, Zone: b.spec.Name, Message: fmt.Sprintf("the %s records of %s are not served: ", r.Type, r.Name) + fmt.Sprintf(format, args...),
	})
}

func (b *staticBuilder) left() {
	if b.more > 0 {
		b.problems = append(b.problems, Problem{Code: ProblemRecord, Zone: b.spec.Name, Message: fmt.Sprintf("%d more record sets are not served", b.more)})
	}
}

func (b *staticBuilder) record(r *spec.Record) {
	owner, err := b.spec.Owner(r)
	if err != nil {
		b.refuse(r, "the name %v", err)
		return
	}
	owner += "."
	kind := string(r.Type)
	if why := b.clash(owner, kind, len(r.Values)); why != "" {
		b.refuse(r, "%s", why)
		return
	}
	if r.Type == spec.Alias {
		b.types[owner] = append(b.types[owner], kind)
		b.aliases = append(b.aliases, alias{b.name, owner, fqdn(r.Values[0]), time.Duration(r.TTL)})
		return
	}
	set := DNSRecord{Name: owner, Type: kind, TTL: time.Duration(r.TTL), Data: make([]string, 0, len(r.Values))}
	octets := 0
	for _, v := range r.Values {
		data, err := r.Type.Parse(v)
		if err != nil {
			b.refuse(r, "the value %.60q %v", v, err)
			return
		}
		if octets += 12 + len(data.Wire); octets > maxSetOctets {
			b.refuse(r, "they do not fit into one message")
			return
		}
		if !slices.Contains(set.Data, data.Text) { // a set has each record once (RFC 2181 section 5)
			set.Data = append(set.Data, data.Text)
		}
	}
	b.types[owner] = append(b.types[owner], kind)
	if r.Hints {
		set.Type += hintsMark
	}
	b.sets = append(b.sets, set)
}

// clash says why a record set cannot stand beside those taken before it; "" if it can.
func (b *staticBuilder) clash(owner, kind string, values int) string {
	had := b.types[owner]
	has := func(kinds ...string) bool {
		return slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(had, k) })
	}
	apex := owner == b.name
	single := kind == "CNAME" || kind == "DNAME" || kind == rrdata.Alias
	switch {
	case has(kind):
		return "there are others of that type at the name"
	case values == 0:
		return "they have no values"
	case single && values > 1:
		return "a name has one " + kind
	case apex && (kind == "NS" || kind == "DS" || kind == "CNAME"):
		return "such records cannot stand at the zone itself"
	case (kind == "NS" || kind == "DNAME") && strings.HasPrefix(owner, "*."):
		return "a wildcard cannot be delegated"
	case !apex && (kind == "DNAME" && has("NS") || kind == "NS" && has("DNAME")):
		return "a DNAME cannot stand beside a delegation"
	case kind == "CNAME" && len(had) > 0, has("CNAME"):
		return "nothing can stand beside a CNAME (RFC 1034 section 3.6.2)"
	case kind == rrdata.Alias && has("A", "AAAA", "NS"), (kind == "A" || kind == "AAAA" || kind == "NS") && has(rrdata.Alias):
		return "an ALIAS stands for the addresses of its name"
	}
	return ""
}

// serve leaves out what other zones answer for, and notes who answers where.
func (z *zoneSet) serve(s *staticZone, configured map[string]bool) {
	keep := func(r *DNSRecord) bool {
		inner := closest(strings.TrimPrefix(r.Name, "*."), configured)
		if inner != s.name {
			return r.Type == "A" || r.Type == "AAAA" || inner == r.Name && (r.Type == "NS" || r.Type == "DS")
		}
		if z.isServer(r.Name) && clashesWithAddresses(r.Type) {
			z.problems = append(z.problems, Problem{
				Code: ProblemRecord, Zone: s.spec.Name,
				Message: fmt.Sprintf("the %s records of %s are not served: it is a name server, whose addresses stand under ns", r.Type, r.Name),
			})
			return false
		}
		return true
	}
	s.served = s.sets
	if i := slices.IndexFunc(s.sets, func(r DNSRecord) bool { return !keep(&r) }); i >= 0 {
		s.served = slices.Clone(s.sets[:i])
		for j := i + 1; j < len(s.sets); j++ {
			if keep(&s.sets[j]) {
				s.served = append(s.served, s.sets[j])
			}
		}
	}
	z.note(s, configured)
}

func clashesWithAddresses(kind string) bool { return kind == "A" || kind == "AAAA" || kind == "CNAME" }

// isServer reports whether a name is a name server's, of this set as far as it is made.
func (z *zoneSet) isServer(name string) bool { return z.servers[name] }

func (z *zoneSet) note(s *staticZone, configured map[string]bool) {
	who := "a record of zone " + s.spec.Name
	for i := range s.served {
		r := &s.served[i]
		switch {
		case closest(strings.TrimPrefix(r.Name, "*."), configured) != s.name:
		case r.Type == "NS":
			z.cuts[r.Name] = true
		case r.Type == "DNAME":
			z.renames[r.Name], z.beside[r.Name] = true, true
		case clashesWithAddresses(r.Type):
			z.taken[r.Name] = who
		default:
			z.beside[r.Name] = true
		}
	}
	for _, a := range s.aliases {
		z.taken[a.owner] = who
	}
}

// cutOf is the delegation that a name lies at or below, or the DNAME that it lies below, "" if none.
func (z *zoneSet) cutOf(name string) string {
	if len(z.cuts)+len(z.renames) == 0 {
		return ""
	}
	found := ""
	for at := strings.TrimPrefix(name, "*."); at != ""; {
		if z.cuts[at] || z.renames[at] && at != name {
			found = at
		}
		if z.names[at] {
			break
		}
		_, at, _ = strings.Cut(at, ".")
	}
	return found
}

// ours reports whether our zones answer for a name, delegations left out.
func (z *zoneSet) ours(name string) bool { return z.around(name) != "" && z.cutOf(name) == "" }

func (z *zoneSet) aliases() []alias {
	var out []alias
	for _, s := range z.order {
		out = append(out, s.aliases...)
	}
	return out
}

// withAliases are the records a zone serves: its own, and the addresses of those ALIAS records whose owner no service has.
func (z *zoneSet) withAliases(s *staticZone, steered map[string]bool) []DNSRecord {
	if len(s.aliases) == 0 {
		return s.served
	}
	out := slices.Clone(s.served)
	for _, a := range s.aliases {
		if steered[a.owner] {
			continue
		}
		addrs, _ := z.addresses(a.target, 0)
		if list := texts(addrs.A); len(list) > 0 {
			out = append(out, DNSRecord{Name: a.owner, Type: "A", TTL: a.ttl, Data: list})
		}
		if list := texts(addrs.AAAA); len(list) > 0 {
			out = append(out, DNSRecord{Name: a.owner, Type: "AAAA", TTL: a.ttl, Data: list})
		}
	}
	slices.SortFunc(out, byNameAndType)
	return out
}

func texts(addrs []netip.Addr) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = a.String()
	}
	return out
}

// maxChain bounds how many CNAMEs are followed to addresses.
const maxChain = 8

// addresses are those of a name that no service answers for: by our records, or by what it was resolved to elsewhere. ok is
// false where nothing is known of it.
func (z *zoneSet) addresses(name string, depth int) (out Addresses, ok bool) {
	if !z.ours(name) {
		out, ok = z.resolved.of(name)
		return out.capped(), ok
	}
	for _, zone := range z.zones {
		for _, ns := range zone.NS {
			if ns.Name == name {
				out.A, out.AAAA = split(ns.Addresses)
				return out, true
			}
		}
	}
	for _, r := range z.at(name) {
		switch r.Type {
		case "A", "AAAA":
			for _, text := range r.Data {
				if a, err := netip.ParseAddr(text); err == nil {
					out.add(a)
				}
			}
			ok = true
		case "CNAME":
			if depth < maxChain {
				return z.addresses(fqdn(r.Data[0]), depth+1)
			}
		}
	}
	return out, ok
}

// at are the record sets that answer for a name: its own, or those of the wildcard above it.
func (z *zoneSet) at(name string) []DNSRecord {
	s := z.zoneAround(name)
	if s == nil {
		return nil
	}
	if own := s.find(name); own != nil {
		return own
	}
	for _, up, _ := strings.Cut(name, "."); len(up) >= len(s.name); _, up, _ = strings.Cut(up, ".") {
		if star := s.find("*." + up); star != nil {
			return star
		}
		if s.exists(up) {
			break
		}
	}
	return nil
}

func (z *zoneSet) zoneAround(name string) *staticZone {
	around := z.around(name)
	for _, s := range z.order {
		if s.name == around {
			return s
		}
	}
	return nil
}

// find gives the sets of one name.
func (s *staticZone) find(name string) []DNSRecord {
	i, ok := slices.BinarySearchFunc(s.served, name, func(r DNSRecord, name string) int { return strings.Compare(r.Name, name) })
	if !ok {
		return nil
	}
	j := i
	for j < len(s.served) && s.served[j].Name == name {
		j++
	}
	return s.served[i:j]
}

// exists reports whether a name of the zone has records, or others below it have.
func (s *staticZone) exists(name string) bool {
	return slices.ContainsFunc(s.served, func(r DNSRecord) bool { return r.Name == name || strings.HasSuffix(r.Name, "."+name) })
}
