package steertest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// generator makes random timelines. Times are mostly whole steps, so that events, expiries, locks and dwells often fall on
// one instant: that is where implementations differ.
type generator struct {
	*rand.Rand
	tl       *Timeline
	services []yamlService
	step     time.Duration
	end      time.Duration
}

func generate(seed uint64) *Timeline {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	g.tl = &Timeline{Name: fmt.Sprintf("seed-%d", seed), Epoch: defaultEpoch()}
	g.step = pick[time.Duration](g, 5, 10, 30) * time.Second
	g.end = g.step * time.Duration(30+g.IntN(120))
	for i := range 1 + g.IntN(5) {
		g.tl.Points = append(g.tl.Points, fmt.Sprintf("p%d", i+1))
	}
	if g.chance(10) {
		// Around two changes of daylight saving time, and a new year.
		g.tl.Epoch = pick(g, time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC), time.Date(2026, 10, 25, 0, 10, 0, 0, time.UTC),
			time.Date(2026, 12, 31, 23, 30, 0, 0, time.UTC))
	}
	for i := range 1 + g.IntN(10)/8 {
		g.services = append(g.services, g.service(fmt.Sprintf("s%d", i+1)))
	}
	flapping := g.chance(15)
	if flapping {
		r := &g.services[0].Rules[0]
		r.Lock, r.Cooldown, r.Mode = 5*time.Second, 20*time.Second, pick(g, "failover", "failover", "quality", "weighted")
	}
	g.section("start.yaml")
	if flapping {
		g.flaps()
	} else {
		g.observations(60 + g.IntN(300))
	}
	if g.chance(15) {
		g.longSlowness()
	}
	g.operations()
	return g.tl
}

// pick takes one of the values.
func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// section writes the present services down as a section.
func (g *generator) section(name string) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	for _, s := range g.services {
		if err := enc.Encode(s); err != nil {
			panic(err) // plain structs always encode
		}
	}
	g.tl.Sections = append(g.tl.Sections, Section{Name: name, Data: b.Bytes()})
}

func (g *generator) service(name string) yamlService {
	s := yamlService{Kind: "Service", Name: name}
	for i := range 1 + g.IntN(5) {
		s.Edges = append(s.Edges, g.edge(string(rune('a'+i)), i))
	}
	for i := range 1 + g.IntN(3) {
		s.Rules = append(s.Rules, g.rule(fmt.Sprintf("r%d", i+1), s.Edges))
	}
	return s
}

func (g *generator) edge(name string, i int) yamlEdge {
	e := yamlEdge{Name: name}
	if g.chance(75) {
		e.Target = name + ".example.net"
		return e
	}
	for j := range 2 + g.IntN(2) {
		e.Addresses = append(e.Addresses, fmt.Sprintf("192.0.2.%d", 10*(i+1)+j))
	}
	return e
}

// some takes a random, shuffled, non-empty part of the edges, most often all of them.
func (g *generator) some(edges []yamlEdge) []string {
	var names []string
	for _, i := range g.Perm(len(edges)) {
		names = append(names, edges[i].Name)
	}
	if g.chance(60) {
		slices.Sort(names)
	}
	if g.chance(30) {
		names = names[:1+g.IntN(len(names))]
	}
	return names
}

func (g *generator) rule(name string, edges []yamlEdge) yamlRule {
	r := yamlRule{
		Name: name, Scope: "*", Edges: g.some(edges),
		Mode: pick(g, "failover", "failover", "failover", "quality", "quality", "quality", "weighted", "fixed"),
		Lock: pick[time.Duration](g, 5, 30, 60, 300) * time.Second, Cooldown: pick[time.Duration](g, 20, 60, 120) * time.Second,
		Dwell:       pick[time.Duration](g, 0, 0, 20, 90) * time.Second,
		WhenAllDown: pick(g, "", "", "all", "first", "empty", "fallback:last.example.net"),
	}
	if g.chance(40) {
		r.SlowFactor = pick(g, 1.5, 2, 2)
	}
	r.Probe = yamlProbe{
		Interval: g.step, Timeout: 2 * time.Second, Fall: pick(g, 1, 2, 2, 3, 3, 3), Rise: pick(g, 1, 2, 2, 2, 3),
		MinPoints: pick(g, 0, 0, 0, 0, 1, 2),
	}
	if g.chance(20) {
		r.Probe.Interval = 2 * g.step
	}
	if g.chance(30) {
		for _, i := range g.Perm(len(g.tl.Points))[:1+g.IntN(len(g.tl.Points))] {
			r.Probe.Points.Names = append(r.Probe.Points.Names, g.tl.Points[i])
		}
	}
	for g.chance(8) {
		r.Schedule = append(r.Schedule, g.window(edges))
	}
	return r
}

