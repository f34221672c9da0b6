package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"steerpoint/internal/importer/tree"
	"steerpoint/internal/rrdata"
	"steerpoint/spec"
)

// maxRecords is how many record sets a Zone holds.
const maxRecords = 100_000

// maxText bounds the records of a zone in bytes, so that its file stays below the 16 MiB that spec reads.
const maxText = 8 << 20

// noServer stands where the input names no name server. The name cannot exist (RFC 6761 section 6.4).
const noServer = "set-your-name-servers.invalid"

// Zone is a zone on its way to a Zone.
type Zone struct {
	b     *Builder
	at    *tree.Node
	spec  spec.Zone
	sets  map[string]*Set
	list  []*Set
	bytes int // of the records taken
}

// Set is a static record set with the values it comes from.
type Set struct {
	Owner, Type string // the full name, without the last dot, in lower case
	TTL         int    // seconds
	Values      []string
	At          []*tree.Node
}

// Zone begins a zone. The error says what is wrong with its name.
func (b *Builder) Zone(name string, at *tree.Node) (*Zone, error) {
	z := &Zone{b: b, at: at, spec: b.plain.zone, sets: map[string]*Set{}}
	z.spec.Records, z.spec.NS = nil, nil
	if err := z.spec.Zone.UnmarshalText([]byte(name)); err != nil {
		return nil, err
	}
	b.zones = append(b.zones, z)
	return z, nil
}

// Static says that no service has its name in the zone.
func (z *Zone) Static() { z.spec.Steering = false }

// Name is the zone's name without the last dot.
func (z *Zone) Name() string { return string(z.spec.Zone) }

// SOA sets the fields of the SOA record, times in seconds. What spec refuses keeps its default and is listed.
func (z *Zone) SOA(mname, rname string, refresh, retry, expire, minimum int, at *tree.Node) {
	at.Use()
	for _, n := range []struct {
		what, text string
		to         *spec.HostName
	}{{"mname", mname, &z.spec.SOA.MName}, {"rname", rname, &z.spec.SOA.RName}} {
		if err := n.to.UnmarshalText([]byte(n.text)); err != nil {
			z.b.Changed(at, "SOA "+n.what+" "+n.text, "the default: the name "+err.Error(), "")
		}
	}
	for _, d := range []struct {
		what        string
		v, low, top int
		to          *spec.Duration
	}{
		{"refresh", refresh, 1, longestTTL, &z.spec.SOA.Refresh},
		{"retry", retry, 1, longestTTL, &z.spec.SOA.Retry},
		{"expire", expire, 1, longestTTL, &z.spec.SOA.Expire},
		{"minimum", minimum, 0, maxTTL, &z.spec.SOA.Minimum},
	} {
		v := min(max(d.v, d.low), d.top)
		if v != d.v {
			z.b.Changed(at, fmt.Sprintf("SOA %s %d", d.what, d.v), fmt.Sprintf("%ds: it must be %d to %d", v, d.low, d.top), "")
		}
		*d.to = seconds(v)
	}
}

// Holds reports whether a name is the zone or lies below it.
func (z *Zone) Holds(name string) bool {
	return z.holds(strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "*."), ".")))
}

// Record adds a value to the static record set of a name and type. Finish says what becomes of it.
func (z *Zone) Record(owner, kind string, ttl int, value string, at *tree.Node) {
	owner = strings.ToLower(strings.TrimSuffix(owner, "."))
	key := owner + " " + kind
	s := z.sets[key]
	if s == nil {
		s = &Set{Owner: owner, Type: kind, TTL: ttl}
		z.sets[key] = s
		z.list = append(z.list, s)
	}
	if slices.Contains(s.Values, value) {
		z.b.Lost(at, kind+" record of "+owner+" with a value that stands there already", "left out", "")
		return
	}
	if ttl != s.TTL {
		ttl, s.TTL = max(ttl, s.TTL), min(ttl, s.TTL)
		z.b.Changed(at, fmt.Sprintf("%s records of %s with the TTLs %d and %d", kind, owner, s.TTL, ttl), fmt.Sprintf("TTL %d for all: a record set has one", s.TTL), "")
	}
	s.Values, s.At = append(s.Values, value), append(s.At, at)
	if at.Kind == tree.Scalar { // of anything larger the caller marks what it read
		at.Use()
	}
}

// Lookup gives the static record set of a name and type, nil if there is none.
func (z *Zone) Lookup(owner, kind string) *Set {
	return z.sets[strings.ToLower(strings.TrimSuffix(owner, "."))+" "+kind]
}

// Remove takes a record set away: something else stands for it.
func (z *Zone) Remove(s *Set) {
	delete(z.sets, s.Owner+" "+s.Type)
	z.list = slices.DeleteFunc(z.list, func(o *Set) bool { return o == s })
}

// lose lists every value of a set.
func (z *Zone) lose(s *Set, why, todo string) {
	for i, at := range s.At {
		value := ""
		if i < len(s.Values) {
			value = " " + short(s.Values[i])
		}
		z.b.Lost(at, strings.TrimSpace(s.Type+" record of "+s.Owner+value), "left out: "+why, todo)
	}
}

