// Package damping holds the clocks that keep a decision from flapping: the penalty of an edge that keeps failing, and
// how long a condition has held without a break.
package damping

import (
	"math"
	"time"
)

const (
	// PerLeave is added each time a rule leaves an edge because it is down or slow.
	PerLeave = 1000
	// HalfLife: an edge that failed four times within some minutes is trusted again within the hour.
	HalfLife = 15 * time.Minute
	// SuppressAbove puts the edge at the end of the order: the fourth failure in quick succession.
	SuppressAbove = 3000
	// ReuseBelow brings it back to its place.
	ReuseBelow = 750
)

// Penalty is the flap penalty of one (rule, edge). The zero value is none.
//
// Invariant: Suppressed implies ReuseAt is the instant at which the penalty falls below ReuseBelow.
type Penalty struct {
	Points     float64       `json:"points"` // at At
	At         time.Duration `json:"at"`
	Suppressed bool          `json:"suppressed"`
	ReuseAt    time.Duration `json:"reuseAt"`
}

// Value is the penalty at now.
func (p *Penalty) Value(now time.Duration) float64 {
	if p.Points == 0 {
		return 0
	}
	return p.Points * math.Exp2(-float64(now-p.At)/float64(HalfLife))
}

// Leave adds the penalty of one departure.
func (p *Penalty) Leave(now time.Duration) {
	p.Points, p.At = p.Value(now)+PerLeave, now
	if p.Points > SuppressAbove {
		p.Suppressed = true
	}
	if p.Suppressed {
		p.ReuseAt = now + reuseAfter(p.Points)
	}
}

// reuseAfter rounds up to whole milliseconds, so that the last digit of a platform's logarithm decides nothing.
func reuseAfter(points float64) time.Duration {
	ms := float64(HalfLife/time.Millisecond) * math.Log2(points/ReuseBelow)
	return time.Duration(math.Ceil(ms)) * time.Millisecond
}

// Release ends the suppression when its time has come and reports whether it did.
func (p *Penalty) Release(now time.Duration) bool {
	if !p.Suppressed || now < p.ReuseAt {
		return false
	}
	p.Suppressed = false
	return true
}

// Clock says since when a condition has held without a break. The zero value is stopped.
type Clock struct {
	On    bool          `json:"on"`
	Since time.Duration `json:"since"`
}

// Hold runs the clock while the condition holds and stops it otherwise.
func (c *Clock) Hold(now time.Duration, holds bool) {
	switch {
	case !holds:
		*c = Clock{}
	case !c.On:
		*c = Clock{On: true, Since: now}
	}
}

// Reached reports whether the condition has held for d, its exact instant included.
func (c *Clock) Reached(now, d time.Duration) bool { return c.On && now-c.Since >= d }