func (g *generator) window(edges []yamlEdge) yamlWindow {
	clock := func() string { return fmt.Sprintf("%02d:%02d", pick(g, 0, 0, 0, 1, 8, 9, 23), g.IntN(60)) }
	w := yamlWindow{
		Days: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, From: clock(), To: clock(),
		TZ: pick(g, "UTC", "UTC", "Asia/Shanghai"), Edges: g.some(edges),
	}
	if g.chance(30) {
		w.Days = pick(g, []string{"thu"}, []string{"sun", "thu"}, []string{"fri"})
	}
	if w.From == w.To {
		w.To = "12:00"
	}
	return w
}

// observations lets every (points, edge) live through a chain of phases.
func (g *generator) observations(budget int) {
	groups := [][]string{{All}}
	if len(g.tl.Points) > 1 {
		k := 1 + g.IntN(len(g.tl.Points)-1)
		groups = append(groups, g.tl.Points[:k], g.tl.Points[k:])
		for _, p := range g.tl.Points {
			groups = append(groups, []string{p})
		}
	}
	for budget > 0 {
		from := g.step * time.Duration(g.IntN(int(g.end/g.step)))
		length := g.step * time.Duration(g.IntN(25))
		st := Statement{Kind: KindObserve, Points: pick(g, groups...), At: Span{From: from, To: from}}
		if length > 0 {
			st.At.To = min(from+length, g.end)
			st.At.Step = pick(g, g.step, g.step, g.step, g.step, g.step/2, 2*g.step, 3*g.step)
		}
		if g.chance(3) {
			st.At.From += time.Duration(g.IntN(3000)) * time.Millisecond
			st.At.To = max(st.At.To, st.At.From)
		}
		st.Edges = []string{g.edgeRef()}
		g.outcome(&st)
		if s := pick(g, g.services...); g.chance(4) {
			st.Only = []string{s.Name + "/" + pick(g, s.Rules...).Name}
		}
		cost := int(st.At.times())
		if st.Points[0] == All {
			cost *= len(g.tl.Points)
		}
		if st.Edges[0] == All {
			cost *= 3
		}
		budget -= cost
		g.tl.Statements = append(g.tl.Statements, st)
	}
	// Something healthy below it all, so that there is somewhere to go.
	if g.chance(80) {
		base := Statement{Kind: KindObserve, Points: []string{All}, Edges: []string{All}, OK: true, Latency: 40 * time.Millisecond}
		base.At = Span{From: 0, To: g.step * time.Duration(g.IntN(20)), Step: g.step}
		g.tl.Statements = slices.Insert(g.tl.Statements, 0, base)
	}
}

// longSlowness makes one edge slow for longer than the half hour after which a baseline is learnt anew, and a little less or
// more slow after it.
func (g *generator) longSlowness() {
	edges := []string{g.services[0].Edges[0].Name}
	if len(g.services) > 1 {
		edges[0] = g.services[0].Name + "/" + edges[0]
	}
	from := g.step * time.Duration(g.IntN(10))
	for range 3 {
		st := Statement{Kind: KindObserve, Points: []string{All}, Edges: edges, OK: true}
		st.Latency = pick[time.Duration](g, 40, 70, 79, 90, 170, 1800) * time.Millisecond
		st.At = Span{From: from, To: from + pick(g, 10*g.step, 31*time.Minute, 35*time.Minute), Step: g.step}
		for st.At.times() > 120 {
			st.At.Step *= 2
		}
		from = st.At.To + g.step
		g.tl.Statements = append(g.tl.Statements, st)
	}
	g.end = max(g.end, from)
}

// flaps makes the first edge of the first rule fail and return again and again, which brings its penalty up to damping, and
// ends in calm long enough for the damping to be over.
func (g *generator) flaps() {
	s := g.services[0]
	name := func(edge string) string {
		if len(g.services) > 1 {
			return s.Name + "/" + edge
		}
		return edge
	}
	say := func(edges string, from, to time.Duration, cause string, ms int) {
		st := Statement{Kind: KindObserve, Points: []string{All}, Edges: []string{edges}, At: Span{From: from, To: to, Step: g.step}, Cause: cause}
		if cause == "" {
			st.OK, st.Latency = true, time.Duration(ms)*time.Millisecond
		}
		g.tl.Statements = append(g.tl.Statements, st)
	}
	edge := s.Rules[0].Edges[0]
	at := time.Duration(0)
	for range 4 + g.IntN(3) {
		for _, cause := range []string{"", pick(g, "reset", "timeout")} {
			from := at
			at += g.step * time.Duration(4+g.IntN(3))
			say(name(edge), from, at-g.step, cause, 20)
		}
	}
	for _, e := range s.Edges {
		if e.Name != edge {
			say(name(e.Name), 0, at, "", 30)
		}
	}
	g.end = at
	g.observations(g.IntN(60))
	calm := Span{From: at + g.step, To: at + 45*time.Minute, Step: 2 * g.step}
	for _, edges := range []string{All, name(edge)} {
		g.tl.Statements = append(g.tl.Statements, Statement{
			Kind: KindObserve, Points: g.tl.Points[:1], Edges: []string{edges}, At: calm, OK: true, Latency: 20 * time.Millisecond,
		})
		calm.Step *= 5
	}
}

