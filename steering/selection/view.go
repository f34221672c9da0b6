package selection

import "time"

// View is what is known of one origin, for people. It decides nothing.
type View struct {
	Health
	Enabled, Draining bool
	// OutFor is how long failing requests keep it out yet; 0: they do not.
	OutFor time.Duration
	// Share is the part of its weight that it has while it ramps up, from 0 to 1; 1: all of it.
	Share float64
}

// View says what is known of origin i, and changes nothing.
func (s *State) View(now time.Duration, i int) View {
	o, g := &s.origins[i], &s.group.Origins[i]
	v := View{Health: o.health, Enabled: g.Enabled, Draining: g.Draining, Share: 1}
	if s.failing.Has(i) && now < o.outUntil {
		v.OutFor = o.outUntil - now
	}
	// As weight has it, without the rounding: there a share of nothing is still a weight of 1.
	if began := max(o.since, o.outUntil); o.returned && s.group.Ramp > 0 && now < began+s.group.Ramp {
		v.Share = float64(max(now-began, 0)) / float64(s.group.Ramp)
	}
	return v
}
