package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"steerpoint/authdns"
	"steerpoint/control"
	"steerpoint/control/api"
	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/steering"
	"steerpoint/wire"
)

const (
	fleetEnv   = "STEER_BENCH_FLEET" // set in the process that is the nodes
	fleetNodes = 1000
	fleetFlips = 100 // the 99th percentile is then the second worst
	// fleetPause is between two observations, as between those of a real edge: each may be a map of its own, and the one
	// that is measured does not wait for the one before.
	fleetPause = time.Second
	// fleetServices stand beside the one that moves, so that a map is not one service. Each has a URL and addresses of its own:
	// with the same for all, their probes would be one task, and all of them would move.
	fleetServices = 200
)

// TestMain is also the process of the nodes: they are not in control's, so that they take nothing from its scheduler
// and share no memory with it.
func TestMain(m *testing.M) {
	if os.Getenv(fleetEnv) == "" {
		os.Exit(m.Run())
	}
	if err := beFleet(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
}

// orders are what the nodes' process is told.
type orders struct {
	Server    string
	Authority []byte
	Tokens    []string
}

// monotonic is the machine's monotonic clock, which two processes can compare.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock is always there on Linux
	}
	return time.Duration(t.Nano())
}

// tally says when the last of all nodes answers by an address.
type tally struct {
	mu    sync.Mutex
	by    map[string]int
	total int
	out   io.Writer
}

func (t *tally) moved(from, to string) {
	now := monotonic()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[from]--
	if t.by[to]++; t.by[to] == t.total {
		fmt.Fprintf(t.out, "%s %d\n", to, now)
	}
}

// desk is what the nodes of this process have in common: each version is put together, checked and swapped in once, since a
// thousand machines would do it at the same time and these are two cores. What it costs one node is BenchmarkSwap's.
type desk struct {
	mu    sync.Mutex
	book  *authdns.Book
	maps  map[uint64]shown
	tally tally
}

// shown is a version, and what a node answers by it.
type shown struct {
	dns    *snapshot.DNS
	answer string
}

func (d *desk) take(u wire.Update, have *snapshot.DNS) (shown, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := u.Full
	if u.Delta != nil {
		if s, ok := d.maps[u.Delta.To]; ok && s.dns.Version >= u.Delta.From {
			return s, nil
		}
		var err error
		if next, err = u.Delta.Apply(have); err != nil {
			return shown{}, err
		}
	} else if s, ok := d.maps[next.Version]; ok {
		return s, nil
	}
	// An older one, of a node that is behind: its answer was known before.
	if newest := d.book.Map().Version; next.Version >= newest {
		if err := d.book.Swap(next); err != nil {
			return shown{}, err
		}
	}
	e, err := d.book.Explain("shop.gslb.example.net.", netip.MustParseAddr("192.0.2.99"), netip.Prefix{}, dns.TypeA)
	if err != nil {
		return shown{}, err
	}
	s := shown{dns: next}
	if len(e.Answer) > 0 {
		s.answer = e.Answer[0][strings.LastIndexAny(e.Answer[0], " \t")+1:] // the address
	}
	d.maps[next.Version] = s
	delete(d.maps, next.Version-100)
	return s, nil
}

