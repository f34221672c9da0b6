package snapshot_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

const dnsZones = `
apiVersion: steerpoint/v1
kind: Zone
name: gslb
zone: gslb.example.net
steering: true
ns: [{name: ns1.gslb.example.net, addresses: [192.0.2.53, "2001:db8::53"]}, {name: ns2.elsewhere.test}]
---
apiVersion: steerpoint/v1
kind: Zone
name: com
zone: example.com
steering: false
ns: [{name: ns1.gslb.example.net, addresses: [192.0.2.53]}]
`

const dnsShop = `
apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [www.example.com, www.elsewhere.test]
dns: {ttl: 60s, minTTL: 10s, negativeTTL: 15s}
edges:
  - {name: a, addresses: [192.0.2.1, 192.0.2.2, "2001:db8::1"], weight: 80}
  - {name: b, addresses: [192.0.2.3, "2001:db8::3"], weight: 20}
  - {name: v, target: shop.cdn-vendor.test}
  - {name: off, addresses: [192.0.2.9], enabled: false}
rules:
`

const dnsDefault = `  - {name: default, scope: "*", mode: failover, edges: [off, a, b, v]}
`

// dnsInput parses resources into an input without decisions.
func dnsInput(t *testing.T, yaml ...string) snapshot.DNSInput {
	t.Helper()
	in := snapshot.DNSInput{Version: 5, Created: time.Unix(1_000_000, 0), Now: time.Hour, Rules: map[string]snapshot.DNSRuleInput{}}
	for _, y := range yaml {
		docs, errs := spec.Parse("test.yaml", []byte(y))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, d := range docs {
			if d.Zone != nil {
				in.Zones = append(in.Zones, d.Zone)
			}
			if d.Service != nil {
				in.Services = append(in.Services, d.Service)
			}
		}
	}
	return in
}

func compileDNS(in snapshot.DNSInput) (*snapshot.DNS, []snapshot.Problem) {
	return snapshot.CompileDNS(in)
}

// describeChoices writes choices as "edge(weight) target a,a|aaaa,aaaa".
func describeChoices(r *snapshot.DNSRule) string {
	var out []string
	for _, c := range r.Choices {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s(%d) %s%s|%s", c.Edge, c.Weight, c.Target, addrs(c.A), addrs(c.AAAA))))
	}
	return strings.Join(out, " + ")
}

func addrs(list []netip.Addr) string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return strings.Join(out, ",")
}

// status marks addresses of an edge down.
func status(edge string, down ...string) steering.EdgeStatus {
	s := steering.EdgeStatus{Edge: edge}
	for _, a := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
		verdict := steering.Up
		if slices.Contains(down, a) {
			verdict = steering.Down
		}
		s.Addresses = append(s.Addresses, steering.AddressStatus{Address: a, Verdict: verdict})
	}
	return s
}

// TestZoneTTL: the TTL of NS and glue is the operator's.
//
// Covers: field 66
func TestZoneTTL(t *testing.T) {
	d, problems := compileDNS(dnsInput(t, strings.Replace(dnsZones, "steering: true", "steering: true\nnsTTL: 30s", 1), dnsShop+dnsDefault))
	if len(problems) != 0 || d.Zones[1].NSTTL != 30*time.Second || d.Zones[0].NSTTL != 5*time.Minute {
		t.Errorf("problems %v, TTLs %s and %s, want 30s and the default of 5m", problems, d.Zones[1].NSTTL, d.Zones[0].NSTTL)
	}
}

