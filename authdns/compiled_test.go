package authdns

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

// parseInput reads resources into an input for the compiler.
func parseInput(t *testing.T, yaml string) snapshot.DNSInput {
	t.Helper()
	docs, errs := spec.Parse("test.yaml", []byte(yaml))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	in := snapshot.DNSInput{Version: 1, Created: time.Now(), Geo: dnstest.DB(t), Rules: map[string]snapshot.DNSRuleInput{}}
	for _, d := range docs {
		if d.Zone != nil {
			in.Zones = append(in.Zones, d.Zone)
		}
		if d.Service != nil {
			in.Services = append(in.Services, d.Service)
		}
	}
	return in
}

const endToEnd = `
apiVersion: steerpoint/v1
kind: Zone
name: gslb
zone: gslb.example.net
ns: [{name: ns1.gslb.example.net, addresses: [127.0.0.1]}]
---
apiVersion: steerpoint/v1
kind: Zone
name: com
zone: example.com
steering: false
ns: [{name: ns1.gslb.example.net, addresses: [127.0.0.1]}]
---
apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [www.example.com, "*.img.example.com"]
edges:
  - {name: a, addresses: [192.0.2.1, "2001:db8::1"]}
  - {name: b, target: b.cdn.test}
rules:
  - {name: default, scope: "*", mode: failover, edges: [a, b]}
  - {name: cn, scope: {country: CN}, mode: failover, edges: [b, a]}
`

// TestFromResourcesToAnswers goes from YAML and decisions to replies: a switch, a family that is down, a hosted
// wildcard.
//
// Covers: A1, A3, A4, A8, decisions 1, issue2 one address
func TestFromResourcesToAnswers(t *testing.T) {
	in := parseInput(t, endToEnd)
	r := start(t, Config{}, nil)
	publish := func(version uint64, edge string, down ...string) {
		in.Version = version
		s := steering.EdgeStatus{Edge: "a"}
		for _, a := range down {
			s.Addresses = append(s.Addresses, steering.AddressStatus{Address: a, Verdict: steering.Down})
		}
		in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: edge, Seq: version}, Edges: []steering.EdgeStatus{s}}
		d, problems := snapshot.CompileDNS(in)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if err := r.Swap(d); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(name string, qtype uint16, subnet, want string, scope int) {
		t.Helper()
		m := r.ask(t, "udp", dnstest.Query(name, qtype, dnstest.ECS(subnet)))
		got := "NODATA"
		for _, rr := range m.Answer {
			switch rr := rr.(type) {
			case *dns.A:
				got = rr.A.String()
			case *dns.AAAA:
				got = rr.AAAA.String()
			case *dns.CNAME:
				got = rr.Target
			}
		}
		if s := dnstest.Subnet(m); m.Rcode != 0 || got != want || int(s.SourceScope) != scope {
			t.Errorf("%s %s %s: %s scope %d, want %s scope %d", name, dns.TypeToString[qtype], subnet, got, s.SourceScope, want, scope)
		}
	}
	const us, cn, cn6 = "100.64.0.0/24", "192.0.2.0/24", "2001:db8:1::/48"
	publish(1, "a")
	expect("shop.gslb.example.net.", dns.TypeA, us, "192.0.2.1", 10)
	expect("shop.gslb.example.net.", dns.TypeA, cn, "b.cdn.test.", 24)
	expect("www.example.com.", dns.TypeAAAA, us, "2001:db8::1", 10)
	expect("x.y.img.example.com.", dns.TypeA, us, "192.0.2.1", 10)
	expect("img.example.com.", dns.TypeA, us, "NODATA", 0)
	publish(2, "a", "192.0.2.1")
	expect("www.example.com.", dns.TypeA, us, "NODATA", 10)
	expect("www.example.com.", dns.TypeAAAA, us, "2001:db8::1", 10)
	publish(3, "a", "192.0.2.1", "2001:db8::1")
	expect("www.example.com.", dns.TypeA, us, "192.0.2.1", 10)
	publish(4, "b", "192.0.2.1", "2001:db8::1")
	expect("www.example.com.", dns.TypeA, us, "b.cdn.test.", 10)
	expect("www.example.com.", dns.TypeA, cn6, "b.cdn.test.", 48)
}

// TestCompiledMapsAreAlwaysTaken compiles random resources and decisions, also senseless ones: what the compiler lets
// through, the name server takes. Otherwise one bad service would stop the publication of all.
//
// Covers: A8, issue2 bad input
func TestCompiledMapsAreAlwaysTaken(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	domain := func() spec.Domain {
		return spec.Domain(pick("example.com", "www.example.com", "*.example.com", "s0.gslb.example.net", "s1.gslb.example.net",
			"gslb.example.net", "ns1.gslb.example.net", "b.cdn.test", "x.elsewhere.test"))
	}
	s, err := New(Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var previous *snapshot.DNS
	answered := 0
	for round := range 400 {
		in := parseInput(t, endToEnd)
		in.Version, in.Previous = uint64(round+1), previous
		model := *in.Services[0]
		in.Services = nil
		for i := range 3 {
			v := model
			v.Name = fmt.Sprint("s", i)
			v.Domains = []spec.Domain{domain(), domain()}
			v.DNS.Zone = spec.HostName(pick("", "", "gslb.example.net", "example.com", "no.test"))
			v.Edges = append([]spec.Edge(nil), model.Edges...)
			if rng.IntN(4) == 0 {
				v.Edges[1].Target, v.Edges[1].Addresses = "", []spec.Address{{Addr: netip.MustParseAddr("192.0.2.77")}}
			}
			if rng.IntN(8) == 0 {
				v.Edges[rng.IntN(2)].Enabled = false
			}
			if rng.IntN(8) == 0 {
				v.Edges[1].Target = spec.HostName(pick("s0.gslb.example.net", "www.example.com", ""))
			}
			in.Services = append(in.Services, &v)
			for _, rule := range []string{"default", "cn"} {
				d := steering.Decision{
					Edge: pick("", "a", "b", "gone", "fallback:x.test", "fallback:192.0.2.200"), Seq: uint64(round),
					AllDown: steering.AllDown(rng.IntN(5)), Soonest: time.Duration(rng.IntN(3)) * time.Second,
				}
				if rng.IntN(4) == 0 {
					d.Set = []string{"a", "b"}
				}
				in.Rules[v.Name+"/"+rule] = snapshot.DNSRuleInput{Decision: d}
			}
		}
		if rng.IntN(10) == 0 {
			in.Zones = in.Zones[:1]
		}
		d, _ := snapshot.CompileDNS(in)
		if err := s.Swap(d); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		previous = d
		answered += len(d.Services)
	}
	if answered < 400 {
		t.Errorf("only %d services in 400 maps: the test tests little", answered)
	}
}
