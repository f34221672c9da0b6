package bench

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns"
	"steerpoint/control"
	"steerpoint/control/api"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// resources are a zone and a service whose rule moves at the first failure, so that one observation is one verdict.
const resources = `
apiVersion: steerpoint/v1
kind: Zone
name: gslb
zone: gslb.example.net
steering: true
ns: [{name: ns1.gslb.example.net, addresses: [192.0.2.53]}]
soa: {mname: ns1.gslb.example.net, rname: hostmaster.example.net}
---
apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [www.example.com]
edges:
  - {name: east, addresses: [192.0.2.1]}
  - {name: west, addresses: [192.0.2.2]}
rules:
  - name: default
    scope: "*"
    mode: failover
    edges: [east, west]
    cooldown: 24h
    probe: {url: "http://www.example.com/", interval: 1h, timeout: 5s, fall: 1, rise: 1}
`

// wires publishes to a name server, and keeps the probe tasks for who makes up their results.
type wires struct {
	server *authdns.Server
	mu     sync.Mutex
	tasks  map[string]string // by address
}

func (w *wires) PublishDNS(d *snapshot.DNS) error { return w.server.Swap(d) }

func (w *wires) PublishProbe(p *snapshot.Probe) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks = map[string]string{}
	for _, t := range p.Tasks {
		w.tasks[t.Address] = t.ID
	}
	return nil
}

func (w *wires) task(address string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks[address]
}

// local runs control and a name server in this process and applies the resources.
func local(b *testing.B) (*control.Control, *wires, net.Conn) {
	b.Helper()
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	server, err := authdns.New(authdns.Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, reg, log)
	if err != nil {
		b.Fatal(err)
	}
	w := &wires{server: server}
	c, err := control.New(b.Context(), control.Config{Data: b.TempDir(), Listen: "127.0.0.1:0"}, control.Deps{Publisher: w, Log: log, Metrics: reg})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{server.Run, c.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	b.Cleanup(func() { stop(); running.Wait() })
	client := api.NewClient("http://"+c.Addr().String(), c.Token())
	if _, err := client.Apply(b.Context(), api.ApplyRequest{Sources: []api.Source{{File: "bench.yaml", Content: resources}}}); err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("udp", server.Addrs()[0].String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() }) // a UDP socket that goes away has nothing left to lose
	return c, w, conn
}

// until asks until the answer is the address, for a minute at most.
func until(b *testing.B, conn net.Conn, wire []byte, address netip.Addr) {
	b.Helper()
	reply := make([]byte, 1232)
	end := time.Now().Add(time.Minute)
	for time.Now().Before(end) {
		if err := conn.SetDeadline(end); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Write(wire); err != nil {
			b.Fatal(err)
		}
		n, err := conn.Read(reply)
		if err != nil {
			b.Fatal(err)
		}
		var m dns.Msg
		if m.Unpack(reply[:n]) == nil && slices.ContainsFunc(m.Answer, func(rr dns.RR) bool {
			a, ok := rr.(*dns.A)
			return ok && a.A.Equal(address.AsSlice())
		}) {
			return
		}
	}
	b.Fatalf("the answer did not become %s", address)
}

// BenchmarkVerdictToAnswer is the time from the observation that decides to the first answer that follows it, in one
// process: evaluation, the write of decision and switch-log entry to disk, the new map, and a question over loopback.
//
// Covers: issue2 speed publication
func BenchmarkVerdictToAnswer(b *testing.B) {
	c, w, conn := local(b)
	wire := query(b, "")
	east, west := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	observe := func(edge netip.Addr, ok bool) {
		o := report.Observation{Task: w.task(edge.String()), Point: "local", OK: ok, Latency: 10 * time.Millisecond}
		if !ok {
			o.Cause = report.CauseTimeout
		}
		c.ObserveLocal(o)
	}
	for end := time.Now().Add(time.Minute); w.task(east.String()) == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("no probe task was published")
		}
	}
	observe(east, true)
	observe(west, true)
	until(b, conn, wire, east)

	from, to := east, west
	var took time.Duration
	n := 0
	for b.Loop() {
		observe(from, false) // down, but nothing is confirmed: the other must be seen well after this
		start := time.Now()
		observe(to, true)
		until(b, conn, wire, to)
		took += time.Since(start)
		n++
		observe(from, true)
		from, to = to, from
	}
	b.ReportMetric(took.Seconds()*1e3/float64(n), "ms/change")
}
