package edge

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/pool"
)

// site is a Site that serves.
type site struct{ *Site }

func newSite(s *Site) *site { return &site{s} }

// originRun is what lives on of an origin from one configuration to the next.
type originRun struct {
	key  originKey
	pool *pool.Pool
	old  *pool.Pool // of an origin with HTTP/2, its connections of HTTP/1.1, for WebSockets; nil: pool has them

	dials, stale atomic.Uint64
	results      [TimesOut + 1]atomic.Uint64
	took         durations // until the head of the response, on a connection that was there
}

// originKey is what makes two origins one: what was learnt and opened holds for all of it together.
type originKey struct {
	service, group, name, address string
	tls                           string // the server name; "": plain
	config                        *tls.Config
	timeouts                      [2]time.Duration
	counts                        [4]int
	http2                         bool
}

func keyOf(o *Origin) originKey {
	k := originKey{
		service: o.Service, group: o.Group, name: o.Name, address: o.Address, config: o.TLS,
		timeouts: [2]time.Duration{o.IdleTimeout, o.WaitTimeout},
		counts:   [4]int{o.MaxIdle, o.MaxActive, o.MaxWaiting, o.MaxConns}, http2: o.HTTP2,
	}
	if o.TLS != nil {
		k.tls = o.TLS.ServerName
	}
	return k
}

// routeKey is what makes two routes one.
type routeKey struct{ service, name string }

func (r *Route) key() routeKey { return routeKey{r.Service, r.Name} }

// pools are the origins that are connected to, and the routes that were.
type pools struct {
	mu      sync.Mutex
	origins map[originKey]*originRun
	routes  map[routeKey]*routeRun
	removed map[routeKey]conn.Instant // routes that are no more, and until when their requests may go on
	running sync.WaitGroup            // what connections of HTTP/2 have running
}

func (p *pools) init() {
	p.origins, p.routes, p.removed = map[originKey]*originRun{}, map[routeKey]*routeRun{}, map[routeKey]conn.Instant{}
}

func (p *pools) trim(now conn.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.origins {
		r.trim(now)
	}
}

func (p *pools) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.origins {
		r.close()
	}
}

// Swap makes a site the one that serves, from the next request on. Requests that are being served go on by the one before.
// Connections to origins that both have are kept. On an error nothing changes.
func (g *Gateway) Swap(s *Site) error {
	if err := check(s); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &g.pools
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.origins
	p.origins = map[originKey]*originRun{}
	for _, o := range s.Origins {
		k := keyOf(o)
		r := p.origins[k]
		if r == nil {
			r = old[k]
		}
		if r == nil {
			r = g.newOriginRun(o, k)
		}
		p.origins[k], o.run = r, r
	}
	g.swapRoutes(s)
	g.site.Store(newSite(s))
	for k, r := range old {
		if p.origins[k] == nil {
			r.close()
		}
	}
	return nil
}

// check refuses a site that could not be served.
func check(s *Site) error {
	if s == nil || s.Director == nil {
		return errors.New("gateway site: no director")
	}
	for _, r := range s.Routes {
		if r.run != nil {
			return fmt.Errorf("gateway site: route %s of service %s is in another site", r.Name, r.Service)
		}
	}
	for _, o := range s.Origins {
		switch {
		case o.run != nil:
			return fmt.Errorf("gateway site: origin %s of group %s of service %s is in another site", o.Name, o.Group, o.Service)
		case o.Address == "":
			return fmt.Errorf("gateway site: origin %s of group %s of service %s has no address", o.Name, o.Group, o.Service)
		case o.Index < 0 || o.Index >= 64:
			return fmt.Errorf("gateway site: origin %s of group %s of service %s has index %d: want 0 to 63", o.Name, o.Group, o.Service, o.Index)
		case o.TLS != nil && o.TLS.ServerName == "":
			return fmt.Errorf("gateway site: origin %s of group %s of service %s speaks TLS to no name", o.Name, o.Group, o.Service)
		}
	}
	return nil
}

func (g *Gateway) newPool(o *Origin, r *originRun) *pool.Pool {
	return pool.New(pool.Config{
		Address: o.Address, TLS: o.TLS, MaxIdle: o.MaxIdle, IdleTimeout: o.IdleTimeout,
		MaxActive: o.MaxActive, MaxWaiting: o.MaxWaiting, WaitTimeout: o.WaitTimeout, Limits: g.cfg.limits(),
		HTTP2: o.HTTP2, MaxConns: o.MaxConns, Running: &g.pools.running, Dialed: func() { r.dials.Add(1) },
	}, g.clock, g.buffers)
}

const defaultDrain = 30 * time.Second

// swapRoutes gives each route what lives on of it, and those that are no more a time to end. The lock of pools is held.
func (g *Gateway) swapRoutes(s *Site) {
	p := &g.pools
	old := p.routes
	p.routes = map[routeKey]*routeRun{}
	for _, r := range s.Routes {
		k := r.key()
		run := old[k]
		if run == nil {
			run = newRouteRun(r)
		}
		p.routes[k], r.run = run, run
		delete(p.removed, k)
	}
	now := g.clock.Now()
	for _, r := range g.site.Load().Routes {
		if k := r.key(); p.routes[k] == nil {
			p.removed[k] = now.Add(or(r.Drain, defaultDrain))
		}
	}
}

// endRemoved ends the requests of routes whose time is over since they were removed.
func (g *Gateway) endRemoved(now conn.Instant) {
	p := &g.pools
	var over map[routeKey]bool
	p.mu.Lock()
	for k, at := range p.removed {
		if now >= at {
			if over == nil {
				over = map[routeKey]bool{}
			}
			over[k] = true
			delete(p.removed, k)
		}
	}
	p.mu.Unlock()
	if over == nil {
		return
	}
	g.clients.each(func(x *client) {
		if r := x.route.Load(); r != nil && over[r.key()] {
			x.kill()
		}
	})
}
