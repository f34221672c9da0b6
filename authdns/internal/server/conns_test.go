package server

import (
	"net"
	"net/netip"
	"testing"
)

// TestClientsAreCounted: IPv4 by address, IPv6 by /64, since a host can take any address of its /64.
//
// Covers: issue2 tcp
func TestClientsAreCounted(t *testing.T) {
	var s connSet
	s.init(5, 2)
	add := func(addr string) string { return s.add(&member{conn: new(net.TCPConn)}, netip.MustParseAddr(addr)) }
	for _, row := range []struct{ addr, want string }{
		{"192.0.2.1", ""},
		{"192.0.2.1", ""},
		{"192.0.2.1", "client"},
		{"192.0.2.2", ""},
		{"2001:db8::1", ""},
		{"2001:db8::2", ""},
		{"2001:db8::3", "client"},
	} {
		if got := add(row.addr); got != row.want {
			t.Errorf("%s: %q, want %q", row.addr, got, row.want)
		}
	}
	s.init(5, 2)
	for i, want := range []string{"", "", "client"} {
		if got := add([]string{"2001:db8::1", "2001:db8::2", "2001:db8::3"}[i]); got != want {
			t.Errorf("one /64, connection %d: %q, want %q", i, got, want)
		}
	}
	if got := add("2001:db8:0:1::1"); got != "" {
		t.Errorf("another /64: %q", got)
	}
}

// TestTheLongestIdleGivesWay: when all places are taken, the connection that has waited longest for a query is closed for
// the new one; connections with a query are not.
//
// Covers: issue2 tcp, rfc 7766 limits
func TestTheLongestIdleGivesWay(t *testing.T) {
	var s connSet
	s.init(3, 9)
	client := netip.MustParseAddr("192.0.2.1")
	conns := make([]*member, 5)
	for i := range conns {
		conns[i] = &member{conn: new(net.TCPConn)}
	}
	for _, c := range conns[:3] {
		if refused := s.add(c, client); refused != "" {
			t.Fatalf("refused: %s", refused)
		}
	}
	s.asked(conns[0]) // the oldest has a query
	if refused := s.add(conns[3], client); refused != "" {
		t.Fatalf("refused for %q while another idles", refused)
	}
	open := func(i int) bool { _, in := s.open[conns[i]]; return in }
	if open(1) || !open(0) || len(s.open) != 3 || s.byClient[clientKey(client)] != 3 {
		t.Errorf("the wrong one went: %d open, %v by client", len(s.open), s.byClient)
	}
	s.remove(conns[1]) // its own goroutine comes later, and takes nothing out twice
	if s.byClient[clientKey(client)] != 3 {
		t.Errorf("counted out twice: %v", s.byClient)
	}
	for _, c := range conns {
		s.asked(c)
	}
	if refused := s.add(conns[4], client); refused != "total" {
		t.Errorf("all have a query: %q, want total", refused)
	}
}

// TestIdleOrder: who has waited longest goes first, whatever they asked in between, and thousands of them cost a newcomer no
// more than one.
//
// Covers: issue5 tcp
func TestIdleOrder(t *testing.T) {
	const n = 1000
	var s connSet
	s.init(n, n)
	client, all := netip.MustParseAddr("192.0.2.1"), make([]*member, n)
	for i := range all {
		all[i] = &member{conn: new(net.TCPConn)}
		s.add(all[i], client)
	}
	for i := 0; i < n; i += 2 { // they ask, and wait again
		s.asked(all[i])
		s.idles(all[i])
		s.idles(all[i])
	}
	for i := range n {
		if refused := s.add(&member{conn: new(net.TCPConn)}, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})); refused != "" {
			t.Fatalf("refused: %s", refused)
		}
		want := all[min(2*i+1, n-1)]
		if i >= n/2 {
			want = all[2*(i-n/2)]
		}
		if _, in := s.open[want]; in {
			t.Fatalf("after %d newcomers the one that waited longest is still there", i+1)
		}
	}
	if len(s.open) != n || s.byClient[clientKey(client)] != 0 {
		t.Errorf("%d are open, %d of them of the first client", len(s.open), s.byClient[clientKey(client)])
	}
}

// TestProxiedClients: those who come by one proxy are counted each by itself.
//
// Covers: field 5, issue5 proxy protocol
func TestProxiedClients(t *testing.T) {
	var s connSet
	s.init(100, 2)
	add := func(client string) bool {
		m := &member{conn: new(net.TCPConn)}
		if refused := s.add(m, netip.Addr{}); refused != "" {
			t.Fatalf("the proxy was refused: %s", refused)
		}
		if s.identify(m, netip.MustParseAddr(client)) {
			return true
		}
		s.remove(m)
		return false
	}
	for i, want := range []bool{true, true, false} {
		if got := add("192.0.2.1"); got != want {
			t.Errorf("connection %d: %t", i, got)
		}
	}
	if !add("192.0.2.2") || len(s.open) != 3 {
		t.Errorf("another client was refused, %d open", len(s.open))
	}
}

// waiting counts the connections without a query.
func (s *connSet) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for m := s.idle.next; m != &s.idle; m = m.next {
		n++
	}
	return n
}