func (g *generator) edgeRef() string {
	s := g.services[g.IntN(len(g.services))]
	prefix := ""
	if len(g.services) > 1 || g.chance(5) {
		prefix = s.Name + "/"
	}
	e := s.Edges[g.IntN(len(s.Edges))]
	switch {
	case g.chance(12):
		return All
	case len(e.Addresses) > 1 && g.chance(60):
		return prefix + e.Name + "@" + pick(g, e.Addresses...)
	}
	return prefix + e.Name
}

func (g *generator) outcome(st *Statement) {
	if g.chance(35) {
		st.Cause = pick(g, "timeout", "refused", "tls")
		return
	}
	st.OK = true
	ms := pick(g, 20, 30, 40, 40, 44, 45, 50, 60, 90, 100, 180, 900)
	st.Latency = time.Duration(ms) * time.Millisecond
	if g.chance(10) {
		st.Latency += time.Duration(g.IntN(5) - 2)
	}
}

// operations adds what operators and accidents do.
func (g *generator) operations() {
	for range g.IntN(6) {
		at := g.step * time.Duration(g.IntN(int(g.end/g.step)))
		if g.chance(30) {
			at += time.Second
		}
		s := g.services[g.IntN(len(g.services))]
		st := Statement{At: Span{From: at, To: at}}
		switch g.IntN(8) {
		case 3:
			st.Kind, st.Rule = pick(g, KindUnforce, KindTick), s.Name+"/"+pick(g, s.Rules...).Name
		case 4:
			st.Kind, st.Rule = KindUnfreeze, s.Name
			if g.chance(50) {
				st.Rule += "/" + pick(g, s.Rules...).Name
			}
		case 5:
			st.Kind, st.Edge = pick(g, KindDrain, KindDrain, KindUndrain), s.Name+"/"+pick(g, s.Edges...).Name
		case 0:
			st.Kind, st.Rule, st.Edge = KindForce, s.Name+"/"+pick(g, s.Rules...).Name, pick(g, s.Edges...).Name
			st.For = g.span()
		case 1:
			st.Kind, st.Rule, st.For = KindFreeze, s.Name, g.span()
			if g.chance(50) {
				st.Rule += "/" + pick(g, s.Rules...).Name
			}
		case 2:
			st.Kind = KindRestart
		default:
			st.Kind, st.File = KindApply, fmt.Sprintf("v%d.yaml", len(g.tl.Sections))
			g.edit()
			g.section(st.File)
		}
		i := g.IntN(len(g.tl.Statements) + 1)
		g.tl.Statements = slices.Insert(g.tl.Statements, i, st)
	}
}

// span is the length of an override; 0 is to the end.
func (g *generator) span() time.Duration {
	if g.chance(15) {
		return 0
	}
	return g.step * time.Duration(1+g.IntN(40))
}

// edit changes one thing about the services.
func (g *generator) edit() {
	i := g.IntN(len(g.services))
	s := g.services[i]
	s.Edges, s.Rules = slices.Clone(s.Edges), slices.Clone(s.Rules)
	r := &s.Rules[g.IntN(len(s.Rules))]
	switch g.IntN(9) {
	case 0, 1:
		r.Edges = g.some(s.Edges)
	case 2:
		e := &s.Edges[g.IntN(len(s.Edges))]
		on := e.Enabled != nil && !*e.Enabled
		e.Enabled = &on
	case 3:
		r.Mode = pick(g, "failover", "quality", "weighted", "fixed")
	case 4:
		name := r.Name
		*r = g.rule(name, s.Edges)
	case 5:
		e := g.edge(string(rune('a'+len(s.Edges))), len(s.Edges))
		s.Edges = append(s.Edges, e)
		r.Edges = slices.Insert(slices.Clone(r.Edges), g.IntN(len(r.Edges)+1), e.Name)
	case 6:
		if len(s.Rules) > 1 {
			s.Rules = s.Rules[:len(s.Rules)-1]
		} else {
			s.Rules = append(s.Rules, g.rule("r9", s.Edges))
		}
	case 7:
		e := &s.Edges[g.IntN(len(s.Edges))]
		*e = g.edge(e.Name, int(e.Name[0]-'a'))
	case 8:
		r.Lock, r.Cooldown, r.Dwell = 30*time.Second, 60*time.Second, 20*time.Second
		r.Probe.Fall, r.Probe.Rise = 2, 2
	}
	g.services = slices.Clone(g.services)
	g.services[i] = s
}
