package api

import "time"

// NodeEdge is what a node with the role edge serves by.
type NodeEdge struct {
	Version  uint64 `json:"version"`            // of the snapshot; 0: none, or not known yet
	FromDisk bool   `json:"fromDisk,omitempty"` // control has sent none since the node started
	// Behind says that there is a newer snapshot, which the gateway does not work by yet.
	Behind      bool `json:"behind,omitempty"`
	Connections int  `json:"connections"` // of clients, open now
	Origins     int  `json:"origins"`     // enabled ones, in all groups
	Healthy     int  `json:"healthy"`     // of them
	// Refused is the newest version the node did not take, and Error its reason; absent once it takes one again.
	Refused uint64 `json:"refused,omitempty"`
	Error   string `json:"error,omitempty"`
}

// EdgeStatus is what gateways serve by, and what they know of origins together.
type EdgeStatus struct {
	Version   uint64     `json:"version"` // of the newest snapshot; 0: none was published yet
	Published *time.Time `json:"published,omitempty"`
	// Gateways counts those there are, the one in this process included; Current those of them that are heard and serve by Version.
	Gateways int `json:"gateways"`
	Current  int `json:"current"`
	// Groups are the origin groups by service and name. Of gateways with many, only those that a person should look at are told of;
	// Left is how many were left out by the gateway that left out the most.
	Groups []GroupStatus `json:"groups"`
	Left   int           `json:"left,omitempty"`
}

// GroupStatus is an origin group as the gateways know it.
type GroupStatus struct {
	Service string         `json:"service"`
	Group   string         `json:"group"`
	Origins []OriginStatus `json:"origins"`
}

// OriginStatus is one origin of a group, and what each gateway knows of it.
type OriginStatus struct {
	Origin   string `json:"origin"`
	Enabled  bool   `json:"enabled"`
	Draining bool   `json:"draining,omitempty"`
	// Healthy counts the gateways that find it healthy, of those in Seen.
	Healthy int          `json:"healthy"`
	Seen    []OriginView `json:"seen"`
	// Why says in one sentence why it is left out, or what is to be known of it; absent: nothing.
	Why string `json:"why,omitempty"`
}

// OriginView is what one gateway knows of one origin.
type OriginView struct {
	Node    string `json:"node"`
	Healthy bool   `json:"healthy"`
	// Good of the last Seen probes succeeded; Needed of Samples are to.
	Good    int `json:"good"`
	Seen    int `json:"seen"`
	Samples int `json:"samples"`
	Needed  int `json:"needed"`
	// LatencyMs is the mean of the good ones; 0: not known.
	LatencyMs float64 `json:"latencyMs"`
	// OutSeconds is how long requests that failed keep it out yet; 0: they do not.
	OutSeconds float64 `json:"outSeconds,omitempty"`
	// Share is the part of its weight that it has while it ramps up, from 0 to 1.
	Share   float64 `json:"share"`
	Failure string  `json:"failure,omitempty"` // what was wrong with the newest probe
}

// RequestQuestion asks gateways what they would do with a request.
type RequestQuestion struct {
	URL     string   `json:"url" maxLength:"8192" doc:"http or https URL of the request" example:"https://www.example.com/img/a.png"`
	Method  string   `json:"method,omitempty" maxLength:"32" doc:"default GET"`
	Headers []string `json:"headers,omitempty" maxItems:"64" doc:"each \"Name: value\""`
	Client  string   `json:"client,omitempty" maxLength:"45" doc:"address of the visitor"`
	Country string   `json:"country,omitempty" maxLength:"2" doc:"of the visitor; default: as the gateway's geo data has it"`
	Session string   `json:"session,omitempty" maxLength:"128" doc:"origin that the visitor's session is with; default: by the headers"`
	Node    string   `json:"node,omitempty" maxLength:"63" doc:"only this gateway; default: all that are connected, at most 20"`
}

// RequestAnswers are what gateways said, by the name of the node.
type RequestAnswers struct {
	Gateways []GatewayAnswer `json:"gateways"`
	// Left is how many gateways were not asked.
	Left int `json:"left,omitempty"`
}

// GatewayAnswer is what one gateway said: exactly one of Answer and Error is there.
type GatewayAnswer struct {
	Node   string         `json:"node"`
	Time   time.Time      `json:"time"` // when it had answered
	Answer *RequestAnswer `json:"answer,omitempty"`
	Error  string         `json:"error,omitempty"` // why it did not
}

// RequestAnswer is how a gateway decides about a request, step by step.
type RequestAnswer struct {
	URL     string `json:"url"`
	Service string `json:"service,omitempty"`
	Route   string `json:"route,omitempty"`
	Domain  string `json:"domain,omitempty"` // that the host matched
	Path    string `json:"path,omitempty"`   // that the path matched
	// Status is an answer without an origin, Reason says why; absent: an origin is asked.
	Status   int         `json:"status,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	Location string      `json:"location,omitempty"`
	Rules    []RuleTrace `json:"rules,omitempty"`  // those looked at, in order
	Access   string      `json:"access,omitempty"` // the policy that decided
	Group    string      `json:"group,omitempty"`
	// Session is what the visitor's session cookie says; absent: the group keeps no sessions.
	Session  string       `json:"session,omitempty"`
	Steps    []ChoiceStep `json:"steps,omitempty"`
	Origin   string       `json:"origin,omitempty"`
	Asks     string       `json:"asks,omitempty"`     // method and URL at the origin's address
	Host     string       `json:"host,omitempty"`     // that the origin is sent
	Request  []string     `json:"request,omitempty"`  // changes of headers of the request
	Response []string     `json:"response,omitempty"` // and of the response
	Assumed  []string     `json:"assumed,omitempty"`  // what was not known, and taken for so
	// Version is that of the snapshot the gateway decided by, and Origins what it knows of the group; absent: the answer was worked
	// out without a gateway.
	Version uint64         `json:"version,omitempty"`
	Origins []OriginStatus `json:"origins,omitempty"`
}

// RuleTrace is a rule that was looked at.
type RuleTrace struct {
	Set   string `json:"set"`
	Rule  string `json:"rule"`
	Fired bool   `json:"fired"`
	Why   string `json:"why,omitempty"` // the condition that did not hold
}

// ChoiceStep is one step of the choice of an origin.
type ChoiceStep struct {
	Name    string    `json:"name"`
	Kept    []string  `json:"kept"`
	Without []LeftOut `json:"without,omitempty"`
	Note    string    `json:"note,omitempty"`
}

// LeftOut is an origin that a step left out.
type LeftOut struct {
	Origin string `json:"origin"`
	Why    string `json:"why"`
}
