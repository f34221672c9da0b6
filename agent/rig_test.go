package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

const life = 24 * time.Hour // of certificates in these tests

// fakeControl is control as one node sees it, without a network. Every call is noted with its time since the start;
// the fields that are functions say what comes of it.
type fakeControl struct {
	authority *pki.Authority
	token     pki.Token
	start     time.Time

	mu       sync.Mutex                    // guards what follows
	join     func(a pki.Application) error // nil or what it returns nil for: it is let in
	renew    func() error
	dns      streamOf[wire.Update] // nil: away
	probe    streamOf[wire.ProbeUpdate]
	edge     streamOf[wire.EdgeUpdate]
	up       func(call string) error // for ack, observe, status, result
	calls    map[string][]time.Duration
	sessions int
	closed   int
	record   heard
}

// heard is what the node said.
type heard struct {
	haves    []uint64
	acks     []report.Ack
	batches  map[string][]report.Observation // by ID, as it came last
	order    []string                        // IDs, with repetitions
	statuses []report.NodeStatus
	results  []string
}

// streamOf is one stream of control, from its begin to its end.
type streamOf[U any] func(ctx context.Context, have uint64, take func(U) error) error

var (
	errAway = fmt.Errorf("%w: nobody is there", wire.ErrUnreached)
	errDisk = errors.New("no space left on device")
)

func newFakeControl(t *testing.T) *fakeControl {
	t.Helper()
	a, err := pki.OpenAuthority(t.TempDir(), "test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &fakeControl{
		authority: a, token: pki.NewToken(a.Hash()), start: time.Now(),
		calls: map[string][]time.Duration{}, record: heard{batches: map[string][]report.Observation{}},
	}
}

func (c *fakeControl) note(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[call] = append(c.calls[call], time.Since(c.start))
}

// heard is what the node has said by now.
func (c *fakeControl) heard() heard {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.record
	h.haves, h.acks, h.order = slices.Clone(h.haves), slices.Clone(h.acks), slices.Clone(h.order)
	h.statuses, h.results, h.batches = slices.Clone(h.statuses), slices.Clone(h.results), maps.Clone(h.batches)
	return h
}

// set changes what comes of calls.
func (c *fakeControl) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// knob reads one of the functions that say what comes of a call.
func knob[F any](c *fakeControl, f *F) F {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *f
}

func (c *fakeControl) times(call string) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.calls[call]...)
}

// connect is Agent.connect: a session's streams and calls end when it is closed.
func (c *fakeControl) connect(wire.ClientConfig) session {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions++
	closed, stop := context.WithCancel(context.Background())
	s := &fakeSession{c: c, closed: closed}
	return session{enroll: s, down: s, up: s, result: s, edge: s, close: func() {
		c.mu.Lock()
		c.closed++
		c.mu.Unlock()
		stop()
	}}
}

type fakeSession struct {
	c      *fakeControl
	closed context.Context
}

func (s *fakeSession) Join(_ context.Context, a pki.Application) (pki.Credential, error) {
	s.c.note("join")
	if join := knob(s.c, &s.c.join); join != nil {
		if err := join(a); err != nil {
			return pki.Credential{}, err
		}
	}
	return s.c.credential(a.Request, a.Name, a.Roles)
}

func (c *fakeControl) credential(request []byte, name string, roles []string) (pki.Credential, error) {
	cert, id, err := c.authority.Sign(request, name, roles, time.Now(), life)
	if err != nil {
		return pki.Credential{}, err
	}
	return pki.Credential{
		Certificate: cert, Authority: c.authority.PEM(), Lifetime: life, Cluster: "test", Name: id.Name, Roles: id.Roles,
	}, nil
}

