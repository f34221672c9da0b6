// Package dnstest has the map and the queries that tests of the name server share.
package dnstest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/steering/scope"
)

// Places is the geo data of the test map: everything else is unmapped.
const Places = `
192.0.2.0/24     country=CN isp=chinatelecom
198.51.100.0/24  country=CN
198.51.100.64/26 country=JP
100.64.0.0/10    country=US
2001:db8:1::/48  country=CN isp=chinatelecom
2001:db8:2::/48  country=CN
`

// Scopes are the scopes of service shop, in the total order; the index is the value of a look-up.
func Scopes(t testing.TB) []scope.Scope {
	t.Helper()
	scopes := []scope.Scope{
		{CIDR: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28"), netip.MustParsePrefix("2001:db8:f::/52")}},
		{Country: []string{"CN"}, ISP: []string{"chinatelecom"}},
		{Country: []string{"CN"}},
		{Any: true},
	}
	for i := range scopes {
		normal, err := scopes[i].Normalize()
		if err != nil {
			t.Fatal(err)
		}
		scopes[i] = normal
	}
	return scopes
}

// DB is the geo data.
func DB(t testing.TB) *geo.DB {
	t.Helper()
	list, err := geo.ParseList("places", []byte(Places))
	if err != nil {
		t.Fatal(err)
	}
	return geo.New(list)
}

// Map is the test map.
//
// Zone gslb.example.net holds shop (four scopes), split (weighted), empty (no choice), plain (one rule) and
// deep.er.gslb.example.net, which makes er an empty non-terminal; zone example.com hosts domains of them and has
// static records; zone child.example.com lies inside it.
func Map(t testing.TB) *snapshot.DNS {
	t.Helper()
	table, err := geo.Compile(DB(t), Scopes(t))
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr
	zone := func(name string, ns ...snapshot.NameServer) snapshot.DNSZone {
		return snapshot.DNSZone{
			Name: name, NS: ns, NSTTL: 300 * time.Second,
			SOA: snapshot.SOA{
				MName: ns[0].Name, RName: "hostmaster." + name,
				Refresh: time.Hour, Retry: 10 * time.Minute, Expire: 14 * 24 * time.Hour, Minimum: 60 * time.Second,
			},
		}
	}
	ns1 := snapshot.NameServer{Name: "ns1.gslb.example.net.", Addresses: []netip.Addr{addr("192.0.2.53"), addr("2001:db8::53")}}
	ns2 := snapshot.NameServer{Name: "ns2.elsewhere.test."}
	d := &snapshot.DNS{
		Version: 7, Created: time.Now().Add(-time.Minute),
		Zones:  []snapshot.DNSZone{zone("gslb.example.net.", ns1, ns2), zone("example.com.", ns1), zone("child.example.com.", ns1)},
		Tables: []*geo.Table{table},
	}
	d.Zones[1].Records = []snapshot.DNSRecord{
		{Name: "example.com.", Type: "TXT", TTL: time.Minute, Data: []string{`"v=spf1 -all"`}},
		{Name: "mail.example.com.", Type: "A", TTL: time.Minute, Data: []string{"192.0.2.25", "192.0.2.26"}},
		{Name: "alias.example.com.", Type: "CNAME", TTL: time.Minute, Data: []string{"mail.example.com."}},
		{Name: "*.wild.example.com.", Type: "TXT", TTL: time.Minute, Data: []string{`"star"`}},
		{Name: "a.wild.example.com.", Type: "A", TTL: time.Minute, Data: []string{"192.0.2.99"}},
		{Name: "*.b.ent.example.com.", Type: "A", TTL: time.Minute, Data: []string{"192.0.2.98"}},
	}
	rule := func(name string, choices ...snapshot.DNSChoice) snapshot.DNSRule {
		return snapshot.DNSRule{Rule: name, Scope: name, Decision: 3, Choices: choices, TTL: 30 * time.Second, MinTTL: 5 * time.Second}
	}
	edge := func(name string, weight int, addrs ...string) snapshot.DNSChoice {
		c := snapshot.DNSChoice{Edge: name, Weight: weight}
		for _, s := range addrs {
			if a := addr(s); a.Is4() {
				c.A = append(c.A, a)
			} else {
				c.AAAA = append(c.AAAA, a)
			}
		}
		return c
	}
	d.Services = []*snapshot.DNSService{
		{
			Name: "shop", Zone: "gslb.example.net.", CNAME: "shop.gslb.example.net.",
			Hosted: []string{"www.example.com."}, NegativeTTL: 20 * time.Second,
			Rules: []snapshot.DNSRule{
				rule("lab", edge("lab", 50, "203.0.113.1")),
				rule("cn-telecom", snapshot.DNSChoice{Edge: "vendor", Target: "shop.cdn-vendor.test."}),
				rule("cn", edge("cn", 50, "198.51.100.1", "198.51.100.2")),
				rule("default", edge("world", 50, "192.0.2.1", "2001:db8::1")),
			},
		},
		{
			Name: "split", Zone: "gslb.example.net.", CNAME: "split.gslb.example.net.", NegativeTTL: 30 * time.Second, Table: snapshot.NoTable,
			Rules: []snapshot.DNSRule{rule("default", edge("a", 80, "192.0.2.10"), edge("b", 20, "192.0.2.20"))},
		},
		{
			Name: "empty", Zone: "gslb.example.net.", CNAME: "empty.gslb.example.net.", NegativeTTL: 30 * time.Second, Table: snapshot.NoTable,
			Rules: []snapshot.DNSRule{rule("default")},
		},
		{
			Name: "plain", Zone: "gslb.example.net.", CNAME: "plain.gslb.example.net.", Hosted: []string{"example.com."},
			NegativeTTL: 30 * time.Second, Table: snapshot.NoTable,
			Rules: []snapshot.DNSRule{rule("default", edge("one", 50, "192.0.2.7"))},
		},
		{
			Name: "deep", Zone: "gslb.example.net.", CNAME: "deep.er.gslb.example.net.", NegativeTTL: 30 * time.Second, Table: snapshot.NoTable,
			Rules: []snapshot.DNSRule{rule("default", edge("one", 50, "192.0.2.8"))},
		},
	}
	return d
}

// Query makes a query with OPT (1232 octets).
func Query(name string, qtype uint16, options ...dns.EDNS0) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, qtype)
	m.RecursionDesired = false
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = options
	return m
}

