package authdns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/authdns/internal/server"
	"steerpoint/internal/atomicfile"
	"steerpoint/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits for what must come; the machine may be slow.
const patience = 30 * time.Second

// running is a started name server.
type running struct {
	*Server
	addr string
	reg  *prometheus.Registry
	log  *lockedBuffer
	stop func() error
}

// lockedBuffer collects log lines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a name server on a free port of 127.0.0.1, unless cfg says where; it is stopped at the end of the test.
func start(t *testing.T, cfg Config, d *snapshot.DNS) *running {
	t.Helper()
	if len(cfg.Listen) == 0 {
		cfg.Listen = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	}
	if cfg.OpenKeys == nil {
		cfg.OpenKeys = openPlain
	}
	r := &running{reg: prometheus.NewRegistry(), log: &lockedBuffer{}}
	s, err := New(cfg, r.reg, slog.New(slog.NewTextHandler(r.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r.Server, r.addr = s, s.Addrs()[0].String()
	if d != nil {
		if err := s.Swap(d); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func (r *running) ask(t *testing.T, network string, q *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, Timeout: patience}
	m, _, err := c.Exchange(q, r.addr)
	if err != nil {
		t.Fatalf("%s %s: %v", network, q.Question[0].Name, err)
	}
	return m
}

// metric sums a metric over the label values given as name=value.
func (r *running) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			have := map[string]bool{}
			for _, l := range m.Label {
				have[l.GetName()+"="+l.GetValue()] = true
			}
			match := true
			for _, l := range labels {
				match = match && have[l]
			}
			if match {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// eventually polls until ok, for at most patience.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func firstA(m *dns.Msg) string {
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok {
			return a.A.String()
		}
	}
	return ""
}

// TestServes asks over both transports and looks at the metrics.
//
// Covers: A4
func TestServes(t *testing.T) {
	r := start(t, Config{NSID: "one"}, dnstest.Map(t))
	for _, network := range []string{"udp", "tcp"} {
		if m := r.ask(t, network, dnstest.Query("plain.gslb.example.net.", dns.TypeA)); firstA(m) != "192.0.2.7" {
			t.Errorf("%s: %v", network, m)
		}
		r.ask(t, network, dnstest.Query("no.gslb.example.net.", dns.TypeA))
	}
	r.ask(t, "udp", dnstest.Query("shop.gslb.example.net.", dns.TypeA, dnstest.ECS("198.51.100.128/25")))
	r.ask(t, "udp", dnstest.Query("shop.gslb.example.net.", dns.TypeA))
	for _, row := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"steer_authdns_queries_total", []string{"transport=udp", "rcode=NOERROR"}, 3},
		{"steer_authdns_queries_total", []string{"transport=tcp", "rcode=NXDOMAIN"}, 1},
		{"steer_authdns_ecs_queries_total", nil, 1},
		{"steer_authdns_answers_total", []string{"source=ecs"}, 1},
		{"steer_authdns_answers_total", []string{"source=resolver"}, 1},
		{"steer_authdns_answers_total", []string{"source=static"}, 2},
		{"steer_authdns_map_version", nil, 7},
		{"steer_authdns_map_swaps_total", []string{"result=ok"}, 1},
	} {
		// The reply is sent before it is counted.
		eventually(t, fmt.Sprintf("%s%v is %v", row.name, row.labels, row.want), func() bool {
			return r.metric(t, row.name, row.labels...) == row.want
		})
	}
	if age := r.metric(t, "steer_authdns_map_age_seconds"); age < 60 || age > 600 {
		t.Errorf("map age %v s, made a minute ago", age)
	}
}

// TestAdoptTakesALowerVersion: a map of a file counts by its place in the file, not by its version; a faulty one still
// changes nothing, and Swap goes on to compare versions.
//
// Covers: issue2 control killed
func TestAdoptTakesALowerVersion(t *testing.T) {
	r := start(t, Config{}, dnstest.Map(t))
	anew := dnstest.Map(t)
	anew.Version = 1
	if err := r.Adopt(anew); err != nil || r.Map().Version != 1 || r.Map().FromDisk {
		t.Fatalf("%v, answering by %+v", err, r.Map())
	}
	if err := r.Adopt(nil); err == nil {
		t.Error("no map at all was taken")
	}
	older := dnstest.Map(t)
	older.Version = 2
	if err := r.Swap(older); err != nil {
		t.Fatal(err)
	}
	older = dnstest.Map(t)
	older.Version = 1
	if err := r.Swap(older); !errors.Is(err, ErrOlder) {
		t.Errorf("older map: %v", err)
	}
}

// TestSwapKeepsOldOnError: a map with a fault, or an older one, changes nothing.
//
// Covers: field 58, issue2 bad input
func TestSwapKeepsOldOnError(t *testing.T) {
	r := start(t, Config{}, dnstest.Map(t))
	bad := dnstest.Map(t)
	bad.Version, bad.Services[3].CNAME = 8, "plain.example.org."
	if err := r.Swap(bad); err == nil || !strings.HasPrefix(err.Error(), "MAP_INVALID: ") {
		t.Errorf("bad map: %v", err)
	}
	older := dnstest.Map(t)
	older.Version = 6
	if err := r.Swap(older); !errors.Is(err, ErrOlder) || !strings.HasPrefix(err.Error(), "MAP_OLDER: ") {
		t.Errorf("older map: %v", err)
	}
	if err := r.Swap(nil); err == nil {
		t.Error("no map at all was taken")
	}
	if m := r.ask(t, "udp", dnstest.Query("plain.gslb.example.net.", dns.TypeA)); firstA(m) != "192.0.2.7" || r.Map().Version != 7 {
		t.Errorf("version %d: %v", r.Map().Version, m)
	}
	if n := r.metric(t, "steer_authdns_map_swaps_total", "result=error"); n != 3 {
		t.Errorf("%v refused swaps counted, want 3", n)
	}
}

// TestSwapWhileQuerying swaps maps while many clients ask: every reply is whole and of one map.
//
// Covers: A8
func TestSwapWhileQuerying(t *testing.T) {
	r := start(t, Config{Sockets: 2}, dnstest.Map(t))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := dns.Client{Timeout: patience}
			for n := 0; ctx.Err() == nil || n < 20; n++ {
				m, _, err := c.Exchange(dnstest.Query("mail.example.com.", dns.TypeA), r.addr)
				if err != nil || len(m.Answer) != 2 || m.Answer[0].(*dns.A).A[1] != m.Answer[1].(*dns.A).A[1] {
					t.Errorf("reply %v, error %v", m, err)
					return
				}
			}
		})
	}
	d := dnstest.Map(t)
	for v := range 200 {
		next := *d
		next.Version = uint64(10 + v)
		next.Zones = append([]snapshot.DNSZone(nil), d.Zones...)
		next.Zones[1].Records = append([]snapshot.DNSRecord(nil), d.Zones[1].Records...)
		next.Zones[1].Records[1].Data = []string{fmt.Sprintf("192.%d.2.25", v), fmt.Sprintf("192.%d.2.26", v)}
		if err := r.Swap(&next); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	wg.Wait()
	if m := r.ask(t, "udp", dnstest.Query("example.com.", dns.TypeSOA)); m.Answer[0].(*dns.SOA).Serial != 209 {
		t.Errorf("serial after the last swap: %v", m.Answer)
	}
}

