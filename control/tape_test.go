package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/control/api"
	"steerpoint/report"
	"steerpoint/spec"
	"steerpoint/steering"
	"steerpoint/steering/steertest"
)

// loadSpec is the loader of steer replay.
func loadSpec(name string, data []byte, points []string) ([]steering.RuleConfig, error) {
	docs, errs := spec.Parse(name, data)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	var all []steering.Point
	for _, p := range points {
		all = append(all, steering.Point{Name: p})
	}
	var rules []steering.RuleConfig
	for i := range docs {
		if docs[i].Service != nil {
			rs, _ := docs[i].Service.RuleConfigs(all)
			rules = append(rules, rs...)
		}
	}
	return rules, nil
}

// replayed runs an exported timeline; nothing that it expects may fail.
func replayed(t *testing.T, text []byte) (*steertest.Timeline, *steertest.Result) {
	t.Helper()
	tl, err := steertest.Parse("export.txtar", text)
	if err != nil {
		t.Fatalf("the export does not parse: %v\n%.4000s", err, text)
	}
	r, err := tl.Run(loadSpec, steertest.Options{})
	if err != nil {
		t.Fatalf("the export does not run: %v", err)
	}
	for i, f := range r.Failures {
		if i < 5 {
			t.Errorf("%s", f)
		}
	}
	if t.Failed() {
		if path := os.Getenv("STEER_KEEP"); path != "" {
			_ = os.WriteFile(path, text, 0o600)
		}
	}
	return tl, r
}

// exported gives the timeline of shop since a time.
func (r *rig) exported(from time.Time) []byte {
	r.t.Helper()
	var b bytes.Buffer
	if err := r.client.Tape(r.t.Context(), "shop", api.TapeParams{From: from}, &b); err != nil {
		r.t.Fatal(err)
	}
	return b.Bytes()
}

// played gives the switches of a replay as lines with wall times; initial decisions are none.
func played(tl *steertest.Timeline, r *steertest.Result) []string {
	var out []string
	for _, s := range r.Switches {
		if s.From != "" {
			out = append(out, fmt.Sprintf("%s %s %s -> %s (%s)", tl.Epoch.Add(time.Duration(s.At)).Format(time.RFC3339Nano), s.Key(), s.From, s.To, s.Cause))
		}
	}
	slices.Sort(out)
	return out
}

// logged gives the switch log in the same form.
func logged(list []api.Switch) []string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%s %s/%s %s -> %s (%s)", s.Time.Format(time.RFC3339Nano), s.Service, s.Rule, s.From, s.To, s.Cause))
	}
	slices.Sort(out)
	return out
}

const hourYAML = `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [shop.example.com]
edges:
  - {name: east, addresses: [192.0.2.1]}
  - {name: west, addresses: [192.0.2.2]}
  - {name: south, addresses: [192.0.2.3, 192.0.2.4]}
rules:
  - name: default
    scope: "*"
    mode: failover
    edges: [east, west, south]
    slowFactor: 3
    probe: {url: "http://shop.example.com/", interval: 10s, timeout: 2s}
  - name: quality
    scope: {cidr: [203.0.113.0/24]}
    mode: quality
    edges: [west, south]
    probe: {url: "http://shop.example.com/health", interval: 5s, timeout: 2s}
  - name: spread
    scope: {cidr: [198.51.100.0/24]}
    mode: weighted
    edges: [west, south, east]
    probe: {url: "http://shop.example.com/", interval: 10s, timeout: 2s}
`

var hourPoints = []steering.Point{{Name: "local"}, {Name: "bj"}, {Name: "sh"}}

func threePoints(cfg *Config, _ *Deps) { cfg.Points = slices.Clone(hourPoints) }

// hour is a rig in which an hour passes, with faults.
type hour struct {
	*rig
	*rand.Rand
	down map[string]bool
	slow map[string]bool
	away string // a point that does not speak
	// starts is how often control was started again.
	starts int
}

