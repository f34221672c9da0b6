// Package agent is the node's half of the conversation with control: it joins with a token, keeps the node's identity
// and renews its certificate, follows the snapshots of the node's roles, acks them, ships observations, and says how the
// node does.
//
// Nothing a node does waits for it. A name server and a probe point start from what is on disk and go on by it for
// ever; the agent only brings what is newer. It keeps in Config.Dir:
//
//	node.key    the private key, made before the first join; PEM
//	ca.crt      the certificate of the cluster's authority; PEM
//	node.crt    the certificate that the authority signed; PEM
//	node.json   name, cluster and roles: written last, so that with it a join is whole
//	node.state  what control said last of the node itself: drained or not
//	probe.tasks the last probe snapshot
//	edge.snapshot the last snapshot of the gateway, its secrets sealed
//
// Each is replaced as a whole (internal/atomicfile). A process killed at any point of a join starts again with the same
// key, for which control gives a certificate again while the token lives.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/internal/pki"
	"steerpoint/internal/supervise"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

// The roles a node can have.
const (
	RoleDNS   = pki.RoleDNS   // follows snapshot.DNS
	RoleProbe = pki.RoleProbe // follows snapshot.Probe and ships observations
	RoleEdge  = pki.RoleEdge  // follows snapshot.EdgePack
)

// Config of an Agent. Dir, Roles, and Name or an identity in Dir are needed.
type Config struct {
	// Dir is where identity and last good state are kept. It must exist, and belong to this process alone.
	Dir string
	// Servers are the URLs of control, https://host:port, tried in turn. Empty: those of the last start.
	Servers []string
	// Token gives the join token as control printed it. It is called only while there is no identity in Dir. nil: there
	// is no token.
	Token func() (string, error)
	// Name is the node's name to ask for. An identity in Dir wins over it.
	Name string
	// Roles are those this process works by. The identity may have more, never fewer. Empty: all of the identity.
	Roles []string
	// Labels say where the node is: continent, country, province, city, isp, region.
	Labels map[string]string
	// Program is the version of the program, for people. Empty: dev.
	Program string
	// Listeners gives the bound addresses by role, for people. nil: none are told.
	Listeners func() map[string]string
	// Spool is how many observations may wait for control; beyond it the oldest are dropped. 0: 10000.
	Spool int
	// ShipEvery is the longest time an observation waits for others to be shipped with. 0: 100ms.
	ShipEvery time.Duration
	// StatusEvery is the time between two reports of the node's state. 0: 5s.
	StatusEvery time.Duration
	// SaveEvery is the least time between two writes of probe.tasks. 0: 1s.
	SaveEvery time.Duration
	// Dial opens connections to control. nil: net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

const (
	defaultSpool       = 10_000
	defaultShipEvery   = 100 * time.Millisecond
	defaultStatusEvery = 5 * time.Second
	defaultSaveEvery   = time.Second
)

func (c Config) withDefaults() (Config, error) {
	c.Spool = cmp.Or(c.Spool, defaultSpool)
	c.ShipEvery = cmp.Or(c.ShipEvery, defaultShipEvery)
	c.StatusEvery = cmp.Or(c.StatusEvery, defaultStatusEvery)
	c.SaveEvery = cmp.Or(c.SaveEvery, defaultSaveEvery)
	c.Program = cmp.Or(c.Program, "dev")
	c.Servers, c.Roles = slices.Clone(c.Servers), slices.Clone(c.Roles)
	c.Labels = maps.Clone(c.Labels)
	switch {
	case c.Dir == "":
		return c, errors.New("agent config: Dir is empty")
	case c.Spool < 0 || min(c.ShipEvery, c.StatusEvery, c.SaveEvery) < 0:
		return c, errors.New("agent config: Spool and the durations may not be negative")
	}
	for _, r := range c.Roles {
		if r != RoleDNS && r != RoleProbe && r != RoleEdge {
			return c, fmt.Errorf("agent config: there is no role %q: want %s, %s or %s", r, RoleDNS, RoleProbe, RoleEdge)
		}
	}
	return c, nil
}

// DNSPlane is the name server of the node, as *authdns.Server with an adapter is.
type DNSPlane interface {
	// Swap makes a map the one that answers. On an error the one before answers on.
	Swap(d *snapshot.DNS) error
	// Current is the map that answers, nil when there is none.
	Current() *snapshot.DNS
	// State describes it.
	State() report.NodeMap
}

// ProbePlane is the prober of the node, as *probe.Prober is.
type ProbePlane interface {
	// Apply replaces the tasks. On an error Tasks says whether the snapshot is in use: then only the tasks named by the
	// error are not.
	Apply(s *snapshot.Probe) error
	// Tasks gives the version in use and its accepted tasks.
	Tasks() (version uint64, tasks []snapshot.ProbeTask)
	// Once probes a task now, outside the schedule.
	Once(ctx context.Context, t snapshot.ProbeTask) report.Observation
}

// Planes are what the agent feeds. One is needed for each role, the others are nil.
type Planes struct {
	DNS   DNSPlane
	Probe ProbePlane
	Edge  EdgePlane
}

// Agent is the node's half. Make it with New; it works while Run runs. Its other methods may be called at any time,
// from any goroutine.
type Agent struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	store   *store
	spool   *spool
	quiet   *throttle
	connect func(wire.ClientConfig) session
	link    link
	jitter  func() float64 // in [0,1)
	start   time.Time      // by the monotonic clock

	renewNow chan struct{} // 1 deep: control says that the certificate ended
	again    bell          // rung when what kept control from being reached may be over
	drained  atomic.Bool

	mu      sync.Mutex
	id      *identity // nil until joined; replaced by a renewal, never changed
	streams map[string]streamState
	trouble map[string]string // sentences, by what they are about
	acks    map[string]*mailbox[report.Ack]
}

