package steertest

import (
	"time"

	"steerpoint/steering"
)

// Machine is one rule's decision machine as the runner drives it: the core, or a second implementation to compare it with.
type Machine interface {
	// Step tells the machine what happened at now and lets it evaluate. The events are valid until the next call.
	Step(now steering.Instant, in Input) (steering.Decision, []steering.Event)
	// Status shows what the machine holds, as of its last Step.
	Status(now steering.Instant) Status
	// Restart gives the machine that a new process would have: the state saved, loaded, and no time lost between.
	Restart() (Machine, error)
}

// Factory makes the machine of a rule. epoch is the wall time of instant 0.
type Factory func(cfg steering.RuleConfig, epoch time.Time) Machine

// Input is what happens to one rule at one instant: at most one of the fields. The zero Input lets time pass.
type Input struct {
	Observation *steering.Observation
	Config      *steering.RuleConfig
	Force       *Force
	Freeze      *Freeze
}

// Force is an operator's override. Edge "" ends it; Until 0 means for ever.
type Force struct {
	Edge  string
	Until steering.Instant
}

// Freeze stops automatic moves. Until below 0 ends it; 0 means for ever.
type Freeze struct {
	Until steering.Instant
}

// Status is a view of a machine for expectations and for people.
type Status struct {
	Edges []steering.EdgeStatus
	Why   func() string // the whole state as text: why the decision is what it is
}
