package api

import "time"

// States of a node, the strongest first: a revoked node is nothing else, a drained one may be away as well (Connected
// tells).
const (
	NodeRevoked   = "revoked"   // its certificate is refused
	NodeDrained   = "drained"   // an override takes it out
	NodeAway      = "away"      // no stream is open, or nothing was heard for a minute
	NodeConnected = "connected" // it follows what its roles need
)

// NodeView is one joined node: what control recorded, and what the node last said of itself.
type NodeView struct {
	Name      string            `json:"name"`
	Roles     []string          `json:"roles"` // dns, probe, edge: those of its certificate
	Labels    map[string]string `json:"labels,omitempty"`
	State     string            `json:"state" enum:"connected,away,drained,revoked"`
	Connected bool              `json:"connected"`         // a stream is open now
	Address   string            `json:"address,omitempty"` // it last came from, as control sees it
	Version   string            `json:"version,omitempty"` // of the program
	Listeners map[string]string `json:"listeners,omitempty"`
	Joined    time.Time         `json:"joined"`
	LastSeen  *time.Time        `json:"lastSeen,omitempty"` // newest message since control started
	// CertificateExpires is when the certificate given last ends. The node renews it at two thirds of its life.
	CertificateExpires time.Time `json:"certificateExpires"`
	// ClockOffsetSeconds is by how much the node's wall clock is ahead; shown only, nothing depends on it.
	ClockOffsetSeconds float64    `json:"clockOffsetSeconds"`
	Map                *NodeMap   `json:"map,omitempty"`     // nodes with the role dns
	Tasks              *NodeTasks `json:"tasks,omitempty"`   // nodes with the role probe
	Gateway            *NodeEdge  `json:"gateway,omitempty"` // nodes with the role edge
	Drained            bool       `json:"drained,omitempty"`
	DrainedUntil       *time.Time `json:"drainedUntil,omitempty"`
	Revoked            *time.Time `json:"revoked,omitempty"`
	RevokedBy          string     `json:"revokedBy,omitempty"`
	RevokedWhy         string     `json:"revokedWhy,omitempty"`
	Trouble            []string   `json:"trouble,omitempty"` // the node's own words
}

// NodeMap is the map a name server answers by.
type NodeMap struct {
	Version    uint64  `json:"version"` // 0: none, or not known yet
	AgeSeconds float64 `json:"ageSeconds"`
	FromDisk   bool    `json:"fromDisk,omitempty"` // control has sent none since the node started
	Queries    uint64  `json:"queries"`            // since the node started
	// Refused is the newest version the node did not take, and Error its reason; absent once it takes one again.
	Refused uint64 `json:"refused,omitempty"`
	Error   string `json:"error,omitempty"`
	// AckedSeconds is how long after the publication of Version the node had it; 0: not known.
	AckedSeconds float64 `json:"ackedSeconds,omitempty"`
}

// NodeTasks is what a probe point does.
type NodeTasks struct {
	Version uint64 `json:"version"`
	Tasks   int    `json:"tasks"`
	Spooled int    `json:"spooled"` // observations that wait at the node
	Dropped uint64 `json:"dropped"` // by the node since its start, oldest first: its spool was full
	Error   string `json:"error,omitempty"`
	// Observations were evaluated since control started; Late came too late to be votes; Refused were of tasks the node
	// does not have, or of another point.
	Observations uint64 `json:"observations"`
	Late         uint64 `json:"late"`
	Refused      uint64 `json:"refused"`
	// Silent is set when nothing was heard for ten minutes: rules that choose by near or labels go on with other points.
	Silent bool `json:"silent,omitempty"`
}

// NodeList is a part of the nodes, by name.
type NodeList struct {
	Nodes []NodeView `json:"nodes"`
	Next  string     `json:"next,omitempty"` // cursor; absent: this was the last page
}

// RevokeRequest makes a node's certificates worthless at once and for good.
type RevokeRequest struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500"`
}

// LabelsRequest changes the labels of a node: Set adds or replaces, Remove takes away.
type LabelsRequest struct {
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty" maxItems:"64"`
}

// States of a token.
const (
	TokenOpen    = "open"    // it can be used, once
	TokenUsed    = "used"    // Node joined with it
	TokenExpired = "expired" // its time is over
)

// TokenRequest makes a join token.
type TokenRequest struct {
	Roles []string `json:"roles" minItems:"1" maxItems:"8" doc:"what the node may do: dns, probe, edge"`
	Name  string   `json:"name,omitempty" maxLength:"63" doc:"the only name a node may join by; empty: the node says its own"`
	For   string   `json:"for,omitempty" doc:"Go duration until it ends; default 1h, at most 720h"`
}

// TokenView is what is known of a token. The secret is not: only its hash is stored.
type TokenView struct {
	ID      string     `json:"id"`
	Roles   []string   `json:"roles"`
	Name    string     `json:"name,omitempty"`
	State   string     `json:"state" enum:"open,used,expired"`
	Created time.Time  `json:"created"`
	Actor   string     `json:"actor,omitempty"` // who made it
	Expires time.Time  `json:"expires"`
	Used    *time.Time `json:"used,omitempty"`
	Node    string     `json:"node,omitempty"` // that joined with it
}

// TokenCreated is the answer to a TokenRequest. Token is shown this once.
type TokenCreated struct {
	Token string    `json:"token"`
	View  TokenView `json:"view"`
}

// TokenList is a part of the tokens that are kept, the newest first: those that are over stay for a week.
type TokenList struct {
	Tokens []TokenView `json:"tokens"`
	Next   string      `json:"next,omitempty"` // cursor; absent: this was the last page
}
