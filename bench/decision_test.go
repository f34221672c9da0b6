package bench

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"steerpoint/steering"
)

const interval = 30 * time.Second

// rule is a quality rule with the defaults of a Service: the mode that computes most.
func rule(name string, edges, points int) steering.RuleConfig {
	cfg := steering.RuleConfig{
		Service: "shop", Name: name, Scope: "*", Mode: steering.ModeQuality,
		Lock: time.Minute, Cooldown: 2 * time.Minute,
		Interval: interval, Timeout: 5 * time.Second, Fall: 3, Rise: 2,
	}
	for i := range edges {
		e := fmt.Sprintf("edge%d", i)
		cfg.Edges = append(cfg.Edges, e)
		cfg.ServiceEdges = append(cfg.ServiceEdges, steering.EdgeConfig{
			Name: e, Enabled: true, Weight: 50, Addresses: []string{fmt.Sprintf("192.0.2.%d", i+1)},
		})
	}
	for i := range points {
		cfg.Points = append(cfg.Points, fmt.Sprintf("point%d", i))
	}
	return cfg
}

// observations is one round: every point sees every edge up, each with its own latency.
func observations(cfg steering.RuleConfig) []steering.Observation {
	var round []steering.Observation
	for i, e := range cfg.ServiceEdges {
		for j, p := range cfg.Points {
			round = append(round, steering.Observation{
				Edge: e.Name, Address: e.Addresses[0], Point: p, OK: true,
				Latency: time.Duration(20+10*i+j) * time.Millisecond,
			})
		}
	}
	return round
}

// fill runs rounds of observations through a rule, spread over the interval, and returns the time after the last.
func fill(r *steering.Rule, round []steering.Observation, rounds int) steering.Instant {
	step := interval / time.Duration(len(round))
	var now steering.Instant
	for range rounds {
		for _, o := range round {
			now += step
			r.Observe(now, o)
		}
	}
	return now
}

// BenchmarkObservation is one observation taken in and evaluated, in a rule that has run for half an hour: three
// edges, three points, all well.
//
// Covers: issue2 speed evaluation
func BenchmarkObservation(b *testing.B) {
	cfg := rule("default", 3, 3)
	r := steering.NewRule(cfg)
	round := observations(cfg)
	now := fill(r, round, 60)
	step := interval / time.Duration(len(round))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		now += step
		r.Observe(now, round[i%len(round)])
		i++
	}
}

// BenchmarkFailingEdge is the same rule with one edge that fails at every point, so that votes, damping and the next
// possible change are worked out each time.
//
// Covers: issue2 speed evaluation
func BenchmarkFailingEdge(b *testing.B) {
	cfg := rule("default", 3, 3)
	r := steering.NewRule(cfg)
	round := observations(cfg)
	for i := range cfg.Points {
		round[i] = steering.Observation{Edge: round[i].Edge, Address: round[i].Address, Point: round[i].Point, Cause: "timeout"}
	}
	now := fill(r, round, 60)
	step := interval / time.Duration(len(round))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		now += step
		r.Observe(now, round[i%len(round)])
		i++
	}
}

// BenchmarkHundredThousandStates is the memory of 5,000 rules of four edges and five points after twelve minutes
// at the default interval: 100,000 (rule, edge, point) states with their ten minutes of history.
//
// Covers: issue2 speed memory
func BenchmarkHundredThousandStates(b *testing.B) {
	const rules, edges, points = 5000, 4, 5
	for b.Loop() {
		before := heap()
		all := make([]*steering.Rule, 0, rules)
		for i := range rules {
			cfg := rule(fmt.Sprintf("rule%d", i), edges, points)
			r := steering.NewRule(cfg)
			fill(r, observations(cfg), 24)
			all = append(all, r)
		}
		used := heap() - before
		b.ReportMetric(float64(used)/1e6, "MB")
		b.ReportMetric(float64(used)/(rules*edges*points), "B/state")
		runtime.KeepAlive(all)
	}
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the first one only queues what has a cleanup
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