// TestCompileZones: zones and their defaults as name servers get them.
//
// Covers: A4
func TestCompileZones(t *testing.T) {
	d, problems := compileDNS(dnsInput(t, dnsZones, dnsShop+dnsDefault))
	if len(problems) != 0 || d.Version != 5 || len(d.Zones) != 2 {
		t.Fatalf("problems %v, %+v", problems, d)
	}
	want := snapshot.DNSZone{
		Name: "gslb.example.net.", NSTTL: 5 * time.Minute,
		NS: []snapshot.NameServer{
			{Name: "ns1.gslb.example.net.", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")}},
			{Name: "ns2.elsewhere.test."},
		},
		SOA: snapshot.SOA{
			MName: "ns1.gslb.example.net.", RName: "hostmaster.gslb.example.net.",
			Refresh: time.Hour, Retry: 10 * time.Minute, Expire: 14 * 24 * time.Hour, Minimum: 30 * time.Second,
		},
	}
	if diff := cmp.Diff(want, d.Zones[1], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	s := d.Services[0]
	if s.CNAME != "shop.gslb.example.net." || s.Zone != "gslb.example.net." || !slices.Equal(s.Hosted, []string{"www.example.com."}) ||
		s.Table != snapshot.NoTable || s.NegativeTTL != 15*time.Second || s.Rules[0].TTL != time.Minute || s.Rules[0].MinTTL != 10*time.Second {
		t.Errorf("%+v", s)
	}
}

// TestCompileAnswers turns decisions and verdicts of addresses into answers.
//
// Covers: decisions 1, decisions 3, field 12, field 18, field 21, A3
func TestCompileAnswers(t *testing.T) {
	const all = "a(80) 192.0.2.1,192.0.2.2|2001:db8::1"
	everyA := []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"}
	for _, row := range []struct {
		name, mode, allDown string
		decision            steering.Decision
		status              []steering.EdgeStatus
		want                string
	}{
		{"nothing known: priority order", "failover", "hold", steering.Decision{}, nil, all},
		{"nothing known, weighted: all", "weighted", "hold", steering.Decision{}, nil, all + " + b(20) 192.0.2.3|2001:db8::3 + v(50) shop.cdn-vendor.test.|"},
		{"one edge", "failover", "hold", steering.Decision{Edge: "b"}, nil, "b(20) 192.0.2.3|2001:db8::3"},
		{"a name", "failover", "hold", steering.Decision{Edge: "v"}, nil, "v(50) shop.cdn-vendor.test.|"},
		{"one address down", "failover", "hold", steering.Decision{Edge: "a"}, []steering.EdgeStatus{status("b", everyA...), status("a", "192.0.2.1")}, "a(80) 192.0.2.2|2001:db8::1"},
		{"one family down", "failover", "hold", steering.Decision{Edge: "a"}, []steering.EdgeStatus{status("a", "192.0.2.1", "192.0.2.2")}, "a(80) |2001:db8::1"},
		{"the other family down", "failover", "hold", steering.Decision{Edge: "a"}, []steering.EdgeStatus{status("a", "2001:db8::1")}, "a(80) 192.0.2.1,192.0.2.2|"},
		{"all down, held", "failover", "hold", steering.Decision{Edge: "a", AllDead: true, Degraded: true}, []steering.EdgeStatus{status("a", everyA...)}, all},
		{"fixed heeds no probe", "fixed", "hold", steering.Decision{Edge: "a"}, []steering.EdgeStatus{status("a", "192.0.2.1")}, all},
		{"forced onto an edge that is not in the rule", "failover", "hold", steering.Decision{Edge: "b", Forced: true}, nil, "b(20) 192.0.2.3|2001:db8::3"},
		{"weighted set", "weighted", "hold", steering.Decision{Edge: "a,b", Set: []string{"a", "b"}}, []steering.EdgeStatus{status("a", "192.0.2.1")}, "a(80) 192.0.2.2|2001:db8::1 + b(20) 192.0.2.3|2001:db8::3"},
		{"empty", "failover", "empty", steering.Decision{Edge: "a", AllDead: true, AllDown: steering.AllDownEmpty}, nil, ""},
		{"first", "failover", "first", steering.Decision{Edge: "b", AllDead: true, AllDown: steering.AllDownFirst}, []steering.EdgeStatus{status("a", everyA...)}, all},
		{"first of the list a schedule put in force", "failover", "first", steering.Decision{Edge: "a", List: []string{"b", "a"}, AllDead: true, AllDown: steering.AllDownFirst}, nil, "b(20) 192.0.2.3|2001:db8::3"},
		{"all, with a name among them", "failover", "hold", steering.Decision{Edge: "b", AllDead: true, AllDown: steering.AllDownAll}, nil, "b(20) 192.0.2.3|2001:db8::3"},
		{"fallback name", "failover", "fallback:sorry.test", steering.Decision{Edge: "fallback:sorry.test", AllDead: true, AllDown: steering.AllDownFallback}, nil, "fallback:sorry.test(0) sorry.test.|"},
		{"fallback address", "failover", "fallback:2001:db8::99", steering.Decision{Edge: "fallback:2001:db8::99", AllDead: true, AllDown: steering.AllDownFallback}, nil, "fallback:2001:db8::99(0) |2001:db8::99"},
	} {
		rule := fmt.Sprintf("  - {name: default, scope: \"*\", mode: %s, edges: [off, a, b, v], whenAllDown: %q}\n", row.mode, row.allDown)
		if row.mode == "fixed" {
			rule = "  - {name: default, scope: \"*\", mode: fixed, edges: [a]}\n"
		}
		in := dnsInput(t, dnsZones, dnsShop+rule)
		in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: row.decision, Edges: row.status}
		d, problems := compileDNS(in)
		if len(d.Services) != 1 {
			t.Errorf("%s: %v", row.name, problems)
			continue
		}
		if got := describeChoices(&d.Services[0].Rules[0]); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, row.want)
		}
		if wantProblem := strings.Contains(row.name, "with a name"); wantProblem != (len(problems) == 1 && problems[0].Code == snapshot.ProblemAllNames) {
			t.Errorf("%s: problems %v", row.name, problems)
		}
	}
}

