package authdns

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
)

// TestExplain: the explanation tells what the wire says, and why.
//
// Covers: E1, field 9
func TestExplain(t *testing.T) {
	place := func(a netip.Addr) string { return "place of " + a.String() }
	r := start(t, Config{Place: place}, dnstest.Map(t))
	local := netip.MustParseAddr("127.0.0.1")
	for _, row := range []struct {
		name, subnet      string
		qtype             uint16
		rule, edge, place string
		source            string
		value, scope      int
		why               string
	}{
		{"Shop.gslb.example.net", "198.51.100.128/25", dns.TypeA, "cn", "cn", "place of 198.51.100.128", "ecs", 2, 25, "client subnet 198.51.100.128/25 gets rule cn"},
		{"shop.gslb.example.net", "", dns.TypeA, "default", "world", "place of 127.0.0.1", "resolver", 3, -1, "resolver's address 127.0.0.1 gets rule default"},
		{"shop.gslb.example.net", "10.0.0.0/24", dns.TypeA, "default", "world", "place of 127.0.0.1", "resolver", 3, 10, "maps to no place"},
		{"shop.gslb.example.net", "198.51.100.128/25", dns.TypeAAAA, "cn", "cn", "place of 198.51.100.128", "ecs", 2, 25, "no AAAA record to answer with"},
		{"empty.gslb.example.net", "", dns.TypeA, "default", "", "place of 127.0.0.1", "static", 0, -1, "the rule says empty"},
		{"er.gslb.example.net", "", dns.TypeA, "", "", "", "static", -1, -1, "has no A record"},
		{"no.gslb.example.net", "", dns.TypeA, "", "", "", "static", -1, -1, "does not exist"},
		{"mail.example.com", "", dns.TypeA, "", "", "", "static", -1, -1, "static record"},
		{"example.org", "", dns.TypeA, "", "", "", "static", -1, -1, "no zone of ours"},
	} {
		var subnet netip.Prefix
		q := dnstest.Query(dns.Fqdn(row.name), row.qtype)
		if row.subnet != "" {
			subnet = netip.MustParsePrefix(row.subnet)
			q = dnstest.Query(dns.Fqdn(row.name), row.qtype, dnstest.ECS(row.subnet))
		}
		e, err := r.Explain(row.name, local, subnet, row.qtype)
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if e.Rule != row.rule || e.Edge != row.edge || e.Place != row.place || e.Source != row.source || e.Value != row.value ||
			!strings.Contains(e.Why, row.why) || e.Map.Version != 7 {
			t.Errorf("%s %s: %+v", row.name, row.subnet, e)
		}
		if row.subnet == "10.0.0.0/24" {
			row.scope = e.ECSScope // as long as the unmapped block; checked against the wire below
		}
		wire := r.ask(t, "udp", q)
		if s := dnstest.Subnet(wire); e.ECSScope != row.scope || s != nil && int(s.SourceScope) != e.ECSScope {
			t.Errorf("%s %s: scope %d, want %d, wire %v", row.name, row.subnet, e.ECSScope, row.scope, s)
		}
		var answer []string
		for _, rr := range wire.Answer {
			answer = append(answer, strings.ToLower(strings.ReplaceAll(rr.String(), "\t", " ")))
		}
		if got := strings.ToLower(strings.Join(e.Answer, "\n")); got != strings.Join(answer, "\n") {
			t.Errorf("%s: explained %q, answered %q", row.name, e.Answer, answer)
		}
		if rrs := slices.Concat(wire.Answer, wire.Ns); len(rrs) > 0 && e.TTL != time.Duration(rrs[0].Header().Ttl)*time.Second {
			t.Errorf("%s: TTL %s, wire %v", row.name, e.TTL, rrs[0])
		}
	}
	if _, err := r.Explain("a..b", local, netip.Prefix{}, dns.TypeA); err == nil {
		t.Error("a name that is none was explained")
	}
	none := start(t, Config{}, nil)
	if e, err := none.Explain("shop.gslb.example.net", local, netip.Prefix{}, dns.TypeA); err != nil || !strings.Contains(e.Why, "no map yet") || e.Rcode != "SERVFAIL" {
		t.Errorf("before the first map: %+v, %v", e, err)
	}
}