// step lets some seconds pass, in which every task is probed at its times, some results a little late.
func (h *hour) step() {
	h.t.Helper()
	h.pass(time.Duration(1+h.IntN(5000)) * time.Millisecond)
	for _, point := range hourPoints {
		h.probe(point.Name)
	}
	h.settle()
}

// probe gives the results of some of a point's tasks. One point is often away.
func (h *hour) probe(point string) {
	probe := h.out.tasks(point)
	if probe == nil || point == h.away {
		return
	}
	for _, task := range probe.Tasks {
		if h.IntN(4) == 0 {
			continue
		}
		o := report.Observation{Task: task.ID, Point: point, OK: !h.down[task.Address], Latency: time.Duration(15+h.IntN(10)) * time.Millisecond}
		if h.slow[task.Address] {
			o.Latency *= 10
		}
		if !o.OK {
			o.Cause, o.Latency = report.CauseTimeout, 0
		}
		if h.IntN(3) == 0 {
			o.Age = time.Duration(h.IntN(3000)) * time.Millisecond
		}
		h.ObserveLocal(o)
	}
}

// fault breaks or mends something, or does what an operator may do.
func (h *hour) fault(hard bool) {
	ctx := h.t.Context()
	addresses := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}
	a := addresses[h.IntN(len(addresses))]
	rules, edges := []string{"shop/default", "shop/quality", "shop/spread"}, []string{"east", "west", "south"}
	rule, edge := rules[h.IntN(3)], edges[h.IntN(3)]
	n := h.IntN(14)
	if !hard {
		n = h.IntN(4)
	}
	var err error
	switch n {
	case 0, 1:
		h.down[a] = !h.down[a]
	case 2:
		h.slow[a] = !h.slow[a]
	case 3:
		clear(h.down)
		clear(h.slow)
		h.away = []string{"", "", "bj", "sh"}[h.IntN(4)]
	case 4:
		_, err = h.client.Force(ctx, api.ForceRequest{Rule: rule, Edge: edge, For: "90s", Reason: "test"})
	case 5:
		_, err = h.client.Unforce(ctx, api.UndoRequest{Target: rule})
	case 6:
		_, err = h.client.Freeze(ctx, api.FreezeRequest{Target: []string{"shop", rule}[h.IntN(2)], For: "2m", Reason: "test"})
	case 7:
		_, err = h.client.Unfreeze(ctx, api.UndoRequest{Target: "shop"})
	case 8:
		_, err = h.client.Drain(ctx, api.DrainRequest{Edge: "shop/" + edge, For: "1m", Reason: "test"})
	case 9:
		_, err = h.client.Undrain(ctx, api.UndoRequest{Edge: "shop/" + edge})
	case 12:
		_, err = h.client.Drain(ctx, api.DrainRequest{Point: "bj", For: "1m", Reason: "test"})
	case 13:
		_, err = h.client.Undrain(ctx, api.UndoRequest{Point: "bj"})
	case 10:
		text := strings.Replace(hourYAML, "edges: [east, west, south]", "edges: ["+[]string{"east, west, south", "west, east", "south, east"}[h.IntN(3)]+"]", 1)
		if h.IntN(3) == 0 {
			i := strings.Index(text, "  - name: quality")
			j := strings.Index(text, "  - name: spread")
			text = text[:i] + text[j:]
		}
		h.apply(zoneYAML, text)
	case 11:
		h.stop()
		h.clocks.pass(time.Duration(1+h.IntN(40)) * time.Second)
		h.starts++
		h.rig = start(h.t, h.dir, h.clocks, threePoints)
		h.await("tasks", func() bool { _, p, _ := h.out.latest(); return p != nil })
	}
	var p *api.Problem
	if err != nil && !errors.As(err, &p) {
		h.t.Fatal(err)
	}
}

// moment is what explain said at a time.
type said struct {
	at time.Time
	q  api.ExplainParams
	x  api.Explanation
}

// explain asks about one of the rules, now or at a time.
func (h *hour) explain(at time.Time, client string) said {
	h.t.Helper()
	s := said{at: at, q: api.ExplainParams{Client: client}}
	s.x = h.ask(s.q)
	return s
}

