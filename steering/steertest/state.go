package steertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"steerpoint/steering"
)

// States is the section of a state line: what rules had learnt and decided, as JSON.
type States struct {
	// Wall is the wall time of the line, by which schedules go from then on; zero: as before.
	Wall time.Time `json:"wall,omitzero"`
	// Rules are saved states. A rule that is not named goes on as it is.
	Rules []steering.State `json:"rules"`
}

// Restorer makes the machine of a rule that goes on from a saved state. now is when it does; the time since the state was
// saved is time in which nobody listened. The machine is evaluated at its first Step.
type Restorer func(cfg steering.RuleConfig, epoch time.Time, s steering.State, now steering.Instant) (Machine, error)

// CoreRestore restores the machines that decide in production.
func CoreRestore(cfg steering.RuleConfig, epoch time.Time, s steering.State, now steering.Instant) (Machine, error) {
	rule, err := steering.RestoreRule(cfg, s, now)
	if err != nil {
		return nil, fmt.Errorf("state line: %w", err)
	}
	rule.SetWall(0, epoch)
	return core{rule: rule, epoch: epoch}, nil
}

// State is what the machine has learnt and decided.
func (c core) State() steering.State { return c.rule.State() }

// loadStates reads the sections that state lines name.
func (l *loaded) loadStates(tl *Timeline) {
	l.states = map[string]*States{}
	for i := range tl.Statements {
		st := &tl.Statements[i]
		if st.Kind != KindState || l.states[st.File] != nil {
			continue
		}
		for _, s := range tl.Sections {
			if s.Name != st.File {
				continue
			}
			states := &States{}
			dec := json.NewDecoder(bytes.NewReader(s.Data))
			dec.DisallowUnknownFields()
			if err := dec.Decode(states); err != nil {
				l.fail(st.Line, CodeLoad, "section %s: states: %v", s.Name, err)
			}
			l.states[st.File] = states
		}
	}
}

// state puts the saved states of a line in place. With other resources only the first instant has them: later the rules
// go on with what they have come to themselves, and what passed since a halt is time in which nobody listened.
func (r *runner) state(t steering.Instant, st *Statement) error {
	saved := r.loaded.states[st.File]
	halted := r.halted
	r.halted = false
	first := t == r.tl.Begin
	if !saved.Wall.IsZero() {
		r.epoch = saved.Wall.Add(-t)
	}
	for _, x := range r.rules {
		var s steering.State
		i := slices.IndexFunc(saved.Rules, func(s steering.State) bool { return s.Rule == x.cfg.Key() })
		switch {
		case r.opts.With == nil || first:
			if i < 0 {
				continue
			}
			s = saved.Rules[i]
		case halted && x.begun:
			m, ok := x.machine.(interface{ State() steering.State })
			if !ok {
				continue
			}
			s = m.State()
		default:
			continue
		}
		if err := r.restore(t, x, s); err != nil {
			return err
		}
	}
	return nil
}

// restore makes a rule go on from a state.
func (r *runner) restore(t steering.Instant, x *running, s steering.State) error {
	if r.opts.Restore == nil {
		return fmt.Errorf("replay %s: state of rule %s at %s: this machine can be given no state", r.tl.Name, x.cfg.Key(), seconds(t))
	}
	now := t
	if r.opts.With == nil {
		now = s.At // as it was: nothing passes between
	}
	m, err := r.opts.Restore(x.cfg, r.epoch, s, now)
	if err != nil {
		return fmt.Errorf("replay %s: %s: %w", r.tl.Name, seconds(t), err)
	}
	x.machine, x.begun, x.due, x.d = m, true, true, steering.Decision{}
	if r.opts.With == nil {
		// Evaluated at its own last instant again, which works out what is not in a state and decides nothing.
		x.due = false
		r.step(s.At, x, Input{Config: &x.cfg})
	}
	return nil
}

// halt stops every rule until the next state line: nobody listens and nothing is evaluated.
func (r *runner) halt(t steering.Instant) {
	if r.opts.With != nil {
		for _, x := range r.rules {
			if !x.begun {
				continue
			}
			r.step(t, x, Input{}) // what comes later is a gap from here
		}
	}
	r.halted = true
}

// tick lets a rule see that time has come to t, before what else happens at t.
func (r *runner) tick(t steering.Instant, st *Statement) {
	if x := r.byKey[st.Rule]; x != nil {
		r.step(t, x, Input{})
	}
}

// drain takes an edge of a service out of its rules, or gives it back.
func (r *runner) drain(t steering.Instant, st *Statement) {
	service, edge, _ := strings.Cut(st.Edge, "/")
	if r.res.edge(service, edge) == nil {
		r.refuse(st, "there is no edge %s at %s", st.Edge, seconds(t))
		return
	}
	if r.drained == nil {
		r.drained = map[string]bool{}
	}
	r.drained[st.Edge] = st.Kind == KindDrain
	for _, x := range r.rules {
		if x.cfg.Service == service {
			r.reconfigure(t, x, r.res.rule(x.cfg.Key()))
		}
	}
	r.hearers()
}

// reconfigure gives a rule its configuration of the resources, less what is drained.
func (r *runner) reconfigure(t steering.Instant, x *running, base *steering.RuleConfig) {
	x.cfg = r.withoutDrained(base)
	switch {
	case !x.begun:
		x.machine = r.opts.Machine(x.cfg, r.epoch)
	case !r.halted:
		r.step(t, x, Input{Config: &x.cfg})
		x.due = true
	}
}

// withoutDrained disables drained edges; if none would be left, the rule goes on as if none were drained.
func (r *runner) withoutDrained(base *steering.RuleConfig) steering.RuleConfig {
	cfg, touched, left := *base, false, false
	cfg.ServiceEdges = slices.Clone(base.ServiceEdges)
	for i := range cfg.ServiceEdges {
		e := &cfg.ServiceEdges[i]
		if e.Enabled && r.drained[base.Service+"/"+e.Name] {
			e.Enabled, touched = false, true
		}
		left = left || e.Enabled && slices.Contains(base.Edges, e.Name)
	}
	if !touched || !left {
		return *base
	}
	return cfg
}
