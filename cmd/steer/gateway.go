package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/edge"
	"steerpoint/internal/logfile"
	"steerpoint/snapshot"
)

// gateway is the HTTP gateway of this process with what directs it; nil where there is none.
type gateway struct {
	*edge.Gateway
	snapshots *edge.Snapshots
	log       *logfile.File // of requests; nil: there is none
	plain     int           // how many of its addresses are of plain HTTP
	logger    *slog.Logger
}

// openGateway binds the gateway's listeners, if there are to be any.
func (c *center) openGateway() (err error) {
	c.gateway, err = newGateway(&c.settings, c.country, c.reg, c.log)
	return err
}

// newGateway binds a gateway's listeners; nil: there are to be none.
func newGateway(s *settings.Settings, country func(netip.Addr) string, reg *prometheus.Registry, log *slog.Logger) (*gateway, error) {
	cfg, err := gatewayConfig(s)
	if err != nil || len(cfg.Listen)+len(cfg.ListenTLS) == 0 {
		return nil, err
	}
	certificates := &edge.Certificates{}
	cfg.Certificate = certificates.Get
	g := &gateway{plain: len(cfg.Listen), logger: log}
	if path := s.Edge.AccessLog; path != "" {
		f, err := logfile.Open(path, int64(s.Edge.AccessLogSize), s.Edge.AccessLogKeep)
		if err != nil {
			return nil, &fault.Error{
				Exit: fault.ExitBadInput, Code: "ACCESS_LOG", What: "the access log " + path + " cannot be written", Why: err.Error(),
				Do: "name another file in steer.yaml (edge.accessLog), or none", Err: err,
			}
		}
		cfg.AccessLog, g.log = f, f
	}
	undo := &takenBack{Registerer: reg}
	if g.Gateway, err = edge.New(cfg, undo, log.With("plane", "edge")); err != nil {
		undo.all()
		if g.log != nil {
			_ = g.log.Close() // nothing was written to it
		}
		role := settings.RoleHTTP
		if s.Listen[role] == "" {
			role = settings.RoleHTTPS
		}
		return nil, startFault(role, s.Listen[role], err)
	}
	g.snapshots = edge.NewSnapshots(g.Gateway, certificates, country)
	return g, reg.Register(g.snapshots)
}

// gatewayConfig is what the settings say of the gateway.
func gatewayConfig(s *settings.Settings) (cfg edge.Config, err error) {
	if cfg.Listen, err = s.BindIf(settings.RoleHTTP); err != nil {
		return cfg, err
	}
	if cfg.ListenTLS, err = s.BindIf(settings.RoleHTTPS); err != nil {
		return cfg, err
	}
	e := &s.Edge
	cfg.Trusted = settings.Prefixes(e.TrustedProxies)
	cfg.MaxConnections, cfg.MaxPerSource = e.Connections, e.ConnectionsPerClient
	cfg.DisableHTTP2, cfg.MaxStreams = e.DisableHTTP2, e.Streams
	cfg.HeadTimeout, cfg.IdleTimeout, cfg.BodyTimeout, cfg.Drain = e.HeadTimeout, e.IdleTimeout, e.BodyTimeout, e.Drain
	for name, d := range map[string]time.Duration{"headTimeout": cfg.HeadTimeout, "idleTimeout": cfg.IdleTimeout, "bodyTimeout": cfg.BodyTimeout, "drain": cfg.Drain} {
		if d < 0 {
			return cfg, fault.Usage(fmt.Sprintf("edge.%s in steer.yaml is %s", name, d), "give a duration such as 10s, or leave it out")
		}
	}
	if cfg.MaxConnections < 0 || cfg.MaxPerSource < 0 || cfg.MaxStreams < 0 {
		return cfg, fault.Usage("a number of connections or streams in steer.yaml (edge) is negative", "give a positive one, or leave it out")
	}
	err = gatewayLimits(&cfg, &s.Edge.EdgeLimits)
	return cfg, err
}

// startGateway serves, where there is a gateway.
func (c *center) startGateway(p *process) {
	if c.gateway != nil {
		c.gateway.start(p)
	}
}

// start serves. Requests get 503 until the first snapshot. At a stop it lets requests end while a name server beside it still
// answers.
func (g *gateway) start(p *process) {
	p.work("gateway", func(ctx context.Context) error {
		err := g.Run(ctx)
		if g.log != nil {
			if closeErr := g.log.Close(); err == nil {
				err = closeErr
			}
		}
		return err
	})
	p.work("probes of origins", g.snapshots.Run)
	if f := g.log; f != nil {
		p.work("access log", func(ctx context.Context) error { reopenOnHangup(ctx, f, g.logger); return nil })
	}
}

// PublishEdge hands a snapshot to the gateway of this process.
func (c *center) PublishEdge(e *snapshot.Edge, secrets *snapshot.EdgeSecrets) error {
	return c.gateway.snapshots.Apply(e, secrets)
}

// country is the country of an address, for rules and policies.
func (c *center) country(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return c.geo.DB().Lookup(a).Place.Country
}

// gatewayListeners adds where the gateway is bound.
func gatewayListeners(l map[string]string, g *gateway) {
	if g == nil {
		return
	}
	for i, a := range g.Addrs() {
		role := settings.RoleHTTP
		if i >= g.plain {
			role = settings.RoleHTTPS
		}
		if l[role] == "" {
			l[role] = a.String()
		}
	}
}

// close gives back what openGateway took, when it will not be run.
func (g *gateway) close() error {
	err := g.Close()
	if g.log != nil {
		err = errors.Join(err, g.log.Close())
	}
	return err
}

// takenBack is a registry from which what was registered can be taken back: a gateway that cannot listen may be made again, to
// listen elsewhere.
type takenBack struct {
	prometheus.Registerer
	list []prometheus.Collector
}

// Register keeps what was registered.
func (t *takenBack) Register(c prometheus.Collector) error {
	err := t.Registerer.Register(c)
	if err == nil {
		t.list = append(t.list, c)
	}
	return err
}

func (t *takenBack) all() {
	for _, c := range t.list {
		t.Unregister(c)
	}
}
