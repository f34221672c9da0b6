package bench

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns"
	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/steering/scope"
)

// scopes of the service measured, in their total order.
func scopes() []scope.Scope {
	return []scope.Scope{
		{CIDR: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}},
		{Country: []string{"AU", "NZ"}},
		{Country: []string{"CN"}},
		{Continent: []string{"EU"}},
		{Any: true},
	}
}

// table compiles the scopes over the built-in country table.
func table(b *testing.B) (*geo.DB, *geo.Table) {
	b.Helper()
	source, err := geo.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	db := geo.New(source)
	t, err := geo.Compile(db, scopes())
	if err != nil {
		b.Fatal(err)
	}
	return db, t
}

// dnsMap is a map of one zone and one service with five rules, each answering with two addresses.
func dnsMap(t *geo.Table) *snapshot.DNS {
	ns := snapshot.NameServer{Name: "ns1.gslb.example.net.", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.53")}}
	service := snapshot.DNSService{
		Name: "shop", Zone: "gslb.example.net.", CNAME: "shop.gslb.example.net.", NegativeTTL: 30 * time.Second,
	}
	for _, s := range scopes() {
		service.Rules = append(service.Rules, snapshot.DNSRule{
			Rule: "default", Scope: s.Canonical(), Decision: 1, TTL: 30 * time.Second, MinTTL: 5 * time.Second,
			Choices: []snapshot.DNSChoice{{
				Edge: "east", A: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}, HasA: true,
			}},
		})
	}
	return &snapshot.DNS{
		Version: 1, Created: time.Now(), Tables: []*geo.Table{t},
		Zones: []snapshot.DNSZone{{
			Name: "gslb.example.net.", NS: []snapshot.NameServer{ns}, NSTTL: time.Hour,
			SOA: snapshot.SOA{
				MName: ns.Name, RName: "hostmaster.example.net.",
				Refresh: time.Hour, Retry: 15 * time.Minute, Expire: 24 * time.Hour, Minimum: 30 * time.Second,
			},
		}},
		Services: []*snapshot.DNSService{&service},
	}
}

// nameServer starts a name server on a free loopback port and returns a socket connected to it.
func nameServer(b *testing.B, d *snapshot.DNS) net.Conn {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := authdns.New(authdns.Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, prometheus.NewRegistry(), log)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Swap(d); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	conn, err := net.Dial("udp", s.Addrs()[0].String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() }) // a UDP socket that goes away has nothing left to lose
	return conn
}

// query packs an A question with a client subnet, or without one.
func query(b *testing.B, subnet string) []byte {
	b.Helper()
	m := new(dns.Msg).SetQuestion("shop.gslb.example.net.", dns.TypeA)
	m.SetEdns0(1232, false)
	if subnet != "" {
		p := netip.MustParsePrefix(subnet)
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_SUBNET{
			Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice(),
		})
	}
	wire, err := m.Pack()
	if err != nil {
		b.Fatal(err)
	}
	return wire
}

// BenchmarkAnswerOverLoopback is one question and its answer, one at a time: two system calls each way and a wake-up
// of either side are part of it, so it is a latency and no capacity.
func BenchmarkAnswerOverLoopback(b *testing.B) {
	_, t := table(b)
	conn := nameServer(b, dnsMap(t))
	for _, q := range []struct{ name, subnet string }{{"Plain", ""}, {"ECS", "203.0.113.0/24"}} {
		b.Run(q.name, func(b *testing.B) {
			wire, reply := query(b, q.subnet), make([]byte, 1232)
			for b.Loop() {
				if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
					b.Fatal(err)
				}
				if _, err := conn.Write(wire); err != nil {
					b.Fatal(err)
				}
				n, err := conn.Read(reply)
				if err != nil {
					b.Fatal(err)
				}
				if n < 12 || reply[3]&0xf != dns.RcodeSuccess || reply[7] != 2 {
					b.Fatalf("not the two addresses asked for: % x", reply[:n])
				}
			}
		})
	}
}

// BenchmarkMapSwap is one map of one service validated, compiled and put in place.
func BenchmarkMapSwap(b *testing.B) {
	_, t := table(b)
	d := dnsMap(t)
	s, err := authdns.New(authdns.Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		if err := s.Swap(d); err != nil {
			b.Fatal(err)
		}
	}
}
