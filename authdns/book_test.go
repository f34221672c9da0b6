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

// A book takes maps whose zones are signed, though it has no key and signs nothing, and shows the keys.
// Covers: issue3 explain, issue5 dnssec keys
func TestBookOfSignedZones(t *testing.T) {
	var log lockedBuffer
	b, err := NewBook(Config{}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	d := dnstest.Map(t)
	d.Signing, _, _ = newSigning(t, nodeKey(t)) // sealed to a name server
	if err := b.Swap(d); err != nil {
		t.Fatal(err)
	}
	for qtype, want := range map[uint16]int{dns.TypeDNSKEY: 2, dns.TypeCDS: 1, dns.TypeSOA: 1} {
		e, err := b.Explain(signedName, netip.MustParseAddr("192.0.2.1"), netip.Prefix{}, qtype)
		if err != nil || len(e.Answer) != want {
			t.Errorf("%s: %v, %v", dns.TypeToString[qtype], e.Answer, err)
		}
	}
	if text := log.String(); text != "" {
		t.Errorf("it complains of keys that it is not to have: %s", text)
	}
	d = dnstest.Map(t)
	d.Version++
	if err := b.Swap(d); err != nil {
		t.Fatal(err)
	}
	if e, err := b.Explain(signedName, netip.MustParseAddr("192.0.2.1"), netip.Prefix{}, dns.TypeDNSKEY); err != nil || len(e.Answer) != 0 {
		t.Errorf("of a zone that is signed no more: %v, %v", e.Answer, err)
	}
}