// enroll makes a folder that of a node that has joined just now.
func (c *fakeControl) enroll(t *testing.T, dir, name string, servers []string, roles ...string) {
	t.Helper()
	s := newStore(dir)
	key, err := s.key()
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.Request(key, name)
	if err != nil {
		t.Fatal(err)
	}
	given, err := c.credential(request, name, roles)
	if err != nil {
		t.Fatal(err)
	}
	id, err := accept(&given, key, name, servers)
	if err == nil {
		err = s.save(id, given.Certificate)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *fakeSession) Renew(_ context.Context, request []byte) (pki.Credential, error) {
	s.c.note("renew")
	if renew := knob(s.c, &s.c.renew); renew != nil {
		if err := renew(); err != nil {
			return pki.Credential{}, err
		}
	}
	return s.c.credential(request, "tokyo", []string{"dns", "probe"})
}

func (s *fakeSession) FollowDNS(ctx context.Context, have uint64, take func(wire.Update) error) error {
	return follow(ctx, s, "dns", &s.c.dns, have, take)
}

func (s *fakeSession) FollowProbe(ctx context.Context, have uint64, take func(wire.ProbeUpdate) error) error {
	return follow(ctx, s, "probe", &s.c.probe, have, take)
}

func (s *fakeSession) FollowEdge(ctx context.Context, have uint64, take func(wire.EdgeUpdate) error) error {
	return follow(ctx, s, "edge", &s.c.edge, have, take)
}

// follow opens a stream as control has it now. It ends with the session, too.
func follow[U any](ctx context.Context, s *fakeSession, call string, stream *streamOf[U], have uint64, take func(U) error) error {
	s.c.note(call)
	s.c.mu.Lock()
	s.c.record.haves = append(s.c.record.haves, have)
	open := *stream
	s.c.mu.Unlock()
	if open == nil {
		return errAway
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closed, cancel)()
	return open(ctx, have, take)
}

func (s *fakeSession) Explained(_ context.Context, id string, a report.EdgeAnswer, failure string) error {
	s.c.mu.Lock()
	s.c.record.results = append(s.c.record.results, id+" "+a.Origin+" "+failure)
	s.c.mu.Unlock()
	return s.said("result")
}

func (s *fakeSession) said(call string) error {
	s.c.note(call)
	if up := knob(s.c, &s.c.up); up != nil {
		return up(call)
	}
	return nil
}

func (s *fakeSession) Ack(_ context.Context, a report.Ack) error {
	if err := s.said("ack"); err != nil {
		return err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.record.acks = append(s.c.record.acks, a)
	return nil
}

func (s *fakeSession) ObserveBatch(_ context.Context, id string, list []report.Observation) error {
	s.c.mu.Lock()
	s.c.record.order = append(s.c.record.order, id)
	s.c.record.batches[id] = list
	s.c.mu.Unlock()
	return s.said("observe")
}

func (s *fakeSession) Report(_ context.Context, st report.NodeStatus) error {
	if err := s.said("status"); err != nil {
		return err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.record.statuses = append(s.c.record.statuses, st)
	return nil
}

func (s *fakeSession) Result(_ context.Context, id string, o report.Observation, failure string) error {
	s.c.mu.Lock()
	s.c.record.results = append(s.c.record.results, id+" "+o.Task+" "+failure)
	s.c.mu.Unlock()
	return s.said("result")
}

// fakeDNS is a name server that refuses the versions in bad.
type fakeDNS struct {
	mu      sync.Mutex
	current *snapshot.DNS
	bad     map[uint64]bool
	swaps   []uint64
}

func (f *fakeDNS) Swap(d *snapshot.DNS) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(d.Services) > 0 && d.Services[0].Name == "poison" {
		panic("a map nobody can bear")
	}
	if f.bad[d.Version] {
		return errors.New("MAP_INVALID: not this one")
	}
	f.current = d
	f.swaps = append(f.swaps, d.Version)
	return nil
}

func (f *fakeDNS) Current() *snapshot.DNS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current
}

func (f *fakeDNS) State() report.NodeMap {
	if d := f.Current(); d != nil {
		return report.NodeMap{Version: d.Version}
	}
	return report.NodeMap{}
}

// fakeProbe is a prober that refuses tasks of kind "bad", and snapshots for others.
type fakeProbe struct {
	point string
	once  func(ctx context.Context, t snapshot.ProbeTask) report.Observation

	mu      sync.Mutex
	version uint64
	tasks   []snapshot.ProbeTask
}

// forget makes it a prober that has just started.
func (f *fakeProbe) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version, f.tasks = 0, nil
}

func (f *fakeProbe) Apply(s *snapshot.Probe) error {
	if s.Point != f.point {
		return errors.New("PROBE_OTHER_POINT")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version, f.tasks = s.Version, nil
	var errs []error
	for _, t := range s.Tasks {
		if t.Kind == "bad" {
			errs = append(errs, errors.New("PROBE_TASK_REFUSED: task "+t.ID))
			continue
		}
		f.tasks = append(f.tasks, t)
	}
	return errors.Join(errs...)
}

func (f *fakeProbe) Tasks() (uint64, []snapshot.ProbeTask) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version, f.tasks
}

