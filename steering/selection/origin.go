package selection

import (
	"fmt"
	"math/bits"
	"time"
)

// MaxOrigins is the most origins of a group: a set of them is one word.
const MaxOrigins = 64

// MaxPriority is the highest, least preferred priority of an origin; the lowest is 1.
const MaxPriority = 5

// Origins is a set of the origins of one group: bit i is origin i.
type Origins uint64

// Only is the set of one origin.
func Only(i int) Origins { return 1 << i }

// Has reports whether origin i is in the set.
func (o Origins) Has(i int) bool { return i >= 0 && i < MaxOrigins && o>>i&1 != 0 }

// Len is the number of origins in the set.
func (o Origins) Len() int { return bits.OnesCount64(uint64(o)) }

// first is the lowest origin of a set that is not empty.
func (o Origins) first() int { return bits.TrailingZeros64(uint64(o)) }

// Origin is one origin of a group, as it was written.
type Origin struct {
	Name string
	// Address tells whether it is still the same server: what was learnt of an origin holds for name and address together.
	Address  string
	Priority int // 1 to MaxPriority; lower goes first
	Weight   int // 1 to 1000
	Enabled  bool
	Draining bool // no new sessions
}

// Passive says when failing requests take an origin out. The zero value is never.
type Passive struct {
	Failures int           // failures in a row; 0: never
	Out      time.Duration // how long, the first time; the n-th time in succession n times as long
	MaxOut   time.Duration // and never longer
}

// Group is what was written of a group of origins, made by NewGroup. It is not changed afterwards.
type Group struct {
	Origins []Origin
	// Sensitivity: origins at most so much slower than the fastest share the traffic; at 0 those as fast in whole
	// milliseconds.
	Sensitivity time.Duration
	// ByPriority: when no origin is healthy, those of the best priority take turns, and not all.
	ByPriority bool
	// Ramp is how long the share of an origin grows that returns; 0: it has its whole share at once.
	Ramp time.Duration
	// Drain is how long sessions stay with an origin that is draining.
	Drain time.Duration
	// Size and Need: an origin is healthy when Need of its last Size probes succeeded.
	Size, Need int
	Passive    Passive

	enabled, draining Origins
	levels            [MaxPriority + 1]Origins // by priority
}

// NewGroup compiles a group. It fails when there are no origins or too many, or a number is out of its bounds.
func NewGroup(g Group) (*Group, error) {
	if n := len(g.Origins); n == 0 || n > MaxOrigins {
		return nil, fmt.Errorf("group of %d origins: want 1 to %d", n, MaxOrigins)
	}
	if g.Need < 1 || g.Size < g.Need || g.Size > MaxSamples {
		return nil, fmt.Errorf("%d of %d probes: want 1 to %d", g.Need, g.Size, MaxSamples)
	}
	if g.Sensitivity < 0 || g.Ramp < 0 || g.Drain < 0 || g.Passive.Failures < 0 || g.Passive.Out < 0 || g.Passive.MaxOut < 0 {
		return nil, fmt.Errorf("a time or a number is negative")
	}
	g.enabled, g.draining, g.levels = 0, 0, [MaxPriority + 1]Origins{}
	for i, o := range g.Origins {
		if o.Priority < 1 || o.Priority > MaxPriority || o.Weight < 1 || o.Weight > 1000 {
			return nil, fmt.Errorf("origin %s: priority %d and weight %d: want 1 to %d and 1 to 1000", o.Name, o.Priority, o.Weight, MaxPriority)
		}
		g.levels[o.Priority] |= Only(i)
		if o.Enabled {
			g.enabled |= Only(i)
			if o.Draining {
				g.draining |= Only(i)
			}
		}
	}
	return &g, nil
}

// best is the part of a set with the lowest priority number in it.
func (g *Group) best(set Origins) Origins {
	for _, level := range g.levels[1:] {
		if in := level & set; in != 0 {
			return in
		}
	}
	return set
}

// Ask is what a choice depends on besides the group and its state. The zero value is a first request without a session.
type Ask struct {
	// Session is the origin that a valid cookie names, as a set; empty: no cookie, or none that is valid.
	Session Origins
	// Skip are origins that cannot be chosen: tried for this request already, or without room.
	Skip Origins
}

// Why there is no origin.
const (
	NoEnabledOrigin = "no_enabled_origin" // nobody may be asked
	AllSkipped      = "all_tried"         // everybody that may be asked is in Ask.Skip
)

// Pick is a choice.
type Pick struct {
	Origin int    // index in Group.Origins; None: there is none, Why says why
	Why    string // NoEnabledOrigin or AllSkipped
	// Session: the session's own origin was taken. Without it, a group with affinity has a new session to establish.
	Session bool
	// FailOpen: no origin was healthy, so that any was taken.
	FailOpen bool
}

// Choose chooses an origin as edge.md says in "Origin choice": enabled, healthy, best priority, session, latency window,
// weights. now is on the clock of all calls of the state. It allocates nothing.
//
// A retry is another call with the origins tried in Skip.
func (s *State) Choose(now time.Duration, ask Ask) Pick { return s.choose(now, ask, nil) }

