package report

import "time"

// The kinds of snapshot a node can take, as they are named in acks and in the service definition of wire.
const (
	SnapshotDNS   = "dns"
	SnapshotProbe = "probe"
	SnapshotEdge  = "edge"
)

// Ack is a node's answer to one version of a snapshot: it works by it, or it does not and goes on with the one before.
type Ack struct {
	Snapshot string        `json:"snapshot"` // SnapshotDNS, SnapshotProbe or SnapshotEdge
	Version  uint64        `json:"version"`  // the one this is the answer to
	OK       bool          `json:"ok"`
	Reason   string        `json:"reason,omitempty"` // why not: one sentence for people, beginning with a code
	Using    uint64        `json:"using"`            // the version the node works by now; 0: none
	Took     time.Duration `json:"took"`             // from the arrival of the last byte to the swap
}

// NodeStatus is what a node says of itself every few seconds. A field it does not know is absent, so that a node one
// version older is understood.
type NodeStatus struct {
	Version   string            `json:"version"` // of the program
	Roles     []string          `json:"roles"`
	Labels    map[string]string `json:"labels,omitempty"`
	Listeners map[string]string `json:"listeners,omitempty"` // bound addresses, by role
	// Wall is the node's wall clock when it spoke. It is shown, and compared with nothing that decides.
	Wall   time.Time     `json:"wall"`
	Uptime time.Duration `json:"uptime"`
	Map    *NodeMap      `json:"map,omitempty"`   // nodes that answer DNS
	Tasks  *NodeTasks    `json:"tasks,omitempty"` // nodes that probe
	Edge   *NodeEdge     `json:"edge,omitempty"`  // gateways
	// Expires is when the node's certificate ends, by control's clock.
	Expires time.Time `json:"expires"`
	Trouble []string  `json:"trouble,omitempty"` // sentences for people, each beginning with a code
}

// NodeMap is the DNS map a node answers by.
type NodeMap struct {
	Version  uint64        `json:"version"` // 0: none
	Created  time.Time     `json:"created"` // control's wall clock
	Age      time.Duration `json:"age"`
	FromDisk bool          `json:"fromDisk,omitempty"` // control has sent none since the node started
	Queries  uint64        `json:"queries"`            // since the node started
	// KeyTrouble says why zones that are to be signed are not, and why keys of transfers and cookies are missing; empty:
	// nothing is wrong.
	KeyTrouble string `json:"keyTrouble,omitempty"`
}

// NodeTasks is what a probe point does.
type NodeTasks struct {
	Version uint64 `json:"version"`
	Tasks   int    `json:"tasks"`
	Spooled int    `json:"spooled"` // observations that wait to be shipped
	Dropped uint64 `json:"dropped"` // since the start: oldest first, when the spool was full
}
