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
	"steerpoint/authdns/internal/sign"
	"steerpoint/snapshot"
)

// hintsMap is a map with a service of several rules, weights and families, with HTTPS records with hints at its name.
func hintsMap(t testing.TB) *snapshot.DNS {
	d := dnstest.Map(t)
	a := func(list ...string) (out []netip.Addr) {
		for _, s := range list {
			out = append(out, netip.MustParseAddr(s))
		}
		return out
	}
	shop := d.Services[0]
	for i := range shop.Rules {
		r := &shop.Rules[i]
		r.TTL = time.Duration(20+10*i) * time.Second
		switch i % 3 {
		case 0:
			r.Choices = []snapshot.DNSChoice{{Edge: "both", A: a("192.0.2.1", fmt.Sprintf("192.0.2.%d", 10+i)), AAAA: a("2001:db8::1")}}
		case 1:
			r.Choices = []snapshot.DNSChoice{
				{Edge: "x", Weight: 1, A: a("198.51.100.1"), AAAA: a("2001:db8::a")}, {Edge: "y", Weight: 2, A: a("198.51.100.2")},
			}
		case 2:
			r.Choices = []snapshot.DNSChoice{{Edge: "four", A: a("203.0.113.1")}}
		}
	}
	d.Zones[0].Records = append(d.Zones[0].Records, snapshot.DNSRecord{
		Name: shop.CNAME, Type: "HTTPS+hints", TTL: 45 * time.Second,
		Data: []string{`1 . alpn="h2,h3"`, `2 . alpn="h2" port="8443" ech="AAAA" key65000="x"`},
	})
	return d
}

// hintsOf are the hints of every record, by family; all records must have the same.
func hintsOf(t *testing.T, m *dns.Msg) (v4, v6 []string) {
	t.Helper()
	for i, rr := range m.Answer {
		h, is := rr.(*dns.HTTPS)
		if !is {
			continue
		}
		var own4, own6 []string
		last := -1
		for _, v := range h.Value {
			if int(v.Key()) <= last {
				t.Fatalf("keys are not in order: %v", h)
			}
			last = int(v.Key())
			switch v := v.(type) {
			case *dns.SVCBIPv4Hint:
				for _, ip := range v.Hint {
					own4 = append(own4, ip.String())
				}
			case *dns.SVCBIPv6Hint:
				for _, ip := range v.Hint {
					own6 = append(own6, ip.String())
				}
			}
		}
		if i > 0 && (!slices.Equal(own4, v4) || !slices.Equal(own6, v6)) {
			t.Errorf("records differ in hints: %v", m.Answer)
		}
		v4, v6 = own4, own6
	}
	return v4, v6
}

// TestHintsFollow: for clients everywhere the hints are what the service answers the same client when it asks for A and for
// AAAA; the scope holds for both; the rest of each record, and records at other names, are as they are written.
//
// Covers: rfc 9460, field 46, issue5 hints
func TestHintsFollow(t *testing.T) {
	d := hintsMap(t)
	r := newResponder(t, d)
	name := d.Services[0].CNAME
	addresses := func(m *dns.Msg) (out []string) {
		for _, rr := range m.Answer {
			switch rr := rr.(type) {
			case *dns.A:
				out = append(out, rr.A.String())
			case *dns.AAAA:
				out = append(out, rr.AAAA.String())
			}
		}
		return out
	}
	seen := map[string]bool{}
	for i := range 400 {
		subnet := fmt.Sprintf("%d.%d.%d.0/24", 1+i*7%222, i*13%256, i*29%256)
		switch i % 5 { // inside the places of the test map
		case 0:
			subnet = fmt.Sprintf("198.51.100.%d/32", i%256)
		case 1:
			subnet = fmt.Sprintf("192.0.2.%d/32", i%256)
		case 2:
			subnet = fmt.Sprintf("203.0.113.%d/32", i%16)
		case 3:
			subnet = fmt.Sprintf("2001:db8:1:%x::/56", i<<8&0xFF00)
		}
		ask := func(qtype uint16) *dns.Msg {
			return ask(t, r, dnstest.Query(name, qtype, dnstest.ECS(subnet)), resolver)
		}
		h, a, aaaa := ask(dns.TypeHTTPS), ask(dns.TypeA), ask(dns.TypeAAAA)
		v4, v6 := hintsOf(t, h)
		if !slices.Equal(v4, addresses(a)) || !slices.Equal(v6, addresses(aaaa)) {
			t.Fatalf("%s: hints %v %v, answers %v %v", subnet, v4, v6, addresses(a), addresses(aaaa))
		}
		want := max(dnstest.Subnet(a).SourceScope, dnstest.Subnet(aaaa).SourceScope)
		if got := dnstest.Subnet(h).SourceScope; got != want {
			t.Errorf("%s: scope %d, want %d", subnet, got, want)
		}
		ttl := min(45, a.Answer[0].Header().Ttl)
		if len(h.Answer) != 2 || h.Answer[0].Header().Ttl != ttl || h.Answer[1].Header().Ttl != ttl {
			t.Fatalf("%s: %v, want TTL %d", subnet, h.Answer, ttl)
		}
		second := h.Answer[1].(*dns.HTTPS).String()
		for _, part := range []string{"2 .", `alpn="h2"`, `port="8443"`, `ech="AAAA"`, `key65000="x"`} {
			if !strings.Contains(second, part) {
				t.Errorf("%s is lost in %s", part, second)
			}
		}
		seen[fmt.Sprint(v4, v6)] = true
	}
	if len(seen) < 3 {
		t.Errorf("only %v were seen", seen)
	}
}

