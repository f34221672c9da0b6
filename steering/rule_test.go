package steering

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"steerpoint/steering/health"
	"steerpoint/steering/quorum"
)

const sec = time.Second

// edgesOf makes enabled edges with one target each.
func edgesOf(names ...string) (out []EdgeConfig) {
	for _, n := range names {
		out = append(out, EdgeConfig{Name: n, Enabled: true, Weight: 50, Addresses: []string{n + ".example.net"}})
	}
	return out
}

// configOf is a rule with the defaults of resources.md but a 10 s interval.
func configOf(mode Mode, points []string, names ...string) RuleConfig {
	return RuleConfig{
		Service: "shop", Name: "default", Scope: "*", Mode: mode, Edges: names, ServiceEdges: edgesOf(names...),
		Lock: 60 * sec, Cooldown: 120 * sec, Interval: 10 * sec, Timeout: 5 * sec, Fall: 3, Rise: 2, Points: points,
	}
}

// feed sends one result of every (point, edge, address) each interval from..to; fail names what fails: "edge",
// "edge@address" or "point:edge".
func feed(r *Rule, from, to time.Duration, latency time.Duration, fail ...string) (events []Event) {
	cfg := r.Config()
	for at := from; at <= to; at += cfg.Interval {
		for _, p := range cfg.Points {
			for _, e := range cfg.ServiceEdges {
				for _, a := range e.Addresses {
					o := Observation{Edge: e.Name, Address: a, Point: p, OK: true, Latency: latency}
					for _, f := range fail {
						if f == e.Name || f == e.Name+"@"+a || f == p+":"+e.Name {
							o.OK, o.Cause = false, "timeout"
						}
					}
					events = append(events, r.Observe(at, o)...)
				}
			}
		}
		events = append(events, r.Advance(at)...)
	}
	return events
}

func decisions(events []Event) (out []string) {
	for _, e := range events {
		if e.Kind == EventDecision {
			out = append(out, fmt.Sprintf("%s %s->%s %s", e.At, e.From, e.To, e.Cause))
		}
	}
	return out
}

func wantDecisions(t *testing.T, events []Event, want ...string) {
	t.Helper()
	if got := decisions(events); strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("decisions:\n got %s\nwant %s", strings.Join(got, "; "), strings.Join(want, "; "))
	}
}

// An edge with two addresses loses one without a switch, and both with one; T0 is when the second began to fail, so
// an ok of the other edge from before that confirms nothing.
//
// Covers: decisions 1, A7
func TestAddressesAreJudgedByThemselves(t *testing.T) {
	cfg := configOf(ModeFailover, []string{"p1", "p2", "p3"}, "a", "b")
	cfg.ServiceEdges[0].Addresses = []string{"192.0.2.1", "192.0.2.2"}
	r := NewRule(cfg)
	events := feed(r, 0, 300*sec, 30*time.Millisecond)
	events = append(events, feed(r, 310*sec, 900*sec, 30*time.Millisecond, "a@192.0.2.1")...)
	wantDecisions(t, events, "0s ->a initial")
	s := r.Status(900 * sec)[0]
	if s.Verdict != Up || s.Addresses[0].Verdict != Down || s.Addresses[1].Verdict != Up {
		t.Fatalf("edge %s, addresses %s %s; want up, down, up", s.Verdict, s.Addresses[0].Verdict, s.Addresses[1].Verdict)
	}
	events = feed(r, 910*sec, 1000*sec, 30*time.Millisecond, "a")
	wantDecisions(t, events, "15m30s a->b down")
	for _, e := range events {
		if e.Kind == EventDecision && e.Detection != 20*sec {
			t.Errorf("detection took %s, want 20s: from the second address's first failure", e.Detection)
		}
	}
}

