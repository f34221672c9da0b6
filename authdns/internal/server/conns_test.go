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
		{"2001:db8::3", "total"},
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