func (r *rig) ask(q api.ExplainParams) api.Explanation {
	r.t.Helper()
	x, err := r.client.Explain(r.t.Context(), "shop.example.com", q)
	if err != nil {
		r.t.Fatalf("explain %+v: %v", q, err)
	}
	return x
}

// playHour lets an hour pass and gives what explain said at some of its moments.
func playHour(t *testing.T, seed uint64, hard bool) (*hour, []said) {
	h := &hour{rig: start(t, t.TempDir(), nil, threePoints), Rand: rand.New(rand.NewPCG(seed, 7)), down: map[string]bool{}, slow: map[string]bool{}}
	h.apply(zoneYAML, hourYAML)
	h.await("tasks", func() bool { _, p, _ := h.out.latest(); return p != nil && len(p.Tasks) > 0 })
	var told []said
	end := h.clocks.read().Wall.Add(time.Hour)
	for i := 0; h.clocks.read().Wall.Before(end); i++ {
		h.step()
		if i%12 == 6 {
			h.fault(hard)
		}
		if i%90 == 45 || i%90 == 46 {
			wall := h.clocks.read().Wall
			told = append(told, h.explain(wall, []string{"203.0.113.7", "198.51.100.7", "8.8.8.8"}[i%3]))
		}
	}
	return h, told
}

// TestAnHourOnTape plays an hour with faults in virtual time, exports it and replays it: every switch is the one of the switch
// log, at its very instant. What explain says of moments in that hour is what it said then.
//
// Covers: E1, decisions 8, issue4 tape, issue4 explain at
func TestAnHourOnTape(t *testing.T) {
	seeds := []uint64{3}
	if os.Getenv("STEER_LONG") == "1" {
		seeds = []uint64{4, 5}
	}
	for i := range 2 * len(seeds) {
		seed, hard := seeds[i/2], i%2 == 1
		t.Run(fmt.Sprintf("seed=%d operators=%v", seed, hard), func(t *testing.T) {
			h, told := playHour(t, seed, hard)
			tl, r := replayed(t, h.exported(time.Time{}))
			log := h.switchLog()
			// What a start finds changed is in the state that the timeline goes on from; so are several changes at one instant.
			states := 0
			for _, st := range tl.Statements {
				if st.Kind == steertest.KindState {
					states++
					log = slices.DeleteFunc(log, func(s api.Switch) bool { return s.Time.Equal(tl.Epoch.Add(st.At.From)) })
				}
			}
			t.Logf("%d switches, %d states", len(log), states)
			if states > h.starts+5 {
				t.Errorf("%d states on the timeline of %d starts", states, h.starts)
			}
			if d := cmp.Diff(logged(log), played(tl, r)); d != "" || len(log) < 5 {
				t.Errorf("the replay of %d switches differs from the log:\n%s", len(log), d)
			}
			for _, s := range told {
				h.sameStory(s)
			}
			if len(told) < 20 {
				t.Errorf("%d moments", len(told))
			}
		})
	}
}

// switchLog gives all of it, what was decided last too.
func (r *rig) switchLog() []api.Switch {
	r.t.Helper()
	r.written()
	var all []api.Switch
	q := api.SwitchesParams{Limit: 1000}
	for {
		p, err := r.client.Switches(context.Background(), q)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, p.Switches...)
		if q.Cursor = p.Next; p.Next == "" {
			return all
		}
	}
}

// sameStory compares what explain says of a moment with what it said then.
func (h *hour) sameStory(s said) {
	h.t.Helper()
	q := s.q
	q.At = s.at
	x := h.ask(q)
	if x.At == nil || x.Checkpoint == nil || x.Checkpoint.After(s.at) || !strings.Contains(x.Text[0], "from the tape") {
		h.t.Errorf("at %v: %+v", s.at, x.Text[0])
	}
	x.At, x.Checkpoint, x.MapVersion = nil, nil, s.x.MapVersion
	s.x.Status.Pending = false
	s.x.TTLSeconds = x.TTLSeconds
	if want, got := s.x.Text[:len(s.x.Text)-1], x.Text[1:]; !slices.Equal(want, got) {
		h.t.Errorf("at %v:\n%s", s.at, cmp.Diff(want, got))
	}
	s.x.Text, x.Text = nil, nil
	if d := cmp.Diff(s.x, x); d != "" {
		h.t.Errorf("at %v:\n%s", s.at, d)
	}
}

