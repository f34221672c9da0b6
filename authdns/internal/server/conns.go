package server

import (
	"net"
	"net/netip"
	"sync"
)

// connSet is the TCP connections that are open, counted in total and by client.
type connSet struct {
	total, perClient int

	mu       sync.Mutex
	open     map[*net.TCPConn]struct{}
	byClient map[netip.Prefix]int
	closed   bool
	running  sync.WaitGroup
}

func (s *connSet) init(total, perClient int) {
	s.total, s.perClient = total, perClient
	s.open, s.byClient = map[*net.TCPConn]struct{}{}, map[netip.Prefix]int{}
}

// clientKey is who counts as one client: an IPv4 address, or the /64 a host can take its IPv6 addresses from.
func clientKey(a netip.Addr) netip.Prefix {
	bits := 32
	if !a.Is4() {
		bits = 64
	}
	p, _ := a.WithZone("").Prefix(bits) // fails for no family
	return p
}

// add takes a connection in, or says which limit it is over. Each add that succeeds is followed by remove and done.
func (s *connSet) add(c *net.TCPConn, client netip.Addr) (refused string) {
	key := clientKey(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed, len(s.open) >= s.total:
		return "total"
	case s.byClient[key] >= s.perClient:
		return "client"
	}
	s.open[c] = struct{}{}
	s.byClient[key]++
	s.running.Add(1)
	return ""
}

func (s *connSet) remove(c *net.TCPConn, client netip.Addr) {
	key := clientKey(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if s.byClient[key]--; s.byClient[key] == 0 {
		delete(s.byClient, key)
	}
}

func (s *connSet) done() { s.running.Done() }

// close ends every connection and lets no more in.
func (s *connSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		_ = c.Close() // its goroutine sees the end and cleans up
	}
}

// wait returns when the goroutine of every connection has ended.
func (s *connSet) wait() { s.running.Wait() }