// TestCompileAllMerges: whenAllDown all is one answer of every enabled edge's addresses, once each.
//
// Covers: decisions 3
func TestCompileAllMerges(t *testing.T) {
	in := dnsInput(t, dnsZones, strings.Replace(dnsShop, "192.0.2.3", "192.0.2.1", 1)+"  - {name: default, scope: \"*\", mode: failover, edges: [a, off, b], whenAllDown: all}\n")
	in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: "a", AllDead: true, AllDown: steering.AllDownAll}}
	d, problems := compileDNS(in)
	if len(problems) != 0 || describeChoices(&d.Services[0].Rules[0]) != "a,b(0) 192.0.2.1,192.0.2.2|2001:db8::1,2001:db8::3" {
		t.Errorf("%v, %+v", problems, d.Services)
	}
}

// TestCompileOrder: rules stand in the total order of scopes, whatever the order they were written in, and equal
// scope sets share one table.
//
// Covers: A3
func TestCompileOrder(t *testing.T) {
	rules := `  - {name: default, scope: "*", mode: fixed, edges: [a]}
  - {name: asia, scope: {continent: AS}, mode: fixed, edges: [a]}
  - {name: net, scope: {cidr: 198.51.100.0/24}, mode: fixed, edges: [a]}
  - {name: cn, scope: {country: CN}, mode: fixed, edges: [a]}
  - {name: telecom, scope: {country: CN, isp: chinatelecom}, mode: fixed, edges: [a]}
`
	other := strings.NewReplacer("name: shop", "name: other", "[www.example.com, www.elsewhere.test]", "[x.elsewhere.test]").Replace(dnsShop)
	in := dnsInput(t, dnsZones, dnsShop+rules, other+rules)
	var compiler snapshot.Compiler
	d, problems := compiler.Compile(in)
	var got []string
	for _, s := range d.Services {
		for _, r := range s.Rules {
			got = append(got, s.Name+"/"+r.Rule)
		}
	}
	want := "other/net other/telecom other/cn other/asia other/default shop/net shop/telecom shop/cn shop/asia shop/default"
	if len(problems) != 0 || strings.Join(got, " ") != want || len(d.Tables) != 1 || d.Services[0].Table != 0 || d.Services[1].Table != 0 {
		t.Fatalf("%v %v, %d tables", problems, got, len(d.Tables))
	}
	value, _ := d.Tables[0].Lookup(netip.MustParseAddr("198.51.100.7"))
	if d.Services[0].Rules[value].Rule != "net" {
		t.Errorf("198.51.100.7 gets %s", d.Services[0].Rules[value].Rule)
	}
	if again, _ := compiler.Compile(in); compiler.TablesCompiled() != 1 || again.Tables[0] != d.Tables[0] {
		t.Errorf("%d tables compiled for one scope set", compiler.TablesCompiled())
	}
	in.Geo = geo.New()
	again, _ := compiler.Compile(in)
	if compiler.TablesCompiled() != 2 {
		t.Error("new geo data did not make a new table")
	}
	if again.Tables[0] != d.Tables[0] || again.Services[0].Revision != d.Services[0].Revision {
		t.Error("new geo data that says the same of these scopes changed a service")
	}
}

