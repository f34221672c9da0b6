// Package edge is the HTTP gateway: it takes requests from clients, asks a Director what is to be done with each, and
// forwards those that go on to an origin.
//
// One goroutine serves a connection: it writes the request to the origin and reads the response. Only a request body that
// is not there as a whole, and the client's half of a WebSocket, get a second one, so that an origin may answer early.
//
// Invariants: nothing of a request that the codec refuses reaches an origin; a request is sent twice only when nobody can
// tell; a response that was cut is passed on as cut; when a client leaves, its origin is let go at once; a new
// configuration touches no connection; what waits holds no buffer.
package edge

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"steerpoint/edge/internal/accesslog"
	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// Gateway is one gateway. Make it with New; it serves while Run runs.
type Gateway struct {
	cfg     Config
	log     *slog.Logger
	access  *accesslog.Log
	metrics *metrics
	tracer  *tracer // nil: nothing is traced
	clock   *conn.Clock
	buffers *h1.Pool
	watcher *conn.Watcher
	clients clients
	bodies  bodyMemory
	spare   sync.Pool // of clients that are streams of HTTP/2
	doors   []door
	tls     *tls.Config

	site atomic.Pointer[site]

	mu    sync.Mutex // of Swap
	pools pools
}

// door is a listener.
type door struct {
	*net.TCPListener
	secure bool
}

// New binds the listeners. Until the first Swap every request gets 503. Call Run or Close.
func New(cfg Config, reg prometheus.Registerer, log *slog.Logger) (*Gateway, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, log: log, access: accesslog.New(cfg.AccessLog), clock: conn.NewClock(), buffers: h1.NewPool()}
	g.clients.init(cfg.MaxConnections, cfg.MaxPerSource)
	g.pools.init()
	if g.metrics, err = newMetrics(reg, g); err != nil {
		return nil, fmt.Errorf("gateway metrics: %w", err)
	}
	if g.tracer, err = newTracer(cfg.Tracing, reg, log); err != nil {
		return nil, err
	}
	if g.watcher, err = conn.NewWatcher(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.tls = &tls.Config{GetCertificate: cfg.Certificate, MinVersion: tls.VersionTLS12, NextProtos: cfg.protocols()}
	if err := g.listen(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	g.site.Store(newSite(&Site{Director: unready{}}))
	return g, nil
}

func (g *Gateway) listen() error {
	for _, secure := range []bool{false, true} {
		addrs := g.cfg.Listen
		if secure {
			addrs = g.cfg.ListenTLS
		}
		for _, a := range addrs {
			l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a))
			if err != nil {
				return fmt.Errorf("gateway: listen on %s: %w", a, err)
			}
			g.doors = append(g.doors, door{l, secure})
		}
	}
	return nil
}

// Addrs are the addresses really bound: those of Config.Listen, then those of Config.ListenTLS.
func (g *Gateway) Addrs() []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, d := range g.doors {
		if a, ok := d.Addr().(*net.TCPAddr); ok {
			addrs = append(addrs, a.AddrPort())
		}
	}
	return addrs
}

// Close gives the sockets back when Run will not be called.
func (g *Gateway) Close() error {
	err := g.watcher.Close()
	for _, d := range g.doors {
		err = errors.Join(err, d.Close())
	}
	return err
}

// Run serves until ctx ends. It then takes no more connections, closes those that are idle, lets requests end for
// Config.Drain, and cuts what is still open. When it returns, everything it started has stopped.
func (g *Gateway) Run(ctx context.Context) error {
	helpers, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	back, behind := errgroup.WithContext(helpers)
	back.Go(func() error { return g.watcher.Run(behind) })
	back.Go(func() error { g.access.Run(behind); return nil })
	back.Go(func() error { g.tracer.run(behind); return nil })
	back.Go(func() error { g.trim(behind); return nil })

	front, ctx := errgroup.WithContext(ctx)
	for _, d := range g.doors {
		front.Go(func() error { g.accept(ctx, d); return nil })
	}
	front.Go(func() error {
		select {
		case <-ctx.Done():
		case <-behind.Done(): // a helper failed: nothing works without it
		}
		var err error
		for _, d := range g.doors {
			err = errors.Join(err, d.Close())
		}
		return err
	})
	err := front.Wait()
	g.clients.drain(g.cfg.Drain)
	g.pools.close()
	g.pools.running.Wait()
	stop()
	return cmp.Or(back.Wait(), err)
}

// trim closes idle connections to origins, and ends what its time has come for.
func (g *Gateway) trim(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := g.clock.Now()
		g.pools.trim(now)
		g.endRemoved(now)
	}
}

// accept takes connections in until the listener is closed.
func (g *Gateway) accept(ctx context.Context, d door) {
	for {
		c, err := d.AcceptTCP()
		if err == nil {
			g.admit(c, d.secure)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		g.log.WarnContext(ctx, "accept failed", "listen", d.Addr().String(), "error", err)
		select { // such as without a free file: those in use must end first
		case <-ctx.Done():
			return
		case <-time.After(acceptPause):
		}
	}
}

// acceptPause is between two tries to accept after one failed.
const acceptPause = 20 * time.Millisecond

// trusted reports whether what an address says of its client is believed.
func (g *Gateway) trusted(a netip.Addr) bool {
	return slices.ContainsFunc(g.cfg.Trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}
