package snapshot_test

import (
	"fmt"
	"testing"
	"time"

	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

// The size measured: 1,000 services with 10 rules each.
const (
	benchServices = 1000
	benchRules    = 10
)

// benchInput is one zone and services of ten scopes each, in fifty different sets, all rules decided.
func benchInput(b *testing.B, services int) snapshot.DNSInput {
	b.Helper()
	db, err := geo.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	docs, errs := spec.Parse("bench.yaml", []byte(dnsZones))
	if len(errs) > 0 {
		b.Fatal(errs)
	}
	in := snapshot.DNSInput{
		Version: 1, Created: time.Unix(1_000_000, 0), Now: time.Hour, Geo: geo.New(db), Rules: map[string]snapshot.DNSRuleInput{},
	}
	for _, d := range docs {
		in.Zones = append(in.Zones, d.Zone)
	}
	countries := []string{"CN", "JP", "KR", "US", "CA", "DE", "FR", "GB", "BR"}
	for i := range services {
		yaml := fmt.Sprintf("apiVersion: steerpoint/v1\nkind: Service\nname: s%d\ndomains: [w%d.example.com]\nedges:\n"+
			"  - {name: a, addresses: [192.0.2.1, 192.0.2.2, \"2001:db8::1\"]}\n  - {name: b, addresses: [192.0.2.3]}\nrules:\n"+
			"  - {name: default, scope: \"*\", mode: failover, edges: [a, b]}\n", i, i)
		for r := range benchRules - 1 {
			yaml += fmt.Sprintf("  - {name: r%d, scope: {country: %s, isp: isp%d}, mode: failover, edges: [a, b]}\n", r, countries[r], i%50)
		}
		docs, errs := spec.Parse("bench.yaml", []byte(yaml))
		if len(errs) > 0 {
			b.Fatal(errs)
		}
		s := docs[0].Service
		in.Services = append(in.Services, s)
		for r := range s.Rules {
			in.Rules[s.Name+"/"+s.Rules[r].Name] = decided("a", 1)
		}
	}
	return in
}

func decided(edge string, seq uint64) snapshot.DNSRuleInput {
	s := steering.EdgeStatus{Edge: "a"}
	for _, x := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
		s.Addresses = append(s.Addresses, steering.AddressStatus{Address: x, Verdict: steering.Up})
	}
	return snapshot.DNSRuleInput{Decision: steering.Decision{Edge: edge, Seq: seq}, Edges: []steering.EdgeStatus{s}}
}

// BenchmarkCompile is the first map of 10,000 rules, and the next one after one rule moved.
func BenchmarkCompile(b *testing.B) {
	in := benchInput(b, benchServices)
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if d, problems := snapshot.CompileDNS(in); len(d.Services) != benchServices || len(problems) > 0 {
				b.Fatal(len(d.Services), problems)
			}
		}
	})
	var c snapshot.Compiler
	last, _ := c.Compile(in)
	edges := [...]string{"a", "b"}
	b.Run("change", func(b *testing.B) {
		n := uint64(1)
		b.ReportAllocs()
		for b.Loop() {
			n++
			next := snapshot.DNSInput{
				Version: n, Created: in.Created, Now: in.Now + time.Duration(n), Zones: in.Zones, Services: in.Services, Geo: in.Geo,
				Partial: true, Rules: map[string]snapshot.DNSRuleInput{"s500/default": decided(edges[n%2], n)},
			}
			d, _ := c.Compile(next)
			if d.Services[0].Revision == n {
				b.Fatal("another service changed")
			}
			last = d
		}
	})
	b.Run("diff", func(b *testing.B) {
		next, _ := c.Compile(snapshot.DNSInput{
			Version: last.Version + 1, Created: in.Created, Now: last.At + 1, Zones: in.Zones, Services: in.Services, Geo: in.Geo,
			Partial: true, Rules: map[string]snapshot.DNSRuleInput{"s500/default": decided("a", last.Version+1)},
		})
		b.ReportAllocs()
		for b.Loop() {
			if d := snapshot.DiffDNS(last, next); len(d.Services) > 1 {
				b.Fatal(len(d.Services))
			}
		}
		delta := snapshot.DiffDNS(last, next)
		b.Run("apply", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := delta.Apply(last); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