// TestCompileSoonest: the time to the next possible change, counted from now; what is past is nothing.
//
// Covers: decisions 3
func TestCompileSoonest(t *testing.T) {
	for soonest, want := range map[time.Duration]time.Duration{0: 0, time.Hour + 7*time.Second: 7 * time.Second, time.Hour: 0, time.Minute: 0} {
		in := dnsInput(t, dnsZones, dnsShop+dnsDefault)
		in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: "a", Seq: 9, Degraded: true, Soonest: soonest}}
		d, _ := compileDNS(in)
		if r := d.Services[0].Rules[0]; r.Soonest != want || r.Decision != 9 || !r.Degraded {
			t.Errorf("soonest %s: %+v", soonest, r)
		}
	}
}

// TestCompileProblems: one bad service is named, and kept as it was or left out; the others are published.
//
// Covers: issue2 bad input, A8
func TestCompileProblems(t *testing.T) {
	good := strings.NewReplacer("name: shop", "name: good", "[www.example.com, www.elsewhere.test]", "[x.elsewhere.test]").Replace(dnsShop) + dnsDefault
	rule := func(edges string) string {
		return "  - {name: default, scope: \"*\", mode: failover, edges: " + edges + "}\n"
	}
	for _, row := range []struct {
		name, code  string
		shop, zones string
		edge        string
	}{
		{"no such zone", snapshot.ProblemNoZone, strings.Replace(dnsShop, "dns: {", "dns: {zone: no.test, ", 1) + dnsDefault, dnsZones, "a"},
		{"zone that does not steer", snapshot.ProblemNoZone, strings.Replace(dnsShop, "dns: {", "dns: {zone: example.com, ", 1) + dnsDefault, dnsZones, "a"},
		{"target is the service itself", snapshot.ProblemLoop, strings.Replace(dnsShop, "shop.cdn-vendor.test", "shop.gslb.example.net", 1) + rule("[v]"), dnsZones, "v"},
		{"target is its domain", snapshot.ProblemLoop, strings.Replace(dnsShop, "shop.cdn-vendor.test", "www.example.com", 1) + rule("[v]"), dnsZones, "v"},
		{"managed edge", snapshot.ProblemNoAnswer, dnsShop + rule("[v]"), dnsZones, "v"},
		{"edge that is gone", snapshot.ProblemNoAnswer, dnsShop + dnsDefault, dnsZones, "gone"},
	} {
		in := dnsInput(t, row.zones, row.shop, good)
		if row.name == "managed edge" { // not yet allowed in a file
			in.Services[0].Edge("v").Target, in.Services[0].Edge("v").Provider = "", "cf"
		}
		in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: row.edge}}
		d, problems := compileDNS(in)
		if len(d.Services) != 1 || d.Services[0].Name != "good" {
			t.Errorf("%s: services %+v", row.name, d.Services)
		}
		if len(problems) != 1 || problems[0].Code != row.code || problems[0].Service != "shop" || !problems[0].Lost || problems[0].Kept {
			t.Errorf("%s: %v", row.name, problems)
		}
		// With a snapshot from before, the service keeps its answers.
		before, _ := compileDNS(dnsInput(t, dnsZones, dnsShop+dnsDefault, good))
		in.Previous = before
		kept, problems := compileDNS(in)
		if len(problems) != 1 || !problems[0].Kept || problems[0].Lost {
			t.Errorf("%s: %v", row.name, problems)
		}
		if i := slices.IndexFunc(kept.Services, func(s *snapshot.DNSService) bool { return s.Name == "shop" }); i < 0 || describeChoices(&kept.Services[i].Rules[0]) != describeChoices(&before.Services[1].Rules[0]) {
			t.Errorf("%s: kept %+v", row.name, kept.Services)
		}
	}
}

