// Package report holds what comes up from nodes: observations of probes. Values only; it does nothing.
package report

import (
	"net/netip"
	"time"
)

// Cause is the stable word for why a probe failed; it appears in the API, the switch log and the timeline language.
type Cause string

// The causes of failed probes.
const (
	CauseTimeout     Cause = "timeout"     // no result within the timeout, in whatever phase
	CauseRefused     Cause = "refused"     // connection refused
	CauseReset       Cause = "reset"       // connection reset or closed before a full response
	CauseUnreachable Cause = "unreachable" // no route, host or network unreachable
	CauseDNS         Cause = "dns"         // the edge's target name did not resolve at the point
	CauseTLS         Cause = "tls"         // handshake or certificate, or one that ends sooner than expect.certDays
	CauseProtocol    Cause = "protocol"    // not a valid answer of the protocol
	CauseStatus      Cause = "status"      // HTTP status, gRPC health or rcode outside the expectation
	CauseBody        Cause = "body"        // body or records do not hold the expected text
	CauseLatency     Cause = "latency"     // slower than expect.maxLatency
	CauseLocal       Cause = "local"       // the point itself could not probe (no sockets, no route to anything): no vote
)

// Phases are the parts of one probe's time, each measured from the end of the one before; 0 means not reached or
// not part of the kind. For datagrams (udp16, dns, icmp) FirstByte is the round trip.
type Phases struct {
	DNS       time.Duration `json:"dns"`
	Connect   time.Duration `json:"connect"`
	TLS       time.Duration `json:"tls"`
	FirstByte time.Duration `json:"firstByte"`
	Total     time.Duration `json:"total"`
}

// Observation is one finished probe of one task at one point.
type Observation struct {
	Task    string         `json:"task"` // snapshot.ProbeTask.ID
	Point   string         `json:"point"`
	OK      bool           `json:"ok"`
	Latency time.Duration  `json:"latency"` // what ranks: connect + TLS + first byte
	Cause   Cause          `json:"cause,omitempty"`
	Detail  string         `json:"detail,omitempty"` // one short sentence for people, never the body
	Status  int            `json:"status,omitempty"`
	Address netip.AddrPort `json:"address"` // really connected to
	Phases  Phases         `json:"phases"`
	// CertExpiry is until when the certificates the target showed are good: the first end on the path that holds. Zero:
	// none was seen. It is what the certificates say; whether that is soon is judged by control's clock.
	CertExpiry time.Time `json:"certExpiry,omitzero"`
	// Age is the time between the end of the probe and its hand-over, by the point's own monotonic clock.
	Age time.Duration `json:"age"`
}

// Counts reports whether the observation says something of the target. One with cause local does not: the point
// could not probe. It is shown, but is no vote: control hands it to no rule, as if it had not come, so that a point
// that is broken for three intervals becomes unknown and not a witness.
func (o *Observation) Counts() bool { return o.OK || o.Cause != CauseLocal }
