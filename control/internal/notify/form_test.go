package notify

import (
	"fmt"
	"testing"
	"time"
)

// desk is a former and a state that a test feeds by a clock of its own.
type desk struct {
	t   *testing.T
	f   *former
	s   state
	now time.Time
}

func newDesk(t *testing.T) *desk {
	return &desk{t: t, f: newFormer(Timing{}), s: state{Alarms: map[string]Event{}}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (d *desk) take(events ...Event) {
	for _, e := range events {
		d.s.take(&item{Seq: d.s.Seq + 1, At: d.now, Event: e})
		d.f.arrived(d.now)
	}
}

// pass goes on by steps of 100 ms and gives the messages made, "kind id" each, with when.
func (d *desk) pass(span time.Duration) []string {
	var out []string
	for end := d.now.Add(span); !d.now.After(end); d.now = d.now.Add(100 * time.Millisecond) {
		for {
			m, wait := d.f.next(&d.s, d.now)
			if m == nil {
				if wait <= 0 {
					d.t.Fatal("nothing to do, and no wait")
				}
				break
			}
			out = append(out, m.Kind+" "+m.ID)
			d.s.Form = m
			d.s.finish(true)
		}
	}
	return out
}

func (d *desk) want(what string, got []string, want ...string) {
	d.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		d.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestFold: the first verdict of a rule is told at once; those of the next ten seconds are one message, and hold up
// nothing else.
//
// Covers: issue4 notifications
func TestFold(t *testing.T) {
	d := newDesk(t)
	d.take(verdict(1, "default", "down"))
	d.want("first", d.pass(2*time.Second), "verdict verdict-1")
	d.take(verdict(2, "default", "up"), verdict(3, "other", "down"), verdict(4, "default", "down"), switched(1))
	d.want("others pass", d.pass(2*time.Second), "verdict verdict-3", "switch switch-0000000000000001")
	d.take(verdict(5, "default", "up"))
	d.want("still", d.pass(5*time.Second))
	d.want("folded", d.pass(3*time.Second), "verdict verdict-2~3")
	d.want("rest", d.pass(time.Minute))
	d.take(verdict(6, "default", "down"))
	d.want("after a while", d.pass(2*time.Second), "verdict verdict-6")
	if len(d.f.verdicts) > 1 {
		t.Errorf("remembers %v", d.f.verdicts)
	}
}

// TestStorm: more than 20 events in ten seconds are one message; fewer are told one by one, in order.
//
// Covers: issue4 notifications
func TestStorm(t *testing.T) {
	d := newDesk(t)
	var few []string
	for n := range maxSingle {
		d.take(switched(n))
		few = append(few, fmt.Sprintf("switch switch-%016x", n))
	}
	d.want("20", d.pass(2*time.Second), few...)
	d.pass(time.Minute)
	for n := range 500 {
		d.take(switched(1000 + n))
	}
	d.want("held", d.pass(9*time.Second))
	d.take(switched(2000), alarmed(1, "x", true))
	d.want("storm", d.pass(2*time.Second), "digest switch-00000000000003e8~502")
	d.pass(time.Minute)
	// The 21st makes a digest of those that wait then, and the first was told already.
	d.take(switched(2500))
	d.want("before it", d.pass(2*time.Second), fmt.Sprintf("switch switch-%016x", 2500))
	for n := range maxSingle {
		d.take(switched(2600 + n))
	}
	d.want("21st", d.pass(15*time.Second), fmt.Sprintf("digest switch-%016x~20", 2600))
	d.pass(time.Minute)
	// A storm that goes on is one message each ten seconds.
	var got []string
	for n := range 300 {
		d.take(switched(3000 + n))
		got = append(got, d.pass(100*time.Millisecond)...)
	}
	got = append(got, d.pass(time.Minute)...)
	if len(got) > maxSingle+8 {
		t.Errorf("%d messages of 300 events in a minute: %v", len(got), got)
	}
	if len(d.s.Queue) != 0 {
		t.Errorf("%d wait for ever", len(d.s.Queue))
	}
}

// TestBacklog: what waited for a server that was away is one message, not hundreds.
//
// Covers: issue4 notifications
func TestBacklog(t *testing.T) {
	d := newDesk(t)
	for n := range 100 {
		d.take(switched(n))
		d.now = d.now.Add(time.Minute)
	}
	d.want("backlog", d.pass(time.Second), "digest switch-0000000000000000~100")
}

// TestOrderWaits: a switch that waits for its publication is not overtaken.
//
// Covers: issue4 notifications
func TestOrderWaits(t *testing.T) {
	d := newDesk(t)
	e := switched(1)
	e.Publication = nil
	d.take(e, alarmed(1, "x", true))
	d.want("waits", d.pass(4*time.Second))
	d.want("told", d.pass(2*time.Second), "switch switch-0000000000000001", "alarm alarm-1")
}

// TestAge: what is older than a day goes, and the pace of chat services is kept.
//
// Covers: issue4 notifications
func TestAge(t *testing.T) {
	d := newDesk(t)
	d.take(switched(1))
	d.now = d.now.Add(maxAge - time.Second)
	d.take(switched(2))
	if old := tooOld(&d.s, d.now); len(old) != 0 {
		t.Errorf("too early: %v", old)
	}
	d.now = d.now.Add(2 * time.Second)
	if old := tooOld(&d.s, d.now); len(old) != 1 || old[0] != 1 {
		t.Errorf("old: %v", old)
	}
	p := pacerOf(typeDingTalk)
	sent := 0
	for i := range 3 * 600 { // three minutes in steps of 100 ms
		now := d.now.Add(time.Duration(i) * 100 * time.Millisecond)
		if p.wait(now) == 0 {
			p.sent(now)
			sent++
		}
	}
	if sent != 60 {
		t.Errorf("%d messages in three minutes, want 60", sent)
	}
}