// Covers: A8, decisions 3
func TestFreezeStopsMovesAndSaysWhatWouldMove(t *testing.T) {
	r := NewRule(configOf(ModeFailover, []string{"p"}, "a", "b"))
	events := feed(r, 0, 100*sec, 30*time.Millisecond)
	events = append(events, r.Freeze(105*sec, 300*sec)...)
	events = append(events, feed(r, 110*sec, 290*sec, 30*time.Millisecond, "a")...)
	wantDecisions(t, events, "0s ->a initial")
	d := r.Decision()
	if !d.Frozen || !d.Degraded || !strings.Contains(d.Held, "b") || !strings.Contains(d.Held, "down") {
		t.Errorf("frozen %v degraded %v held %q; want both and what would move", d.Frozen, d.Degraded, d.Held)
	}
	wantDecisions(t, feed(r, 300*sec, 310*sec, 30*time.Millisecond, "a"), "5m0s a->b down")
	if d := r.Decision(); d.Frozen || d.Held != "" {
		t.Errorf("still frozen %v, held %q", d.Frozen, d.Held)
	}
}

// Covers: field 18, decisions 3
func TestFallbackIsEnteredAndLeft(t *testing.T) {
	cfg := configOf(ModeFailover, []string{"p"}, "a", "b")
	cfg.AllDown, cfg.Fallback = AllDownFallback, "sorry.example.net"
	r := NewRule(cfg)
	events := feed(r, 0, 50*sec, 30*time.Millisecond)
	events = append(events, feed(r, 60*sec, 200*sec, 30*time.Millisecond, "a", "b")...)
	events = append(events, feed(r, 210*sec, 260*sec, 30*time.Millisecond, "a")...)
	wantDecisions(t, events, "0s ->a initial", "1m20s a->fallback:sorry.example.net fallback", "3m40s fallback:sorry.example.net->b fallback")
}

// Covers: decisions 3
func TestFrozenRuleEntersNoFallback(t *testing.T) {
	cfg := configOf(ModeFailover, []string{"p"}, "a", "b")
	cfg.AllDown, cfg.Fallback = AllDownFallback, "sorry.example.net"
	r := NewRule(cfg)
	feed(r, 0, 20*sec, 30*time.Millisecond)
	r.Freeze(21*sec, 0)
	events := feed(r, 30*sec, 50*sec, 0, "a", "b")
	d := r.Decision()
	if d.Edge != "a" || !d.AllDead || d.AllDown != AllDownHold || d.Held == "" {
		t.Errorf("%+v", d)
	}
	for _, e := range events {
		if e.Kind == EventAllDown && !strings.HasSuffix(e.Reason, "the answer is held") {
			t.Errorf("told: %s", e.Reason)
		}
	}
}

// Covers: field 18, decisions 3
func TestAllDownIsMarkedAndHolds(t *testing.T) {
	for _, all := range []AllDown{AllDownHold, AllDownAll, AllDownFirst, AllDownEmpty} {
		cfg := configOf(ModeQuality, []string{"p"}, "a", "b")
		cfg.AllDown = all
		r := NewRule(cfg)
		events := feed(r, 0, 50*sec, 30*time.Millisecond)
		events = append(events, feed(r, 60*sec, 100*sec, 30*time.Millisecond, "a", "b")...)
		wantDecisions(t, events, "0s ->a initial")
		if d := r.Decision(); d.Edge != "a" || !d.Degraded || !d.AllDead || d.AllDown != all {
			t.Errorf("whenAllDown %s: %+v", all, d)
		}
	}
}

// Covers: decisions 3
func TestWeightedSet(t *testing.T) {
	r := NewRule(configOf(ModeWeighted, []string{"p"}, "a", "b", "c"))
	events := feed(r, 0, 50*sec, 30*time.Millisecond)
	events = append(events, feed(r, 60*sec, 100*sec, 30*time.Millisecond, "b")...)
	events = append(events, feed(r, 110*sec, 300*sec, 30*time.Millisecond)...)
	wantDecisions(t, events, "0s ->a,b,c initial", "1m20s a,b,c->a,c down", "4m0s a,c->a,b,c recovered")
	events = feed(r, 310*sec, 400*sec, 30*time.Millisecond, "a", "b", "c")
	if d := r.Decision(); len(d.Set) == 0 || !d.Degraded {
		t.Errorf("every member down: set %v degraded %v; want a set, held", d.Set, d.Degraded)
	}
	for _, e := range events {
		if e.Kind == EventDecision && e.To == "" {
			t.Error("the set went empty")
		}
	}
}