func (f *fakeProbe) Once(ctx context.Context, t snapshot.ProbeTask) report.Observation {
	return f.once(ctx, t)
}

// rig is an agent with its planes, on a folder of its own.
type rig struct {
	t       *testing.T
	dir     string
	cfg     Config
	control *fakeControl
	dns     *fakeDNS
	probe   *fakeProbe
	edge    *fakeEdge
	agent   *Agent
	log     *bytes.Buffer
	reg     *prometheus.Registry

	mu     sync.Mutex // guards log
	done   chan error
	cancel context.CancelFunc
}

func newRig(t *testing.T, roles ...string) *rig {
	t.Helper()
	c := newFakeControl(t)
	r := &rig{
		t: t, dir: t.TempDir(), control: c, log: &bytes.Buffer{},
		dns: &fakeDNS{bad: map[uint64]bool{}}, probe: &fakeProbe{point: "tokyo"}, edge: &fakeEdge{},
	}
	r.cfg = Config{
		Dir: r.dir, Servers: []string{"https://control:7072"}, Name: "tokyo", Roles: roles, Program: "test",
		Token: func() (string, error) { return c.token.String(), nil },
	}
	return r
}

func (r *rig) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

// logged counts the log lines with a text in them.
func (r *rig) logged(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.log.String(), text)
}

// open makes the agent, with control at the other end and without jitter.
func (r *rig) open() {
	r.t.Helper()
	if err := r.tryOpen(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tryOpen() error {
	r.reg = prometheus.NewRegistry()
	a, err := New(r.cfg, r.reg, slog.New(slog.NewTextHandler(r, nil)))
	if err != nil {
		return err
	}
	a.connect = r.control.connect
	a.jitter = func() float64 { return 0 }
	r.agent = a
	return nil
}

func (r *rig) planes() (p Planes) {
	if r.agent.has(RoleDNS) {
		p.DNS = r.dns
	}
	if r.agent.has(RoleProbe) {
		p.Probe = r.probe
	}
	if r.agent.has(RoleEdge) {
		p.Edge = r.edge
	}
	return p
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	r.done, r.cancel = make(chan error, 1), cancel
	go func() { r.done <- r.agent.Run(ctx, r.planes()) }()
}

// stop ends Run, which must end without an error.
func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

// member makes the folder that of a node that has joined just now.
func (r *rig) member(roles ...string) {
	r.t.Helper()
	r.control.enroll(r.t, r.dir, "tokyo", r.cfg.Servers, roles...)
}

// bubble runs a test in time that passes only when everybody waits.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// after lets time pass, and waits until what it woke has come to rest.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func dnsMap(version uint64, services ...string) *snapshot.DNS {
	d := &snapshot.DNS{Version: version, Created: time.Unix(1_700_000_000, 0).UTC()}
	for _, s := range services {
		d.Services = append(d.Services, &snapshot.DNSService{Name: s, Table: snapshot.NoTable})
	}
	return d
}

func task(n int) snapshot.ProbeTask {
	t := snapshot.ProbeTask{Kind: snapshot.KindTCP, Address: "192.0.2.1", Port: n, Interval: time.Second, Timeout: time.Second}
	t.ID = snapshot.TaskID(&t)
	return t
}

func tasks(version uint64, list ...snapshot.ProbeTask) *snapshot.Probe {
	return &snapshot.Probe{Version: version, Point: "tokyo", Tasks: list}
}

// standing is a stream that brings updates and then stands until it is ended.
func standing(updates ...wire.Update) streamOf[wire.Update] {
	return standingOf(updates, 0, func(u *wire.Update) *time.Time { return &u.Arrived })
}

func standingProbe(updates ...wire.ProbeUpdate) streamOf[wire.ProbeUpdate] {
	return standingOf(updates, 0, func(u *wire.ProbeUpdate) *time.Time { return &u.Arrived })
}

// standingEdge brings an update a second.
func standingEdge(updates ...wire.EdgeUpdate) streamOf[wire.EdgeUpdate] {
	return standingOf(updates, time.Second, func(u *wire.EdgeUpdate) *time.Time { return &u.Arrived })
}

func standingOf[U any](updates []U, between time.Duration, arrived func(*U) *time.Time) streamOf[U] {
	return func(ctx context.Context, _ uint64, take func(U) error) error {
		for _, u := range updates {
			*arrived(&u) = time.Now()
			if err := take(u); err != nil {
				return err
			}
			time.Sleep(between)
		}
		<-ctx.Done()
		return wire.ErrStreamEnded
	}
}
