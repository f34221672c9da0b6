package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"steerpoint/report"
	"steerpoint/spec"
	"steerpoint/steering"
)

const zone = `apiVersion: steerpoint/v1
kind: Zone
name: gslb
zone: gslb.example.net
steering: true
ns: [{name: ns1.gslb.example.net, addresses: [192.0.2.53]}]
soa: {mname: ns1.gslb.example.net, rname: hostmaster.gslb.example.net}
`

// service makes a service with n rules over two edges of one address each.
func service(name string, n int, edges string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `---
apiVersion: steerpoint/v1
kind: Service
name: %s
domains: [%s.example.com]
edges:
  - {name: east, addresses: [192.0.2.1]}
  - {name: west, addresses: [192.0.2.2, 192.0.2.3]}
rules:
  - {name: default, scope: "*", mode: failover, edges: %s, probe: {url: "http://shop.example.com/", interval: 10s, timeout: 2s}}
`, name, name, edges)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  - {name: r%d, scope: {cidr: [10.0.%d.0/24]}, mode: failover, edges: %s, probe: {url: \"http://shop.example.com/\", interval: 10s, timeout: 2s}}\n", i, i, edges)
	}
	return b.String()
}

func set(t testing.TB, texts ...string) *spec.Set {
	t.Helper()
	var docs []spec.Resource
	for _, text := range texts {
		d, errs := spec.Parse("test", []byte(text))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		docs = append(docs, d...)
	}
	s := spec.NewSet(docs)
	if errs, _ := s.Check(spec.Complete); len(errs) > 0 {
		t.Fatal(errs)
	}
	return s
}

const start = steering.Instant(time.Hour)

var wall = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func engineOf(t testing.TB, s *spec.Set, points ...string) *Engine {
	t.Helper()
	if len(points) == 0 {
		points = []string{"local"}
	}
	var all []steering.Point
	for _, p := range points {
		all = append(all, steering.Point{Name: p})
	}
	e := New(all)
	e.Configure(start, wall, s, nil)
	return e
}

// task finds the probe task of an address.
func task(t testing.TB, e *Engine, point, address string) string {
	t.Helper()
	for _, x := range e.Probe(point).Tasks {
		if x.Address == address {
			return x.ID
		}
	}
	t.Fatalf("no task for %s", address)
	return ""
}

func (e *Engine) decision(t testing.TB, rule string) steering.Decision {
	t.Helper()
	v, ok := e.View(start, rule)
	if !ok {
		t.Fatalf("no rule %s", rule)
	}
	return v.Decision
}

// TestOneTaskManyRules proves that an address is one task however many rules use it, that one result acts on all of
// them, and that the task goes with the last rule.
// Covers: field 13, field 14, field 15, field 22
func TestOneTaskManyRules(t *testing.T) {
	two := set(t, zone, service("shop", 20, "[east, west]"), strings.Replace(service("other", 20, "[east, west]"), "other.example.com", "o.example.com", 1))
	e := engineOf(t, two)
	if n := len(e.Probe("local").Tasks); n != 3 {
		t.Fatalf("%d tasks for 3 addresses in 40 rules", n)
	}
	id := task(t, e, "local", "192.0.2.1")
	if n := e.Has("local", id); n != 40 {
		t.Errorf("the task has %d uses, want 40", n)
	}
	west := task(t, e, "local", "192.0.2.2")
	e.Observe(start+1, &report.Observation{Task: west, Point: "local", OK: true, Latency: time.Millisecond})
	var out []Outcome
	for i := range 3 {
		at := start + steering.Instant(i+1)*steering.Instant(time.Second)
		out = e.Observe(at, &report.Observation{Task: id, Point: "local", Cause: report.CauseRefused})
		e.Observe(at, &report.Observation{Task: west, Point: "local", OK: true, Latency: time.Millisecond})
	}
	if len(out) != 40 {
		t.Errorf("the third failure changed %d rules, want 40", len(out))
	}
	e.Configure(start+steering.Instant(10*time.Second), wall, set(t, zone), nil)
	if n := len(e.Probe("local").Tasks); n != 0 || e.Len() != 0 || e.Next() != 0 {
		t.Errorf("after the services are gone: %d tasks, %d rules, next %v", n, e.Len(), e.Next())
	}
}