// ECS makes a client subnet option.
func ECS(prefix string) *dns.EDNS0_SUBNET {
	p := netip.MustParsePrefix(prefix)
	family := uint16(1)
	if p.Addr().Is6() {
		family = 2
	}
	return &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(p.Bits()), Address: net.IP(p.Addr().AsSlice())}
}

// Pack packs a message.
func Pack(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Raw makes a message by hand: header words, then the parts.
func Raw(id, flags uint16, counts [4]uint16, parts ...[]byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = binary.BigEndian.AppendUint16(b, flags)
	for _, c := range counts {
		b = binary.BigEndian.AppendUint16(b, c)
	}
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// Question makes a question section.
func Question(name string, qtype, class uint16) []byte {
	buf := make([]byte, 300)
	n, err := dns.PackDomainName(name, buf, 0, nil, false)
	if err != nil {
		panic(err) // a fault in the test itself
	}
	b := binary.BigEndian.AppendUint16(buf[:n:n], qtype)
	return binary.BigEndian.AppendUint16(b, class)
}

// OPT makes an OPT record of raw option data.
func OPT(size uint16, version byte, flags uint16, options ...byte) []byte {
	b := []byte{0, 0, 41}
	b = binary.BigEndian.AppendUint16(b, size)
	b = append(b, 0, version)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(len(options)))
	return append(b, options...)
}

// Option makes one option.
func Option(code uint16, data ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, code)
	b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
	return append(b, data...)
}

// Unpack reads a reply strictly: it must parse whole.
func Unpack(t testing.TB, b []byte) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		t.Fatalf("reply does not parse: %v\n%x", err, b)
	}
	if len(b) > 0 {
		again, err := m.Pack()
		if err != nil || len(again) > len(b)+512 {
			t.Fatalf("reply does not pack again: %v", err)
		}
	}
	return m
}

// Subnet is the client subnet option of a reply, nil if it has none.
func Subnet(m *dns.Msg) *dns.EDNS0_SUBNET {
	opt := m.IsEdns0()
	if opt == nil {
		return nil
	}
	for _, o := range opt.Option {
		if s, ok := o.(*dns.EDNS0_SUBNET); ok {
			return s
		}
	}
	return nil
}
