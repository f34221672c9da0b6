package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// A follower gets the whole map, then what changes.
//
// Covers: A6, issue3 full and delta
func TestFollowDNS(t *testing.T) {
	r := newRig(t, nil)
	first, second := dnsMap(1, 20), dnsMap(2, 20)
	r.hub.PublishDNS(first)
	f := followDNS(t, r.node(t, "ns1", RoleDNS), 0)
	u := f.next(t)
	if u.Full == nil || u.Full.Digest() != first.Digest() {
		t.Fatalf("first came %+v, want the whole map", u)
	}
	r.hub.PublishDNS(second)
	u = f.next(t)
	if u.Delta == nil {
		t.Fatalf("then came %+v, want a delta", u)
	}
	got, err := u.Delta.Apply(first)
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest() != second.Digest() || u.Bytes == 0 || u.Arrived.IsZero() {
		t.Errorf("delta of %d bytes makes %v", u.Bytes, got)
	}
}

// A node that comes again goes on from what it has: a delta from a version that is still kept, the whole map otherwise,
// and a delta from a version to itself when it has the newest, whose digest finds a map that only has the same number.
//
// Covers: A6, issue3 resume
func TestFollowResumes(t *testing.T) {
	r := newRig(t, func(c *HubConfig) { c.Bases = 3 })
	for v := uint64(1); v <= 10; v++ {
		r.hub.PublishDNS(dnsMap(v, 20))
	}
	newest := dnsMap(10, 20).Digest()
	for _, row := range []struct {
		have  uint64
		delta bool
	}{{0, false}, {3, false}, {6, false}, {7, true}, {9, true}, {10, true}, {11, false}} {
		u := followDNS(t, r.node(t, "ns1", RoleDNS), row.have).next(t)
		if (u.Delta != nil) != row.delta {
			t.Errorf("have %d: delta %v, want %v", row.have, u.Delta != nil, row.delta)
			continue
		}
		if !row.delta {
			if u.Full.Digest() != newest {
				t.Errorf("have %d: the whole map is not the newest", row.have)
			}
			continue
		}
		got, err := u.Delta.Apply(dnsMap(row.have, 20))
		if err != nil || got.Digest() != newest {
			t.Errorf("have %d: the delta makes version %v, error %v", row.have, got, err)
		}
		other := dnsMap(row.have, 21) // the same number, of another control
		if _, err := u.Delta.Apply(other); !errors.Is(err, snapshot.ErrDigest) {
			t.Errorf("have another map of version %d: error %v, want ErrDigest", row.have, err)
		}
	}
}

// A control that was restored from a backup says older versions than before: nodes take the whole of them.
//
// Covers: A6, issue3 resume
func TestFollowControlWentBack(t *testing.T) {
	r := newRig(t, nil)
	r.hub.PublishDNS(dnsMap(9, 3))
	r.hub.PublishDNS(dnsMap(10, 3))
	f := followDNS(t, r.node(t, "ns1", RoleDNS), 10)
	if u := f.next(t); u.Delta == nil {
		t.Fatalf("first came %+v, want the empty delta", u)
	}
	r.hub.PublishDNS(dnsMap(4, 3))
	if u := f.next(t); u.Full == nil || u.Full.Version != 4 {
		t.Errorf("then came %+v, want the whole version 4", u)
	}
}