// A schedule follows local wall time through a shift of daylight saving time.
//
// Covers: decisions 3
func TestScheduleFollowsLocalTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	cfg := configOf(ModeFailover, []string{"p"}, "a", "b")
	w := Window{From: 1 * time.Hour, To: 5 * time.Hour, Zone: berlin, Edges: []string{"b"}}
	for i := range w.Days {
		w.Days[i] = true
	}
	cfg.Schedule = []Window{w}
	r := NewRule(cfg)
	// Midnight UTC of the night in which clocks go from 2:00 to 3:00: it is 1:00 in Berlin, the window lasts 3 h.
	r.SetWall(0, time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC))
	events := feed(r, 0, 30*time.Hour, 30*time.Millisecond)
	wantDecisions(t, events, "0s ->b initial", "3h0m0s b->a schedule", "23h0m0s a->b schedule", "27h0m0s b->a schedule")
}

// Covers: decisions 3
func TestScheduleDoesNotMoveAFrozenRule(t *testing.T) {
	cfg := configOf(ModeFailover, []string{"p"}, "a", "b")
	w := Window{From: time.Hour, To: 2 * time.Hour, Zone: time.UTC, Edges: []string{"b"}}
	w.Days[time.Thursday] = true
	cfg.Schedule = []Window{w}
	r := NewRule(cfg)
	r.SetWall(0, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) // a Thursday
	events := feed(r, 0, time.Minute, 30*time.Millisecond)
	events = append(events, r.Freeze(time.Minute, 90*time.Minute)...)
	events = append(events, feed(r, 70*sec, 70*time.Minute, 30*time.Millisecond)...)
	if d := r.Decision(); !strings.Contains(d.Held, "[b]") {
		t.Errorf("held %q does not say what the schedule would do", d.Held)
	}
	events = append(events, feed(r, 4210*sec, 3*time.Hour, 30*time.Millisecond)...)
	wantDecisions(t, events, "0s ->a initial", "1h30m0s a->b schedule", "2h0m0s b->a schedule")
}

// What nobody listened to is no silence: after a gap nothing moves, and a cool-down goes on where it was.
//
// Covers: A2, field 12
func TestRestoreAfterAGap(t *testing.T) {
	cfg := configOf(ModeFailover, []string{"p"}, "a", "b")
	r := NewRule(cfg)
	feed(r, 0, 50*sec, 30*time.Millisecond)
	feed(r, 60*sec, 80*sec, 30*time.Millisecond, "a") // down at 80 s
	feed(r, 90*sec, 150*sec, 30*time.Millisecond)     // up at 100 s, well for 50 s
	blob, err := json.Marshal(r.State())
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := json.Unmarshal(blob, &s); err != nil {
		t.Fatal(err)
	}
	const gap = 10 * time.Minute
	again, err := RestoreRule(cfg, s, 150*sec+gap)
	if err != nil {
		t.Fatal(err)
	}
	events := again.Advance(150*sec + gap)
	if len(events) != 0 {
		t.Errorf("the restart itself caused %v", events)
	}
	st := again.Status(150*sec + gap)[0]
	if st.Verdict != Up || st.Held {
		t.Errorf("edge a is %s held %v after the gap, want up", st.Verdict, st.Held)
	}
	wantDecisions(t, feed(again, 160*sec+gap, 300*sec+gap, 30*time.Millisecond), "13m40s b->a recovered") // 100 s + 120 s + gap
	if d := again.Decision(); d.Seq != 3 {
		t.Errorf("seq %d after three decisions", d.Seq)
	}
}

func TestRestoreRefusesForeignState(t *testing.T) {
	cfg := configOf(ModeFailover, []string{"p"}, "a")
	good := NewRule(cfg).State()
	for name, spoil := range map[string]func(*State){
		"format": func(s *State) { s.Format = 99 },
		"rule":   func(s *State) { s.Rule = "other/rule" },
		"points": func(s *State) { s.Edges[0].Addresses[0].Points = nil },
		"marks":  func(s *State) { s.Suspended = nil },
	} {
		s := good
		s.Edges = []EdgeSaved{{Name: "a", Addresses: []AddressSaved{{Name: "x", Points: make([]PointSaved, 1)}}}}
		spoil(&s)
		if _, err := RestoreRule(cfg, s, 0); err == nil {
			t.Errorf("a state with a wrong %s was taken", name)
		}
	}
}

