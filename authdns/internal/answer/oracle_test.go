package answer

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/geo"
	"steerpoint/snapshot"
)

// oracle answers as the snapshot says, by the DNS library and by looking at everything: slow, and without any of the parts
// that answer in the server but the scope table.
type oracle struct {
	d       *snapshot.DNS
	static  map[string]map[uint16][]dns.RR // by name in lower case
	steered map[string]*snapshot.DNSService
	// Of delegations, see oraclecut_test.go.
	cuts    []string
	glue    map[string][]dns.RR // addresses at and below them
	digests map[string][]dns.RR // DS sets that zones have for zones of ours inside them
}

func newOracle(t testing.TB, d *snapshot.DNS) *oracle {
	t.Helper()
	o := &oracle{
		d: d, static: map[string]map[uint16][]dns.RR{}, steered: map[string]*snapshot.DNSService{},
		glue: map[string][]dns.RR{}, digests: map[string][]dns.RR{},
	}
	o.findCuts()
	add := func(name, rrType string, ttl time.Duration, data string) {
		rr, err := dns.NewRR(fmt.Sprintf("%s %d IN %s %s", name, int(ttl.Seconds()), rrType, data))
		if err != nil {
			t.Fatal(err)
		}
		name = strings.ToLower(name)
		if o.static[name] == nil {
			o.static[name] = map[uint16][]dns.RR{}
		}
		set := o.static[name][rr.Header().Rrtype]
		if !slices.ContainsFunc(set, func(x dns.RR) bool { return dns.IsDuplicate(x, rr) }) { // name servers of several zones
			o.static[name][rr.Header().Rrtype] = append(set, rr)
		}
	}
	for _, z := range d.Zones {
		add(z.Name, "SOA", z.NSTTL, fmt.Sprintf("%s %s %d %d %d %d %d", z.SOA.MName, z.SOA.RName, uint32(d.Version),
			int(z.SOA.Refresh.Seconds()), int(z.SOA.Retry.Seconds()), int(z.SOA.Expire.Seconds()), int(z.SOA.Minimum.Seconds())))
		for _, ns := range z.NS {
			add(z.Name, "NS", z.NSTTL, ns.Name)
			for _, a := range ns.Addresses {
				if o.zone(ns.Name) != nil && o.cutOf(ns.Name) == "" {
					add(ns.Name, map[bool]string{true: "A", false: "AAAA"}[a.Is4()], z.NSTTL, a.String())
				}
			}
		}
		for _, r := range z.Records {
			for _, data := range r.Data {
				if !o.elsewhere(t, &z, &r, data) {
					add(r.Name, r.Type, r.TTL, data)
				}
			}
		}
	}
	o.addHostGlue()
	for _, s := range d.Services {
		for _, name := range append([]string{s.CNAME}, s.Hosted...) {
			o.steered[strings.ToLower(name)] = s
		}
		for _, name := range s.Flat {
			o.steered[strings.ToLower(name)] = flattened(s)
		}
	}
	return o
}

// flattened is a service with addresses where it has names that have some.
func flattened(s *snapshot.DNSService) *snapshot.DNSService {
	flat := *s
	flat.Rules = slices.Clone(s.Rules)
	for i := range flat.Rules {
		r := &flat.Rules[i]
		r.Choices = slices.Clone(r.Choices)
		for j := range r.Choices {
			if c := &r.Choices[j]; c.Target != "" {
				c.Target, c.A, c.AAAA = "", c.FlatA, c.FlatAAAA
			}
		}
	}
	return &flat
}

// zone is the closest zone at or above a name.
func (o *oracle) zone(name string) (best *snapshot.DNSZone) {
	for i := range o.d.Zones {
		if z := &o.d.Zones[i]; dns.IsSubDomain(z.Name, name) && (best == nil || len(z.Name) > len(best.Name)) {
			best = z
		}
	}
	return best
}

// exists reports whether a name holds something or has something below it.
func (o *oracle) exists(name string) bool {
	for _, known := range [][]string{keys(o.static), keys(o.steered)} {
		for _, k := range known {
			if dns.IsSubDomain(name, k) {
				return true
			}
		}
	}
	return false
}

func keys[V any](m map[string]V) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	return list
}

// said is one way to answer; its records are as text.
type said struct {
	rcode  int
	aa     bool
	answer []string
	soa    string   // owner and TTL of the SOA in authority
	refer  []string // NS records in authority
	extra  []string // addresses in the additional section
}

// answers are the ways in which a question may be answered: several where a choice is free.
func (o *oracle) answers(asked string, qtype uint16, ecs, client netip.Addr) []said {
	return o.answersAfter(0, asked, qtype, ecs, client)
}

