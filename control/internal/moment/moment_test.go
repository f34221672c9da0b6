package moment

import (
	"testing"
	"time"
)

// machine is a set of clocks that a test turns.
type machine struct {
	wall time.Time
	boot time.Duration
}

func (m *machine) read() Moment { return Moment{Wall: m.wall, BootTime: m.boot} }

func (m *machine) pass(d time.Duration) { m.wall, m.boot = m.wall.Add(d), m.boot+d }

// TestWallClockStepsChangeNothing proves that instants and the times shown do not follow a wall clock that is set.
// Covers: issue2 clock step
func TestWallClockStepsChangeNothing(t *testing.T) {
	m := &machine{wall: time.Unix(1_000_000, 0), boot: time.Minute}
	c := NewClock("a", m.read, nil)
	start := c.Now()
	m.pass(10 * time.Second)
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour} {
		m.wall = m.wall.Add(step)
		if got := c.Now() - start; got != 10*time.Second {
			t.Errorf("after a step of %v: %v passed, want 10s", step, got)
		}
	}
	if got := c.Wall(c.Now()); !got.Equal(time.Unix(1_000_010, 0)) {
		t.Errorf("wall %v", got)
	}
	if got := c.Step(); got != -time.Hour {
		t.Errorf("step %v, want -1h", got)
	}
}

// TestRestartGoesOn proves the gap between two processes: exact within a boot, by the wall clock across boots, never
// negative.
// Covers: issue2 clock step
func TestRestartGoesOn(t *testing.T) {
	for _, c := range []struct {
		name string
		boot string        // of the second process
		wall time.Duration // what the wall clock did meanwhile
		pass time.Duration // what the boot clock did
		want time.Duration
	}{
		{"same boot", "a", time.Second, time.Second, time.Second},
		{"same boot, wall set forward", "a", time.Hour, time.Second, time.Second},
		{"same boot, wall set back", "a", -time.Hour, time.Second, time.Second},
		{"new boot", "b", 90 * time.Second, -time.Minute, 90 * time.Second},
		{"new boot, wall set back", "b", -time.Hour, -time.Minute, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &machine{wall: time.Unix(1_000_000, 0), boot: 5 * time.Minute}
			one := NewClock("a", m.read, nil)
			m.pass(time.Minute)
			old := one.Moment()
			m.wall, m.boot = m.wall.Add(c.wall), m.boot+c.pass
			two := NewClock(c.boot, m.read, []Moment{{}, old})
			if got := two.Now() - old.At; got != c.want {
				t.Errorf("the clock went on by %v, want %v", got, c.want)
			}
		})
	}
}

// TestUntilSurvivesAWrongWall proves that the end of an override holds although the wall clock was set.
func TestUntilSurvivesAWrongWall(t *testing.T) {
	m := &machine{wall: time.Unix(1_000_000, 0), boot: 5 * time.Minute}
	one := NewClock("a", m.read, nil)
	written := one.Moment()
	end := written.Wall.Add(time.Hour)
	m.pass(10 * time.Minute)
	m.wall = m.wall.Add(3 * time.Hour)
	two := NewClock("a", m.read, []Moment{written})
	if got := two.Until(written, end) - two.Now(); got != 50*time.Minute {
		t.Errorf("%v left, want 50m", got)
	}
	if got := two.Until(Moment{Wall: m.wall}, m.wall.Add(time.Minute)) - two.Now(); got != time.Minute {
		t.Errorf("without a boot: %v left, want 1m", got)
	}
}

// TestMachineIsReal proves that the machine's clocks are read.
func TestMachineIsReal(t *testing.T) {
	a := Machine()
	b := Machine()
	if a.BootTime <= 0 || b.BootTime < a.BootTime || a.Wall.IsZero() {
		t.Errorf("machine clocks %+v, %+v", a, b)
	}
	if BootID() == "" {
		t.Error("no boot id")
	}
}
