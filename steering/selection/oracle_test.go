package selection

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// oracle is a second, dumb reading of edge.md: lists instead of sets, and nothing shared with the first.
type oracle struct {
	g                    *Group
	health               []Health
	failures, times      []int
	outFrom, outUntil    []time.Duration
	since                []time.Duration
	returned, judgedOnce []bool
	current              []int64
	last                 int
}

func newOracle(g *Group) *oracle {
	n := len(g.Origins)
	return &oracle{
		g: g, health: make([]Health, n), failures: make([]int, n), times: make([]int, n), outFrom: make([]time.Duration, n),
		outUntil: make([]time.Duration, n), since: make([]time.Duration, n), returned: make([]bool, n), judgedOnce: make([]bool, n), current: make([]int64, n),
	}
}

func (o *oracle) setHealth(now time.Duration, i int, h Health) {
	if h.Healthy && !o.health[i].Healthy && o.judgedOnce[i] && o.health[i].Seen >= o.g.Need {
		o.returned[i], o.since[i] = true, now
	}
	o.judgedOnce[i], o.health[i] = true, h
}

func (o *oracle) failed(now time.Duration, i int) {
	if o.g.Passive.Failures == 0 || now < o.outUntil[i] {
		return
	}
	o.failures[i]++
	if o.failures[i] == o.g.Passive.Failures {
		o.failures[i] = 0
		o.times[i]++
		d := min(time.Duration(o.times[i])*o.g.Passive.Out, o.g.Passive.MaxOut)
		o.outFrom[i], o.outUntil[i], o.returned[i] = now, now+d, true
	}
}

func (o *oracle) succeeded(now time.Duration, i int) {
	o.failures[i] = 0
	if o.times[i] > 0 && now-o.outUntil[i] >= o.outUntil[i]-o.outFrom[i] {
		o.times[i] = 0
	}
}

// tier is the list of the best origins among those given, and whether none was healthy.
func (o *oracle) tier(now time.Duration, list []int) ([]int, bool) {
	if len(list) == 1 {
		return list, false
	}
	keep := func(in []int, f func(i int) bool) []int {
		var out []int
		for _, i := range in {
			if f(i) {
				out = append(out, i)
			}
		}
		return out
	}
	healthy := keep(list, func(i int) bool { return o.health[i].Healthy })
	open := len(healthy) == 0
	if open {
		healthy = list
	}
	if well := keep(healthy, func(i int) bool { return now >= o.outUntil[i] }); len(well) > 0 {
		healthy = well
	}
	if open && !o.g.ByPriority {
		return healthy, true
	}
	best := MaxPriority
	for _, i := range healthy {
		best = min(best, o.g.Origins[i].Priority)
	}
	return keep(healthy, func(i int) bool { return o.g.Origins[i].Priority == best }), open
}

func (o *oracle) choose(now time.Duration, session, skip Origins) Pick {
	var enabled, may, open, keeping []int
	for i, p := range o.g.Origins {
		if !p.Enabled {
			continue
		}
		enabled = append(enabled, i)
		if skip.Has(i) {
			continue
		}
		may = append(may, i)
		if !p.Draining {
			open = append(open, i)
		}
		if !p.Draining || now < o.g.Drain { // all began to drain at 0
			keeping = append(keeping, i)
		}
	}
	switch {
	case len(enabled) == 0:
		return Pick{Origin: None, Why: NoEnabledOrigin}
	case len(may) == 0:
		return Pick{Origin: None, Why: AllSkipped}
	case len(open) == 0:
		open = may
	}
	in, failOpen := o.tier(now, open)
	for i := range o.g.Origins {
		if !session.Has(i) {
			continue
		}
		stays := slices.Contains(in, i)
		if !stays && o.g.Origins[i].Draining && slices.Contains(keeping, i) {
			with, _ := o.tier(now, keeping)
			stays = slices.Contains(with, i)
		}
		if stays {
			return Pick{Origin: i, Session: true, FailOpen: failOpen}
		}
	}
	if failOpen {
		for k := 1; ; k++ {
			if i := (o.last + k) % len(o.g.Origins); slices.Contains(in, i) {
				o.last = i
				return Pick{Origin: i, FailOpen: true}
			}
		}
	}
	return Pick{Origin: o.weighted(now, o.near(in))}
}

