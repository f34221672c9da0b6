package answer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/snapshot"
)

// findCuts finds where zones delegate to others: NS records below a zone's own name, where no zone of ours begins.
func (o *oracle) findCuts() {
	for i := range o.d.Zones {
		z := &o.d.Zones[i]
		for _, r := range z.Records {
			if name := strings.ToLower(r.Name); r.Type == "NS" && o.zone(name) == z && name != z.Name {
				o.cuts = append(o.cuts, name)
			}
		}
	}
}

// cutOf is the highest delegation at or above a name, of the zone that the name lies in; "" if there is none.
func (o *oracle) cutOf(name string) (best string) {
	name = strings.ToLower(name)
	for _, cut := range o.cuts {
		if o.zone(cut) == o.zone(name) && dns.IsSubDomain(cut, name) && (best == "" || dns.IsSubDomain(cut, best)) {
			best = cut
		}
	}
	return best
}

// elsewhere takes one record of a zone that the zone does not answer for: what lies in a zone of ours inside it, or at or below
// a delegation. It reports false for the zone's own.
func (o *oracle) elsewhere(t testing.TB, z *snapshot.DNSZone, r *snapshot.DNSRecord, data string) bool {
	name := strings.ToLower(r.Name)
	rr, err := dns.NewRR(fmt.Sprintf("%s %d IN %s %s", r.Name, int(r.TTL.Seconds()), r.Type, data))
	if err != nil {
		t.Fatal(err)
	}
	if in := o.zone(name); in.Name != z.Name {
		if r.Type == "DS" {
			o.digests[name] = append(o.digests[name], rr)
		}
		return true
	}
	cut := o.cutOf(name)
	switch {
	case cut == "", name == cut && (r.Type == "NS" || r.Type == "DS"):
		return false
	case r.Type == "A", r.Type == "AAAA":
		o.glue[name] = append(o.glue[name], rr)
	}
	return true
}

// referral is what is said at and below a delegation: NS records without AA, and all the addresses that our zones have of
// those servers. There is room for all of them over TCP.
func (o *oracle) referral(cut, asked string) said {
	var s said
	set := o.static[cut][dns.TypeNS]
	// The name of the delegation is a part of the question, and so as it was asked for.
	s.refer = plain(set)
	for _, rr := range set {
		s.extra = append(s.extra, o.addresses(rr.(*dns.NS).Ns)...)
	}
	slices.Sort(s.extra)
	return s
}

// nameServers are the addresses that go with the NS set of a zone: of those that lie in our zones, whoever answers there.
func (o *oracle) nameServers(z *snapshot.DNSZone) (list []string) {
	for _, ns := range z.NS {
		if o.zone(ns.Name) != nil {
			list = append(list, plain(hostRecords(z, &ns))...)
		}
	}
	slices.Sort(list)
	return list
}

func hostRecords(z *snapshot.DNSZone, ns *snapshot.NameServer) (set []dns.RR) {
	for _, a := range ns.Addresses {
		h := dns.RR_Header{Name: ns.Name, Rrtype: dns.TypeAAAA, Class: dns.ClassINET, Ttl: uint32(z.NSTTL.Seconds())}
		if a.Is4() {
			h.Rrtype = dns.TypeA
			set = append(set, &dns.A{Hdr: h, A: a.AsSlice()})
		} else {
			set = append(set, &dns.AAAA{Hdr: h, AAAA: a.AsSlice()})
		}
	}
	return set
}

// addHostGlue notes the addresses of name servers that lie at or below a delegation, unless there are records of that type.
func (o *oracle) addHostGlue() {
	said := map[string]bool{}
	for name, set := range o.glue {
		for _, rr := range set {
			said[name+dns.TypeToString[rr.Header().Rrtype]] = true
		}
	}
	done := map[string]bool{}
	for i := range o.d.Zones {
		z := &o.d.Zones[i]
		for _, ns := range z.NS {
			if o.zone(ns.Name) == nil || o.cutOf(ns.Name) == "" || done[ns.Name] {
				continue
			}
			done[ns.Name] = true
			for _, rr := range hostRecords(z, &ns) {
				if !said[ns.Name+dns.TypeToString[rr.Header().Rrtype]] {
					o.glue[ns.Name] = append(o.glue[ns.Name], rr)
				}
			}
		}
	}
}

