package answer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/cookie"
	"steerpoint/authdns/internal/dnstest"
	"steerpoint/snapshot"
)

// resolver is an address the test map has no place for.
var resolver = netip.MustParseAddr("203.0.113.250")

func build(t testing.TB, d *snapshot.DNS) *Index {
	t.Helper()
	ix, err := tryBuild(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

func tryBuild(d *snapshot.DNS, now time.Duration) (*Index, error) {
	tables := make([]Table, len(d.Tables))
	for i, table := range d.Tables {
		if table != nil {
			tables[i] = table
		}
	}
	return Build(d, tables, now, nil)
}

func newResponder(t testing.TB, d *snapshot.DNS) *Responder {
	t.Helper()
	r := NewResponder(Config{MaxUDP: 1232, NSID: "ns1", Version: "steer", Cookies: cookie.NewKeys(cookie.Set{Sign: cookie.Secret{1}}), TCPIdle: 10 * time.Second})
	if d != nil {
		r.SetIndex(build(t, d))
	}
	return r
}

// ask sends a query from client over UDP and parses the reply.
func ask(t testing.TB, r *Responder, q *dns.Msg, client netip.Addr) *dns.Msg {
	t.Helper()
	return dnstest.Unpack(t, r.Respond(nil, dnstest.Pack(t, q), &Exchange{Client: client}))
}

// brief is a reply on one line: rcode, flags and the sections' records without owner names of the answer.
func brief(m *dns.Msg) string {
	rcode := dns.RcodeToString[m.Rcode]
	if m.Rcode == dns.RcodeBadVers {
		rcode = "BADVERS"
	}
	parts := []string{rcode}
	for flag, set := range map[string]bool{"aa": m.Authoritative, "tc": m.Truncated, "rd": m.RecursionDesired, "ra": m.RecursionAvailable, "ad": m.AuthenticatedData, "cd": m.CheckingDisabled, "z": m.Zero} {
		if set {
			parts = append(parts, flag)
		}
	}
	slices.Sort(parts[1:])
	for _, rr := range m.Answer {
		f := strings.Fields(rr.String())
		parts = append(parts, fmt.Sprintf("%s=%s/%s", f[3], strings.Join(f[4:], " "), f[1]))
	}
	for _, rr := range m.Ns {
		parts = append(parts, fmt.Sprintf("%s:%s/%d", dns.TypeToString[rr.Header().Rrtype], rr.Header().Name, rr.Header().Ttl))
	}
	return strings.Join(parts, " ")
}

// TestAnswers is what each name and type of the test map gets, without a client subnet, from an unmapped resolver.
//
// Covers: field 40, field 40b, field 41, field 43, field 44, field 49, A1, A4, rfc 1034 refused, rfc 2308 soa, rfc 2308 ttl, rfc 4592 empty, rfc 8482 one set
func TestAnswers(t *testing.T) {
	r := newResponder(t, dnstest.Map(t))
	soa := func(zone string, ttl int) string { return fmt.Sprintf(" SOA:%s/%d", zone, ttl) }
	const gslb, com = "gslb.example.net.", "example.com."
	for _, row := range []struct{ name, qtype, want string }{
		{"shop.gslb.example.net.", "A", "NOERROR aa A=192.0.2.1/30"},
		{"shop.gslb.example.net.", "AAAA", "NOERROR aa AAAA=2001:db8::1/30"},
		{"SHOP.gslb.Example.NET.", "A", "NOERROR aa A=192.0.2.1/30"},
		{"www.example.com.", "A", "NOERROR aa A=192.0.2.1/30"},
		{"shop.gslb.example.net.", "CNAME", "NOERROR aa" + soa(gslb, 20)},
		{"shop.gslb.example.net.", "TXT", "NOERROR aa" + soa(gslb, 20)},
		{"shop.gslb.example.net.", "TYPE65280", "NOERROR aa" + soa(gslb, 20)},
		{"shop.gslb.example.net.", "HTTPS", "NOERROR aa" + soa(gslb, 20)},
		{"shop.gslb.example.net.", "ANY", "NOERROR aa A=192.0.2.1/30"},
		{"shop.gslb.example.net.", "DS", "NOERROR aa" + soa(gslb, 20)},
		{"x.shop.gslb.example.net.", "A", "NXDOMAIN aa" + soa(gslb, 60)},
		{"plain.gslb.example.net.", "AAAA", "NOERROR aa" + soa(gslb, 30)},
		{"empty.gslb.example.net.", "A", "NOERROR aa" + soa(gslb, 30)},
		// Names between zone and service exist and are empty.
		{"er.gslb.example.net.", "A", "NOERROR aa" + soa(gslb, 60)},
		{"er.gslb.example.net.", "NS", "NOERROR aa" + soa(gslb, 60)},
		{"er.gslb.example.net.", "ANY", "NOERROR aa" + soa(gslb, 60)},
		{"deep.er.gslb.example.net.", "A", "NOERROR aa A=192.0.2.8/30"},
		{"no.er.gslb.example.net.", "A", "NXDOMAIN aa" + soa(gslb, 60)},
		// The apex.
		{gslb, "SOA", "NOERROR aa SOA=ns1.gslb.example.net. hostmaster.gslb.example.net. 7 3600 600 1209600 60/300"},
		{gslb, "NS", "NOERROR aa NS=ns1.gslb.example.net./300 NS=ns2.elsewhere.test./300"},
		{gslb, "A", "NOERROR aa" + soa(gslb, 60)},
		{gslb, "DNSKEY", "NOERROR aa" + soa(gslb, 60)},
		{gslb, "ANY", "NOERROR aa SOA=ns1.gslb.example.net. hostmaster.gslb.example.net. 7 3600 600 1209600 60/300"},
		{com, "A", "NOERROR aa A=192.0.2.7/30"},
		{com, "AAAA", "NOERROR aa" + soa(com, 30)},
		{com, "TXT", `NOERROR aa TXT="v=spf1 -all"/60`},
		{"ns1.gslb.example.net.", "A", "NOERROR aa A=192.0.2.53/300"},
		{"ns1.gslb.example.net.", "AAAA", "NOERROR aa AAAA=2001:db8::53/300"},
		{"ns1.gslb.example.net.", "MX", "NOERROR aa" + soa(gslb, 60)},
		// Static records, wildcards, a zone inside a zone.
		{"mail.example.com.", "A", "NOERROR aa A=192.0.2.25/60 A=192.0.2.26/60"},
		{"alias.example.com.", "A", "NOERROR aa CNAME=mail.example.com./60 A=192.0.2.25/60 A=192.0.2.26/60"},
		{"q.wild.example.com.", "TXT", `NOERROR aa TXT="star"/60`},
		{"p.q.wild.example.com.", "TXT", `NOERROR aa TXT="star"/60`},
		{"q.wild.example.com.", "A", "NOERROR aa" + soa(com, 60)},
		{"a.wild.example.com.", "TXT", "NOERROR aa" + soa(com, 60)},
		{"p.a.wild.example.com.", "TXT", "NXDOMAIN aa" + soa(com, 60)},
		{"b.ent.example.com.", "A", "NOERROR aa" + soa(com, 60)},
		{"ent.example.com.", "A", "NOERROR aa" + soa(com, 60)},
		{"z.b.ent.example.com.", "A", "NOERROR aa A=192.0.2.98/60"},
		{"child.example.com.", "NS", "NOERROR aa NS=ns1.gslb.example.net./300"},
		{"child.example.com.", "DS", "NOERROR aa" + soa(com, 60)},
		{"child.example.com.", "MX", "NOERROR aa" + soa("child.example.com.", 60)},
		{"x.child.example.com.", "A", "NXDOMAIN aa" + soa("child.example.com.", 60)},
		// Not ours.
		{"example.net.", "A", "REFUSED"},
		{"net.", "NS", "REFUSED"},
		{".", "NS", "REFUSED"},
		{"xexample.com.", "A", "REFUSED"},
		{gslb, "AXFR", "REFUSED"},
		{gslb, "IXFR", "REFUSED"},
	} {
		q := dnstest.Query(row.name, dns.TypeNone)
		if n, ok := strings.CutPrefix(row.qtype, "TYPE"); ok {
			fmt.Sscan(n, &q.Question[0].Qtype)
		} else {
			q.Question[0].Qtype = dns.StringToType[row.qtype]
		}
		if got := brief(ask(t, r, q, resolver)); got != row.want {
			t.Errorf("%s %s\n got %s\nwant %s", row.name, row.qtype, got, row.want)
		}
	}
}

// TestGlue checks that NS answers bring the addresses of name servers inside our zones.
func TestGlue(t *testing.T) {
	r := newResponder(t, dnstest.Map(t))
	for _, zone := range []string{"gslb.example.net.", "example.com."} {
		m := ask(t, r, dnstest.Query(zone, dns.TypeNS), resolver)
		var got []string
		for _, rr := range m.Extra {
			if rr.Header().Rrtype != dns.TypeOPT {
				got = append(got, strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
		want := []string{"ns1.gslb.example.net. 300 IN A 192.0.2.53", "ns1.gslb.example.net. 300 IN AAAA 2001:db8::53"}
		if !slices.Equal(got, want) {
			t.Errorf("%s: additional %q, want %q", zone, got, want)
		}
	}
	// 12 header, 22 question, 18 and 32 NS (ns1 and a pointer; a name elsewhere), 20 and 32 glue, 11 OPT.
	if raw := r.Respond(nil, dnstest.Pack(t, dnstest.Query("gslb.example.net.", dns.TypeNS)), &Exchange{Client: resolver}); len(raw) != 147 {
		t.Errorf("%d octets, want 147 with the zone's name as a pointer", len(raw))
	}
}

// TestQuestionKept sends a mixed-case name: the question comes back octet for octet.
//
// Covers: field 50, rfc 4343 match, rfc 1035 question
func TestQuestionKept(t *testing.T) {
	r := newResponder(t, dnstest.Map(t))
	req := dnstest.Raw(0xBEEF, 0x0100, [4]uint16{1}, dnstest.Question("sHoP.gSlB.eXaMpLe.NeT.", dns.TypeA, 1))
	got := r.Respond([]byte("before"), req, &Exchange{Client: resolver})
	if !bytes.HasPrefix(got, []byte("before")) {
		t.Fatal("what was in dst is gone")
	}
	got = got[6:]
	if !bytes.Equal(got[12:len(req)], req[12:]) || !bytes.Equal(got[:2], req[:2]) {
		t.Errorf("question or id changed: %x", got)
	}
	if m := dnstest.Unpack(t, got); brief(m) != "NOERROR aa rd A=192.0.2.1/30" || m.Answer[0].Header().Name != "sHoP.gSlB.eXaMpLe.NeT." {
		t.Errorf("%v", m)
	}
}

// TestOddPackets is the battery of odd messages: what can be answered is answered (RFC 8906).
//
// Covers: field 53, field 52, rfc 1035 header, rfc 1035 names, rfc 1035 classes, rfc 1035 opcodes, rfc 6891 one opt, rfc 6891 version, rfc 6891 options, rfc 6891 do, rfc 6891 sizes, rfc 6891 always, rfc 7873 lengths, rfc 7873 no question, rfc 9619 one
func TestOddPackets(t *testing.T) {
	r := newResponder(t, dnstest.Map(t))
	question := dnstest.Question("plain.gslb.example.net.", dns.TypeA, 1)
	opt := dnstest.OPT(1232, 0, 0)
	raw := dnstest.Raw
	const answered = "NOERROR aa A=192.0.2.7/30"
	for _, row := range []struct {
		name string
		req  []byte
		want string // "" is dropped; "+opt" at the end: with OPT
	}{
		{"plain", raw(1, 0, [4]uint16{1}, question), answered},
		{"all odd flags: TC RA Z AD CD", raw(1, 0x02F0, [4]uint16{1}, question), answered},
		{"RD", raw(1, 0x0100, [4]uint16{1}, question), "NOERROR aa rd A=192.0.2.7/30"},
		{"AA", raw(1, 0x0400, [4]uint16{1}, question), answered},
		{"empty", nil, ""},
		{"eleven octets", make([]byte, 11), ""},
		{"a response", raw(1, 0x8000, [4]uint16{1}, question), ""},
		{"a response of an unknown opcode", raw(1, 0xF800, [4]uint16{1}, question), ""},
		{"header only", raw(1, 0, [4]uint16{}), "FORMERR"},
		{"header only, OPT", raw(1, 0, [4]uint16{0, 0, 0, 1}, opt), "FORMERR+opt"},
		{"cookie only", raw(1, 0, [4]uint16{0, 0, 0, 1}, dnstest.OPT(1232, 0, 0, dnstest.Option(10, 1, 2, 3, 4, 5, 6, 7, 8)...)), "NOERROR+opt"},
		{"question promised, none there", raw(1, 0, [4]uint16{1}), "FORMERR"},
		{"question cut", raw(1, 0, [4]uint16{1}, question[:len(question)-1]), "FORMERR"},
		{"two questions", raw(1, 0, [4]uint16{2}, question, question), "FORMERR"},
		{"two questions, OPT", raw(1, 0, [4]uint16{2, 0, 0, 1}, question, question, opt), "FORMERR+opt"},
		{"question is a pointer to itself", raw(1, 0, [4]uint16{1}, []byte{0xC0, 12, 0, 1, 0, 1}), "FORMERR"},
		{"label of 64 octets", raw(1, 0, [4]uint16{1}, []byte{64}, make([]byte, 64), []byte{0, 0, 1, 0, 1}), "FORMERR"},
		{"name of 256 octets", raw(1, 0, [4]uint16{1}, bytes.Repeat(append([]byte{63}, make([]byte, 63)...), 4), []byte{0, 0, 1, 0, 1}), "FORMERR"},
		{"an answer in the query", raw(1, 0, [4]uint16{1, 1}, question, []byte{0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0}), "FORMERR"},
		{"octets left over", raw(1, 0, [4]uint16{1}, question, []byte{0}), "FORMERR"},
		{"record cut", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, []byte{0, 0, 1}), "FORMERR"},
		{"record longer than the message", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, []byte{0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 9}), "FORMERR"},
		{"another record in additional", raw(1, 0, [4]uint16{1, 0, 0, 2}, question, opt, []byte{0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0}), answered + "+opt"},
		{"OPT", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, opt), answered + "+opt"},
		{"OPT of size 0", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(0, 0, 0)), answered + "+opt"},
		{"OPT with Z flags", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0x7FFF)), answered + "+opt"},
		{"OPT with DO", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0x8000)), answered + "+opt+do"},
		{"unknown option", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0, dnstest.Option(65001, 1, 2, 3)...)), answered + "+opt"},
		{"EDNS version 1", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 1, 0)), "BADVERS+opt"},
		{"EDNS version 100, unknown option", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 100, 0, dnstest.Option(65001, 1)...)), "BADVERS+opt"},
		{"EDNS version 1, options in no format", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 1, 0, 1)), "BADVERS+opt"},
		{"two OPT", raw(1, 0, [4]uint16{1, 0, 0, 2}, question, opt, opt), "FORMERR+opt"},
		{"OPT not at the root", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, []byte{1, 'a'}, opt), "FORMERR"},
		{"OPT in authority", raw(1, 0, [4]uint16{1, 0, 1, 0}, question, opt), "FORMERR"},
		{"option cut", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0, 0, 3, 0, 9)), "FORMERR+opt"},
		{"cookie of 7 octets", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0, dnstest.Option(10, make([]byte, 7)...)...)), "FORMERR+opt"},
		{"cookie of 15 octets", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0, dnstest.Option(10, make([]byte, 15)...)...)), "FORMERR+opt"},
		{"cookie of 41 octets", raw(1, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0, dnstest.Option(10, make([]byte, 41)...)...)), "FORMERR+opt"},
		{"opcode IQUERY", raw(1, 1<<11, [4]uint16{1}, question), "NOTIMP"},
		{"opcode STATUS, OPT", raw(1, 2<<11, [4]uint16{1, 0, 0, 1}, question, opt), "NOTIMP+opt"},
		{"opcode 15, nonsense", raw(1, 15<<11, [4]uint16{9, 9, 9, 9}, []byte{1}), "NOTIMP"},
		{"NOTIFY", raw(1, 4<<11, [4]uint16{1}, question), "NOTIMP"},
		{"UPDATE", raw(1, 5<<11, [4]uint16{1}, question), "REFUSED"},
		{"DSO", raw(1, 6<<11, [4]uint16{}), "NOTIMP"},
		{"class CH", raw(1, 0, [4]uint16{1}, dnstest.Question("plain.gslb.example.net.", dns.TypeA, 3)), "REFUSED"},
		{"class ANY", raw(1, 0, [4]uint16{1}, dnstest.Question("plain.gslb.example.net.", dns.TypeA, 255)), "REFUSED"},
		{"version.bind, configured", raw(1, 0, [4]uint16{1}, dnstest.Question("VERSION.bind.", dns.TypeTXT, 3)), `NOERROR aa TXT="steer"/0`},
		{"hostname.bind, not configured", raw(1, 0, [4]uint16{1}, dnstest.Question("hostname.bind.", dns.TypeTXT, 3)), "REFUSED"},
		{"id.server, not configured", raw(1, 0, [4]uint16{1}, dnstest.Question("id.server.", dns.TypeTXT, 3)), "REFUSED"},
		{"type 0", raw(1, 0, [4]uint16{1}, dnstest.Question("plain.gslb.example.net.", 0, 1)), "NOERROR aa SOA:gslb.example.net./30"},
		{"type OPT", raw(1, 0, [4]uint16{1}, dnstest.Question("plain.gslb.example.net.", 41, 1)), "NOERROR aa SOA:gslb.example.net./30"},
	} {
		got := r.Respond(nil, row.req, &Exchange{Client: resolver})
		text := ""
		if len(got) > 0 {
			m := dnstest.Unpack(t, got)
			text = brief(m)
			if m.Id != 1 || !m.Response {
				t.Errorf("%s: id %d, QR %t", row.name, m.Id, m.Response)
			}
			if opt := m.IsEdns0(); opt != nil {
				text += "+opt"
				if opt.Do() {
					text += "+do"
				}
				if opt.Version() != 0 || opt.UDPSize() != 1232 || opt.Z() != 0 {
					t.Errorf("%s: OPT %v", row.name, opt)
				}
				for _, o := range opt.Option {
					if o.Option() != dns.EDNS0COOKIE {
						t.Errorf("%s: option %v was not asked for, or is an echo", row.name, o)
					}
				}
			}
		}
		if text != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, text, row.want)
		}
	}
}

