package agent

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

// cluster is control with a real listener: its registry is a map.
type cluster struct {
	t         *testing.T
	authority *pki.Authority
	address   string
	life      time.Duration

	mu      sync.Mutex
	now     func() time.Time
	tokens  map[string][]string // roles of the tokens that are unused, by ID
	nodes   map[string]string   // "" or why it is refused
	acks    []report.Ack
	seen    []report.Observation
	status  []report.NodeStatus
	renewed int
	hub     *wire.Hub
	stop    func()
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	a, err := pki.OpenAuthority(t.TempDir(), "test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		t: t, authority: a, address: ownLoopback() + ":0", life: time.Hour, now: time.Now,
		tokens: map[string][]string{}, nodes: map[string]string{},
	}
	c.start()
	t.Cleanup(func() { c.stop() })
	return c
}

// ownLoopback is an address of this machine that nobody else uses: who stops listening there finds the port free again.
func ownLoopback() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

// start binds the hub: at the address it had, once it had one.
func (c *cluster) start() {
	c.t.Helper()
	var err error
	c.hub, err = wire.NewHub(wire.HubConfig{
		Listen:      c.address,
		Certificate: func() (*tls.Certificate, error) { return c.authority.ServerCertificate(time.Now()) },
		Pool:        c.authority.Pool(), Program: "control", KeepAlive: 3 * time.Second, SlowAfter: 10 * time.Second,
		Now: func() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now() },
	}, c, c, c, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		c.t.Fatal(err)
	}
	c.address = c.hub.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	hub := c.hub
	go func() { done <- hub.Run(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("hub: %v", err)
		}
	})
}

func (c *cluster) token(roles ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := pki.NewToken(c.authority.Hash())
	c.tokens[token.ID] = roles
	return token.String()
}

func (c *cluster) Join(_ context.Context, a pki.Application) (pki.Credential, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token, err := pki.ParseToken(a.Token)
	if err != nil {
		return pki.Credential{}, err
	}
	roles, ok := c.tokens[token.ID]
	if !ok {
		return pki.Credential{}, pki.Refuse(pki.TokenUsed, "the token made a node already", "create another")
	}
	for _, r := range a.Roles {
		if !slices.Contains(roles, r) {
			return pki.Credential{}, pki.Refuse(pki.RoleRefused, "the token does not allow "+r, "")
		}
	}
	if _, ok := c.nodes[a.Name]; ok {
		return pki.Credential{}, pki.Refuse(pki.NodeExists, a.Name+" joined before", "")
	}
	delete(c.tokens, token.ID)
	c.nodes[a.Name] = ""
	return c.sign(a.Request, a.Name, a.Roles)
}

func (c *cluster) sign(request []byte, name string, roles []string) (pki.Credential, error) {
	cert, id, err := c.authority.Sign(request, name, roles, c.now(), c.life)
	return pki.Credential{Certificate: cert, Authority: c.authority.PEM(), Lifetime: c.life, Cluster: "test", Name: id.Name, Roles: id.Roles}, err
}

func (c *cluster) Renew(_ context.Context, id pki.Identity, request []byte) (pki.Credential, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewed++
	return c.sign(request, id.Name, id.Roles)
}

func (c *cluster) Admit(id pki.Identity) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if code := c.nodes[id.Name]; code != "" {
		return pki.Refuse(code, "node "+id.Name+" is refused", "")
	}
	return nil
}

func (c *cluster) Observe(node string, list []report.Observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, list...)
}

func (c *cluster) Acked(_ string, a report.Ack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks = append(c.acks, a)
}

func (c *cluster) Reported(_ string, s report.NodeStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = append(c.status, s)
}

func (c *cluster) Connected(string, string, string) {}
func (c *cluster) Gone(string, string)              {}

// set changes what control knows.
func (c *cluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// renewals counts them. A hub may still answer the last request of a node that has stopped, so it is asked under the lock.
func (c *cluster) renewals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewed
}

// until waits for something that real sockets bring.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * ms) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 30 s: %s", what)
}

// real makes an agent of the cluster with real connections.
func (c *cluster) real(t *testing.T, token string, roles ...string) *rig {
	t.Helper()
	r := newRig(t, roles...)
	r.cfg.Servers = []string{"https://" + c.address}
	r.cfg.StatusEvery = 50 * ms
	r.cfg.Token = func() (string, error) { return token, nil }
	r.probe.once = func(_ context.Context, t snapshot.ProbeTask) report.Observation {
		return report.Observation{Task: t.ID, OK: true, Point: "forged"}
	}
	r.openReal()
	return r
}