// addresses are those that our zones have of a name server, whether they answer for it or not.
func (o *oracle) addresses(name string) (list []string) {
	name = strings.ToLower(name)
	sets := [][]dns.RR{o.glue[name]}
	if o.steered[name] == nil {
		sets = append(sets, o.static[name][dns.TypeA], o.static[name][dns.TypeAAAA])
	}
	for _, set := range sets {
		list = append(list, plain(set)...)
	}
	return list
}

// plain is records as texts in small letters, in order; nil if there is none.
func plain(set []dns.RR) (list []string) {
	for _, rr := range set {
		list = append(list, strings.ToLower(rr.String()))
	}
	slices.Sort(list)
	return list
}

// cutNames are the names that made-up zones have records at and are asked for, in example.com.
var cutNames = func() (list []string) {
	for _, name := range strings.Fields("sub a.sub b.a.sub ns.sub z.sub y.z.sub *.sub other ns.other deep.er er x.deep.er ns1.deep.er a b *.w w c.w child in.child free") {
		list = append(list, name+".example.com.")
	}
	return list
}()

// cutZone is example.com with records made of octets, three a record: where, what, and what it holds. What nobody may write
// is left out: a CNAME beside others, a delegated wildcard, records of other types in a zone inside it.
type cutZone struct {
	d    *snapshot.DNS
	seen map[string]bool // name and type; name alone: there is something
}

// makeCuts makes a map of octets. The first says which zones of ours lie inside example.com besides child.
func makeCuts(base *snapshot.DNS, shape []byte) *snapshot.DNS {
	d := *base
	d.Zones = slices.Clone(base.Zones)
	z := cutZone{d: &d, seen: map[string]bool{}}
	d.Zones[1].Records = slices.Clone(d.Zones[1].Records)
	for _, r := range d.Zones[1].Records {
		z.seen[r.Name], z.seen[r.Name+" "+r.Type] = true, true
	}
	if len(shape) == 0 {
		return &d
	}
	if shape[0]&4 != 0 {
		d.Zones[1].NS = append(slices.Clone(d.Zones[1].NS), snapshot.NameServer{Name: "ns.sub.example.com.", Addresses: []netip.Addr{
			netip.MustParseAddr("192.0.2.153"), netip.MustParseAddr("2001:db8::153"),
		}})
		if shape[0]&8 != 0 { // below a delegation it may have addresses of its own besides
			z.record("sub.example.com.", 1, 0) // to itself and ns.sub
		} else {
			z.seen["ns.sub.example.com."], z.seen["ns.sub.example.com. A"], z.seen["ns.sub.example.com. AAAA"] = true, true, true
		}
	}
	for i, name := range []string{"z.sub.example.com.", "x.deep.er.example.com."} {
		if shape[0]&(1<<i) != 0 {
			inner := d.Zones[2]
			inner.Name, inner.Records = name, nil
			d.Zones = append(d.Zones, inner)
		}
	}
	for shape = shape[1:]; len(shape) >= 3; shape = shape[3:] {
		z.record(cutNames[int(shape[0])%len(cutNames)], shape[1], shape[2])
	}
	return &d
}

// record adds one record set, if it may stand there.
func (z *cutZone) record(name string, what, holds byte) {
	target := func(i int) string { return cutNames[(int(holds)+i)%len(cutNames)] }
	types := []string{"NS", "NS", "A", "AAAA", "DS", "TXT", "CNAME"}
	rrType := types[int(what)%len(types)]
	inner := slices.ContainsFunc(z.d.Zones[2:], func(in snapshot.DNSZone) bool { return dns.IsSubDomain(in.Name, name) })
	apex := slices.ContainsFunc(z.d.Zones[2:], func(in snapshot.DNSZone) bool { return in.Name == name })
	var data []string
	switch rrType {
	case "NS":
		data = []string{target(0), target(3), "ns.far.test."}[:1+what%3]
	case "A":
		data = []string{fmt.Sprintf("192.0.2.%d", holds)}
	case "AAAA":
		data = []string{fmt.Sprintf("2001:db8::%x", holds)}
	case "DS":
		data = []string{fmt.Sprintf("%d 13 2 %064x", int(holds)+1, holds)}
	case "TXT":
		data = []string{fmt.Sprintf(`"%d"`, holds)}
	case "CNAME":
		data = []string{target(0)}
	}
	switch {
	case z.seen[name+" "+rrType], z.seen[name+" CNAME"], rrType == "CNAME" && z.seen[name]:
		return
	case inner && rrType != "A" && rrType != "AAAA" && !(apex && (rrType == "NS" || rrType == "DS")):
		return
	case rrType == "NS" && strings.HasPrefix(name, "*"), rrType == "NS" && strings.HasPrefix(target(0), "*"), rrType == "NS" && strings.HasPrefix(target(3), "*"):
		return
	case rrType == "DS" && !apex && !z.seen[name+" NS"]:
		return
	}
	z.seen[name], z.seen[name+" "+rrType] = true, true
	z.d.Zones[1].Records = append(z.d.Zones[1].Records, snapshot.DNSRecord{Name: name, Type: rrType, TTL: time.Minute, Data: data})
}

