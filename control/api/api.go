// Package api holds the JSON shapes, error codes and a small client of the HTTP API under /api/v1. Values only: it
// decides nothing and imports nothing of ours, so that command line, console and other programs can use it alone.
//
// Times are RFC 3339 in UTC. Names that end in Seconds or Ms are numbers of that unit. Absent means none.
package api

import (
	"encoding/json"
	"time"
)

// Prefix is the path under which every endpoint of this version lives.
const Prefix = "/api/v1"

// ActorHeader names who writes, for the audit trail; the token says that they may. At most 100 characters.
const ActorHeader = "Steer-Actor"

// Source is one file as the operator wrote it: YAML or JSON, several documents allowed.
type Source struct {
	File    string `json:"file" maxLength:"1000" doc:"Name of the file; errors name it"`
	Content string `json:"content" doc:"Text of the file"`
}

// Resource is one stored resource. Document is what the operator wrote, with its revision.
type Resource struct {
	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	Revision int64     `json:"revision"` // also the ETag; give it back in If-Match
	Modified time.Time `json:"modified"`
	Actor    string    `json:"actor,omitempty"`    // who wrote this revision
	ApplySet string    `json:"applySet,omitempty"` // the apply set that owns it; only that set prunes it
	// Document is the resource as JSON.
	Document json.RawMessage `json:"document"`
}

// ResourceList is every resource of one kind, by name.
type ResourceList struct {
	Resources []Resource `json:"resources"`
	Next      string     `json:"next,omitempty"` // cursor of the next page; absent: this was the last
}

// ApplyRequest asks what would change (plan) or changes it (apply). All of it happens, or nothing.
type ApplyRequest struct {
	Sources   []Source          `json:"sources,omitempty" maxItems:"10000"`
	Resources []json.RawMessage `json:"resources,omitempty" maxItems:"10000" doc:"Parsed resources, beside or instead of sources"`
	// ApplySet names the set these resources belong to; empty: "default".
	ApplySet string `json:"applySet,omitempty" maxLength:"63"`
	// Prune deletes what the same apply set owns and this request does not name. Overrides and Secrets are
	// never pruned.
	Prune bool `json:"prune,omitempty"`
	// DryRun makes apply behave like plan.
	DryRun bool `json:"dryRun,omitempty"`
	// Base is the store revision of the plan that was shown (Plan.Base): anything written since refuses the apply with
	// CONFLICT. 0: not checked, but what is written is still checked against what was read.
	Base int64 `json:"base,omitempty"`
}

// Plan says what an apply would do, or did.
type Plan struct {
	Base      int64          `json:"base"` // store revision it was computed against
	Changes   []Change       `json:"changes"`
	Unchanged int            `json:"unchanged"` // resources that are already so
	Answers   []AnswerChange `json:"answers"`   // rules that would answer differently at once
	Warnings  []Warning      `json:"warnings"`
	Applied   bool           `json:"applied"`
	Revision  int64          `json:"revision,omitempty"` // store revision of the write
}

// Actions of a Change.
const (
	ActionCreate = "create"
	ActionUpdate = "update"
	ActionDelete = "delete"
)

// Change is one resource that is created, updated or deleted; Lines say how, in the operator's words.
type Change struct {
	Action string   `json:"action" enum:"create,update,delete"`
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Lines  []string `json:"lines"`
}

// AnswerChange is a rule whose answer differs under the new configuration, with the verdicts as they are now.
type AnswerChange struct {
	Service string `json:"service"`
	Rule    string `json:"rule"`
	Scope   string `json:"scope"`
	From    string `json:"from"` // "" : the rule is new
	To      string `json:"to"`   // "" : the rule ends
	Cause   string `json:"cause,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Warning is something legal that is probably not meant.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Where   string `json:"where,omitempty"` // file:line field, or kind/name
}

// ForceRequest makes a rule answer with one edge, whatever the verdicts, until it ends.
type ForceRequest struct {
	Rule string `json:"rule" minLength:"3" doc:"service/rule"`
	Edge string `json:"edge" minLength:"1"`
	// For is a Go duration, Until a time; neither: until it is taken back. Both: refused.
	For    string     `json:"for,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	Reason string     `json:"reason" minLength:"1" maxLength:"500"`
}

