package answer

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
)

// everyKind is a message of every kind that is answered in another way.
func everyKind(t testing.TB) []benchQuery {
	pack := func(m *dns.Msg) []byte { return dnstest.Pack(t, m) }
	query := func(name string, qtype uint16, options ...dns.EDNS0) []byte {
		return pack(dnstest.Query(name, qtype, options...))
	}
	const shop, com = "shop.gslb.example.net.", "example.com."
	plain := new(dns.Msg).SetQuestion(shop, dns.TypeA)
	chaos := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	notify := new(dns.Msg).SetNotify(com)
	update := new(dns.Msg).SetUpdate(com)
	signed := dnstest.Query(shop, dns.TypeA)
	signed.IsEdns0().SetDo()
	optOut := dnstest.ECS("0.0.0.0/0")
	server := "0102030405060708" + "0100000000000000" + "1122334455667788"
	long := strings.Repeat("x.", 110) + com
	return append(benchQueries(t), []benchQuery{
		{"without EDNS", pack(plain)},
		{"DO", pack(signed)},
		{"mixed case", query("ShOp.gSlB.eXaMpLe.NeT.", dns.TypeA)},
		{"wildcard", query("x.wild.example.com.", dns.TypeTXT)},
		{"wildcard, no data", query("x.wild.example.com.", dns.TypeA)},
		{"CNAME", query("alias.example.com.", dns.TypeA)},
		{"apex NS with glue", query("gslb.example.net.", dns.TypeNS)},
		{"SOA", query(com, dns.TypeSOA)},
		{"ANY", query(com, dns.TypeANY)},
		{"DS of a zone inside", query("child.example.com.", dns.TypeDS)},
		{"steered, AAAA", query(shop, dns.TypeAAAA, dnstest.ECS("2001:db8:1::/48"))},
		{"steered, other type", query(shop, dns.TypeTXT)},
		{"steered, a name", query(shop, dns.TypeA, dnstest.ECS("192.0.2.0/24"))},
		{"steered, nothing", query("empty.gslb.example.net.", dns.TypeA)},
		{"no place", query(shop, dns.TypeA, dnstest.ECS("10.1.2.0/24"))},
		{"mapped IPv4", query(shop, dns.TypeA, dnstest.ECS("2001:db8::/32"))},
		{"opted out", query(shop, dns.TypeA, optOut)},
		{"weighted, no subnet", query("split.gslb.example.net.", dns.TypeA)},
		{"server cookie", query(shop, dns.TypeA, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: server})},
		{"every option", query(shop, dns.TypeA, &dns.EDNS0_NSID{Code: dns.EDNS0NSID}, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE},
			&dns.EDNS0_LOCAL{Code: 19}, dnstest.ECS("198.51.100.0/24"))},
		{"long name", query(long, dns.TypeA)},
		{"transfer", query(com, dns.TypeAXFR)},
		{"chaos", pack(chaos)},
		{"notify", pack(notify)},
		{"update", pack(update)},
		{"version of EDNS", dnstest.Raw(1, 0, [4]uint16{1, 0, 0, 1}, dnstest.Question(com, 1, 1), dnstest.OPT(1232, 1, 0))},
		{"malformed subnet", dnstest.Raw(1, 0, [4]uint16{1, 0, 0, 1}, dnstest.Question(com, 1, 1), dnstest.OPT(1232, 0, 0, dnstest.Option(8, 0, 9)...))},
		{"two questions", dnstest.Raw(1, 0, [4]uint16{2}, dnstest.Question(com, 1, 1), dnstest.Question(com, 1, 1))},
		{"response", dnstest.Raw(1, 0x8000, [4]uint16{1}, dnstest.Question(com, 1, 1))},
		{"nothing", nil},
	}...)
}

// TestNoAllocation: a reply allocates nothing, whatever it is: over UDP and TCP, while control speaks and while it is
// silent, and before the first map.
//
// Covers: issue5 no allocation
func TestNoAllocation(t *testing.T) {
	silent := newResponder(t, dnstest.Map(t))
	silent.SetNote("no word from control")
	for name, r := range map[string]*Responder{"with a map": newResponder(t, dnstest.Map(t)), "silent": silent, "without a map": newResponder(t, nil)} {
		for _, q := range everyKind(t) {
			for _, tcp := range []bool{false, true} {
				x, dst := &Exchange{Client: resolver, TCP: tcp}, make([]byte, 0, 4096)
				if n := testing.AllocsPerRun(20, func() { r.Respond(dst[:0], q.req, x) }); n != 0 {
					t.Errorf("%s, %s, TCP %t: %v allocations", name, q.name, tcp, n)
				}
			}
		}
	}
}
