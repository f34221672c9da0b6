package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// Hub is control's end: it lets nodes in, sends them the newest snapshots and hands on what they report. Its methods
// may be called at the same time, also from inside the calls it makes.
type Hub struct {
	cfg      HubConfig
	registry Registry
	sink     Sink
	presence Presence
	metrics  *metrics
	log      *slog.Logger

	door   *door
	server *http.Server
	routes map[string]*Call // by method and path
	joins  *rateLimit
	told   *rateLimit // refusals of strangers that are logged

	dns  *line[snapshot.DNS]
	edge *line[snapshot.EdgePack]

	mu        sync.Mutex
	probes    map[string]*line[snapshot.Probe] // by node
	followers map[followerKey]*follower
	states    map[string]NodeState // by node
	stopping  bool
	streams   sync.WaitGroup // nothing is added once stopping is set

	// order makes calls of Presence follow one another as the changes of followers did. It is taken before mu.
	order sync.Mutex

	asks    asks
	batches batches
}

// NewHub binds the address; nothing is served before Run.
func NewHub(cfg HubConfig, r Registry, s Sink, p Presence, reg prometheus.Registerer, log *slog.Logger) (*Hub, error) {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for nodes: %w", err)
	}
	h, err := newHub(cfg, listener, r, s, p, reg, log)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return h, nil
}

func newHub(cfg HubConfig, l net.Listener, r Registry, s Sink, p Presence, reg prometheus.Registerer, log *slog.Logger) (*Hub, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("wire metrics: %w", err)
	}
	h := &Hub{
		cfg: cfg, registry: r, sink: s, presence: p, metrics: m, log: log,
		door:   &door{Listener: l, metrics: m, max: int64(cfg.MaxConnections), strangers: int64(cfg.MaxStrangers), perSite: cfg.MaxStrangersPerSite},
		routes: routes(), joins: newRateLimit(cfg.JoinsPerMinute), told: newRateLimit(cfg.JoinsPerMinute),
		probes: map[string]*line[snapshot.Probe]{}, followers: map[followerKey]*follower{}, states: map[string]NodeState{},
	}
	h.dns = &line[snapshot.DNS]{of: dnsLine(cfg.Bases)}
	h.edge = &line[snapshot.EdgePack]{of: edgeLine()}
	h.server = h.newServer()
	return h, nil
}

// routes are the calls of the service definition.
func routes() map[string]*Call {
	out := make(map[string]*Call, len(Calls))
	for i := range Calls {
		out[Calls[i].Method+" "+Calls[i].Path] = &Calls[i]
	}
	return out
}

func (h *Hub) newServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	return &http.Server{
		Handler: h,
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS13,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.cfg.Certificate() },
			// The certificate is asked for and judged by us at each call, so that a refusal says which and why; TLS would
			// only end the connection.
			ClientAuth: tls.RequestClientCert,
			// A resumed session would bring back the certificate of its first handshake.
			SessionTicketsDisabled: true,
		},
		Protocols: protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: h.cfg.MaxStreams,
			// A node that is gone without a word is pinged after some silence and let go when it does not answer.
			SendPingTimeout:  2 * h.cfg.KeepAlive,
			PingTimeout:      h.cfg.SlowAfter,
			WriteByteTimeout: h.cfg.SlowAfter,
		},
		ReadHeaderTimeout: h.cfg.HandshakeTimeout,
		IdleTimeout:       h.cfg.IdleTimeout,
		MaxHeaderBytes:    h.cfg.MaxHeader,
		ConnContext:       visitorContext,
		// Handshakes that fail are of no use at a higher level: anybody can make them.
		ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
}

type visitorKey struct{}

func visitorContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, visitorKey{}, c)
}

// Addr is the bound address.
func (h *Hub) Addr() net.Addr { return h.door.Addr() }

// shutdownTimeout is for calls that are being answered when the hub stops.
const shutdownTimeout = 5 * time.Second

// Run serves until ctx ends or the listener fails, and returns when every stream has ended.
func (h *Hub) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- h.server.ServeTLS(h.door, "", "") }()
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-served:
		if errors.Is(failed, http.ErrServerClosed) {
			failed = nil
		}
		served <- nil
	}
	h.endAll()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := h.server.Shutdown(grace); err != nil {
		_ = h.server.Close() // what did not end in time ends now
	}
	<-served
	h.streams.Wait() // Presence hears nothing after Run
	if failed != nil {
		return fmt.Errorf("serve nodes: %w", failed)
	}
	return nil
}

// Close gives the address back when Run was never called, and ends Run otherwise.
func (h *Hub) Close() error {
	h.endAll()
	return errors.Join(h.server.Close(), ignoreClosed(h.door.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// PublishDNS makes s the newest map. It waits for nobody: each follower takes the newest when it can.
func (h *Hub) PublishDNS(s *snapshot.DNS) {
	h.dns.put(s)
	h.nudge(report.SnapshotDNS)
}

// nudge has all that follow snapshots of a kind look for a newer one.
func (h *Hub) nudge(kind string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, f := range h.followers {
		if key.kind == kind {
			f.nudge()
		}
	}
}

// PublishProbe makes s the newest task list of the point it names.
func (h *Hub) PublishProbe(s *snapshot.Probe) {
	h.probeLine(s.Point).put(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.followers[followerKey{s.Point, report.SnapshotProbe}]; f != nil {
		f.nudge()
	}
}

func (h *Hub) probeLine(node string) *line[snapshot.Probe] {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.probes[node]
	if l == nil {
		l = &line[snapshot.Probe]{of: probeLine(h.cfg.Bases)}
		h.probes[node] = l
	}
	return l
}

func dnsLine(bases int) lineOf[snapshot.DNS] {
	return lineOf[snapshot.DNS]{
		bases: bases, version: func(s *snapshot.DNS) uint64 { return s.Version },
		diff: func(from, to *snapshot.DNS) any { return snapshot.DiffDNS(from, to) },
	}
}

func probeLine(bases int) lineOf[snapshot.Probe] {
	return lineOf[snapshot.Probe]{
		bases: bases, version: func(s *snapshot.Probe) uint64 { return s.Version },
		diff: func(from, to *snapshot.Probe) any { return snapshot.DiffProbe(from, to) },
	}
}

// NodeState sets what the operator wants of a node. It goes down every stream of it, at once and at each new one.
func (h *Hub) NodeState(node string, s NodeState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states[node] = s
	for _, f := range h.followersOf(node) {
		f.setState(s)
	}
}

// Disconnect ends the streams of a node and forgets what was kept for it. Registry.Admit is asked for the reason, which
// the node is told.
func (h *Hub) Disconnect(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.followersOf(node) {
		f.end(nil)
	}
	delete(h.states, node)
	delete(h.probes, node)
	h.batches.forget(node)
}

// followersOf are the streams of a node. The caller holds mu.
func (h *Hub) followersOf(node string) []*follower {
	var out []*follower
	for _, kind := range []string{report.SnapshotDNS, report.SnapshotProbe, report.SnapshotEdge} {
		if f := h.followers[followerKey{node, kind}]; f != nil {
			out = append(out, f)
		}
	}
	return out
}

func (h *Hub) endAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
	for _, f := range h.followers {
		f.end(pki.Refuse(pki.Busy, "control stops", ""))
	}
}
