package steertest

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steerpoint/steering"
)

// operations decodes bytes into calls on a rule and checks after each what must always hold.
type operations struct {
	t    *testing.T
	data []byte
	now  steering.Instant
	cfg  steering.RuleConfig

	rule, punctual *steering.Rule // the second is evaluated at every instant it announces, before each call
	verdicts       map[string]steering.Verdict
	newestOK       map[string]steering.Instant
	answer         string
	decisions      uint64
	lastSwitch     steering.Instant
	switched       bool
	forced         string
	forcedUntil    steering.Instant
	frozen         bool
	frozenUntil    steering.Instant
}

var operationEpoch = time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC)

// next takes a byte and brings it below n; 0 when there are none left.
func (o *operations) next(n int) int {
	if len(o.data) == 0 {
		return 0
	}
	b := o.data[0]
	o.data = o.data[1:]
	return int(b) % n
}

// config decodes a configuration of one rule over four edges, one of them with two addresses.
func (o *operations) config() steering.RuleConfig {
	names := []string{"a", "b", "c", "d"}
	cfg := steering.RuleConfig{
		Service: "s", Name: "r", Scope: "*", Mode: steering.Mode(1 + o.next(4)), Points: []string{"p", "q", "r"}[:1+o.next(3)],
		Lock: []time.Duration{5, 30, 90}[o.next(3)] * time.Second, Cooldown: []time.Duration{10, 60}[o.next(2)] * time.Second,
		Interval: []time.Duration{5, 10}[o.next(2)] * time.Second, Timeout: 2 * time.Second, Fall: 1 + o.next(3), Rise: 1 + o.next(2),
		SlowMilli: []int64{0, 2000}[o.next(2)], AllDown: steering.AllDown(o.next(5)), Fallback: "last.example.net",
	}
	off := o.next(16)
	for i, name := range names {
		e := steering.EdgeConfig{Name: name, Enabled: off&(1<<i) == 0 || off == 15, Weight: 50, Addresses: []string{name + ".example.net"}}
		if name == "d" {
			e.Addresses = []string{"192.0.2.1", "192.0.2.2"}
		}
		cfg.ServiceEdges = append(cfg.ServiceEdges, e)
	}
	for i := range 1 + o.next(4) {
		if name := names[(i+o.next(4))%4]; !slices.Contains(cfg.Edges, name) {
			cfg.Edges = append(cfg.Edges, name)
		}
	}
	if o.next(4) == 0 {
		cfg.Schedule = []steering.Window{{
			Days: [7]bool{true, true, true, true, true, true, true}, From: 0, To: time.Hour, Zone: time.UTC, Edges: names[o.next(4):],
		}}
	}
	return cfg
}

func (o *operations) run() {
	o.cfg = o.config()
	o.start()
	for range 400 {
		if len(o.data) == 0 || o.t.Failed() {
			return
		}
		o.step()
	}
}

func (o *operations) start() {
	o.rule, o.punctual = steering.NewRule(o.cfg), steering.NewRule(o.cfg)
	o.rule.SetWall(0, operationEpoch)
	o.punctual.SetWall(0, operationEpoch)
	o.verdicts, o.newestOK = map[string]steering.Verdict{}, map[string]steering.Instant{}
	o.call(func(r *steering.Rule) []steering.Event { return r.Advance(0) })
}

// step decodes one operation and carries it out.
func (o *operations) step() {
	o.now += []time.Duration{0, 0, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, time.Minute, 20 * time.Minute}[o.next(8)]
	switch op := o.next(16); op {
	default:
		o.observe()
	case 0:
		o.call(func(r *steering.Rule) []steering.Event { return r.Advance(o.now) })
	case 1:
		cfg := o.config()
		o.pass(o.now)
		o.cfg = cfg
		o.forget()
		o.call(func(r *steering.Rule) []steering.Event { return r.Configure(o.now, cfg) })
	case 2:
		edge := o.cfg.ServiceEdges[o.next(4)]
		if !edge.Enabled {
			edge.Name = ""
		}
		o.forced, o.forcedUntil = edge.Name, o.until()
		o.call(func(r *steering.Rule) []steering.Event { return r.Force(o.now, o.forced, o.forcedUntil) })
	case 3:
		o.pass(o.now)
		o.frozen, o.frozenUntil = true, o.until()
		if o.next(3) == 0 {
			o.frozen, o.frozenUntil = false, -1
		}
		o.call(func(r *steering.Rule) []steering.Event { return r.Freeze(o.now, o.frozenUntil) })
	case 4:
		o.restart()
	}
}

func (o *operations) until() steering.Instant {
	return []steering.Instant{0, o.now + 30*time.Second, o.now + time.Second}[o.next(3)]
}

func (o *operations) observe() {
	e := o.cfg.ServiceEdges[o.next(4)]
	in := steering.Observation{Edge: e.Name, Address: e.Addresses[o.next(len(e.Addresses))], Point: o.cfg.Points[o.next(len(o.cfg.Points))]}
	switch o.next(5) {
	case 0, 1:
		in.Cause = "timeout"
	case 2:
		in.OK, in.Latency = true, 300*time.Millisecond
	default:
		in.OK, in.Latency = true, time.Duration(20+10*o.next(4))*time.Millisecond
	}
	if in.OK {
		o.newestOK[e.Name] = o.now
	}
	o.call(func(r *steering.Rule) []steering.Event { return r.Observe(o.now, in) })
}

