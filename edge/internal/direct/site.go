// Package direct says what is to be done with a request: from a snapshot it compiles the routes, rules, policies and origin
// groups of all services, and puts what they say of a request into one decision. It knows no socket: the gateway's core
// reads requests, asks origins and tells how that went; probers tell what they measured.
//
// A Site is compiled from one snapshot and not changed. What is learnt of origins is in its groups, behind their locks, and
// goes on in the Site made from the next snapshot.
package direct

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"steerpoint/edge/internal/affinity"
	"steerpoint/edge/internal/policy"
	"steerpoint/edge/internal/route"
	"steerpoint/edge/internal/rules"
	"steerpoint/snapshot"
	"steerpoint/steering/selection"
)

// Site is what a snapshot says, compiled.
type Site struct {
	Version   uint64
	Routes    []*Route
	Endpoints []*Endpoint // what is to be probed

	table    *route.Table
	services map[string]*Service
}

// Service is what holds for all routes of a service.
type Service struct {
	Name    string
	access  *policy.Access
	limits  *policy.Limits
	headers *policy.Headers
	groups  map[string]*Group
	// parents says by domain of a route which domain its session cookies are for; "": the host alone.
	parents map[string]string
}

// Route is a route with what it names.
type Route struct {
	Spec    *snapshot.EdgeRoute
	Service *Service
	Group   *Group
	sets    []*rules.Set
	body    bool
}

// Body reports whether a rule looks at bodies: then Request.Body must be filled in before Direct decides.
func (r *Route) Body() bool { return r.body }

// Group is an origin group with what this node knows of it.
type Group struct {
	Service string
	Spec    *snapshot.EdgeGroup
	open    *failOpen // goes on in the next Site

	sessions *affinity.Group // nil: it keeps none
	mu       sync.Mutex
	state    *selection.State
	failures map[int]string // what was wrong with the newest probe of an origin
}

// Input is what a Site is made from.
type Input struct {
	Snapshot *snapshot.Edge
	Secrets  *snapshot.EdgeSecrets // nil: none; then no group may keep sessions
	// Before is the Site until now, whose knowledge goes on; nil: there is none.
	Before *Site
	// Seed is a random number of the process: it says where turns begin.
	Seed uint64
	// Now is on the clock of all calls, which never goes back.
	Now time.Duration
}

// ErrSnapshot says that a snapshot cannot be served. The Site before it goes on.
var ErrSnapshot = errors.New("gateway snapshot")

// New compiles a Site. It refuses whatever it does not understand: half a configuration is another configuration.
func New(in Input) (*Site, error) {
	s := &Site{Version: in.Snapshot.Version, services: map[string]*Service{}}
	sets, err := ruleSets(in.Snapshot)
	if err != nil {
		return nil, err
	}
	keys, err := affinityKeys(in.Secrets)
	if err != nil {
		return nil, err
	}
	var matches []route.Route
	for i := range in.Snapshot.Services {
		spec := &in.Snapshot.Services[i]
		v, err := newService(spec, keys, &in)
		if err != nil {
			return nil, err
		}
		s.services[v.Name] = v
		for k := range spec.Routes {
			r, err := v.route(&spec.Routes[k], sets)
			if err != nil {
				return nil, err
			}
			s.Routes = append(s.Routes, r)
			matches = append(matches, route.Route{
				Name: v.Name + "/" + r.Spec.Name, Domains: r.Spec.Domains, Paths: r.Spec.Paths, HTTP: r.Spec.HTTP, HTTPS: r.Spec.HTTPS,
			})
		}
	}
	if s.table, err = route.New(matches); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	s.endpoints(&in)
	return s, nil
}

func ruleSets(e *snapshot.Edge) (map[string]*rules.Set, error) {
	out := map[string]*rules.Set{}
	for i := range e.RuleSets {
		set, err := rules.Compile(&e.RuleSets[i])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
		}
		out[e.RuleSets[i].Name] = set
	}
	return out, nil
}

func affinityKeys(s *snapshot.EdgeSecrets) ([]affinity.Key, error) {
	if s == nil {
		return nil, nil
	}
	var keys []affinity.Key
	for _, k := range s.Affinity {
		secret, err := base64.StdEncoding.DecodeString(k.Secret.Reveal())
		if err != nil {
			return nil, fmt.Errorf("%w: key %d of session cookies is not base64", ErrSnapshot, k.ID) // the error would show a part of it
		}
		keys = append(keys, affinity.Key{ID: k.ID, Secret: secret})
	}
	return keys, nil
}

