package steertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"steerpoint/steering"
)

// applies keeps what of a recording other resources could use: what would have been seen of an edge that was never probed
// is not known, and must be said.
type applies struct {
	seen    map[target]bool // observations came, and a rule took them
	unheard map[string]int  // edges that were observed, and that no rule of the new resources takes; by name
}

func (a *applies) observed(to target, took bool) {
	if a.seen == nil {
		a.seen, a.unheard = map[target]bool{}, map[string]int{}
	}
	if took {
		a.seen[to] = true
	} else {
		a.unheard[to.service+"/"+to.edge+"@"+to.address]++
	}
}

// nowhere notes observations of edges that the resources do not have.
func (a *applies) nowhere(st *Statement) {
	if a.unheard == nil {
		a.seen, a.unheard = map[target]bool{}, map[string]int{}
	}
	a.unheard[strings.Join(st.Edges, ",")]++
}

// tell adds the notes of a run with other resources.
func (a *applies) tell(r *runner, with *resources) {
	if r.opts.With == nil {
		return
	}
	note := func(format string, args ...any) {
		r.result.Notes = append(r.result.Notes, fmt.Sprintf(format, args...))
	}
	for _, edge := range slices.Sorted(maps.Keys(a.unheard)) {
		note("%d observations of %s do not apply: no rule takes them", a.unheard[edge], edge)
	}
	own := r.loaded.sections[r.tl.Sections[0].Name]
	for i := range with.rules {
		cfg := &with.rules[i]
		for _, e := range cfg.ServiceEdges {
			if !e.Enabled || !slices.Contains(cfg.Edges, e.Name) {
				continue
			}
			for _, address := range e.Addresses {
				if !a.seen[target{cfg.Service, e.Name, address}] {
					note("rule %s: nothing was recorded of edge %s (%s): it stays unknown", cfg.Key(), e.Name, address)
				}
			}
		}
		if old := own.rule(cfg.Key()); old != nil {
			noteProbes(note, old, cfg)
		}
	}
}

// noteProbes says where a rule would have been probed otherwise than it was.
func noteProbes(note func(string, ...any), old, cfg *steering.RuleConfig) {
	if old.Interval != cfg.Interval {
		note("rule %s: probes were recorded every %v, not every %v", cfg.Key(), old.Interval, cfg.Interval)
	}
	if old.Timeout != cfg.Timeout {
		note("rule %s: probes were recorded with a timeout of %v, not of %v", cfg.Key(), old.Timeout, cfg.Timeout)
	}
}
