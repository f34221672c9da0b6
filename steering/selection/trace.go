package selection

import (
	"fmt"
	"time"
)

// Trace says how a choice was made, step by step, in the order of the steps.
type Trace struct {
	Steps []Step
	Pick  Pick
}

// Step is one step of the choice.
type Step struct {
	// Name is enabled, tried, draining, healthy, failing, priority, session, latency, turn or weight.
	Name    string
	Kept    Origins
	Dropped []Drop
	// Note says what is true of the step as a whole; "": nothing.
	Note string
}

// Drop is an origin that a step left out.
type Drop struct {
	Origin int
	Why    string
}

// Explain says how the next choice would be made, without making it.
func (s *State) Explain(now time.Duration, ask Ask) Trace {
	replica := *s
	replica.origins = append([]known(nil), s.origins...)
	t := &Trace{}
	t.Pick = replica.choose(now, ask, t)
	return *t
}

// step notes what a step kept of a set. A nil trace, as in Choose, notes nothing.
func (t *Trace) step(s *State, now time.Duration, name string, from, kept Origins) {
	if t == nil {
		return
	}
	st := Step{Name: name, Kept: kept}
	for i := range s.origins {
		if from.Has(i) && !kept.Has(i) {
			st.Dropped = append(st.Dropped, Drop{i, s.why(now, name, i, from, kept)})
		}
	}
	if name == "draining" && len(st.Dropped) == 0 {
		return
	}
	t.Steps = append(t.Steps, st)
}

func (t *Trace) failOpen(yes bool) {
	if t != nil && yes {
		t.Steps[len(t.Steps)-1].Note = "no origin is healthy, so any may be asked"
	}
}

// chosen notes the last step, which takes one origin of a set.
func (t *Trace) chosen(s *State, name string, from Origins, i int) {
	if t == nil {
		return
	}
	st := Step{Name: name, Kept: Only(i)}
	for k := range s.origins {
		if from.Has(k) && k != i {
			why := "it is another one's turn"
			if name == "weight" {
				why = fmt.Sprintf("weight %d: it is another one's turn", s.group.Origins[k].Weight)
			}
			st.Dropped = append(st.Dropped, Drop{k, why})
		}
	}
	t.Steps = append(t.Steps, st)
}

// why says in words why a step left an origin out.
func (s *State) why(now time.Duration, step string, i int, from, kept Origins) string {
	o, g := &s.origins[i], s.group
	switch step {
	case "enabled":
		return "disabled"
	case "tried":
		return "tried already, or without room"
	case "draining":
		return "draining: no new sessions"
	case "healthy":
		return fmt.Sprintf("%d of the last %d probes succeeded; %d of %d are needed", o.health.Good, o.health.Seen, g.Need, g.Size)
	case "failing":
		return fmt.Sprintf("requests failed: out for another %s", o.outUntil-now)
	case "priority":
		return fmt.Sprintf("priority %d; there are origins of priority %d", g.Origins[i].Priority, g.Origins[kept.first()].Priority)
	case "session":
		return "the session is with another origin"
	case "latency":
		if !s.measured.Has(i) {
			return "its latency is not known yet"
		}
		return fmt.Sprintf("%s; the fastest has %s, and at most %s more is allowed", o.latency, s.fastest(from&s.measured), g.Sensitivity)
	}
	return ""
}
