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
	add := func(addr string) string { return s.add(new(net.TCPConn), netip.MustParseAddr(addr)) }
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
// Covers: issue2 tcp
func TestTheLongestIdleGivesWay(t *testing.T) {
	var s connSet
	s.init(3, 9)
	client := netip.MustParseAddr("192.0.2.1")
	conns := []*net.TCPConn{{}, {}, {}, {}, {}}
	for _, c := range conns[:3] {
		if refused := s.add(c, client); refused != "" {
			t.Fatalf("refused: %s", refused)
		}
	}
	s.asked(conns[0]) // the oldest has a query
	if refused := s.add(conns[3], client); refused != "" {
		t.Fatalf("refused for %q while another idles", refused)
	}
	if s.open[conns[1]] != nil || s.open[conns[0]] == nil || len(s.open) != 3 || s.byClient[clientKey(client)] != 3 {
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
