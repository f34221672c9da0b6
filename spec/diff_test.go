package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Differences are in the operator's words, in a stable order.
func TestDiff(t *testing.T) {
	base := service(map[string]string{
		"rules": `
  - {name: default, scope: "*", mode: failover, edges: [a, b]}
  - {name: cn, scope: {country: CN}, mode: failover, edges: [a, b]}`,
	})
	tests := []struct {
		name     string
		from, to string
		want     string
	}{
		{"nothing", base, base, ""},
		{"spelling only", base, strings.ReplaceAll(base, "a.example.net", "A.Example.net."), ""},
		{"order of edges in a service", base, strings.Replace(base, "{name: a, target: a.example.net}, {name: b, target: b.example.net}", "{name: b, target: b.example.net}, {name: a, target: a.example.net}", 1), ""},
		{"revision", base, base + "revision: 7\n", ""},
		{"order of edges in a rule", base, strings.Replace(base, `"*", mode: failover, edges: [a, b]`, `"*", mode: failover, edges: [b, a]`, 1), "service shop: rule default: edges [a, b] -> [b, a]"},
		{
			"several", base, strings.Replace(base, `"*", mode: failover, edges: [a, b]`, `"*", mode: quality, edges: [a], ttl: 30s, probe: {interval: 10s, expect: {status: 200}}`, 1),
			`service shop: rule default: mode failover -> quality
service shop: rule default: edges [a, b] -> [a]
service shop: rule default: ttl (default: dns.ttl) -> 30s
service shop: rule default: probe.interval 30s -> 10s
service shop: rule default: probe.expect.status 200-399 -> 200`,
		},
		{"scope", base, strings.Replace(base, "country: CN", "country: [JP, CN]", 1), "service shop: rule cn: scope country=CN -> country=CN,JP"},
		{"a rule less", base, service(nil), "service shop: rule cn: removed"},
		{"a rule more", service(nil), base, "service shop: rule cn: added {name: cn, scope: {country: CN}, mode: failover, edges: [a, b]}"},
		{"labels", base, base + "labels: {team: web}\n", "service shop: labels (none) -> {team: web}"},
		{
			"edge", base, strings.Replace(base, "name: b, target: b.example.net", "name: b, addresses: [192.0.2.1], enabled: false", 1),
			`service shop: edge b: target b.example.net -> (none)
service shop: edge b: addresses (none) -> [192.0.2.1]
service shop: edge b: enabled true -> false`,
		},
		{
			"schedule", base, strings.Replace(base, `"*", mode: failover, edges: [a, b]`, `"*", mode: failover, edges: [a, b], schedule: [{from: "01:00", to: "02:00", edges: [b]}]`, 1),
			"service shop: rule default: window 1: added {from: 01:00, to: 02:00, edges: [b]}",
		},
		{"a service more", testZone, testZone + "---\n" + base, "service shop: added"},
		{"a service less", testZone + "---\n" + base, testZone, "service shop: removed"},
		{"zone", testZone, testZone + "soa: {minimum: 10s}\n", "zone main: soa.minimum 30s -> 10s"},
		{
			"override", "apiVersion: steerpoint/v1\nkind: Override\nname: x\nfreeze: {service: shop}\n", "apiVersion: steerpoint/v1\nkind: Override\nname: x\nfreeze: {rule: shop/default}\nuntil: 2030-01-01T00:00:00Z\n",
			`override x: freeze {service: shop} -> {rule: shop/default}
override x: until (default: no end) -> 2030-01-01T00:00:00Z`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var lines []string
			for _, c := range Diff(set(t, tt.from), set(t, tt.to)) {
				lines = append(lines, c.String())
			}
			if diff := cmp.Diff(tt.want, strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Changes come by kind and name, whatever the order of input.
func TestDiffOrder(t *testing.T) {
	other := service(map[string]string{"name": "other", "domains": "[www.example.org]"})
	var got []string
	for _, c := range Diff(set(t, other), set(t, testZone, service(nil))) {
		got = append(got, c.String())
	}
	want := []string{"service other: removed", "service shop: added", "zone main: added"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
