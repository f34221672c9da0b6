package wire

import (
	"time"

	"steerpoint/report"
	"steerpoint/snapshot"
)

// Protocol is the version of the service definition and its messages. It grows only when an older reader would
// misunderstand a newer one; fields, frame kinds and calls are added without it. A node one minor version of the
// program older speaks the same number.
const Protocol = 1

// The header fields of every call: what the node runs.
const (
	headerProgram  = "Steer-Program"
	headerProtocol = "Steer-Protocol"
)

const (
	typeJSON   = "application/json"
	typeFrames = "application/x-steer-frames"
	// queryHave is the version of the snapshot that a follower has; absent or 0: none.
	queryHave = "have"
)

// Hello is the first frame of a stream.
type Hello struct {
	Protocol  int           `json:"protocol"`
	Program   string        `json:"program"`   // control's version
	Node      string        `json:"node"`      // as whom control knows the follower
	KeepAlive time.Duration `json:"keepAlive"` // something comes at least so often
}

// NodeState is what the operator set for a node. The zero value is a node in ordinary work.
type NodeState struct {
	Drained bool `json:"drained"`
}

// Ask is one probe to do now, outside of the schedule. Its answer goes up by Client.Result with the same ID.
type Ask struct {
	ID      string             `json:"id"`
	Task    snapshot.ProbeTask `json:"task"`
	Timeout time.Duration      `json:"timeout"` // nobody waits for the answer longer
}

// Update is what came down a DNS stream: exactly one of Full, Delta and State is set. The first snapshot of a stream
// always comes: for a node that has the newest it is a delta from that version to itself, whose Apply proves by the
// digest that both mean the same by the version.
type Update struct {
	Full  *snapshot.DNS
	Delta *snapshot.DNSDelta
	State *NodeState
	// Arrived is when its last byte came, by the node's monotonic clock: report.Ack.Took counts from it.
	Arrived time.Time
	Bytes   int // of the frame
}

// ProbeUpdate is what came down a probe stream: exactly one of Full, Delta, Ask and State is set. See Update.
type ProbeUpdate struct {
	Full    *snapshot.Probe
	Delta   *snapshot.ProbeDelta
	Ask     *Ask
	State   *NodeState
	Arrived time.Time // see Update
	Bytes   int       // of the frame
}

// renewal is the body of renew.
type renewal struct {
	Request []byte `json:"request"` // PKCS#10, DER
}

// batch is the body of observations. The same ID comes again when a node did not hear the answer: it counts once.
type batch struct {
	ID           string               `json:"id"`
	Observations []report.Observation `json:"observations"`
}

// answer is the body of result: what came of an Ask or an EdgeAsk.
type answer struct {
	ID          string              `json:"id"`
	Observation *report.Observation `json:"observation,omitempty"`
	Answer      *report.EdgeAnswer  `json:"answer,omitempty"`  // of a gateway
	Failure     string              `json:"failure,omitempty"` // one sentence: why the node did not probe, or does not know
}