// TestCompileKeepsTables: a service that keeps its answers keeps its own table, wherever that stands in the new map.
//
// Covers: issue2 bad input
func TestCompileKeepsTables(t *testing.T) {
	cn := dnsDefault + "  - {name: cn, scope: {cidr: 198.51.100.0/24}, mode: fixed, edges: [a]}\n"
	jp := dnsDefault + "  - {name: jp, scope: {cidr: 203.0.113.0/24}, mode: fixed, edges: [a]}\n"
	another := strings.NewReplacer("name: shop", "name: another", "[www.example.com, www.elsewhere.test]", "[x.elsewhere.test]").Replace(dnsShop)
	in := dnsInput(t, dnsZones, another+jp, dnsShop+cn)
	in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: "a", Soonest: in.Now + time.Minute}}
	in.Previous, _ = compileDNS(in)
	in.Services = in.Services[1:]
	in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: "gone"}}
	d, problems := compileDNS(in)
	if len(problems) != 1 || !problems[0].Kept || len(d.Tables) != 1 {
		t.Fatalf("%v, %d tables", problems, len(d.Tables))
	}
	value, _ := d.Tables[d.Services[0].Table].Lookup(netip.MustParseAddr("198.51.100.7"))
	if int(value) >= len(d.Services[0].Rules) || d.Services[0].Rules[value].Rule != "cn" {
		t.Errorf("198.51.100.7 has value %d of %+v", value, d.Services[0].Rules)
	}
	if in.Previous.Services[1].Rules[1].Soonest == 0 || d.Services[0].Rules[1].Soonest != 0 {
		t.Errorf("a deadline of the old map counts from the new one: %+v", d.Services[0].Rules[1])
	}
}

