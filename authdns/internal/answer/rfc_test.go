package answer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/authdns/internal/sign"
	"steerpoint/snapshot"
)

// put adds a record set to a zone of a map.
func put(z *snapshot.DNSZone, name, rrType string, data ...string) {
	z.Records = append(z.Records, snapshot.DNSRecord{Name: name, Type: rrType, TTL: time.Minute, Data: data})
}

// TestNegativeTTL: the SOA in a denial has the lesser of its own TTL and its minimum, whichever that is; asked for, it has its own.
//
// Covers: rfc 2308 ttl
func TestNegativeTTL(t *testing.T) {
	for _, row := range []struct {
		ttl, minimum, want time.Duration
	}{
		{300 * time.Second, 60 * time.Second, 60 * time.Second},
		{30 * time.Second, 60 * time.Second, 30 * time.Second},
		{30 * time.Second, 0, 0},
	} {
		d := dnstest.Map(t)
		d.Zones[1].NSTTL, d.Zones[1].SOA.Minimum = row.ttl, row.minimum
		r := newResponder(t, d)
		for _, name := range []string{"no.example.com.", "mail.example.com."} {
			m := ask(t, r, dnstest.Query(name, dns.TypeMX), resolver)
			if len(m.Ns) != 1 || m.Ns[0].Header().Ttl != uint32(row.want/time.Second) || m.Ns[0].(*dns.SOA).Minttl != uint32(row.minimum/time.Second) {
				t.Errorf("TTL %s, minimum %s: %s MX: %v", row.ttl, row.minimum, name, m.Ns)
			}
		}
		if m := ask(t, r, dnstest.Query("example.com.", dns.TypeSOA), resolver); len(m.Answer) != 1 || m.Answer[0].Header().Ttl != uint32(row.ttl/time.Second) {
			t.Errorf("TTL %s: %v", row.ttl, m)
		}
	}
}

