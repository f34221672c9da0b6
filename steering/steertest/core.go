package steertest

import (
	"encoding/json"
	"fmt"
	"time"

	"steerpoint/steering"
)

// core drives a steering.Rule as a Machine.
type core struct {
	rule  *steering.Rule
	epoch time.Time
}

// Core makes the machines that decide in production.
func Core(cfg steering.RuleConfig, epoch time.Time) Machine {
	rule := steering.NewRule(cfg)
	rule.SetWall(0, epoch)
	return core{rule: rule, epoch: epoch}
}

// Step implements Machine.
func (c core) Step(now steering.Instant, in Input) (steering.Decision, []steering.Event) {
	var events []steering.Event
	switch {
	case in.Observation != nil:
		events = c.rule.Observe(now, *in.Observation)
	case in.Config != nil:
		events = c.rule.Configure(now, *in.Config)
	case in.Force != nil:
		events = c.rule.Force(now, in.Force.Edge, in.Force.Until)
	case in.Freeze != nil:
		events = c.rule.Freeze(now, in.Freeze.Until)
	default:
		events = c.rule.Advance(now)
	}
	return c.rule.Decision(), events
}

// Status implements Machine.
func (c core) Status(now steering.Instant) Status {
	return Status{Edges: c.rule.Status(now), Why: func() string { return c.rule.Describe(now) }}
}

// Restart implements Machine. The state goes through JSON, as it does on its way to the store. It is loaded at the
// instant it was saved: a timeline's restart takes no time, so there is none to make up for.
func (c core) Restart() (Machine, error) {
	saved := c.rule.State()
	text, err := json.Marshal(saved)
	if err != nil {
		return nil, fmt.Errorf("save state: %w", err)
	}
	var state steering.State
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("load state: %w", err)
	}
	rule, err := steering.RestoreRule(c.rule.Config(), state, state.At)
	if err != nil {
		return nil, fmt.Errorf("restore rule: %w", err)
	}
	rule.SetWall(0, c.epoch)
	return core{rule: rule, epoch: c.epoch}, nil
}
