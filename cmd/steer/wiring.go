package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"steerpoint/analytics"
	"steerpoint/authdns"
	"steerpoint/cmd/steer/internal/follow"
	"steerpoint/cmd/steer/internal/locate"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/control"
	"steerpoint/control/api"
	"steerpoint/geo"
	"steerpoint/internal/echo16"
	"steerpoint/probe"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

// center is control and what it is wired to in its process: the hub where nodes are connected, and a name server and a
// probe point of its own. Fields are nil until opened, and stay nil for what this process does not have.
type center struct {
	settings settings.Settings
	dir      string
	log      *slog.Logger
	reg      *prometheus.Registry

	geo     *geo.Store
	geoSaid string // what was last logged of files not in use
	control *control.Control
	updater atomic.Pointer[control.Control] // control, for the name server, which may be there before it
	hub     *wire.Hub
	dns     *authdns.Server
	book    *authdns.Book // checks maps and explains answers where there is no name server
	prober  *probe.Prober
	nearest *echo16.Responder // answers probes of others
	series  *analytics.Analytics
	gateway *gateway
}

// open loads the geo data, opens the store and binds the API, and the listener of nodes if there is to be one. The data
// folder's lock comes with control, before all that writes.
func (c *center) open(ctx context.Context, cfg control.Config, withNameServer bool) error {
	c.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := c.openGeo(); err != nil {
		return err
	}
	cfg.Data, cfg.Version, cfg.Listen, cfg.Hosts = c.dir, version, c.settings.Listen[settings.RoleAPI], c.settings.API.Hosts
	cfg.NotifyLocal, cfg.SealKey = c.settings.Notify.AllowLoopback, c.settings.Seal.KeyFile
	cfg.Resolvers, cfg.ParentResolver = c.settings.Resolvers, c.settings.DNSSEC.ParentResolver
	var err error
	if cfg.ACME, err = acmeConfig(&c.settings.ACME); err != nil {
		return err
	}
	deps := control.Deps{
		Publisher: c, Probe: c.probeNow, Answer: c.answer, Geo: c.geo.DB, Log: c.log.With("plane", "control"),
		Metrics: c.reg, Gatherer: c.reg, Listeners: c.listeners, GeoFiles: c.geoFiles, NoNameServer: !withNameServer,
	}
	if withNameServer {
		// What is wrong with the file, the name server says when it loads it.
		deps.Previous, _ = authdns.ReadMap(filepath.Join(c.dir, follow.FileName))
		deps.KeyTrouble = func() string { return c.dns.KeyTrouble() } // it is opened before control runs
	}
	if err := c.openSeries(&deps); err != nil {
		return err
	}
	takesNodes := c.settings.Listen[settings.RoleNodes] != ""
	c.gatewayDeps(&deps, takesNodes)
	if takesNodes {
		deps.Nodes = c
	}
	if c.control, err = control.New(ctx, cfg, deps); err != nil {
		return controlFault(cfg.Listen, c.dir, err)
	}
	c.updater.Store(c.control)
	if takesNodes {
		return c.openHub()
	}
	return nil
}

// openHub binds the listener of nodes.
func (c *center) openHub() error {
	addr := c.settings.Listen[settings.RoleNodes]
	var err error
	c.hub, err = wire.NewHub(wire.HubConfig{
		Listen: addr, Certificate: c.control.ServerCertificate, Pool: c.control.Authority().Pool(), Program: version, Now: c.control.Wall,
		Update: c.control.Update,
	}, c.control, c.control, c.control, c.reg, c.log.With("plane", "wire"))
	if err != nil {
		return startFault(settings.RoleNodes, addr, err)
	}
	return nil
}

// PublishDNS hands a map to those who answer by it. The one in this process comes first: a map that it refuses is
// refused by every node too, and goes to none.
func (c *center) PublishDNS(d *snapshot.DNS) error {
	var err error
	switch {
	case c.dns != nil:
		err = c.dns.Swap(d)
	case c.book != nil:
		err = c.book.Swap(d)
	}
	if err == nil && c.hub != nil {
		c.hub.PublishDNS(d)
	}
	return err
}

// PublishProbe hands tasks to the point they are for.
func (c *center) PublishProbe(s *snapshot.Probe) error {
	switch {
	case c.own(s.Point):
		return c.prober.Apply(s)
	case c.hub == nil:
		return fmt.Errorf("there is no probe point %q, and this process takes no nodes", s.Point)
	}
	c.hub.PublishProbe(s)
	return nil
}

