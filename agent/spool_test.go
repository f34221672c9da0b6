package agent

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/wire"
)

func seen(task string, ok bool) report.Observation {
	return report.Observation{Task: task, Point: "tokyo", OK: ok}
}

// probing starts a probe point whose stream stands.
func probing(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, RoleProbe)
	r.member(RoleProbe)
	r.control.set(func() { r.control.probe = standingProbe(wire.ProbeUpdate{Full: tasks(1)}) })
	return r
}

// An observation is shipped 100 ms after it came, with those of the meantime; 500 are shipped at once. Each says how
// old it is at that moment.
// Covers: A7, issue3 observations
func TestBatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := probing(t)
		r.open()
		r.run()
		after(time.Second)
		r.agent.Observe(report.Observation{Task: "a", OK: true, Age: 7 * ms})
		after(60 * ms)
		r.agent.Observe(seen("b", true))
		after(time.Second)
		if got := r.control.times("observe"); !slices.Equal(got, []time.Duration{1100 * ms}) {
			t.Fatalf("shipped at %v, want once, at 1.1s", got)
		}
		got := r.control.heard().batches[r.control.heard().order[0]]
		if len(got) != 2 || got[0].Age != 107*ms || got[1].Age != 40*ms {
			t.Errorf("shipped %+v, want ages of 107 ms and 40 ms", got)
		}
		for i := range 1200 {
			r.agent.Observe(seen(fmt.Sprint(i), true))
		}
		after(time.Second)
		var sizes []int
		for _, id := range r.control.heard().order[1:] {
			sizes = append(sizes, len(r.control.heard().batches[id]))
		}
		at := since(r.control.times("observe"), 2*time.Second)
		if !slices.Equal(sizes, []int{500, 500, 200}) || at[0] != 60*ms || at[1] != 60*ms {
			t.Errorf("batches of %v at %v, want 500 and 500 at once, and 200", sizes, at)
		}
		if waiting, shipped, dropped := r.agent.spool.counts(); waiting != 0 || shipped != 1202 || dropped != 0 {
			t.Errorf("waiting %d, shipped %d, dropped %d", waiting, shipped, dropped)
		}
		r.stop()
	})
}

// While control is away observations are kept, each try says their age anew, and the same batch keeps its ID. When a
// stream stands again they go up at once. What does not fit is dropped, the oldest first, and counted.
// Covers: A2, A7, issue3 spool
func TestControlAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := probing(t)
		r.cfg.Spool = 1000
		var away atomic.Bool
		away.Store(true)
		r.control.up = func(string) error {
			if away.Load() {
				return errAway
			}
			return nil
		}
		r.control.set(func() { r.control.probe = nil })
		r.open()
		r.run()
		after(time.Second)
		r.agent.Observe(seen("first", true))
		after(time.Minute)
		for i := range 2000 {
			r.agent.Observe(seen(fmt.Sprint(i), true))
		}
		if waiting, _, dropped := r.agent.spool.counts(); waiting != 1000 || dropped != 1001 {
			t.Errorf("waiting %d, dropped %d; want 1000 and 1001", waiting, dropped)
		}
		id := r.control.heard().order[0]
		for _, again := range r.control.heard().order {
			if again != id {
				t.Fatal("the batch under way got another ID")
			}
		}
		if got := r.control.heard().batches[id]; len(got) != 1 || got[0].Age < 55*time.Second {
			t.Errorf("after a minute: %+v, want the first observation, and its age", got)
		}
		away.Store(false)
		r.control.set(func() { r.control.probe = standingProbe(wire.ProbeUpdate{Full: tasks(1)}) })
		start := time.Since(r.control.start)
		after(5 * time.Second)
		back := since(r.control.times("probe"), start)
		sent := since(r.control.times("observe"), start)
		if len(sent) != 3 || sent[1] > back[0] || sent[2] > back[0]+100*ms { // the last is not a full one
			t.Errorf("the stream stood again at %v, the rest was shipped at %v", back, sent)
		}
		last := r.control.heard().batches[r.control.heard().order[len(r.control.heard().order)-1]]
		if got := last[len(last)-1]; got.Task != "1999" {
			t.Errorf("the newest is %+v: the oldest are to be dropped", got)
		}
		r.stop()
	})
}

