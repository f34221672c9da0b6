package control

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/report"
	"steerpoint/spec"
	"steerpoint/steering"
)

// kept is a recorder and reader of series in the test's hands.
type kept struct {
	mu       sync.Mutex
	measured []report.Measurement
	answers  []report.Answer
	asked    []report.SeriesQuery
	err      error
}

func (k *kept) Measured(m report.Measurement) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.measured = append(k.measured, m)
}

func (k *kept) Answered(a report.Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers = append(k.answers, a)
}

func (k *kept) Query(_ context.Context, q report.SeriesQuery) ([]report.Series, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = append(k.asked, q)
	if q.Service == "none" || q.Rule == "none" || q.Edge == "none" {
		return nil, k.err
	}
	return []report.Series{
		{Rule: "default", Total: report.Figures{Probes: 2.5, OK: 1.5, Mean: 20 * time.Millisecond, P95: 30 * time.Millisecond}, Points: []report.SeriesPoint{
			{Start: q.From, Figures: report.Figures{Probes: 2, OK: 0}},
		}},
		{Rule: "default", Edge: "east", Points: []report.SeriesPoint{}},
	}, k.err
}

func (k *kept) Day(_, rule, edge string) (report.Figures, bool) {
	return report.Figures{Probes: 4, OK: 3, Mean: 12 * time.Millisecond}, rule == "default" && edge != "south"
}

// newest is what a rule answered last, as "edge address weight" of each target.
func (k *kept) newest(rule string) (list []string, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.answers {
		if a := &k.answers[i]; a.Service == "shop" && a.Rule == rule {
			list, at = []string{}, a.At
			for _, t := range a.Targets {
				list = append(list, fmt.Sprintf("%s %s %v", t.Edge, t.Address, t.Weight))
			}
		}
	}
	return list, at
}

func withSeries(k *kept) func(*Config, *Deps) {
	return func(_ *Config, d *Deps) { d.Record, d.Series = k, k }
}

// TestSeriesAreTold follows observations and a switch: each counts for every rule that uses it, at the time it was made,
// and what a rule answers is told at the decision, also anew after a restart.
// Covers: A12, B8, issue4 series
func TestSeriesAreTold(t *testing.T) {
	t.Parallel()
	k := &kept{}
	dir := t.TempDir()
	r := start(t, dir, nil, withSeries(k))
	r.apply(zoneYAML, shopYAML)
	r.pass(time.Second)
	r.see("192.0.2.2", true)
	k.mu.Lock()
	rules := []string{}
	for _, m := range k.measured {
		if m.Service != "shop" || m.Edge != "west" || m.Address != "192.0.2.2" || !m.OK || m.Latency != 20*time.Millisecond || !m.At.Equal(r.Wall()) {
			t.Errorf("measured: %+v at %v", m, r.Wall())
		}
		rules = append(rules, m.Rule)
	}
	k.mu.Unlock()
	if slices.Sort(rules); !slices.Equal(rules, []string{"default", "fixed"}) {
		t.Errorf("one observation counts for %v", rules)
	}
	if got, _ := k.newest("default"); !slices.Equal(got, []string{"east 192.0.2.1 1"}) {
		t.Errorf("answered at first: %v", got)
	}
	r.all()
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	got, at := k.newest("default")
	if !slices.Equal(got, []string{"west 192.0.2.2 1"}) || !at.Equal(r.rule("shop", "default").Since) {
		t.Errorf("answered after the switch at %v: %v, status says %v", at, got, r.rule("shop", "default").Since)
	}
	// An observation that waited has the time at which it was made.
	_, probe, _ := r.out.latest()
	k.mu.Lock()
	before := len(k.measured)
	k.mu.Unlock()
	r.ObserveLocal(report.Observation{Task: probe.Tasks[0].ID, Point: "local", OK: true, Age: 30 * time.Second})
	r.ObserveLocal(report.Observation{Task: probe.Tasks[0].ID, Point: "local", Cause: report.CauseLocal, Detail: "no sockets"})
	r.settle()
	k.mu.Lock()
	for _, m := range k.measured[before:] {
		if !m.OK || !m.At.Equal(r.Wall().Add(-30*time.Second)) {
			t.Errorf("of half a minute ago: %+v", m)
		}
	}
	k.answers = nil
	k.mu.Unlock()
	r.stop()
	again := start(t, dir, r.clocks, withSeries(k))
	if got, _ := k.newest("default"); !slices.Equal(got, []string{"west 192.0.2.2 1"}) {
		t.Errorf("answered after a restart: %v", got)
	}
	if err := again.client.Delete(t.Context(), "Service", "shop", 0); err != nil {
		t.Fatal(err)
	}
	if got, _ := k.newest("default"); len(got) != 0 {
		t.Errorf("a rule that is gone answers %v", got)
	}
}

