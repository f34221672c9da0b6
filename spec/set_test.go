package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func set(t *testing.T, texts ...string) *Set {
	t.Helper()
	return NewSet(must(t, strings.Join(texts, "---\n")))
}

// A part of a configuration is not refused for what may stand elsewhere; the whole is.
func TestCheckCompleteness(t *testing.T) {
	s := set(t, service(nil))
	if errs, _ := s.Check(Partial); len(errs) > 0 {
		t.Error(errs)
	}
	if errs, _ := s.Check(Complete); !slices.Equal(codes(errs), []string{CodeNoZone}) {
		t.Error(errs)
	}
	if errs, warns := s.With(must(t, testZone)...).Check(Complete); len(errs) > 0 || len(warns) > 0 {
		t.Error(errs, warns)
	}
}

// The service CNAME lives in the zone the service names, or in the only steering zone; domains inside our zones are
// hosted, the closest zone counting.
//
// Covers: A1, A4
func TestServiceZone(t *testing.T) {
	plain := strings.ReplaceAll(testZone, "main", "plain") + "steering: false\n"
	plain = strings.ReplaceAll(plain, "gslb.example.net", "example.net")
	s := set(t, testZone, plain, service(map[string]string{
		"domains": `[www.example.com, img.gslb.example.net, www.example.net, "*.x.example.net"]`,
		"edges":   "[{name: a, target: a.example.org}, {name: b, target: b.example.org}]",
	}))
	v := s.Services()[0]
	if got := s.CNAME(v); got != "shop.gslb.example.net" {
		t.Errorf("CNAME %q", got)
	}
	if diff := cmp.Diff([]string{"img.gslb.example.net", "www.example.net", "*.x.example.net"}, s.Hosted(v)); diff != "" {
		t.Error(diff)
	}
	if z := s.HostingZone("a.b.gslb.example.net"); z == nil || z.Zone != "gslb.example.net" {
		t.Errorf("hosting zone %v", z)
	}
	if z := s.HostingZone("example.com"); z != nil {
		t.Errorf("hosting zone %v", z)
	}
	second := strings.ReplaceAll(strings.ReplaceAll(testZone, "main", "second"), "gslb", "steer")
	two := s.With(must(t, second)...)
	if got := two.CNAME(v); got != "" {
		t.Errorf("CNAME %q of two zones", got)
	}
	named := must(t, service(map[string]string{"dns": "{zone: steer.example.net}"}))[0]
	if got := two.With(named).CNAME(named.Service); got != "steer.example.net" && got != "shop.steer.example.net" {
		t.Errorf("CNAME %q", got)
	}
}

// TTLs of name servers and glue can be set, by default five minutes, and a zone's SOA has sound defaults.
func TestZoneDefaults(t *testing.T) {
	r := must(t, testZone)[0]
	e := r.Effective().Zone
	got := fmt.Sprint(e.NSTTL, e.SOA.MName, " ", e.SOA.RName, " ", e.SOA.Refresh, e.SOA.Retry, e.SOA.Expire, e.SOA.Minimum, e.Steering)
	if want := "5mns1.example.org hostmaster.gslb.example.net 1h 10m 336h 30s true"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if z := must(t, testZone+"nsTTL: 30s\n")[0].Zone; z.NSTTL.String() != "30s" {
		t.Errorf("nsTTL %v", z.NSTTL)
	}
}

