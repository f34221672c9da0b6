package steering

import (
	"fmt"
	"slices"

	"steerpoint/steering/damping"
	"steerpoint/steering/health"
	"steerpoint/steering/latency"
	"steerpoint/steering/quorum"
)

// StateFormat is the version of State's layout. A reader refuses a newer one.
const StateFormat = 1

// State is everything a rule has learnt and decided, as plain values for any encoding. Instants are of the core's
// clock; the configuration is not part of it.
type State struct {
	Format int
	Rule   string // service/rule
	At     Instant

	Points    []string
	Suspended []bool
	List      []string // in force
	Base      []string // the enabled edges of the configuration, without its schedule
	Mode      Mode
	Edges     []EdgeSaved

	Decided    bool
	FirstAt    Instant
	Current    string
	Set        []string
	Fallback   string
	Cause      Cause
	Since      Instant
	Seq        uint64
	Degraded   bool
	AllDead    bool
	LastSwitch Instant
	Switched   bool
	T0         Instant
	T0Set      bool
	Better     damping.Clock
	Force      OverrideSaved
	Freeze     OverrideSaved
}

// OverrideSaved is a force or a freeze in a State; Until 0 is for ever.
type OverrideSaved struct {
	On    bool
	Edge  string
	Until Instant
}

// EdgeSaved is one edge in a State.
type EdgeSaved struct {
	Name      string
	Verdict   Verdict
	Held      bool
	Since     Instant
	Known     bool
	Up        damping.Clock
	Penalty   damping.Penalty
	Addresses []AddressSaved
}

// AddressSaved is one address of an edge in a State; Points are parallel to State.Points.
type AddressSaved struct {
	Name    string
	Verdict Verdict
	Held    bool
	Points  []PointSaved
}

// PointSaved is what one point knows of one address in a State. Window is latency.Window's stored form.
type PointSaved struct {
	Health   health.Machine
	Baseline latency.Baseline
	Recent   latency.Recent
	Window   []int64
	Cause    string
}

// State is a copy of what the rule knows; later calls do not change it.
func (r *Rule) State() State {
	s := State{
		Format: StateFormat, Rule: r.cfg.Key(), At: r.now,
		Points: slices.Clone(r.cfg.Points), Suspended: slices.Clone(r.suspended), List: slices.Clone(r.list), Base: r.enabled(r.cfg.Edges), Mode: r.mode,
		Decided: r.decided, FirstAt: r.firstAt, Current: r.current, Set: slices.Clone(r.set), Fallback: r.fallback,
		Cause: r.cause, Since: r.since, Seq: r.seq, Degraded: r.degraded, AllDead: r.allDead,
		LastSwitch: r.lastSwitch, Switched: r.switched, T0: r.t0, T0Set: r.t0Set, Better: r.better,
		Force:  OverrideSaved{r.force.on, r.force.edge, r.force.until},
		Freeze: OverrideSaved{r.freeze.on, "", r.freeze.until},
	}
	for i := range r.edges {
		e := &r.edges[i]
		saved := EdgeSaved{
			Name: e.name, Verdict: Verdict(e.verdict), Held: e.held, Since: e.since, Known: e.known, Up: e.up, Penalty: e.penalty,
		}
		for j := range e.addresses {
			a := &e.addresses[j]
			sa := AddressSaved{Name: a.name, Verdict: Verdict(a.verdict), Held: a.held}
			for p := range a.points {
				ps := &a.points[p]
				sa.Points = append(sa.Points, PointSaved{ps.health, ps.baseline, ps.recent, ps.window.Save(), ps.cause})
			}
			saved.Addresses = append(saved.Addresses, sa)
		}
		s.Edges = append(s.Edges, saved)
	}
	return s
}

// RestoreRule makes a rule that goes on where State left off. Nothing is evaluated yet; when cfg differs from the
// configuration the state was saved under, the first evaluation treats that as a change of configuration.
//
// Nobody listened between s.At and now: what points left unsaid in that time is not their silence, and no edge was
// seen well in it. So silence, cool-down and dwell do not run over the gap; locks and overrides do.
func RestoreRule(cfg RuleConfig, s State, now Instant) (*Rule, error) {
	if s.Format != StateFormat {
		return nil, fmt.Errorf("state of rule %s has format %d: this version reads format %d", s.Rule, s.Format, StateFormat)
	}
	if s.Rule != cfg.Key() {
		return nil, fmt.Errorf("state is of rule %s, not of %s", s.Rule, cfg.Key())
	}
	old, err := restoreEdges(&s, max(now-s.At, 0))
	if err != nil {
		return nil, fmt.Errorf("state of rule %s: %w", s.Rule, err)
	}
	r := &Rule{
		cfg: cfg, now: max(now, s.At), list: s.List, mode: s.Mode,
		decided: s.Decided, firstAt: s.FirstAt, current: s.Current, set: s.Set, fallback: s.Fallback,
		cause: s.Cause, since: s.Since, seq: s.Seq, degraded: s.Degraded, allDead: s.AllDead,
		lastSwitch: s.LastSwitch, switched: s.Switched, t0: s.T0, t0Set: s.T0Set, better: s.Better,
		force:  override{s.Force.On, s.Force.Edge, s.Force.Until},
		freeze: override{s.Freeze.On, "", s.Freeze.Until},
	}
	gap := max(now-s.At, 0)
	if r.better.On {
		r.better.Since += gap
	}
	if r.decided {
		r.firstAt += gap // a tie from the start waits its cool-down
	}
	r.answered = r.name()
	r.configured = cfg.Mode != s.Mode || !slices.Equal(r.enabled(cfg.Edges), s.Base)
	r.rebuild(old, s.Points, s.Suspended)
	r.next = r.now // evaluate at the first call
	return r, nil
}

func restoreEdges(s *State, gap Instant) ([]edgeState, error) {
	if len(s.Suspended) != len(s.Points) {
		return nil, fmt.Errorf("%d suspension marks for %d points", len(s.Suspended), len(s.Points))
	}
	out := make([]edgeState, 0, len(s.Edges))
	for _, saved := range s.Edges {
		e := edgeState{
			name: saved.Name, verdict: quorum.Verdict(saved.Verdict), held: saved.Held, since: saved.Since,
			known: saved.Known, up: saved.Up, penalty: saved.Penalty,
		}
		if e.up.On {
			e.up.Since += gap
		}
		for _, sa := range saved.Addresses {
			if len(sa.Points) != len(s.Points) {
				return nil, fmt.Errorf("edge %s address %s: %d views for %d points", saved.Name, sa.Name, len(sa.Points), len(s.Points))
			}
			e.addresses = append(e.addresses, restoreAddress(sa, gap))
		}
		out = append(out, e)
	}
	return out, nil
}

func restoreAddress(sa AddressSaved, gap Instant) addressState {
	a := addressState{name: sa.Name, verdict: quorum.Verdict(sa.Verdict), held: sa.Held, points: make([]pointState, len(sa.Points))}
	for i, ps := range sa.Points {
		p := &a.points[i]
		p.health, p.baseline, p.recent, p.cause = ps.Health, ps.Baseline, ps.Recent, ps.Cause
		if p.health.Seen {
			p.health.LastAt += gap
		}
		p.window.Load(ps.Window)
	}
	return a
}