// TestNoVotes proves that results of a point that cannot probe, of a drained point and of unknown tasks move nothing.
func TestNoVotes(t *testing.T) {
	s := set(t, zone, service("shop", 1, "[east, west]"))
	e := engineOf(t, s, "a", "b")
	id := task(t, e, "a", "192.0.2.1")
	fail := func(point, task string, cause report.Cause) {
		for i := range 5 {
			at := start + steering.Instant(i+1)*steering.Instant(time.Second)
			if out := e.Observe(at, &report.Observation{Task: task, Point: point, Cause: cause}); len(out) > 0 && out[0].State != nil {
				t.Errorf("%s %s %s: %+v", point, task, cause, out)
			}
		}
	}
	fail("a", id, report.CauseLocal)
	fail("a", "no such task", report.CauseTimeout)
	fail("no such point", id, report.CauseTimeout)
	e.Configure(start+steering.Instant(10*time.Second), wall, s, []Override{{Name: "d", Kind: Drain, Point: "a"}})
	if e.Has("a", id) != 0 || e.Has("b", id) != 1 {
		t.Errorf("uses after draining a: a %d, b %d", e.Has("a", id), e.Has("b", id))
	}
	if _, drained := e.DrainUntil(start, "", "a"); !drained {
		t.Error("the drain does not show")
	}
}

// TestDrains proves that a drained edge is out of its rules until the drain ends by itself, and that a rule keeps an
// edge when all of its edges are drained.
func TestDrains(t *testing.T) {
	s := set(t, zone, service("shop", 1, "[east, west]"))
	e := engineOf(t, s)
	until := start + steering.Instant(time.Minute)
	drains := []Override{{Name: "d", Kind: Drain, Service: "shop", Edge: "east", Until: until}}
	e.Configure(start+1, wall, s, drains)
	if d := e.decision(t, "shop/default"); d.Edge != "west" || d.Cause != steering.CauseConfig {
		t.Errorf("drained: %+v", d)
	}
	if next := e.Next(); next == 0 || next > until {
		t.Errorf("next %v is after the end of the drain %v", next, until)
	}
	e.Advance(until - 1)
	if !e.Active(until-1, "d") || e.Active(until, "d") {
		t.Error("the drain does not end when it should")
	}
	e.Advance(until)
	v, _ := e.View(until, "shop/default")
	if len(v.Edges) != 2 {
		t.Errorf("after the drain %d edges take part", len(v.Edges))
	}
	e.Configure(until+1, wall, s, []Override{
		{Name: "d", Kind: Drain, Service: "shop", Edge: "east"}, {Name: "f", Kind: Drain, Service: "shop", Edge: "west"},
	})
	if v, _ := e.View(until+1, "shop/default"); len(v.Edges) != 2 || v.Warning == "" || len(e.Warnings()) == 0 {
		t.Errorf("all drained: %d edges, warning %q", len(v.Edges), v.Warning)
	}
}

// TestAddressChangesAreRecorded proves that an address that goes down without its edge is an outcome: answers leave it
// out and the record keeps it.
func TestAddressChangesAreRecorded(t *testing.T) {
	e := engineOf(t, set(t, zone, service("shop", 1, "[east, west]")))
	bad, good := task(t, e, "local", "192.0.2.2"), task(t, e, "local", "192.0.2.3")
	var out []Outcome
	for i := range 3 {
		at := start + steering.Instant(i+1)*steering.Instant(time.Second)
		e.Observe(at, &report.Observation{Task: good, Point: "local", OK: true, Latency: time.Millisecond})
		out = e.Observe(at, &report.Observation{Task: bad, Point: "local", Cause: report.CauseTimeout})
	}
	if len(out) != 1 || out[0].State == nil {
		t.Fatalf("outcome %+v", out)
	}
	for _, edge := range out[0].Edges {
		for _, a := range edge.Addresses {
			if a.Address == "192.0.2.2" && a.Verdict != steering.Down {
				t.Errorf("address %+v", a)
			}
		}
	}
}

// TestSimulationIsWhatHappens proves over random configurations, results and overrides that Simulate says exactly what
// Configure then does, and changes nothing itself.
func TestSimulationIsWhatHappens(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	orders := []string{"[east, west]", "[west, east]", "[east]", "[west]"}
	for range 300 {
		s := set(t, zone, service("shop", 2, orders[rnd.IntN(4)]))
		e := engineOf(t, s)
		at := start
		for range rnd.IntN(12) {
			at += steering.Instant(rnd.IntN(15)) * steering.Instant(time.Second)
			tasks := e.Probe("local").Tasks
			e.Observe(at, &report.Observation{Task: tasks[rnd.IntN(len(tasks))].ID, Point: "local", OK: rnd.IntN(3) > 0, Latency: time.Millisecond})
		}
		e.Advance(at)
		next := set(t, zone, service("shop", 1+rnd.IntN(3), orders[rnd.IntN(4)]))
		var over []Override
		if rnd.IntN(2) == 0 {
			over = append(over, Override{Name: "f", Kind: Force, Service: "shop", Rule: "default", Edge: "west", Order: 1})
		}
		if rnd.IntN(3) == 0 {
			over = append(over, Override{Name: "d", Kind: Drain, Service: "shop", Edge: "east"})
		}
		before := map[string]string{}
		for key, r := range e.rules {
			before[key] = r.answer(at)
		}
		said, _ := e.Simulate(at, wall, next, over)
		for key, r := range e.rules {
			if r.answer(at) != before[key] {
				t.Fatalf("Simulate changed %s", key)
			}
		}
		e.Configure(at, wall, next, over)
		want := map[string]string{}
		for _, a := range said {
			want[a.Service+"/"+a.Rule] = a.To
		}
		for key, r := range e.rules {
			now := r.answer(at)
			if to, differs := want[key]; (differs && to != now) || (!differs && before[key] != now) {
				t.Fatalf("%s: was %q, is %q, the plan said %q (%v)", key, before[key], now, to, differs)
			}
		}
	}
}