func (s *State) choose(now time.Duration, ask Ask, t *Trace) Pick {
	g := s.group
	t.step(s, now, "enabled", s.all(), g.enabled)
	if g.enabled == 0 {
		return Pick{Origin: None, Why: NoEnabledOrigin}
	}
	may := g.enabled &^ ask.Skip
	if ask.Skip != 0 {
		t.step(s, now, "tried", g.enabled, may)
	}
	if may == 0 {
		return Pick{Origin: None, Why: AllSkipped}
	}
	open := may &^ g.draining
	if open == 0 {
		open = may // all are draining, and nobody else is there
	}
	in, failOpen := s.tier(now, open, t)
	if keeps := ask.Session & s.keeping(now, may, in); keeps != 0 {
		t.step(s, now, "session", in, keeps)
		return Pick{Origin: keeps.first(), Session: true, FailOpen: failOpen}
	}
	if failOpen {
		return Pick{Origin: s.turn(in, t), FailOpen: true}
	}
	near := s.window(in)
	t.step(s, now, "latency", in, near)
	return Pick{Origin: s.weighted(now, near, t)}
}

// keeping are the origins that a session may stay with: those of the tier, and, until their deadline, draining ones
// that would be in it.
func (s *State) keeping(now time.Duration, may, in Origins) Origins {
	late := may & s.group.draining
	for rest := late; rest != 0; rest &= rest - 1 {
		if i := rest.first(); now >= s.origins[i].drainFrom+s.group.Drain {
			late &^= Only(i)
		}
	}
	if late == 0 {
		return in
	}
	with, _ := s.tier(now, may&^s.group.draining|late, nil)
	return in | with&late
}

// tier leaves of a set, which is not empty, those healthy and not out, of the best priority. failOpen: none is healthy.
func (s *State) tier(now time.Duration, set Origins, t *Trace) (in Origins, failOpen bool) {
	t.step(s, now, "draining", set|s.group.draining&s.group.enabled, set)
	if set.Len() == 1 {
		return set, false // nobody else could be asked, whatever its health
	}
	in = set & s.healthy
	if failOpen = in == 0; failOpen {
		in = set
	}
	t.step(s, now, "healthy", set, in)
	t.failOpen(failOpen)
	if kept := in &^ s.out(now); kept != 0 && kept != in {
		t.step(s, now, "failing", in, kept)
		in = kept
	}
	if failOpen && !s.group.ByPriority {
		return in, true
	}
	best := s.group.best(in)
	t.step(s, now, "priority", in, best)
	return best, failOpen
}

// window leaves the origins of a set that are near enough to the fastest. One whose latency is not known stays only if
// that is so of all.
func (s *State) window(set Origins) Origins {
	measured := set & s.measured
	if measured == 0 {
		return set
	}
	fastest := s.fastest(measured)
	near := Origins(0)
	for rest := measured; rest != 0; rest &= rest - 1 {
		if i := rest.first(); s.near(s.origins[i].latency, fastest) {
			near |= Only(i)
		}
	}
	return near
}

func (s *State) fastest(measured Origins) time.Duration {
	fastest := s.origins[measured.first()].latency
	for rest := measured; rest != 0; rest &= rest - 1 {
		fastest = min(fastest, s.origins[rest.first()].latency)
	}
	return fastest
}

// near compares whole milliseconds at sensitivity 0: no two origins are equally fast to the nanosecond.
func (s *State) near(latency, fastest time.Duration) bool {
	if s.group.Sensitivity == 0 {
		return latency/time.Millisecond == fastest/time.Millisecond
	}
	return latency-fastest <= s.group.Sensitivity
}

// turn is the next origin of a set in plain turn.
func (s *State) turn(set Origins, t *Trace) int {
	after := set >> (s.last + 1) << (s.last + 1) // a shift by 64 gives 0
	if after == 0 {
		after = set
	}
	i := after.first()
	t.chosen(s, "turn", set, i)
	s.last = i
	return i
}

// scale makes weights finer, so that a share can grow in small steps.
const scale = 1024

// weighted is smooth weighted round robin: each origin of the set gains its weight, the one that has most is taken and
// pays what all gained. What an origin has is kept while it is not in the set; it is bounded by what all gain now, or one
// that comes back from a set of large weights would be taken many times in a row.
func (s *State) weighted(now time.Duration, set Origins, t *Trace) int {
	total := int64(0)
	for rest := set; rest != 0; rest &= rest - 1 {
		total += s.weight(now, rest.first())
	}
	most := None
	for rest := set; rest != 0; rest &= rest - 1 {
		i := rest.first()
		o := &s.origins[i]
		o.current = min(max(o.current, -total), total) + s.weight(now, i)
		if most == None || o.current > s.origins[most].current {
			most = i
		}
	}
	s.origins[most].current -= total
	t.chosen(s, "weight", set, most)
	return most
}

// weight is an origin's weight now: of one that returned, the part that its ramp has reached.
func (s *State) weight(now time.Duration, i int) int64 {
	o := &s.origins[i]
	full := int64(s.group.Origins[i].Weight) * scale
	if !o.returned || s.group.Ramp == 0 {
		return full
	}
	passed := now - max(o.since, o.outUntil)
	if passed >= s.group.Ramp {
		return full
	}
	// In microseconds, so that a ramp of a day does not overflow; a ramp shorter than one was over above.
	return max(1, full*max(passed, 0).Microseconds()/max(1, s.group.Ramp.Microseconds()))
}
