package spec

import (
	"slices"
	"strings"
	"time"

	"steerpoint/steering"
)

// RuleConfigs compiles the rules of a service for the decision core, in the order they are written. points are all
// probe points there are; each rule is assigned its own. The warnings name rules that get fewer points than asked.
//
// Edges that this version cannot resolve (nodes, provider) are left out; no rule of a valid service names one.
func (s *Service) RuleConfigs(points []steering.Point) ([]steering.RuleConfig, []Warning) {
	edges := s.edgeConfigs(nil) // of all rules that do not choose families
	out := make([]steering.RuleConfig, 0, len(s.Rules))
	var warns []Warning
	for i := range s.Rules {
		r := &s.Rules[i]
		cfg := s.ruleConfig(r, edges)
		if len(r.Probe.Families) > 0 {
			cfg.ServiceEdges = s.edgeConfigs(r.Probe.Families)
		}
		if r.Probe.Enabled {
			var warning string
			cfg.Points, warning = steering.AssignPoints(cfg.Key(), r.Scope.Scope(), r.Probe.Points.Selector(), points)
			if warning != "" {
				warns = append(warns, Warning{Finding{
					Code: CodePoints, Kind: KindService, Name: s.Name, Path: at("rules[%d].probe.points", i),
					Problem: "rule " + r.Name + ": " + warning,
				}})
			}
		}
		out = append(out, cfg)
	}
	return out, warns
}

// Selector gives the points as the core selects them.
func (p *Points) Selector() steering.PointSelector {
	if p.near() {
		return steering.PointSelector{Near: true, Count: p.count()}
	}
	return steering.PointSelector{Names: p.Names, Labels: p.Labels}
}

// targetFamily divides the name of a target from the family of its addresses, where families are probed apart. It is
// not part of any host name.
const targetFamily = "/"

// SplitFamily takes an address of a steering.EdgeConfig apart: the name of a target and the family that is probed of
// it, ipv4 or ipv6. family is "" for an IP address, and for a name whose addresses are probed as one.
func SplitFamily(address string) (host, family string) {
	host, family, _ = strings.Cut(address, targetFamily)
	return host, family
}

// probed are the addresses of an edge that a rule judges it by: with families only those, each of a name as one of its
// own.
func (e *Edge) probed(families []string) (out []string) {
	if e.Target != "" {
		if len(families) == 0 {
			return []string{string(e.Target)}
		}
		for _, f := range families {
			out = append(out, string(e.Target)+targetFamily+f)
		}
		return out
	}
	for _, a := range e.Addresses {
		family := "ipv6"
		if a.Is4() {
			family = "ipv4"
		}
		if len(families) == 0 || slices.Contains(families, family) {
			out = append(out, a.String())
		}
	}
	return out
}

// everyEdge names the edges of a rule, those of its schedule included, each once.
func (r *Rule) everyEdge() []string {
	out := slices.Clone(r.Edges)
	for i := range r.Schedule {
		for _, name := range r.Schedule[i].Edges {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// edgeConfigs gives the edges that can be resolved, as they are probed with families.
func (s *Service) edgeConfigs(families []string) []steering.EdgeConfig {
	var out []steering.EdgeConfig
	for i := range s.Edges {
		e := &s.Edges[i]
		cfg := steering.EdgeConfig{Name: e.Name, Enabled: e.Enabled, Weight: e.Weight, Addresses: e.probed(families)}
		if len(cfg.Addresses) == 0 { // no edge of the rule: not probed, but the rule can be forced to it
			cfg.Addresses = e.probed(nil)
		}
		if len(cfg.Addresses) > 0 {
			out = append(out, cfg)
		}
	}
	return out
}

func (s *Service) ruleConfig(r *Rule, edges []steering.EdgeConfig) steering.RuleConfig {
	cfg := steering.RuleConfig{
		Service: s.Name, Name: r.Name, Scope: r.Scope.String(), Mode: r.Mode.core(),
		Edges: r.Edges, ServiceEdges: edges,
		Lock: time.Duration(r.Lock), Cooldown: time.Duration(r.Cooldown), Dwell: time.Duration(r.Dwell),
		SlowMilli: int64(r.SlowFactor),
		AllDown:   r.WhenAllDown.core(), Fallback: r.WhenAllDown.Target,
		Interval: time.Duration(r.Probe.Interval), Timeout: time.Duration(r.ProbeTimeout()),
		Fall: r.Probe.Fall, Rise: r.Probe.Rise, MinPoints: r.Probe.MinPoints,
	}
	for i := range r.Schedule {
		cfg.Schedule = append(cfg.Schedule, r.Schedule[i].core())
	}
	return cfg
}

func (m Mode) core() steering.Mode {
	switch m {
	case Failover:
		return steering.ModeFailover
	case Quality:
		return steering.ModeQuality
	case Weighted:
		return steering.ModeWeighted
	}
	return steering.ModeFixed
}

func (a AllDown) core() steering.AllDown {
	switch a.Policy {
	case "all":
		return steering.AllDownAll
	case "first":
		return steering.AllDownFirst
	case "empty":
		return steering.AllDownEmpty
	case "fallback":
		return steering.AllDownFallback
	}
	return steering.AllDownHold
}

// core gives the window for the core. Parse has checked the time zone; should the machine have lost it, UTC holds.
func (w *Window) core() steering.Window {
	zone, err := time.LoadLocation(w.TZ)
	if err != nil {
		zone = time.UTC
	}
	out := steering.Window{
		From: time.Duration(w.From) * time.Minute, To: time.Duration(w.To) * time.Minute, Zone: zone, Edges: w.Edges,
	}
	for _, d := range w.everyDay() {
		out.Days[d] = true
	}
	return out
}