// streamState is one stream's share of the link to control.
type streamState struct {
	up    bool
	since time.Time // of up; by the monotonic clock
}

// New reads what Dir has and asks nobody. Errors are for people: an identity that does not fit the configuration, a
// missing token, a key that others can read.
func New(cfg Config, reg prometheus.Registerer, log *slog.Logger) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, log: log, start: time.Now(), jitter: rand.Float64,
		store: newStore(cfg.Dir), spool: newSpool(cfg.Spool),
		renewNow: make(chan struct{}, 1), quiet: newThrottle(time.Minute),
		streams: map[string]streamState{}, trouble: map[string]string{},
	}
	a.connect = a.dial
	if err := a.open(); err != nil {
		return nil, err
	}
	a.acks = map[string]*mailbox[report.Ack]{}
	for _, kind := range a.kinds() {
		a.acks[kind] = newMailbox[report.Ack]()
		a.streams[kind] = streamState{since: a.start}
	}
	if a.metrics, err = newMetrics(reg, a); err != nil {
		return nil, fmt.Errorf("agent metrics: %w", err)
	}
	return a, nil
}

// Name is the node's name: of its identity, or the one it will ask for.
func (a *Agent) Name() string {
	if id := a.identity(); id != nil {
		return id.Name
	}
	return a.cfg.Name
}

// Roles are the roles this process works by.
func (a *Agent) Roles() []string { return slices.Clone(a.cfg.Roles) }

// Joined reports whether the node has an identity.
func (a *Agent) Joined() bool { return a.identity() != nil }

// Drained reports whether control drains the node: it should be given no new work, and does what it is given.
func (a *Agent) Drained() bool { return a.drained.Load() }

// Following reports whether control is heard for the snapshots of a role: its stream stands, and something came down it
// within three of its keep-alives.
func (a *Agent) Following(role string) bool { return a.stream(role).up }

func (a *Agent) identity() *identity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id
}

func (a *Agent) has(role string) bool { return slices.Contains(a.cfg.Roles, role) }

// kinds are the snapshots of this node's roles: each is named as its role is.
func (a *Agent) kinds() []string {
	var k []string
	if a.has(RoleDNS) {
		k = append(k, report.SnapshotDNS)
	}
	if a.has(RoleProbe) {
		k = append(k, report.SnapshotProbe)
	}
	if a.has(RoleEdge) {
		k = append(k, report.SnapshotEdge)
	}
	return k
}

// Run works until ctx ends, and returns nil when everything it started has stopped. It returns an error only when the
// node can never join as it is and has nothing to go on with: the error then is the *pki.Refusal of control, or says
// what is missing.
func (a *Agent) Run(ctx context.Context, p Planes) error {
	if a.has(RoleDNS) == (p.DNS == nil) || a.has(RoleProbe) == (p.Probe == nil) || a.has(RoleEdge) == (p.Edge == nil) {
		return fmt.Errorf("agent: the roles are %s, and the planes given are others", strings.Join(a.cfg.Roles, ", "))
	}
	base := a.loadTasks(p.Probe)
	if err := a.enter(ctx, p); err != nil || ctx.Err() != nil {
		return err
	}
	defer a.link.close()
	g := supervise.New(ctx)
	g.Go("certificate", func(ctx context.Context) error { return a.keepCertificate(ctx) })
	g.Go("status", func(ctx context.Context) error { return a.reportStatus(ctx, p) })
	if p.DNS != nil {
		f := newDNSFollower(a, p.DNS)
		g.Go("dns snapshots", f.run)
		g.Go("dns acks", func(ctx context.Context) error { return a.sendAcks(ctx, report.SnapshotDNS) })
	}
	if p.Probe != nil {
		f := newProbeFollower(a, p.Probe, base)
		g.Go("probe snapshots", f.run)
		g.Go("probe tasks on disk", f.saver.run)
		g.Go("probe acks", func(ctx context.Context) error { return a.sendAcks(ctx, report.SnapshotProbe) })
		g.Go("observations", func(ctx context.Context) error { return a.ship(ctx) })
	}
	if p.Edge != nil {
		f := newEdgeFollower(a, p.Edge)
		g.Go("edge snapshots", f.run)
		g.Go("edge snapshot on disk", f.saver.run)
		g.Go("edge acks", func(ctx context.Context) error { return a.sendAcks(ctx, report.SnapshotEdge) })
	}
	return g.Wait()
}
