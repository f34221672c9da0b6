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

// TestSignedChainsAndCuts: every set of a chain of CNAMEs is signed by its own zone; a denial at the end of one is at the name it
// leads to; a referral has the signed DS of the zone below, or the proof that it has none.
//
// Covers: issue5 dnssec signatures, issue5 dnssec denial, rfc 4035 each set, rfc 4035 referral
func TestSignedChainsAndCuts(t *testing.T) {
	d := dnstest.Map(t)
	const digest = "12345 13 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF"
	record := func(name, rrType string, data ...string) {
		d.Zones[1].Records = append(d.Zones[1].Records, snapshot.DNSRecord{Name: name, Type: rrType, TTL: time.Minute, Data: data})
	}
	record("one.example.com.", "CNAME", "Two.example.com.")
	record("two.example.com.", "CNAME", "plain.gslb.example.net.")
	record("gone.example.com.", "CNAME", "no.gslb.example.net.")
	record("out.example.com.", "CNAME", "www.example.org.")
	record("child2.example.com.", "NS", "ns.child2.example.com.", "ns.elsewhere.test.")
	record("ns.child2.example.com.", "A", "192.0.2.60")
	record("child3.example.com.", "NS", "ns.elsewhere.test.")
	record("child3.example.com.", "DS", digest)
	r, keys := signed(t, sign.Config{}, d, "gslb.example.net.", "example.com.")
	for _, row := range []struct{ name, qtype, answer, authority, types string }{
		{"one.example.com.", "A", "A CNAME CNAME", "", ""},
		{"one.example.com.", "AAAA", "CNAME CNAME", "NSEC SOA", "A"},
		{"one.example.com.", "MX", "CNAME CNAME", "NSEC SOA", "A AAAA"},
		{"gone.example.com.", "A", "CNAME", "NSEC SOA", "NXNAME"},
		{"out.example.com.", "A", "CNAME", "", ""},
		{"child3.example.com.", "DS", "DS", "", ""},
		{"child2.example.com.", "DS", "", "NSEC SOA", "NS"},
		{"www.child3.example.com.", "A", "", "DS", ""},
		{"child2.example.com.", "A", "", "NSEC", "NS"},
		{"a.b.child2.example.com.", "TXT", "", "NSEC", "NS"},
	} {
		m := secureAsk(t, r, row.name, dns.StringToType[row.qtype], false, &Exchange{})
		if got := strings.Join(keys.verify(t, m.Answer), " "); got != row.answer || m.Rcode != 0 {
			t.Errorf("%s %s: answer %q, want %q: %v", row.name, row.qtype, got, row.answer, m)
		}
		var ns []dns.RR
		referral := false
		for _, rr := range m.Ns {
			if rr.Header().Rrtype == dns.TypeNS {
				referral = true
				continue
			}
			ns = append(ns, rr)
		}
		if got := strings.Join(keys.verify(t, ns), " "); got != row.authority {
			t.Errorf("%s %s: authority %q, want %q: %v", row.name, row.qtype, got, row.authority, m)
		}
		for _, rr := range ns {
			n, ok := rr.(*dns.NSEC)
			if !ok {
				continue
			}
			var out []string
			for _, x := range n.TypeBitMap {
				if x != dns.TypeRRSIG && x != dns.TypeNSEC {
					out = append(out, dns.Type(x).String())
				}
			}
			if got := strings.Join(out, " "); got != row.types || n.NextDomain != `\000.`+n.Hdr.Name {
				t.Errorf("%s %s: %v, want %q", row.name, row.qtype, n, row.types)
			}
		}
		if referral == m.Authoritative {
			t.Errorf("%s %s: %v", row.name, row.qtype, m)
		}
	}
	for _, name := range []string{"one.example.com.", "www.child3.example.com.", "a.b.child2.example.com."} {
		q := dnstest.Query(name, dns.TypeAAAA)
		q.IsEdns0().SetDo()
		req := dnstest.Pack(t, q)
		x, dst := &Exchange{Client: resolver, Unix: now}, make([]byte, 0, 4096)
		r.Respond(dst, req, x)
		if n := testing.AllocsPerRun(100, func() { r.Respond(dst[:0], req, x) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestChainOfZoneWithoutKeys: a CNAME of a zone whose keys are not at hand is refused as its other names are, not cut, which
// would only bring the client back over TCP.
//
// Covers: issue5 dnssec keys missing
func TestChainOfZoneWithoutKeys(t *testing.T) {
	r, _ := signed(t, sign.Config{}, dnstest.Map(t), "example.com.")
	public, _, _ := dnstest.Key(t, "example.com.", 257)
	ring, err := sign.NewRing(&snapshot.Signing{Zones: []snapshot.SignedZone{
		{Zone: "example.com.", Life: time.Hour, KeyTTL: time.Hour, Keys: []snapshot.ZoneKey{public}},
	}}, nil, nil)
	if err == nil {
		t.Fatal("a ring without secrets has no fault")
	}
	r.cfg.Signer.SetRing(ring)
	m := secureAsk(t, r, "alias.example.com.", dns.TypeA, false, &Exchange{})
	if m.Rcode != dns.RcodeServerFailure || m.Truncated {
		t.Errorf("%v", m)
	}
}

// TestTraceOfKeys: an explanation shows the keys of a signed zone, as the reply does.
//
// Covers: issue5 dnssec keys
func TestTraceOfKeys(t *testing.T) {
	r, _ := signed(t, sign.Config{}, dnstest.Map(t), "example.com.")
	reply, trace := r.Trace(nil, dnstest.Pack(t, dnstest.Query("example.com.", dns.TypeDNSKEY)), &Exchange{Client: resolver, Unix: now})
	if m := dnstest.Unpack(t, reply); len(m.Answer) == 0 || trace.NODATA {
		t.Errorf("%+v: %v", trace, m)
	}
}
