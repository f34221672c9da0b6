package snapshot

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"time"
)

// serials gives zones their SOA serials: the version of the snapshot in which what a secondary would copy last changed. So
// all name servers have one serial for one content, it never goes back, and it rests while nothing changes. A zone whose
// steered names nobody can copy has none of its own: its serial is the version.
//
// The zero value is ready.
type serials struct {
	renamed bool // names of services changed since the last call

	zones    []DNSZone // what static is of
	static   []sum     // by zone, of all in it that is not steered; zero: the zone is not watched
	steered  []bool    // by zone: a name of a service is in it
	defaults []sum     // by zone, of the default answers in it; zero: they are not transferred
	shown    map[string]bool
	contents map[string]zoneContent // by zone, as of the last call
}

// zoneContent is what a zone held at its serial.
type zoneContent struct {
	sum    sum
	serial uint64
}

// next gives the serials of out's zones. previous is what began with, for the first call; steering are the zones that
// hold service CNAMEs. changed are the services that changed since the last call.
func (s *serials) next(out, previous *DNS, steering []string, changed []*entry) []uint64 {
	watched := func(z *DNSZone) bool { return z.Transfer != nil || !slices.Contains(steering, z.Name) }
	if !slices.ContainsFunc(out.Zones, func(z DNSZone) bool { return watched(&z) }) {
		*s = serials{contents: map[string]zoneContent{}}
		return nil
	}
	if s.contents == nil {
		s.contents = contentsOf(previous, watched)
	}
	moved := s.renamed || !sameMemory(s.zones, out.Zones)
	if !sameMemory(s.zones, out.Zones) {
		s.zones, s.static = out.Zones, staticSums(out.Zones, watched)
	}
	if moved || slices.ContainsFunc(changed, func(e *entry) bool { return s.shown[e.name] }) {
		s.steered, s.defaults, s.shown = steeredSums(out, watched)
	}
	s.renamed = false
	return s.assign(out)
}

// assign keeps the serials of what did not change.
func (s *serials) assign(out *DNS) []uint64 {
	list := make([]uint64, len(out.Zones))
	contents := make(map[string]zoneContent, len(out.Zones))
	for i := range out.Zones {
		z := &out.Zones[i]
		if !s.own(z, i) {
			continue
		}
		now := zoneContent{s.content(i), out.Version}
		if before := s.contents[z.Name]; before.sum == now.sum && before.serial != 0 {
			now.serial = before.serial
		}
		list[i], contents[z.Name] = now.serial, now
	}
	s.contents = contents
	return list
}

// own reports whether a zone has a serial of its own.
func (s *serials) own(z *DNSZone, i int) bool {
	return s.static[i] != sum{} && (!s.steered[i] || z.Transfer != nil && z.Transfer.Default)
}

// content is the sum over all that a secondary would copy.
func (s *serials) content(i int) sum {
	return sha256.Sum256(append(s.static[i][:], s.defaults[i][:]...))
}

// contentsOf is what a snapshot from before a restart held.
func contentsOf(d *DNS, watched func(*DNSZone) bool) map[string]zoneContent {
	out := map[string]zoneContent{}
	if d == nil || len(d.Serials) != len(d.Zones) {
		return out
	}
	s := &serials{static: staticSums(d.Zones, watched)}
	s.steered, s.defaults, _ = steeredSums(d, watched)
	for i := range d.Zones {
		if s.own(&d.Zones[i], i) {
			out[d.Zones[i].Name] = zoneContent{s.content(i), d.Serials[i]}
		}
	}
	return out
}

