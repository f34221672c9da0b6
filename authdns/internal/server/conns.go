package server

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// connSet is the connections that are open, counted in total and by client.
type connSet struct {
	total, perClient int

	mu       sync.Mutex
	open     map[*member]struct{}
	byClient map[netip.Prefix]int
	// idle are the connections without a whole query, in a ring: the one that has been so for longest comes first.
	idle    member
	closed  bool
	last    time.Time // until when idle connections may still ask; zero: as long as they like
	running sync.WaitGroup
}

// member is one open connection.
type member struct {
	conn   *net.TCPConn
	client netip.Prefix // not valid: not counted by client

	prev, next *member // in the ring of those that are idle; nil: it has a query

	late  lateReplies
	held  int  // replies that are under way; with any it is not idle
	waits bool // it waits for a query
}

func (s *connSet) init(total, perClient int) {
	s.total, s.perClient = total, perClient
	s.open, s.byClient = map[*member]struct{}{}, map[netip.Prefix]int{}
	s.idle.prev, s.idle.next = &s.idle, &s.idle
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
// out those that ask. Each add that succeeds is followed by remove and done. A client that is not valid is not counted.
func (s *connSet) add(m *member, client netip.Addr) (refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := clientKey(client)
	switch {
	case s.closed:
		return "total"
	case client.IsValid() && s.byClient[key] >= s.perClient:
		return "client"
	case len(s.open) >= s.total && !s.evict():
		return "total"
	}
	s.open[m] = struct{}{}
	s.count(m, client)
	s.wait(m)
	s.running.Add(1)
	return ""
}

// identify says who a connection that came by a proxy is of; false: that client has its share already.
func (s *connSet) identify(m *member, client netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byClient[clientKey(client)] >= s.perClient {
		return false
	}
	if _, in := s.open[m]; in {
		s.count(m, client)
	}
	return true
}

func (s *connSet) count(m *member, client netip.Addr) {
	if client.IsValid() {
		m.client = clientKey(client)
		s.byClient[m.client]++
	}
}

// evict closes the connection that has been idle longest, if there is one. The caller holds the lock.
func (s *connSet) evict() bool {
	oldest := s.idle.next
	if oldest == &s.idle {
		return false
	}
	s.drop(oldest)
	_ = oldest.conn.Close() // its goroutine sees the end and cleans up
	return true
}

// drop takes a connection out and reports whether it was still in. The caller holds the lock.
func (s *connSet) drop(m *member) bool {
	if _, in := s.open[m]; !in {
		return false
	}
	delete(s.open, m)
	m.unwait()
	if !m.client.IsValid() {
		return true
	}
	if s.byClient[m.client]--; s.byClient[m.client] == 0 {
		delete(s.byClient, m.client)
	}
	return true
}

// wait puts a connection to the end of those that are idle, unless it is among them, or has replies under way. The caller holds the lock.
func (s *connSet) wait(m *member) {
	if m.waits = true; m.next == nil && m.held == 0 {
		m.prev, m.next = s.idle.prev, &s.idle
		m.prev.next, m.next.prev = m, m
	}
}

// unwait takes a connection out of those that are idle. The caller holds the lock.
func (m *member) unwait() {
	if m.next != nil {
		m.prev.next, m.next.prev = m.next, m.prev
		m.prev, m.next = nil, nil
	}
}

// remove takes a connection out; false: it has given way to another.
func (s *connSet) remove(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(m)
}

// await marks a connection as waiting for a query, and ends the wait after some time.
func (s *connSet) await(m *member, most time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, in := s.open[m]; in {
		s.wait(m)
	}
	until := time.Now().Add(most)
	if !s.last.IsZero() && s.last.Before(until) {
		until = s.last
	}
	return m.conn.SetReadDeadline(until)
}

// idles marks a connection as waiting whose deadlines are another's to set.
func (s *connSet) idles(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, in := s.open[m]; in {
		s.wait(m)
	}
}

// asked marks a connection as having a whole query.
func (s *connSet) asked(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.waits = false
	m.unwait()
}

// lastWord is how long a connection may still ask when the server ends: a query that is on its way is answered.
const lastWord = 200 * time.Millisecond

// drain lets connections end: idle ones after lastWord, all by the end of most. No connection may be added any more.
func (s *connSet) drain(most time.Duration) {
	s.mu.Lock()
	s.last = time.Now().Add(min(lastWord, most))
	for m := s.idle.next; m != &s.idle; m = m.next {
		_ = m.conn.SetReadDeadline(s.last) // fails when it is closed already
	}
	s.mu.Unlock()
	cut := time.AfterFunc(most, s.close)
	defer cut.Stop()
	s.gone()
}

func (s *connSet) done() { s.running.Done() }

// close ends every connection and lets no more in.
func (s *connSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for m := range s.open {
		_ = m.conn.Close() // its goroutine sees the end and cleans up
	}
}

// gone returns when the goroutine of every connection has ended.
func (s *connSet) gone() { s.running.Wait() }
