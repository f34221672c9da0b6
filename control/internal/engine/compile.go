package engine

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

// compiled is one rule of the configuration.
type compiled struct {
	service   *spec.Service
	rule      *spec.Rule
	base, cfg steering.RuleConfig
	warning   string
}

// adopt makes a set the one in use.
func (e *Engine) adopt(set *spec.Set, overrides []Override) {
	e.set, e.overrides, e.services = set, overrides, set.Services()
}

// compile makes the configuration of every rule, and the warnings.
func (e *Engine) compile(now steering.Instant) []compiled {
	var points []steering.Point
	for _, p := range e.points {
		if !e.drainedPoint(now, p.Name) {
			points = append(points, p)
		}
	}
	e.warnings = nil
	var out []compiled
	for _, s := range e.services {
		configs, warns := s.RuleConfigs(points)
		for _, w := range warns {
			e.warnings = append(e.warnings, Warning{s.Name, w.Code, w.Path + ": " + w.Problem})
		}
		for _, base := range configs {
			c := compiled{service: s, rule: s.Rule(base.Name), base: base}
			c.cfg, c.warning = e.withoutDrained(now, base)
			if c.warning != "" {
				e.warnings = append(e.warnings, Warning{base.Key(), "DRAIN_IGNORED", c.warning})
			}
			if replaced := silentPoints(c.rule, base.Key(), points); replaced != "" {
				e.warnings = append(e.warnings, Warning{base.Key(), "POINT_SILENT", replaced})
				c.warning = strings.TrimPrefix(c.warning+"; "+replaced, "; ")
			}
			out = append(out, c)
		}
	}
	return out
}

// silentPoints says which points of a rule others stand in for; "" if none.
func silentPoints(r *spec.Rule, key string, points []steering.Point) string {
	if !r.Probe.Enabled {
		return ""
	}
	silent, instead := steering.Substitutes(key, r.Scope.Scope(), r.Probe.Points.Selector(), points)
	if len(silent) == 0 {
		return ""
	}
	text := "nothing was heard of probe point " + strings.Join(silent, ", ") + " for ten minutes: the rule goes on "
	if len(instead) == 0 {
		return text + "without it"
	}
	return text + "with " + strings.Join(instead, ", ")
}

// withoutDrained disables the drained edges of a rule; if none would be left, all stay: an empty answer by accident is
// worse than one from an edge that somebody wanted rid of.
func (e *Engine) withoutDrained(now steering.Instant, base steering.RuleConfig) (steering.RuleConfig, string) {
	cfg, touched, left := base, false, false
	cfg.ServiceEdges = slices.Clone(base.ServiceEdges)
	for i := range cfg.ServiceEdges {
		edge := &cfg.ServiceEdges[i]
		if edge.Enabled && e.drained(now, base.Service, edge.Name) {
			edge.Enabled, touched = false, true
		}
		left = left || (edge.Enabled && slices.Contains(base.Edges, edge.Name))
	}
	if !touched {
		return base, ""
	}
	if !left {
		return base, "every edge of rule " + base.Key() + " is drained: it goes on as if none were"
	}
	return cfg, ""
}

// sameConfig compares what the core sees.
func sameConfig(a, b *steering.RuleConfig) bool { return reflect.DeepEqual(a, b) }

// compileProbes makes the probe snapshot of every point and the way of its observations to the rules. A snapshot keeps
// its version while nothing in it changes.
func (e *Engine) compileProbes() {
	rules := e.probeRules()
	targets := make(map[string]map[string]*intake, len(e.points))
	for _, p := range e.points {
		made, uses := snapshot.CompileProbe(0, p.Name, rules, func(u snapshot.TaskUse) time.Duration { return e.slow[u][p.Name] })
		byTask := make(map[string]*intake, len(uses))
		for id, list := range uses {
			in := &intake{}
			old := e.targets[p.Name][id]
			if old != nil {
				in.newest = old.newest
			}
			for _, u := range list {
				in.uses = append(in.uses, &target{rule: e.rules[u.Service+"/"+u.Rule], edge: u.Edge, address: u.Address})
			}
			if old != nil && slices.EqualFunc(in.uses, old.uses, sameUse) {
				in.key = old.key
			}
			byTask[id] = in
		}
		targets[p.Name] = byTask
		if old := e.probes[p.Name]; old != nil && reflect.DeepEqual(old.Tasks, made.Tasks) {
			continue
		}
		e.version++
		made.Version = e.version
		e.probes[p.Name] = made
	}
	e.targets = targets
}