// TestBeforeFirstMap: SERVFAIL with the extended error "not ready", and only with OPT.
//
// Covers: rfc 8914 not ready, rfc 8914 not ours
func TestBeforeFirstMap(t *testing.T) {
	r := newResponder(t, nil)
	m := ask(t, r, dnstest.Query("shop.gslb.example.net.", dns.TypeA), resolver)
	if brief(m) != "SERVFAIL" || extended(m) != dns.ExtendedErrorCodeNotReady {
		t.Errorf("%v", m)
	}
	plain := new(dns.Msg).SetQuestion("shop.gslb.example.net.", dns.TypeA)
	if m := ask(t, r, plain, resolver); m.Rcode != dns.RcodeServerFailure || m.IsEdns0() != nil {
		t.Errorf("without OPT: %v", m)
	}
	r.SetIndex(build(t, dnstest.Map(t)))
	if m := ask(t, r, dnstest.Query("example.org.", dns.TypeA), resolver); brief(m) != "REFUSED" || extended(m) != dns.ExtendedErrorCodeNotAuthoritative {
		t.Errorf("out of zone: %v", m)
	}
}

func extended(m *dns.Msg) uint16 {
	for _, o := range m.IsEdns0().Option {
		if e, ok := o.(*dns.EDNS0_EDE); ok {
			return e.InfoCode
		}
	}
	return noEDE
}

