package edge

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"steerpoint/edge/internal/conn"
)

// clients are the connections of clients.
type clients struct {
	max, perSource int
	draining       atomic.Bool

	mu      sync.Mutex
	all     map[*client]struct{}
	sources map[netip.Addr]int
	empty   chan struct{} // closed when none is left while draining
}

func (s *clients) init(most, perSource int) {
	s.max, s.perSource = most, perSource
	s.all, s.sources, s.empty = map[*client]struct{}{}, map[netip.Addr]int{}, make(chan struct{})
}

// source is what one address is counted as: an IPv6 subscriber has a /64.
func source(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}

// add takes a connection in, or says why not. from is not valid for those that are not counted.
func (s *clients) add(x *client, from netip.Addr) (refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load():
		return "draining"
	case len(s.all) >= s.max:
		return "connections"
	case from.IsValid() && s.sources[from] >= s.perSource:
		return "source"
	}
	s.all[x] = struct{}{}
	if from.IsValid() {
		s.sources[from]++
	}
	return ""
}

func (s *clients) remove(x *client, from netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, x)
	if from.IsValid() {
		if s.sources[from]--; s.sources[from] <= 0 {
			delete(s.sources, from)
		}
	}
	if s.draining.Load() && len(s.all) == 0 {
		close(s.empty)
	}
}

func (s *clients) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// each calls f with every client there is, streams before their connection.
func (s *clients) each(f func(*client)) {
	s.mu.Lock()
	all := make([]*client, 0, len(s.all))
	for x := range s.all {
		all = append(all, x)
	}
	s.mu.Unlock()
	for _, x := range all {
		if of := x.front.Load(); of != nil {
			of.each(f)
		}
		f(x)
	}
}

// drain closes idle connections, waits until the others have ended, and cuts those that have not after the time given. It
// returns when there is none left.
func (s *clients) drain(within time.Duration) {
	s.mu.Lock()
	s.draining.Store(true)
	left := len(s.all)
	s.mu.Unlock()
	if left == 0 {
		return
	}
	s.each(func(x *client) { x.endIdle() })
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-s.empty:
		return
	case <-late.C:
	}
	s.each(func(x *client) { x.kill() })
	<-s.empty
}

// admit serves a connection on its own goroutine, unless that would be one too many.
func (g *Gateway) admit(c *net.TCPConn, secure bool) {
	k, err := conn.New(c, g.clock, g.buffers)
	if err != nil {
		_ = c.Close() // it was lost between accept and here
		return
	}
	x := newClient(g, k)
	if from := x.peer.Addr(); !g.trusted(from) && !g.speaksProxy(from) {
		x.source = source(from)
	}
	if refused := g.clients.add(x, x.source); refused != "" {
		g.metrics.refusedConns.WithLabelValues(refused).Inc()
		k.Reset() // without a word: to say why would cost more than it is worth to who floods
		return
	}
	g.metrics.accepted.Add(1)
	go x.serve(secure)
}