func (r *rig) openReal() {
	r.t.Helper()
	r.open()
	r.agent.connect = r.agent.dial
}

func (c *cluster) acked(kind string, version uint64) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.ContainsFunc(c.acks, func(k report.Ack) bool { return k.Snapshot == kind && k.OK && k.Version == version })
	}
}

// The whole life of a node over real connections: it joins, follows both snapshots, acks, ships, reports, probes when
// asked, is drained; control dies and comes back, and the node too, and both go on by deltas.
// Covers: A2, A7, A8, issue3 join, issue3 deltas, issue3 probe now, issue3 drain, issue3 control killed
func TestLife(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c := newCluster(t)
	first := dnsMap(1, "a")
	c.hub.PublishDNS(first)
	c.hub.PublishProbe(tasks(1, task(1)))
	r := c.real(t, c.token("dns", "probe"), RoleDNS, RoleProbe)
	r.run()
	until(t, "both snapshots acked", func() bool { return c.acked("dns", 1)() && c.acked("probe", 1)() })
	r.agent.Observe(seen(task(1).ID, false))
	until(t, "the observation and a status", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.seen) == 1 && len(c.status) > 0 && c.status[len(c.status)-1].Tasks.Version == 1
	})
	if !r.agent.Following(RoleDNS) || !r.agent.Following(RoleProbe) {
		t.Error("does not say that it follows")
	}
	o, err := c.hub.Probe(t.Context(), "tokyo", task(1))
	if err != nil || o.Point != "tokyo" || !o.OK {
		t.Errorf("probe now: %+v, %v", o, err)
	}
	c.hub.NodeState("tokyo", wire.NodeState{Drained: true})
	until(t, "drained", r.agent.Drained)
	c.hub.PublishDNS(dnsMap(2, "a", "b"))
	until(t, "map 2 acked", c.acked("dns", 2))

	c.stop()
	until(t, "cut off", func() bool { return !r.agent.stream("dns").up && !r.agent.stream("probe").up })
	r.stop()
	r.dns.swaps = nil
	r.openReal()
	r.run() // control away: it starts by what it has
	until(t, "tasks from disk", func() bool { v, _ := r.probe.Tasks(); return v == 1 })
	c.start()
	c.hub.PublishDNS(dnsMap(2, "a", "b"))
	c.hub.PublishDNS(dnsMap(3, "a", "c"))
	c.hub.PublishProbe(tasks(2, task(1), task(2)))
	until(t, "the next versions acked", func() bool { return c.acked("dns", 3)() && c.acked("probe", 2)() })
	if r.agent.Drained() {
		t.Error("drained, and the new control says nothing of it")
	}
	r.stop()
	c.stop()
}

// A token used twice, for other roles, of another authority; a name that is taken: each is refused with its code, and
// the node ends.
// Covers: A8, issue3 join refused
func TestJoinRefusals(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	used := c.token("dns")
	r := c.real(t, used, RoleDNS)
	r.run()
	until(t, "joined", r.agent.Joined)
	r.stop()
	for _, tt := range []struct{ name, node, token, code string }{
		{"used", "osaka", used, pki.TokenUsed},
		{"roles", "osaka", c.token("probe"), pki.RoleRefused},
		{"taken", "tokyo", c.token("dns"), pki.NodeExists},
		{"authority", "osaka", other.token("dns"), pki.CertUntrusted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := c.real(t, tt.token, RoleDNS)
			r.cfg.Name = tt.node
			r.openReal()
			err := r.agent.Run(t.Context(), r.planes())
			if pki.CodeOf(err) != tt.code {
				t.Errorf("Run: %v, want %s", err, tt.code)
			}
		})
	}
}