// With more waiting than one batch takes, failures and changes go first, and the observations of one task stay in
// their order.
// Covers: A7, issue3 observations
func TestUrgentFirst(t *testing.T) {
	s := newSpool(10_000)
	s.add(seen("flaps", true))
	for i := range 2000 {
		s.add(seen(fmt.Sprint(i), true))
	}
	s.add(seen("down", false))
	s.add(seen("flaps", false))
	s.add(seen("flaps", true))
	s.add(seen("up", true)) // known for the first time: nothing that changed
	_, got := s.next()
	var first []string
	for _, o := range got[:4] {
		first = append(first, fmt.Sprint(o.Task, o.OK))
	}
	if want := []string{"flapstrue", "downfalse", "flapsfalse", "flapstrue"}; !slices.Equal(first, want) {
		t.Errorf("first %v, want %v", first, want)
	}
	total, order := 0, map[string]int{}
	for len(got) > 0 {
		for _, o := range got {
			order[o.Task]++
		}
		total += len(got)
		s.done()
		_, got = s.next()
	}
	if total != 2005 || order["flaps"] != 3 || order["up"] != 1 {
		t.Errorf("%d observations came out of 2005, flaps %d times", total, order["flaps"])
	}
}

// A batch that control will never take is dropped, counted and told; one it cannot take now is not.
// Covers: A2, issue3 observations
func TestRefusedBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := probing(t)
		answer := func(err error) {
			r.control.set(func() {
				r.control.up = func(call string) error {
					if call == "observe" {
						return err
					}
					return nil
				}
			})
		}
		answer(pki.Refuse(pki.Busy, "too much at once", ""))
		r.open()
		r.run()
		r.agent.Observe(seen("a", false))
		after(10 * time.Second)
		if waiting, _, dropped := r.agent.spool.counts(); waiting != 1 || dropped != 0 {
			t.Errorf("control is busy: waiting %d, dropped %d", waiting, dropped)
		}
		answer(pki.Refuse(pki.BadRequest, "not JSON", ""))
		after(10 * time.Second)
		if waiting, _, dropped := r.agent.spool.counts(); waiting != 0 || dropped != 1 {
			t.Errorf("control refused it: waiting %d, dropped %d", waiting, dropped)
		}
		if got := r.agent.Trouble(); len(got) != 1 || got[0] != "BAD_REQUEST: not JSON" {
			t.Errorf("trouble %q", got)
		}
		answer(nil)
		r.agent.Observe(seen("a", true))
		after(time.Second)
		if got := r.agent.Trouble(); len(got) != 0 {
			t.Errorf("trouble after a batch was taken: %q", got)
		}
		r.stop()
	})
}

// The spool holds what it is given, whatever happens in between: nothing twice, nothing out of a task's order.
// Covers: A7, issue3 spool
func FuzzSpool(f *testing.F) {
	f.Add([]byte("aAbBcC.!aab.x"))
	f.Add([]byte("..ab!!x..AAAAAAAAAAAAAA!"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		s := newSpool(8)
		added := map[string]int{}
		last := map[string]int{}
		var taken, out int
		var id string
		for _, op := range ops {
			switch {
			case op == '.':
				was := id
				var list []report.Observation
				id, list = s.next()
				if taken > 0 && (was != id || len(list) != taken) {
					t.Fatalf("the batch under way changed: %d to %d", taken, len(list))
				}
				taken = len(list)
			case op == '!' || op == 'x':
				_, list := s.next()
				for _, o := range list {
					if o.Status <= last[o.Task] {
						t.Fatalf("task %s: %d after %d", o.Task, o.Status, last[o.Task])
					}
					last[o.Task] = o.Status
				}
				out += len(list)
				if op == 'x' {
					s.discard()
				} else {
					s.done()
				}
				taken = 0
			default:
				name := string(rune(op | 0x20))
				added[name]++
				s.add(report.Observation{Task: name, OK: op&0x20 != 0, Status: added[name]})
			}
		}
		total := 0
		for _, n := range added {
			total += n
		}
		waiting, shipped, dropped := s.counts()
		if waiting > 8 || waiting+int(shipped)+int(dropped) != total || out > total {
			t.Fatalf("added %d: waiting %d, shipped %d, dropped %d", total, waiting, shipped, dropped)
		}
	})
}