// answersAfter is answers at the end of so many CNAMEs.
func (o *oracle) answersAfter(hops int, asked string, qtype uint16, ecs, client netip.Addr) []said {
	name := strings.ToLower(asked)
	z := o.zone(name)
	if z == nil || qtype == dns.TypeAXFR || qtype == dns.TypeIXFR {
		return []said{{rcode: dns.RcodeRefused}}
	}
	negative := func(z *snapshot.DNSZone, rcode int, most ...time.Duration) said {
		ttl := slices.Min(append(most, z.NSTTL, z.SOA.Minimum))
		return said{rcode: rcode, aa: true, soa: fmt.Sprint(z.Name, " ", int(ttl.Seconds()))}
	}
	if cut := o.cutOf(name); cut != "" && (qtype != dns.TypeDS || name != cut) {
		return []said{o.referral(cut, asked)}
	}
	at := name
	if !o.exists(name) {
		up := name
		for !o.exists(up) {
			up = parentOf(up)
		}
		at = "*." + up
		if o.static[at] == nil && o.steered[at] == nil {
			return []said{negative(z, dns.RcodeNameError)}
		}
	}
	if outer := o.zone(parentOf(name)); qtype == dns.TypeDS && name == z.Name && outer != nil {
		if cut := o.cutOf(parentOf(name)); cut != "" {
			return []said{o.referral(cut, asked)}
		}
		if set := o.digests[name]; set != nil {
			return []said{{aa: true, answer: o.text(set, asked)}}
		}
		return []said{negative(outer, 0)}
	}
	if sets := o.static[at]; len(sets) > 0 {
		if qtype == dns.TypeANY {
			var all []said
			for _, set := range sets {
				all = append(all, said{aa: true, answer: o.text(set, asked)})
			}
			return all
		}
		if set := sets[qtype]; set != nil {
			s := said{aa: true, answer: o.text(set, asked)}
			if qtype == dns.TypeNS && name == z.Name && hops == 0 {
				s.extra = o.nameServers(z)
			}
			return []said{s}
		}
		if set := sets[dns.TypeCNAME]; set != nil {
			return o.follow(hops, set, asked, qtype, ecs, client)
		}
	}
	s := o.steered[at]
	if s == nil {
		return []said{negative(z, 0)}
	}
	return o.steer(s, asked, qtype, ecs, client, func(ttl time.Duration) said { return negative(z, 0, s.NegativeTTL, ttl) })
}

// follow answers with a CNAME and, where it leads to a name that is ours to answer for, with what that answers (RFC 1034 section
// 4.3.2). After eight CNAMEs the next one is the answer, whatever it leads to.
func (o *oracle) follow(hops int, cname []dns.RR, asked string, qtype uint16, ecs, client netip.Addr) []said {
	alone := []said{{aa: true, answer: o.text(cname, asked)}}
	target := cname[0].(*dns.CNAME).Target
	if hops == 8 || o.zone(strings.ToLower(target)) == nil {
		return alone
	}
	all := o.answersAfter(hops+1, target, qtype, ecs, client)
	if all[0].refer != nil {
		return alone
	}
	for i := range all {
		all[i].answer = append(o.text(cname, asked), all[i].answer...)
		slices.Sort(all[i].answer)
	}
	return all
}

// parentOf is the name above; "" above the root.
func parentOf(name string) string {
	if at, end := dns.NextLabel(name, 0); !end {
		return name[at:]
	}
	if name == "." {
		return ""
	}
	return "."
}

// steer gives what a service may answer.
func (o *oracle) steer(s *snapshot.DNSService, asked string, qtype uint16, ecs, client netip.Addr, nodata func(time.Duration) said) (all []said) {
	r := &s.Rules[len(s.Rules)-1]
	if len(s.Rules) > 1 {
		value := geo.Unmapped
		for _, a := range []netip.Addr{ecs, client} {
			if a.IsValid() && value == geo.Unmapped {
				value, _ = o.d.Tables[s.Table].Lookup(a)
			}
		}
		if value != geo.Unmapped {
			r = &s.Rules[value]
		}
	}
	named := slices.ContainsFunc(r.Choices, func(c snapshot.DNSChoice) bool { return c.Target != "" })
	for _, c := range r.Choices {
		var rrs []dns.RR
		head := func(t uint16) dns.RR_Header {
			return dns.RR_Header{Name: asked, Rrtype: t, Class: dns.ClassINET, Ttl: uint32(r.TTL.Seconds())}
		}
		switch any := qtype == dns.TypeANY; {
		case c.Target != "":
			rrs = append(rrs, &dns.CNAME{Hdr: head(dns.TypeCNAME), Target: c.Target})
		case qtype == dns.TypeA, any && len(c.A) > 0:
			for _, a := range c.A {
				rrs = append(rrs, &dns.A{Hdr: head(dns.TypeA), A: a.AsSlice()})
			}
		case qtype == dns.TypeAAAA, any:
			for _, a := range c.AAAA {
				rrs = append(rrs, &dns.AAAA{Hdr: head(dns.TypeAAAA), AAAA: a.AsSlice()})
			}
		}
		switch {
		case len(rrs) > 0:
			all = append(all, said{aa: true, answer: o.text(rrs, asked)})
		case named: // the edges that are weighed
			all = append(all, nodata(r.TTL))
		}
	}
	if len(all) == 0 {
		return []said{nodata(r.TTL)}
	}
	return all
}

