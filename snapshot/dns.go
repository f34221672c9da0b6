package snapshot

import (
	"net/netip"
	"time"

	"steerpoint/geo"
)

// DNS is the snapshot for name servers: everything needed to answer, so that nobody is asked at query time. It is
// never changed once made: snapshots share what did not change from one to the next.
type DNS struct {
	// Version grows with every snapshot control compiles; it is the SOA serial (mod 2^32) of every zone that has none of
	// its own in Serials.
	Version uint64    `json:"version"`
	Created time.Time `json:"created"` // control's wall clock; for map_age and people only
	// At is when it was made, on the clock of that control process, which is also that of DNSService.Made; 0: as its
	// services.
	At    time.Duration `json:"at,omitempty"`
	Zones []DNSZone     `json:"zones"` // by name
	// Tables are shared: services with equal scope sets name the same index. An index no service names may be nil: the
	// others keep theirs from one snapshot to the next.
	Tables []*geo.Table `json:"tables"`
	// Services are by name. A service that did not change is the same pointer in the next snapshot, so that what a change
	// costs does not grow with the services there are.
	Services []*DNSService `json:"services"`
	// Serials are the SOA serials of Zones, one each: the version in which what the zone holds last changed; 0: Version.
	// Missing: all are Version.
	Serials []uint64 `json:"serials,omitempty"`
	// Sealed is what name servers share as secrets; nil: there is nothing.
	Sealed *Sealed `json:"sealed,omitempty"`
	// Signing is what zones are signed by; nil: none is.
	Signing *Signing `json:"signing,omitempty"`

	tableSums []sum // of Tables; nil: not computed yet
	zonesSum  sum   // of Zones
	// known is the snapshot itself once the sums of all its parts are known, and whether its services are in order. In a copy,
	// which somebody is about to change, it is not.
	known   *DNS
	ordered bool
}

// DNSZone is one zone we are authoritative for. Names are lower-case FQDNs with the trailing dot.
type DNSZone struct {
	Name string       `json:"name"`
	NS   []NameServer `json:"ns"`
	SOA  SOA          `json:"soa"`
	// NSTTL is the TTL of NS, glue and SOA records.
	NSTTL time.Duration `json:"nsTTL"`
	// Records are the zone's static record sets: answered alike to everyone.
	Records []DNSRecord `json:"records,omitempty"`
	// Transfer says who gets the zone whole; nil: nobody.
	Transfer *DNSTransfer `json:"transfer,omitempty"`
}

// DNSRecord is one static record set of a zone.
type DNSRecord struct {
	Name string        `json:"name"` // FQDN in the zone; its first label may be * (RFC 4592)
	Type string        `json:"type"` // mnemonic, e.g. TXT
	TTL  time.Duration `json:"ttl"`
	Data []string      `json:"data"` // RDATA in the presentation format of RFC 1035, names absolute
}

// NameServer is one NS with its addresses (glue when inside a zone of ours).
type NameServer struct {
	Name      string       `json:"name"`
	Addresses []netip.Addr `json:"addresses"`
}

// SOA holds the fixed fields of a zone's SOA; for the serial see DNS.Serials.
type SOA struct {
	MName   string        `json:"mname"`
	RName   string        `json:"rname"`
	Refresh time.Duration `json:"refresh"`
	Retry   time.Duration `json:"retry"`
	Expire  time.Duration `json:"expire"`
	Minimum time.Duration `json:"minimum"`
}

// NoTable is the Table of a service with one rule.
const NoTable = -1

// DNSService is one service's names and answers.
type DNSService struct {
	Name  string `json:"name"`
	Zone  string `json:"zone"`
	CNAME string `json:"cname"` // <service>.<zone>, the service CNAME
	// Hosted are the service's domains that lie inside one of our zones: answered directly, like CNAME.
	// The first label may be * (RFC 4592).
	Hosted []string `json:"hosted,omitempty"`
	// Flat are further names of the service, at which only addresses can be answered: apexes, and those of ALIAS records. A
	// choice that is a name answers there with FlatA and FlatAAAA.
	Flat []string `json:"flat,omitempty"`
	// Table is the index of the service's scope table in DNS.Tables; a look-up's value v selects Rules[v]. It is NoTable
	// when there is one rule, which is everyone's.
	Table       int           `json:"table"`
	Rules       []DNSRule     `json:"rules"` // in the total order of scopes; the last is the catch-all
	NegativeTTL time.Duration `json:"negativeTTL"`
	// Made is when these answers were compiled, on control's clock: Soonest of the rules counts from it. Revision is
	// the version of the snapshot in which anything of the service last changed; 0: not told.
	Made     time.Duration `json:"made,omitempty"`
	Revision uint64        `json:"revision,omitempty"`

	sum sum // of all of the above; zero: not computed yet
}

// DNSRule is what one rule answers now.
type DNSRule struct {
	Rule     string `json:"rule"`     // name of the rule
	Scope    string `json:"scope"`    // its scope, for people
	Decision uint64 `json:"decision"` // steering.Decision.Seq it was compiled from
	Degraded bool   `json:"degraded,omitempty"`
	// Choices: none is NODATA (whenAllDown: empty); one is the answer; several are weighted, chosen by a hash of
	// the client's prefix (/24, /48).
	Choices []DNSChoice   `json:"choices"`
	TTL     time.Duration `json:"ttl"`
	MinTTL  time.Duration `json:"minTTL"`
	// Soonest is how long after DNSService.Made the answer could change at the earliest because a failure run, lock,
	// cool-down or dwell is open; 0: nothing is open. The TTL answered is the time left of it, at least MinTTL, at
	// most TTL; once it is over, TTL.
	Soonest time.Duration `json:"soonest,omitempty"`
}

// DNSChoice is one edge as an answer: a target name, or addresses.
type DNSChoice struct {
	Edge   string       `json:"edge"`
	Weight int          `json:"weight,omitempty"`
	Target string       `json:"target,omitempty"` // FQDN; then A and AAAA are empty
	A      []netip.Addr `json:"a,omitempty"`      // at most 10
	AAAA   []netip.Addr `json:"aaaa,omitempty"`
	// FlatA and FlatAAAA are the addresses of Target, at most 10 of each family; none unless the service has Flat names.
	FlatA    []netip.Addr `json:"flatA,omitempty"`
	FlatAAAA []netip.Addr `json:"flatAAAA,omitempty"`
	// HasA and HasAAAA say whether the edge has the family at all, down addresses included; for explanations only.
	HasA    bool `json:"hasA,omitempty"`
	HasAAAA bool `json:"hasAAAA,omitempty"`
}

// Left is what is left of a rule's Soonest when the snapshot is made: Made + Soonest - At, at least 0. A name server
// counts it down from the snapshot's arrival; it is 0 when nothing is open, or no longer.
func (d *DNS) Left(s *DNSService, r *DNSRule) time.Duration {
	if r.Soonest == 0 {
		return 0
	}
	return max(0, r.Soonest-max(0, d.At-s.Made))
}
