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
	last     time.Time // until when idle connections may still ask; zero: as long as they like
	running  sync.WaitGroup
}

// member is one open connection.
type member struct {
	client netip.Prefix
	idle   time.Time // since when it waits for a whole query; zero: it has one
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

// drop takes a connection out and reports whether it was still in. The caller holds the lock.
func (s *connSet) drop(c *net.TCPConn) bool {
	m := s.open[c]
	if m == nil {
		return false
	}
	delete(s.open, c)
	if s.byClient[m.client]--; s.byClient[m.client] == 0 {
		delete(s.byClient, m.client)
	}
	return true
}

// remove takes a connection out; false: it has given way to another.
func (s *connSet) remove(c *net.TCPConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(c)
}

// await marks a connection as waiting for a query, and ends the wait after idle.
func (s *connSet) await(c *net.TCPConn, idle time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if m := s.open[c]; m != nil && m.idle.IsZero() {
		m.idle = now
	}
	until := now.Add(idle)
	if !s.last.IsZero() && s.last.Before(until) {
		until = s.last
	}
	return c.SetReadDeadline(until)
}

// asked marks a connection as having a whole query.
func (s *connSet) asked(c *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.open[c]; m != nil {
		m.idle = time.Time{}
	}
}

// lastWord is how long a connection may still ask when the server ends: a query that is on its way is answered.
const lastWord = 200 * time.Millisecond

// drain lets connections end: idle ones after lastWord, all by the end of most. No connection may be added any more.
func (s *connSet) drain(most time.Duration) {
	s.mu.Lock()
	s.last = time.Now().Add(min(lastWord, most))
	for c, m := range s.open {
		if !m.idle.IsZero() {
			_ = c.SetReadDeadline(s.last) // fails when it is closed already
		}
	}
	s.mu.Unlock()
	cut := time.AfterFunc(most, s.close)
	defer cut.Stop()
	s.wait()
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
