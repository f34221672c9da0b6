package authdns

import (
	"encoding/binary"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
)

// odd is one query of the battery of RFC 8906 section 8, and what must come back.
type odd struct {
	section, name string
	flags         uint16
	qtype         uint16
	opt           []byte // nil: none
	dig           string // options of dig for the same query
	rcode         int
	soa           bool // the SOA is answered
	bare          bool // no question need come back
}

const zoneAsked = "gslb.example.net."

// battery is section 8 of RFC 8906, in its order. Our reply has OPT exactly where the query had it, always of version 0.
func battery() []odd {
	const soa, unknownType, ad, cd, z, rd = dns.TypeSOA, 1000, 0x20, 0x10, 0x40, 0x100
	opt := func(version byte, flags uint16, options ...byte) []byte {
		return dnstest.OPT(1232, version, flags, options...)
	}
	unknown := dnstest.Option(100)
	all := append(dnstest.Option(dns.EDNS0NSID), dnstest.Option(dns.EDNS0COOKIE, 1, 2, 3, 4, 5, 6, 7, 8)...)
	all = append(append(all, dnstest.Option(dns.EDNS0EXPIRE)...), dnstest.Option(dns.EDNS0SUBNET, 0, 1, 0, 0)...)
	return []odd{
		{"8.1.1", "is the zone served", 0, soa, nil, "+noedns +noad +norec soa", dns.RcodeSuccess, true, false},
		{"8.1.2", "unknown type", 0, unknownType, nil, "+noedns +noad +norec type1000", dns.RcodeSuccess, false, false},
		{"8.1.3.1", "CD", cd, soa, nil, "+noedns +noad +norec +cd soa", dns.RcodeSuccess, true, false},
		{"8.1.3.2", "AD", ad, soa, nil, "+noedns +norec +ad soa", dns.RcodeSuccess, true, false},
		{"8.1.3.3", "the reserved bit", z, soa, nil, "+noedns +noad +norec +zflag soa", dns.RcodeSuccess, true, false},
		{"8.1.3.4", "recursion desired", rd, soa, nil, "+noedns +noad +rec soa", dns.RcodeSuccess, true, false},
		{"8.1.4", "unknown opcode", 15 << 11, soa, nil, "+noedns +noad +opcode=15 +norec +header-only", dns.RcodeNotImplemented, false, true},
		{"8.2.1", "minimal EDNS", 0, soa, opt(0, 0), "+nocookie +edns=0 +noad +norec soa", dns.RcodeSuccess, true, false},
		{"8.2.2", "EDNS version 1", 0, soa, opt(1, 0), "+nocookie +edns=1 +noednsneg +noad +norec soa", dns.RcodeBadVers, false, false},
		{"8.2.3", "unknown option", 0, soa, opt(0, 0, unknown...), "+nocookie +edns=0 +noad +norec +ednsopt=100 soa", dns.RcodeSuccess, true, false},
		{"8.2.4", "unknown flags", 0, soa, opt(0, 0x40), "+nocookie +edns=0 +noad +norec +ednsflags=0x40 soa", dns.RcodeSuccess, true, false},
		{"8.2.5", "EDNS version 1 with unknown flags", 0, soa, opt(1, 0x40), "+nocookie +edns=1 +noednsneg +noad +norec +ednsflags=0x40 soa", dns.RcodeBadVers, false, false},
		{"8.2.6", "EDNS version 1 with an unknown option", 0, soa, opt(1, 0, unknown...), "+nocookie +edns=1 +noednsneg +noad +norec +ednsopt=100 soa", dns.RcodeBadVers, false, false},
		{"8.2.7", "DO, DNSKEY, 512 octets", 0, dns.TypeDNSKEY, dnstest.OPT(512, 0, 0x8000), "+nocookie +norec +dnssec +bufsize=512 +ignore dnskey", dns.RcodeSuccess, false, false},
		{"8.2.8", "DO with EDNS version 1", 0, soa, opt(1, 0x8000), "+nocookie +edns=1 +noednsneg +noad +norec +dnssec soa", dns.RcodeBadVers, false, false},
		{"8.2.9", "several known options", 0, soa, opt(0, 0, all...), "+edns=0 +noad +norec +cookie +nsid +expire +subnet=0.0.0.0/0 soa", dns.RcodeSuccess, true, false},
	}
}

func (o *odd) packet() []byte {
	counts, parts := [4]uint16{1}, [][]byte{dnstest.Question(zoneAsked, o.qtype, dns.ClassINET)}
	if o.opt != nil {
		counts[3], parts = 1, append(parts, o.opt)
	}
	return dnstest.Raw(0x8906, o.flags, counts, parts...)
}

