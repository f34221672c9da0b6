package selection

import (
	"slices"
	"time"
)

// State is what one gateway node knows of the origins of a group: health, latency, shares given out. It is not safe for
// concurrent use: who has it locks it. Times are on a clock of the caller that never goes back.
type State struct {
	group   *Group
	origins []known
	// last is the origin that took the last plain turn.
	last int

	healthy, measured, failing Origins
}

// known is what is known of one origin.
type known struct {
	current int64 // smooth weighted round robin, in weights times scale
	health  Health
	judged  bool
	latency time.Duration

	returned bool // it was not there, or not healthy, before
	late     bool // it came while others were working
	since    time.Duration

	drainFrom time.Duration

	failures int // in a row
	times    int // taken out in succession
	outFrom  time.Duration
	outUntil time.Duration
}

// phases bounds how far a new state's wheel is turned.
const phases = 1024

// NewState is the state of a node that knows nothing yet. seed is a random number of the process: it says where the
// turns begin, so that not all processes begin with the same origin. It changes no share.
func NewState(g *Group, seed uint64, now time.Duration) *State {
	s := &State{group: g, origins: make([]known, len(g.Origins))}
	for i := range s.origins {
		s.origins[i].drainFrom = now
	}
	s.last = int(seed % uint64(len(g.Origins)))
	if g.enabled != 0 {
		for range seed % phases {
			s.weighted(now, g.enabled, nil)
		}
	}
	return s
}

// Next is the state for a group that was changed: what is known of an origin that has name and address still goes on. An
// origin that is new, or was disabled, counts as one that returns; of one that was disabled probes tell anew.
func (s *State) Next(g *Group, now time.Duration) *State {
	next := &State{group: g, origins: make([]known, len(g.Origins)), last: min(s.last, len(g.Origins)-1)}
	for i, o := range g.Origins {
		n := &next.origins[i]
		j := slices.IndexFunc(s.group.Origins, func(p Origin) bool { return p.Name == o.Name && p.Address == o.Address })
		if j < 0 {
			n.late, n.drainFrom = true, now
			continue
		}
		was := &s.group.Origins[j]
		*n = s.origins[j]
		if !was.Draining && o.Draining {
			n.drainFrom = now
		}
		if !was.Enabled || was.Draining && !o.Draining {
			n.late, n.returned, n.since = true, true, now
		}
		if !was.Enabled { // nobody has probed it meanwhile: what was found before may be days old
			n.health, n.latency, n.judged = Health{}, 0, false
		}
		next.failing |= s.failing >> j & 1 << i
		if n.judged {
			next.take(i, n.health)
		}
	}
	return next
}

// Group is the group the state is of.
func (s *State) Group() *Group { return s.group }

// Healthy are the origins whose probes say that they are.
func (s *State) Healthy() Origins { return s.healthy }

// Judged reports whether every enabled origin has as many results of probes as are looked at.
func (s *State) Judged() bool {
	for i := range s.origins {
		if s.group.enabled.Has(i) && s.origins[i].health.Seen < s.group.Size {
			return false
		}
	}
	return true
}

func (s *State) all() Origins {
	return Origins(1)<<len(s.origins) - 1 // of 64 origins the shift gives 0, and all bits are left
}

// SetHealth takes what the samples of an origin say now. It is called after each probe of the origin's endpoint.
func (s *State) SetHealth(now time.Duration, i int, h Health) {
	o := &s.origins[i]
	was := s.healthy.Has(i)
	if h.Healthy && !was && (o.late || o.judged && o.health.Seen >= s.group.Need) {
		o.returned, o.since = true, now
	}
	o.judged = true
	s.take(i, h)
}

func (s *State) take(i int, h Health) {
	o := &s.origins[i]
	o.health, o.latency = h, h.Latency
	s.healthy &^= Only(i)
	s.measured &^= Only(i)
	if h.Healthy {
		s.healthy |= Only(i)
	}
	if h.Known {
		s.measured |= Only(i)
	}
}

// Failed takes a failure of a request: no connection, no complete response, or a status of 500 and above. It reports
// whether that took the origin out, and until when.
func (s *State) Failed(now time.Duration, i int) (until time.Duration, out bool) {
	o, p := &s.origins[i], &s.group.Passive
	if p.Failures == 0 || now < o.outUntil {
		return 0, false
	}
	if o.failures++; o.failures < p.Failures {
		return 0, false
	}
	o.failures = 0
	o.times++
	o.outFrom, o.outUntil = now, now+min(p.Out*time.Duration(min(o.times, 1000)), p.MaxOut)
	o.returned = true
	s.failing |= Only(i)
	return o.outUntil, true
}

// Succeeded takes a request that got its response. An origin that has been well for as long as it was out begins anew.
func (s *State) Succeeded(now time.Duration, i int) {
	o := &s.origins[i]
	o.failures = 0
	if o.times > 0 && now >= o.outUntil+(o.outUntil-o.outFrom) {
		o.times = 0
	}
}

// out are the origins that failing requests have taken out.
func (s *State) out(now time.Duration) Origins {
	for rest := s.failing; rest != 0; rest &= rest - 1 {
		if i := rest.first(); now >= s.origins[i].outUntil {
			s.failing &^= Only(i)
		}
	}
	return s.failing
}
