package authdns

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
)

// A book explains what a name server with the same map answers, and refuses the maps that it would refuse.
// Covers: issue3 explain
func TestBook(t *testing.T) {
	server := start(t, Config{}, dnstest.Map(t))
	b, err := NewBook(Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	client := netip.MustParseAddr("127.0.0.1")
	if e, err := b.Explain("shop.gslb.example.net", client, netip.Prefix{}, dns.TypeA); err != nil || e.Map.Version != 0 {
		t.Errorf("before a map: %+v, %v", e, err)
	}
	if err := b.Swap(nil); err == nil {
		t.Error("no map is taken for one")
	}
	if err := b.Swap(dnstest.Map(t)); err != nil || b.Map().Version != server.Map().Version {
		t.Fatalf("map %d, %v", b.Map().Version, err)
	}
	for _, subnet := range []string{"", "198.51.100.128/25", "10.0.0.0/24"} {
		var ecs netip.Prefix
		if subnet != "" {
			ecs = netip.MustParsePrefix(subnet)
		}
		want, err := server.Explain("shop.gslb.example.net", client, ecs, dns.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Explain("shop.gslb.example.net", client, ecs, dns.TypeA)
		if err != nil || got.Why != want.Why || got.Rule != want.Rule || got.ECSScope != want.ECSScope || len(got.Answer) != len(want.Answer) {
			t.Errorf("%q: %+v, %v; the server says %+v", subnet, got, err, want)
		}
	}
}