// TestWeightsAreTold changes nothing but the weights of edges that share visitors: series go by the new ones at once, without
// an observation or a verdict.
// Covers: A12, issue4 series
func TestWeightsAreTold(t *testing.T) {
	t.Parallel()
	k := &kept{}
	r := start(t, t.TempDir(), nil, withSeries(k))
	weighted := strings.Replace(shopYAML, "mode: failover\n    edges: [east, west, south]", "mode: weighted\n    edges: [east, west]", 1)
	r.apply(zoneYAML, weighted)
	if got, _ := k.newest("default"); !slices.Equal(got, []string{"east 192.0.2.1 0.5", "west 192.0.2.2 0.5"}) {
		t.Fatalf("answered at first: %v", got)
	}
	r.pass(time.Second)
	r.apply(zoneYAML, strings.Replace(weighted, "addresses: [192.0.2.1]", "addresses: [192.0.2.1], weight: 150", 1))
	got, at := k.newest("default")
	if !slices.Equal(got, []string{"east 192.0.2.1 0.75", "west 192.0.2.2 0.25"}) || !at.Equal(r.Wall()) {
		t.Errorf("answered with other weights at %v: %v, now %v", at, got, r.Wall())
	}
}

// TestAnswerTargets holds what visitors are sent to against what the map would answer: addresses that are down are left
// out unless all are, a fixed rule heeds no probe, edges that share count by weight and as one together, and a fallback has
// no targets.
// Covers: A12, issue4 series
func TestAnswerTargets(t *testing.T) {
	docs, errs := spec.Parse("shop", []byte(shopYAML))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	set := spec.NewSet(docs)
	s := set.Services()[0]
	s.Edge("west").Weight = 150
	status := func(edge string, verdicts ...steering.Verdict) steering.EdgeStatus {
		e := steering.EdgeStatus{Edge: edge}
		for i, v := range verdicts {
			e.Addresses = append(e.Addresses, steering.AddressStatus{Address: fmt.Sprint(edge, i+1), Verdict: v})
		}
		return e
	}
	edges := []steering.EdgeStatus{
		status("east", steering.Up), status("west", steering.Unknown), status("south", steering.Down, steering.Up),
	}
	dead := []steering.EdgeStatus{status("east", steering.Down), status("west", steering.Down), status("south", steering.Down, steering.Down)}
	for _, tt := range []struct {
		rule  string
		d     steering.Decision
		edges []steering.EdgeStatus
		want  string
	}{
		{"default", steering.Decision{Edge: "east"}, edges, "[{east east1 1}]"},
		{"default", steering.Decision{Edge: "south"}, edges, "[{south south2 1}]"},
		{"fixed", steering.Decision{Edge: "south"}, edges, "[{south south1 0.5} {south south2 0.5}]"},
		{"default", steering.Decision{Edge: "south"}, dead, "[{south south1 0.5} {south south2 0.5}]"},
		{"default", steering.Decision{Edge: "east,west", Set: []string{"east", "west"}}, edges, "[{east east1 0.25} {west west1 0.75}]"},
		{"default", steering.Decision{Edge: "fallback:192.0.2.9"}, edges, "[]"},
		{"default", steering.Decision{}, edges, "[]"},
		{"default", steering.Decision{Edge: "west", AllDown: steering.AllDownAll, List: []string{"east", "west"}}, dead, "[{east east1 0.5} {west west1 0.5}]"},
		{"default", steering.Decision{Edge: "west", AllDown: steering.AllDownFirst, List: []string{"east", "west"}}, dead, "[{east east1 1}]"},
		{"default", steering.Decision{Edge: "west", AllDown: steering.AllDownEmpty, List: []string{"east"}}, dead, "[{east east1 1}]"},
	} {
		if got := fmt.Sprint(answerTargets(s, s.Rule(tt.rule), &tt.d, tt.edges)); got != tt.want {
			t.Errorf("%s %+v: %s, want %s", tt.rule, tt.d, got, tt.want)
		}
	}
}