// beFleet joins every node, follows with all of them and prints when the last has come to a new answer.
func beFleet(in io.Reader, out io.Writer) error {
	var o orders
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	book, err := authdns.NewBook(authdns.Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	d := &desk{book: book, maps: map[uint64]shown{}, tally: tally{by: map[string]int{}, total: len(o.Tokens), out: out}}
	failed := make(chan error, len(o.Tokens))
	joining := make(chan struct{}, 16) // real nodes come one by one, and try again
	for i := range o.Tokens {
		go func() {
			n := &fleetNode{orders: &o, name: fmt.Sprintf("ns%04d", i), token: o.Tokens[i], desk: d, joining: joining}
			failed <- n.run(context.Background())
		}()
	}
	return <-failed // parents end it by its standard input; a node that ends is a failure
}

// fleetNode is one name server without sockets of DNS: everything else is what a node does.
type fleetNode struct {
	*orders
	name, token string
	desk        *desk
	now         shown
	client      *wire.Client
	joining     chan struct{}
}

func (n *fleetNode) run(ctx context.Context) error {
	n.joining <- struct{}{}
	certificate, err := n.join(ctx)
	<-n.joining
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.client = wire.NewClient(wire.ClientConfig{
		Servers: []string{n.Server}, Authority: n.Authority, Program: "bench", Certificate: func() *tls.Certificate { return certificate },
		CallTimeout: time.Minute, Silence: time.Minute,
	})
	go n.report(ctx)
	return n.client.FollowDNS(ctx, 0, func(u wire.Update) error { return n.take(ctx, u) })
}

func (n *fleetNode) join(ctx context.Context) (*tls.Certificate, error) {
	key, keyPEM, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	request, err := pki.Request(key, n.name)
	if err != nil {
		return nil, err
	}
	c := wire.NewClient(wire.ClientConfig{Servers: []string{n.Server}, Authority: n.Authority, Program: "bench", CallTimeout: time.Minute})
	defer c.Close()
	cred, err := c.Join(ctx, pki.Application{Token: n.token, Name: n.name, Roles: []string{wire.RoleDNS}, Request: request, Version: "bench"})
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cred.Certificate, keyPEM)
	return &pair, err
}

// take is what a node does with an update: answer by it, and say so.
func (n *fleetNode) take(ctx context.Context, u wire.Update) error {
	if u.Full == nil && u.Delta == nil {
		return nil
	}
	next, err := n.desk.take(u, n.now.dns)
	if err != nil {
		return err
	}
	if next.answer != n.now.answer {
		n.desk.tally.moved(n.now.answer, next.answer)
	}
	n.now = next
	return n.client.Ack(ctx, report.Ack{Snapshot: report.SnapshotDNS, Version: next.dns.Version, OK: true, Using: next.dns.Version})
}

// report says how the node is every five seconds, as nodes do.
func (n *fleetNode) report(ctx context.Context) {
	for range time.Tick(5 * time.Second) {
		s := report.NodeStatus{Version: "bench", Roles: []string{wire.RoleDNS}, Wall: time.Now(), Map: &report.NodeMap{}}
		if n.client.Report(ctx, s) != nil {
			return // the stream tells what is wrong
		}
	}
}

// hubWires publishes to the nodes, and keeps the tasks of the probe point whose results are made up here.
type hubWires struct {
	wires
	hub atomic.Pointer[wire.Hub]
}

func (w *hubWires) PublishDNS(d *snapshot.DNS) error {
	if h := w.hub.Load(); h != nil {
		h.PublishDNS(d)
	}
	return nil
}

func (w *hubWires) Disconnect(node string) { w.hub.Load().Disconnect(node) }

func (w *hubWires) SetDrained(node string, drained bool) {
	w.hub.Load().NodeState(node, wire.NodeState{Drained: drained})
}

