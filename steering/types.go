package steering

import (
	"net/netip"
	"time"
)

// Instant is a point in time of the core's own clock: the duration since that clock's epoch. Callers feed a
// monotonic clock; the timeline language starts at 0. Instants of different processes are never compared.
type Instant = time.Duration

// Mode says how a rule chooses among its edges.
type Mode uint8

// The modes of decisions.md section 3. The zero value is not a mode.
const (
	ModeFixed Mode = iota + 1
	ModeFailover
	ModeQuality
	ModeWeighted
)

// Verdict is what the points of a rule together hold of an edge. The zero value is Unknown: undecided is a value.
type Verdict uint8

// The three verdicts.
const (
	Unknown Verdict = iota
	Up
	Down
)

// Cause names why a decision changed. Causes are stable words: they appear in the switch log, the API and the
// timeline language.
type Cause string

// The causes of decisions.md.
const (
	CauseInitial      Cause = "initial"
	CauseDown         Cause = "down"
	CauseSlow         Cause = "slow"
	CauseRecovered    Cause = "recovered"
	CauseFaster       Cause = "faster"
	CauseAvailability Cause = "availability"
	CauseConfig       Cause = "config"
	CauseForced       Cause = "forced"
	CauseSchedule     Cause = "schedule"
	CauseFallback     Cause = "fallback"
)

// AllDown says what a rule answers when every edge's verdict is down.
type AllDown uint8

// The values of whenAllDown; AllDownHold is the default. AllDownFallback goes with RuleConfig.Fallback.
const (
	AllDownHold AllDown = iota
	AllDownAll
	AllDownFirst
	AllDownEmpty
	AllDownFallback
)

// EdgeConfig is one edge of a service as the core sees it.
type EdgeConfig struct {
	Name    string
	Enabled bool
	Weight  int // 1..1000, used by ModeWeighted
	// Addresses are what is probed and judged one by one: IP addresses in their text form, or one entry, the
	// target's name. Never empty.
	Addresses []string
}

// Window is one schedule entry: between From and To on Days, local time of Zone, Edges replace the rule's list.
// From > To spans midnight and belongs to the day it starts on.
type Window struct {
	Days     [7]bool // indexed by time.Weekday
	From, To time.Duration
	Zone     *time.Location
	Edges    []string
}

// RuleConfig is one rule, compiled from a Service. All durations are positive unless said otherwise.
type RuleConfig struct {
	Service, Name string
	Scope         string // for people
	Mode          Mode
	Edges         []string     // names in priority order, disabled ones included
	ServiceEdges  []EdgeConfig // every edge of the service; Edges and Force name entries of it
	Lock          time.Duration
	Cooldown      time.Duration
	Dwell         time.Duration // 0: 3 x Interval
	SlowMilli     int64         // slowFactor in thousandths; 0: latency never makes an edge down
	AllDown       AllDown
	Fallback      string // target of AllDownFallback
	Schedule      []Window

	Interval   time.Duration
	Timeout    time.Duration
	Fall, Rise int
	MinPoints  int      // 0: majority of Points
	Points     []string // the assigned points, in a fixed order
}

// Key is "service/rule", the name of a rule everywhere outside the core.
func (c *RuleConfig) Key() string { return c.Service + "/" + c.Name }

// Observation is one probe's result as the core takes it.
type Observation struct {
	Edge, Address, Point string
	OK                   bool
	Latency              time.Duration // of an ok
	Cause                string        // of a failure: a stable word (timeout, refused, tls, status, ...)
}

// EventKind says what an Event reports.
type EventKind uint8

// The kinds of events.
const (
	EventDecision  EventKind = iota + 1 // the decision changed: initial or a switch
	EventVerdict                        // an edge's verdict or its held mark changed
	EventDegraded                       // the degraded flag changed
	EventSuspended                      // a point lost its vote in this rule
	EventRestored                       // a suspended point got its vote back
	EventDamped                         // an edge was put at the end of the order, or came back
	EventAllDown                        // every edge is down, or no longer: whenAllDown begins or ends to hold
)

// Event is something that happened in a rule. Reason is one sentence for people.
type Event struct {
	Kind   EventKind
	At     Instant
	Rule   string // service/rule
	Reason string

	// EventDecision. From is "" for the initial decision. Weighted rules name their set, comma-joined in list order.
	From, To string
	Cause    Cause
	// Detection is decision time minus the first failing observation it rests on; 0 when no failure was the cause.
	Detection time.Duration
	// Votes of the edge that was left (or, for recovered and faster, of the edge moved to).
	Votes []Vote

	// EventVerdict, EventDamped: the edge. EventSuspended, EventRestored: the point.
	Edge, Point      string
	VerdictFrom      Verdict
	VerdictTo        Verdict
	HeldFrom, HeldTo bool
	Degraded, Damped bool
	AllDown          bool // EventAllDown
}

// Vote is what one point holds of one address of an edge at the time of an event.
type Vote struct {
	Point, Address string
	State          Verdict
	Suspended      bool
	Fails, Oks     int     // the present run
	Since          Instant // start of the failing run that took it down, or of the open one; 0 if none
	LastAt         Instant // newest observation
	LastCause      string  // of the newest failure
}

// Decision is what a rule answers now, and why.
type Decision struct {
	Edge     string   // "" before the first evaluation; "fallback:<target>" while a fallback answers
	Set      []string // ModeWeighted: the edges that share; otherwise nil
	List     []string // the enabled edges in force, in the order config or schedule gave them
	Cause    Cause
	Since    Instant
	Seq      uint64 // grows by one with every change of the decision
	Degraded bool
	// AllDown is set while every edge is down and the rule's whenAllDown is in force (Hold means: nothing special).
	AllDown AllDown
	AllDead bool // every edge's verdict is down
	Forced  bool
	Frozen  bool
	Held    string // what an automatic move would do if the rule were not frozen; "" if nothing
	LockEnd Instant
	// Next is the earliest instant at which the decision or a verdict could change without a new observation; 0: none.
	Next Instant
	// Soonest bounds the TTL: the earliest instant an open failure run, lock, cool-down or dwell could change the
	// answer; 0: none is open.
	Soonest Instant
	// ScheduleNext is when a window of the schedule next opens or closes; 0: the rule has none, or no wall clock yet.
	ScheduleNext Instant
}

// AddressStatus is one address of an edge in an EdgeStatus.
type AddressStatus struct {
	Address string
	Verdict Verdict
	Held    bool
	Votes   []Vote
	// SlowAbove is the latency above which the point's next ok counts as slow, by point; absent: no baseline yet.
	SlowAbove map[string]time.Duration
}

// EdgeStatus is a view of one edge of a rule for status, explain and the API.
type EdgeStatus struct {
	Edge         string
	Enabled      bool
	Verdict      Verdict
	Held         bool
	Since        Instant // of the verdict
	UpSince      Instant // 0 unless the cool-down clock runs
	Confirmed    bool
	Damped       bool
	Penalty      float64
	Score        time.Duration // 0: no score
	Availability float64       // 0..1 over the last 10 minutes
	Observations int
	Addresses    []AddressStatus
}

// IsAddress reports whether an edge address entry is an IP address (and not the name of a target).
func IsAddress(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	return a, err == nil
}