// Sets are values: With and Without make new ones, in one order.
func TestSetEdits(t *testing.T) {
	a := set(t, testZone, service(nil))
	b := a.With(must(t, service(map[string]string{"name": "other", "domains": "[www.example.org]"}))...)
	c := b.Without("Service/shop")
	keys := func(s *Set) string {
		var out []string
		for _, r := range s.Resources() {
			out = append(out, r.Key())
		}
		return strings.Join(out, " ")
	}
	got := []string{keys(a), keys(b), keys(c)}
	want := []string{"Service/shop Zone/main", "Service/other Service/shop Zone/main", "Service/other Zone/main"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, ok := c.Get(KindService, "shop"); ok || c.Len() != 2 {
		t.Error("shop is still there")
	}
	if r, ok := b.Get(KindService, "other"); !ok || r.Service.Domains[0] != "www.example.org" {
		t.Errorf("%v %v", r, ok)
	}
}

// Fallbacks and targets that lead back are found over any number of services, and what only passes by is none.
//
// Covers: field 39
func TestLoops(t *testing.T) {
	chain := func(n int, last string) []string {
		texts := []string{testZone}
		for i := range n {
			to := fmt.Sprintf("d%d.example.com", i+1)
			if i == n-1 {
				to = last
			}
			texts = append(texts, service(map[string]string{
				"name": fmt.Sprintf("s%d", i), "domains": fmt.Sprintf("[d%d.example.com]", i),
				"rules": `[{name: default, scope: "*", mode: failover, edges: [a, b], whenAllDown: "fallback:` + to + `"}]`,
			}))
		}
		return texts
	}
	tests := []struct {
		name string
		set  *Set
		want int
	}{
		{"a chain that ends", set(t, chain(5, "static.example.org")...), 0},
		{"a ring of five", set(t, chain(5, "d0.example.com")...), 5},
		{"a ring over the service CNAME", set(t, chain(3, "s0.gslb.example.net")...), 3},
		{"a way into a ring is none itself", set(t, chain(4, "d1.example.com")...), 3},
		{"one by itself", set(t, chain(1, "d0.example.com")...), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			errs, _ := tt.set.Check(Complete)
			if len(errs) != tt.want {
				t.Fatalf("%d errors, want %d: %v", len(errs), tt.want, errs)
			}
			for _, e := range errs {
				if e.Code != CodeLoop {
					t.Error(e)
				}
			}
		})
	}
}

// A big set is checked in about the time its parts take: a chain of fallbacks over 5,000 services, each with a
// wildcard. Following it to its end from each of its links would be 12 million steps.
func TestCheckScales(t *testing.T) {
	docs := must(t, testZone)
	base := must(t, service(nil))[0]
	for i := range 5000 {
		v := *base.Service
		v.Name = fmt.Sprintf("s%d", i)
		v.Domains = []Domain{Domain(fmt.Sprintf("d%d.example.com", i)), Domain(fmt.Sprintf("*.w%d.example.com", i))}
		v.Rules = slices.Clone(v.Rules)
		v.Rules[0].WhenAllDown = AllDown{Policy: "fallback", Target: fmt.Sprintf("d%d.example.com", i+1)}
		docs = append(docs, Resource{Kind: KindService, Name: v.Name, Service: &v})
	}
	if errs, _ := NewSet(docs).Check(Complete); len(errs) > 0 {
		t.Error(errs[0])
	}
	last := docs[len(docs)-1].Service
	last.Rules[0].WhenAllDown.Target = "d0.example.com"
	errs, _ := NewSet(docs).Check(Complete)
	if len(errs) != maxErrors || errs[0].Code != CodeLoop {
		t.Errorf("%d errors of a ring", len(errs))
	}
}

// An override that names something real passes; one that does not is refused where it is written and only warned of
// where it is left behind.
func TestCheckOverride(t *testing.T) {
	s := set(t, testZone, service(map[string]string{
		"edges": "[{name: a, target: a.example.net}, {name: b, target: b.example.net}, {name: off, target: c.example.net, enabled: false}]",
	}))
	tests := []struct{ body, want string }{
		{"rule: shop/default\nforce: b", ""},
		{"rule: shop/default\nforce: off", "force"},
		{"rule: shop/default\nforce: nope", "force"},
		{"rule: shop/nope\nforce: a", "rule"},
		{"rule: nope/default\nforce: a", "rule"},
		{"drain: {edge: shop/off}", ""},
		{"drain: {edge: shop/nope}", "drain.edge"},
		{"drain: {point: anything}", ""},
		{"freeze: {service: shop}", ""},
		{"freeze: {service: nope}", "freeze.service"},
		{"freeze: {rule: shop/default}", ""},
		{"freeze: {rule: shop/nope}", "freeze.rule"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			r := must(t, "apiVersion: steerpoint/v1\nkind: Override\nname: x\nuntil: 2030-01-01T00:00:00Z\n"+tt.body+"\n")[0]
			got := ""
			if errs := s.CheckOverride(&r); len(errs) > 0 {
				got = errs[0].Path
			}
			if got != tt.want {
				t.Errorf("error at %q, want %q", got, tt.want)
			}
			errs, warns := s.With(r).Check(Complete)
			left := slices.Contains(warningCodes(warns), CodeNoEffect)
			if len(errs) > 0 || left != (tt.want != "") {
				t.Errorf("errors %v, warnings %v", errs, warns)
			}
		})
	}
}
