package wire

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come; it is reached only when something is wrong.
const patience = 2 * time.Minute

// fakeControl is a registry, a sink and a presence that remember what they were told.
type fakeControl struct {
	authority *pki.Authority
	now       func() time.Time

	mu       sync.Mutex
	revoked  map[string]bool
	used     map[string]bool // tokens, by text
	events   []string
	observed []report.Observation
	acks     []report.Ack
	statuses []report.NodeStatus
	changed  chan struct{} // closed and made anew at each event
	applied  []pki.Application
	admitted func(pki.Identity) error // instead of Admit, if set
}

func newFakeControl(a *pki.Authority) *fakeControl {
	return &fakeControl{
		authority: a, now: time.Now, revoked: map[string]bool{}, used: map[string]bool{}, changed: make(chan struct{}),
	}
}

// Join gives every well-formed token one node.
func (c *fakeControl) Join(_ context.Context, a pki.Application) (pki.Credential, error) {
	if _, err := pki.ParseToken(a.Token); err != nil {
		return pki.Credential{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used[a.Token] {
		return pki.Credential{}, pki.Refuse(pki.TokenUsed, "the token made a node already", "")
	}
	cred, err := c.credential(a.Request, a.Name, a.Roles)
	if err == nil {
		c.used[a.Token] = true
		c.applied = append(c.applied, a)
	}
	return cred, err
}

func (c *fakeControl) Renew(_ context.Context, node pki.Identity, request []byte) (pki.Credential, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.credential(request, node.Name, node.Roles)
}

func (c *fakeControl) credential(request []byte, name string, roles []string) (pki.Credential, error) {
	cert, id, err := c.authority.Sign(request, name, roles, c.now(), time.Hour)
	return pki.Credential{
		Certificate: cert, Authority: c.authority.PEM(), Lifetime: time.Hour, Cluster: "test", Name: id.Name, Roles: id.Roles,
	}, err
}

func (c *fakeControl) Admit(node pki.Identity) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.admitted != nil {
		return c.admitted(node)
	}
	if c.revoked[node.Name] {
		return pki.Refuse(pki.NodeRevoked, "node "+node.Name+" was revoked", "")
	}
	return nil
}

func (c *fakeControl) revoke(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revoked[node] = true
}

func (c *fakeControl) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *fakeControl) Observe(node string, list []report.Observation) {
	c.note(func() {
		c.observed = append(c.observed, list...)
		c.events = append(c.events, "observe "+node)
	})
}

func (c *fakeControl) Acked(node string, a report.Ack) {
	c.note(func() { c.acks, c.events = append(c.acks, a), append(c.events, "ack "+node) })
}

func (c *fakeControl) Reported(node string, s report.NodeStatus) {
	c.note(func() { c.statuses, c.events = append(c.statuses, s), append(c.events, "status "+node) })
}

func (c *fakeControl) Connected(node, kind, _ string) {
	c.note(func() { c.events = append(c.events, "connected "+node+" "+kind) })
}

func (c *fakeControl) Gone(node, kind string) {
	c.note(func() { c.events = append(c.events, "gone "+node+" "+kind) })
}

func (c *fakeControl) count(event string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.events {
		if e == event {
			n++
		}
	}
	return n
}

// await waits until an event happened n times.
func (c *fakeControl) await(t testing.TB, event string, n int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if c.count(event) >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			c.mu.Lock()
			defer c.mu.Unlock()
			t.Fatalf("%q did not happen %d times; there was %q", event, n, c.events)
		}
	}
}

// rig is a hub on loopback with what it stands on.
type rig struct {
	hub       *Hub
	control   *fakeControl
	authority *pki.Authority
	registry  *prometheus.Registry
}

