package report

import (
	"net/netip"
	"time"
)

// NodeEdge is what a gateway works by, and what it knows of the origins.
type NodeEdge struct {
	Version  uint64    `json:"version"` // of the snapshot; 0: none
	Created  time.Time `json:"created"` // control's wall clock
	FromDisk bool      `json:"fromDisk,omitempty"`
	// Connections are those of clients that are open.
	Connections int `json:"connections"`
	// Origins counts the enabled origins of all groups, each in each group it is in; Healthy those of them that are.
	Origins int `json:"origins"`
	Healthy int `json:"healthy"`
	// Groups are the origin groups by service and name; of many, those that a person should look at. Left is how many are left out.
	Groups []EdgeGroup `json:"groups,omitempty"`
	Left   int         `json:"left,omitempty"`
}

// EdgeGroup is an origin group as one gateway knows it.
type EdgeGroup struct {
	Service string       `json:"service"`
	Group   string       `json:"group"`
	Origins []EdgeOrigin `json:"origins"` // as written
}

// Healthy counts the origins that may be asked and are healthy, and those that may be asked.
func (g *EdgeGroup) Healthy() (healthy, enabled int) {
	for i := range g.Origins {
		if o := &g.Origins[i]; o.Enabled {
			enabled++
			if o.Healthy {
				healthy++
			}
		}
	}
	return healthy, enabled
}

// Settled reports whether every origin that is probed has been: before that nothing is known of the group.
func (g *EdgeGroup) Settled() bool {
	for i := range g.Origins {
		if o := &g.Origins[i]; o.Enabled && o.Probed && o.Seen < o.Samples {
			return false
		}
	}
	return true
}

// EdgeOrigin is one origin of a group as one gateway knows it.
type EdgeOrigin struct {
	Origin   string `json:"origin"`
	Enabled  bool   `json:"enabled"`
	Draining bool   `json:"draining,omitempty"`
	// Probed says whether it is; else it counts as healthy.
	Probed  bool `json:"probed"`
	Healthy bool `json:"healthy"`
	// Good of the last Seen probes succeeded; Samples are looked at when there are so many, and Needed of them are to succeed.
	Good    int `json:"good"`
	Seen    int `json:"seen"`
	Samples int `json:"samples"`
	Needed  int `json:"needed"`
	// Latency is the mean of the good ones; 0: not known.
	Latency time.Duration `json:"latency,omitempty"`
	// OutFor is how long requests that failed keep it out yet; 0: they do not.
	OutFor time.Duration `json:"outFor,omitempty"`
	// Share is the part of its weight that it has while it ramps up, from 0 to 1; 1: all.
	Share float64 `json:"share"`
	// Failure is what was wrong with the last probe, in a sentence; empty: it was good, or there was none.
	Failure string `json:"failure,omitempty"`
}

// EdgeQuestion asks a gateway what it would do with a request now.
type EdgeQuestion struct {
	URL     string     `json:"url"`
	Method  string     `json:"method,omitempty"`  // "": GET
	Headers []string   `json:"headers,omitempty"` // "Name: value"
	Client  netip.Addr `json:"client,omitzero"`
	Country string     `json:"country,omitempty"` // of Client; "": as the gateway's data has it
	// Session is the origin, or group/origin, that the visitor's cookie names; "": there is none but in Headers.
	Session string `json:"session,omitempty"`
}

// EdgeAnswer is how a gateway decides about a request, step by step.
type EdgeAnswer struct {
	URL     string `json:"url"`
	Service string `json:"service,omitempty"`
	Route   string `json:"route,omitempty"`
	Domain  string `json:"domain,omitempty"` // that the host matched
	Path    string `json:"path,omitempty"`   // that the path matched
	// Status is an answer without an origin, Reason says why; 0: an origin is asked.
	Status   int        `json:"status,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Location string     `json:"location,omitempty"`
	Rules    []EdgeRule `json:"rules,omitempty"`  // those looked at, in order
	Access   string     `json:"access,omitempty"` // the policy that decided
	Group    string     `json:"group,omitempty"`
	// Session is what the visitor's session cookie says; "": the group keeps no sessions.
	Session  string     `json:"session,omitempty"`
	Steps    []EdgeStep `json:"steps,omitempty"`
	Origin   string     `json:"origin,omitempty"`
	Asks     string     `json:"asks,omitempty"`     // method and URL at the origin's address
	Host     string     `json:"host,omitempty"`     // that the origin is sent
	Request  []string   `json:"request,omitempty"`  // changes of headers of the request
	Response []string   `json:"response,omitempty"` // and of the response
	Assumed  []string   `json:"assumed,omitempty"`  // what was not known, and taken for so
	// Version is that of the snapshot a running gateway decided by, and Origins what it knows of the group; absent: the answer was
	// worked out without one.
	Version uint64       `json:"version,omitempty"`
	Origins []EdgeOrigin `json:"origins,omitempty"`
}

// EdgeRule is a rule that was looked at.
type EdgeRule struct {
	Set   string `json:"set"`
	Rule  string `json:"rule"`
	Fired bool   `json:"fired"`
	Why   string `json:"why,omitempty"` // the condition that did not hold
}

// EdgeStep is one step of the choice.
type EdgeStep struct {
	Name    string        `json:"name"`
	Kept    []string      `json:"kept"`
	Without []EdgeWithout `json:"without,omitempty"`
	Note    string        `json:"note,omitempty"`
}

// EdgeWithout is an origin that a step left out.
type EdgeWithout struct {
	Origin string `json:"origin"`
	Why    string `json:"why"`
}