// TestTruncation asks for a record set that does not fit: TC, empty sections, OPT kept; never above the limits.
//
// Covers: field 51, field 52, rfc 1035 size, rfc 2181 whole sets, rfc 6891 sizes, rfc 6891 always, rfc 9715 size, rfc 9715 early tc
func TestTruncation(t *testing.T) {
	d := dnstest.Map(t)
	big := snapshot.DNSRecord{Name: "big.example.com.", Type: "TXT", TTL: time.Minute}
	for i := range 12 {
		big.Data = append(big.Data, fmt.Sprintf("%q", strings.Repeat(string(rune('a'+i)), 80)))
	}
	huge := big
	huge.Name, huge.Data = "huge.example.com.", append(slices.Clone(big.Data), big.Data...)
	for i := range huge.Data {
		huge.Data[i] = fmt.Sprintf("%q", strings.Repeat("x", 90)+fmt.Sprint(i))
	}
	d.Zones[1].Records = append(d.Zones[1].Records, big, huge)
	r := newResponder(t, d)
	for _, row := range []struct {
		name      string
		opt       bool
		size      uint16
		tcp       bool
		limit     int
		truncated bool
	}{
		{"big.example.com.", false, 0, false, 512, true},
		{"big.example.com.", true, 0, false, 512, true},
		{"big.example.com.", true, 700, false, 700, true},
		{"big.example.com.", true, 1232, false, 1232, false},
		{"big.example.com.", true, 65535, false, 1232, false},
		{"huge.example.com.", true, 65535, false, 1232, true},
		{"huge.example.com.", true, 512, true, 65535, false},
		{"huge.example.com.", false, 0, true, 65535, false},
	} {
		q := new(dns.Msg).SetQuestion(row.name, dns.TypeTXT)
		if row.opt {
			q.SetEdns0(row.size, false)
		}
		got := r.Respond(nil, dnstest.Pack(t, q), &Exchange{Client: resolver, TCP: row.tcp})
		m := dnstest.Unpack(t, got)
		if len(got) > row.limit || m.Truncated != row.truncated || (m.IsEdns0() != nil) != row.opt {
			t.Errorf("%+v: %d octets, tc %t, OPT %t", row, len(got), m.Truncated, m.IsEdns0() != nil)
		}
		if row.truncated != (len(m.Answer) == 0) || len(m.Ns) > 0 {
			t.Errorf("%+v: %d answers, %d authority", row, len(m.Answer), len(m.Ns))
		}
	}
	whole, cut := 0, 0
	for size := uint16(1000); size <= 1232; size++ { // octet by octet across the point where it begins to fit
		q := new(dns.Msg).SetQuestion("big.example.com.", dns.TypeTXT)
		q.SetEdns0(size, false)
		got := r.Respond(nil, dnstest.Pack(t, q), &Exchange{Client: resolver})
		if dnstest.Unpack(t, got).Truncated {
			cut++
		} else {
			whole++
		}
		if len(got) > int(size) {
			t.Errorf("%d octets for a client that takes %d", len(got), size)
		}
	}
	if whole == 0 || cut == 0 {
		t.Errorf("%d whole, %d cut: the sweep misses the point", whole, cut)
	}
}

