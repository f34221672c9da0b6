package steertest

import (
	"fmt"
	"slices"
	"strings"

	"steerpoint/steering"
)

// Loader turns a resource section into the configurations of its rules, in the order of the file. points are the
// timeline's; they belong to every rule whose probe.points names none, and the Loader sets RuleConfig.Points so.
// An error is shown as it is: it should name file, line and field.
type Loader func(name string, data []byte, points []string) ([]steering.RuleConfig, error)

// resources is one loaded section.
type resources struct {
	rules    []steering.RuleConfig
	services []string                         // in the order of their first rule
	edges    map[string][]steering.EdgeConfig // by service, with the addresses of all its rules: rules may probe different families
}

func newResources(rules []steering.RuleConfig) *resources {
	res := &resources{rules: rules, edges: map[string][]steering.EdgeConfig{}}
	for i := range rules {
		service := rules[i].Service
		if _, ok := res.edges[service]; !ok {
			res.services = append(res.services, service)
		}
		res.edges[service] = joined(res.edges[service], rules[i].ServiceEdges)
	}
	return res
}

// joined adds the edges and addresses of another rule of the service.
func joined(edges, more []steering.EdgeConfig) []steering.EdgeConfig {
	for _, e := range more {
		i := slices.IndexFunc(edges, func(have steering.EdgeConfig) bool { return have.Name == e.Name })
		if i < 0 {
			e.Addresses = slices.Clone(e.Addresses)
			edges = append(edges, e)
			continue
		}
		for _, a := range e.Addresses {
			if !slices.Contains(edges[i].Addresses, a) {
				edges[i].Addresses = append(edges[i].Addresses, a)
			}
		}
	}
	return edges
}

func (res *resources) rule(key string) *steering.RuleConfig {
	for i := range res.rules {
		if res.rules[i].Key() == key {
			return &res.rules[i]
		}
	}
	return nil
}

func (res *resources) edge(service, name string) *steering.EdgeConfig {
	for i := range res.edges[service] {
		if res.edges[service][i].Name == name {
			return &res.edges[service][i]
		}
	}
	return nil
}

// ref is an EDGES word taken apart. Service "" means the only service; edge All means all of them.
type ref struct {
	service, edge, address string
}

func parseRef(text string) ref {
	name, address, _ := strings.Cut(text, "@")
	service, edge, qualified := strings.Cut(name, "/")
	if !qualified {
		return ref{edge: service, address: address}
	}
	return ref{service: service, edge: edge, address: address}
}

func (r ref) matches(service, edge string) bool {
	return (r.service == "" || r.service == service) && (r.edge == All || r.edge == edge)
}

// target is one address of one edge: what one observation is about.
type target struct {
	service, edge, address string
}

// targets expands an EDGES list in the order of the services and of each service's edges, whatever order the line has.
// Names that the resources do not have at that time match nothing: an edge that was removed is probed no more.
func (res *resources) targets(edges []string) []target {
	refs := make([]ref, len(edges))
	for i, text := range edges {
		refs[i] = parseRef(text)
	}
	var out []target
	for _, service := range res.services {
		for _, e := range res.edges[service] {
			for _, address := range e.Addresses {
				hit := func(r ref) bool {
					return r.matches(service, e.Name) && (r.address == "" || r.address == address)
				}
				if slices.ContainsFunc(refs, hit) {
					out = append(out, target{service, e.Name, address})
				}
			}
		}
	}
	return out
}

// loaded is every section of a timeline.
type loaded struct {
	sections map[string]*resources
	states   map[string]*States
	errs     Errors
	file     string
}

func (l *loaded) fail(line int, code Code, format string, args ...any) {
	l.errs = append(l.errs, &LineError{File: l.file, Line: line, Code: code, Text: fmt.Sprintf(format, args...)})
}

// load loads every section and checks that each name a statement uses is defined in one of them, so that a mistyped
// edge is an error and not a probe that never happens.
func load(tl *Timeline, loader Loader) (*loaded, error) {
	l := &loaded{sections: map[string]*resources{}, file: tl.Name}
	l.loadStates(tl)
	for i, s := range tl.Sections {
		if _, isState := l.states[s.Name]; isState && i > 0 {
			continue
		}
		rules, err := loader(s.Name, s.Data, tl.Points)
		if err != nil {
			l.fail(0, CodeLoad, "section %s: %v", s.Name, err)
			continue
		}
		l.sections[s.Name] = newResources(rules)
	}
	if len(l.errs) > 0 {
		return nil, l.errs
	}
	for i := range tl.Statements {
		l.check(&tl.Statements[i])
	}
	if len(l.errs) > 0 {
		return nil, l.errs.sorted()
	}
	return l, nil
}

