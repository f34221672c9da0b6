package answer

import (
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/authdns/internal/sign"
	"steerpoint/snapshot"
)

// dnameMap is the test map with DNAME records: to a name of ours, to one elsewhere, to steered names, one behind another, and
// with what is occluded by them.
func dnameMap(t testing.TB) *snapshot.DNS {
	d := dnstest.Map(t)
	com := func(name, rrType string, data ...string) {
		d.Zones[1].Records = append(d.Zones[1].Records, snapshot.DNSRecord{Name: name, Type: rrType, TTL: time.Minute, Data: data})
	}
	com("old.example.com.", "DNAME", "New.example.com.")
	com("old.example.com.", "TXT", "beside it")
	com("www.old.example.com.", "A", "192.0.2.200") // occluded
	com("*.old.example.com.", "TXT", "occluded")
	com("sub.old.example.com.", "NS", "ns.far.test.") // occluded
	com("www.new.example.com.", "A", "192.0.2.100")
	com("older.example.com.", "DNAME", "old.example.com.")
	com("far.example.com.", "DNAME", "far.test.")
	com("steered.example.com.", "DNAME", "gslb.example.net.")
	com("wide.example.com.", "CNAME", "www.old.example.com.")
	return d
}

// TestDNAME is what is answered at and below names with a DNAME: the record, and a CNAME made of it that is followed as others
// are; the name itself is like any other; nothing below it is seen.
//
// Covers: rfc 6672
func TestDNAME(t *testing.T) {
	r := newResponder(t, dnameMap(t))
	const old = "DNAME=New.example.com./60 "
	for _, row := range []struct{ name, qtype, want string }{
		{"old.example.com.", "DNAME", "NOERROR aa DNAME=New.example.com./60"},
		{"old.example.com.", "TXT", `NOERROR aa TXT="beside it"/60`},
		{"old.example.com.", "A", "NOERROR aa SOA:example.com./60"},
		{"www.old.example.com.", "A", "NOERROR aa " + old + "CNAME=www.New.example.com./60 A=192.0.2.100/60"},
		{"WWW.OLD.example.com.", "A", "NOERROR aa " + old + "CNAME=www.New.example.com./60 A=192.0.2.100/60"},
		{"www.old.example.com.", "AAAA", "NOERROR aa " + old + "CNAME=www.New.example.com./60 SOA:example.com./60"},
		{"www.old.example.com.", "CNAME", "NOERROR aa " + old + "CNAME=www.New.example.com./60"},
		{"www.old.example.com.", "DNAME", "NOERROR aa " + old + "CNAME=www.New.example.com./60 SOA:example.com./60"},
		{"www.old.example.com.", "ANY", "NOERROR aa " + old + "CNAME=www.New.example.com./60"},
		{"a.b.sub.old.example.com.", "A", "NXDOMAIN aa " + old + "CNAME=a.b.sub.New.example.com./60 SOA:example.com./60"},
		{"www.older.example.com.", "A", "NOERROR aa DNAME=old.example.com./60 CNAME=www.old.example.com./60 " + old + "CNAME=www.New.example.com./60 A=192.0.2.100/60"},
		{"wide.example.com.", "A", "NOERROR aa CNAME=www.old.example.com./60 " + old + "CNAME=www.New.example.com./60 A=192.0.2.100/60"},
		{"x.y.far.example.com.", "A", "NOERROR aa DNAME=far.test./60 CNAME=x.y.far.test./60"},
		{"shop.steered.example.com.", "A", "NOERROR aa DNAME=gslb.example.net./60 CNAME=shop.gslb.example.net./60 A=192.0.2.1/30"},
	} {
		q := dnstest.Query(row.name, dns.StringToType[row.qtype])
		m := ask(t, r, q, resolver)
		if got := brief(m); got != row.want {
			t.Errorf("%s %s\n got %s\nwant %s", row.name, row.qtype, got, row.want)
		}
		owner := row.name
		for _, rr := range m.Answer {
			if d, is := rr.(*dns.DNAME); is {
				if !dns.IsSubDomain(d.Hdr.Name, owner) {
					t.Errorf("%s: %v is no name above %s", row.name, rr, owner)
				}
				continue
			}
			if !strings.EqualFold(rr.Header().Name, owner) {
				t.Errorf("%s: %v, want the owner %s", row.name, rr, owner)
			}
			if c, is := rr.(*dns.CNAME); is {
				owner = c.Target
			}
		}
	}
}

// TestDNAMETooLong: a name that would be longer than a name can be is YXDOMAIN, with the DNAME, at each length around the bound,
// with and without signatures.
//
// Covers: rfc 6672
func TestDNAMETooLong(t *testing.T) {
	d := dnameMap(t)
	label := strings.Repeat("t", 60)
	d.Zones[1].Records = append(d.Zones[1].Records, snapshot.DNSRecord{
		Name: "d.example.com.", Type: "DNAME", TTL: time.Minute, Data: []string{label + "." + label + "." + label + ".test."},
	})
	r, keys := signed(t, sign.Config{}, d, "example.com.")
	seen := map[int]int{}
	for n := 1; n < 120; n++ {
		front := strings.Repeat("a", min(n, 63))
		if n > 63 {
			front = strings.Repeat("b", n-63) + "." + front
		}
		fits := len(front)+1+3*61+len("test.")+1 <= 255
		for _, do := range []bool{false, true} {
			q := new(dns.Msg).SetQuestion(front+".d.example.com.", dns.TypeA)
			q.SetEdns0(1232, do)
			m := dnstest.Unpack(t, r.Respond(nil, dnstest.Pack(t, q), &Exchange{Client: resolver, Unix: now}))
			if want := map[bool]int{true: dns.RcodeSuccess, false: dns.RcodeYXDomain}[fits]; m.Rcode != want || !m.Authoritative {
				t.Fatalf("%d octets before it: %s, want %s", n, dns.RcodeToString[m.Rcode], dns.RcodeToString[want])
			}
			seen[m.Rcode]++
			if _, is := m.Answer[0].(*dns.DNAME); !is {
				t.Fatalf("%v", m)
			}
			if do {
				m.Answer = without(m.Answer, dns.TypeCNAME)
				if got := strings.Join(keys.verify(t, m.Answer), " "); got != "DNAME" {
					t.Fatalf("signed are %q: %v", got, m)
				}
			}
		}
	}
	if seen[dns.RcodeSuccess] == 0 || seen[dns.RcodeYXDomain] == 0 {
		t.Errorf("the sweep misses a side: %v", seen)
	}
}