// Only an open failure run, lock, cool-down or dwell shortens the TTL.
//
// Covers: decisions 3, A8
func TestSoonestChange(t *testing.T) {
	r := NewRule(configOf(ModeFailover, []string{"p"}, "a", "b"))
	feed(r, 0, 100*sec, 30*time.Millisecond)
	if d := r.Decision(); d.Soonest != 0 {
		t.Errorf("all is well, yet the answer could change at %s", d.Soonest)
	}
	feed(r, 110*sec, 110*sec, 30*time.Millisecond, "a")
	if d := r.Decision(); d.Soonest != 112*sec {
		t.Errorf("one failure of three: soonest %s, want 112s", d.Soonest)
	}
	feed(r, 120*sec, 130*sec, 30*time.Millisecond, "a") // switched at 130 s
	feed(r, 140*sec, 150*sec, 30*time.Millisecond)      // a is up again at 150 s
	if d := r.Decision(); d.Edge != "b" || d.Soonest != 270*sec {
		t.Errorf("answers %s, soonest %s; want b and the end of the cool-down at 270s", d.Edge, d.Soonest)
	}
}

// Covers: E1
func TestReasonsNameWhoSawWhat(t *testing.T) {
	r := NewRule(configOf(ModeFailover, []string{"bj", "sh", "gz"}, "a", "b"))
	feed(r, 0, 50*sec, 30*time.Millisecond)
	events := feed(r, 60*sec, 80*sec, 30*time.Millisecond, "bj:a", "sh:a")
	for _, e := range events {
		if e.Kind == EventDecision {
			for _, want := range []string{"a is down", "bj (timeout", "sh (timeout", "b is up"} {
				if !strings.Contains(e.Reason, want) {
					t.Errorf("reason %q does not say %q", e.Reason, want)
				}
			}
			if len(e.Votes) != 3 || e.Votes[2].State != Up {
				t.Errorf("votes %+v: want three, gz up", e.Votes)
			}
			if text := r.Describe(80 * sec); !strings.Contains(text, "locked until") || !strings.Contains(text, "failing since 1m0s") {
				t.Errorf("description says too little:\n%s", text)
			}
			return
		}
	}
	t.Fatal("no switch")
}

// The words of a state are one everywhere: verdicts of quorum and states of health are converted by number.
func TestVerdictNumbersAgree(t *testing.T) {
	if Verdict(quorum.Up) != Up || Verdict(quorum.Down) != Down || Verdict(quorum.Unknown) != Unknown {
		t.Error("quorum counts verdicts otherwise")
	}
	if Verdict(health.Up) != Up || Verdict(health.Down) != Down || Verdict(health.Unknown) != Unknown {
		t.Error("health counts states otherwise")
	}
}

// steady is a rule in steady state and a function that gives it its next observation.
func steady(mode Mode) (*Rule, func()) {
	points := []string{"p1", "p2", "p3"}
	r := NewRule(configOf(mode, points, "a", "b", "c"))
	now, i := time.Duration(0), 0
	next := func() {
		e := r.cfg.ServiceEdges[i%3]
		r.Observe(now, Observation{Edge: e.Name, Address: e.Addresses[0], Point: points[i/3%3], OK: true, Latency: 30 * time.Millisecond})
		i++
		now += r.cfg.Interval / 9
	}
	for range 2000 {
		next()
	}
	return r, next
}

// Covers: issue2 speed-evaluation
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, mode := range []Mode{ModeFixed, ModeFailover, ModeQuality, ModeWeighted} {
		_, next := steady(mode)
		if n := testing.AllocsPerRun(5000, next); n != 0 {
			t.Errorf("%s: %v allocations per observation", mode, n)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, mode := range []Mode{ModeFailover, ModeQuality, ModeWeighted} {
		b.Run(mode.String(), func(b *testing.B) {
			_, next := steady(mode)
			b.ReportAllocs()
			for b.Loop() {
				next()
			}
		})
	}
}
