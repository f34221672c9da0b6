package steertest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"steerpoint/steering"
)

// tracked is a machine that the test can look at.
type tracked struct {
	core
	key  string
	into map[string]*tracked
}

func tracking(into map[string]*tracked) Factory {
	return func(cfg steering.RuleConfig, epoch time.Time) Machine {
		t := &tracked{Core(cfg, epoch).(core), cfg.Key(), into}
		into[t.key] = t
		return t
	}
}

func (t *tracked) Restart() (Machine, error) {
	m, err := t.core.Restart()
	if err != nil {
		return nil, err
	}
	again := &tracked{m.(core), t.key, t.into}
	t.into[t.key] = again
	return again, nil
}

// cut splits a timeline at an instant at which nothing happens: what came before, and what comes after, with the resources
// that hold then first.
func cut(tl *Timeline, at time.Duration) (before, after *Timeline) {
	b, a := *tl, *tl
	b.Statements, a.Statements, a.Sections = nil, nil, nil
	holds := tl.Sections[0].Name
	newest := time.Duration(-1)
	drained := map[string]Statement{}
	for _, st := range tl.Statements {
		early, late := st, st
		if st.At.Step > 0 && st.At.From < at && st.At.To > at {
			n := (at - st.At.From) / st.At.Step
			early.At.To = st.At.From + n*st.At.Step
			late.At.From = early.At.To + st.At.Step
		}
		if early.At.From < at {
			b.Statements = append(b.Statements, early)
		}
		if late.At.To > at && late.At.From > at && late.At.From <= late.At.To {
			a.Statements = append(a.Statements, late)
		}
		if st.Kind == KindApply && st.At.From < at && st.At.From >= newest {
			holds, newest = st.File, st.At.From
		}
		if was := drained[st.Edge]; (st.Kind == KindDrain || st.Kind == KindUndrain) && st.At.From < at && st.At.From >= was.At.From {
			drained[st.Edge] = st
		}
	}
	a.Begin = at
	start := []Statement{{Kind: KindHalt, At: Span{From: at, To: at}}}
	for _, st := range drained {
		st.At = Span{From: at, To: at}
		start = append(start, st)
	}
	start = append(start, Statement{Kind: KindState, At: Span{From: at, To: at}, File: "states.json"})
	a.Statements = append(start, a.Statements...)
	for _, s := range tl.Sections {
		if s.Name == holds {
			a.Sections = append(a.Sections, s)
		}
	}
	for _, s := range tl.Sections {
		if s.Name != holds {
			a.Sections = append(a.Sections, s)
		}
	}
	return &b, &a
}

// TestGoingOnFromStates cuts random timelines in two: the second half, which begins with the states that the first one ends
// with, switches as the whole does.
//
// Covers: decisions 8, issue4 tape
func TestGoingOnFromStates(t *testing.T) {
	compared, switches := 0, 0
	for seed := range uint64(150) {
		tl := generate(seed)
		if serviceFreeze(tl) {
			continue // a rule that is new after the cut would not know of it
		}
		var end time.Duration
		for _, st := range tl.Statements {
			end = max(end, st.At.To)
		}
		at := end/2 + 777_777_777
		before, after := cut(tl, at)
		whole, err := tl.Run(loadYAML, Options{})
		if err != nil {
			t.Fatal(err)
		}
		machines := map[string]*tracked{}
		first, err := before.Run(loadYAML, Options{Machine: tracking(machines)})
		if err != nil {
			continue // it is all after the cut
		}
		var s States
		for _, m := range machines {
			s.Rules = append(s.Rules, m.State())
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		after.Sections = append(after.Sections, Section{Name: "states.json", Data: b})
		parsed, err := Parse(tl.Name, after.Format())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		second, err := parsed.Run(loadYAML, Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var got, want []string
		for _, s := range append(first.Switches, second.Switches...) {
			got = append(got, s.String())
		}
		for _, s := range whole.Switches {
			want = append(want, s.String())
		}
		compared++
		switches += len(second.Switches)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("seed %d, cut at %v:\n%s\nwant\n%s", seed, at, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if compared < 50 || switches < 50 {
		t.Errorf("only %d timelines with %d switches were compared", compared, switches)
	}
}

func serviceFreeze(tl *Timeline) bool {
	for _, st := range tl.Statements {
		if st.Kind == KindFreeze && !strings.Contains(st.Rule, "/") {
			return true
		}
	}
	return false
}

// TestStatesAreRefused proves that what cannot be given a state says so, and that a damaged section is a mistake of the file.
//
// Covers: decisions 8, issue4 tape
func TestStatesAreRefused(t *testing.T) {
	const text = `points p
begin 5s
state 5s states.json
-- s.yaml --
kind: Service
name: s
edges: [{name: a, target: a.example.net}]
rules: [{name: r, scope: "*", mode: fixed, edges: [a]}]
-- states.json --
`
	run := func(states string, opts Options) string {
		tl, err := Parse("x.txtar", []byte(text+states))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = tl.Run(loadYAML, opts); err == nil {
			return ""
		}
		return err.Error()
	}
	good := `{"rules": [{"Format": 1, "Rule": "s/r"}]}`
	for _, c := range []struct{ states, want string }{
		{`{"rules": [`, "TIMELINE_LOAD: section states.json"},
		{`{"rulez": []}`, "rulez"},
		{`{"rules": [{"Format": 99, "Rule": "s/r"}]}`, "format 99"},
	} {
		if got := run(c.states, Options{}); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.states, got)
		}
	}
	if got := run(good, Options{}); got != "" {
		t.Errorf("a good one: %s", got)
	}
	if got := run(good, Options{Machine: newOracle}); !strings.Contains(got, "can be given no state") {
		t.Errorf("the second implementation: %s", got)
	}
	if _, err := Parse("x.txtar", []byte(strings.Replace(text, "state 5s", "state 4s", 1))); err == nil || !strings.Contains(err.Error(), "before the timeline begins") {
		t.Errorf("before the beginning: %v", err)
	}
}

// TestWhatDoesNotApply proves that other resources are told what of a recording they cannot use.
//
// Covers: decisions 8, issue4 tape
func TestWhatDoesNotApply(t *testing.T) {
	tl, err := Parse("x.txtar", []byte(`points p
0s..60s/10s p a ok 20ms
0s..60s/10s p b ok 20ms
61s p a fail timeout only s/r
-- s.yaml --
kind: Service
name: s
edges: [{name: a, target: a.example.net}, {name: b, target: b.example.net}]
rules: [{name: r, scope: "*", mode: failover, edges: [a, b], probe: {interval: 10s}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	d, err := tl.Compare(loadYAML, Section{Name: "new.yaml", Data: []byte(`kind: Service
name: s
edges: [{name: a, target: a.example.net}, {name: c, target: c.example.net}]
rules: [{name: r, scope: "*", mode: failover, edges: [c, a], probe: {interval: 5s}}]
`)})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(d.After.Notes, "\n")
	for _, want := range []string{
		"nothing was recorded of edge c (c.example.net)", "recorded every 10s, not every 5s",
		"7 observations of b do not apply",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no note of %q in\n%s", want, got)
		}
	}
}