func (l *loaded) check(st *Statement) {
	switch st.Kind {
	case KindObserve:
		for _, text := range st.Edges {
			l.checkRef(st.Line, text)
		}
		for _, rule := range st.Only {
			l.checkRule(&Statement{Line: st.Line, Rule: rule})
		}
	case KindDrain, KindUndrain:
		service, edge, _ := strings.Cut(st.Edge, "/")
		if !l.has(ref{service: service, edge: edge}) {
			l.fail(st.Line, CodeUnknown, "no section has an edge %q; there are: %s", st.Edge, listOrNone(l.edgeNames(service)))
		}
	case KindForce:
		if service, _, _ := strings.Cut(st.Rule, "/"); l.checkRule(st) && !l.has(ref{service: service, edge: st.Edge}) {
			l.fail(st.Line, CodeUnknown, "service %s has no edge %q; there are: %s", service, st.Edge, listOrNone(l.edgeNames(service)))
		}
	case KindExpectVerdict:
		r := parseRef(st.Edge)
		r.service, _, _ = strings.Cut(st.Rule, "/")
		if l.checkRule(st) && !l.has(r) {
			l.fail(st.Line, CodeUnknown, "service %s has no edge %q; there are: %s", r.service, st.Edge, listOrNone(l.edgeNames(r.service)))
		}
	case KindExpect, KindExpectSwitches, KindUnforce, KindTick:
		l.checkRule(st)
	case KindApply:
		if l.sections[st.File] == nil {
			l.fail(st.Line, CodeSyntax, "section %q holds states, not resources", st.File)
		}
	case KindFreeze, KindUnfreeze:
		if strings.Contains(st.Rule, "/") {
			l.checkRule(st)
		} else if !slices.Contains(l.services(), st.Rule) {
			l.fail(st.Line, CodeUnknown, "no section has a service %q; there are: %s", st.Rule, listOrNone(l.services()))
		}
	}
}

func (l *loaded) checkRule(st *Statement) bool {
	var keys []string
	for _, res := range l.sections {
		if res.rule(st.Rule) != nil {
			return true
		}
		for i := range res.rules {
			keys = append(keys, res.rules[i].Key())
		}
	}
	slices.Sort(keys)
	l.fail(st.Line, CodeUnknown, "no section has a rule %q; there are: %s", st.Rule, listOrNone(slices.Compact(keys)))
	return false
}

func (l *loaded) checkRef(line int, text string) {
	r := parseRef(text)
	services := l.services()
	switch {
	case text == All:
	case r.service == "" && len(services) > 1:
		l.fail(line, CodeUnknown, "edge %q: with several services (%s) write service/edge", text, strings.Join(services, ", "))
	case r.service != "" && !slices.Contains(services, r.service):
		l.fail(line, CodeUnknown, "no section has a service %q; there are: %s", r.service, listOrNone(services))
	case r.edge != All && !l.has(r):
		l.fail(line, CodeUnknown, "no section has an edge %q; there are: %s", text, listOrNone(l.edgeNames(r.service)))
	}
}

func (l *loaded) has(r ref) bool {
	for _, res := range l.sections {
		for _, service := range res.services {
			for _, e := range res.edges[service] {
				if r.matches(service, e.Name) && (r.address == "" || slices.Contains(e.Addresses, r.address)) {
					return true
				}
			}
		}
	}
	return false
}

func (l *loaded) services() []string {
	var names []string
	for _, res := range l.sections {
		names = append(names, res.services...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// edgeNames are the edges of a service ("": of all) in any section, with the addresses of those that have several.
func (l *loaded) edgeNames(service string) []string {
	var names []string
	for _, res := range l.sections {
		for _, s := range res.services {
			for _, e := range res.edges[s] {
				if service != "" && service != s {
					continue
				}
				names = append(names, e.Name)
				if len(e.Addresses) > 1 {
					for _, a := range e.Addresses {
						names = append(names, e.Name+"@"+a)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