// TestPortTaken: a port in use is named, with what to do; several sockets on one port are not mistaken for that.
//
// Covers: issue2 ports
func TestPortTaken(t *testing.T) {
	first := start(t, Config{Sockets: 3}, nil)
	_, err := New(Config{Listen: first.Addrs()}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), "udp "+first.addr) || !strings.Contains(err.Error(), "--listen dns=") {
		t.Errorf("second server on %s: %v", first.addr, err)
	}
	var taken netip.AddrPort
	for range 10 { // until the port is not one that somebody else has for UDP
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		taken = netip.MustParseAddrPort(l.Addr().String())
		if u, err := net.ListenPacket("udp", taken.String()); err == nil {
			_ = u.Close()
			break
		}
	}
	_, err = New(Config{Listen: []netip.AddrPort{taken}}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), "tcp "+taken.String()) {
		t.Errorf("TCP port taken: %v", err)
	}
}

// TestConfigRefused: what cannot be is refused before anything is bound.
func TestConfigRefused(t *testing.T) {
	for _, cfg := range []Config{
		{MaxUDP: 100},
		{MaxUDP: 5000},
		{Sockets: -1},
		{TCPIdle: -1},
		{CookieSecret: []byte("short")},
		{NSID: strings.Repeat("x", 129)},
		{Listen: []netip.AddrPort{{}}},
	} {
		if s, err := New(cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%+v was taken", cfg)
			_ = s.Close()
		}
	}
}

// TestWildcardRepliesFromAddressAsked asks a server bound to the wildcard at several loopback addresses: a connected
// client socket takes a reply from that very address only.
//
// Covers: rfc 2181 source
func TestWildcardRepliesFromAddressAsked(t *testing.T) {
	listen := []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:0")}
	hosts := []string{"127.0.0.1", "127.0.0.2", "127.1.2.3"}
	if l, err := net.ListenPacket("udp6", "[::1]:0"); err == nil {
		_ = l.Close()
		listen = append(listen, netip.MustParseAddrPort("[::]:0"))
	}
	r := start(t, Config{Listen: listen}, dnstest.Map(t))
	targets := []string{}
	for _, h := range hosts {
		targets = append(targets, net.JoinHostPort(h, fmt.Sprint(r.Addrs()[0].Port())))
	}
	if len(listen) > 1 {
		targets = append(targets, net.JoinHostPort("::1", fmt.Sprint(r.Addrs()[1].Port())))
	}
	for _, target := range targets {
		c := dns.Client{Timeout: patience}
		m, _, err := c.Exchange(dnstest.Query("plain.gslb.example.net.", dns.TypeA), target)
		if err != nil || firstA(m) != "192.0.2.7" {
			t.Errorf("%s: %v, %v", target, m, err)
		}
	}
}

