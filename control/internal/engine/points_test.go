package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/report"
	"steerpoint/steering"
)

// near makes every rule of a text choose its points near its scope.
func near(text, points string) string {
	return strings.ReplaceAll(text, "timeout: 2s}", "timeout: 2s, points: "+points+"}")
}

func points(names string, silent ...string) []steering.Point {
	var out []steering.Point
	for n := range strings.FieldsSeq(names) {
		name, country, _ := strings.Cut(n, "=")
		p := steering.Point{Name: name, Silent: slices.Contains(silent, name)}
		if country != "" {
			p.Labels = map[string]string{"country": country}
		}
		out = append(out, p)
	}
	return out
}

func after(d time.Duration) steering.Instant { return start + d }

// give is one result of every task of an address at a point.
func (e *Engine) give(t testing.TB, at steering.Instant, point, address string, ok bool) []Outcome {
	t.Helper()
	o := report.Observation{Task: task(t, e, point, address), Point: point, OK: ok, Latency: 10 * time.Millisecond}
	if !ok {
		o.Cause = report.CauseTimeout
	}
	return e.Observe(at, &o)
}

func (e *Engine) votesOf(t testing.TB, at steering.Instant, rule, edge string) map[string]steering.Vote {
	t.Helper()
	v, _ := e.View(at, rule)
	out := map[string]steering.Vote{}
	for _, x := range v.Edges {
		if x.Edge == edge {
			for _, vote := range x.Addresses[0].Votes {
				out[vote.Point] = vote
			}
		}
	}
	return out
}

// TestPointsComeAndGo proves that a rule whose points change keeps what the points that stay have seen, that a new one
// starts unknown, that one that is gone has no tasks and no vote, and that the change by itself moves nothing.
// Covers: A6, decisions 2, issue3 dynamic points
func TestPointsComeAndGo(t *testing.T) {
	text := near(service("shop", 1, "[east, west]"), "{near: scope, count: 3}")
	e := New(points("a b"))
	e.Configure(start, wall, set(t, zone, text), nil)
	for _, p := range []string{"a", "b"} {
		e.give(t, after(time.Second), p, "192.0.2.1", true)
		e.give(t, after(2*time.Second), p, "192.0.2.1", false)
		e.give(t, after(3*time.Second), p, "192.0.2.1", false)
	}
	before := e.decision(t, "shop/default")
	versions := map[string]uint64{"a": e.Probe("a").Version, "b": e.Probe("b").Version}
	out := e.SetPoints(after(4*time.Second), points("a b c"))
	for _, o := range out {
		for _, ev := range o.Events {
			t.Errorf("a new point alone causes %+v", ev)
		}
	}
	votes := e.votesOf(t, after(4*time.Second), "shop/default", "east")
	if len(votes) != 3 || votes["a"].Fails != 2 || votes["b"].Fails != 2 || votes["a"].State != steering.Up || votes["c"].State != steering.Unknown {
		t.Fatalf("votes after c came: %+v", votes)
	}
	if d := e.decision(t, "shop/default"); d.Seq != before.Seq || d.Edge != before.Edge {
		t.Errorf("the decision moved: %+v", d)
	}
	for p, v := range versions {
		if e.Probe(p).Version != v {
			t.Errorf("tasks of %s have another version although nothing in them changed", p)
		}
	}
	if e.Probe("c") == nil || len(e.Probe("c").Tasks) != 3 {
		t.Errorf("c has tasks %+v", e.Probe("c"))
	}
	gone := task(t, e, "b", "192.0.2.1")
	e.SetPoints(after(5*time.Second), points("a c"))
	if e.Probe("b") != nil || e.Has("b", gone) != 0 {
		t.Error("b is gone and still has tasks")
	}
	if votes := e.votesOf(t, after(5*time.Second), "shop/default", "east"); len(votes) != 2 || votes["a"].Fails != 2 {
		t.Errorf("votes after b went: %+v", votes)
	}
	if a := e.Admit(after(6*time.Second), &report.Observation{Task: gone, Point: "b"}); a != NoTask {
		t.Errorf("an observation of b: %v", a)
	}
}