// FreezeRequest stops every automatic move of a service or a rule, also for failure, until it ends.
type FreezeRequest struct {
	Target string     `json:"target" minLength:"1" doc:"service or service/rule"`
	For    string     `json:"for,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	Reason string     `json:"reason" minLength:"1" maxLength:"500"`
}

// DrainRequest takes an edge out of every rule, or a probe point's votes out of every verdict, until it ends.
// Exactly one of Edge, Point and Node.
type DrainRequest struct {
	Edge   string     `json:"edge,omitempty" doc:"service/edge"`
	Point  string     `json:"point,omitempty"`
	Node   string     `json:"node,omitempty"`
	For    string     `json:"for,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	Reason string     `json:"reason" minLength:"1" maxLength:"500"`
}

// UndoRequest ends an override. Target is what the override was given: service/rule for force and freeze, a service
// for freeze; Edge, Point or Node for drain.
type UndoRequest struct {
	Target string `json:"target,omitempty" doc:"service or service/rule (unforce, unfreeze)"`
	Edge   string `json:"edge,omitempty" doc:"service/edge (undrain)"`
	Point  string `json:"point,omitempty"`
	Node   string `json:"node,omitempty"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// OverrideResult is what an override request wrote, and what it did to the answers.
type OverrideResult struct {
	Name     string         `json:"name"` // of the Override resource
	Revision int64          `json:"revision"`
	Until    *time.Time     `json:"until,omitempty"`
	Answers  []AnswerChange `json:"answers"`
	Message  string         `json:"message"` // one line for people
}

// ProbeRequest probes now, outside of any schedule. URL, Edge or both: an edge alone is probed as its rules would.
type ProbeRequest struct {
	URL     string `json:"url,omitempty" maxLength:"2000"`
	Edge    string `json:"edge,omitempty" doc:"service/edge"`
	Point   string `json:"point,omitempty" doc:"empty: every point connected"`
	Method  string `json:"method,omitempty" enum:"HEAD,GET,"`
	Timeout string `json:"timeout,omitempty" doc:"Go duration; default 5s, at most 30s"`
	// Families are ipv4, ipv6 or both: of a name each is probed by itself. None: whatever the target has.
	Families []string `json:"families,omitempty" maxItems:"2" doc:"ipv4, ipv6"`
}

// ProbeResult is one probe done now.
type ProbeResult struct {
	Point     string  `json:"point"`
	Edge      string  `json:"edge,omitempty"`
	Address   string  `json:"address"`
	URL       string  `json:"url"`
	OK        bool    `json:"ok"`
	Status    int     `json:"status,omitempty"`
	Cause     string  `json:"cause,omitempty"`
	Detail    string  `json:"detail,omitempty"`
	LatencyMs float64 `json:"latencyMs"`
	Phases    Phases  `json:"phases"`
	// Family is the one that was asked for of a name.
	Family string `json:"family,omitempty"`
	// CertificateExpires is until when the certificates the target showed are good.
	CertificateExpires *time.Time `json:"certificateExpires,omitempty"`
}

// Phases are the parts of a probe's time; 0: not reached or not part of the kind. For datagrams (udp16, dns, icmp) the
// first byte is the round trip.
type Phases struct {
	DNSMs       float64 `json:"dnsMs"`
	ConnectMs   float64 `json:"connectMs"`
	TLSMs       float64 `json:"tlsMs"`
	FirstByteMs float64 `json:"firstByteMs"`
	TotalMs     float64 `json:"totalMs"`
}

// ProbeResults is the answer to a ProbeRequest, by edge, address and point.
type ProbeResults struct {
	Results []ProbeResult `json:"results"`
}

// Version names the server.
type Version struct {
	Version string    `json:"version"`
	Go      string    `json:"go"`
	Started time.Time `json:"started"`
	Node    string    `json:"node"`
	// Actor and Role are the caller's, as the server sees them.
	Actor string `json:"actor,omitempty"`
	Role  string `json:"role,omitempty"`
	// Services are all that the caller's token is for; absent: every service.
	Services []string `json:"services,omitempty"`
}