// TestCompileUnread: a service that cannot be read keeps its answers, table and names of the map before, and nobody else
// gets its own name; without a map before, it is not answered. Read again, it is compiled as any other.
//
// Covers: issue2 bad input
func TestCompileUnread(t *testing.T) {
	cn := dnsDefault + "  - {name: cn, scope: {cidr: 198.51.100.0/24}, mode: fixed, edges: [a]}\n"
	other := strings.NewReplacer("name: shop", "name: another", "[www.example.com, www.elsewhere.test]", "[shop.gslb.example.net]").Replace(dnsShop) + dnsDefault
	in := dnsInput(t, dnsZones, dnsShop+cn)
	in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: "b", Soonest: in.Now + time.Minute}}
	var c snapshot.Compiler
	before, problems := c.Compile(in)
	if len(problems) != 0 {
		t.Fatal(problems)
	}
	later := dnsInput(t, dnsZones, other)
	later.Unread, later.Version, later.Now = []string{"shop"}, in.Version+1, in.Now+time.Second
	for from, compile := range map[string]func(snapshot.DNSInput) (*snapshot.DNS, []snapshot.Problem){
		"a file": func(in snapshot.DNSInput) (*snapshot.DNS, []snapshot.Problem) {
			in.Previous = overTheWire(t, before)
			return compileDNS(in)
		},
		"itself": c.Compile,
	} {
		d, problems := compile(later)
		if len(problems) != 2 || problems[0].Code != snapshot.ProblemNameTaken || problems[0].Service != "another" ||
			problems[1].Code != snapshot.ProblemUnread || problems[1].Service != "shop" || !problems[1].Kept || problems[1].Lost {
			t.Fatalf("from %s: %v", from, problems)
		}
		kept, was := d.Services[1], before.Services[0]
		if kept.Table == snapshot.NoTable || d.Tables[kept.Table] == nil || !slices.Equal(kept.Hosted, was.Hosted) {
			t.Fatalf("from %s: %+v, before %+v", from, kept, was)
		}
		for i := range was.Rules {
			if describeChoices(&kept.Rules[i]) != describeChoices(&was.Rules[i]) || kept.Rules[i].Soonest != 0 {
				t.Errorf("from %s: rule %+v, before %+v", from, kept.Rules[i], was.Rules[i])
			}
		}
	}
	d, problems := compileDNS(later)
	if len(problems) != 1 || !problems[0].Lost || problems[0].Kept || len(d.Services) != 1 {
		t.Errorf("without a map before: %v, %d services", problems, len(d.Services))
	}
	in.Version, in.Now = later.Version+1, later.Now+time.Second
	if d, problems := c.Compile(in); len(problems) != 0 || len(d.Services) != 1 || d.Services[0].Rules[1].Soonest == 0 {
		t.Errorf("read again: %v, %+v", problems, d.Services)
	}
}

// TestCompileNames: names that two want, and names at an apex.
//
// Covers: issue2 bad input
func TestCompileNames(t *testing.T) {
	other := strings.NewReplacer("name: shop", "name: other", "[www.example.com, www.elsewhere.test]", "%s").Replace(dnsShop)
	addressesOnly := strings.Replace(other, "target: shop.cdn-vendor.test", "addresses: [192.0.2.7]", 1)
	for _, row := range []struct {
		name, other string
		code        string
		hosted      string
	}{
		{"domain of another service", fmt.Sprintf(other, "[www.example.com]") + dnsDefault, snapshot.ProblemNameTaken, "www.example.com."},
		{"service CNAME of another service", fmt.Sprintf(other, "[shop.gslb.example.net]") + dnsDefault, snapshot.ProblemNameTaken, ""},
		{"name server", fmt.Sprintf(other, "[ns1.gslb.example.net]") + dnsDefault, snapshot.ProblemNameTaken, ""},
		{"own CNAME", fmt.Sprintf(other, "[other.gslb.example.net]") + dnsDefault, "", ""},
		{"name at the apex", fmt.Sprintf(other, "[example.com, m.example.com]") + dnsDefault, "", "m.example.com."},
		{"fallback name at the apex", fmt.Sprintf(addressesOnly, "[example.com]") + strings.Replace(dnsDefault, "mode", "whenAllDown: \"fallback:sorry.test\", mode", 1), "", ""},
		{"addresses at the apex", fmt.Sprintf(addressesOnly, "[example.com]") + dnsDefault, "", "example.com."},
		{"wildcard", fmt.Sprintf(other, `["w.elsewhere.test", "*.example.com"]`) + dnsDefault, "", "*.example.com."},
	} {
		d, problems := compileDNS(dnsInput(t, dnsZones, dnsShop+dnsDefault, row.other))
		got := ""
		if len(problems) == 1 {
			got = problems[0].Code
		}
		if len(d.Services) != 2 || got != row.code || len(problems) > 1 {
			t.Fatalf("%s: %d services, problems %v, want %s", row.name, len(d.Services), problems, row.code)
		}
		// Services are served by name: "other" comes first.
		if hosted := strings.Join(d.Services[0].Hosted, " "); hosted != row.hosted {
			t.Errorf("%s: hosted %q, want %q", row.name, hosted, row.hosted)
		}
	}
}