// TestPanicCostsOnePacket breaks the index under the responder: the packet is dropped and told, the server lives.
func TestPanicCostsOnePacket(t *testing.T) {
	r := start(t, Config{}, dnstest.Map(t))
	h := r.handler(server.UDP).(*handler)
	h.s = &Server{metrics: r.metrics, log: r.Server.log} // no responder: every query is a nil dereference
	query := dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", dns.TypeA))
	if out := h.Handle(nil, query, netip.MustParseAddr("127.0.0.1"), time.Now()); len(out) != 0 {
		t.Errorf("answered %x", out)
	}
	if n := r.metric(t, "steer_authdns_dropped_packets_total", "reason=panic"); n != 1 || !strings.Contains(r.log.String(), "please report") {
		t.Errorf("%v panics counted, log %s", n, r.log)
	}
}

// TestState is the life of the map on disk: written after a swap, answering after a restart without control, and a
// damaged one set aside.
//
// Covers: A2, issue2 state files, issue2 control killed, field 12
func TestState(t *testing.T) {
	file := t.TempDir() + "/dns-map"
	first := start(t, Config{StateFile: file}, dnstest.Map(t))
	eventually(t, "the map is on disk", func() bool { _, err := os.Stat(file); return err == nil })
	newer := dnstest.Map(t)
	newer.Version = 9
	if err := first.Swap(newer); err != nil {
		t.Fatal(err)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}

	// Without control: the newest map answers at once, and any map of control replaces it.
	second := start(t, Config{StateFile: file}, nil)
	m := second.ask(t, "udp", dnstest.Query("shop.gslb.example.net.", dns.TypeA, dnstest.ECS("198.51.100.128/25")))
	if firstA(m) != "198.51.100.1" || dnstest.Subnet(m).SourceScope != 25 {
		t.Errorf("from disk: %v", m)
	}
	if info := second.Map(); info.Version != 9 || !info.FromDisk || info.Names == 0 {
		t.Errorf("from disk: %+v", info)
	}
	anew := dnstest.Map(t)
	anew.Version = 1
	if err := second.Swap(anew); err != nil || second.Map().FromDisk {
		t.Errorf("control begins anew at version 1: %v", err)
	}
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedState: each kind of damage is named, the file kept under another name, and the answer "not ready" until a
// map comes.
//
// Covers: issue2 state files
func TestDamagedState(t *testing.T) {
	good := t.TempDir() + "/good"
	first := start(t, Config{StateFile: good}, dnstest.Map(t))
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	write := func(version int, payload string) func(string) error {
		return func(f string) error { return atomicfile.Write(f, stateKind, version, []byte(payload)) }
	}
	for _, row := range []struct {
		name, want string
		aside      bool
		damage     func(file string) error
	}{
		{"torn", "FILE_DAMAGED", true, func(f string) error { return os.WriteFile(f, whole[:len(whole)/2], 0o600) }},
		{"no JSON", "it is whole but not a map", true, write(1, "{")},
		{"no parts", "it is whole but not a map", true, write(2, "{")},
		{"no valid map", "does not validate", true, write(1, `{"version":1,"zones":[{"name":"x"}]}`)},
		{"newer version", "FILE_VERSION_NEWER", false, write(99, "{}")},
		{"a folder", "cannot be used", false, func(f string) error { return os.Mkdir(f, 0o700) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := t.TempDir() + "/dns-map"
			if err := row.damage(file); err != nil {
				t.Fatal(err)
			}
			r := start(t, Config{StateFile: file}, nil)
			if m := r.ask(t, "udp", dnstest.Query("shop.gslb.example.net.", dns.TypeA)); m.Rcode != dns.RcodeServerFailure {
				t.Errorf("answer %v, want SERVFAIL", m)
			}
			if !strings.Contains(r.log.String(), row.want) || !strings.Contains(r.log.String(), "level=ERROR") {
				t.Errorf("log does not name the fault:\n%s", r.log)
			}
			_, err := os.Stat(file)
			entries, _ := os.ReadDir(file[:strings.LastIndexByte(file, '/')])
			if aside := errors.Is(err, os.ErrNotExist); aside != row.aside || len(entries) != 1 {
				t.Errorf("set aside: %t, want %t; files %v", aside, row.aside, entries)
			}
			if err := r.Swap(dnstest.Map(t)); err != nil {
				t.Fatal(err)
			}
			if m := r.ask(t, "udp", dnstest.Query("plain.gslb.example.net.", dns.TypeA)); firstA(m) != "192.0.2.7" {
				t.Errorf("after a map came: %v", m)
			}
		})
	}
}

// TestStateThatCannotBeWritten: it is told and tried again; answers go on.
func TestStateThatCannotBeWritten(t *testing.T) {
	folder := t.TempDir() + "/gone"
	file := folder + "/dns-map"
	r := start(t, Config{StateFile: file, StateEvery: time.Millisecond}, dnstest.Map(t))
	eventually(t, "the failed write is counted", func() bool {
		return r.metric(t, "steer_authdns_state_writes_total", "result=error") > 0
	})
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := atomicfile.Read(file, stateKind, stateVersion); err != nil {
		t.Errorf("not written at the end: %v", err)
	}
}