// TestHintsAreSigned: in a signed zone each set of hints has its signature; a reply that was given once allocates nothing. Where
// there is no service the records are as they are written.
//
// Covers: rfc 9460, issue5 hints, issue5 dnssec signatures
func TestHintsAreSigned(t *testing.T) {
	d := hintsMap(t)
	d.Zones[1].Records = append(d.Zones[1].Records, snapshot.DNSRecord{Name: "alone.example.com.", Type: "HTTPS+hints", TTL: time.Minute, Data: []string{`1 . alpn="h2"`}})
	r, keys := signed(t, sign.Config{}, d, "gslb.example.net.", "example.com.")
	for _, subnet := range []string{"198.51.100.0/24", "192.0.2.0/24", "203.0.113.0/24", "8.8.8.0/24"} {
		m := secureAsk(t, r, d.Services[0].CNAME, dns.TypeHTTPS, false, &Exchange{}, dnstest.ECS(subnet))
		if got := strings.Join(keys.verify(t, m.Answer), " "); got != "HTTPS" {
			t.Errorf("%s: signed are %q: %v", subnet, got, m)
		}
	}
	m := secureAsk(t, r, "alone.example.com.", dns.TypeHTTPS, false, &Exchange{})
	if v4, v6 := hintsOf(t, m); v4 != nil || v6 != nil || len(keys.verify(t, m.Answer)) != 1 {
		t.Errorf("%v", m)
	}
	for _, do := range []bool{false, true} {
		q := dnstest.Query(d.Services[0].CNAME, dns.TypeHTTPS, dnstest.ECS("198.51.100.0/24"))
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

// TestHintsComeAndGo: a record that gets hints, or loses them, and one of a type without a mnemonic, change with the map.
//
// Covers: issue5 hints, rfc 3597
func TestHintsComeAndGo(t *testing.T) {
	d := hintsMap(t)
	set := func(version uint64, records ...snapshot.DNSRecord) *snapshot.DNS {
		next := *d
		next.Version = version
		next.Zones = slices.Clone(d.Zones)
		next.Zones[0].Records = records
		return &next
	}
	name := d.Services[0].CNAME
	rec := func(kind string, data string) snapshot.DNSRecord {
		return snapshot.DNSRecord{Name: name, Type: kind, TTL: time.Minute, Data: []string{data}}
	}
	var ix *Index
	r := NewResponder(Config{MaxUDP: 1232})
	for i, row := range []struct {
		records []snapshot.DNSRecord
		qtype   uint16
		want    string
	}{
		{[]snapshot.DNSRecord{rec("HTTPS", "1 . port=1"), rec("TYPE65280", `\# 1 0a`)}, dns.TypeHTTPS, `1 . port="1"`},
		{[]snapshot.DNSRecord{rec("HTTPS+hints", "1 . port=1")}, dns.TypeHTTPS, `1 . port="1" ipv4hint="`},
		{nil, 65280, ""},
		{[]snapshot.DNSRecord{rec("HTTPS+hints", "1 . port=1")}, dns.TypeHTTPS, `1 . port="1" ipv4hint="`},
		{[]snapshot.DNSRecord{rec("HTTPS", "1 . port=1")}, dns.TypeHTTPS, `1 . port="1"`},
		{nil, dns.TypeHTTPS, ""},
	} {
		ix = rebuild(t, set(uint64(10+i), row.records...), 0, ix)
		r.SetIndex(ix)
		m := ask(t, r, dnstest.Query(name, row.qtype), resolver)
		got := ""
		if len(m.Answer) > 0 {
			got = strings.TrimPrefix(m.Answer[0].String(), m.Answer[0].Header().String())
		}
		if got != row.want && !(strings.HasSuffix(row.want, `hint="`) && strings.HasPrefix(got, row.want)) {
			t.Errorf("step %d: %q, want %q", i, got, row.want)
		}
	}
}
