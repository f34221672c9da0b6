package selection

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// origin is one row of a table: state, health, priority, latency, weight.
type origin struct {
	name               string
	disabled, draining bool
	down               bool
	priority           int           // 0: 1
	latency            time.Duration // 0: not known
	weight             int           // 0: 50, which is the default of what is written
}

// group makes a group and its state in which every origin has been probed.
func group(t testing.TB, change func(*Group), rows ...origin) *State {
	t.Helper()
	g := Group{Size: 4, Need: 3}
	for _, r := range rows {
		g.Origins = append(g.Origins, Origin{
			Name: r.name, Address: r.name + ":443", Priority: max(r.priority, 1), Weight: cmpOr(r.weight, 50), Enabled: !r.disabled, Draining: r.draining,
		})
	}
	if change != nil {
		change(&g)
	}
	c, err := NewGroup(g)
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(c, 0, 0)
	for i, r := range rows {
		s.SetHealth(0, i, Health{Good: 4, Seen: 4, Healthy: !r.down, Latency: r.latency, Known: r.latency > 0})
	}
	return s
}

func cmpOr(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

// counts makes n choices and says how many each origin got: "A 3, B 7".
func counts(s *State, n int, ask Ask) string {
	got := map[int]int{}
	for range n {
		got[s.Choose(0, ask).Origin]++
	}
	var parts []string
	for i := None; i < len(s.origins); i++ {
		if got[i] > 0 {
			name := "none"
			if i >= 0 {
				name = s.group.Origins[i].Name
			}
			parts = append(parts, fmt.Sprintf("%s %d", name, got[i]))
		}
	}
	return strings.Join(parts, ", ")
}

func sensitivity(d time.Duration) func(*Group) { return func(g *Group) { g.Sensitivity = d } }

// The table of the field report, row by row: who gets how many of ten or more requests.
//
// Covers: C1-C10, decisions 6, gateway T01, gateway T02, gateway T03, gateway T04, gateway T05, gateway T06, gateway T07, gateway T08, gateway T09, gateway T12, gateway T14, gateway T15, gateway T16, gateway T17, gateway T18, gateway T38, gateway T50, gateway R3, gateway R5, gateway R6, gateway R7, gateway R9
func TestOriginChoice(t *testing.T) {
	six := []origin{{name: "A"}, {name: "B"}, {name: "C", down: true}, {name: "D"}, {name: "E", disabled: true}, {name: "F", priority: 2}}
	byPriority := func(g *Group) { g.ByPriority = true }
	for _, tt := range []struct {
		name   string
		rows   []origin
		change func(*Group)
		n      int
		want   string
	}{
		{"T01 available", []origin{{name: "A"}, {name: "B"}, {name: "C", down: true}, {name: "D"}, {name: "E", disabled: true}, {name: "F"}}, nil, 40, "A 10, B 10, D 10, F 10"},
		{"T02 priority", six, nil, 30, "A 10, B 10, D 10"},
		{"T03 window", []origin{{name: "A", latency: 15 * ms}, {name: "B", latency: 30 * ms}, {name: "D", latency: 60 * ms}}, sensitivity(30 * ms), 10, "A 5, B 5"},
		{"T04 at its edge", []origin{{name: "A", latency: 15 * ms}, {name: "B", latency: 30 * ms}, {name: "D", latency: 60 * ms}, {name: "X", latency: 45 * ms}}, sensitivity(30 * ms), 30, "A 10, B 10, X 10"},
		{"T04 beyond it", []origin{{name: "A", latency: 15 * ms}, {name: "B", latency: 30 * ms}, {name: "D", latency: 60 * ms}, {name: "X", latency: 46 * ms}}, sensitivity(30 * ms), 10, "A 5, B 5"},
		{"T05 weights", []origin{{name: "A", weight: 3}, {name: "B", weight: 7}}, nil, 10000, "A 3000, B 7000"},
		{"T06 ten requests", []origin{{name: "A", weight: 3}, {name: "B", weight: 7}}, nil, 10, "A 3, B 7"},
		{"T07 same whole millisecond", []origin{{name: "A", latency: 15200 * time.Microsecond}, {name: "B", latency: 15400 * time.Microsecond}}, nil, 10, "A 5, B 5"},
		{"T07 another", []origin{{name: "A", latency: 15 * ms}, {name: "B", latency: 16 * ms}}, nil, 10, "A 10"},
		{"T08 weight has no effect", []origin{{name: "A", latency: 15 * ms, weight: 1}, {name: "B", latency: 16 * ms, weight: 1000}}, nil, 10, "A 10"},
		{"T09 all near enough", []origin{{name: "A", latency: 5 * ms}, {name: "B", latency: 900 * ms}}, sensitivity(1000 * ms), 10, "A 5, B 5"},
		{"T12 one origin, failing", []origin{{name: "A", down: true}}, nil, 3, "A 3"},
		{"T12 one enabled, failing", []origin{{name: "A", down: true}, {name: "B", disabled: true}}, nil, 3, "A 3"},
		{"T14 next level", []origin{{name: "A", down: true}, {name: "B", down: true}, {name: "C", priority: 2}}, nil, 3, "C 3"},
		{"T15 fifth level", []origin{{name: "A", down: true}, {name: "B", priority: 2, down: true}, {name: "C", priority: 3, down: true}, {name: "D", priority: 4, down: true}, {name: "E", priority: 5}}, nil, 3, "E 3"},
		{"T16 all down", []origin{{name: "A", down: true}, {name: "B", priority: 2, down: true, weight: 1000}}, nil, 10, "A 5, B 5"},
		{"T16 all down, by priority", []origin{{name: "A", down: true}, {name: "B", priority: 2, down: true}}, byPriority, 10, "A 10"},
		{"T17 all disabled", []origin{{name: "A", disabled: true}, {name: "B", disabled: true}}, nil, 3, "none 3"},
		{"T18 all down, one disabled", []origin{{name: "A", down: true}, {name: "B", disabled: true}, {name: "C", down: true}}, nil, 10, "A 5, C 5"},
		{"T38 one comes back", []origin{{name: "A", down: true}, {name: "B"}, {name: "C", down: true}}, nil, 3, "B 3"},
		{"T50 new, unknown latency", []origin{{name: "A"}, {name: "B", latency: 900 * ms}}, nil, 3, "B 3"},
		{"no latency known", []origin{{name: "A"}, {name: "B"}}, nil, 10, "A 5, B 5"},
		{"latency of others does not count", []origin{{name: "A", latency: 1 * ms, down: true}, {name: "B", latency: 50 * ms}, {name: "C", latency: 50 * ms}}, nil, 10, "B 5, C 5"},
		{"all draining", []origin{{name: "A", draining: true}, {name: "B", draining: true}}, nil, 10, "A 5, B 5"},
		{"one draining", []origin{{name: "A", draining: true}, {name: "B"}}, nil, 3, "B 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := group(t, tt.change, tt.rows...)
			if got := counts(s, tt.n, Ask{}); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	s := group(t, nil, origin{name: "A", disabled: true})
	if p := s.Choose(0, Ask{}); p.Why != NoEnabledOrigin {
		t.Errorf("T17: %+v", p)
	}
	s = group(t, nil, origin{name: "A", down: true}, origin{name: "B", down: true})
	if p := s.Choose(0, Ask{}); !p.FailOpen {
		t.Errorf("T16: %+v", p)
	}
}

// Weights are smooth: each window of one round has each origin's share, and a heavy one is never long in a row. Where a
// process begins changes no share.
//
// Covers: C5, decisions 6, gateway T05, gateway fault 50
func TestSmoothWeights(t *testing.T) {
	for seed := range uint64(20) {
		s := group(t, nil, origin{name: "A", weight: 3}, origin{name: "B", weight: 7})
		s = NewState(s.group, seed, 0)
		s.healthy = s.all()
		var row []int
		for range 100 {
			row = append(row, s.Choose(0, Ask{}).Origin)
		}
		for i := 0; i+10 <= len(row); i++ {
			a := 0
			for _, o := range row[i : i+10] {
				if o == 0 {
					a++
				}
			}
			if a != 3 {
				t.Fatalf("seed %d: %d of A from %d on: %v", seed, a, i, row)
			}
		}
	}
	s := group(t, nil, origin{name: "A", weight: 5}, origin{name: "B", weight: 1}, origin{name: "C", weight: 1}, origin{name: "D", weight: 1}, origin{name: "E", weight: 1})
	run := 0
	for range 1000 {
		if s.Choose(0, Ask{}).Origin == 0 {
			run++
		} else {
			run = 0
		}
		if run > 2 {
			t.Fatal("the heavy origin three times in a row")
		}
	}
	firsts := map[int]bool{}
	for seed := range uint64(9) {
		n := NewState(s.group, seed, 0)
		n.healthy = n.all()
		firsts[n.Choose(0, Ask{}).Origin] = true
	}
	if len(firsts) < 2 {
		t.Error("every process begins with the same origin")
	}
}

// After an origin was away its share is the written one again at once, whatever the others' weights were meanwhile.
//
// Covers: decisions 6, gateway fault 49
func TestWeightsAfterFlaps(t *testing.T) {
	s := group(t, nil, origin{name: "A", weight: 3}, origin{name: "B", weight: 1})
	down, up := Health{Seen: 4}, Health{Good: 4, Seen: 4, Healthy: true}
	for i := range 50 {
		s.SetHealth(0, i%2, down)
		counts(s, i, Ask{})
		s.SetHealth(0, i%2, up)
		got := 0
		for range 100 {
			if s.Choose(0, Ask{}).Origin == 0 {
				got++
			}
		}
		if got < 74 || got > 76 {
			t.Fatalf("flap %d: %d of 100 instead of 75", i, got)
		}
	}
	// A light origin has gained much beside heavy ones; among light ones it must not take all turns.
	s = group(t, nil, origin{name: "A", weight: 1}, origin{name: "B", weight: 1}, origin{name: "C", weight: 1000}, origin{name: "D", weight: 1000})
	counts(s, 700, Ask{})
	s.SetHealth(0, 2, down)
	s.SetHealth(0, 3, down)
	run, last := 0, None
	for range 100 {
		o := s.Choose(0, Ask{}).Origin
		if o != last {
			run, last = 0, o
		}
		if run++; run > 3 {
			t.Fatalf("origin %d takes %d turns in a row", o, run)
		}
	}
}

// A session stays with its origin as long as that is enabled, healthy and of the best priority there is; latency and weight
// do not break it.
//
// Covers: C6, decisions 6, gateway T25, gateway T26, gateway T28, gateway R8
func TestSessions(t *testing.T) {
	a := Ask{Session: Only(0)}
	for _, tt := range []struct {
		name string
		rows []origin
		want string
		kept bool
	}{
		{"T25 out of the window", []origin{{name: "A", latency: 900 * ms}, {name: "B", latency: 1 * ms}}, "A", true},
		{"T26 worse priority", []origin{{name: "A", priority: 2}, {name: "B"}}, "B", false},
		{"T28 disabled", []origin{{name: "A", disabled: true}, {name: "B"}, {name: "C", down: true}}, "B", false},
		{"unhealthy", []origin{{name: "A", down: true}, {name: "B"}}, "B", false},
		{"all unhealthy", []origin{{name: "A", down: true, priority: 3}, {name: "B", down: true}}, "A", true},
		{"draining", []origin{{name: "A", draining: true}, {name: "B"}}, "A", true},
		{"draining, worse priority", []origin{{name: "A", draining: true, priority: 2}, {name: "B"}}, "B", false},
		{"draining, unhealthy", []origin{{name: "A", draining: true, down: true}, {name: "B"}}, "B", false},
		{"alone", []origin{{name: "A", down: true}}, "A", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := group(t, func(g *Group) { g.Drain = time.Minute }, tt.rows...)
			for range 3 {
				p := s.Choose(time.Second, a)
				if s.group.Origins[p.Origin].Name != tt.want || p.Session != tt.kept {
					t.Errorf("%+v, want %s, kept %v", p, tt.want, tt.kept)
				}
			}
		})
	}
}

// A draining origin gets no new session and keeps the old ones until its deadline, even when others come and go.
//
// Covers: decisions 6, gateway R15
func TestDrain(t *testing.T) {
	s := group(t, func(g *Group) { g.Drain = time.Minute }, origin{name: "A"}, origin{name: "B"})
	g := *s.group
	g.Origins = slices.Clone(g.Origins)
	g.Origins[0].Draining = true
	next, err := NewGroup(g)
	if err != nil {
		t.Fatal(err)
	}
	s = s.Next(next, 10*time.Second)
	if got := counts(s, 5, Ask{}); got != "B 5" {
		t.Errorf("new sessions: %s", got)
	}
	for _, tt := range []struct {
		at   time.Duration
		want int
	}{{10 * time.Second, 0}, {69 * time.Second, 0}, {70 * time.Second, 1}} {
		if p := s.Choose(tt.at, Ask{Session: Only(0)}); p.Origin != tt.want {
			t.Errorf("at %s: %+v", tt.at, p)
		}
	}
}

// A retry is a choice among the rest, by the same rules; when nobody is left it says so.
//
// Covers: C9, decisions 6, gateway R11
func TestRetry(t *testing.T) {
	s := group(t, nil, origin{name: "A"}, origin{name: "B", priority: 2}, origin{name: "C", priority: 2, down: true}, origin{name: "D", disabled: true})
	skip := Origins(0)
	for _, want := range []int{0, 1, 2} {
		p := s.Choose(0, Ask{Skip: skip, Session: Only(0) & skip})
		if p.Origin != want || p.Session {
			t.Fatalf("without %b: %+v, want %d", skip, p, want)
		}
		skip |= Only(p.Origin)
	}
	if p := s.Choose(0, Ask{Skip: skip}); p.Origin != None || p.Why != AllSkipped {
		t.Errorf("%+v", p)
	}
}

// An origin of which requests fail in a row is out for a growing time, and never the last one.
//
// Covers: decisions 6, gateway passive health
func TestPassive(t *testing.T) {
	s := group(t, func(g *Group) { g.Passive = Passive{Failures: 3, Out: 30 * time.Second, MaxOut: 80 * time.Second} }, origin{name: "A"}, origin{name: "B", priority: 2})
	now := time.Duration(0)
	fail := func(i, n int) (until time.Duration, out bool) {
		for range n {
			until, out = s.Failed(now, i)
		}
		return until, out
	}
	if _, out := fail(0, 2); out {
		t.Fatal("out after two failures")
	}
	s.Succeeded(now, 0)
	if _, out := fail(0, 2); out {
		t.Fatal("lone failures add up")
	}
	s.Succeeded(now, 0)
	for _, want := range []time.Duration{30, 60, 80, 80} {
		until, out := fail(0, 3)
		if !out || until-now != want*time.Second {
			t.Fatalf("out %v for %s, want %ds", out, until-now, want)
		}
		if p := s.Choose(until-1, Ask{}); p.Origin != 1 {
			t.Errorf("while it is out: %+v", p)
		}
		if p := s.Choose(until, Ask{}); p.Origin != 0 {
			t.Errorf("after it was out: %+v", p)
		}
		now = until
	}
	now += 80 * time.Second
	s.Succeeded(now, 0)
	if until, out := fail(0, 3); !out || until-now != 30*time.Second {
		t.Errorf("after it was well for as long as it was out: %v %s", out, until-now)
	}
	fail(1, 3)
	if p := s.Choose(now, Ask{}); p.Origin != 0 {
		t.Errorf("all are out: %+v", p)
	}
}

// The share of an origin that returns grows in proportion to the time since; at the start of a node nothing ramps.
//
// Covers: decisions 6, gateway ramp
func TestRamp(t *testing.T) {
	ramped := func(g *Group) { g.Ramp = 100 * time.Second }
	s := group(t, ramped, origin{name: "A"}, origin{name: "B"})
	if got := counts(s, 10, Ask{}); got != "A 5, B 5" {
		t.Errorf("at the start: %s", got)
	}
	s.SetHealth(0, 1, Health{Good: 2, Seen: 4})
	back := 1000 * time.Second
	s.SetHealth(back, 1, Health{Good: 3, Seen: 4, Healthy: true})
	for _, tt := range []struct {
		after time.Duration
		want  int // of 1000, within 1
	}{{0, 0}, {25 * time.Second, 200}, {50 * time.Second, 333}, {99 * time.Second, 497}, {100 * time.Second, 500}, {time.Hour, 500}} {
		got := 0
		for range 1000 {
			if s.Choose(back+tt.after, Ask{}).Origin == 1 {
				got++
			}
		}
		if got < tt.want-2 || got > tt.want+2 {
			t.Errorf("after %s: %d of 1000, want %d", tt.after, got, tt.want)
		}
	}
	s.SetHealth(back, 0, Health{Seen: 4})
	if p := s.Choose(back, Ask{}); p.Origin != 1 {
		t.Errorf("one that returns and is alone: %+v", p)
	}
}

// Origins are judged by their last results, by as many as there are; latency is the mean of the good ones.
//
// Covers: C9, decisions 6, gateway T20, gateway T21, gateway R4
func TestSamples(t *testing.T) {
	var s Samples
	add := func(list ...int) {
		for _, ok := range list {
			s.Add(ok == 1, 10*ms)
		}
	}
	add(1, 1)
	if h := s.Judge(4, 3); h.Healthy || h.Good != 2 || h.Seen != 2 || !h.Known {
		t.Errorf("T21: %+v", h)
	}
	s = Samples{}
	add(1, 1, 0, 0, 1)
	if h := s.Judge(5, 3); !h.Healthy {
		t.Errorf("T20: %+v", h)
	}
	add(0)
	if h := s.Judge(5, 3); h.Healthy || h.Good != 2 {
		t.Errorf("T20: %+v", h)
	}
	add(0)
	if h := s.Judge(5, 3); h.Healthy {
		t.Errorf("T20: %+v", h)
	}
	s = Samples{}
	for range 3 * MaxSamples {
		s.Add(true, 80*ms)
	}
	s.Add(true, 120*ms)
	s.Add(false, 0)
	if h := s.Judge(3, 1); h.Latency != 100*ms || h.Good != 2 || h.Seen != 3 {
		t.Errorf("%+v", h)
	}
	if h := s.Judge(MaxSamples, MaxSamples); h.Seen != MaxSamples || h.Healthy {
		t.Errorf("%+v", h)
	}
	s = Samples{}
	s.Add(false, 0)
	if h := s.Judge(4, 1); h.Known || h.Healthy {
		t.Errorf("%+v", h)
	}
}

// A change of the group keeps what is known of the origins that stay, by name and address.
//
// Covers: decisions 6
func TestNextKeeps(t *testing.T) {
	s := group(t, func(g *Group) { g.Passive = Passive{Failures: 1, Out: time.Minute, MaxOut: time.Minute} }, origin{name: "A", latency: 5 * ms}, origin{name: "B", down: true}, origin{name: "C", latency: 5 * ms})
	s.Failed(0, 2)
	g := *s.group
	a, c := g.Origins[0], g.Origins[2]
	moved := a
	moved.Name, moved.Address = "A", "elsewhere:443"
	for _, tt := range []struct {
		name    string
		origins []Origin
		want    string
	}{
		{"turned around", []Origin{c, a}, "A 4"},
		{"C only", []Origin{c, {Name: "N", Address: "n", Priority: 1, Weight: 1, Enabled: true}}, "C 4"},
		{"another address is another origin", []Origin{moved, c}, "C 4"},
	} {
		g.Origins = tt.origins
		next, err := NewGroup(g)
		if err != nil {
			t.Fatal(err)
		}
		if got := counts(s.Next(next, 0), 4, Ask{}); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// What probes found of an origin before it was disabled says nothing of it when it is enabled again: it waits for its probes,
// and gets nothing meanwhile.
//
// Covers: decisions 6
func TestEnabledAgain(t *testing.T) {
	s := group(t, nil, origin{name: "A", latency: 5 * ms}, origin{name: "B", latency: 5 * ms})
	change := func(enabled bool) {
		t.Helper()
		g := *s.group
		g.Origins = slices.Clone(g.Origins)
		g.Origins[1].Enabled = enabled
		next, err := NewGroup(g)
		if err != nil {
			t.Fatal(err)
		}
		s = s.Next(next, 0)
	}
	expect := func(what, want string) {
		t.Helper()
		if got := counts(s, 4, Ask{}); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	change(false)
	expect("disabled", "A 4")
	change(true)
	expect("enabled, and not probed yet", "A 4")
	if s.Judged() {
		t.Error("it counts as probed")
	}
	s.SetHealth(0, 1, Health{Good: 1, Seen: 1, Latency: 5 * ms, Known: true})
	expect("after one probe", "A 4")
	s.SetHealth(0, 1, Health{Good: 3, Seen: 3, Healthy: true, Latency: 5 * ms, Known: true})
	expect("after three", "A 2, B 2")
}

// Bounds are kept whoever made the group.
//
// Covers: gateway T11
func TestGroupBounds(t *testing.T) {
	ok := Group{Origins: []Origin{{Name: "A", Priority: 1, Weight: 1, Enabled: true}}, Size: 4, Need: 3}
	if _, err := NewGroup(ok); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Group){
		"no origin":          func(g *Group) { g.Origins = nil },
		"65 origins":         func(g *Group) { g.Origins = slices.Repeat(g.Origins, 65) },
		"priority 0":         func(g *Group) { g.Origins[0].Priority = 0 },
		"priority 6":         func(g *Group) { g.Origins[0].Priority = 6 },
		"weight 0":           func(g *Group) { g.Origins[0].Weight = 0 },
		"weight 1001":        func(g *Group) { g.Origins[0].Weight = 1001 },
		"need 0":             func(g *Group) { g.Need = 0 },
		"need above size":    func(g *Group) { g.Need = 5 },
		"too many samples":   func(g *Group) { g.Size = MaxSamples + 1 },
		"negative window":    func(g *Group) { g.Sensitivity = -1 },
		"negative ramp":      func(g *Group) { g.Ramp = -1 },
		"negative failures":  func(g *Group) { g.Passive.Failures = -1 },
		"negative drain":     func(g *Group) { g.Drain = -1 },
		"negative time out":  func(g *Group) { g.Passive.Out = -1 },
		"negative limit out": func(g *Group) { g.Passive.MaxOut = -1 },
	} {
		g := ok
		g.Origins = slices.Clone(ok.Origins)
		change(&g)
		if _, err := NewGroup(g); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	full := ok
	full.Origins = slices.Repeat(ok.Origins, MaxOrigins)
	g, err := NewGroup(full)
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(g, 63, 0)
	seen := Origins(0)
	for range MaxOrigins {
		seen |= Only(s.Choose(0, Ask{}).Origin) // all unhealthy: in plain turn
	}
	if seen != s.all() || seen.Len() != MaxOrigins {
		t.Errorf("64 origins in turn: %b", seen)
	}
}

// Each step is told with whom it left out and why, and telling changes nothing.
//
// Covers: E1, C2
func TestExplain(t *testing.T) {
	s := group(t, func(g *Group) { g.Sensitivity = 30 * ms },
		origin{name: "A", latency: 15 * ms}, origin{name: "B", latency: 46 * ms}, origin{name: "C", down: true},
		origin{name: "D", disabled: true}, origin{name: "E", draining: true}, origin{name: "F", priority: 2}, origin{name: "G"})
	s.SetHealth(0, 2, Health{Good: 2, Seen: 4})
	tr := s.Explain(0, Ask{})
	var lines []string
	for _, st := range tr.Steps {
		for _, d := range st.Dropped {
			lines = append(lines, fmt.Sprintf("%s: %s: %s", st.Name, s.group.Origins[d.Origin].Name, d.Why))
		}
	}
	want := []string{
		"enabled: D: disabled",
		"draining: E: draining: no new sessions",
		"healthy: C: 2 of the last 4 probes succeeded; 3 of 4 are needed",
		"priority: F: priority 2; there are origins of priority 1",
		"latency: B: 46ms; the fastest has 15ms, and at most 30ms more is allowed",
		"latency: G: its latency is not known yet",
	}
	if !slices.Equal(lines, want) || tr.Pick.Origin != 0 {
		t.Errorf("%+v\n%s", tr.Pick, strings.Join(lines, "\n"))
	}
	s = group(t, nil, origin{name: "A"}, origin{name: "B"})
	first := s.Explain(0, Ask{}).Pick
	if again := s.Explain(0, Ask{}).Pick; again != first || s.Choose(0, Ask{}) != first {
		t.Errorf("telling of a choice changed it: %+v, %+v", first, again)
	}
}

// The hot path allocates nothing.
//
// Covers: C1-C10
func TestChooseAllocatesNothing(t *testing.T) {
	s := group(t, func(g *Group) { g.Sensitivity, g.Passive = 30*ms, Passive{1, time.Second, time.Second} },
		origin{name: "A", latency: 15 * ms}, origin{name: "B", latency: 30 * ms}, origin{name: "C", down: true}, origin{name: "D", draining: true})
	n := testing.AllocsPerRun(100, func() {
		p := s.Choose(0, Ask{Session: Only(3)})
		s.Choose(0, Ask{Skip: Only(p.Origin)})
		s.Failed(0, p.Origin)
		s.Succeeded(0, p.Origin)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
