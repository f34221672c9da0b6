package authdns

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/answer"
	"steerpoint/authdns/internal/dnstest"
)

// BenchmarkUDP is one query and its reply over a loopback socket, client included, one in flight per processor.
func BenchmarkUDP(b *testing.B) {
	s, err := New(Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Swap(dnstest.Map(b)); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	query := dnstest.Pack(b, dnstest.Query("shop.gslb.example.net.", dns.TypeA, dnstest.ECS("198.51.100.0/24")))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("udp", s.Addrs()[0].String())
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		reply := make([]byte, 4096)
		for pb.Next() {
			if _, err := c.Write(query); err != nil {
				b.Error(err)
				return
			}
			if _, err := c.Read(reply); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

// BenchmarkBuild is the validation and indexing of a map of 10,000 services with four scopes each.
func BenchmarkBuild(b *testing.B) {
	d := dnstest.Map(b)
	model := d.Services[0]
	for i := range 10_000 {
		s := *model
		s.Name = fmt.Sprintf("s%d", i)
		s.CNAME, s.Hosted = s.Name+".gslb.example.net.", nil
		d.Services = append(d.Services, &s)
	}
	tables := []answer.Table{d.Tables[0]}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := answer.Build(d, tables, 0, nil); err != nil {
			b.Fatal(err)
		}
	}
}
