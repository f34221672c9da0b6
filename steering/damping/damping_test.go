package damping

import (
	"math"
	"testing"
	"time"
)

// Covers: decisions 7
func TestFourDeparturesSuppress(t *testing.T) {
	var p Penalty
	for i := range 4 {
		if p.Suppressed {
			t.Fatalf("suppressed after %d departures", i)
		}
		p.Leave(time.Duration(i) * time.Minute)
	}
	if !p.Suppressed {
		t.Fatalf("not suppressed at %.0f points", p.Points)
	}
	if p.Release(p.ReuseAt - 1) {
		t.Error("released before its time")
	}
	if v := p.Value(p.ReuseAt); v > ReuseBelow || v < ReuseBelow-1 {
		t.Errorf("penalty %.3f at the instant of reuse, want just below %d", v, ReuseBelow)
	}
	if !p.Release(p.ReuseAt) || p.Suppressed {
		t.Error("not released at its time")
	}
}

func TestHalfLife(t *testing.T) {
	var p Penalty
	p.Leave(0)
	if got := p.Value(HalfLife); math.Abs(got-500) > 1e-9 {
		t.Errorf("%v points after one half-life, want 500", got)
	}
	if got := new(Penalty).Value(time.Hour); got != 0 {
		t.Errorf("%v points from nothing", got)
	}
}

// Covers: B4, decisions 3
func TestClockNeedsAnUnbrokenHold(t *testing.T) {
	var c Clock
	if c.Reached(time.Hour, 0) {
		t.Error("a stopped clock has reached something")
	}
	c.Hold(10*time.Second, true)
	c.Hold(20*time.Second, true)
	if c.Reached(129*time.Second, 2*time.Minute) || !c.Reached(130*time.Second, 2*time.Minute) {
		t.Error("120 s from 10 s are over at 130 s exactly")
	}
	c.Hold(30*time.Second, false)
	c.Hold(31*time.Second, true)
	if c.Since != 31*time.Second {
		t.Errorf("a break did not start the clock anew: since %s", c.Since)
	}
}
