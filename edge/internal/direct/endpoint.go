package direct

import (
	"slices"
	"strings"
	"sync"
	"time"

	"steerpoint/snapshot"
	"steerpoint/steering/selection"
)

// Target is what a probe asks, and whom: equal targets are probed once, however many groups have them.
type Target struct {
	Scheme     string // http | https
	Host       string // an IP address, or a name
	Port       int
	HTTP2      bool
	HostHeader string // "": Host
	ServerName string
	Verify     bool
	Roots      string
	Method     string
	Path       string
	GRPC       bool // it is asked for the health of gRPC: Path is / and the name of a service
}

// Endpoint is one thing to probe: every Interval, with a new connection each time, not following redirects. Only 200 is a
// success.
type Endpoint struct {
	Target
	// Interval and Timeout are the shortest of the groups that have it.
	Interval, Timeout time.Duration

	mu      sync.Mutex
	samples selection.Samples
	uses    []use
	failure string // of the newest probe
}

// use is an origin of a group that the endpoint is.
type use struct {
	group  *Group
	origin int
}

// endpoints collects what is to be probed, and goes on from what was measured before.
func (s *Site) endpoints(in *Input) {
	all := map[Target]*Endpoint{}
	for _, v := range s.services {
		for _, g := range v.groups {
			for i := range g.Spec.Origins {
				if o := &g.Spec.Origins[i]; o.Enabled && g.Spec.Health.Enabled {
					join(all, targetOf(o, &g.Spec.Health), g, i)
				}
			}
		}
	}
	if in.Before != nil {
		for _, b := range in.Before.Endpoints {
			if e := all[b.Target]; e != nil {
				b.mu.Lock()
				e.samples, e.failure = b.samples, b.failure
				b.mu.Unlock()
				e.judge(in.Now)
				e.tell()
			}
		}
	}
	for _, e := range all {
		s.Endpoints = append(s.Endpoints, e)
	}
	slices.SortFunc(s.Endpoints, func(a, b *Endpoint) int {
		return strings.Compare(a.Host+a.Scheme+a.Path+a.HostHeader, b.Host+b.Scheme+b.Path+b.HostHeader)
	})
}

func targetOf(o *snapshot.EdgeOrigin, h *snapshot.EdgeHealth) Target {
	scheme := h.Scheme
	if scheme == "" {
		scheme = o.Scheme
	}
	t := Target{Scheme: scheme, Host: o.Host, Port: o.Port(scheme), HTTP2: o.HTTP2, HostHeader: o.HostHeader, Method: h.Method, Path: h.Path, GRPC: h.GRPC}
	if scheme == "https" {
		t.ServerName, t.Verify, t.Roots = o.ServerName, o.Verify, o.Roots
	}
	return t
}

func join(all map[Target]*Endpoint, t Target, g *Group, origin int) {
	h := &g.Spec.Health
	e := all[t]
	if e == nil {
		e = &Endpoint{Target: t, Interval: h.Interval, Timeout: h.Timeout}
		all[t] = e
	}
	e.Interval, e.Timeout = min(e.Interval, h.Interval), min(e.Timeout, h.Timeout)
	e.uses = append(e.uses, use{g, origin})
}

// Record takes the result of a probe: ok for status 200, latency to the last byte. Every group that has the endpoint judges
// it by its own numbers. It reports how many origins became healthy or ceased to be by it.
func (e *Endpoint) Record(ok bool, latency, now time.Duration) (changed int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.samples.Add(ok, latency)
	return e.judge(now)
}

func (e *Endpoint) judge(now time.Duration) (changed int) {
	for _, u := range e.uses {
		h := e.samples.Judge(u.group.Spec.Health.Samples, u.group.Spec.Health.Successes)
		u.group.mu.Lock()
		if u.group.state.Healthy().Has(u.origin) != h.Healthy {
			changed++
		}
		u.group.state.SetHealth(now, u.origin, h)
		u.group.mu.Unlock()
	}
	return changed
}
