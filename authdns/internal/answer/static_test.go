package answer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/internal/rrdata"
	"steerpoint/snapshot"
)

// staticMap is the test map with delegations, chains of CNAMEs and names of ALIAS records beside.
func staticMap(t testing.TB) *snapshot.DNS {
	d := dnstest.Map(t)
	set := func(zone int, name, rrType string, data ...string) {
		d.Zones[zone].Records = append(d.Zones[zone].Records, snapshot.DNSRecord{Name: name, Type: rrType, TTL: time.Minute, Data: data})
	}
	com := func(name, rrType string, data ...string) { set(1, name, rrType, data...) }
	// A delegation with servers inside it, beside it, in authoritative data, and elsewhere.
	com("sub.example.com.", "NS", "ns1.sub.example.com.", "NS2.Sub.example.com.", "ns.other.example.com.", "many.example.com.", "ns.far.test.")
	com("many.example.com.", "A", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7", "192.0.2.8")
	com("sub.example.com.", "DS", "12345 13 2 "+strings.Repeat("ab", 32))
	com("ns1.sub.example.com.", "A", "192.0.2.61")
	com("ns1.sub.example.com.", "AAAA", "2001:db8::61")
	com("ns2.sub.example.com.", "A", "192.0.2.62")
	com("txt.sub.example.com.", "TXT", "occluded")
	com("*.deep.sub.example.com.", "A", "192.0.2.63")
	com("other.example.com.", "NS", "ns.other.example.com.")
	com("ns.other.example.com.", "A", "192.0.2.71")
	com("below.other.example.com.", "NS", "ns.far.test.") // below a delegation: never seen
	// A wildcard beside the delegation, and one that is a CNAME.
	com("*.example.com.", "TXT", "any")
	com("*.cw.example.com.", "CNAME", "mail.example.com.")
	// Chains.
	com("c1.example.com.", "CNAME", "C2.Example.com.")
	com("c2.example.com.", "CNAME", "mail.example.com.")
	com("csteer.example.com.", "CNAME", "shop.gslb.example.net.")
	com("csplit.example.com.", "CNAME", "split.gslb.example.net.")
	com("cgone.example.com.", "CNAME", "no.gslb.example.net.")
	com("cfar.example.com.", "CNAME", "www.far.test.")
	com("csub.example.com.", "CNAME", "www.sub.example.com.")
	com("capex.example.com.", "CNAME", "gslb.example.net.")
	com("loop1.example.com.", "CNAME", "loop2.example.com.")
	com("loop2.example.com.", "CNAME", "loop1.example.com.")
	com("cstar.example.com.", "CNAME", "q.wild.example.com.")
	// The zone inside belongs to itself, but for its DS set.
	com("child.example.com.", "NS", "ns1.gslb.example.net.")
	com("child.example.com.", "DS", "1 13 2 "+strings.Repeat("cd", 32))
	// A name where only addresses are answered: shop answers telecom with a name.
	d.Services[0].Flat = []string{"alias.child.example.com."}
	c := &d.Services[0].Rules[1].Choices[0]
	c.FlatA, c.FlatAAAA = []netip.Addr{netip.MustParseAddr("192.0.2.91")}, []netip.Addr{netip.MustParseAddr("2001:db8::91")}
	return d
}

// TestDelegation is what is asked at and below delegations: a referral without AA, the DS set with it, and everything a child zone
// may hold left to the child.
//
// Covers: rfc 1034 referral, rfc 4592 encloser, rfc 8020 nothing below, rfc 9156 ancestors, rfc 4035 ds above
func TestDelegation(t *testing.T) {
	r := newResponder(t, staticMap(t))
	ns := " NS:sub.example.com./60 NS:sub.example.com./60 NS:sub.example.com./60 NS:sub.example.com./60 NS:sub.example.com./60"
	for _, row := range []struct{ name, qtype, want string }{
		{"sub.example.com.", "NS", "NOERROR" + ns},
		{"sub.example.com.", "A", "NOERROR" + ns},
		{"sub.example.com.", "SOA", "NOERROR" + ns},
		{"sub.example.com.", "ANY", "NOERROR" + ns},
		{"SUB.example.com.", "A", "NOERROR" + strings.ReplaceAll(ns, "sub", "SUB")},
		{"www.sub.example.com.", "A", "NOERROR" + ns},
		{"a.b.c.sub.example.com.", "TXT", "NOERROR" + ns},
		{"ns1.sub.example.com.", "A", "NOERROR" + ns},
		{"txt.sub.example.com.", "TXT", "NOERROR" + ns},
		{"x.deep.sub.example.com.", "A", "NOERROR" + ns},
		{"deep.sub.example.com.", "A", "NOERROR" + ns},
		{"www.sub.example.com.", "DS", "NOERROR" + ns},
		{"sub.example.com.", "DS", "NOERROR aa DS=12345 13 2 " + strings.ToUpper(strings.Repeat("ab", 32)) + "/60"},
		{"other.example.com.", "DS", "NOERROR aa SOA:example.com./60"},
		{"x.below.other.example.com.", "A", "NOERROR NS:other.example.com./60"},
		{"child.example.com.", "DS", "NOERROR aa DS=1 13 2 " + strings.ToUpper(strings.Repeat("cd", 32)) + "/60"},
		{"child.example.com.", "NS", "NOERROR aa NS=ns1.gslb.example.net./300"},
		// The wildcard reaches what does not exist, and nothing below what does.
		{"nothing.example.com.", "TXT", `NOERROR aa TXT="any"/60`},
		{"a.b.nothing.example.com.", "TXT", `NOERROR aa TXT="any"/60`},
		{"nothing.example.com.", "A", "NOERROR aa SOA:example.com./60"},
		{"x.mail.example.com.", "TXT", "NXDOMAIN aa SOA:example.com./60"},
		{"x.cw.example.com.", "A", "NOERROR aa CNAME=mail.example.com./60 A=192.0.2.25/60 A=192.0.2.26/60"},
		{"x.cw.example.com.", "CNAME", "NOERROR aa CNAME=mail.example.com./60"},
		{"cw.example.com.", "A", "NOERROR aa SOA:example.com./60"},
		{"*.cw.example.com.", "CNAME", "NOERROR aa CNAME=mail.example.com./60"},
	} {
		q := dnstest.Query(row.name, dns.StringToType[row.qtype])
		if got := brief(ask(t, r, q, resolver)); got != row.want {
			t.Errorf("%s %s\n got %s\nwant %s", row.name, row.qtype, got, row.want)
		}
	}
}

// TestReferralGlue: addresses of servers inside the delegation go with it or TC is set; the others only where they fit. Names
// in the reply are what they are in the zone, wherever pointers lead.
//
// Covers: rfc 9471 in domain, rfc 9471 sibling
func TestReferralGlue(t *testing.T) {
	r := newResponder(t, staticMap(t))
	extra := func(m *dns.Msg) (out []string) {
		for _, rr := range m.Extra {
			if rr.Header().Rrtype != dns.TypeOPT {
				out = append(out, strings.ToLower(strings.ReplaceAll(rr.String(), "\t", " ")))
			}
		}
		slices.Sort(out)
		return out
	}
	inside := []string{
		"ns1.sub.example.com. 60 in a 192.0.2.61", "ns1.sub.example.com. 60 in aaaa 2001:db8::61", "ns2.sub.example.com. 60 in a 192.0.2.62",
	}
	all := append(slices.Clone(inside), "ns.other.example.com. 60 in a 192.0.2.71")
	for i := range 8 {
		all = append(all, fmt.Sprintf("many.example.com. 60 in a 192.0.2.%d", i+1))
	}
	slices.Sort(all)
	sizes := map[string]int{}
	for tcp := range 2 {
		for size := uint16(512); size < 1232; size += 60 {
			q := new(dns.Msg).SetQuestion("w.sub.example.com.", dns.TypeA)
			q.SetEdns0(size, false)
			got := r.Respond([]byte("before"), dnstest.Pack(t, q), &Exchange{Client: resolver, TCP: tcp == 1})
			m := dnstest.Unpack(t, got[6:])
			if !slices.Equal(extra(m), all) || m.Truncated || m.Authoritative {
				t.Fatalf("size %d, tcp %d: %v", size, tcp, m)
			}
			for _, rr := range m.Ns {
				if !strings.EqualFold(rr.Header().Name, "sub.example.com.") {
					t.Fatal(rr)
				}
			}
		}
	}
	// The message limit is 512 at least, so the question is made long until things begin not to fit.
	label := strings.Repeat("x", 63) + "."
	for _, prefix := range []string{"", label, label + label, label + label + label, label + label + label + strings.Repeat("y", 40) + "."} {
		for pad := range 60 {
			name := strings.Repeat("z", pad+1) + "." + prefix + "sub.example.com."
			if len(name) > 253 {
				continue
			}
			q := new(dns.Msg).SetQuestion(name, dns.TypeA)
			m := dnstest.Unpack(t, r.Respond(nil, dnstest.Pack(t, q), &Exchange{Client: resolver}))
			switch got := extra(m); {
			case m.Truncated && len(m.Ns)+len(got) == 0:
				sizes["truncated"]++
			case slices.Equal(got, inside):
				sizes["needed only"]++
			case slices.Equal(got, all):
				sizes["all"]++
			default:
				t.Fatalf("%s: %v", name, m)
			}
		}
	}
	if sizes["all"] == 0 || sizes["needed only"] == 0 {
		t.Errorf("the sweep misses a point: %v", sizes)
	}
}

// TestChain follows CNAMEs inside our zones: the last name says rcode, denial and scope.
//
// Covers: issue5 static zones, rfc 1034 chain, rfc 2308 chain, rfc 4592 cname
func TestChain(t *testing.T) {
	r := newResponder(t, staticMap(t))
	const mail = "A=192.0.2.25/60 A=192.0.2.26/60"
	for _, row := range []struct{ name, qtype, want string }{
		{"c1.example.com.", "A", "NOERROR aa CNAME=C2.Example.com./60 CNAME=mail.example.com./60 " + mail},
		{"c1.example.com.", "AAAA", "NOERROR aa CNAME=C2.Example.com./60 CNAME=mail.example.com./60 SOA:example.com./60"},
		{"c1.example.com.", "CNAME", "NOERROR aa CNAME=C2.Example.com./60"},
		{"c1.example.com.", "ANY", "NOERROR aa CNAME=C2.Example.com./60"},
		{"csteer.example.com.", "A", "NOERROR aa CNAME=shop.gslb.example.net./60 A=192.0.2.1/30"},
		{"csteer.example.com.", "TXT", "NOERROR aa CNAME=shop.gslb.example.net./60 SOA:gslb.example.net./20"},
		{"cgone.example.com.", "A", "NXDOMAIN aa CNAME=no.gslb.example.net./60 SOA:gslb.example.net./60"},
		{"cfar.example.com.", "A", "NOERROR aa CNAME=www.far.test./60"},
		{"csub.example.com.", "A", "NOERROR aa CNAME=www.sub.example.com./60"},
		{"capex.example.com.", "SOA", "NOERROR aa CNAME=gslb.example.net./60 SOA=ns1.gslb.example.net. hostmaster.gslb.example.net. 7 3600 600 1209600 60/300"},
		{"capex.example.com.", "NS", "NOERROR aa CNAME=gslb.example.net./60 NS=ns1.gslb.example.net./300 NS=ns2.elsewhere.test./300"},
		{"cstar.example.com.", "TXT", `NOERROR aa CNAME=q.wild.example.com./60 TXT="star"/60`},
	} {
		q := dnstest.Query(row.name, dns.StringToType[row.qtype])
		m := ask(t, r, q, resolver)
		if got := brief(m); got != row.want {
			t.Errorf("%s %s\n got %s\nwant %s", row.name, row.qtype, got, row.want)
		}
		checkOwners(t, row.name, m)
	}
	loop := ask(t, r, dnstest.Query("loop1.example.com.", dns.TypeA), resolver)
	if len(loop.Answer) != maxChain+1 || loop.Rcode != dns.RcodeSuccess {
		t.Errorf("a circle answers with %d CNAMEs", len(loop.Answer))
	}
	checkOwners(t, "loop1.example.com.", loop)
}

// checkOwners follows the answer from the question on: each record's owner is the question's name or what a CNAME led to.
func checkOwners(t *testing.T, name string, m *dns.Msg) {
	t.Helper()
	for _, rr := range m.Answer {
		if !strings.EqualFold(rr.Header().Name, name) {
			t.Errorf("owner %s where %s is asked for: %v", rr.Header().Name, name, m.Answer)
		}
		if c, ok := rr.(*dns.CNAME); ok {
			name = c.Target
		}
	}
}

// TestChainScope: a CNAME to a steered name has the scope and the TTL of the steered part; one to a static name has scope 0.
//
// Covers: issue5 static zones, rfc 7871 static
func TestChainScope(t *testing.T) {
	r := newResponder(t, staticMap(t))
	for _, row := range []struct {
		name, subnet string
		scope        int
		want         string
	}{
		{"csteer.example.com.", "198.51.100.0/24", 26, "NOERROR aa CNAME=shop.gslb.example.net./60 A=198.51.100.1/30 A=198.51.100.2/30"},
		{"shop.gslb.example.net.", "198.51.100.0/24", 26, "NOERROR aa A=198.51.100.1/30 A=198.51.100.2/30"},
		{"csteer.example.com.", "192.0.2.0/24", 24, "NOERROR aa CNAME=shop.gslb.example.net./60 CNAME=shop.cdn-vendor.test./30"},
		{"csplit.example.com.", "198.51.100.0/24", 24, ""},
		{"c1.example.com.", "198.51.100.0/24", 0, "NOERROR aa CNAME=C2.Example.com./60 CNAME=mail.example.com./60 A=192.0.2.25/60 A=192.0.2.26/60"},
		{"sub.example.com.", "198.51.100.0/24", 0, ""},
	} {
		m := ask(t, r, dnstest.Query(row.name, dns.TypeA, dnstest.ECS(row.subnet)), resolver)
		if s := dnstest.Subnet(m); s == nil || int(s.SourceScope) != row.scope {
			t.Errorf("%s for %s: subnet %v, want scope %d", row.name, row.subnet, s, row.scope)
		}
		if got := brief(m); row.want != "" && got != row.want {
			t.Errorf("%s for %s\n got %s\nwant %s", row.name, row.subnet, got, row.want)
		}
	}
}

// TestFlat: at an apex or an ALIAS the service answers with the addresses of the name that it answers with elsewhere, by the
// same rule and with the same scope.
//
// Covers: field 47, field 48
func TestFlat(t *testing.T) {
	r := newResponder(t, staticMap(t))
	for _, row := range []struct {
		name, qtype, subnet, want string
		scope                     int
	}{
		{"alias.child.example.com.", "A", "192.0.2.0/24", "NOERROR aa A=192.0.2.91/30", 24},
		{"alias.child.example.com.", "AAAA", "192.0.2.0/24", "NOERROR aa AAAA=2001:db8::91/30", 24},
		{"alias.child.example.com.", "MX", "192.0.2.0/24", "NOERROR aa SOA:child.example.com./20", 0},
		{"shop.gslb.example.net.", "A", "192.0.2.0/24", "NOERROR aa CNAME=shop.cdn-vendor.test./30", 24},
		{"alias.child.example.com.", "A", "198.51.100.0/24", "NOERROR aa A=198.51.100.1/30 A=198.51.100.2/30", 26},
	} {
		m := ask(t, r, dnstest.Query(row.name, dns.StringToType[row.qtype], dnstest.ECS(row.subnet)), resolver)
		if got := brief(m); got != row.want {
			t.Errorf("%s %s for %s\n got %s\nwant %s", row.name, row.qtype, row.subnet, got, row.want)
		}
		if s := dnstest.Subnet(m); s == nil || int(s.SourceScope) != row.scope {
			t.Errorf("%s %s for %s: subnet %v, want scope %d", row.name, row.qtype, row.subnet, s, row.scope)
		}
	}
	d := staticMap(t)
	d.Services[0].Flat = append(d.Services[0].Flat, "example.com.") // another service is there
	if _, err := tryBuild(d, 0); err == nil || !strings.Contains(err.Error(), "is a name of service shop and of service plain") {
		t.Error(err)
	}
}

// Nothing is allocated for referrals, chains and names of ALIAS records.
//
// Covers: issue5 no allocation
func TestNoAllocationStatic(t *testing.T) {
	r := newResponder(t, staticMap(t))
	for _, name := range []string{"www.sub.example.com.", "sub.example.com.", "c1.example.com.", "csteer.example.com.", "loop1.example.com.", "x.cw.example.com.", "alias.child.example.com."} {
		req := dnstest.Pack(t, dnstest.Query(name, dns.TypeA, dnstest.ECS("192.0.2.0/24")))
		x, dst := &Exchange{Client: resolver}, make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(100, func() { r.Respond(dst[:0], req, x) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestTypes: every type of record comes back as it was written, unknown ones too, and in unknown ones nothing is compressed.
//
// Covers: rfc 2181, rfc 3597 as written, rfc 3597 no compression, rfc 3597 types by number, rfc 9460 alias mode
func TestTypes(t *testing.T) {
	d := dnstest.Map(t)
	rows := [][2]string{
		{"A", "192.0.2.1"},
		{"AAAA", "2001:db8::1"},
		{"AFSDB", "1 afs.example.com."},
		{"CAA", `0 issue "ca.example.net"`},
		{"CERT", "PGP 0 0 aGVsbG8="},
		{"CSYNC", "66 3 A NS AAAA"},
		{"EUI48", "00-00-5e-00-53-2a"},
		{"HINFO", `"cpu" "os"`},
		{"HTTPS", `1 . alpn="h2,h3" port="8443" key65000="x"`},
		{"LOC", "52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m"},
		{"MX", "10 mail.example.com."},
		{"NAPTR", `10 20 "s" "SIP+D2U" "!^.*$!sip:x@example.com!" .`},
		{"OPENPGPKEY", "aGVsbG8="},
		{"PTR", "host.example.com."},
		{"RP", "admin.example.com. txt.example.com."},
		{"SRV", "0 5 443 app.example.com."},
		{"SSHFP", "4 2 " + strings.Repeat("ab", 32)},
		{"SVCB", "0 other.example.net."},
		{"TLSA", "3 1 1 " + strings.Repeat("cd", 32)},
		{"TXT", `"one" "two"`},
		{"URI", `10 1 "https://example.com/"`},
		{"TYPE65280", `\# 5 c00c000102`},
		{"TYPE64000", `\# 0`},
	}
	for _, row := range rows {
		d.Zones[1].Records = append(d.Zones[1].Records, snapshot.DNSRecord{Name: strings.ToLower(row[0]) + ".example.com.", Type: row[0], TTL: time.Minute, Data: []string{row[1]}})
	}
	r := newResponder(t, d)
	for _, row := range rows {
		qtype, ok := dns.StringToType[row[0]]
		if !ok {
			qtype = map[string]uint16{"TYPE65280": 65280, "TYPE64000": 64000}[row[0]]
		}
		m := ask(t, r, dnstest.Query(strings.ToLower(row[0])+".example.com.", qtype), resolver)
		if len(m.Answer) != 1 {
			t.Errorf("%s: %v", row[0], m)
			continue
		}
		got := rrdata.Text(m.Answer[0])
		want, err := dns.NewRR(". 60 IN " + row[0] + " " + row[1])
		if err != nil {
			t.Fatal(err)
		}
		if text := rrdata.Text(want); got != text {
			t.Errorf("%s: %s, want %s", row[0], got, text)
		}
	}
}