func sameMemory[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// zoneNames is the index of each zone by name.
func zoneNames(zones []DNSZone) (byName map[string]int, names map[string]bool) {
	byName, names = make(map[string]int, len(zones)), make(map[string]bool, len(zones))
	for i := range zones {
		byName[zones[i].Name], names[zones[i].Name] = i, true
	}
	return byName, names
}

// staticSums are over what each watched zone holds of zones: its own records, the delegation of zones of ours inside it,
// and the addresses of name servers that lie in it.
func staticSums(zones []DNSZone, watched func(*DNSZone) bool) []sum {
	byName, names := zoneNames(zones)
	canons := make([]*canon, len(zones))
	for i := range zones {
		if watched(&zones[i]) {
			canons[i] = &canon{}
			canons[i].zone(&zones[i])
			canons[i].truth(zones[i].Transfer != nil && zones[i].Transfer.Default)
		}
	}
	at := func(name string) *canon {
		if i, ok := byName[closest(name, names)]; ok {
			return canons[i]
		}
		return nil
	}
	for i := range zones {
		z := &zones[i]
		if outer := at(Parent(z.Name)); outer != nil {
			outer.text(z.Name)
			outer.nameServers(z)
		}
		for j := range z.NS {
			if c := at(z.NS[j].Name); c != nil && c != canons[i] {
				c.text(z.NS[j].Name)
				c.time(z.NSTTL)
				c.addresses(z.NS[j].Addresses)
			}
		}
	}
	sums := make([]sum, len(zones))
	for i, c := range canons {
		if c != nil {
			sums[i] = c.sum()
		}
	}
	return sums
}

func (c *canon) nameServers(z *DNSZone) {
	c.time(z.NSTTL)
	c.count(len(z.NS))
	for i := range z.NS {
		c.text(z.NS[i].Name)
		c.addresses(z.NS[i].Addresses)
	}
}

// Parent is the name one label up; that of the root is "".
func Parent(name string) string {
	for i := range len(name) {
		switch {
		case name[i] == '\\':
			return name // an escape: no zone of ours has one
		case name[i] == '.' && i+1 < len(name):
			return name[i+1:]
		case name[i] == '.' && name != ".":
			return "."
		}
	}
	return ""
}

// steeredSums says which zones steered names are in, the sums over the default answers of those that transfer them, and
// which services have names there.
func steeredSums(d *DNS, watched func(*DNSZone) bool) (steered []bool, sums []sum, shown map[string]bool) {
	byName, names := zoneNames(d.Zones)
	steered, sums, shown = make([]bool, len(d.Zones)), make([]sum, len(d.Zones)), map[string]bool{}
	canons := make([]canon, len(d.Zones))
	for _, s := range d.Services {
		for _, c := range s.Copied() {
			at, ok := byName[closest(c.Name, names)]
			if !ok || !watched(&d.Zones[at]) {
				continue
			}
			steered[at] = true
			if t := d.Zones[at].Transfer; t != nil && t.Default {
				shown[s.Name] = true
				canons[at].copied(&c)
			}
		}
	}
	for i := range canons {
		if canons[i].buf != nil {
			sums[i] = canons[i].sum()
		}
	}
	return steered, sums, shown
}

func (c *canon) copied(x *CopiedName) {
	c.text(x.Name)
	c.time(x.TTL)
	c.text(x.Target)
	c.addresses(x.A)
	c.addresses(x.AAAA)
}

// CopiedName is a steered name as a server that does not steer answers for it: alike to everybody.
type CopiedName struct {
	Name    string
	TTL     time.Duration
	Target  string // FQDN; then A and AAAA are empty
	A, AAAA []netip.Addr
}

// Copied are the names of a service, each with the answer of the catch-all rule: of several edges that share its answers, the
// one with the greatest weight, and of these the first. Without any the name answers nothing.
func (s *DNSService) Copied() []CopiedName {
	answer, flat := CopiedName{}, CopiedName{}
	if len(s.Rules) > 0 {
		r := &s.Rules[len(s.Rules)-1]
		best := -1
		for i := range r.Choices {
			if x := &r.Choices[i]; x.Weight > best {
				best = x.Weight
				answer = CopiedName{TTL: r.TTL, Target: x.Target, A: x.A, AAAA: x.AAAA}
				if flat = answer; x.Target != "" {
					flat = CopiedName{TTL: r.TTL, A: x.FlatA, AAAA: x.FlatAAAA}
				}
			}
		}
	}
	out := make([]CopiedName, 0, 1+len(s.Hosted)+len(s.Flat))
	for _, name := range append([]string{s.CNAME}, s.Hosted...) {
		answer.Name = name
		out = append(out, answer)
	}
	for _, name := range s.Flat {
		flat.Name = name
		out = append(out, flat)
	}
	return out
}
