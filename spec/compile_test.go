package spec

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/steering"
)

var testPoints = []steering.Point{
	{Name: "bj", Labels: map[string]string{"country": "CN", "continent": "AS"}},
	{Name: "sh", Labels: map[string]string{"country": "CN", "continent": "AS", "isp": "chinatelecom"}},
	{Name: "fra", Labels: map[string]string{"country": "DE", "continent": "EU"}},
}

// Everything a rule says reaches the core.
//
// Covers: A3, A5, A6, B5, decisions 1, decisions 2, decisions 3
func TestRuleConfigs(t *testing.T) {
	s := must(t, service(map[string]string{
		"dns": "{ttl: 20s}",
		"edges": `
  - {name: a, addresses: [192.0.2.1, "2001:db8::1"], weight: 90}
  - {name: b, target: B.example.net., enabled: false}
  - {name: later, nodes: {region: east}}`,
		"rules": `
  - {name: default, scope: "*", mode: weighted, edges: [b, a], whenAllDown: first, probe: {enabled: false}}
  - name: cn
    scope: {country: CN}
    mode: quality
    edges: [a]
    whenAllDown: fallback:static.example.org
    lock: 0s
    cooldown: 90s
    dwell: 15s
    slowFactor: 2.125
    schedule: [{days: [mon, sun], from: "22:00", to: "24:00", tz: Asia/Shanghai, edges: [a]}]
    probe: {interval: 10s, timeout: 3s, fall: 2, rise: 1, minPoints: 1, points: {names: [fra]}}`,
	}))[0].Service
	got, warns := s.RuleConfigs(testPoints)
	if len(warns) > 0 {
		t.Error(warns)
	}
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	edges := []steering.EdgeConfig{
		{Name: "a", Enabled: true, Weight: 90, Addresses: []string{"192.0.2.1", "2001:db8::1"}},
		{Name: "b", Enabled: false, Weight: 50, Addresses: []string{"b.example.net"}},
	}
	want := []steering.RuleConfig{{
		Service: "shop", Name: "default", Scope: "*", Mode: steering.ModeWeighted, Edges: []string{"b", "a"}, ServiceEdges: edges,
		Lock: time.Minute, Cooldown: 2 * time.Minute, AllDown: steering.AllDownFirst,
		Interval: 30 * time.Second, Timeout: 5 * time.Second, Fall: 3, Rise: 2,
	}, {
		Service: "shop", Name: "cn", Scope: "country=CN", Mode: steering.ModeQuality, Edges: []string{"a"}, ServiceEdges: edges,
		Cooldown: 90 * time.Second, Dwell: 15 * time.Second, SlowMilli: 2125,
		AllDown: steering.AllDownFallback, Fallback: "static.example.org",
		Schedule: []steering.Window{{
			Days: [7]bool{0: true, 1: true}, From: 22 * time.Hour, To: 24 * time.Hour, Zone: shanghai, Edges: []string{"a"},
		}},
		Interval: 10 * time.Second, Timeout: 3 * time.Second, Fall: 2, Rise: 1, MinPoints: 1, Points: []string{"fra"},
	}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })); diff != "" {
		t.Error(diff)
	}
}

// Points are chosen near the scope, by labels or by names; fewer than asked is a warning, and the rule has those there are.
//
// Covers: A6, decisions 2
func TestRuleConfigsPoints(t *testing.T) {
	tests := []struct {
		name, points string
		want         int
		warn         bool
	}{
		{"default", "", 3, false},
		{"more than there are", "{count: 5}", 3, true},
		{"one", "{near: scope, count: 1}", 1, false},
		{"labels", "{labels: {country: CN}}", 2, false},
		{"labels of none", "{labels: {country: BR}}", 0, true},
		{"names", "{names: [fra, bj]}", 2, false},
		{"a name of none", "{names: [fra, nowhere]}", 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			probe := ""
			if tt.points != "" {
				probe = "probe: {points: " + tt.points + "}"
			}
			cfgs, warns := must(t, rule(probe))[0].Service.RuleConfigs(testPoints)
			if len(cfgs) != 1 || len(cfgs[0].Points) != tt.want || (len(warns) > 0) != tt.warn {
				t.Errorf("points %v, warnings %v", cfgs[0].Points, warns)
			}
			for _, w := range warns {
				if w.Code != CodePoints || w.Path != "rules[0].probe.points" || w.Name != "shop" {
					t.Errorf("warning %v", w)
				}
			}
		})
	}
}