// TestSilentPointIsReplaced proves that the next best point takes the place of one that is silent, that the rule says
// so, and that the silent one has its place back when it speaks.
// Covers: decisions 2, issue3 silent points
func TestSilentPointIsReplaced(t *testing.T) {
	text := near(service("shop", 1, "[east, west]"), "{near: scope, count: 2}")
	text += "  - {name: de, scope: {country: [DE]}, mode: failover, edges: [east, west], " +
		"probe: {url: \"http://shop.example.com/\", interval: 10s, timeout: 2s, points: {near: scope, count: 2}}}\n"
	e := New(points("fra=DE ber=DE par=FR tyo=JP"))
	e.Configure(start, wall, set(t, zone, text), nil)
	of := func() ([]string, string) {
		v, _ := e.View(start, "shop/de")
		return slices.Sorted(slices.Values(v.Config.Points)), v.Warning
	}
	if got, warning := of(); !slices.Equal(got, []string{"ber", "fra"}) || warning != "" {
		t.Fatalf("points %v, warning %q", got, warning)
	}
	e.give(t, after(time.Second), "ber", "192.0.2.1", true)
	e.SetPoints(after(2*time.Second), points("fra=DE ber=DE par=FR tyo=JP", "fra"))
	got, warning := of()
	if !slices.Equal(got, []string{"ber", "par"}) || !strings.Contains(warning, "fra") || !strings.Contains(warning, "par") {
		t.Errorf("fra is silent: points %v, warning %q", got, warning)
	}
	if !slices.ContainsFunc(e.Warnings(), func(w Warning) bool { return w.Rule == "shop/de" && w.Code == "POINT_SILENT" }) {
		t.Errorf("warnings %+v", e.Warnings())
	}
	if votes := e.votesOf(t, after(2*time.Second), "shop/de", "east"); votes["ber"].State != steering.Up {
		t.Errorf("ber stayed and lost what it knew: %+v", votes)
	}
	e.SetPoints(after(3*time.Second), points("fra=DE ber=DE par=FR tyo=JP"))
	if got, warning := of(); !slices.Equal(got, []string{"ber", "fra"}) || warning != "" {
		t.Errorf("fra speaks again: points %v, warning %q", got, warning)
	}
}

// TestOvertakenObservations proves that a result much older than the newest one of its task is no vote, that the way
// between two machines makes no difference, and that this outlives a change of configuration.
// Covers: issue3 spool
func TestOvertakenObservations(t *testing.T) {
	s := set(t, zone, service("shop", 1, "[east, west]"))
	e := New(points("a"))
	e.Configure(start, wall, s, nil)
	o := report.Observation{Task: task(t, e, "a", "192.0.2.1"), Point: "a", OK: true}
	other := report.Observation{Task: task(t, e, "a", "192.0.2.2"), Point: "a", OK: true}
	for _, c := range []struct {
		at   time.Duration
		o    *report.Observation
		want Admission
	}{
		{60 * time.Second, &o, Admitted},
		{58 * time.Second, &o, Admitted}, // jitter of the way
		{54 * time.Second, &o, OutOfOrder},
		{54 * time.Second, &other, Admitted},
		{61 * time.Second, &report.Observation{Task: "none", Point: "a"}, NoTask},
		{61 * time.Second, &report.Observation{Task: o.Task, Point: "b"}, NoTask},
	} {
		if got := e.Admit(after(c.at), c.o); got != c.want {
			t.Errorf("at %v: %v, want %v", c.at, got, c.want)
		}
	}
	e.Configure(after(62*time.Second), wall, set(t, zone, service("shop", 2, "[east, west]")), nil)
	if got := e.Admit(after(54*time.Second), &o); got != OutOfOrder {
		t.Errorf("after a change of configuration: %v", got)
	}
}

// TestDrainedNodeIsNoPoint proves that a drained node has no tasks and no vote, and that a drain of its votes alone is
// not one of the node.
// Covers: issue3 drain
func TestDrainedNodeIsNoPoint(t *testing.T) {
	s := set(t, zone, near(service("shop", 1, "[east, west]"), "{near: scope, count: 2}"))
	e := New(points("a b c"))
	e.Configure(start, wall, s, []Override{{Name: "n", Kind: Drain, Point: "a", Node: true}, {Name: "p", Kind: Drain, Point: "b"}})
	if !e.NodeDrained(start, "a") || e.NodeDrained(start, "b") {
		t.Error("a is a drained node, b a drained point")
	}
	if len(e.Probe("a").Tasks)+len(e.Probe("b").Tasks) != 0 || len(e.Probe("c").Tasks) == 0 {
		t.Error("only c probes")
	}
	if v, _ := e.View(start, "shop/default"); !slices.Equal(v.Config.Points, []string{"c"}) {
		t.Errorf("points %v", v.Config.Points)
	}
}

// TestProbeVersionsGoOn proves that a snapshot of a later process never has a number of an earlier one.
// Covers: issue3 resume
func TestProbeVersionsGoOn(t *testing.T) {
	s := set(t, zone, service("shop", 1, "[east, west]"))
	e := New(points("a"))
	e.StartVersions(1000 << 20)
	e.Configure(start, wall, s, nil)
	if v := e.Probe("a").Version; v <= 1000<<20 {
		t.Errorf("version %d", v)
	}
}
