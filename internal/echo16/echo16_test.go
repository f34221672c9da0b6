package echo16

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a responder until the end of the test.
func start(t *testing.T, cfg Config) (*Responder, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	r, err := New(cfg, reg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r, reg
}

func dial(t *testing.T, from string, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	var local *net.UDPAddr
	if from != "" {
		local = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from))
	}
	c, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

const wait = 20 * time.Second

// ask sends each text and gives the first n answers.
func ask(t *testing.T, c *net.UDPConn, n int, texts ...string) (answers []string) {
	t.Helper()
	for _, text := range texts {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	c.SetReadDeadline(time.Now().Add(wait))
	b := make([]byte, 64)
	for range n {
		got, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, string(b[:got]))
	}
	return answers
}

// counted is how many datagrams were refused for a reason.
func counted(t *testing.T, reg *prometheus.Registry, reason string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "steer_nearest_refused_total" && m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no counter for %s", reason)
	return 0
}

const question = "0123456789abcdef"

// Datagrams of 16 bytes come back from the address they were sent to, in both families; others get nothing.
//
// Covers: issue4 probe udp16
func TestEcho(t *testing.T) {
	for listen, to := range map[string]string{
		"127.0.0.1:0": "127.0.0.1", "0.0.0.0:0": "127.0.0.7", "[::1]:0": "::1", "[::]:0": "::1",
	} {
		t.Run(listen, func(t *testing.T) {
			if c, err := net.ListenPacket("udp", net.JoinHostPort(to, "0")); err != nil {
				t.Skipf("this machine has no %s: %v", to, err)
			} else if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			r, reg := start(t, Config{Listen: []netip.AddrPort{netip.MustParseAddrPort(listen)}, Rate: 1000})
			c := dial(t, "", netip.AddrPortFrom(netip.MustParseAddr(to), r.Addrs()[0].Port()))
			last := "fedcba9876543210"
			got := ask(t, c, 2, question, "", question[1:], question+"x", strings.Repeat("x", 1200), last)
			if got[0] != question || got[1] != last {
				t.Errorf("answers %q", got)
			}
			if n := counted(t, reg, "size"); n != 4 {
				t.Errorf("%v refused for their size", n)
			}
		})
	}
}

// One source gets no more than its rate; another one is answered all the same.
//
// Covers: issue4 probe udp16
func TestRate(t *testing.T) {
	r, reg := start(t, Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Rate: 1e-6, Burst: 3})
	greedy := dial(t, "127.0.0.2:0", r.Addrs()[0])
	var many []string
	for range 20 {
		many = append(many, question)
	}
	ask(t, greedy, 3, many...)
	ask(t, dial(t, "127.0.0.3:0", r.Addrs()[0]), 1, question)
	if n := counted(t, reg, "rate"); n != 17 {
		t.Errorf("%v refused for their rate", n)
	}
}

// Ports of servers, and of other responders, are not answered: a forged sender would make two of them talk for ever.
//
// Covers: issue4 probe udp16
func TestLoops(t *testing.T) {
	r, _ := start(t, Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}})
	own := r.Addrs()[0].Port()
	for port, want := range map[uint16]bool{7: false, 53: false, 1023: false, 1024: true, Port: false, own: false, 54321: own != 54321} {
		if got := r.admit(time.Now(), Size, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port), own); got != want {
			t.Errorf("port %d: answered %v", port, got)
		}
	}
}

// The counters are refilled with time, shared by a /64 and by nobody else.
func TestLimiter(t *testing.T) {
	l := newLimiter(2, 3)
	now := l.epoch.Add(time.Second)
	take := func(addr string, n int) (got int) {
		for range n {
			if l.take(now, netip.MustParseAddr(addr)) {
				got++
			}
		}
		return got
	}
	if got := take("2001:db8::1", 2) + take("2001:db8::ffff:1", 5); got != 3 {
		t.Errorf("%d answers at once for a /64", got)
	}
	now = now.Add(time.Second)
	if got := take("2001:db8::2", 5); got != 2 {
		t.Errorf("%d answers after a second", got)
	}
	now = now.Add(time.Hour)
	if got := take("2001:db8::2", 5); got != 3 {
		t.Errorf("%d answers after an hour", got)
	}
}

// What cannot be bound is said when it is made, and nothing is left open.
func TestNewErrors(t *testing.T) {
	taken, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, cfg := range []Config{{}, {Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0"), taken.LocalAddr().(*net.UDPAddr).AddrPort()}}} {
		if r, err := New(cfg, nil, slog.New(slog.DiscardHandler)); err == nil {
			r.Close()
			t.Errorf("%+v was taken", cfg)
		}
	}
}

// BenchmarkEcho is the cost of one question and its answer, both ends in this process.
func BenchmarkEcho(b *testing.B) {
	r, err := New(Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Rate: 1e9}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(r.Addrs()[0]))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buf := []byte(question)
	for b.Loop() {
		if _, err := c.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}
