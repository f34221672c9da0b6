package steertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/steering"
)

// TestSwitchLines: the output is exactly as specified, key order and numbers included.
//
// Covers: decisions 8
func TestSwitchLines(t *testing.T) {
	tl := mustParse(t, `points p
0s..10s/5s     * * ok 30ms
12.5s..14.5s/1s * a fail timeout
14.25s         * b ok 20ms
`+someService)
	result, err := tl.Run(loadYAML, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := result.WriteSwitches(&b); err != nil {
		t.Fatal(err)
	}
	want := `{"at":0,"service":"shop","rule":"default","from":"","to":"a","cause":"initial"}
{"at":14.5,"service":"shop","rule":"default","from":"a","to":"b","cause":"down"}
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// TestFailures: an expectation that does not hold gives one line with its place, what was wanted, what is so and why.
//
// Covers: decisions 8
func TestFailures(t *testing.T) {
	tl := mustParse(t, `points p
0s..60s/10s * * ok 30ms
expect 5s shop/default b
expect 5s shop/default a cause=down
expect 5s shop/default a since=3s
expect 5s shop/default a degraded=true
expect 5s shop/default a locked=true
expect 5s shop/default a cause=initial since=0s degraded=false locked=false
expect-verdict 5s shop/default a down
expect-verdict 5s shop/default b@192.0.2.1 down
expect-verdict 5s shop/default b@192.0.2.1 up
force 20s shop/default b for 10s
expect-switches shop/default 1
expect-switches shop/default 0 0s..19s
expect-switches shop/default 1 20s..20s
`+someService)
	result, err := tl.Run(loadYAML, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := result.WriteFailures(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, want := range []string{
		`x.txtar:3: want "expect 5s shop/default b", but it is: a cause=initial since=0s degraded=false locked=false; why: shop/default`,
		`x.txtar:4: want "expect 5s shop/default a cause=down"`,
		`x.txtar:5: want "expect 5s shop/default a since=3s"`,
		`x.txtar:6: want "expect 5s shop/default a degraded=true"`,
		`x.txtar:7: want "expect 5s shop/default a locked=true"`,
		`x.txtar:9: want "expect-verdict 5s shop/default a down", but it is: up`,
		`x.txtar:10: want "expect-verdict 5s shop/default b@192.0.2.1 down", but it is: up`,
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("failure %d: got %q, want %q...", i, slices.Concat(lines, []string{"none"})[min(i, len(lines))], want)
		}
	}
	if len(lines) != 7 {
		t.Errorf("%d failures, want 7:\n%s", len(lines), b.String())
	}
}

// TestStatementsThatCannotBe: an override of a rule or an edge that is not there at that time fails by name.
//
// Covers: decisions 8
func TestStatementsThatCannotBe(t *testing.T) {
	tl := mustParse(t, `points p
0s..60s/10s * * ok 30ms
apply 10s other.yaml
force 20s shop/default b
freeze 20s shop/default
expect 20s shop/default a
force 20s shop/second b
`+someService+`-- other.yaml --
kind: Service
name: shop
edges: [{name: a, target: a.example.net}, {name: b, target: b.example.net, enabled: false}]
rules: [{name: second, scope: "*", mode: failover, edges: [a]}]
`)
	result, err := tl.Run(loadYAML, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range result.Failures {
		got = append(got, f.String())
	}
	want := []string{
		"x.txtar:4: force b: there is no rule shop/default at 20s",
		"x.txtar:5: freeze: there is no rule shop/default at 20s",
		`x.txtar:6: want "expect 20s shop/default a", but it is: there is no such rule at that time`,
		"x.txtar:7: force b: at 20s service shop has no enabled edge of that name",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestExpansionOrder: points outermost in the order of the points line, edges innermost in the service's order,
// statements of one time in file order; whatever order the lists have.
//
// Covers: decisions 8
func TestExpansionOrder(t *testing.T) {
	tl := mustParse(t, `points q p
3s p,q b,a ok 3ms
0s..3s/3s p a fail x
`+someService)
	var got []string
	trace := func(now steering.Instant, _ string, in Input, _ steering.Decision, _ Machine) {
		o := in.Observation
		got = append(got, fmt.Sprintf("%s %s %s %t", seconds(now), o.Point, o.Address, o.OK))
	}
	if _, err := tl.Run(loadYAML, Options{trace: trace}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0s p a.example.net false",
		"3s q a.example.net true", "3s q 192.0.2.1 true", "3s q 2001:db8::1 true",
		"3s p a.example.net true", "3s p 192.0.2.1 true", "3s p 2001:db8::1 true",
		"3s p a.example.net false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCompare: what other resources would have changed is listed as lines only one side has.
//
// Covers: decisions 8
func TestCompare(t *testing.T) {
	text := `points p
0s..300s/10s * b ok 30ms
0s..100s/10s * a ok 30ms
110s..300s/10s * a fail timeout
force 200s shop/default b
apply 250s shop.yaml
expect 0s shop/default b
` + someService
	tl := mustParse(t, text)
	_, service, _ := strings.Cut(someService, "\n")
	with := func(old, changed string) *Difference {
		d, err := tl.Compare(loadYAML, Section{Name: "new.yaml", Data: []byte(strings.Replace(service, old, changed, 1))})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := with("", ""); !d.Same() || len(d.Before.Failures) != 1 || len(d.After.Failures) != 0 {
		t.Errorf("the same resources differ: %q, failures %v and %v", d.Lines(), d.Before.Failures, d.After.Failures)
	}
	got := with("interval: 10s", "interval: 10s, fall: 5").Lines()
	want := []string{"- 130s shop/default: a -> b (down)", "+ 150s shop/default: a -> b (down)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if d := with("name: default", "name: another"); len(d.After.Notes) != 1 || !strings.Contains(d.After.Notes[0], "there is no rule shop/default") {
		t.Errorf("notes %q, want that the rule of the force is not there", d.After.Notes)
	}
}

// randomInstants are instants at which nothing happens that a timeline knows of, and some at which much does.
func randomInstants(tl *Timeline, r *rand.Rand) []steering.Instant {
	var out []steering.Instant
	end := steering.Instant(0)
	for _, st := range tl.Statements {
		end = max(end, st.At.To)
	}
	for _, st := range tl.Statements {
		if r.IntN(3) == 0 {
			out = append(out, min(end, st.At.From+time.Duration(r.IntN(5))*st.At.Step))
		}
		out = append(out, time.Duration(r.Int64N(int64(st.At.To+1))))
	}
	slices.Sort(out)
	return out
}

// TestExtraEvaluationsChangeNothing: a caller that evaluates more often than announced gets the same switches at the same
// instants. So the announced times are all there are, and status may be looked at freely.
//
// Covers: decisions 3, decisions 8
func TestExtraEvaluationsChangeNothing(t *testing.T) {
	seeds(t, min(timelines(t)/5, 300), func(seed uint64) {
		tl := generate(seed)
		plain, err := tl.Run(loadYAML, Options{})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		often, err := tl.Run(loadYAML, Options{also: randomInstants(tl, rand.New(rand.NewPCG(seed, 2)))})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		if diff := (&Difference{plain, often}).Lines(); len(diff) > 0 {
			t.Errorf("seed %d: with more evaluations: %s", seed, strings.Join(diff, "\n"))
		}
	})
}

// TestRestartsChangeNothing: a process that is restarted at any time decides as one that is not: no verdict, lock,
// cool-down, dwell or override is lost on the way through the saved state.
//
// Covers: decisions 3, decisions 8, field 12
func TestRestartsChangeNothing(t *testing.T) {
	seeds(t, min(timelines(t)/5, 300), func(seed uint64) {
		tl := generate(seed)
		plain, err := tl.Run(loadYAML, Options{})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		r := rand.New(rand.NewPCG(seed, 3))
		for range 5 {
			// Not at 0, where a restart could become the first event, after which all rules start.
			at := 1 + time.Duration(r.Int64N(int64(time.Hour)))
			if len(tl.Statements) > 0 && r.IntN(2) == 0 {
				at = max(1, tl.Statements[r.IntN(len(tl.Statements))].At.From)
			}
			st := Statement{Kind: KindRestart, At: Span{From: at, To: at}}
			tl.Statements = slices.Insert(tl.Statements, r.IntN(len(tl.Statements)+1), st)
		}
		restarted, err := tl.Run(loadYAML, Options{})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		// A restart after the end makes the timeline longer; what comes before must be the same.
		for i, s := range plain.Switches {
			if i >= len(restarted.Switches) || restarted.Switches[i] != s {
				t.Errorf("seed %d: switch %d is %s, with restarts %s", seed, i, s, at(restarted.Switches, i))
				return
			}
		}
	})
}