// TestSimulationNamesTheListInForce proves that a plan says what is answered while every edge is down by the edges that
// the schedule has put in place, not by those of the rule.
func TestSimulationNamesTheListInForce(t *testing.T) {
	text := strings.Replace(service("shop", 1, "[east, west]"), "mode: failover", `mode: failover, schedule: [{from: "00:00", to: "12:00", edges: [west]}]`, 1)
	e := engineOf(t, set(t, zone, text))
	at := start
	for range 4 {
		at += 10 * steering.Instant(time.Second)
		for _, address := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
			e.Observe(at, &report.Observation{Task: task(t, e, "local", address), Point: "local", Cause: report.CauseTimeout})
		}
	}
	for policy, want := range map[string]string{"all": "west (192.0.2.2, 192.0.2.3)", "first": "west (192.0.2.2, 192.0.2.3)", "empty": "nothing"} {
		next := set(t, zone, strings.Replace(text, "mode: failover", "mode: failover, whenAllDown: "+policy, 1))
		out, _ := e.Simulate(at, wall, next, nil)
		e.Configure(at, wall, next, nil)
		if now := e.rules["shop/default"].answer(at); now != want {
			t.Errorf("whenAllDown %s answers %q, want %q", policy, now, want)
		}
		if policy == "empty" && (len(out) != 1 || out[0].To != want) {
			t.Errorf("whenAllDown %s: %+v", policy, out)
		}
	}
}

// TestRestore proves that saved states go on, that a force goes on with its end, and that a state that cannot be used
// is named and starts anew.
func TestRestore(t *testing.T) {
	s := set(t, zone, service("shop", 1, "[east, west]"))
	until := start + steering.Instant(time.Hour)
	force := []Override{{Name: "f", Kind: Force, Service: "shop", Rule: "default", Edge: "west", Until: until}}
	e := engineOf(t, s)
	e.Configure(start+1, wall, s, force)
	saved := map[string]steering.State{}
	for _, st := range e.States(start + 2) {
		saved[st.Rule] = st
	}
	again := New(e.points)
	out, errs := again.Restore(start+steering.Instant(time.Minute), wall, s, force, saved)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, o := range out {
		if len(o.Events) > 0 {
			t.Errorf("the restart changed something: %+v", o.Events)
		}
	}
	if d := again.decision(t, "shop/default"); !d.Forced || d.Edge != "west" || d.Seq != e.decision(t, "shop/default").Seq {
		t.Errorf("restored %+v", d)
	}
	bad := saved["shop/default"]
	bad.Format = 99
	third := New(e.points)
	if _, errs := third.Restore(start, wall, s, nil, map[string]steering.State{"shop/default": bad}); len(errs) != 1 {
		t.Errorf("a state of an unknown format: %v", errs)
	}
	if d := third.decision(t, "shop/default"); d.Edge != "east" || d.Cause != steering.CauseInitial {
		t.Errorf("started anew: %+v", d)
	}
}

// TestQueue proves that the queue always gives the earliest rule, over random insertions, moves and removals.
func TestQueue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var q queue
	all := make([]*rule, 50)
	for i := range all {
		all[i] = &rule{slot: -1}
	}
	for range 5000 {
		r := all[rnd.IntN(len(all))]
		r.due = steering.Instant(rnd.IntN(20))
		q.fix(r)
		var least steering.Instant
		n := 0
		for _, x := range all {
			if x.due != 0 {
				n++
				if least == 0 || x.due < least {
					least = x.due
				}
			}
		}
		if first := q.first(); len(q) != n || (n > 0 && first.due != least) || (n == 0 && first != nil) {
			t.Fatalf("%d in the queue, first %+v; want %d, %v", len(q), first, n, least)
		}
	}
}