// servers makes name servers of the NS records at the zone itself, and glue of the addresses of those inside it.
func (z *Zone) servers(steered map[string]bool) {
	ns := z.Lookup(z.Name(), "NS")
	if ns != nil {
		z.spec.NSTTL = z.b.ttl(ns.TTL, ns.At[0])
		z.Remove(ns)
	}
	if len(z.b.options.NS) > 0 {
		z.given(ns)
		return
	}
	if ns != nil {
		for i, v := range ns.Values {
			if steered[strings.ToLower(strings.TrimSuffix(v, "."))] {
				z.b.Lost(ns.At[min(i, len(ns.At)-1)], "name server "+v, "left out: its name is steered", "give it a name of its own")
				continue
			}
			z.server(ns, i, v)
		}
	}
	if len(z.spec.NS) == 0 {
		z.b.Remark(z.at, "the zone "+z.Name()+" has no name servers in the input", "ns: "+noServer, "write the names of your name servers, or import again with --ns NAME")
		z.spec.NS = []spec.NameServer{{Name: noServer}}
	}
}

func (z *Zone) server(ns *Set, i int, v string) {
	at := ns.At[min(i, len(ns.At)-1)]
	var s spec.NameServer
	if err := s.Name.UnmarshalText([]byte(v)); err != nil {
		z.b.Lost(at, "name server "+v, "left out: the name "+err.Error(), "")
		return
	}
	if slices.ContainsFunc(z.spec.NS, func(o spec.NameServer) bool { return o.Name == s.Name }) {
		return
	}
	inside := z.holds(string(s.Name))
	s.Addresses = z.glue(string(s.Name), inside)
	switch {
	case s.Name == z.spec.Zone:
		z.b.Lost(at, "name server "+v, "left out: it is the zone itself", "give it a name of its own")
		return
	case inside && len(s.Addresses) == 0:
		z.b.Lost(at, "name server "+v, "left out: it lies inside the zone and has no addresses", "write it into ns with its addresses")
		return
	}
	z.b.Changed(at, "name server "+string(s.Name), "kept in ns", "put the names of the machines that will answer, and change the delegation")
	z.spec.NS = append(z.spec.NS, s)
}

// given takes the name servers of the options, with the addresses the input knows of those without.
func (z *Zone) given(ns *Set) {
	if ns != nil {
		for i, at := range ns.At {
			z.b.Changed(at, "name server "+ns.Values[min(i, len(ns.Values)-1)], "those of --ns", "")
		}
	}
	for _, s := range z.b.options.NS {
		known := z.glue(string(s.Name), z.holds(string(s.Name)))
		if len(s.Addresses) == 0 {
			s.Addresses = known
		}
		if s.Name == z.spec.Zone || z.holds(string(s.Name)) && len(s.Addresses) == 0 {
			z.b.Remark(z.at, "name server "+string(s.Name)+" of --ns", "left out of zone "+z.Name()+": it lies inside and has no addresses", "import again with --ns "+string(s.Name)+"=ADDRESS")
			continue
		}
		z.spec.NS = append(z.spec.NS, spec.NameServer{Name: s.Name, Addresses: s.Addresses})
	}
	if len(z.spec.NS) == 0 {
		z.spec.NS = []spec.NameServer{{Name: noServer}}
	}
}

// glue takes the addresses of a name server inside the zone out of the records.
func (z *Zone) glue(name string, inside bool) []spec.Address {
	var out []spec.Address
	if !inside || name == z.Name() {
		return nil
	}
	for _, kind := range []string{"A", "AAAA"} {
		set := z.Lookup(name, kind)
		if set == nil {
			continue
		}
		for i, v := range set.Values {
			var a spec.Address
			if err := a.UnmarshalText([]byte(v)); err != nil {
				z.b.Lost(set.At[i], "address "+v+" of name server "+name, "left out: it "+err.Error(), "")
				continue
			}
			out = append(out, a)
		}
		z.Remove(set)
	}
	return out
}

func (z *Zone) holds(name string) bool {
	return name == z.Name() || strings.HasSuffix(name, "."+z.Name())
}

// finish decides which record sets the zone holds. steered are the names services answer for.
func (z *Zone) finish(steered map[string]bool) {
	z.servers(steered)
	alone := map[string]bool{} // owners of other records than a CNAME
	for _, s := range z.list {
		alone[s.Owner] = alone[s.Owner] || s.Type != "CNAME"
	}
	var kept []*Set
	for _, s := range z.list {
		if why, todo := z.refused(s, steered, alone); why != "" {
			z.lose(s, why, todo)
			continue
		}
		r := z.b.plain.record()
		r.Name, r.Type, r.TTL, r.Values = z.relative(s.Owner), spec.RecordType(s.Type), z.recordTTL(s), z.values(s)
		if len(r.Values) == 0 {
			continue
		}
		z.spec.Records = append(z.spec.Records, r)
		kept = append(kept, s)
		for _, v := range r.Values {
			z.bytes += len(v) + len(s.Owner)
		}
	}
	z.settle(kept)
}