// own reports whether a point is the one of this process.
func (c *center) own(point string) bool { return c.prober != nil && point == localPoint }

// Disconnect ends the streams of a node that was revoked or removed.
func (c *center) Disconnect(node string) {
	if c.hub != nil {
		c.hub.Disconnect(node)
	}
}

// SetDrained tells a node whether it is drained.
func (c *center) SetDrained(node string, drained bool) {
	if c.hub != nil {
		c.hub.NodeState(node, wire.NodeState{Drained: drained})
	}
}

// probeNow probes outside the schedule, for `steer probe`.
func (c *center) probeNow(ctx context.Context, point string, t snapshot.ProbeTask) (report.Observation, error) {
	switch {
	case c.own(point):
		return c.prober.Once(ctx, t), nil
	case c.hub == nil:
		return report.Observation{}, fmt.Errorf("there is no probe point %q, and this process takes no nodes", point)
	}
	return c.hub.Probe(ctx, point, t)
}

// answer asks the name server what it would answer, for `steer explain`.
func (c *center) answer(q control.Question) (control.Answer, error) {
	qtype, ok := dns.StringToType[strings.ToUpper(q.Type)]
	if !ok {
		return control.Answer{}, fmt.Errorf("%q is not a record type", q.Type)
	}
	e, err := c.explain(q.Name, q.Resolver, q.ECS, qtype)
	if err != nil {
		return control.Answer{}, err
	}
	return control.Answer{
		Service: e.Service, Rule: e.Rule, Scope: e.Scope, Source: e.Source, Records: e.Answer, TTL: e.TTL,
		ECSScope: e.ECSScope, MapVersion: e.Map.Version, Why: e.Why,
	}, nil
}

func (c *center) explain(name string, client netip.Addr, ecs netip.Prefix, qtype uint16) (authdns.Explanation, error) {
	if c.dns != nil {
		return c.dns.Explain(name, client, ecs, qtype)
	}
	return c.book.Explain(name, client, ecs, qtype)
}

// place names the place of an address for explanations.
func (c *center) place(a netip.Addr) string {
	r := c.geo.DB().Lookup(a)
	if len(r.Fields) == 0 {
		return ""
	}
	return place(r)
}

// listeners are the bound addresses by role.
func (c *center) listeners() map[string]string {
	l := map[string]string{}
	if c.dns != nil {
		l[settings.RoleDNS] = c.dns.Addrs()[0].String()
		dnsListeners(l, c.dns)
	}
	if c.control != nil {
		l[settings.RoleAPI] = c.control.Addr().String()
	}
	if c.hub != nil {
		l[settings.RoleNodes] = c.hub.Addr().String()
	}
	if c.nearest != nil {
		l[settings.RoleNearest] = c.nearest.Addrs()[0].String()
	}
	gatewayListeners(l, c.gateway)
	return l
}

// running is what later commands on this machine need to know of this process.
func (c *center) running(pid int) locate.Running {
	return locate.Running{PID: pid, Started: time.Now(), Listeners: c.listeners(), Secure: c.control.Secure()}
}

// write keeps that; what stopped is written with pid 0.
func (c *center) write(r locate.Running) error {
	if err := locate.WriteRunning(c.dir, r); err != nil {
		return startFault("data", c.dir, err)
	}
	return nil
}

// client is one of this process's own API, whose writes are done by actor.
func (c *center) client(actor string) (*api.Client, error) {
	s, err := locate.Options{Data: c.dir, Env: func(string) string { return "" }}.Find()
	if err != nil {
		return nil, err
	}
	own, err := clientOf(s)
	if err != nil {
		return nil, err
	}
	return own.WithActor(actor), nil
}

// close gives back what open took, when it will not be run.
func (c *center) close() error {
	var errs []error
	if c.dns != nil {
		errs = append(errs, c.dns.Close())
	}
	if c.gateway != nil {
		errs = append(errs, c.gateway.close())
	}
	if c.hub != nil {
		errs = append(errs, c.hub.Close())
	}
	if c.control != nil {
		errs = append(errs, c.control.Close())
	}
	return errors.Join(errs...)
}

// startParts starts what this process has, but the name server: that answers since it was opened.
func (c *center) startParts(p *process) {
	p.work("control", c.control.Run)
	p.answer("series", c.series.Run) // after control, which feeds them
	if c.hub != nil {
		p.work("nodes", c.hub.Run)
	}
	if c.prober != nil {
		p.work("probe point", c.prober.Run)
	}
	p.work("geo data", c.watchGeo)
	c.startGateway(p)
}
