package control

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
	"steerpoint/control/internal/moment"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

const zoneYAML = `apiVersion: steerpoint/v1
kind: Zone
name: gslb
zone: gslb.example.net
steering: true
ns: [{name: ns1.gslb.example.net, addresses: [192.0.2.53]}]
soa: {mname: ns1.gslb.example.net, rname: hostmaster.gslb.example.net}
`

const shopYAML = `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [shop.example.com]
edges:
  - {name: east, addresses: [192.0.2.1]}
  - {name: west, addresses: [192.0.2.2]}
  - {name: south, addresses: [192.0.2.3, 192.0.2.4]}
rules:
  - name: default
    scope: "*"
    mode: failover
    edges: [east, west, south]
    probe: {url: "http://shop.example.com/", interval: 10s, timeout: 2s}
  - name: fixed
    scope: {cidr: [198.51.100.0/24]}
    mode: fixed
    edges: [west]
    probe: {url: "http://shop.example.com/", interval: 10s, timeout: 2s}
`

// clocks are a machine's clocks that a test turns.
type clocks struct {
	mu sync.Mutex
	m  moment.Moment
}

func (c *clocks) read() moment.Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m
}

func (c *clocks) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.Wall, c.m.BootTime = c.m.Wall.Add(d), c.m.BootTime+d
}

// takes is a Publisher that keeps what it is given.
type takes struct {
	mu    sync.Mutex
	dns   *snapshot.DNS
	count int
	probe map[string]*snapshot.Probe // by point
	err   error
}

func (p *takes) PublishDNS(d *snapshot.DNS) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	p.dns, p.count = d, p.count+1
	return nil
}

func (p *takes) PublishProbe(s *snapshot.Probe) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probe == nil {
		p.probe = map[string]*snapshot.Probe{}
	}
	p.probe[s.Point] = s
	return nil
}

func (p *takes) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *takes) latest() (*snapshot.DNS, *snapshot.Probe, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dns, p.probe["local"], p.count
}

// tasks gives the newest tasks of a point; nil before the first.
func (p *takes) tasks(point string) *snapshot.Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.probe[point]
}

// rig is a running control with clocks and publisher in the test's hands.
type rig struct {
	*Control
	t      *testing.T
	dir    string
	clocks *clocks
	out    *takes
	client *api.Client
	stop   func()
}