// check looks at a reply.
func (o *odd) check(t *testing.T, how string, m *dns.Msg) {
	t.Helper()
	opt := m.IsEdns0()
	rcode := m.Rcode // the library puts the extended part in
	soa := len(m.Answer) == 1 && m.Answer[0].Header().Rrtype == dns.TypeSOA
	switch {
	case rcode != o.rcode, soa != o.soa, !m.Response, m.Id != 0x8906:
		t.Errorf("%s %s, %s: %v", o.section, o.name, how, m)
	case (opt != nil) != (o.opt != nil), opt != nil && (opt.Version() != 0 || opt.Z() != 0):
		t.Errorf("%s %s, %s: OPT %v", o.section, o.name, how, opt)
	case m.Zero, m.RecursionAvailable, m.AuthenticatedData, m.RecursionDesired != (o.flags&0x100 != 0), m.Opcode != int(o.flags>>11):
		t.Errorf("%s %s, %s: header %v", o.section, o.name, how, m.MsgHdr)
	case !o.bare && len(m.Question) != 1, o.rcode == dns.RcodeSuccess != m.Authoritative:
		t.Errorf("%s %s, %s: %v", o.section, o.name, how, m)
	}
	if opt == nil {
		return
	}
	for _, x := range opt.Option {
		if x.Option() == 100 || x.Option() == dns.EDNS0EXPIRE {
			t.Errorf("%s %s, %s: an option that is not ours comes back: %v", o.section, o.name, how, x)
		}
	}
}

// TestBattery sends the battery over sockets, UDP and TCP: every query is answered, as RFC 8906 wants it.
//
// Covers: field 53, rfc 8906 battery, rfc 6891 version, rfc 6891 options, rfc 1035 header, rfc 4035 bits
func TestBattery(t *testing.T) {
	r := start(t, Config{}, dnstest.Map(t))
	udp, err := net.Dial("udp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp := dialTCP(t, r.addr)
	if err := udp.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for _, o := range battery() {
		if _, err := udp.Write(o.packet()); err != nil {
			t.Fatal(err)
		}
		n, err := udp.Read(buf)
		if err != nil {
			t.Fatalf("%s %s: no answer: %v", o.section, o.name, err)
		}
		o.check(t, "UDP", dnstest.Unpack(t, buf[:n]))
		if _, err := tcp.Write(frame(o.packet())); err != nil {
			t.Fatal(err)
		}
		o.check(t, "TCP", readTCP(t, tcp))
	}
}

// TestBatteryByDig sends it by dig, with the options that RFC 8906 gives.
//
// Covers: rfc 8906 by dig
func TestBatteryByDig(t *testing.T) {
	dig, err := exec.LookPath("dig")
	if err != nil {
		t.Skip("there is no dig here: Debian has it in bind9-dnsutils")
	}
	r := start(t, Config{}, dnstest.Map(t))
	host, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range battery() {
		for _, transport := range []string{"+notcp", "+tcp"} {
			args := append([]string{"@" + host, "-p", port, transport, "+tries=1", "+time=30"}, strings.Fields(o.dig)...)
			if !o.bare {
				args = append(args, zoneAsked)
			}
			out, err := exec.CommandContext(t.Context(), dig, args...).CombinedOutput()
			text := string(out)
			want := "status: " + rcodeText(uint16(o.rcode))
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("%s %s: dig %s: %v, want %q\n%s", o.section, o.name, strings.Join(args, " "), err, want, text)
			}
			if got := strings.Contains(text, "\tIN\tSOA\t"); got != (o.soa || o.rcode == dns.RcodeSuccess) {
				t.Errorf("%s %s: SOA %t\n%s", o.section, o.name, got, text)
			}
			if got := strings.Contains(text, "EDNS: version: 0"); got != (o.opt != nil) || strings.Contains(text, "MBZ") || strings.Contains(text, "OPT=100") {
				t.Errorf("%s %s: OPT\n%s", o.section, o.name, text)
			}
		}
	}
}

