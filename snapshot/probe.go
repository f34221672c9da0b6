// Package snapshot holds what goes down to nodes: immutable, versioned, complete views for one kind of node,
// compiled from resources and decisions.
package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// The kinds of probes a task may ask for. http and https are told apart by the URL's scheme, as are grpc and grpcs.
const (
	KindHTTP  = "http"
	KindHTTPS = "https"
	KindTCP   = "tcp"
	KindUDP16 = "udp16" // 16 bytes that must come back
	KindDNS   = "dns"
	KindICMP  = "icmp"  // echo
	KindGRPC  = "grpc"  // grpc.health.v1.Health/Check
	KindGRPCS = "grpcs" // the same inside TLS
)

// Kinds lists them. A point one version older knows fewer, and refuses tasks of the others.
func Kinds() []string {
	return []string{KindHTTP, KindHTTPS, KindTCP, KindUDP16, KindDNS, KindICMP, KindGRPC, KindGRPCS}
}

// The address families a task may be for.
const (
	FamilyIPv4 = "ipv4"
	FamilyIPv6 = "ipv6"
)

// ProbeTask is one thing to probe, however many rules share it.
//
// ID is TaskID of the task: equal keys are one task. What is not part of the key may change while the task goes on.
// Of the rules that share a task, Interval is the smallest, Timeout the largest, at most Interval, and Fall the
// largest and Rise the smallest, so that a task taken for down is down in every rule.
type ProbeTask struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`    // one of Kinds
	Address string `json:"address"` // the edge's own address: an IP address, or a name the point resolves itself
	Port    int    `json:"port"`    // 0 for icmp
	// Family is that of the addresses of a name that are probed; "": all of them in turn.
	Family string `json:"family,omitempty"`
	// URL gives scheme, Host and SNI (its host), path and query; for grpc the path is the service, for dns path and
	// query are the question and the rcode. It is never resolved: Address is. Empty for tcp, udp16 and icmp.
	URL    string `json:"url,omitempty"`
	Method string `json:"method,omitempty"` // HEAD | GET; only for http and https
	// Interval is the longest time between two probes: 0.95 to 1 of it passes.
	Interval time.Duration `json:"interval"`
	Timeout  time.Duration `json:"timeout"`
	Statuses []StatusRange `json:"statuses,omitempty"` // accepted; empty: any
	// Body is text that the first 64 KiB of the body must hold; for dns, that a record of the answer must hold.
	Body string `json:"body,omitempty"`
	// MaxLatency fails a slower probe with cause latency; 0: no limit.
	MaxLatency time.Duration `json:"maxLatency,omitempty"`
	TLSVerify  bool          `json:"tlsVerify"`
	// CertDays fails a server whose certificate ends in fewer days by the point's clock; 0: only when it has ended.
	CertDays int `json:"certDays,omitempty"`
	// SlowAbove makes a slower ok be rechecked at once (the core judges it a failure); 0: never. Not part of the key.
	SlowAbove time.Duration `json:"slowAbove,omitempty"`
	// Fall bounds rapid rechecks: so many failures in a row are a target known to be down; 0: 10. Rise oks in a row
	// make it one that is not; 0: 1. Neither is part of the key.
	Fall int `json:"fall,omitempty"`
	Rise int `json:"rise,omitempty"`
}

// StatusRange is an inclusive range of HTTP status codes.
type StatusRange struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Probe is the snapshot for one probe point.
type Probe struct {
	Version uint64      `json:"version"`
	Point   string      `json:"point"`
	Tasks   []ProbeTask `json:"tasks"`
}

// TaskUse says that a rule takes a task's observations for one address of one edge.
type TaskUse struct {
	Service string `json:"service"`
	Rule    string `json:"rule"`
	Edge    string `json:"edge"`
	Address string `json:"address"` // as in steering.EdgeConfig.Addresses
}

func (u TaskUse) compare(o TaskUse) int {
	return cmp.Or(cmp.Compare(u.Service, o.Service), cmp.Compare(u.Rule, o.Rule),
		cmp.Compare(u.Edge, o.Edge), cmp.Compare(u.Address, o.Address))
}

// idBytes is the part of the key's SHA-256 that names a task: 80 bits, at which a million tasks hold two equal IDs
// with a probability below 10^-12.
const idBytes = 10

// TaskID is the name of a task's key: kind, address, port, URL, method, expectations and TLS verification. The point
// is not part of it: a task has the same ID at every point. What later versions added is part of it only where it is
// set, so that the ID of a task never changes; a point that does not know the field then refuses that task, and it alone.
func TaskID(t *ProbeTask) string {
	var key []byte
	text := func(s string) {
		key = binary.AppendUvarint(key, uint64(len(s)))
		key = append(key, s...)
	}
	number := func(n int64) { key = binary.AppendVarint(key, n) }
	text(t.Kind)
	text(t.Address)
	number(int64(t.Port))
	text(t.URL)
	text(t.Method)
	number(int64(len(t.Statuses)))
	for _, r := range t.Statuses {
		number(int64(r.Min))
		number(int64(r.Max))
	}
	text(t.Body)
	number(int64(t.MaxLatency))
	if t.TLSVerify {
		number(1)
	} else {
		number(0)
	}
	if t.Family != "" {
		text("family")
		text(t.Family)
	}
	if t.CertDays != 0 {
		text("certDays")
		number(int64(t.CertDays))
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:idBytes])
}
