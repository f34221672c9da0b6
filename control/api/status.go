package api

import "time"

// Status is the state of everything, or of one service.
type Status struct {
	Version string    `json:"version"`
	Node    string    `json:"node"`
	Now     time.Time `json:"now"`
	Started time.Time `json:"started"`
	// Listeners are the bound addresses, by role (dns, api, ...).
	Listeners map[string]string `json:"listeners"`
	Map       MapStatus         `json:"map"`
	Store     StoreStatus       `json:"store"`
	Alarms    []Alarm           `json:"alarms"`
	Points    []PointStatus     `json:"points"`
	Nodes     []NodeView        `json:"nodes"`
	Services  []ServiceStatus   `json:"services"`
	Overrides []OverrideStatus  `json:"overrides"`
	Notifiers []NotifierStatus  `json:"notifiers"`
	// Certificates are those of gateways, by name.
	Certificates []CertificateStatus `json:"certificates"`
	// Tape is what is recorded for replays and explanations of the past; absent: nothing can be.
	Tape *TapeStatus `json:"tape,omitempty"`
	// Gateway is what gateways serve and what they know of origins; absent: there is no gateway.
	Gateway *EdgeStatus `json:"gateway,omitempty"`
}

// TapeStatus is how the tape is: what the decision core was told, in order.
type TapeStatus struct {
	SizeBytes int64      `json:"sizeBytes"`
	Oldest    *time.Time `json:"oldest,omitempty"` // how far back it goes; absent: it is empty
	Records   uint64     `json:"records"`          // written by this process
	Missing   uint64     `json:"missing"`          // of this process, that the disk could not take
}

// MapStatus is the snapshot name servers answer from.
type MapStatus struct {
	Version    uint64    `json:"version"`
	Published  time.Time `json:"published"` // handed to every name server
	AgeSeconds float64   `json:"ageSeconds"`
	Services   int       `json:"services"`
	// Nodes counts the name servers that are connected, the one in this process included; Current those of them that
	// answer by Version.
	Nodes   int    `json:"nodes"`
	Current int    `json:"current"`
	Error   string `json:"error,omitempty"` // why the newest was not taken
}

// StoreStatus is the state of the embedded store.
type StoreStatus struct {
	Revision   int64  `json:"revision"`
	SizeBytes  int64  `json:"sizeBytes"`
	QuotaBytes int64  `json:"quotaBytes"`
	Pending    int    `json:"pending"`         // decisions that wait for the store
	Error      string `json:"error,omitempty"` // of the newest write, while it fails
}

// Alarm is something an operator must know. Codes are stable.
type Alarm struct {
	Code    string    `json:"code"`
	Since   time.Time `json:"since"`
	Subject string    `json:"subject,omitempty"` // what it is about: service/rule, edge, point
	Message string    `json:"message"`
}