// headquarters runs control and its hub, applies the resources and makes a token for every node.
func headquarters(b *testing.B) (*control.Control, *hubWires, orders) {
	b.Helper()
	log, reg, w := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), &hubWires{}
	c, err := control.New(b.Context(), control.Config{Data: b.TempDir(), Listen: "127.0.0.1:0", Points: []steering.Point{{Name: "local"}}},
		control.Deps{Publisher: w, Log: log, Metrics: reg, Nodes: w, NoNameServer: true})
	if err != nil {
		b.Fatal(err)
	}
	hub, err := wire.NewHub(wire.HubConfig{
		Listen: "127.0.0.1:0", Certificate: c.ServerCertificate, Pool: c.Authority().Pool(), Program: "bench", Now: c.Wall,
		JoinsPerMinute: 10 * fleetNodes, CallTimeout: time.Minute, SlowAfter: time.Minute,
	}, c, c, c, reg, log)
	if err != nil {
		b.Fatal(err)
	}
	w.hub.Store(hub)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{c.Run, hub.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	b.Cleanup(func() { stop(); running.Wait() })
	client := api.NewClient("http://"+c.Addr().String(), c.Token())
	var text strings.Builder
	text.WriteString(resources)
	for i := range fleetServices {
		fmt.Fprintf(&text, "---\n%s", strings.NewReplacer("name: shop", fmt.Sprintf("name: site%d", i),
			"www.example.com", fmt.Sprintf("www%d.example.com", i), "[192.0.2.1]", fmt.Sprintf("[198.51.100.%d]", i+1),
			"[192.0.2.2]", fmt.Sprintf("[203.0.113.%d]", i+1)).Replace(resources[strings.Index(resources, "---\n")+4:]))
	}
	if _, err := client.Apply(b.Context(), api.ApplyRequest{Sources: []api.Source{{File: "bench.yaml", Content: text.String()}}}); err != nil {
		b.Fatal(err)
	}
	o := orders{Server: "https://" + hub.Addr().String(), Authority: c.Authority().PEM()}
	for range fleetNodes {
		t, err := client.CreateToken(b.Context(), api.TokenRequest{Roles: []string{wire.RoleDNS}})
		if err != nil {
			b.Fatal(err)
		}
		o.Tokens = append(o.Tokens, t.Token)
	}
	return c, w, o
}

// fleet starts the process of the nodes; next waits until all of them answer by an address, and gives the instant at
// which the last one came to it.
func fleet(b *testing.B, o orders) (next func(address string) time.Duration) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	told, err := json.Marshal(o)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr, cmd.Stdin = append(os.Environ(), fleetEnv+"=1"), os.Stderr, bytes.NewReader(told)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if cmd.Process.Kill() == nil {
			_ = cmd.Wait() // killed: it always says so
		}
	})
	lines := bufio.NewScanner(pipe)
	return func(address string) time.Duration {
		for lines.Scan() {
			got, at, _ := strings.Cut(lines.Text(), " ")
			if got != address {
				continue
			}
			var ns int64
			if _, err := fmt.Sscan(at, &ns); err != nil {
				b.Fatal(err)
			}
			return time.Duration(ns)
		}
		b.Fatalf("the nodes ended: %v", lines.Err())
		return 0
	}
}

// BenchmarkObservationToLastNode is the time from the observation that decides to the instant at which the last of 1,000
// nodes answers by it: evaluation, the write to disk, the new map, its way over mutual TLS to each node in another
// process, the map put together there, checked and swapped in. It runs 100 switches, whatever -benchtime says. What a map costs one node is
// paid once in this process, not a thousand times: see desk.
//
// Covers: A8, issue3 thousand-nodes
func BenchmarkObservationToLastNode(b *testing.B) {
	c, w, o := headquarters(b)
	next := fleet(b, o)
	next("192.0.2.1")
	east, west := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	observe := func(edge netip.Addr, ok bool) {
		r := report.Observation{Task: w.task(edge.String()), Point: "local", OK: ok, Latency: 10 * time.Millisecond}
		if !ok {
			r.Cause = report.CauseTimeout
		}
		c.ObserveLocal(r)
	}
	observe(east, true)
	observe(west, true)
	from, to := east, west
	took := make([]time.Duration, 0, fleetFlips)
	for b.Loop() {
		for len(took) < fleetFlips {
			time.Sleep(fleetPause)
			observe(from, false) // down, but nothing is confirmed: the other must be seen well after this
			time.Sleep(fleetPause)
			start := monotonic()
			observe(to, true)
			took = append(took, next(to.String())-start)
			observe(from, true)
			from, to = to, from
		}
	}
	slices.Sort(took)
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))].Seconds() * 1e3 }
	b.ReportMetric(at(0.5), "ms-p50")
	b.ReportMetric(at(0.99), "ms-p99")
	b.ReportMetric(at(1), "ms-max")
}