// forget drops what the core must have forgotten: edges that left or were disabled.
func (o *operations) forget() {
	in := o.participants()
	for _, e := range o.cfg.ServiceEdges {
		if !slices.Contains(in, e.Name) {
			delete(o.verdicts, e.Name)
			delete(o.newestOK, e.Name)
			if o.forced == e.Name && !e.Enabled {
				o.forced = ""
			}
		}
	}
}

// participants are the enabled edges the rule or its schedule names.
func (o *operations) participants() (in []string) {
	for _, e := range o.cfg.ServiceEdges {
		named := slices.Contains(o.cfg.Edges, e.Name)
		for _, w := range o.cfg.Schedule {
			named = named || slices.Contains(w.Edges, e.Name)
		}
		if named && e.Enabled {
			in = append(in, e.Name)
		}
	}
	return in
}

// pass lets both rules evaluate what they announced before now.
func (o *operations) pass(now steering.Instant) {
	for next := o.rule.Decision().Next; next != 0 && next < now; next = o.rule.Decision().Next {
		o.check(o.rule.Advance(next))
	}
	for next := o.punctual.Decision().Next; next != 0 && next < now; next = o.punctual.Decision().Next {
		o.punctual.Advance(next)
	}
}

// call makes one call on both rules and checks everything.
func (o *operations) call(f func(*steering.Rule) []steering.Event) {
	for next := o.punctual.Decision().Next; next != 0 && next < o.now; next = o.punctual.Decision().Next {
		o.punctual.Advance(next)
	}
	f(o.punctual)
	o.check(f(o.rule))
	d := o.rule.Decision()
	if diff := cmp.Diff(o.punctual.Decision(), d); diff != "" {
		o.t.Errorf("at %s a late caller (+) gets what a punctual one (-) does not:\n%s", o.now, diff)
	}
	o.checkDecision(d)
	for _, e := range o.rule.Status(o.now) {
		if e.Enabled && e.Verdict != o.verdicts[e.Edge] {
			o.t.Errorf("at %s the verdict of %s is %s, the events told of %s", o.now, e.Edge, word(e.Verdict), word(o.verdicts[e.Edge]))
		}
	}
}

func (o *operations) checkDecision(d steering.Decision) {
	if d.Seq != o.decisions {
		o.t.Errorf("at %s the decision has number %d after %d decision events", o.now, d.Seq, o.decisions)
	}
	// An expiry that falls on now is due only when all observations of now are in, so now itself may be announced.
	if d.Next != 0 && d.Next < o.now {
		o.t.Errorf("at %s the next possible change is announced for %s", o.now, d.Next)
	}
	active := o.forced != "" && (o.forcedUntil == 0 || o.now < o.forcedUntil)
	// A call that tells the rule nothing new at the very instant the force ends leaves the end to the Advance announced for it.
	if o.now != o.forcedUntil && active != d.Forced || active && (answer(d) != o.forced || d.Degraded) {
		o.t.Errorf("at %s forced=%t degraded=%t on %q, want forced=%t on %q", o.now, d.Forced, d.Degraded, answer(d), active, o.forced)
	}
	in := o.participants()
	if len(in) == 0 || d.Forced || d.Frozen {
		return
	}
	if answer(d) == "" && len(o.scheduledNone()) == 0 {
		o.t.Errorf("at %s nothing is answered", o.now)
	}
	fallback, ok := strings.CutPrefix(answer(d), "fallback:")
	if ok {
		// A rule with nothing to choose from holds what it had, a fallback too.
		if len(o.scheduledNone()) == 0 && (o.cfg.AllDown != steering.AllDownFallback || fallback != o.cfg.Fallback) {
			o.t.Errorf("at %s the answer is %q, which nobody configured", o.now, answer(d))
		}
		return
	}
	for e := range strings.SplitSeq(answer(d), ",") {
		if !slices.Contains(in, e) && len(o.scheduledNone()) == 0 {
			o.t.Errorf("at %s the answer %q has %s, which is not an enabled edge of the rule", o.now, answer(d), e)
		}
	}
}

// scheduledNone names the lists, of the rule and its windows, in which no edge is enabled: under these nothing can move.
func (o *operations) scheduledNone() (none []string) {
	lists := [][]string{o.cfg.Edges}
	for _, w := range o.cfg.Schedule {
		lists = append(lists, w.Edges)
	}
	for _, list := range lists {
		if !slices.ContainsFunc(list, func(e string) bool { return slices.Contains(o.participants(), e) }) {
			none = append(none, strings.Join(list, ","))
		}
	}
	return none
}

// check goes through the events of one call.
func (o *operations) check(events []steering.Event) {
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case steering.EventVerdict:
			o.verdicts[e.Edge] = e.VerdictTo
		case steering.EventDecision:
			o.checkMove(e)
		}
		if e.Reason == "" {
			o.t.Errorf("at %s an event of kind %d gives no reason", e.At, e.Kind)
		}
	}
}

