// Package health judges one target seen from one point: unknown, up or down, with counts of consecutive results.
//
// A Machine is a plain value; its zero value is unknown. Lone failures between passes never add up: any result of
// the other kind ends the run. It reads no clock; time comes in as an argument.
package health

import "time"

// State is what a point holds of a target. The zero value is Unknown: undecided is a value of its own.
type State uint8

// The states.
const (
	Unknown State = iota
	Up
	Down
)

// Machine is the state of one (target, point).
//
// Invariants: Fails and Oks are never both positive. State == Down implies RunOpen. RunOpen implies Seen.
// Fails > 0 and State != Down implies RunOpen and Fails < fall.
type Machine struct {
	State State
	Fails int32 // failures in a row, up to now
	Oks   int32 // oks in a row, up to now
	// RunOpen says that a failing run is open: the one counted in Fails, or the one that took the target down and
	// has not ended in State Up since.
	RunOpen bool
	// AllSlow: every failure since RunStart had cause slow. Meaningless unless RunOpen.
	AllSlow bool
	Seen    bool // at least one observation since the machine was made
	HasOK   bool
	// RunStart is when the open run's first failure came. A point that is down and has had an ok since keeps the
	// start of the run that took it down.
	RunStart time.Duration
	LastAt   time.Duration // newest observation
	LastOK   time.Duration // newest ok, if HasOK
}

// Step takes one observation. slow says that a failure's cause was slowness. fall and rise are the lengths of the
// runs that flip the state (decisions.md section 1).
func (m *Machine) Step(now time.Duration, ok, slow bool, fall, rise int) {
	m.Seen, m.LastAt = true, now
	if ok {
		m.pass(now, rise)
		return
	}
	m.fail(now, slow, fall)
}

func (m *Machine) pass(now time.Duration, rise int) {
	m.HasOK, m.LastOK = true, now
	m.Fails = 0
	m.Oks++
	if m.State == Down && int(m.Oks) < rise {
		return
	}
	m.State, m.RunOpen, m.AllSlow = Up, false, false
}

func (m *Machine) fail(now time.Duration, slow bool, fall int) {
	m.Oks = 0
	if !m.RunOpen {
		m.RunOpen, m.RunStart, m.AllSlow = true, now, true
	}
	m.Fails++
	m.AllSlow = m.AllSlow && slow
	if int(m.Fails) >= fall {
		m.State = Down
	}
}

// ExpiresAt is when the machine becomes unknown unless an observation comes first; 0 when it has nothing to lose.
func (m *Machine) ExpiresAt(silence time.Duration) time.Duration {
	if !m.Seen || (m.State == Unknown && m.Fails == 0) {
		return 0
	}
	return m.LastAt + silence
}

// Expire makes the machine unknown and resets its counts. What it has seen (LastAt, LastOK) stays.
func (m *Machine) Expire() {
	m.State, m.Fails, m.Oks = Unknown, 0, 0
	m.RunOpen, m.AllSlow = false, false
}

// String names the state for people.
func (s State) String() string {
	switch s {
	case Up:
		return "up"
	case Down:
		return "down"
	default:
		return "unknown"
	}
}
