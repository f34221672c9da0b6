package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/edge"
	"steerpoint/snapshot"
)

// gateway is the HTTP gateway of this process with what directs it; nil where there is none.
type gateway struct {
	*edge.Gateway
	snapshots *edge.Snapshots
	log       io.Closer // of requests; nil: there is none
	plain     int       // how many of its addresses are of plain HTTP
}

// openGateway binds the gateway's listeners, if there are to be any.
func (c *center) openGateway() error {
	cfg, err := gatewayConfig(&c.settings)
	if err != nil || len(cfg.Listen)+len(cfg.ListenTLS) == 0 {
		return err
	}
	certificates := &edge.Certificates{}
	cfg.Certificate = certificates.Get
	g := &gateway{plain: len(cfg.Listen)}
	if path := c.settings.Edge.AccessLog; path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err != nil {
			return &fault.Error{
				Exit: fault.ExitBadInput, Code: "ACCESS_LOG", What: "the access log " + path + " cannot be written", Why: err.Error(),
				Do: "name another file in steer.yaml (edge.accessLog), or none", Err: err,
			}
		}
		cfg.AccessLog, g.log = f, f
	}
	if g.Gateway, err = edge.New(cfg, c.reg, c.log.With("plane", "edge")); err != nil {
		if g.log != nil {
			_ = g.log.Close() // nothing was written to it
		}
		role := settings.RoleHTTP
		if c.settings.Listen[role] == "" {
			role = settings.RoleHTTPS
		}
		return startFault(role, c.settings.Listen[role], err)
	}
	g.snapshots = edge.NewSnapshots(g.Gateway, certificates, c.country)
	c.gateway = g
	return c.reg.Register(g.snapshots)
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
	cfg.HeadTimeout, cfg.IdleTimeout, cfg.BodyTimeout, cfg.Drain = e.HeadTimeout, e.IdleTimeout, e.BodyTimeout, e.Drain
	for name, d := range map[string]time.Duration{"headTimeout": cfg.HeadTimeout, "idleTimeout": cfg.IdleTimeout, "bodyTimeout": cfg.BodyTimeout, "drain": cfg.Drain} {
		if d < 0 {
			return cfg, fault.Usage(fmt.Sprintf("edge.%s in steer.yaml is %s", name, d), "give a duration such as 10s, or leave it out")
		}
	}
	if cfg.MaxConnections < 0 || cfg.MaxPerSource < 0 {
		return cfg, fault.Usage("a number of connections in steer.yaml (edge) is negative", "give a positive one, or leave it out")
	}
	return cfg, nil
}

// startGateway serves. Requests get 503 until the first snapshot.
func (c *center) startGateway(p *process) {
	if c.gateway == nil {
		return
	}
	p.answer("gateway", func(ctx context.Context) error {
		err := c.gateway.Run(ctx)
		if c.gateway.log != nil {
			if closeErr := c.gateway.log.Close(); err == nil {
				err = closeErr
			}
		}
		return err
	})
	p.work("probes of origins", c.gateway.snapshots.Run)
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