func sortedSet(answer string) []string {
	set := strings.Split(answer, ",")
	slices.Sort(set)
	return set
}

func (o *operations) checkMove(e *steering.Event) {
	o.decisions++
	if !slices.Equal(sortedSet(e.From), sortedSet(o.answer)) {
		o.t.Errorf("at %s a move from %q, but the answer was %q", e.At, e.From, o.answer)
	}
	if slices.Equal(sortedSet(e.From), sortedSet(e.To)) || e.To == "" {
		o.t.Errorf("at %s a move from %q to %q", e.At, e.From, e.To)
	}
	o.answer = e.To
	frozen := o.frozen && (o.frozenUntil == 0 || e.At < o.frozenUntil)
	switch e.Cause {
	case steering.CauseInitial:
		if e.From != "" {
			o.t.Errorf("at %s the initial decision comes from %q", e.At, e.From)
		}
		return
	case steering.CauseConfig, steering.CauseForced:
		frozen = false
	case steering.CauseRecovered, steering.CauseFaster, steering.CauseAvailability:
		if end := o.lastSwitch + o.cfg.Lock; o.switched && e.At < end && o.cfg.Mode != steering.ModeFixed {
			o.t.Errorf("at %s a voluntary move %q -> %q, cause %s, under a lock until %s", e.At, e.From, e.To, e.Cause, end)
		}
	case steering.CauseDown, steering.CauseSlow:
		o.checkFailover(e)
	}
	if frozen {
		o.t.Errorf("at %s a move %q -> %q, cause %s, under a freeze", e.At, e.From, e.To, e.Cause)
	}
	probed := []steering.Cause{
		steering.CauseDown, steering.CauseSlow, steering.CauseFaster, steering.CauseAvailability, steering.CauseFallback,
	}
	if o.cfg.Mode == steering.ModeFixed && slices.Contains(probed, e.Cause) {
		o.t.Errorf("at %s probes moved a fixed rule: %q -> %q, cause %s", e.At, e.From, e.To, e.Cause)
	}
	o.switched, o.lastSwitch = true, e.At
}

// checkFailover: the edges a failure sends everyone to are up, and were seen well after the failure began.
func (o *operations) checkFailover(e *steering.Event) {
	// T0 is set anew only while every address of the edge that was left has a point voting it down.
	began, failing := steering.Instant(0), map[string]bool{}
	for _, v := range e.Votes {
		failing[v.Address] = failing[v.Address] || v.State == steering.Down && !v.Suspended
		if v.State == steering.Down && !v.Suspended && (began == 0 || v.Since < began) {
			began = v.Since
		}
	}
	for _, voted := range failing {
		if !voted {
			began = 0
		}
	}
	if o.cfg.Mode == steering.ModeWeighted && len(sortedSet(e.To)) < len(sortedSet(e.From)) {
		return // the rest of a set that lost a member: nobody was sent anywhere new
	}
	for to := range strings.SplitSeq(e.To, ",") {
		if o.verdicts[to] != steering.Up {
			o.t.Errorf("at %s %q failed over to %s, which is %s", e.At, e.From, to, word(o.verdicts[to]))
		}
		if began > 0 && o.newestOK[to] <= began {
			o.t.Errorf("at %s %q failed over to %s, last seen well at %s, before the failure began at %s", e.At, e.From, to, o.newestOK[to], began)
		}
	}
}

// restart saves and loads the rule; it must be the same rule.
func (o *operations) restart() {
	o.pass(o.now)
	text, err := json.Marshal(o.rule.State())
	if err != nil {
		o.t.Fatalf("save: %v", err)
	}
	var saved steering.State
	if err := json.Unmarshal(text, &saved); err != nil {
		o.t.Fatalf("load: %v", err)
	}
	again, err := steering.RestoreRule(o.cfg, saved, saved.At)
	if err != nil {
		o.t.Fatalf("restore: %v", err)
	}
	again.SetWall(0, operationEpoch)
	later, err := json.Marshal(again.State())
	if err != nil {
		o.t.Fatalf("save again: %v", err)
	}
	if diff := cmp.Diff(string(text), string(later)); diff != "" {
		o.t.Errorf("at %s a restored rule saves another state:\n%s", o.now, diff)
	}
	was, is := o.rule.Status(o.now), again.Status(o.now)
	if diff := cmp.Diff(was, is, cmpopts.EquateEmpty()); diff != "" {
		o.t.Errorf("at %s a restored rule has another status:\n%s", o.now, diff)
	}
	o.rule = again
	o.call(func(r *steering.Rule) []steering.Event { return r.Advance(o.now) })
}

// FuzzOperations: any sequence of observations, edits, overrides and restarts keeps the promises of the decision rules.
//
// Covers: B4, A8, decisions 1, decisions 2, decisions 3, decisions 7, issue2 fuzz-operations
func FuzzOperations(f *testing.F) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 4))
		data := make([]byte, 200+r.IntN(1500))
		for i := range data {
			data[i] = byte(r.UintN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &operations{t: t, data: data}
		o.run()
	})
}