func newAuthority(t testing.TB) *pki.Authority {
	t.Helper()
	a, err := pki.OpenAuthority(t.TempDir(), "test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newRig(t testing.TB, change func(*HubConfig)) *rig {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, listener, quiet(), change)
}

func newRigOn(t testing.TB, listener net.Listener, log *slog.Logger, change func(*HubConfig)) *rig {
	t.Helper()
	a := newAuthority(t)
	cfg := HubConfig{
		Certificate: func() (*tls.Certificate, error) { return a.ServerCertificate(time.Now()) },
		Pool:        a.Pool(), Program: "1.3.0",
		Update: func(_ context.Context, node string, u report.Update) (report.UpdateResult, error) {
			return report.UpdateResult{Rcode: 5, Reason: node + " handed on " + u.ID}, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	r := &rig{control: newFakeControl(a), authority: a, registry: prometheus.NewRegistry()}
	hub, err := newHub(cfg, listener, r.control, r.control, r.control, r.registry, log)
	if err != nil {
		t.Fatal(err)
	}
	r.hub = hub
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func (r *rig) url() string { return "https://" + r.hub.Addr().String() }

// pair signs a certificate for a new key.
func pair(t testing.TB, a *pki.Authority, name string, roles []string, now time.Time, life time.Duration) *tls.Certificate {
	t.Helper()
	cert, key := signed(t, a, name, roles, now, life)
	p, err := pki.Pair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func signed(t testing.TB, a *pki.Authority, name string, roles []string, now time.Time, life time.Duration) ([]byte, crypto.Signer) {
	t.Helper()
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.Request(key, name)
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := a.Sign(request, name, roles, now, life)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// client is a node's client with a certificate, or without one.
func (r *rig) client(t testing.TB, cert *tls.Certificate, change ...func(*ClientConfig)) *Client {
	t.Helper()
	cfg := ClientConfig{
		Servers: []string{r.url()}, Authority: r.authority.PEM(), Program: "1.3.0",
		Certificate: func() *tls.Certificate { return cert },
		Silence:     patience, // the machine that tests may be silent itself
	}
	for _, c := range change {
		c(&cfg)
	}
	c := NewClient(cfg)
	t.Cleanup(c.Close)
	return c
}

func (r *rig) node(t testing.TB, name string, roles ...string) *Client {
	t.Helper()
	return r.client(t, pair(t, r.authority, name, roles, time.Now(), time.Hour))
}

// following is a stream that a test follows.
type following[U any] struct {
	updates chan U
	ended   chan error
	cancel  context.CancelFunc
}

func (f *following[U]) next(t testing.TB) U {
	t.Helper()
	select {
	case u := <-f.updates:
		return u
	case err := <-f.ended:
		f.ended <- err // for the clean-up
		t.Fatalf("the stream ended: %v", err)
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	panic("not reached")
}

func (f *following[U]) end(t testing.TB) error {
	t.Helper()
	for {
		select {
		case <-f.updates:
		case err := <-f.ended:
			f.ended <- err // for the clean-up
			return err
		case <-time.After(patience):
			t.Fatal("the stream did not end")
		}
	}
}

func startFollowing[U any](t testing.TB, run func(context.Context, func(U) error) error) *following[U] {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &following[U]{updates: make(chan U, 100), ended: make(chan error, 1), cancel: cancel}
	go func() {
		f.ended <- run(ctx, func(u U) error {
			select {
			case f.updates <- u:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-f.ended
	})
	return f
}

func followDNS(t testing.TB, c *Client, have uint64) *following[Update] {
	return startFollowing(t, func(ctx context.Context, take func(Update) error) error { return c.FollowDNS(ctx, have, take) })
}

func followProbe(t testing.TB, c *Client, have uint64) *following[ProbeUpdate] {
	return startFollowing(t, func(ctx context.Context, take func(ProbeUpdate) error) error { return c.FollowProbe(ctx, have, take) })
}

// dnsMap is a map of n services; version changes the TTL of the first.
func dnsMap(version uint64, n int) *snapshot.DNS {
	d := &snapshot.DNS{Version: version, Zones: []snapshot.DNSZone{{Name: "steer.example."}}}
	for i := range n {
		d.Services = append(d.Services, mapService(i, version))
	}
	return d
}

func mapService(i int, version uint64) *snapshot.DNSService {
	name := fmt.Sprintf("service-%06d", i)
	s := &snapshot.DNSService{
		Name: name, Zone: "steer.example.", CNAME: name + ".steer.example.", Hosted: []string{"www." + name + ".example."},
		Table: snapshot.NoTable, NegativeTTL: 30 * time.Second, Revision: 1,
		Rules: []snapshot.DNSRule{{
			Rule: "default", Scope: "*", Decision: 1, TTL: time.Minute, MinTTL: 5 * time.Second,
			Choices: []snapshot.DNSChoice{{
				Edge: "edge-a", A: []netip.Addr{netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)})}, HasA: true,
			}},
		}},
	}
	if i == 0 {
		s.Revision, s.Rules[0].Decision = version, version
	}
	return s
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if got := pki.CodeOf(err); got != code {
		t.Errorf("error %v: code %q, want %q", err, got, code)
	}
}

func (r *rig) metric(t testing.TB, name string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return total
}

// selfSigned is a certificate that nobody else vouches for, with the URI of a node of the rig's cluster.
func selfSigned(t *testing.T, _ *rig) *tls.Certificate {
	t.Helper()
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	uri, err := url.Parse("steer://test/node/ns1?roles=dns,probe")
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{uri},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }

// recorder is a response that calls after at each write.
type recorder struct {
	*bytes.Buffer
	after func()
}

func (r *recorder) Write(b []byte) (int, error) {
	defer r.after()
	return r.Buffer.Write(b)
}
func (r *recorder) Header() http.Header              { return http.Header{} }
func (r *recorder) WriteHeader(int)                  {}
func (r *recorder) FlushError() error                { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
