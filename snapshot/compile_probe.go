package snapshot

import (
	"slices"
	"strings"
	"time"

	"steerpoint/spec"
	"steerpoint/steering"
)

// ProbeRule is one rule as CompileProbe takes it: what the core judges by, and the resource it was made of.
// Config.Points are the points assigned to the rule.
type ProbeRule struct {
	Config  *steering.RuleConfig
	Service *spec.Service
	Rule    *spec.Rule
}

// ProbeRules pairs configurations, as (*spec.Service).RuleConfigs made them, with the rules of their services. A
// configuration without its rule is left out.
func ProbeRules(services []*spec.Service, configs []steering.RuleConfig) []ProbeRule {
	byName := make(map[string]*spec.Service, len(services))
	for _, s := range services {
		byName[s.Name] = s
	}
	var rules []ProbeRule
	for i := range configs {
		c := &configs[i]
		s := byName[c.Service]
		if s == nil {
			continue
		}
		if r := s.Rule(c.Name); r != nil {
			rules = append(rules, ProbeRule{c, s, r})
		}
	}
	return rules
}

// TaskUses says, by task ID, which rules take a task's observations and for what. One observation of a task is one
// observation for every use.
type TaskUses map[string][]TaskUse

// CompileProbe makes the snapshot of one point: every address of every enabled edge of the rules assigned to the
// point is probed, standby edges and those of schedules included, and equal tasks are one. Rules whose probing is
// switched off have no tasks.
//
// slowAbove says above which latency the core now takes an ok of a use, at this point, for a failure; 0 or a nil
// function: never. Tasks are ordered by ID and uses by service, rule, edge and address: equal input makes equal output.
func CompileProbe(version uint64, point string, rules []ProbeRule, slowAbove func(TaskUse) time.Duration) (*Probe, TaskUses) {
	if slowAbove == nil {
		slowAbove = func(TaskUse) time.Duration { return 0 }
	}
	tasks, uses := map[string]*ProbeTask{}, TaskUses{}
	for _, r := range rules {
		if !r.Rule.Probe.Enabled || !slices.Contains(r.Config.Points, point) {
			continue
		}
		task := taskOf(r)
		for _, edge := range probedEdges(r.Config) {
			for _, address := range edge.Addresses {
				u := TaskUse{Service: r.Config.Service, Rule: r.Config.Name, Edge: edge.Name, Address: address}
				t := task
				t.Address, t.Family = spec.SplitFamily(address)
				t.ID = TaskID(&t)
				t.SlowAbove = slowAbove(u)
				uses[t.ID] = append(uses[t.ID], u)
				if shared := tasks[t.ID]; shared != nil {
					shared.join(&t)
				} else {
					tasks[t.ID] = &t
				}
			}
		}
	}
	out := &Probe{Version: version, Point: point, Tasks: make([]ProbeTask, 0, len(tasks))}
	for id, t := range tasks {
		t.Timeout = min(t.Timeout, t.Interval)
		out.Tasks = append(out.Tasks, *t)
		slices.SortFunc(uses[id], TaskUse.compare)
	}
	slices.SortFunc(out.Tasks, func(a, b ProbeTask) int { return strings.Compare(a.ID, b.ID) })
	return out, uses
}

// taskOf is a rule's task without an address. Fields that do not matter to its kind are left empty, so that they do
// not make two tasks of one.
func taskOf(r ProbeRule) ProbeTask {
	p, url := &r.Rule.Probe, r.Service.ProbeURL(r.Rule)
	t := ProbeTask{
		Kind: r.Service.ProbeKind(r.Rule), Port: url.Port(), MaxLatency: time.Duration(p.Expect.MaxLatency),
		Interval: r.Config.Interval, Timeout: r.Config.Timeout, Fall: r.Config.Fall, Rise: r.Config.Rise,
	}
	if t.Kind == KindHTTPS || t.Kind == KindGRPCS {
		t.TLSVerify, t.CertDays = p.Expect.TLSVerify, p.Expect.CertDays
	}
	switch t.Kind {
	case KindTCP, KindUDP16, KindICMP:
		return t
	case KindDNS:
		t.URL, t.Body = string(url), p.Expect.Body
		return t
	case KindGRPC, KindGRPCS:
		t.URL = string(url)
		return t
	}
	t.URL, t.Method, t.Body = string(url), p.Method, p.Expect.Body
	for _, s := range p.Expect.Status {
		t.Statuses = append(t.Statuses, StatusRange(s))
	}
	return t
}

// probedEdges are the enabled edges of a rule, each once, those of its schedule included: an edge that will answer
// at one o'clock has to be known before.
func probedEdges(c *steering.RuleConfig) []steering.EdgeConfig {
	wanted := map[string]bool{}
	for _, name := range c.Edges {
		wanted[name] = true
	}
	for _, w := range c.Schedule {
		for _, name := range w.Edges {
			wanted[name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(c.ServiceEdges), func(e steering.EdgeConfig) bool { return !e.Enabled || !wanted[e.Name] })
}

// join takes another rule's wishes into a shared task.
func (t *ProbeTask) join(o *ProbeTask) {
	t.Interval = min(t.Interval, o.Interval)
	t.Timeout = max(t.Timeout, o.Timeout)
	t.Fall, t.Rise = max(t.Fall, o.Fall), min(t.Rise, o.Rise)
	if t.SlowAbove == 0 || o.SlowAbove > 0 && o.SlowAbove < t.SlowAbove {
		t.SlowAbove = o.SlowAbove
	}
}
