// Package moment keeps the core's clock going over restarts. The core counts instants of one clock that never goes
// back; a process ends, the wall clock is set, the machine boots. A Moment says what every clock of the machine showed
// at an instant, so that the next process can tell how long nobody listened.
package moment

import (
	"time"

	"steerpoint/steering"
)

// Moment is what the machine's clocks showed at one instant.
type Moment struct {
	At   steering.Instant `json:"at"`   // the core's clock
	Wall time.Time        `json:"wall"` // may have been wrong
	Boot string           `json:"boot"` // identity of the boot; "": not known
	// BootTime is the time since that boot, suspended time included (CLOCK_BOOTTIME).
	BootTime time.Duration `json:"bootTime"`
}

// Since is how long before m the moment before was, never negative: exact within one boot, else by the wall clock,
// which may have gone back in between.
func (m Moment) Since(before Moment) time.Duration {
	if m.Boot != "" && m.Boot == before.Boot {
		return max(m.BootTime-before.BootTime, 0)
	}
	return max(m.Wall.Sub(before.Wall), 0)
}

// Clock is the core's clock. Its wall time is the machine's wall time at the start plus the time that has passed:
// setting the machine's clock while the process runs changes nothing.
type Clock struct {
	read   func() Moment // At and Boot are not set
	origin Moment
}

// first is the instant of a clock without a past. It is not 0, because 0 means "none" in many fields of the core.
const first = steering.Instant(time.Hour)

// NewClock starts the clock of a boot where the newest of past leaves off, moved on by the time that passed since.
// Read gives the machine's clocks: Machine, unless it is a test.
func NewClock(boot string, read func() Moment, past []Moment) *Clock {
	c := &Clock{read: read, origin: read()}
	c.origin.Boot, c.origin.At = boot, first
	for _, p := range past {
		if p.Wall.IsZero() {
			continue // nothing was ever noted there
		}
		c.origin.At = max(c.origin.At, p.At+c.origin.Since(p))
	}
	return c
}

// Now is the present instant.
func (c *Clock) Now() steering.Instant { return c.Moment().At }

// Moment is what all clocks show now, with the wall time as Clock keeps it.
func (c *Clock) Moment() Moment {
	m := c.read()
	passed := max(m.BootTime-c.origin.BootTime, 0)
	m.Boot, m.At, m.Wall = c.origin.Boot, c.origin.At+passed, c.origin.Wall.Add(passed)
	return m
}

// Wall is the wall time of an instant.
func (c *Clock) Wall(at steering.Instant) time.Time {
	return c.origin.Wall.Add(at - c.origin.At).UTC()
}

// Instant is the instant of a wall time; it may lie before the clock's start.
func (c *Clock) Instant(wall time.Time) steering.Instant {
	return c.origin.At + wall.Sub(c.origin.Wall)
}

// Step is by how much the machine's wall clock was set since the start; below a second it is drift.
func (c *Clock) Step() time.Duration {
	m := c.read()
	step := m.Wall.Sub(c.origin.Wall.Add(m.BootTime - c.origin.BootTime))
	return step.Truncate(time.Second)
}

// Until is the instant at which something ends that was written at a moment (only Boot, BootTime and Wall count) to
// end at a wall time: a machine whose wall clock was set since then still keeps the time that was meant.
func (c *Clock) Until(written Moment, end time.Time) steering.Instant {
	now := c.Moment()
	return now.At - now.Since(written) + end.Sub(written.Wall)
}
