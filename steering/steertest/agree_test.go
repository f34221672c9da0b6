package steertest

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/steering"
)

// snapshot is all that two implementations must agree on after an event.
type snapshot struct {
	now                               steering.Instant
	key, answer                       string
	cause                             steering.Cause
	since, lock                       steering.Instant
	seq                               uint64
	degraded, forced, frozen, allDead bool
	edges                             []edgeView
}

type edgeView struct {
	name      string
	verdict   steering.Verdict
	held      bool
	upSince   steering.Instant
	damped    bool
	addresses string // of an edge with several: verdict and held mark of each
}

func snapshotOf(now steering.Instant, key string, d steering.Decision, m Machine) *snapshot {
	s := &snapshot{
		now: now, key: key, answer: answer(d), cause: d.Cause, since: d.Since, seq: d.Seq, degraded: d.Degraded,
		forced: d.Forced, frozen: d.Frozen, allDead: d.AllDead,
	}
	if locked(d, now) {
		s.lock = d.LockEnd
	}
	for _, e := range m.Status(now).Edges {
		if !e.Enabled {
			continue
		}
		v := edgeView{name: e.Edge, verdict: e.Verdict, held: e.Held, upSince: e.UpSince, damped: e.Damped}
		if len(e.Addresses) > 1 {
			for _, a := range e.Addresses {
				v.addresses += " " + a.Address + "=" + word(a.Verdict)
				if a.Held {
					v.addresses += "/held"
				}
			}
		}
		s.edges = append(s.edges, v)
	}
	slices.SortFunc(s.edges, func(a, b edgeView) int { return strings.Compare(a.name, b.name) })
	return s
}

func (s *snapshot) equal(o *snapshot) bool {
	a, b := *s, *o
	a.edges, b.edges = nil, nil
	return slices.Equal(s.edges, o.edges) && reflect.DeepEqual(a, b)
}

func (s *snapshot) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s cause=%s since=%s seq=%d degraded=%t forced=%t frozen=%t dead=%t locked until %s",
		seconds(s.now), s.key, s.answer, s.cause, seconds(s.since), s.seq, s.degraded, s.forced, s.frozen, s.allDead, seconds(s.lock))
	for _, e := range s.edges {
		fmt.Fprintf(&b, " | %s %s held=%t up=%s damped=%t%s", e.name, word(e.verdict), e.held, seconds(e.upSince), e.damped, e.addresses)
	}
	return b.String()
}

// disagreement runs a timeline on both implementations and says where they part, "" if nowhere.
func disagreement(tl *Timeline) (text string, right *Result) {
	right = &Result{}
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	var want []*snapshot
	trace := func(now steering.Instant, key string, _ Input, d steering.Decision, m Machine) {
		want = append(want, snapshotOf(now, key, d, m))
	}
	ran, err := tl.Run(loadYAML, Options{Machine: newOracle, trace: trace})
	if err != nil {
		return fmt.Sprintf("the second implementation does not run: %v", err), right
	}
	right = ran
	i, parted := 0, ""
	compare := func(now steering.Instant, key string, in Input, d steering.Decision, m Machine) {
		if parted != "" {
			return
		}
		got := snapshotOf(now, key, d, m)
		if i >= len(want) || !got.equal(want[i]) {
			other := "nothing"
			if i < len(want) {
				other = want[i].String()
			}
			parted = fmt.Sprintf("event %d (%s):\n  core   %s\n  second %s\n%s", i, describe(in), got, other, m.Status(now).Why())
		}
		i++
	}
	left, err := tl.Run(loadYAML, Options{Machine: Core, trace: compare})
	if err != nil {
		return fmt.Sprintf("the core does not run: %v", err), right
	}
	for j := range max(len(left.Switches), len(right.Switches)) {
		if j >= len(left.Switches) || j >= len(right.Switches) || left.Switches[j] != right.Switches[j] {
			parted += fmt.Sprintf("\nswitch %d:\n  core   %v\n  second %v", j, at(left.Switches, j), at(right.Switches, j))
			break
		}
	}
	return parted, right
}

func at(s []Switch, i int) string {
	if i < len(s) {
		return s[i].String()
	}
	return "none"
}

func describe(in Input) string {
	switch {
	case in.Observation != nil:
		return fmt.Sprintf("%+v", *in.Observation)
	case in.Force != nil:
		return fmt.Sprintf("force %+v", *in.Force)
	case in.Freeze != nil:
		return fmt.Sprintf("freeze %+v", *in.Freeze)
	}
	return "configure"
}

// shrink makes a timeline on which the implementations disagree as small as it gets.
func shrink(tl *Timeline, bad func(*Timeline) bool) *Timeline {
	best := *tl
	for size := max(1, len(best.Statements)/2); ; {
		removed := false
		for from := 0; from < len(best.Statements); {
			try := best
			try.Statements = slices.Delete(slices.Clone(best.Statements), from, min(from+size, len(best.Statements)))
			if bad(&try) {
				best, removed = try, true
			} else {
				from += size
			}
		}
		if size > 1 {
			size /= 2
		} else if !removed {
			break
		}
	}
	for i := range best.Statements {
		for {
			st := best.Statements[i]
			n := st.At.times()
			if n < 2 {
				break
			}
			late, early := st, st
			early.At.To = st.At.From + time.Duration(n-2)*st.At.Step
			late.At.From += st.At.Step
			shorter := false
			for _, s := range []Statement{early, late} {
				try := best
				try.Statements = slices.Clone(best.Statements)
				try.Statements[i] = s
				if bad(&try) {
					best, shorter = try, true
					break
				}
			}
			if !shorter {
				break
			}
		}
	}
	return &best
}

// timelines is how many random timelines a normal run compares; STEER_TIMELINES sets another number, STEER_LONG=1 means 10,000.
func timelines(t *testing.T) int {
	if text := os.Getenv("STEER_TIMELINES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("STEER_TIMELINES=%q is no number", text)
		}
		return n
	}
	if os.Getenv("STEER_LONG") == "1" {
		return 10_000
	}
	return 1000
}

// seeds runs f over n numbered seeds on every core, from STEER_SEED (1) on.
func seeds(t *testing.T, n int, f func(seed uint64)) {
	first := uint64(1)
	if text := os.Getenv("STEER_SEED"); text != "" {
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("STEER_SEED=%q is no number", text)
		}
	}
	var next atomic.Uint64
	next.Store(first - 1)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed := next.Add(1)
				if seed >= first+uint64(n) {
					return
				}
				f(seed)
			}
		})
	}
	wg.Wait()
}

// TestRandomTimelinesAgree compares the core with the second implementation after every event of random timelines.
//
// Covers: decisions 1, decisions 2, decisions 3, decisions 7, issue2 random-timelines
func TestRandomTimelinesAgree(t *testing.T) {
	n := timelines(t)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // half of the time would go into collecting what the oracle throws away
	var events, switches, failed atomic.Int64
	seeds(t, n, func(seed uint64) {
		tl := generate(seed)
		text, result := disagreement(tl)
		events.Add(int64(result.Events))
		switches.Add(int64(len(result.Switches)))
		if text == "" || failed.Add(1) > 5 {
			return
		}
		small := shrink(tl, func(tl *Timeline) bool { text, _ := disagreement(tl); return text != "" })
		text, _ = disagreement(small)
		t.Errorf("seed %d: %s\n%s", seed, text, small.Format())
	})
	t.Logf("%d random timelines, %d observations, %d decisions; %d timelines disagree", n, events.Load(), switches.Load(), failed.Load())
}
