package api

import "time"

// Switch is one entry of the switch log. Nothing in it is rewritten: Publication and Undone are later records that
// carry its ID.
type Switch struct {
	ID       string    `json:"id"` // ordered by time
	Time     time.Time `json:"time"`
	Service  string    `json:"service"`
	Rule     string    `json:"rule"`
	Scope    string    `json:"scope"`
	From     string    `json:"from"` // "": the initial decision, which is no switch
	To       string    `json:"to"`
	Cause    string    `json:"cause" enum:"initial,down,slow,recovered,faster,availability,config,forced,schedule,fallback"`
	Reason   string    `json:"reason"`
	Sequence uint64    `json:"sequence"`
	// DetectionSeconds is decision time minus the first failing observation; 0: no failure was the cause.
	DetectionSeconds float64    `json:"detectionSeconds"`
	Votes            []VoteView `json:"votes"`
	// Actor and Override name the override of a forced switch.
	Actor       string       `json:"actor,omitempty"`
	Override    string       `json:"override,omitempty"`
	Publication *Publication `json:"publication,omitempty"`
	Undone      *Undone      `json:"undone,omitempty"`
}

// Publication tells when name servers answered by a switch: those that were connected at the decision.
type Publication struct {
	Time       time.Time `json:"time"`       // last acknowledgement
	Seconds    float64   `json:"seconds"`    // decision to the last acknowledgement
	MapVersion uint64    `json:"mapVersion"` // the snapshot that carried it; a later one counts as well
	// Acked counts the name servers that answer by it; Nodes lists them, the slowest first, at most 32.
	Acked int       `json:"acked"`
	Nodes []NodeAck `json:"nodes,omitempty"`
	// Missing names, at most 32, those that had not acknowledged 30 s after the decision; MissingCount is all of them.
	Missing      []string `json:"missing,omitempty"`
	MissingCount int      `json:"missingCount,omitempty"`
}

// NodeAck is when one name server answered by a switch.
type NodeAck struct {
	Node    string  `json:"node"`
	Seconds float64 `json:"seconds"` // since the decision
}

// Undone tells when the rule left the edge this switch went to.
type Undone struct {
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"` // how long the switch stood
	By      string    `json:"by"`      // ID of the switch that ended it; "": the rule was deleted
}

// SwitchPage is part of the switch log, newest first.
type SwitchPage struct {
	Switches []Switch `json:"switches"`
	Next     string   `json:"next,omitempty"` // cursor; absent: this was the last page
}

// Kinds of events on the watch stream.
const (
	EventSwitch    = "switch"    // a decision changed
	EventInitial   = "initial"   // a rule decided for the first time
	EventVerdict   = "verdict"   // an edge's verdict or its held mark changed
	EventDegraded  = "degraded"  // a rule became or ceased to be degraded
	EventAllDown   = "all-down"  // every edge of a rule is down, or no longer
	EventSuspended = "suspended" // a point lost its vote in a rule
	EventRestored  = "restored"  // a point got its vote back
	EventDamped    = "damped"    // an edge was damped, or came back
	EventAck       = "ack"       // name servers answer by a new map
	EventConfig    = "config"    // resources were applied
	EventOverride  = "override"  // an override began, ended or ran out
	EventAlarm     = "alarm"     // an alarm was raised or went away
	EventNode      = "node"      // a node joined, came, went, was revoked, removed or labelled
	EventPoint     = "point"     // a probe point fell silent for ten minutes and is replaced, or speaks again
	EventGap       = "gap"       // events between Last-Event-ID and this one are lost
)

// Event is one line of the watch stream. Fields that do not belong to the kind are absent.
type Event struct {
	ID      uint64    `json:"id"` // grows by one, and with a restart by more
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind" enum:"switch,initial,verdict,degraded,all-down,suspended,restored,damped,ack,config,override,alarm,node,point,gap"`
	Service string    `json:"service,omitempty"`
	Rule    string    `json:"rule,omitempty"`
	Scope   string    `json:"scope,omitempty"`
	Edge    string    `json:"edge,omitempty"`
	Point   string    `json:"point,omitempty"`
	Node    string    `json:"node,omitempty"`
	From    string    `json:"from,omitempty"` // edges of a switch, verdicts of a verdict
	To      string    `json:"to,omitempty"`
	Cause   string    `json:"cause,omitempty"`
	Held    bool      `json:"held,omitempty"`
	On      bool      `json:"on,omitempty"`     // degraded, damped, alarm: it began
	Switch  string    `json:"switch,omitempty"` // ID in the switch log
	Map     uint64    `json:"map,omitempty"`
	Actor   string    `json:"actor,omitempty"`
	Seconds float64   `json:"seconds,omitempty"` // detection of a switch, publication of an ack
	Code    string    `json:"code,omitempty"`    // of an alarm
	Subject string    `json:"subject,omitempty"` // what an alarm is about; the name of an override; kind/name of other configuration
	Message string    `json:"message"`           // one sentence for people
}

// Explanation says why a client gets the answer it gets.
type Explanation struct {
	Host    string `json:"host"`
	Type    string `json:"type"`
	Service string `json:"service"`
	// Client and Resolver as given; From says which of them decided: ecs, resolver or none.
	Client   string `json:"client,omitempty"`
	Resolver string `json:"resolver,omitempty"`
	From     string `json:"from" enum:"ecs,resolver,none"`
	Place    Place  `json:"place"`
	// Rule and Scope are the ones that match; Matched lists every rule whose scope holds the place, most specific first.
	Rule    string   `json:"rule"`
	Scope   string   `json:"scope"`
	Matched []string `json:"matched"`
	// Status is the rule's whole state.
	Status RuleStatus `json:"status"`
	// Answer is what a name server gives now, one record a line; empty: NODATA.
	Answer     []string `json:"answer"`
	TTLSeconds float64  `json:"ttlSeconds"`
	// ECSScope is the scope prefix length returned; -1: no client address was given, so no option is returned.
	ECSScope   int    `json:"ecsScope"`
	MapVersion uint64 `json:"mapVersion"`
	// At is the time in the past that was asked for; absent: now. Checkpoint is the time the tape was replayed from.
	At         *time.Time `json:"at,omitempty"`
	Checkpoint *time.Time `json:"checkpoint,omitempty"`
	// Text is the whole story, line by line, word for word.
	Text []string `json:"text"`
}

// Place is where an address is, as far as known.
type Place struct {
	Continent string `json:"continent,omitempty"`
	Country   string `json:"country,omitempty"`
	Province  string `json:"province,omitempty"`
	City      string `json:"city,omitempty"`
	ISP       string `json:"isp,omitempty"`
	ASN       uint32 `json:"asn,omitempty"`
}