func (z *Zone) recordTTL(s *Set) spec.Duration {
	ttl := min(max(s.TTL, 0), longestTTL)
	if ttl != s.TTL {
		z.b.Changed(s.At[0], fmt.Sprintf("TTL %d", s.TTL), fmt.Sprintf("TTL %ds; it must be 0 to %d", ttl, longestTTL), "")
	}
	return seconds(ttl)
}

// values gives the values of a set that records of its type may have, and lists the others.
func (z *Zone) values(s *Set) []string {
	var out []string
	for j, v := range s.Values {
		if strings.IndexFunc(v, unicode.IsControl) >= 0 {
			z.b.Lost(s.At[min(j, len(s.At)-1)], s.Type+" record of "+s.Owner+" "+short(v), "left out: it holds a control character", "")
			continue
		}
		if s.Type != rrdata.Alias {
			if _, err := spec.RecordType(s.Type).Parse(v); err != nil {
				z.b.Lost(s.At[min(j, len(s.At)-1)], s.Type+" record of "+s.Owner+" "+short(v), "left out: it "+err.Error(), "")
				continue
			}
		}
		out = append(out, v)
	}
	return out
}

// short is a value as notes show it.
func short(v string) string {
	if r := []rune(v); len(r) > 80 {
		return string(r[:77]) + "..."
	}
	return v
}

// settle takes away, again and again, what spec refuses of the records together, and lists it.
func (z *Zone) settle(kept []*Set) {
	for {
		bad := z.wrong()
		if len(bad) == 0 {
			return
		}
		records, sets := z.spec.Records[:0], kept[:0]
		for i, r := range z.spec.Records {
			if why, is := bad[i]; is {
				z.lose(kept[i], "it "+why, "")
				continue
			}
			records, sets = append(records, r), append(sets, kept[i])
		}
		z.spec.Records, kept = records, sets
	}
}

// wrong says what spec finds wrong with records, by their place.
func (z *Zone) wrong() map[int]string {
	docs := []spec.Resource{{Kind: spec.KindZone, Name: "a", Zone: &z.spec}}
	found, _ := spec.NewSet(docs).Check(spec.Partial)
	out := map[int]string{}
	for _, e := range found {
		rest, ok := strings.CutPrefix(e.Path, "records[")
		digits, _, closed := strings.Cut(rest, "]")
		if i, err := strconv.Atoi(digits); ok && closed && err == nil && i < len(z.spec.Records) {
			out[i] = e.Problem
		}
	}
	return out
}

// refused says why a record set cannot be in the zone, and what to do.
func (z *Zone) refused(s *Set, steered, alone map[string]bool) (why, todo string) {
	name := z.relative(s.Owner)
	if !z.holds(strings.TrimPrefix(s.Owner, "*.")) {
		name = s.Owner + "."
	}
	d, err := z.spec.Owner(&spec.Record{Name: name})
	_, _, unknown := rrdata.Type(s.Type)
	switch {
	case unknown != nil && s.Type != rrdata.Alias:
		return "the type " + unknown.Error(), ""
	case err != nil:
		return "the name " + err.Error(), ""
	case steered[d] && d != z.Name() && !z.beside(d, s):
		return "its name is steered, and a name is in one place only", "give it a name of its own"
	case steered[d] && (s.Type == "A" || s.Type == "AAAA"):
		return "its name is steered", "put the address into an edge"
	case s.Type == "NS" && s.Owner == z.Name(): // servers has taken those it could
		return "the name servers of the zone stand under ns", ""
	case s.Type == "CNAME" && (s.Owner == z.Name() || alone[s.Owner] || len(s.Values) > 1):
		return "a CNAME stands alone at its name, and never at the zone itself (RFC 1034 section 3.6.2)", "use addresses"
	case len(z.spec.Records) >= z.b.most:
		return fmt.Sprintf("a Zone holds at most %d record sets", z.b.most), "divide the zone"
	case z.bytes >= maxText:
		return fmt.Sprintf("a Zone holds at most about %d MiB of records", maxText>>20), "divide the zone"
	}
	return "", ""
}

// beside reports whether a record set may stand at a steered name: not beside what may be a CNAME, not in the place of what is
// steered, and not with hints that would not follow it.
func (z *Zone) beside(name string, s *Set) bool {
	service := z.b.Find(name)
	if service == nil || service.couldName() || slices.Contains([]string{"A", "AAAA", "CNAME", "NS", "DS", rrdata.Alias}, s.Type) {
		return false
	}
	return !slices.ContainsFunc(s.Values, func(v string) bool {
		data, err := spec.RecordType(s.Type).Parse(v)
		return err == nil && data.Hints()
	})
}

func (z *Zone) relative(owner string) string {
	if owner == z.Name() {
		return "@"
	}
	return strings.TrimSuffix(owner, "."+z.Name())
}

func (z *Zone) resource() spec.Resource {
	return spec.Resource{Kind: spec.KindZone, Name: z.spec.Name, Zone: &z.spec}
}