// TestOptions asks for what OPT can bring: NSID, cookie and keepalive, each only when asked and where it may be.
//
// Covers: field 55, rfc 5001 told, rfc 7828 told, rfc 7873 client only, rfc 7873 same answer
func TestOptions(t *testing.T) {
	r := newResponder(t, dnstest.Map(t))
	q := dnstest.Query("plain.gslb.example.net.", dns.TypeA,
		&dns.EDNS0_NSID{Code: dns.EDNS0NSID}, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
		&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE})
	for _, tcp := range []bool{false, true} {
		got := r.Respond(nil, dnstest.Pack(t, q), &Exchange{Client: resolver, TCP: tcp, Unix: 1_000_000})
		m := dnstest.Unpack(t, got)
		options := map[uint16]string{}
		for _, o := range m.IsEdns0().Option {
			options[o.Option()] = o.String()
		}
		if options[dns.EDNS0NSID] != "6e7331" {
			t.Errorf("tcp %t: NSID %q", tcp, options[dns.EDNS0NSID])
		}
		if c := options[dns.EDNS0COOKIE]; len(c) != 48 || c[:16] != "0102030405060708" {
			t.Errorf("tcp %t: cookie %q", tcp, c)
		}
		if _, ok := options[dns.EDNS0TCPKEEPALIVE]; ok != tcp {
			t.Errorf("tcp %t: keepalive %t", tcp, ok)
		}
		if brief(m) != "NOERROR aa A=192.0.2.7/30" {
			t.Errorf("a cookie changed the answer: %s", brief(m))
		}
	}
}