// text is a set in the order of its texts, owned by the name asked.
func (o *oracle) text(set []dns.RR, asked string) (list []string) {
	for _, rr := range set {
		rr = dns.Copy(rr)
		rr.Header().Name = asked
		list = append(list, line(rr))
	}
	slices.Sort(list)
	return list
}

// line is a record as text. The name of a name server may end in the name asked for, in its letters.
func line(rr dns.RR) string {
	if ns, ok := rr.(*dns.NS); ok {
		return (&dns.NS{Hdr: ns.Hdr, Ns: strings.ToLower(ns.Ns)}).String()
	}
	return rr.String()
}

// heard is what a reply says.
func heard(m *dns.Msg) said {
	s := said{rcode: m.Rcode, aa: m.Authoritative}
	for _, rr := range m.Answer {
		s.answer = append(s.answer, line(rr))
	}
	slices.Sort(s.answer)
	if len(m.Ns) == 1 && m.Ns[0].Header().Rrtype == dns.TypeSOA {
		s.soa = fmt.Sprint(m.Ns[0].Header().Name, " ", m.Ns[0].Header().Ttl)
	} else {
		s.refer = plain(m.Ns)
	}
	s.extra = plain(slices.DeleteFunc(m.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT }))
	return s
}

func (s said) equal(o said) bool {
	return s.rcode == o.rcode && s.aa == o.aa && strings.EqualFold(s.soa, o.soa) && slices.Equal(s.answer, o.answer) &&
		slices.Equal(s.refer, o.refer) && slices.Equal(s.extra, o.extra)
}

// FuzzAnswers asks for any name and type, with any client subnet or none: what the server answers is what the oracle does,
// record by record.
//
// Covers: issue5 differential fuzz, A1, field 40, field 41, field 43
func FuzzAnswers(f *testing.F) {
	d := staticMap(f)
	o := newOracle(f, d)
	r := newResponder(f, d)
	for _, name := range append(append(keys(o.static), keys(o.steered)...), "no.such.example.com.", "x.wild.example.com.", "x.y.b.ent.example.com.",
		"b.ent.example.com.", "er.gslb.example.net.", `a\.b.wild.example.com.`, "com.", ".", "WWW.example.COM.", "x.child.example.com.",
		"Sub.example.com.", "a.b.SUB.example.com.", "x.below.other.example.com.", "x.deep.sub.example.com.") {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeANY, dns.TypeNS, dns.TypeDS, dns.TypeSOA, 65280} {
			f.Add(name, qtype, uint32(0xC6336400), byte(24))
		}
	}
	f.Fuzz(func(t *testing.T, name string, qtype uint16, subnet uint32, bits byte) {
		q := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
		var ecs netip.Addr
		if bits > 0 && bits <= 32 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, subnet))), int(bits)).Masked()
			q = dnstest.Query(dns.Fqdn(name), qtype, dnstest.ECS(p.String()))
			ecs = p.Addr()
		}
		req, err := q.Pack()
		if err != nil || qtype == dns.TypeOPT {
			return
		}
		// As the server sees it: a name has many ways to be written.
		if q = new(dns.Msg); q.Unpack(req) != nil || len(q.Question) != 1 {
			return
		}
		asked := q.Question[0].Name
		got := heard(dnstest.Unpack(t, r.Respond(nil, req, &Exchange{Client: resolver, TCP: true})))
		want := o.answers(asked, q.Question[0].Qtype, ecs, resolver)
		if !slices.ContainsFunc(want, got.equal) {
			t.Fatalf("%s %s from %v:\n got %+v\nwant one of %+v", asked, dns.TypeToString[qtype], ecs, got, want)
		}
	})
}
