package snapshot_test

import (
	"slices"
	"strings"
	"testing"

	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

const shapeZones = `apiVersion: steerpoint/v1
kind: Zone
name: gslb
zone: gslb.example.net
ns: [{name: ns1.gslb.example.net, addresses: [192.0.2.53]}]
`

const shapeService = `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [shop.example.com]
edges:
  - {name: own, addresses: [192.0.2.1]}
  - {name: vendor, target: shop.cdn-vendor.test}
rules:
  - {name: near, scope: {cidr: [198.51.100.0/24]}, mode: fixed, edges: [vendor]}
  - {name: default, scope: "*", mode: failover, edges: [own], whenAllDown: "fallback:sorry.far.test", probe: {url: "http://shop.example.com/"}}
`

// TestSignedNamesHaveOneShape: a service of names and addresses answers with the addresses of its names while one of its own
// names is in a signed zone, or in one that is signed still; as long as they are not known its answers stay as they were. What
// is resolved elsewhere follows. In a zone that is not signed it answers with names.
//
// Covers: issue5 dnssec shape
func TestSignedNamesHaveOneShape(t *testing.T) {
	in := dnsInput(t, shapeZones, shapeService)
	var c snapshot.Compiler
	// answers gives both rules, with the problems.
	answers := func() string {
		t.Helper()
		d, problems := c.Compile(in)
		in.Version++
		var out []string
		for _, s := range d.Services {
			for i := range s.Rules {
				out = append(out, describeChoices(&s.Rules[i]))
			}
		}
		for _, p := range problems {
			out = append(out, p.Code)
			if p.Code != snapshot.ProblemAlias || !p.Kept || !strings.Contains(p.Message, "signed zone") {
				t.Errorf("%+v", p)
			}
		}
		return strings.Join(out, "; ")
	}
	check := func(what, want string) {
		t.Helper()
		if got := answers(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	const named = "vendor(50) shop.cdn-vendor.test.|; own(50) 192.0.2.1|"
	sign := func(on bool) {
		z := *in.Zones[0]
		z.DNSSEC.Enabled = on
		in.Zones = []*spec.Zone{&z}
	}
	check("not signed", named)
	if len(c.Targets()) != 0 {
		t.Errorf("wanted of a zone that is not signed: %v", c.Targets())
	}
	sign(true)
	check("signed, addresses unknown", named+"; DNS_ALIAS_UNRESOLVED")
	if got := c.Targets(); !slices.Equal(got, []string{"shop.cdn-vendor.test.", "sorry.far.test."}) {
		t.Errorf("wanted: %v", got)
	}
	resolve := func(vendor string) {
		in.Resolved = &snapshot.Resolved{Names: map[string]snapshot.Addresses{
			"shop.cdn-vendor.test.": addressesOf(vendor, "2001:db8::8"), "sorry.far.test.": addressesOf("192.0.2.9"),
		}}
	}
	resolve("192.0.2.8")
	check("signed", "vendor(50) 192.0.2.8|2001:db8::8; own(50) 192.0.2.1|")
	resolve("192.0.2.88")
	check("moved elsewhere", "vendor(50) 192.0.2.88|2001:db8::8; own(50) 192.0.2.1|")
	in.Rules = map[string]snapshot.DNSRuleInput{"shop/default": {Decision: steering.Decision{Edge: "fallback:sorry.far.test", Seq: 2}}}
	if got := answers(); !strings.Contains(got, "fallback:sorry.far.test(0) 192.0.2.9|") {
		t.Errorf("fallback: %s", got)
	}
	in.Rules = nil
	sign(false)
	in.Signing = &snapshot.Signing{Zones: []snapshot.SignedZone{{Zone: "gslb.example.net."}}}
	check("signed still", "vendor(50) 192.0.2.88|2001:db8::8; own(50) 192.0.2.1|")
	in.Signing = nil
	check("signed no more", named)
}
