package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"steerpoint/agent"
	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/control"
	"steerpoint/geo"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// edgePlane is the gateway as the agent sees it. Secrets of a snapshot are opened by the node's key, each time it is swapped in,
// and kept by nobody else.
type edgePlane struct {
	*gateway
	open   func(use string, sealed []byte) ([]byte, error)
	booted atomic.Bool // what it serves by is from its disk
}

// Swap makes a snapshot the one that serves. One whose secrets do not open is left: what it names of them would be missing, here
// and after a restart without control.
func (p *edgePlane) Swap(pack *snapshot.EdgePack) error {
	secrets, err := p.secrets(pack.Sealed)
	if err != nil {
		return fmt.Errorf("%w: %w", agent.ErrNotYet, err)
	}
	if err := p.snapshots.Apply(pack.Edge, secrets); err != nil {
		return err
	}
	p.booted.Store(false)
	return nil
}

func (p *edgePlane) secrets(sealed *snapshot.Sealed) (*snapshot.EdgeSecrets, error) {
	if sealed == nil {
		return &snapshot.EdgeSecrets{}, nil
	}
	text, err := p.open(snapshot.EdgeSecretsUse, sealed.Envelope)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	return snapshot.UnmarshalEdgeSecrets(text)
}

// Explain says what the gateway would do with a request.
func (p *edgePlane) Explain(q *report.EdgeQuestion) (*report.EdgeAnswer, error) {
	return p.snapshots.Explain(q)
}

// State describes the gateway.
func (p *edgePlane) State() report.NodeEdge {
	s := p.snapshots.State()
	s.FromDisk = p.booted.Load()
	return s
}

// openEdge binds the gateway's listeners, and has it serve by what is on disk.
func (m *member) openEdge() error {
	if m.settings.Listen[settings.RoleHTTP] == "" && m.settings.Listen[settings.RoleHTTPS] == "" {
		return fault.Usage("a gateway (role edge) was not told where to listen", "add --listen http=ADDR:80 or --listen https=ADDR:443")
	}
	var err error
	if m.places, err = openPlaces(m.settings, m.log); err != nil {
		return err
	}
	g, err := newGateway(m.settings, m.places.country, m.reg, m.log)
	if err != nil {
		return err
	}
	m.gateway = &edgePlane{gateway: g, open: openZoneKeys(agent.KeyFile(m.dir))}
	m.agent.LoadEdge(m.gateway)
	m.gateway.booted.Store(m.gateway.State().Version > 0)
	return nil
}

// places finds the country of addresses for a gateway without control beside it.
type places struct {
	store *geo.Store
	log   *slog.Logger
	said  string // what was last logged of files not in use
}

func openPlaces(s *settings.Settings, log *slog.Logger) (*places, error) {
	store, err := geo.NewStore(geo.Config{Lists: s.Geo.Lists, Databases: s.Geo.Databases})
	if err != nil {
		return nil, startFault("geo", "", err)
	}
	p := &places{store: store, log: log}
	p.reload()
	return p, nil
}

func (p *places) country(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return p.store.DB().Lookup(a).Place.Country
}

func (p *places) reload() {
	if reloadGeo(p.store, &p.said, p.log) {
		p.log.Info("geo data read", "sources", names(p.store.DB()))
	}
}

// watch follows the files.
func (p *places) watch(ctx context.Context) error { return lookAtGeo(ctx, p.store, p.reload) }

// askGateway asks a gateway what it would do with a request: the one of this process, or one that joined.
func (c *center) askGateway(ctx context.Context, node string, q report.EdgeQuestion) (report.EdgeAnswer, error) {
	switch {
	case c.gateway != nil && node == localPoint:
		a, err := c.gateway.snapshots.Explain(&q)
		if err != nil {
			return report.EdgeAnswer{}, err
		}
		return *a, nil
	case c.hub == nil:
		return report.EdgeAnswer{}, errors.New("this process takes no nodes")
	}
	return c.hub.Explain(ctx, node, q)
}

// gatewayDeps hands control the gateways there are.
func (c *center) gatewayDeps(deps *control.Deps, takesNodes bool) {
	deps.AskGateway = c.askGateway
	if c.gateway != nil {
		deps.Gateways, deps.GatewayState = c, c.gateway.snapshots.State
	}
	if takesNodes {
		deps.EdgeNodes = func(p *snapshot.EdgePack) { c.hub.PublishEdge(p) } // it is there before control runs
	}
}