// TestSteadyStateAllocatesNothing proves the promise for results that repeat, ok or not.
// Covers: issue2 no allocation
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, ok := range []bool{true, false} {
		e := engineOf(t, set(t, zone, service("shop", 10, "[east, west]")))
		o := &report.Observation{Task: task(t, e, "local", "192.0.2.1"), Point: "local", OK: ok, Latency: time.Millisecond, Cause: "timeout"}
		if ok {
			o.Cause = ""
		}
		at := start
		step := func() {
			at += steering.Instant(10 * time.Second)
			e.Observe(at, o)
		}
		for range 200 {
			step()
		}
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("ok %v: %v allocations for one result", ok, n)
		}
	}
}

// BenchmarkObserve is one result, dispatched to one rule and evaluated.
func BenchmarkObserve(b *testing.B) {
	for _, rules := range []int{1, 20} {
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
			e := engineOf(b, set(b, zone, service("shop", rules, "[east, west]")))
			tasks := e.Probe("local").Tasks
			o := &report.Observation{Point: "local", OK: true, Latency: time.Millisecond}
			at, i := start, 0
			b.ReportAllocs()
			for b.Loop() {
				if i++; i%len(tasks) == 0 {
					at += steering.Instant(10 * time.Second)
				}
				o.Task = tasks[i%len(tasks)].ID
				e.Observe(at, o)
			}
		})
	}
}

// TestForceHoldsAgainWhenItsEdgeIsBack proves that a force rests while its edge is drained and holds again afterwards, as
// it would after a restart: the Override is still in force.
//
// Covers: issue2 overrides
func TestForceHoldsAgainWhenItsEdgeIsBack(t *testing.T) {
	s := set(t, zone, service("shop", 1, "[east, west]"))
	e := engineOf(t, s)
	force := Override{Name: "f", Kind: Force, Service: "shop", Rule: "default", Edge: "west"}
	drain := Override{Name: "d", Kind: Drain, Service: "shop", Edge: "west", Until: start + steering.Instant(time.Minute)}
	e.Configure(start, wall, s, []Override{force})
	if d := e.decision(t, "shop/default"); d.Edge != "west" || !d.Forced {
		t.Fatalf("forced: %+v", d)
	}
	e.Configure(start, wall, s, []Override{force, drain})
	if d := e.decision(t, "shop/default"); d.Edge != "east" || d.Forced {
		t.Fatalf("drained: %+v", d)
	}
	e.Advance(drain.Until)
	d := e.decision(t, "shop/default")
	if d.Edge != "west" || !d.Forced {
		t.Errorf("after the drain: %+v", d)
	}
	states := map[string]steering.State{}
	for _, st := range e.States(drain.Until) {
		states[st.Rule] = st
	}
	again := New([]steering.Point{{Name: "local"}})
	again.Restore(drain.Until, wall, s, []Override{force}, states)
	if after := again.decision(t, "shop/default"); after.Edge != d.Edge || after.Seq != d.Seq {
		t.Errorf("a restart moves it: %+v became %+v", d, after)
	}
}

// TestAnswerOfFamilies: a plan says what is answered, not what is probed of it: the addresses of a family that the rule
// does not probe are answered too, and a name is one however many of its families are probed. A force to an edge that has
// nothing the rule would probe holds all the same.
//
// Covers: issue4 families apart
func TestAnswerOfFamilies(t *testing.T) {
	text := `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [www.example.com]
edges:
  - {name: east, addresses: [192.0.2.1, "2001:db8::1"]}
  - {name: six, addresses: ["2001:db8::2"]}
  - {name: vendor, target: shop.cdn.example.net}
rules:
  - {name: default, scope: "*", mode: failover, edges: [east], probe: {families: [ipv4]}}
  - {name: cn, scope: {country: CN}, mode: failover, edges: [vendor], probe: {families: [ipv4, ipv6]}}
`
	e := engineOf(t, set(t, zone, text))
	for key, want := range map[string]string{"shop/default": "east (192.0.2.1, 2001:db8::1)", "shop/cn": "vendor (shop.cdn.example.net)"} {
		if got := e.rules[key].answer(start); got != want {
			t.Errorf("%s answers %q, want %q", key, got, want)
		}
	}
	over := []Override{{Name: "f", Kind: Force, Service: "shop", Rule: "default", Edge: "six", Order: 1}}
	said, _ := e.Simulate(start, wall, set(t, zone, text), over)
	e.Configure(start, wall, set(t, zone, text), over)
	const want = "six (2001:db8::2)"
	if got := e.rules["shop/default"].answer(start); got != want || len(said) != 1 || said[0].To != want {
		t.Errorf("forced to six it answers %q, and the plan said %+v", got, said)
	}
}
