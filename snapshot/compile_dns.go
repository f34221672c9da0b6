package snapshot

import (
	"time"

	"steerpoint/geo"
	"steerpoint/spec"
	"steerpoint/steering"
)

// DNSInput is everything a DNS snapshot is compiled from.
type DNSInput struct {
	Version uint64
	Created time.Time
	// Now is the instant the decisions are of, on the core's clock.
	Now steering.Instant
	// Zones and Services are the configuration. What they point at is never changed: a resource that was changed is
	// another pointer.
	Zones    []*spec.Zone
	Services []*spec.Service
	// Unread names services that there are but that cannot be read, so that they are not among Services: as long as their
	// names are to be had, they keep the answers of the snapshot before.
	Unread []string
	// Rules is what the core says of each rule, by "service/rule". A rule that is missing answers with its first
	// enabled edge: priority order until something is known.
	Rules map[string]DNSRuleInput
	// Partial: Rules are only those whose input changed since the Compiler's last call, and Ended those that are no
	// more; of the others holds what was said then. Otherwise Rules are all there are.
	Partial bool
	Ended   []string
	// Geo says where addresses are; nil: nowhere. Other data is another pointer.
	Geo *geo.DB
	// Resolved has the addresses of names that lie elsewhere, as far as Compiler.Targets asked for them. Others are another
	// pointer.
	Resolved *Resolved
	// Previous is the snapshot before, for a Compiler that has not made it itself; nil: there is none. A service that
	// cannot be compiled or read keeps its answers of then.
	Previous *DNS
	// Signing is what zones are signed by, Sealed what name servers share as secrets; they go into the snapshot as they are.
	Signing *Signing
	Sealed  *Sealed
}

// DNSRuleInput is the core's view of one rule.
type DNSRuleInput struct {
	Decision steering.Decision
	// Edges tells which addresses are down.
	Edges []steering.EdgeStatus
}

// Codes of problems.
const (
	ProblemZone      = "DNS_ZONE_REFUSED"        // the zone cannot be served
	ProblemNoZone    = "DNS_NO_ZONE"             // the service's zone does not exist
	ProblemNameTaken = "DNS_NAME_TAKEN"          // two owners for one name
	ProblemLoop      = "DNS_TARGET_LOOP"         // an edge's target is a name of the service itself
	ProblemNoAnswer  = "DNS_NO_ANSWER"           // the edge to answer with has neither target nor addresses yet
	ProblemScopes    = "DNS_SCOPES_REFUSED"      // the rules' scopes do not make a table
	ProblemAllNames  = "DNS_ALL_NEEDS_ADDRESSES" // whenAllDown: all with an edge that is a name
	ProblemTooMany   = "DNS_TOO_MANY_ADDRESSES"  // more addresses of one family than an answer carries
	ProblemKey       = "DNS_TSIG_KEY"            // the value of a TSIG key cannot be had
	ProblemUnread    = "DNS_SERVICE_UNREADABLE"  // the stored service cannot be read by this version
	ProblemRecord    = "DNS_RECORD_REFUSED"      // a static record set cannot be served
	ProblemAlias     = "DNS_ALIAS_UNRESOLVED"    // a name answers with the addresses of another, and those are not known
)

// Problem is something that could not be compiled as written. What is not named in problems is in the snapshot.
type Problem struct {
	Code    string
	Zone    string // name of the Zone resource, or ""
	Service string
	Rule    string // "" unless it is about one rule
	Message string // for people: what, why, what to do
	// Kept: the service goes on with its answers of the previous snapshot. Lost: it is not answered at all.
	Kept, Lost bool
}

func (p Problem) String() string {
	who := ""
	switch {
	case p.Rule != "":
		who = " rule " + p.Service + "/" + p.Rule + ":"
	case p.Service != "":
		who = " service " + p.Service + ":"
	case p.Zone != "":
		who = " zone " + p.Zone + ":"
	}
	return p.Code + ":" + who + " " + p.Message
}

// MaxAnswerAddresses is how many addresses of one family an answer carries at most.
const MaxAnswerAddresses = 10
