package authdns

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/authdns/internal/server"
	"steerpoint/internal/proxyproto"
)

// TestRateLimitConfig: what cannot be is refused, and what is zero has its default.
//
// Covers: issue5 rate limit
func TestRateLimitConfig(t *testing.T) {
	for _, l := range []RateLimit{{Answers: -2}, {Total: 1_000_000}, {Slip: -2}} {
		if _, err := (Config{RateLimit: l}).withDefaults(); err == nil {
			t.Errorf("%+v was taken", l)
		}
	}
	for _, c := range []Config{{MaxUDPNoCookie: 500}, {MaxUDPNoCookie: 2000}} {
		if _, err := c.withDefaults(); err == nil {
			t.Errorf("MaxUDPNoCookie %d was taken", c.MaxUDPNoCookie)
		}
	}
	c, err := (Config{}).withDefaults()
	if err != nil || fmt.Sprint(c.RateLimit) != "{false 200 200 100 5000 1 [127.0.0.0/8 ::1/128]}" {
		t.Errorf("%v, %v", c.RateLimit, err)
	}
	for files, want := range map[uint64]int{1: 1, 1024: 512, 20_000: 10_000, 1 << 40: 10_000} {
		if got := connectionsFor(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
}

// TestHandleAllocatesNothing: not for who is counted, nor for who is over the limit, shows a cookie, or comes by a proxy.
//
// Covers: A2, issue5 no allocation, issue5 rate limit
func TestHandleAllocatesNothing(t *testing.T) {
	r := start(t, Config{RateLimit: RateLimit{Answers: 1}, Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}}, dnstest.Map(t))
	plain := dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", dns.TypeA))
	withCookie := dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", dns.TypeA, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}))
	proxied := append(proxyproto.Append(nil, netip.MustParseAddrPort("[2001:db8::7]:4242"), netip.MustParseAddrPort("192.0.2.53:53"), true), plain...)
	h, buf, now := r.handler(server.UDP), make([]byte, 0, 4096), time.Now()
	for name, row := range map[string]struct {
		msg    []byte
		client string
	}{
		"over the limit": {plain, "198.51.100.1"}, "over the limit, with a cookie": {withCookie, "198.51.100.2"}, "by a proxy": {proxied, "192.0.2.1"},
	} {
		client := netip.MustParseAddr(row.client)
		if n := testing.AllocsPerRun(200, func() { h.Handle(buf, row.msg, client, now) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkRateLimit is one query from packet to packet, without the sockets, of clients in 4096 networks that are all far
// below their limits: what the limit costs when nobody meets it.
func BenchmarkRateLimit(b *testing.B) {
	for name, cfg := range map[string]Config{"off": {RateLimit: RateLimit{Off: true}}, "on": {}} {
		b.Run(name, func(b *testing.B) {
			cfg, err := cfg.withDefaults()
			if err != nil {
				b.Fatal(err)
			}
			book, err := NewBook(cfg, nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := book.Swap(dnstest.Map(b)); err != nil {
				b.Fatal(err)
			}
			q, buf := dnstest.Pack(b, dnstest.Query("shop.gslb.example.net.", dns.TypeA)), make([]byte, 0, 4096)
			h, now := book.server.handler(server.UDP), time.Now()
			b.ReportAllocs()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			spent := threadTime(b)
			for i := uint32(0); b.Loop(); i++ {
				var a [4]byte
				binary.BigEndian.PutUint32(a[:], 11<<24|i%4096<<8|1)
				h.Handle(buf, q, netip.AddrFrom4(a), now.Add(time.Duration(i)*time.Microsecond))
			}
			// Beside the time on the clock, which on a busy machine is mostly others'.
			b.ReportMetric(float64(threadTime(b)-spent)/float64(b.N), "cpu-ns/op")
		})
	}
}

// threadTime is the processor time of this thread.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