// TestNeverSilent sends what nobody should over both transports: each packet with a header that is no answer is answered
// with its own ID or, over TCP, its connection closed, and the next client is served.
//
// Covers: issue2 bad input, issue5 bad input, rfc 8906 never silent, rfc 1035 names, rfc 9619 one
func TestNeverSilent(t *testing.T) {
	r := start(t, Config{}, dnstest.Map(t))
	question := dnstest.Question("plain.gslb.example.net.", dns.TypeA, 1)
	long := dnstest.OPT(1232, 0, 0, dnstest.Option(65001, make([]byte, 3000)...)...)
	packets := map[string][]byte{
		"no question":                      dnstest.Raw(7, 0, [4]uint16{}),
		"65535 questions":                  dnstest.Raw(7, 0, [4]uint16{65535}, question),
		"two questions":                    dnstest.Raw(7, 0, [4]uint16{2}, question, question),
		"a name that points to itself":     dnstest.Raw(7, 0, [4]uint16{1}, []byte{0xC0, 12, 0, 1, 0, 1}),
		"a name that points into a circle": dnstest.Raw(7, 0, [4]uint16{1}, []byte{1, 'a', 0xC0, 16, 0xC0, 14, 0, 1, 0, 1}),
		"a name that points ahead":         dnstest.Raw(7, 0, [4]uint16{1}, []byte{0xC0, 0xFF, 0, 1, 0, 1}),
		"a label of a kind there is not":   dnstest.Raw(7, 0, [4]uint16{1}, []byte{0x41, 1, 0, 0, 1, 0, 1}),
		"a cut question":                   dnstest.Raw(7, 0, [4]uint16{1}, question[:10]),
		"OPT of no length":                 dnstest.Raw(7, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(0, 0, 0)),
		"an OPT of 3000 octets":            dnstest.Raw(7, 0, [4]uint16{1, 0, 0, 1}, question, long),
		"an OPT longer than its packet":    dnstest.Raw(7, 0, [4]uint16{1, 0, 0, 1}, question, []byte{0, 0, 41, 4, 0, 0, 0, 0, 0, 255, 255}),
		"an option longer than its OPT":    dnstest.Raw(7, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0, 0, 10, 255, 255, 1)),
		"class 0":                          dnstest.Raw(7, 0, [4]uint16{1}, dnstest.Question("plain.gslb.example.net.", 1, 0)),
		"class NONE":                       dnstest.Raw(7, 0, [4]uint16{1}, dnstest.Question("plain.gslb.example.net.", 1, 254)),
		"class ANY":                        dnstest.Raw(7, 0, [4]uint16{1}, dnstest.Question("plain.gslb.example.net.", 1, 255)),
		"class 65535":                      dnstest.Raw(7, 0, [4]uint16{1}, dnstest.Question("plain.gslb.example.net.", 1, 65535)),
		"type 65535":                       dnstest.Raw(7, 0, [4]uint16{1}, dnstest.Question("plain.gslb.example.net.", 65535, 1)),
		"records where none belong":        dnstest.Raw(7, 0, [4]uint16{1, 1, 1, 1}, question, []byte{0, 0, 1, 0, 1}),
	}
	for opcode := range uint16(16) {
		packets["opcode "+dns.OpcodeToString[int(opcode)]+string(rune('A'+opcode))] = dnstest.Raw(7, opcode<<11, [4]uint16{1}, question)
	}
	udp, err := net.Dial("udp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	if err := udp.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for name, b := range packets {
		if _, err := udp.Write(b); err != nil {
			t.Fatal(err)
		}
		n, err := udp.Read(buf)
		if err != nil {
			t.Fatalf("%s: no answer: %v", name, err)
		}
		if m := dnstest.Unpack(t, buf[:n]); m.Id != 7 || !m.Response || n > 1232 {
			t.Errorf("%s: %d octets, %v", name, n, m)
		}
		tcp := dialTCP(t, r.addr)
		if _, err := tcp.Write(frame(b)); err != nil {
			t.Fatal(err)
		}
		if m := readTCP(t, tcp); m.Id != 7 || !m.Response {
			t.Errorf("%s, TCP: %v", name, m)
		}
		_ = tcp.Close()
	}
	// Too short for a header, and an answer: nothing may come back, and nothing may hang.
	for _, b := range [][]byte{{}, {0, 7}, make([]byte, 11), dnstest.Raw(8, 0x8000, [4]uint16{1}, question)} {
		if _, err := udp.Write(b); err != nil {
			t.Fatal(err)
		}
		tcp := dialTCP(t, r.addr)
		if _, err := tcp.Write(frame(b)); err != nil {
			t.Fatal(err)
		}
		ended(t, tcp)
	}
	last := dnstest.Query("plain.gslb.example.net.", dns.TypeA)
	last.Id = 9
	if _, err := udp.Write(dnstest.Pack(t, last)); err != nil {
		t.Fatal(err)
	}
	if n, err := udp.Read(buf); err != nil || binary.BigEndian.Uint16(buf[:n]) != 9 {
		t.Errorf("%v, after what may not be answered: %x", err, buf[:n])
	}
}