func without(list []dns.RR, rrType uint16) (out []dns.RR) {
	for _, rr := range list {
		if rr.Header().Rrtype != rrType {
			out = append(out, rr)
		}
	}
	return out
}

// TestSignedDNAME: the DNAME is signed, the CNAME made of it is not (RFC 6672 section 5.3.1), and all else in the reply is. One
// signature does for all names below.
//
// Covers: rfc 6672, issue5 dnssec signatures
func TestSignedDNAME(t *testing.T) {
	r, keys := signed(t, sign.Config{}, dnameMap(t), "gslb.example.net.", "example.com.")
	for _, row := range []struct{ name, qtype, answer, authority string }{
		{"www.old.example.com.", "A", "A DNAME", ""},
		{"www.old.example.com.", "AAAA", "DNAME", "NSEC SOA"},
		{"www.older.example.com.", "A", "A DNAME DNAME", ""},
		{"no.old.example.com.", "A", "DNAME", "NSEC SOA"},
		{"x.far.example.com.", "A", "DNAME", ""},
		{"wide.example.com.", "A", "A CNAME DNAME", ""},
		{"plain.steered.example.com.", "A", "A DNAME", ""},
		{"old.example.com.", "MX", "", "NSEC SOA"},
		{"old.example.com.", "DNAME", "DNAME", ""},
	} {
		m := secureAsk(t, r, row.name, dns.StringToType[row.qtype], false, &Exchange{})
		var made []dns.RR
		answer := m.Answer
		if row.name != "wide.example.com." {
			answer = without(answer, dns.TypeCNAME)
		} else { // the first is a record
			for _, rr := range m.Answer {
				if rr.Header().Rrtype != dns.TypeCNAME || strings.EqualFold(rr.Header().Name, row.name) {
					made = append(made, rr)
				}
			}
			answer = made
		}
		if got := strings.Join(keys.verify(t, answer), " "); got != row.answer || m.Rcode != 0 {
			t.Errorf("%s %s: answer %q, want %q: %v", row.name, row.qtype, got, row.answer, m)
		}
		if got := strings.Join(keys.verify(t, m.Ns), " "); got != row.authority {
			t.Errorf("%s %s: authority %q, want %q: %v", row.name, row.qtype, got, row.authority, m)
		}
	}
	if types := bitmap(t, secureAsk(t, r, "old.example.com.", dns.TypeMX, false, &Exchange{})); types != "TXT DNAME" && types != "DNAME TXT" {
		t.Errorf("at the name itself there are %q", types)
	}
	for _, do := range []bool{false, true} {
		q := dnstest.Query("www.older.example.com.", dns.TypeA)
		if do {
			q.IsEdns0().SetDo()
		}
		req := dnstest.Pack(t, q)
		x, dst := &Exchange{Client: resolver, Unix: now}, make([]byte, 0, 4096)
		r.Respond(dst, req, x)
		if n := testing.AllocsPerRun(100, func() { r.Respond(dst[:0], req, x) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// TestDNAMEComesAndGoes: a map that brings or ends a DNAME, or changes what is below one, answers as one that is made anew.
//
// Covers: rfc 6672
func TestDNAMEComesAndGoes(t *testing.T) {
	questions := []string{"www.old.example.com.", "old.example.com.", "x.old.example.com.", "www.new.example.com.", "x.sub.old.example.com."}
	whole := dnameMap(t)
	var ix *Index
	for version, drop := range []string{"", "old.example.com. DNAME", "", "www.old.example.com. A", "old.example.com. TXT", "*.old.example.com. TXT"} {
		d := *whole
		d.Version = uint64(version + 10)
		d.Zones = append([]snapshot.DNSZone{}, whole.Zones...)
		d.Zones[1].Records = nil
		for _, rec := range whole.Zones[1].Records {
			if rec.Name+" "+rec.Type != drop {
				d.Zones[1].Records = append(d.Zones[1].Records, rec)
			}
		}
		ix = rebuild(t, &d, 0, ix)
		changed, anew := NewResponder(Config{MaxUDP: 1232}), newResponder(t, &d)
		changed.SetIndex(ix)
		for _, name := range questions {
			for _, qtype := range []uint16{dns.TypeA, dns.TypeTXT, dns.TypeDNAME} {
				q := dnstest.Query(name, qtype)
				if got, want := brief(ask(t, changed, q, resolver)), brief(ask(t, anew, q, resolver)); got != want {
					t.Errorf("without %q, %s %s: %s, want %s", drop, name, dns.Type(qtype), got, want)
				}
			}
		}
	}
}