// Codes of alarms.
const (
	AlarmStore      = "ALARM_STORE_WRITES_FAIL"
	AlarmPublish    = "ALARM_PUBLISH_FAILED"
	AlarmMassSwitch = "ALARM_MASS_SWITCH"
	AlarmFewPoints  = "ALARM_TOO_FEW_POINTS"
	AlarmDegraded   = "ALARM_DEGRADED"
	AlarmAllDown    = "ALARM_ALL_DOWN"
	AlarmFrozen     = "ALARM_FROZEN"
	AlarmDisk       = "ALARM_STATE_NOT_SAVED"
	AlarmPointLocal = "ALARM_POINT_CANNOT_PROBE"
	AlarmResource   = "ALARM_RESOURCE_UNUSABLE"
	AlarmClock      = "ALARM_CLOCK_SET"
	AlarmNodeAway   = "ALARM_NODE_AWAY"
	AlarmNodeNack   = "ALARM_NODE_NACK"
	AlarmNodeClock  = "ALARM_NODE_CLOCK"
	AlarmCertEnding = "ALARM_CERT_EXPIRING"
	AlarmAuthority  = "ALARM_AUTHORITY_CHANGED"

	AlarmHistory     = "ALARM_HISTORY_NOT_KEPT"
	AlarmHistoryLost = "ALARM_HISTORY_LOST"
	AlarmGeoFile     = "ALARM_GEO_FILE"
	AlarmEdgeCert    = "ALARM_EDGE_CERT_EXPIRY"
	AlarmTape        = "ALARM_TAPE_STOPPED"
	AlarmNotify      = "ALARM_NOTIFY_FAILING"
	AlarmSealKey     = "ALARM_SEAL_KEY"
	AlarmZoneKeys    = "ALARM_ZONE_KEYS"
	AlarmZoneDS      = "ALARM_ZONE_DS"
	AlarmZoneRoll    = "ALARM_ZONE_ROLL_WAITS"
	AlarmSeries      = "ALARM_SERIES_NOT_KEPT"
	AlarmSeriesLost  = "ALARM_SERIES_LOST"
	AlarmAlias       = "ALARM_NAME_UNRESOLVED"

	AlarmGatewayBehind = "ALARM_GATEWAY_BEHIND"
	AlarmOriginsDown   = "ALARM_ORIGINS_DOWN"
	AlarmCertificate   = "ALARM_CERTIFICATE_ENDING"
	AlarmOrder         = "ALARM_CERTIFICATE_NOT_ORDERED"
)

// PointStatus is one probe point.
type PointStatus struct {
	Name         string            `json:"name"`
	Labels       map[string]string `json:"labels,omitempty"`
	Tasks        int               `json:"tasks"`
	LastSeen     *time.Time        `json:"lastSeen,omitempty"` // newest observation
	Observations uint64            `json:"observations"`       // since the start of this process
	Drained      bool              `json:"drained,omitempty"`
	DrainedUntil *time.Time        `json:"drainedUntil,omitempty"`
	// State is local (a point of this process), connected, away, or silent: nothing heard for ten minutes, so that rules
	// that choose by near or labels go on with other points.
	State string `json:"state" enum:"local,connected,away,silent"`
}

// States of a probe point.
const (
	PointLocal     = "local"
	PointConnected = "connected"
	PointAway      = "away"
	PointSilent    = "silent"
)

// ServiceStatus is one service and its rules.
type ServiceStatus struct {
	Name    string       `json:"name"`
	CNAME   string       `json:"cname,omitempty"`
	Domains []string     `json:"domains"`
	Rules   []RuleStatus `json:"rules"`
}

// RuleStatus is what a rule answers now and everything that holds it there.
type RuleStatus struct {
	Rule     string    `json:"rule"`
	Scope    string    `json:"scope"`
	Mode     string    `json:"mode"`
	Edge     string    `json:"edge"`          // "" before the first evaluation
	Set      []string  `json:"set,omitempty"` // weighted: the edges that share
	Cause    string    `json:"cause"`
	Since    time.Time `json:"since"`
	Sequence uint64    `json:"sequence"`
	Degraded bool      `json:"degraded"`
	AllDown  bool      `json:"allDown"`
	// WhenAllDown is the rule's whenAllDown while it replaces the answer by edge: empty, all or first; otherwise absent.
	WhenAllDown string `json:"whenAllDown,omitempty" enum:"empty,all,first"`
	Probed      bool   `json:"probed"` // false: the rule probes nothing, so its verdicts stay unknown
	Locked      bool   `json:"locked"`
	// LockedUntil, Next: absent when nothing is open.
	LockedUntil *time.Time `json:"lockedUntil,omitempty"`
	Next        *time.Time `json:"next,omitempty"` // earliest possible change without a new observation
	// ScheduleNext is when a window of the schedule next opens or closes; absent without a schedule.
	ScheduleNext *time.Time `json:"scheduleNext,omitempty"`
	Forced       bool       `json:"forced"`
	ForcedUntil  *time.Time `json:"forcedUntil,omitempty"`
	Frozen       bool       `json:"frozen"`
	FrozenUntil  *time.Time `json:"frozenUntil,omitempty"`
	Held         string     `json:"held,omitempty"` // what would have moved if it were not frozen
	TTLSeconds   float64    `json:"ttlSeconds"`
	Points       []string   `json:"points"`
	Pending      bool       `json:"pending,omitempty"` // the newest decision waits for the store
	Edges        []EdgeView `json:"edges"`
	Warning      string     `json:"warning,omitempty"`
	// Availability24h and Latency24hMs are of what visitors got in the last 24 hours, by the rule as it steered; absent:
	// nothing was measured.
	Availability24h *float64 `json:"availability24h,omitempty"`
	Latency24hMs    *float64 `json:"latency24hMs,omitempty"`
}