// A certificate that ended is renewed with itself; the node follows again without anybody's help. A revoked node is cut
// off at once, answers on, and comes back when it is let in again.
// Covers: A2, A8, issue3 renewal, issue3 revocation
func TestExpiredAndRevoked(t *testing.T) {
	c := newCluster(t)
	c.hub.PublishDNS(dnsMap(1, "a"))
	r := c.real(t, c.token("dns"), RoleDNS)
	r.run()
	until(t, "map 1", c.acked("dns", 1))
	c.set(func() { c.now = func() time.Time { return time.Now().Add(30 * 24 * time.Hour) } })
	until(t, "renewed", func() bool { return c.renewals() >= 1 })
	c.hub.PublishDNS(dnsMap(2, "a"))
	until(t, "map 2", c.acked("dns", 2))

	c.set(func() { c.nodes["tokyo"] = pki.NodeRevoked })
	c.hub.Disconnect("tokyo")
	until(t, "told that it is revoked", func() bool {
		return slices.ContainsFunc(r.agent.Trouble(), func(s string) bool { return strings.HasPrefix(s, "NODE_REVOKED: ") })
	})
	if r.agent.stream("dns").up || r.dns.Current().Version != 2 {
		t.Errorf("stream %v, map %d: want none, and the last map", r.agent.stream("dns").up, r.dns.Current().Version)
	}
	r.stop()
	c.set(func() { c.nodes["tokyo"] = "" })
	r.openReal() // a restart asks at once instead of within a minute
	r.run()
	until(t, "follows again", func() bool { return r.agent.stream("dns").up })
	r.stop()
	if n := c.renewals(); n > 3 {
		t.Errorf("renewed %d times", n)
	}
}

// A map that is refused reaches control with its reason.
// Covers: A2, issue3 nack
func TestNackReachesControl(t *testing.T) {
	c := newCluster(t)
	c.hub.PublishDNS(dnsMap(1, "a"))
	r := c.real(t, c.token("dns"), RoleDNS)
	r.dns.bad[2] = true
	r.run()
	until(t, "map 1", c.acked("dns", 1))
	c.hub.PublishDNS(dnsMap(2, "b"))
	until(t, "the refusal", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.ContainsFunc(c.acks, func(k report.Ack) bool {
			return !k.OK && k.Version == 2 && k.Using == 1 && k.Reason == "MAP_INVALID: not this one"
		})
	})
	c.hub.PublishDNS(dnsMap(3, "a"))
	until(t, "map 3", c.acked("dns", 3))
	r.stop()
}

// future is a control of a later version: it has frames and fields that this program has never heard of.
func (c *cluster) future(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/v1/dns", "/v1/probe":
			if err := futureStream(w, q); err != nil {
				t.Error(err)
			}
		default:
			fmt.Fprint(w, `{"gratitude":"a field that an older node skips"}`)
		}
	}))
	cert, err := c.authority.ServerCertificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func futureStream(w http.ResponseWriter, q *http.Request) error {
	frame := func(kind byte, payload string) error {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
		_, err := io.WriteString(w, string(append(head, kind))+payload)
		return err
	}
	full := map[string]any{"version": 7, "mood": "good", "point": "tokyo", "tasks": []any{}}
	if q.URL.Path == "/v1/dns" {
		full = map[string]any{"version": 7, "mood": "good", "services": []any{map[string]any{"name": "a", "table": -1, "colour": "red"}}}
	}
	b, err := json.Marshal(full)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		kind    byte
		payload string
	}{
		{1, `{"protocol":2,"program":"9.0","node":"tokyo","keepAlive":10000000000,"anthem":"la"}`},
		{100, "a kind of frame from the future"},
		{5, `{"drained":false,"hibernate":true}`},
		{3, string(b)},
		{101, ""},
	} {
		if err := frame(f.kind, f.payload); err != nil {
			return ignoreGone(q, err)
		}
	}
	for {
		if err := http.NewResponseController(w).Flush(); err != nil {
			return ignoreGone(q, err)
		}
		if !wait(q.Context(), 50*ms, nil) {
			return nil
		}
		if err := frame(2, ""); err != nil {
			return ignoreGone(q, err)
		}
	}
}

func ignoreGone(q *http.Request, err error) error {
	if q.Context().Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// A node of this version works under a control of a later one: frames and fields it does not know are skipped.
// Covers: A2, issue3 version skew
func TestFutureControl(t *testing.T) {
	c := newCluster(t)
	r := c.real(t, c.token("dns", "probe"), RoleDNS, RoleProbe)
	r.member(RoleDNS, RoleProbe)
	future := c.future(t)
	r.control.authority = c.authority
	r.member(RoleDNS, RoleProbe) // of the authority that the server is under
	r.cfg.Servers = []string{future.URL}
	r.openReal()
	r.run()
	until(t, "map 7 and tasks 7", func() bool {
		version, _ := r.probe.Tasks()
		return r.dns.Current() != nil && r.dns.Current().Version == 7 && version == 7
	})
	r.agent.Observe(seen("a", true))
	until(t, "shipped", func() bool { _, n, _ := r.agent.spool.counts(); return n == 1 })
	if got := r.agent.Trouble(); len(got) != 0 {
		t.Errorf("trouble %q", got)
	}
	r.stop()
}
