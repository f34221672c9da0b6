package server

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// connSet is the TCP connections that are open, counted in total and by client.
type connSet struct {
	total, perClient int

	mu       sync.Mutex
	open     map[*net.TCPConn]*member
	byClient map[netip.Prefix]int
	closed   bool
	running  sync.WaitGroup
}

// member is one open connection.
type member struct {
	client netip.Prefix
	idle   time.Time // since when it waits for a query; zero: it has one
}

func (s *connSet) init(total, perClient int) {
	s.total, s.perClient = total, perClient
	s.open, s.byClient = map[*net.TCPConn]*member{}, map[netip.Prefix]int{}
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

// add takes a connection in, or says which limit it is over. When all places are taken, the connection that has waited
// longest for a query gives way (RFC 7766 section 6.2.3): clients that hold connections and ask nothing must not lock
// out those that ask. Each add that succeeds is followed by remove and done.
func (s *connSet) add(c *net.TCPConn, client netip.Addr) (refused string) {
	key := clientKey(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return "total"
	case s.byClient[key] >= s.perClient:
		return "client"
	case len(s.open) >= s.total && !s.evict():
		return "total"
	}
	s.open[c] = &member{client: key, idle: time.Now()}
	s.byClient[key]++
	s.running.Add(1)
	return ""
}

// evict closes the connection that has been idle longest, if there is one. The caller holds the lock.
func (s *connSet) evict() bool {
	var oldest *net.TCPConn
	var since time.Time
	for c, m := range s.open {
		if !m.idle.IsZero() && (oldest == nil || m.idle.Before(since)) {
			oldest, since = c, m.idle
		}
	}
	if oldest == nil {
		return false
	}
	s.drop(oldest)
	_ = oldest.Close() // its goroutine sees the end and cleans up
	return true
}

// drop takes a connection out, if it is still in. The caller holds the lock.
func (s *connSet) drop(c *net.TCPConn) {
	m := s.open[c]
	if m == nil {
		return
	}
	delete(s.open, c)
	if s.byClient[m.client]--; s.byClient[m.client] == 0 {
		delete(s.byClient, m.client)
	}
}

func (s *connSet) remove(c *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
}

// waits marks a connection as idle, or as having a query.
func (s *connSet) waits(c *net.TCPConn, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.open[c]
	switch {
	case m == nil:
	case !idle:
		m.idle = time.Time{}
	case m.idle.IsZero():
		m.idle = time.Now()
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