func (o *oracle) near(in []int) []int {
	var known []int
	for _, i := range in {
		if o.health[i].Known {
			known = append(known, i)
		}
	}
	if len(known) == 0 {
		return in
	}
	fastest := time.Duration(1 << 62)
	for _, i := range known {
		fastest = min(fastest, o.health[i].Latency)
	}
	var near []int
	for _, i := range known {
		l := o.health[i].Latency
		if o.g.Sensitivity > 0 && l <= fastest+o.g.Sensitivity || o.g.Sensitivity == 0 && l.Milliseconds() == fastest.Milliseconds() {
			near = append(near, i)
		}
	}
	return near
}

func (o *oracle) weighted(now time.Duration, in []int) int {
	weight := func(i int) int64 {
		full := int64(o.g.Origins[i].Weight) * 1024
		from := max(o.since[i], o.outUntil[i])
		if !o.returned[i] || o.g.Ramp == 0 || now-from >= o.g.Ramp {
			return full
		}
		return max(1, full*max(0, now-from).Microseconds()/o.g.Ramp.Microseconds())
	}
	var total int64
	for _, i := range in {
		total += weight(i)
	}
	best := -1
	for _, i := range in {
		o.current[i] = min(max(o.current[i], -total), total)
		o.current[i] += weight(i)
		if best < 0 || o.current[i] > o.current[best] {
			best = i
		}
	}
	o.current[best] -= total
	return best
}

// Random sequences of probes, failures and requests, played to both readings: they agree on every choice, and each choice
// is one that may be made.
//
// Covers: C1-C10, decisions 6
func TestOriginChoiceAgainstOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 50))
	choices, none, sessions, open := 0, 0, 0, 0
	for range 1000 {
		next := func() int { return random.IntN(256) }
		g := Group{Size: 4, Need: 3}
		shape := next()
		for range 1 + shape%8 {
			b := next()
			g.Origins = append(g.Origins, Origin{Name: "o", Priority: 1 + b%5, Weight: 1 + (b*37)%1000, Enabled: b%7 != 0, Draining: b%11 == 0})
		}
		g.ByPriority = shape&8 != 0
		g.Sensitivity = time.Duration(shape>>4&3) * 10 * ms
		g.Ramp = time.Duration(shape>>6) * 20 * time.Second
		g.Drain = 50 * time.Second
		g.Passive = Passive{Failures: shape % 4, Out: 10 * time.Second, MaxOut: 25 * time.Second}
		c, err := NewGroup(g)
		if err != nil {
			t.Fatal(err)
		}
		s, o := NewState(c, 0, 0), newOracle(c)
		now := time.Duration(0)
		for range 60 {
			op, i := next(), 0
			i = op >> 3 % len(g.Origins)
			switch op % 8 {
			case 0:
				now += time.Duration(next()) * 100 * ms
			case 1, 2:
				b := next()
				h := Health{Good: b % 5, Seen: 4, Healthy: b%5 >= 3, Known: b%5 > 0}
				if h.Known {
					h.Latency = time.Duration(b) * 300 * time.Microsecond
				}
				s.SetHealth(now, i, h)
				o.setHealth(now, i, h)
			case 3:
				s.Failed(now, i)
				o.failed(now, i)
			case 4:
				s.Succeeded(now, i)
				o.succeeded(now, i)
			default:
				session, skip := Origins(0), Origins(0)
				if op%8 == 6 {
					session = Only(i)
				}
				if op%8 == 7 {
					skip = Origins(next()) & s.all()
				}
				told := s.Explain(now, Ask{session, skip})
				got, want := s.Choose(now, Ask{session, skip}), o.choose(now, session, skip)
				if got != want || told.Pick != got {
					t.Fatalf("at %s: %+v, the oracle says %+v, it was told %+v", now, got, want, told.Pick)
				}
				choices++
				switch {
				case got.Origin == None:
					none++
				case !g.Origins[got.Origin].Enabled || skip.Has(got.Origin):
					t.Fatalf("%+v cannot be asked", got)
				case got.Session:
					sessions++
				case got.FailOpen:
					open++
				}
			}
		}
	}
	if least := choices / 50; none < least || sessions < least || open < least {
		t.Errorf("of %d choices %d without an origin, %d of sessions, %d failing open: the sequences show too little", choices, none, sessions, open)
	}
}