// checkCuts builds a map of octets, from nothing and upon the map of half of them, and asks both for some names.
func checkCuts(t *testing.T, base *snapshot.DNS, shape []byte, names []string, types ...uint16) {
	t.Helper()
	half := makeCuts(base, shape[:len(shape)/2])
	d := makeCuts(base, shape)
	d.Version++
	o := newOracle(t, d)
	fresh, changed := NewResponder(Config{MaxUDP: 1232}), NewResponder(Config{MaxUDP: 1232})
	fresh.SetIndex(rebuild(t, d, 0, nil))
	changed.SetIndex(rebuild(t, d, 0, rebuild(t, half, 0, nil)))
	for _, name := range names {
		for _, qtype := range types {
			q := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
			req, err := q.Pack()
			if err != nil || qtype == dns.TypeOPT || q.Unpack(req) != nil || len(q.Question) != 1 {
				continue
			}
			asked := q.Question[0].Name
			want := o.answers(asked, q.Question[0].Qtype, netip.Addr{}, resolver)
			for how, r := range map[string]*Responder{"from nothing": fresh, "from the map before": changed} {
				got := heard(dnstest.Unpack(t, r.Respond(nil, req, &Exchange{Client: resolver, TCP: true})))
				if !slices.ContainsFunc(want, got.equal) {
					t.Fatalf("made %s of %v:\n%s %s\n got %+v\nwant one of %+v", how, d.Zones[1].Records, asked, dns.TypeToString[qtype], got, want)
				}
			}
		}
	}
}

var cutTypes = []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeNS, dns.TypeDS, dns.TypeTXT, dns.TypeCNAME, dns.TypeANY, dns.TypeSOA}

// TestCutsAgree: zones with delegations, glue, DS sets, names below delegations, wildcards, CNAMEs and zones of ours below
// delegations, all at random, answer as the oracle does: made anew, and made from the map before.
//
// Covers: issue5 differential fuzz, issue5 incremental, rfc 1034 referral, rfc 9471 in domain, rfc 4592 encloser
func TestCutsAgree(t *testing.T) {
	base := dnstest.Map(t)
	names := []string{"example.com.", "q.free.example.com."}
	for _, name := range cutNames {
		names = append(names, name, "no."+name)
	}
	rng := rand.New(rand.NewPCG(5, 9471))
	for range 60 {
		shape := make([]byte, 1+3*rng.IntN(30))
		for i := range shape {
			shape[i] = byte(rng.Uint32())
		}
		checkCuts(t, base, shape, names, cutTypes...)
	}
}

// FuzzCuts is TestCutsAgree for any octets, type and name, and a name of the zone and below it.
//
// Covers: issue5 differential fuzz
func FuzzCuts(f *testing.F) {
	base := dnstest.Map(f)
	f.Add([]byte{3, 0, 0, 3, 3, 2, 9, 4, 5, 1}, "x.y.sub.example.com.", byte(4), uint16(dns.TypeDS))
	f.Add([]byte{1, 0, 1, 2, 2, 2, 61, 0, 4, 7, 9, 2, 1, 9, 6, 2}, "SUB.example.com.", byte(0), uint16(dns.TypeA))
	f.Add([]byte{12, 3, 2, 9, 2, 5, 1}, "example.com.", byte(1), uint16(dns.TypeNS))
	f.Fuzz(func(t *testing.T, shape []byte, name string, which byte, qtype uint16) {
		own := cutNames[int(which)%len(cutNames)]
		checkCuts(t, base, shape[:min(len(shape), 120)], []string{name, own, "no." + own}, qtype)
	})
}
