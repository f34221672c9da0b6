package control

import (
	"net/netip"
	"testing"

	"steerpoint/steering/scope"
)

// TestBeats: of two lists of prefixes that both hold the client the longer prefix around that client wins, as in the
// compiled table, however long the lists' other prefixes are.
//
// Covers: A3, E1 explain
func TestBeats(t *testing.T) {
	parse := func(text string) scope.Scope {
		s, err := scope.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	wide, narrow := parse("cidr=10.0.0.0/8,192.0.2.0/32"), parse("cidr=10.1.0.0/16")
	for _, tt := range []struct {
		a, b scope.Scope
		addr string
		want bool
	}{
		{narrow, wide, "10.1.1.1", true},
		{wide, narrow, "10.1.1.1", false},
		{wide, parse("country=CN"), "10.2.0.1", true},
		{parse("country=CN isp=chinatelecom"), parse("country=CN"), "1.2.3.4", true},
		{parse("*"), parse("continent=AS"), "1.2.3.4", false},
	} {
		if got := beats(tt.a, tt.b, netip.MustParseAddr(tt.addr)); got != tt.want {
			t.Errorf("%s beats %s for %s: %v, want %v", tt.a, tt.b, tt.addr, got, tt.want)
		}
	}
}