// start runs control on a folder. It ends with the test, or by stop.
func start(t *testing.T, dir string, ck *clocks, change ...func(*Config, *Deps)) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir, clocks: ck, out: &takes{}}
	if ck == nil {
		r.clocks = &clocks{m: moment.Moment{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), BootTime: time.Hour}}
	}
	level := slog.LevelError + 1
	if os.Getenv("STEER_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	reg := prometheus.NewRegistry()
	cfg := Config{Data: dir, Listen: "127.0.0.1:0", Version: "test", Rate: 10_000}
	deps := Deps{
		Publisher: r.out, Metrics: reg, Gatherer: reg, machine: r.clocks.read,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	for _, f := range change {
		f(&cfg, &deps)
	}
	c, err := New(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	r.Control = c
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil && c.store.Err() == nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	r.client = api.NewClient("http://"+c.Addr().String(), c.Token()).WithActor("tester")
	return r
}

// apply applies texts, one file each.
func (r *rig) apply(texts ...string) api.Plan {
	r.t.Helper()
	p, err := r.client.Apply(r.t.Context(), request(texts...))
	if err != nil {
		r.t.Fatalf("apply: %v", err)
	}
	r.await("the loop has what was applied", func() bool { return r.applied.get() >= p.Revision })
	return p
}

func request(texts ...string) api.ApplyRequest {
	var q api.ApplyRequest
	for i, text := range texts {
		q.Sources = append(q.Sources, api.Source{File: string(rune('a'+i)) + ".yaml", Content: text})
	}
	return q
}

// pass lets time pass and the loop notice it.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	r.clocks.pass(d)
	err := r.do(r.t.Context(), func() {
		r.advance(r.clock.Moment())
		r.sendProbes()
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// see gives the rules one observation of an address, by the task that probes it, and waits until it is evaluated.
func (r *rig) see(address string, ok bool) {
	r.t.Helper()
	_, probe, _ := r.out.latest()
	for _, task := range probe.Tasks {
		if task.Address != address {
			continue
		}
		o := report.Observation{Task: task.ID, Point: "local", OK: ok, Latency: 20 * time.Millisecond}
		if !ok {
			o.Cause = report.CauseTimeout
		}
		r.ObserveLocal(o)
	}
	r.settle()
}

// settle returns when everything observed so far is evaluated.
func (r *rig) settle() {
	r.t.Helper()
	for range 2 { // the loop may have taken a call before observations that came before it
		if err := r.do(r.t.Context(), func() {
			for len(r.observations) > 0 {
				r.observeBatch(<-r.observations)
			}
		}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// all gives an ok of every address.
func (r *rig) all() {
	r.t.Helper()
	_, probe, _ := r.out.latest()
	seen := map[string]bool{}
	for _, task := range probe.Tasks {
		if !seen[task.Address] {
			seen[task.Address] = true
			r.see(task.Address, true)
		}
	}
}

// down makes an address fail until every point calls it down; the others are well meanwhile.
func (r *rig) down(address string, others ...string) {
	r.t.Helper()
	for range 3 {
		r.pass(time.Second)
		r.see(address, false)
		for _, o := range others {
			r.see(o, true)
		}
	}
}

// rule gives the status of a rule.
func (r *rig) rule(service, rule string) api.RuleStatus {
	r.t.Helper()
	s, err := r.client.Status(r.t.Context(), api.StatusParams{Service: service})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, x := range s.Services[0].Rules {
		if x.Rule == rule {
			return x
		}
	}
	r.t.Fatalf("no rule %s/%s", service, rule)
	return api.RuleStatus{}
}

// await polls until f is true; a minute is far above what anything here takes, also on a slow disk.
func (r *rig) await(what string, f func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if f() {
			return
		}
	}
	r.t.Fatalf("waited in vain: %s", what)
}

// answers returns when name servers answer the rule with these addresses.
func (r *rig) awaitAnswer(service, rule string, want ...string) {
	r.t.Helper()
	r.await(service+"/"+rule+" answers", func() bool {
		d, _, _ := r.out.latest()
		got := answerOf(d, service, rule)
		if len(got) != len(want) {
			return false
		}
		for i := range want {
			if got[i] != netip.MustParseAddr(want[i]) {
				return false
			}
		}
		return true
	})
}

func answerOf(d *snapshot.DNS, service, rule string) []netip.Addr {
	if d == nil {
		return nil
	}
	for _, s := range d.Services {
		for _, x := range s.Rules {
			if s.Name == service && x.Rule == rule && len(x.Choices) == 1 {
				return x.Choices[0].A
			}
		}
	}
	return nil
}

// written returns when what was decided is in the store and in the map: decisions are written while the loop goes on.
func (r *rig) written() {
	r.t.Helper()
	r.settle()
	r.await("every decision is published", func() bool {
		d, _, _ := r.out.latest()
		decided, published := map[string]uint64{}, map[string]uint64{}
		for i := 0; d != nil && i < len(d.Services); i++ {
			for _, x := range d.Services[i].Rules {
				published[d.Services[i].Name+"/"+x.Rule] = x.Decision
			}
		}
		if err := r.do(r.t.Context(), func() {
			for _, v := range r.engine.Views(r.clock.Now(), "") {
				decided[v.Key] = v.Decision.Seq
			}
		}); err != nil {
			r.t.Fatal(err)
		}
		return maps.Equal(decided, published)
	})
}

func (r *rig) switches() []api.Switch {
	r.t.Helper()
	p, err := r.client.Switches(r.t.Context(), api.SwitchesParams{})
	if err != nil {
		r.t.Fatal(err)
	}
	return p.Switches
}

func wantCode(t *testing.T, what string, err error, status int, code string) *api.Problem {
	t.Helper()
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != status || p.Code != code {
		t.Errorf("%s: %v; want %d %s", what, err, status, code)
		return &api.Problem{}
	}
	return p
}

var _ = steering.Unknown