// wideService is a service of so many rules, each with so many edges.
func wideService(rules, edges int) string {
	var b, names strings.Builder
	b.WriteString("apiVersion: steerpoint/v1\nkind: Service\nname: wide\ndomains: [wide.example.com]\nedges:\n")
	for i := range edges {
		fmt.Fprintf(&b, "  - {name: e%d, addresses: [192.0.2.%d]}\n", i, 100+i)
		fmt.Fprintf(&names, "e%d, ", i)
	}
	b.WriteString("rules:\n")
	scope := `"*"`
	for i := range rules {
		fmt.Fprintf(&b, "  - {name: r%d, scope: %s, mode: failover, edges: [%s]}\n", i, scope, strings.TrimSuffix(names.String(), ", "))
		scope = fmt.Sprintf("{cidr: [203.0.%d.0/24]}", i)
	}
	return b.String()
}

// TestSeriesAPI asks for windows of all lengths, for too much, and for what is not there, and finds the figures of a day in
// status.
// Covers: A12, issue4 series, issue2 bad input
func TestSeriesAPI(t *testing.T) {
	t.Parallel()
	k := &kept{}
	r := start(t, t.TempDir(), nil, withSeries(k))
	r.apply(zoneYAML, shopYAML)
	now := r.Wall().Truncate(10 * time.Second)
	for window, step := range map[time.Duration]time.Duration{
		time.Minute: 10 * time.Second, 2 * time.Hour: 10 * time.Second, 24 * time.Hour: 2 * time.Minute, 7 * 24 * time.Hour: 15 * time.Minute,
		30 * 24 * time.Hour: time.Hour, 90 * 24 * time.Hour: 3 * time.Hour,
	} {
		a, err := r.client.Series(t.Context(), "shop", api.SeriesParams{From: api.TimeParam(now.Add(-window))})
		if err != nil {
			t.Fatal(err)
		}
		if a.StepSeconds != step.Seconds() || window/step > 1000 || !a.From.Equal(now.Add(-window)) || !a.To.Equal(now) {
			t.Errorf("%v: step %v s from %v to %v, want %v", window, a.StepSeconds, a.From, a.To, step)
		}
	}
	a, err := r.client.Series(t.Context(), "shop", api.SeriesParams{Rule: "default", Metric: "steered", Step: "11s", From: api.TimeParam(now.Add(-time.Hour)), To: api.TimeParam(now.Add(-time.Minute))})
	if err != nil {
		t.Fatal(err)
	}
	want := report.SeriesQuery{Service: "shop", Rule: "default", From: now.Add(-time.Hour), To: now.Add(-time.Minute), Step: 20 * time.Second, Steered: true, Latency: true}
	k.mu.Lock()
	got := k.asked[len(k.asked)-1]
	k.mu.Unlock()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("asked %+v, want %+v", got, want)
	}
	total, point := a.Series[0].SeriesFigures, a.Series[0].Points[0].SeriesFigures
	if !a.Series[0].Steered || *total.Availability != 0.6 || *total.LatencyMs != 20 || *total.P95Ms != 30 || *point.Availability != 0 || point.LatencyMs != nil || point.P95Ms != nil {
		t.Errorf("figures %+v, point %+v", total, point)
	}
	at := func(ago time.Duration) string { return api.TimeParam(now.Add(-ago)) }
	r.apply(zoneYAML, shopYAML, wideService(15, 20))
	k.mu.Lock()
	asked := len(k.asked)
	k.mu.Unlock()
	for _, q := range []struct {
		service string
		params  api.SeriesParams
		code    string
	}{
		{"", api.SeriesParams{}, api.CodeBadRequest},
		{"none", api.SeriesParams{}, api.CodeNotFound},
		{"shop", api.SeriesParams{Rule: "none"}, api.CodeNotFound},
		{"shop", api.SeriesParams{Edge: "none"}, api.CodeNotFound},
		{"shop", api.SeriesParams{Metric: "speed"}, api.CodeBadRequest},
		{"shop", api.SeriesParams{Metric: "steered", Edge: "east"}, api.CodeBadRequest},
		{"shop", api.SeriesParams{From: at(-time.Minute)}, api.CodeBadRequest},
		{"shop", api.SeriesParams{From: at(time.Hour), To: at(-time.Hour)}, api.CodeBadRequest},
		{"shop", api.SeriesParams{From: at(200 * 24 * time.Hour)}, api.CodeBadRequest},
		{"shop", api.SeriesParams{From: at(30 * 24 * time.Hour), Step: "10s"}, api.CodeBadRequest},
		{"shop", api.SeriesParams{Step: "long"}, api.CodeBadRequest},
		{"wide", api.SeriesParams{From: at(2 * time.Hour), Step: "10s"}, api.CodeBadRequest},
	} {
		if _, err := r.client.Series(t.Context(), q.service, q.params); api.CodeOf(err) != q.code {
			t.Errorf("%+v: %v, want %s", q, err, q.code)
		}
	}
	k.mu.Lock()
	for _, q := range k.asked[asked:] {
		if q.Service == "wide" {
			t.Errorf("read though it is too much: %+v", q)
		}
	}
	k.mu.Unlock()
	// Without a step a longer one is chosen; one rule alone has room for the shortest.
	for rule, step := range map[string]float64{"": 20, "r3": 10} {
		if a, err := r.client.Series(t.Context(), "wide", api.SeriesParams{Rule: rule, From: at(2 * time.Hour)}); err != nil || a.StepSeconds != step {
			t.Errorf("wide, rule %q: step %v, %v; want %v", rule, a.StepSeconds, err, step)
		}
	}
	k.mu.Lock()
	k.err = errors.New("the disk is away")
	k.mu.Unlock()
	_, err = r.client.Series(t.Context(), "shop", api.SeriesParams{})
	if p := wantCode(t, "no disk", err, 503, api.CodeNoSeries); !strings.Contains(p.Detail, "the disk is away") {
		t.Errorf("detail: %s", p.Detail)
	}
	st := r.rule("shop", "default")
	if st.Availability24h == nil || *st.Availability24h != 0.75 || *st.Latency24hMs != 12 {
		t.Errorf("status of the rule: %+v", st)
	}
	for _, e := range st.Edges {
		if (e.Availability24h != nil) != (e.Edge != "south") {
			t.Errorf("status of edge %s: %v", e.Edge, e.Availability24h)
		}
	}
	r.SeriesTrouble(errors.New("full"))
	r.SeriesLost("series/x", "a block")
	if !r.alarmed(api.AlarmSeries) || !r.alarmed(api.AlarmSeriesLost) {
		t.Error("no alarm")
	}
	if r.SeriesTrouble(nil); r.alarmed(api.AlarmSeries) {
		t.Error("the alarm stays")
	}
}