// EdgeView is one edge of a rule: the verdict, what it rests on, and why it is or is not answered.
type EdgeView struct {
	Edge         string     `json:"edge"`
	Current      bool       `json:"current"`
	Enabled      bool       `json:"enabled"`
	Drained      bool       `json:"drained,omitempty"`
	DrainedUntil *time.Time `json:"drainedUntil,omitempty"`
	Verdict      string     `json:"verdict" enum:"up,down,unknown"`
	Held         bool       `json:"held"` // too few points: the verdict stays as it was
	Since        *time.Time `json:"since,omitempty"`
	UpSince      *time.Time `json:"upSince,omitempty"`
	Confirmed    bool       `json:"confirmed"`
	Damped       bool       `json:"damped"`
	Penalty      float64    `json:"penalty"`
	ScoreMs      float64    `json:"scoreMs"` // 0: no score
	Availability float64    `json:"availability"`
	Observations int        `json:"observations"` // in the last 10 minutes
	// Availability24h (ok / probes) and Latency24hMs (mean) are of the last 24 hours; absent: nothing was measured.
	Availability24h *float64 `json:"availability24h,omitempty"`
	Latency24hMs    *float64 `json:"latency24hMs,omitempty"`
	// Share is the part of the clients that a weighted rule gives this edge now, from 0 to 1.
	Share     float64       `json:"share,omitempty"`
	Why       string        `json:"why"` // one sentence: answered, or why not
	Addresses []AddressView `json:"addresses"`
}

// AddressView is one address of an edge.
type AddressView struct {
	Address string     `json:"address"`
	Verdict string     `json:"verdict" enum:"up,down,unknown"`
	Held    bool       `json:"held"`
	Points  []VoteView `json:"points"`
	// CertificateExpires is the earliest end of its certificates that a point saw.
	CertificateExpires *time.Time `json:"certificateExpires,omitempty"`
}

// VoteView is what one point holds of one address.
type VoteView struct {
	Point       string     `json:"point"`
	Address     string     `json:"address,omitempty"` // in switch-log entries
	State       string     `json:"state" enum:"up,down,unknown"`
	Suspended   bool       `json:"suspended,omitempty"`
	Fails       int        `json:"fails"` // the present run
	Oks         int        `json:"oks"`
	Since       *time.Time `json:"since,omitempty"` // start of the failing run
	Last        *time.Time `json:"last,omitempty"`  // newest observation
	AgeSeconds  float64    `json:"ageSeconds"`
	Cause       string     `json:"cause,omitempty"` // of the newest failure
	SlowAboveMs float64    `json:"slowAboveMs,omitempty"`
}

// OverrideStatus is one override in force, or one that ended and was not taken away yet.
type OverrideStatus struct {
	Name   string     `json:"name"`
	Kind   string     `json:"kind" enum:"force,freeze,drain"`
	Target string     `json:"target"` // service/rule, service, service/edge, point name
	Edge   string     `json:"edge,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	Reason string     `json:"reason"`
	Actor  string     `json:"actor,omitempty"`
	Active bool       `json:"active"`
}