// TestTapeOfFamilies proves that a service whose rules probe other families of the same edges can be exported and replayed.
//
// Covers: issue4 families apart
func TestTapeOfFamilies(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	began := r.clocks.read().Wall
	r.apply(zoneYAML, `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [shop.example.com]
edges:
  - {name: east, addresses: [192.0.2.1, "2001:db8::1"]}
  - {name: vendor, target: shop.cdn.example.net}
rules:
  - {name: default, scope: "*", mode: failover, edges: [east, vendor], probe: {interval: 10s, families: [ipv4]}}
  - {name: six, scope: {country: CN}, mode: failover, edges: [east, vendor], probe: {interval: 10s, families: [ipv6]}}
  - {name: any, scope: {country: JP}, mode: failover, edges: [vendor, east], probe: {interval: 10s}}
`)
	r.await("tasks", func() bool { _, p, _ := r.out.latest(); return p != nil && len(p.Tasks) == 5 })
	_, probe, _ := r.out.latest()
	for i := range 6 { // IPv6 fails after the first look
		r.pass(5 * time.Second)
		for _, task := range probe.Tasks {
			o := report.Observation{Task: task.ID, Point: "local", OK: true, Latency: time.Millisecond}
			if i > 0 && (strings.Contains(task.Address, ":") || task.Family == "ipv6") {
				o = report.Observation{Task: task.ID, Point: "local", Cause: report.CauseTimeout}
			}
			r.ObserveLocal(o)
		}
		r.settle()
	}
	if a, b := r.rule("shop", "default"), r.rule("shop", "six"); a.Edges[0].Verdict != "up" || b.Edges[0].Verdict != "down" {
		t.Fatalf("east is %s by IPv4 and %s by IPv6", a.Edges[0].Verdict, b.Edges[0].Verdict)
	}
	tl, result := replayed(t, r.exported(began))
	if got, log := played(tl, result), r.switchLog(); len(got) != len(log) {
		t.Errorf("replayed %q, logged %+v", got, log)
	}
}