// One change is encoded once, whoever needs it, and a follower that fell behind goes to the newest in one step.
//
// Covers: issue3 encoded once
func TestLineSharesAndSkips(t *testing.T) {
	r := newRig(t, nil)
	l := &line[snapshot.DNS]{of: dnsLine(4)}
	if p, _ := l.next(0, true); p != nil {
		t.Error("an empty line has something to send")
	}
	for v := uint64(1); v <= 10; v++ {
		l.put(dnsMap(v, 3))
	}
	a, version := l.next(7, false)
	b, _ := l.next(7, false)
	if a != b || version != 10 || a.form != formDelta {
		t.Fatalf("two followers at 7 get %p and %p to %d as %s, want one shared delta to 10", a, b, version, a.form)
	}
	var made atomic.Int32
	inner := a.encode
	a.encode = func() ([]byte, error) { made.Add(1); return inner() }
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			a.start(r.hub)
			if <-a.ready; a.err != nil {
				t.Error(a.err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("encoded %d times", made.Load())
	}
	if p, _ := l.next(2, false); p.form != formFull {
		t.Errorf("a follower at 2, which is not kept, gets a %s", p.form)
	}
	if p, have := l.next(10, false); p != nil || have != 10 {
		t.Errorf("a follower at the newest gets %v", p)
	}
	if len(l.kept) != 5 {
		t.Errorf("%d versions are kept, want the newest and 4 bases", len(l.kept))
	}
}

// A point gets the tasks that were published for it, and nobody else's.
//
// Covers: A7, issue3 snapshot per role
func TestFollowProbe(t *testing.T) {
	r := newRig(t, nil)
	task := snapshot.ProbeTask{ID: "t1", Kind: snapshot.KindTCP, Address: "192.0.2.1", Port: 443, Interval: time.Second}
	r.hub.PublishProbe(&snapshot.Probe{Version: 1, Point: "p2"})
	r.hub.PublishProbe(&snapshot.Probe{Version: 1, Point: "p1", Tasks: []snapshot.ProbeTask{task}})
	f := followProbe(t, r.node(t, "p1", RoleProbe), 0)
	u := f.next(t)
	if u.Full == nil || u.Full.Point != "p1" || len(u.Full.Tasks) != 1 {
		t.Fatalf("first came %+v", u.Full)
	}
	r.hub.PublishProbe(&snapshot.Probe{Version: 2, Point: "p2"})
	next := &snapshot.Probe{Version: 2, Point: "p1"}
	r.hub.PublishProbe(next)
	if u = f.next(t); u.Delta == nil {
		t.Fatalf("then came %+v, want a delta", u)
	}
	if got, err := u.Delta.Apply(&snapshot.Probe{Version: 1, Point: "p1", Tasks: []snapshot.ProbeTask{task}}); err != nil || got.Digest() != next.Digest() {
		t.Errorf("the delta makes %v, error %v", got, err)
	}
}

// What the operator sets for a node goes down every stream of it, also to one that connects later.
//
// Covers: issue3 drain
func TestNodeState(t *testing.T) {
	r := newRig(t, nil)
	r.hub.NodeState("n1", NodeState{Drained: true})
	c := r.node(t, "n1", RoleDNS, RoleProbe)
	dns, probe := followDNS(t, c, 0), followProbe(t, c, 0)
	for want, set := range []func(){func() {}, func() { r.hub.NodeState("n1", NodeState{}) }} {
		set()
		drained := want == 0
		if u := dns.next(t); u.State == nil || u.State.Drained != drained {
			t.Errorf("the dns stream says %+v, want drained %v", u.State, drained)
		}
		if u := probe.next(t); u.State == nil || u.State.Drained != drained {
			t.Errorf("the probe stream says %+v, want drained %v", u.State, drained)
		}
	}
}

// A revoked node's streams end at once, with the reason, and it gets nothing any more; others go on.
//
// Covers: A7, issue3 revocation
func TestDisconnectRevoked(t *testing.T) {
	r := newRig(t, nil)
	r.hub.PublishDNS(dnsMap(1, 3))
	bad, good := r.node(t, "bad", RoleDNS, RoleProbe), r.node(t, "good", RoleDNS)
	dns, probe, other := followDNS(t, bad, 0), followProbe(t, bad, 0), followDNS(t, good, 0)
	dns.next(t)
	other.next(t)
	r.control.await(t, "connected bad probe", 1)
	r.control.revoke("bad")
	r.hub.Disconnect("bad")
	wantCode(t, dns.end(t), pki.NodeRevoked)
	wantCode(t, probe.end(t), pki.NodeRevoked)
	r.control.await(t, "gone bad dns", 1)
	r.control.await(t, "gone bad probe", 1)
	wantCode(t, followDNS(t, bad, 0).end(t), pki.NodeRevoked)
	wantCode(t, bad.Report(t.Context(), report.NodeStatus{}), pki.NodeRevoked)
	r.hub.PublishDNS(dnsMap(2, 3))
	if u := other.next(t); u.Delta == nil {
		t.Errorf("the other node got %+v", u)
	}
}

// Also when nobody calls Disconnect, a stream outlives neither the node's admission nor its certificate by more than a
// keep-alive.
//
// Covers: A7, issue3 revocation, issue3 an expired certificate
func TestStreamIsJudgedAgain(t *testing.T) {
	var ahead atomic.Int64
	r := newRig(t, func(c *HubConfig) {
		c.KeepAlive = 20 * time.Millisecond
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	revoked, late := followDNS(t, r.node(t, "revoked", RoleDNS), 0), followDNS(t, r.node(t, "late", RoleDNS), 0)
	r.control.await(t, "connected revoked dns", 1)
	r.control.await(t, "connected late dns", 1)
	r.control.revoke("revoked")
	wantCode(t, revoked.end(t), pki.NodeRevoked)
	ahead.Store(int64(2 * time.Hour))
	wantCode(t, late.end(t), pki.CertExpired)
}

// A node that comes again before its old stream was missed has one stream: the old one ends, and it is gone only when
// the new one is.
//
// Covers: issue3 nodes
func TestFollowAgain(t *testing.T) {
	r := newRig(t, nil)
	c := r.node(t, "ns1", RoleDNS)
	first := followDNS(t, c, 0)
	r.control.await(t, "connected ns1 dns", 1)
	second := followDNS(t, c, 0)
	wantCode(t, first.end(t), pki.Busy)
	r.control.await(t, "connected ns1 dns", 2)
	r.hub.PublishDNS(dnsMap(1, 1))
	if u := second.next(t); u.Full == nil {
		t.Errorf("the second stream got %+v", u)
	}
	if n := r.control.count("gone ns1 dns"); n != 0 {
		t.Errorf("gone %d times while it follows", n)
	}
	second.cancel()
	r.control.await(t, "gone ns1 dns", 1)
	if n := r.control.count("gone ns1 dns"); n != 1 {
		t.Errorf("gone %d times", n)
	}
	if n := r.metric(t, "steer_wire_followers"); n != 0 {
		t.Errorf("%v followers are counted, none is there", n)
	}
}

// largeMap packs badly: it is longer than everything that may be under way unread.
func largeMap(version uint64) *snapshot.DNS {
	raw := make([]byte, 6*mib)
	random := rand.New(rand.NewPCG(version, 1))
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	d := dnsMap(version, 1)
	d.Zones[0].Records = []snapshot.DNSRecord{{Name: "x.steer.example.", Type: "TXT", Data: []string{base64.StdEncoding.EncodeToString(raw)}}}
	return d
}

// slowInTests is long enough for a node that reads on a machine that others keep busy: the limit judges it too.
const slowInTests = 5 * time.Second

// A node that takes nothing is let go and counted; it holds nobody up.
//
// Covers: A7, issue3 slow clients
func TestSlowFollower(t *testing.T) {
	r := newRig(t, func(c *HubConfig) { c.KeepAlive, c.SlowAfter = 100*time.Millisecond, slowInTests })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url()+"/v1/dns", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rawClient(t, pair(t, r.authority, "deaf", []string{RoleDNS}, time.Now(), time.Hour)).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r.control.await(t, "connected deaf dns", 1)
	r.hub.PublishDNS(largeMap(1))
	if u := followDNS(t, r.node(t, "quick", RoleDNS), 0).next(t); u.Full == nil {
		t.Errorf("the node that reads got %+v", u)
	}
	r.control.await(t, "gone deaf dns", 1)
	if n := r.metric(t, "steer_wire_slow_disconnects_total"); n != 1 {
		t.Errorf("%v slow nodes are counted, want 1", n)
	}
}

// stuck is a connection from which nothing is read once it is stuck: the machine behind it hangs.
type stuck struct {
	net.Conn
	now    *atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (s *stuck) Read(b []byte) (int, error) {
	if s.now.Load() {
		<-s.closed
	}
	return s.Conn.Read(b)
}

func (s *stuck) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// A machine that hangs with its connection open is let go too, connection and all.
//
// Covers: A7, issue3 slow clients
func TestStuckFollower(t *testing.T) {
	r := newRig(t, func(c *HubConfig) { c.KeepAlive, c.SlowAfter = 100*time.Millisecond, slowInTests })
	var hangs atomic.Bool
	cert := pair(t, r.authority, "hung", []string{RoleDNS}, time.Now(), time.Hour)
	c := r.client(t, cert, func(c *ClientConfig) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			inner, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &stuck{Conn: inner, now: &hangs, closed: make(chan struct{})}, err
		}
	})
	f := followDNS(t, c, 0)
	r.control.await(t, "connected hung dns", 1)
	r.hub.PublishDNS(dnsMap(1, 1))
	f.next(t)
	hangs.Store(true)
	r.hub.PublishDNS(largeMap(2))
	r.control.await(t, "gone hung dns", 1)
	waitMetric(t, r, "steer_wire_connections", 0)
}

// A probe that somebody wants now goes down the point's stream and its result comes back to who asked.
//
// Covers: issue3 steer probe point
func TestProbeNow(t *testing.T) {
	r := newRig(t, nil)
	task := snapshot.ProbeTask{ID: "t1", Kind: snapshot.KindTCP, Address: "192.0.2.1", Port: 443, Timeout: time.Second}
	_, err := r.hub.Probe(t.Context(), "p1", task)
	wantCode(t, err, NodeAway)

	c, impostor := r.node(t, "p1", RoleProbe), r.node(t, "p2", RoleProbe)
	f := followProbe(t, c, 0)
	r.control.await(t, "connected p1 probe", 1)
	type outcome struct {
		o   report.Observation
		err error
	}
	ask := func(ctx context.Context) chan outcome {
		out := make(chan outcome, 1)
		go func() {
			o, err := r.hub.Probe(ctx, "p1", task)
			out <- outcome{o, err}
		}()
		return out
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	got := ask(ctx)
	q := f.next(t).Ask
	if q == nil || q.Task.ID != "t1" || q.Timeout <= 0 || q.Timeout > patience {
		t.Fatalf("the point is asked %+v", q)
	}
	if err := impostor.Result(ctx, q.ID, report.Observation{Task: "t1", OK: true}, ""); err != nil {
		t.Fatal(err)
	}
	if err := c.Result(ctx, q.ID, report.Observation{Task: "t1", Point: "p9", Cause: report.CauseRefused}, ""); err != nil {
		t.Fatal(err)
	}
	if o := <-got; o.err != nil || o.o.OK || o.o.Point != "p1" || o.o.Cause != report.CauseRefused {
		t.Errorf("the answer is %+v, want p1's own", o)
	}

	got = ask(ctx)
	if err := c.Result(ctx, f.next(t).Ask.ID, report.Observation{}, "loopback is not allowed"); err != nil {
		t.Fatal(err)
	}
	if o := <-got; o.err == nil || pki.CodeOf(o.err) != "" {
		t.Errorf("a point that did not probe: %v", o.err)
	}

	got = ask(ctx)
	f.next(t)
	f.cancel()
	if o := <-got; o.err == nil {
		t.Error("a point that went away answered")
	}
}

// No more than so many questions wait at one point.
//
// Covers: issue3 steer probe point
func TestProbeNowIsBounded(t *testing.T) {
	f := newFollower()
	for i := range maxAsks + 1 {
		if got, want := f.ask(Ask{}), i < maxAsks; got != want {
			t.Fatalf("question %d: taken %v", i, got)
		}
	}
	f.take()
	f.end(nil)
	if f.ask(Ask{}) {
		t.Error("a stream that ends takes a question")
	}
}

// Whoever stops the hub gets it stopped: streams end, nodes are told, and Presence hears nothing after Run.
//
// Covers: issue3 nodes
func TestHubStops(t *testing.T) {
	a := newAuthority(t)
	control := newFakeControl(a)
	hub, err := NewHub(HubConfig{
		Listen: "127.0.0.1:0", Certificate: func() (*tls.Certificate, error) { return a.ServerCertificate(time.Now()) }, Pool: a.Pool(),
	}, control, control, control, newRegistry(), quiet())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- hub.Run(ctx) }()
	r := &rig{hub: hub, control: control, authority: a}
	f := followDNS(t, r.node(t, "ns1", RoleDNS), 0)
	control.await(t, "connected ns1 dns", 1)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	wantCode(t, f.end(t), pki.Busy)
	if n := control.count("gone ns1 dns"); n != 1 {
		t.Errorf("gone %d times when Run returned", n)
	}
	if err := hub.Close(); err != nil {
		t.Errorf("Close after Run: %v", err)
	}
}

// A frame is cut into pieces for its deadlines; a revocation in the middle of it stops the rest.
//
// Covers: A7, issue3 revocation
func TestRevokedInTheMiddleOfAMap(t *testing.T) {
	r := newRig(t, nil)
	var got bytes.Buffer
	f := newFollower()
	s := &stream{hub: r.hub, f: f, r: &request{ctx: t.Context(), writer: &recorder{Buffer: &got, after: func() { f.end(nil) }}}}
	s.r.control = http.NewResponseController(s.r.writer)
	if err := s.write(frameFull, make([]byte, 3*writeChunk)); !errors.Is(err, errEnding) {
		t.Errorf("error %v, want that it ends", err)
	}
	if got.Len() != writeChunk {
		t.Errorf("%d bytes went to a revoked node, want the first piece of %d", got.Len(), writeChunk)
	}
}