// TestOnlyLettersHaveCases: octets that differ by the bit that makes letters small, and are no letters of ASCII, are two names.
//
// Covers: rfc 4343 ascii
func TestOnlyLettersHaveCases(t *testing.T) {
	d := dnstest.Map(t)
	z := &d.Zones[1]
	put(z, `\193.example.com.`, "TXT", "high")
	put(z, "[.example.com.", "TXT", "bracket")
	put(z, `\064.example.com.`, "TXT", "at")
	put(z, "Az.example.com.", "TXT", "letters")
	r := newResponder(t, d)
	for name, found := range map[string]bool{
		`\193.example.com.`: true, `\225.example.com.`: false, "[.example.com.": true, "{.example.com.": false,
		`\064.example.com.`: true, "`.example.com.": false, "aZ.example.com.": true, "AZ.EXAMPLE.com.": true,
	} {
		if m := ask(t, r, dnstest.Query(name, dns.TypeTXT), resolver); (len(m.Answer) == 1) != found {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// TestWildcardExample is the zone of RFC 4592 section 2.2.1, and what it says of each question there.
//
// Covers: rfc 4592 example, rfc 4592 encloser, rfc 4592 empty, field 41, field 43
func TestWildcardExample(t *testing.T) {
	d := dnstest.Map(t)
	d.Services, d.Tables = nil, nil
	ns1 := snapshot.NameServer{Name: "ns.example.com."}
	d.Zones = d.Zones[:1]
	z := &d.Zones[0]
	z.Name, z.NS = "example.", []snapshot.NameServer{ns1, {Name: "ns.example.net."}}
	put(z, "*.example.", "TXT", "this is a wildcard")
	put(z, "*.example.", "MX", "10 host1.example.")
	put(z, "sub.*.example.", "TXT", "this is not a wildcard")
	put(z, "host1.example.", "A", "192.0.2.1")
	put(z, "_ssh._tcp.host1.example.", "SRV", "0 5 22 host1.example.")
	put(z, "_ssh._tcp.host2.example.", "SRV", "0 5 22 host2.example.")
	put(z, "subdel.example.", "NS", "ns.example.com.", "ns.example.net.")
	// Of section 2.2.2: one that exists only because of what is below it covers names with nothing.
	put(z, "sub.*.empty.example.", "TXT", "below")
	r := newResponder(t, d)
	const soa, refer = "NOERROR aa SOA:example./60", "NOERROR NS:subdel.example./60 NS:subdel.example./60"
	for _, row := range []struct{ name, qtype, want string }{
		// "would be synthesized from one of the wildcards"
		{"host3.example.", "MX", "NOERROR aa MX=10 host1.example./60"},
		{"host3.example.", "A", soa},
		{"foo.bar.example.", "TXT", `NOERROR aa TXT="this is a wildcard"/60`},
		// "would not be synthesized from any of the wildcards"
		{"host1.example.", "MX", soa},
		{"sub.*.example.", "MX", soa},
		{"_telnet._tcp.host1.example.", "SRV", "NXDOMAIN aa SOA:example./60"},
		{"host.subdel.example.", "A", refer},
		{"ghost.*.example.", "MX", "NXDOMAIN aa SOA:example./60"},
		// Around them.
		{"*.example.", "MX", "NOERROR aa MX=10 host1.example./60"},
		{"sub.*.example.", "TXT", `NOERROR aa TXT="this is not a wildcard"/60`},
		{"host2.example.", "MX", soa},
		{"_tcp.host1.example.", "TXT", soa},
		{"x.empty.example.", "TXT", soa},
		{"y.x.empty.example.", "TXT", soa},
		{"*.empty.example.", "TXT", soa},
		{"empty.example.", "TXT", soa},
	} {
		if got := brief(ask(t, r, dnstest.Query(row.name, dns.StringToType[row.qtype]), resolver)); got != row.want {
			t.Errorf("%s %s\n got %s\nwant %s", row.name, row.qtype, got, row.want)
		}
	}
}

// TestAncestors: in zones made at random, whatever lies above a name that exists answers A and NS with no error, since resolvers
// that hide names from servers ask for that first; and below a name that does not exist nothing does.
//
// Covers: rfc 9156 ancestors, rfc 8020 nothing below, field 40
func TestAncestors(t *testing.T) {
	base := dnstest.Map(t)
	rng := rand.New(rand.NewPCG(9156, 8020))
	for range 50 {
		shape := make([]byte, 60)
		for i := range shape {
			shape[i] = byte(rng.Uint32())
		}
		d := makeCuts(base, shape)
		r := newResponder(t, d)
		gone := func(name string, qtype uint16) bool {
			m := ask(t, r, dnstest.Query(name, qtype), resolver)
			return m.Rcode == dns.RcodeNameError && len(m.Answer) == 0 // behind a CNAME it says something of another name
		}
		missing := map[string]bool{}
		for _, name := range cutNames {
			missing[name] = gone(name, dns.TypeA)
		}
		o := newOracle(t, d)
		for _, name := range append(keys(o.static), keys(o.steered)...) {
			for up := parentOf(name); o.zone(up) != nil; up = parentOf(up) {
				if gone(up, dns.TypeA) || gone(up, dns.TypeNS) {
					t.Errorf("%s exists, and %s is said not to, in %v", name, up, d.Zones[1].Records)
				}
				if missing[up] {
					t.Errorf("%s does not exist, and %s does", up, name)
				}
			}
		}
	}
}

// TestNotTailored: what describes the zone itself is the same for everyone, whatever client subnet comes; so are referrals.
//
// Covers: rfc 7871 infrastructure, rfc 7871 static
func TestNotTailored(t *testing.T) {
	r, _ := signed(t, sign.Config{}, staticMap(t), "gslb.example.net.", "example.com.")
	for _, row := range []struct {
		name  string
		qtype uint16
	}{
		{"gslb.example.net.", dns.TypeSOA},
		{"gslb.example.net.", dns.TypeNS},
		{"gslb.example.net.", dns.TypeDNSKEY},
		{"example.com.", dns.TypeCDS},
		{"child.example.com.", dns.TypeDS},
		{"sub.example.com.", dns.TypeNS},
		{"x.sub.example.com.", dns.TypeA},
		{"no.gslb.example.net.", dns.TypeA},
	} {
		var first string
		for _, subnet := range []string{"192.0.2.0/24", "198.51.100.0/24", "198.51.100.64/26", "2001:db8:1::/48"} {
			m := ask(t, r, dnstest.Query(row.name, row.qtype, dnstest.ECS(subnet)), resolver)
			s := dnstest.Subnet(m)
			if s == nil || s.SourceScope != 0 {
				t.Errorf("%s %s for %s: %v", row.name, dns.TypeToString[row.qtype], subnet, s)
			}
			if got := brief(m); first == "" {
				first = got
			} else if got != first {
				t.Errorf("%s %s for %s: %s, and for others %s", row.name, dns.TypeToString[row.qtype], subnet, got, first)
			}
		}
	}
}

// TestNothingUnasked: who asks without options, or without OPT, gets none.
//
// Covers: rfc 7871 unasked, rfc 6891 always, rfc 8914 only with opt, rfc 5001 told
func TestNothingUnasked(t *testing.T) {
	r := newResponder(t, staticMap(t))
	r.SetNote("no word from control")
	for _, name := range []string{"shop.gslb.example.net.", "split.gslb.example.net.", "mail.example.com.", "no.example.com.", "sub.example.com.", "example.org."} {
		bare := new(dns.Msg).SetQuestion(name, dns.TypeA)
		if m := ask(t, r, bare, resolver); m.IsEdns0() != nil {
			t.Errorf("%s: OPT to who sent none: %v", name, m)
		}
		opt := ask(t, r, dnstest.Query(name, dns.TypeA), resolver).IsEdns0()
		if opt == nil {
			t.Fatalf("%s: no OPT to who sent one", name)
		}
		for _, x := range opt.Option {
			if x.Option() != dns.EDNS0EDE {
				t.Errorf("%s: %v was not asked for", name, x)
			}
		}
	}
}

// TestANY: one record set, and nothing beside it, whatever the transport.
//
// Covers: rfc 8482 one set
func TestANY(t *testing.T) {
	d := staticMap(t)
	put(&d.Zones[1], "mail.example.com.", "TXT", "more")
	put(&d.Zones[1], "mail.example.com.", "MX", "10 mail.example.com.")
	r := newResponder(t, d)
	for _, name := range []string{"mail.example.com.", "example.com.", "shop.gslb.example.net.", "c1.example.com."} {
		for _, tcp := range []bool{false, true} {
			m := dnstest.Unpack(t, r.Respond(nil, dnstest.Pack(t, dnstest.Query(name, dns.TypeANY)), &Exchange{Client: resolver, TCP: tcp}))
			if len(m.Answer) == 0 || m.Truncated {
				t.Errorf("%s, tcp %t: %v", name, tcp, m)
			}
			for _, rr := range m.Answer {
				if rr.Header().Rrtype != m.Answer[0].Header().Rrtype {
					t.Errorf("%s, tcp %t: two sets: %v", name, tcp, m)
				}
			}
		}
	}
}

// TestDenialsHideNothing: whatever a resolver that takes denials for more than they were asked for (RFC 8198) has kept, it denies
// nothing that another client, or another question, is answered: every NSEC covers no other name, and lists every type that
// anybody finds at its own.
//
// Covers: rfc 8198 hides nothing, rfc 9824 nodata
func TestDenialsHideNothing(t *testing.T) {
	d := dnstest.Map(t)
	d.Services[0].Rules[1].Choices[0] = d.Services[0].Rules[3].Choices[0] // addresses everywhere
	r, _ := signed(t, sign.Config{}, d, "gslb.example.net.", "example.com.")
	types := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeNS, dns.TypeSOA, dns.TypeDNSKEY}
	subnets := []string{"203.0.113.0/28", "192.0.2.0/24", "198.51.100.0/26", "10.0.0.0/8"}
	names := append(keys(newOracle(t, d).static), "shop.gslb.example.net.", "plain.gslb.example.net.", "er.gslb.example.net.", "no.gslb.example.net.", "q.wild.example.com.")
	for _, name := range names {
		if strings.Contains(name, "child.") {
			continue // not signed
		}
		found := map[uint16]bool{}
		var denials []*dns.NSEC
		asked := map[*dns.NSEC]uint16{}
		for _, qtype := range types {
			for _, subnet := range subnets {
				m := secureAsk(t, r, name, qtype, false, &Exchange{}, dnstest.ECS(subnet))
				for _, rr := range m.Answer {
					found[rr.Header().Rrtype] = true
				}
				for _, rr := range m.Ns {
					if n, ok := rr.(*dns.NSEC); ok {
						denials, asked[n] = append(denials, n), qtype
					}
				}
			}
		}
		if found[dns.TypeCNAME] {
			continue // what is denied there is what it leads to, and that is asked for by itself
		}
		delete(found, dns.TypeRRSIG)
		for _, n := range denials {
			if !strings.EqualFold(n.Hdr.Name, name) || !strings.EqualFold(n.NextDomain, `\000.`+name) {
				t.Errorf("%s: the denial covers more than the name: %v", name, n)
			}
			listed := map[uint16]bool{}
			for _, x := range n.TypeBitMap {
				listed[x] = true
			}
			for x := range found {
				if !listed[x] && x != asked[n] {
					t.Errorf("%s: others find %s, and this denies it: %v", name, dns.TypeToString[x], n)
				}
			}
		}
	}
}