// TestWhatTheTapeDoesNotHave proves that a question about a time or a service that was not recorded gets an answer of its own,
// and that a tape that cannot be kept is an alarm and costs no decision.
//
// Covers: issue4 tape disk full, issue4 explain at
func TestWhatTheTapeDoesNotHave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	began := r.clocks.read().Wall
	explain := func(at time.Time, host string) error {
		_, err := r.client.Explain(t.Context(), host, api.ExplainParams{At: at})
		return err
	}
	p := wantCode(t, "before the tape", explain(began.Add(-time.Hour), "shop.example.com"), 404, api.CodeBeforeTape)
	if !strings.Contains(p.Detail, "it goes back to 2026-01-02T03:04:05Z") {
		t.Errorf("it does not say how far back: %s", p.Detail)
	}
	wantCode(t, "in the future", explain(began.Add(time.Hour), "shop.example.com"), 422, api.CodeBadRequest)
	wantCode(t, "no such host", explain(began, "other.example.com"), 404, api.CodeNotFound)
	tape := func(service string, from, to time.Time) error {
		return r.client.Tape(t.Context(), service, api.TapeParams{From: from, To: to}, new(bytes.Buffer))
	}
	wantCode(t, "no such service", tape("other", time.Time{}, time.Time{}), 404, api.CodeNotFound)
	wantCode(t, "an end before the beginning", tape("shop", began, began.Add(-time.Hour)), 422, api.CodeBadRequest)
	s, err := r.client.Status(t.Context(), api.StatusParams{})
	if err != nil || s.Tape == nil || s.Tape.Oldest == nil || s.Tape.Missing != 0 {
		t.Errorf("status of the tape: %+v, %v", s.Tape, err)
	}
	r.stop()

	// A file stands where the folder should be.
	if err := os.RemoveAll(r.tapeDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.tapeDir(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r = start(t, dir, r.clocks)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	r.down("192.0.2.1", "192.0.2.2")
	r.awaitAnswer("shop", "default", "192.0.2.2")
	s, err = r.client.Status(t.Context(), api.StatusParams{})
	alarmed := slices.ContainsFunc(s.Alarms, func(a api.Alarm) bool {
		return a.Code == api.AlarmTape && strings.Contains(a.Message, "start control again")
	})
	if err != nil || s.Tape != nil || !alarmed {
		t.Errorf("without a tape: %+v, alarms %+v, %v", s.Tape, s.Alarms, err)
	}
	if err := explain(r.clocks.read().Wall, "shop.example.com"); err == nil {
		t.Error("a moment is explained without a tape")
	}
}

const familiesYAML = `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [shop.example.com]
edges:
  - {name: east, target: east.example.net}
  - {name: west, target: west.example.net}
  - {name: both, addresses: [192.0.2.3, "2001:db8::3"]}
rules:
  - name: default
    scope: "*"
    mode: failover
    edges: [east, west, both]
    probe: {url: "http://shop.example.com/", interval: 10s, timeout: 2s}
  - name: apart
    scope: {cidr: [203.0.113.0/24]}
    mode: failover
    edges: [east, west, both]
    probe: {url: "http://shop.example.com/", interval: 10s, timeout: 2s, families: [ipv4, ipv6]}
  - name: six
    scope: {cidr: [198.51.100.0/24]}
    mode: failover
    edges: [both, east, west]
    probe: {url: "http://shop.example.com/", interval: 10s, timeout: 2s, families: [ipv6]}
`

// TestFamiliesOnTape proves that rules of one service that probe it by different families are replayed each from its own
// observations: a name, a family of a name, one of two addresses.
//
// Covers: E1, issue4 tape, issue4 families apart
func TestFamiliesOnTape(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, familiesYAML)
	r.await("tasks", func() bool { _, p, _ := r.out.latest(); return p != nil && len(p.Tasks) > 0 })
	down := map[string]bool{}
	probed := func(rounds int) {
		for range rounds {
			r.pass(2 * time.Second)
			for _, task := range r.out.tasks("local").Tasks {
				o := report.Observation{Task: task.ID, Point: "local", OK: !down[task.Address+task.Family], Latency: 20 * time.Millisecond}
				if !o.OK {
					o.Cause, o.Latency = report.CauseTimeout, 0
				}
				r.ObserveLocal(o)
			}
			r.settle()
		}
	}
	probed(8)
	for _, dead := range []string{"east.example.net", "2001:db8::3", "east.example.netipv6", "east.example.netipv4", "192.0.2.3"} {
		down[dead] = true
		probed(8)
	}
	tl, got := replayed(t, r.exported(time.Time{}))
	r.await("every switch in the log", func() bool { return len(r.switchLog()) >= 4 })
	if d := cmp.Diff(logged(r.switchLog()), played(tl, got)); d != "" || len(got.Switches) != 4 {
		t.Errorf("the replay of %d decisions differs from the log:\n%s", len(got.Switches), d)
	}
}

// TestExplainWhileNothingRan proves that a time at which control did not run is said to be one, and is told by what it had
// decided: nothing ends while nobody evaluates.
//
// Covers: issue4 explain at
func TestExplainWhileNothingRan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	if _, err := r.client.Freeze(t.Context(), api.FreezeRequest{Target: "shop/default", For: "1m", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	r.down("192.0.2.1", "192.0.2.2")
	r.stop()
	r.clocks.pass(2 * time.Minute)
	when := r.clocks.read().Wall
	r.clocks.pass(2 * time.Minute)
	r = start(t, dir, r.clocks)
	x, err := r.client.Explain(t.Context(), "shop.example.com", api.ExplainParams{Client: "192.0.2.7", At: when})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(x.Text, "\n"); !strings.Contains(text, "answers east") || !strings.Contains(text, "it may not have run") {
		t.Errorf("of a time without a process:\n%s", text)
	}
}