func (e *Engine) probeRules() []snapshot.ProbeRule {
	configs := make([]steering.RuleConfig, 0, len(e.rules))
	for _, s := range e.services {
		for i := range s.Rules {
			if r := e.rules[s.Name+"/"+s.Rules[i].Name]; r != nil {
				configs = append(configs, r.cfg)
			}
		}
	}
	return snapshot.ProbeRules(e.services, configs)
}

// Probe is the newest probe snapshot of a point; nil before the first configuration.
func (e *Engine) Probe(point string) *snapshot.Probe { return e.probes[point] }

// RefreshSlow brings the latency above which an ok counts as slow up to date in the probe snapshots. A change of less
// than a tenth is left: a baseline moves with every probe.
func (e *Engine) RefreshSlow(now steering.Instant) {
	slow, moved := map[snapshot.TaskUse]map[string]time.Duration{}, false
	for _, r := range e.rules {
		if r.cfg.SlowMilli == 0 {
			continue
		}
		for _, edge := range r.machine.Status(now) {
			for _, a := range edge.Addresses {
				u := snapshot.TaskUse{Service: r.base.Service, Rule: r.base.Name, Edge: edge.Edge, Address: a.Address}
				slow[u] = a.SlowAbove
				for point, above := range a.SlowAbove {
					old := e.slow[u][point]
					moved = moved || max(above-old, old-above)*10 > old
				}
			}
		}
	}
	if moved || (len(slow) == 0 && len(e.slow) > 0) {
		e.slow = slow
		e.compileProbes()
	}
}

// UsesOf says what a point's task is for, and the longest interval of its rules; nothing if the point has no such task.
func (e *Engine) UsesOf(point, task string) (uses []snapshot.TaskUse, interval time.Duration) {
	in := e.targets[point][task]
	if in == nil {
		return nil, 0
	}
	for _, t := range in.uses {
		uses = append(uses, snapshot.TaskUse{Service: t.rule.base.Service, Rule: t.rule.base.Name, Edge: t.edge, Address: t.address})
		interval = max(interval, t.rule.base.Interval)
	}
	return uses, interval
}

// TasksOf gives the probes of one edge as the first rule that names it probes it (the first rule, when none does), also
// when the edge is disabled or drained, or probing is off. found is false when there is no such edge.
func (e *Engine) TasksOf(service, edge string) (tasks []snapshot.ProbeTask, found bool) {
	i := slices.IndexFunc(e.services, func(s *spec.Service) bool { return s.Name == service })
	if i < 0 || e.services[i].Edge(edge) == nil || len(e.services[i].Rules) == 0 {
		return nil, false
	}
	s := e.services[i]
	configs, _ := s.RuleConfigs(nil)
	c := &configs[max(slices.IndexFunc(configs, func(c steering.RuleConfig) bool { return slices.Contains(c.Edges, edge) }), 0)]
	const here = "here" // a point of its own: this snapshot goes nowhere
	c.Edges, c.Schedule, c.Points, c.ServiceEdges = []string{edge}, nil, []string{here}, slices.Clone(c.ServiceEdges)
	for j := range c.ServiceEdges {
		c.ServiceEdges[j].Enabled = true
	}
	rule := *s.Rule(c.Name)
	rule.Probe.Enabled = true
	made, _ := snapshot.CompileProbe(0, here, []snapshot.ProbeRule{{Config: c, Service: s, Rule: &rule}}, nil)
	return made.Tasks, true
}