func newService(spec *snapshot.EdgeService, keys []affinity.Key, in *Input) (*Service, error) {
	v := &Service{
		Name: spec.Name, access: policy.NewAccess(spec.Access), headers: policy.NewHeaders(spec.Headers),
		groups: map[string]*Group{}, parents: cookieDomains(spec),
	}
	var old *Service
	if in.Before != nil {
		old = in.Before.services[spec.Name]
	}
	if old == nil {
		old = &Service{}
	}
	v.limits = policy.NewLimits(spec.Limits, old.limits)
	for i := range spec.Groups {
		g, err := newGroup(spec.Name, &spec.Groups[i], keys, old.groups[spec.Groups[i].Name], in)
		if err != nil {
			return nil, fmt.Errorf("%w: origin group %s of %s: %w", ErrSnapshot, spec.Groups[i].Name, spec.Name, err)
		}
		v.groups[spec.Groups[i].Name] = g
	}
	return v, nil
}

// cookieDomains: under a wildcard domain all names share the session, those that are domains by themselves too; of nested
// wildcards the widest counts.
func cookieDomains(spec *snapshot.EdgeService) map[string]string {
	out := map[string]string{}
	var wild []string
	for i := range spec.Routes {
		for _, d := range spec.Routes[i].Domains {
			out[d] = ""
			if strings.HasPrefix(d, "*.") {
				wild = append(wild, d[1:])
			}
		}
	}
	for d := range out {
		for _, suffix := range wild {
			if name := strings.TrimPrefix(d, "*"); strings.HasSuffix(name, suffix) && (out[d] == "" || len(suffix)-1 < len(out[d])) {
				out[d] = suffix[1:]
			}
		}
	}
	return out
}

func (v *Service) route(spec *snapshot.EdgeRoute, sets map[string]*rules.Set) (*Route, error) {
	r := &Route{Spec: spec, Service: v, Group: v.groups[spec.Group]}
	if r.Group == nil {
		return nil, fmt.Errorf("%w: route %s of %s: there is no origin group %s", ErrSnapshot, spec.Name, v.Name, spec.Group)
	}
	switch spec.Forward {
	case snapshot.ForwardOrigin, snapshot.ForwardMatch, snapshot.ForwardHTTP, snapshot.ForwardHTTPS:
	default:
		return nil, fmt.Errorf("%w: route %s of %s: forward %q is not known", ErrSnapshot, spec.Name, v.Name, spec.Forward)
	}
	for _, name := range spec.RuleSets {
		set := sets[name]
		if set == nil {
			return nil, fmt.Errorf("%w: route %s of %s: there is no rule set %s", ErrSnapshot, spec.Name, v.Name, name)
		}
		for _, g := range set.Groups() {
			if v.groups[g] == nil {
				return nil, fmt.Errorf("%w: rule set %s: %s has no origin group %s", ErrSnapshot, name, v.Name, g)
			}
		}
		r.sets, r.body = append(r.sets, set), r.body || set.Body()
	}
	return r, nil
}

func newGroup(service string, spec *snapshot.EdgeGroup, keys []affinity.Key, before *Group, in *Input) (*Group, error) {
	g := &Group{Service: service, Spec: spec}
	sel := selection.Group{
		Sensitivity: spec.Sensitivity, ByPriority: spec.ByPriority, Ramp: spec.Ramp, Drain: spec.Drain,
		Size: spec.Health.Samples, Need: spec.Health.Successes,
		Passive: selection.Passive{Failures: spec.Failures, Out: spec.Out, MaxOut: spec.MaxOut},
	}
	var origins []string
	for i := range spec.Origins {
		o := &spec.Origins[i]
		origins = append(origins, o.Name)
		sel.Origins = append(sel.Origins, selection.Origin{
			Name: o.Name, Address: fmt.Sprintf("%s %s %d %d %s", o.Scheme, o.Host, o.HTTPPort, o.HTTPSPort, o.HostHeader),
			Priority: o.Priority, Weight: o.Weight, Enabled: o.Enabled, Draining: o.Drain,
		})
	}
	compiled, err := selection.NewGroup(sel)
	if err != nil {
		return nil, err
	}
	if spec.Affinity {
		if g.sessions, err = affinity.NewGroup(keys, service+"/"+spec.Name, origins); err != nil {
			return nil, err
		}
	}
	if before == nil {
		g.open = new(failOpen)
		g.state = selection.NewState(compiled, in.Seed, in.Now)
		return g, nil
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	g.open = before.open
	g.state = before.state.Next(compiled, in.Now)
	return g, nil
}