// TestCompileZoneProblems: a zone that cannot be served is named and takes nothing else with it.
//
// Covers: issue2 bad input
func TestCompileZoneProblems(t *testing.T) {
	in := dnsInput(t, dnsZones, dnsShop+dnsDefault)
	in.Zones[1].NS = nil
	twice := *in.Zones[0]
	twice.Name = "twice"
	glueless := spec.Zone{Name: "glueless", Zone: "glueless.test", NS: []spec.NameServer{{Name: "ns.glueless.test"}}}
	in.Zones = append(in.Zones, &twice, &glueless)
	d, problems := compileDNS(in)
	if len(problems) != 3 || len(d.Zones) != 1 || len(d.Services) != 1 || len(d.Services[0].Hosted) != 0 {
		t.Errorf("%v, %+v", problems, d)
	}
	for _, p := range problems {
		if p.Code != snapshot.ProblemZone || p.Zone == "" || !strings.HasPrefix(p.String(), "DNS_ZONE_REFUSED: zone ") {
			t.Errorf("%s", p)
		}
	}
}

// TestServersOfOtherZones: the addresses of a name server that lies in another zone of ours need stand once.
//
// Covers: A4
func TestServersOfOtherZones(t *testing.T) {
	in := dnsInput(t, dnsZones, dnsShop+dnsDefault)
	guest := spec.Zone{Name: "guest", Zone: "guest.test", NS: []spec.NameServer{{Name: "ns1.gslb.example.net"}}}
	in.Zones = append(in.Zones, &guest)
	d, problems := compileDNS(in)
	i := slices.IndexFunc(d.Zones, func(z snapshot.DNSZone) bool { return z.Name == "guest.test." })
	if i < 0 || len(problems) > 0 || fmt.Sprint(d.Zones[i].NS[0].Addresses) != "[192.0.2.53 2001:db8::53]" {
		t.Errorf("%+v, %v", d.Zones, problems)
	}
}

// TestCompileTooMany: an answer carries ten addresses of a family, the first that are well.
//
// Covers: A4
func TestCompileTooMany(t *testing.T) {
	in := dnsInput(t, dnsZones, dnsShop+dnsDefault)
	e := in.Services[0].Edge("a")
	e.Addresses = nil
	s := steering.EdgeStatus{Edge: "a"}
	for i := range 14 {
		a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		e.Addresses = append(e.Addresses, spec.Address{Addr: a})
		verdict := steering.Up
		if i < 2 {
			verdict = steering.Down
		}
		s.Addresses = append(s.Addresses, steering.AddressStatus{Address: a.String(), Verdict: verdict})
	}
	in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: "a"}, Edges: []steering.EdgeStatus{s}}
	d, problems := compileDNS(in)
	if got := d.Services[0].Rules[0].Choices[0].A; len(got) != 10 || got[0].String() != "192.0.2.2" || len(problems) != 1 || problems[0].Code != snapshot.ProblemTooMany {
		t.Errorf("%v, %v", got, problems)
	}
}

// TestCompileIsPure: the same input gives the same snapshot, and the input is left alone.
//
// Covers: field 23
func TestCompileIsPure(t *testing.T) {
	in := dnsInput(t, dnsZones, dnsShop+dnsDefault)
	in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: "a"}, Edges: []steering.EdgeStatus{status("a", "192.0.2.1")}}
	first, _ := compileDNS(in)
	slices.Reverse(in.Zones)
	second, _ := compileDNS(in)
	if !first.Equal(second) {
		t.Errorf("%+v\nand again\n%+v", first, second)
	}
	if addrs := in.Services[0].Edge("a").Addresses; len(addrs) != 3 {
		t.Errorf("the input's addresses are now %v", addrs)
	}
}