// TestTTL follows a rule's deadline: the time left rounded up, within minTTL and ttl, and the ttl again once it is over.
//
// Covers: decisions 3
func TestTTL(t *testing.T) {
	d := dnstest.Map(t)
	i := slices.IndexFunc(d.Services, func(s *snapshot.DNSService) bool { return s.Name == "plain" })
	d.Services[i].Rules[0].Soonest = 12500 * time.Millisecond
	ix, err := tryBuild(d, 100*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	r := newResponder(t, nil)
	r.SetIndex(ix)
	for _, row := range []struct {
		now  time.Duration
		want uint32
	}{
		{100 * time.Second, 13},
		{100500 * time.Millisecond, 12},
		{101 * time.Second, 12},
		{107 * time.Second, 6},
		{109 * time.Second, 5},
		{112 * time.Second, 5},
		{112499 * time.Millisecond, 5},
		{112500 * time.Millisecond, 30},
		{time.Hour, 30},
	} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			got := dnstest.Unpack(t, r.Respond(nil, dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", qtype)), &Exchange{Client: resolver, Now: row.now}))
			rr := append(got.Answer, got.Ns...)[0]
			if rr.Header().Ttl != row.want {
				t.Errorf("at %s: %s TTL %d, want %d", row.now, dns.TypeToString[qtype], rr.Header().Ttl, row.want)
			}
		}
	}
}

// TestSerialWraps: the serial is the version mod 2^32.
//
// Covers: rfc 1982 wraps
func TestSerialWraps(t *testing.T) {
	d := dnstest.Map(t)
	d.Version = 1<<32 + 5
	m := ask(t, newResponder(t, d), dnstest.Query("example.com.", dns.TypeSOA), resolver)
	if soa, ok := m.Answer[0].(*dns.SOA); !ok || soa.Serial != 5 {
		t.Errorf("%v", m.Answer)
	}
}

type benchQuery struct {
	name string
	req  []byte
}

func benchQueries(t testing.TB) []benchQuery {
	pack := func(name string, qtype uint16, options ...dns.EDNS0) []byte {
		return dnstest.Pack(t, dnstest.Query(name, qtype, options...))
	}
	formerr := dnstest.Raw(1, 0, [4]uint16{2}, dnstest.Question("example.com.", 1, 1))
	return []benchQuery{
		{"static", pack("mail.example.com.", dns.TypeA)},
		{"steered", pack("shop.gslb.example.net.", dns.TypeA)},
		{"steered-ecs", pack("shop.gslb.example.net.", dns.TypeA, dnstest.ECS("198.51.100.0/24"))},
		{"weighted-ecs", pack("split.gslb.example.net.", dns.TypeA, dnstest.ECS("198.51.100.0/24"))},
		{"cookie", pack("shop.gslb.example.net.", dns.TypeA, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"})},
		{"nodata", pack("er.gslb.example.net.", dns.TypeA)},
		{"nxdomain", pack("a.b.c.d.gslb.example.net.", dns.TypeA)},
		{"refused", pack("www.example.org.", dns.TypeA)},
		{"formerr", formerr},
	}
}

// BenchmarkRespond is one reply, from packet to packet, without the sockets.
func BenchmarkRespond(b *testing.B) {
	r := newResponder(b, dnstest.Map(b))
	for _, q := range benchQueries(b) {
		b.Run(q.name, func(b *testing.B) {
			x, dst := &Exchange{Client: resolver}, make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				binary.BigEndian.PutUint16(q.req, 1)
				r.Respond(dst[:0], q.req, x)
			}
		})
	}
}
