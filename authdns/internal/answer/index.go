// Package answer turns a DNS snapshot into an immutable index and queries into replies by it. Answering is pure: it
// reads the index and what the caller hands in (client, transport, clock), asks nobody, and allocates nothing. What
// is answered follows the index alone, so any number of goroutines may answer while a new index is being built.
package answer

import (
	"net/netip"
	"time"

	"steerpoint/snapshot"
)

// Table maps an address to the value of its scope, and to how many leading bits of the address decide that
// (see geo.Table).
type Table interface {
	Lookup(addr netip.Addr) (value uint16, bits int)
}

// Index is a validated snapshot in the form answers are made from. It never changes once built; an index shares with
// the one before it what did not change.
type Index struct {
	Version uint64 // the snapshot's; its low 32 bits are the serial of a zone without one of its own (RFC 1982)

	*names
	slots

	d      *snapshot.DNS // what it was built of
	tables []Table       // of d
	pool   *pool
}

// names is the part of an index that is the same as long as no zone and no name changes, whatever is answered. Where
// some names change, the next index has a copy that shares the rest.
type names struct {
	// nodes holds every name that exists, empty non-terminals included.
	nodes nodeTable
	zones map[string]*zone // by wire name
	cuts  map[string]*cut  // delegations, by wire name
	// twice: a record set came twice in the snapshot, so that taking one away does not say that it is gone.
	twice bool
}

// slots gives services numbers that they keep from one index to the next, whoever comes and goes beside them: nodes name
// services by them.
type slots struct {
	pages  []*page // services by slot; nil: free
	order  []int32 // slots of the snapshot's services, in their order
	free   []int32
	used   int // slots that were ever given
	untold int // services of which nobody says whether they change
}

// page is what is copied when one of its services changes.
type page [pageSlots]*service

const pageSlots = 512

func (s *slots) service(slot int32) *service {
	return s.pages[uint32(slot)/pageSlots][uint32(slot)%pageSlots]
}

// Names is the number of names that exist, empty non-terminals included.
func (ix *Index) Names() int { return ix.nodes.count }

// at is the service of a node; nil: none.
func (ix *Index) at(n *node) *service {
	if n.service == 0 {
		return nil
	}
	s := ix.service(n.service - 1)
	if n.flat {
		return s.flat
	}
	return s
}

// zone is what answers need of a zone beyond its nodes.
type zone struct {
	name   []byte // wire form, lower case
	text   string // for explanations
	soa    []byte // RDATA of the SOA, its serial zero until sent
	labels uint8  // of name, the root not counted
	negTTL uint32 // of the SOA in negative answers: min(its TTL, minimum)
	ttl    uint32 // of the SOA
	parent *zone  // the closest enclosing zone of ours; nil if none
	hidden []byte // the delegation of parent that the zone lies below, wire form; nil: none
	ns     *rrset // its NS set for questions of another name, which a CNAME leads here
	at     int    // index among the zones of the snapshot
}

// node is one name. Without sets and service it is an empty non-terminal. It holds nothing of other nodes but the pointer
// to its wildcard, so that one can be replaced by itself.
type node struct {
	name     string // wire form, lower case
	zone     *zone
	sets     []*rrset  // static record sets: first those of zones (an apex has SOA and NS there), then records, by type
	wildcard *node     // the node of *.<name>; nil if there is none
	glue     []byte    // apex: address records of the zone's name servers, ready to append
	ds       *rrset    // apex: the DS set that the zone above has for it
	cut      *referral // the name is delegated: others answer for it, and for all below
	glues    int32
	service  int32 // slot of the service plus 1; 0: none
	children int32 // nodes right below it, in its zone
	ofZones  int16 // how many of sets are of zones
	apex     bool
	fixed    bool // it exists by zones, whatever records and services there are
	flat     bool // the service answers here with addresses only
	renames  bool // it has a DNAME
}

func (n *node) set(rrType uint16) *rrset {
	for _, s := range n.sets {
		if s.rrType == rrType {
			return s
		}
	}
	return nil
}

// rrset is one record set in wire form. Owner names are pointers to the question's name, TTLs are zero until sent.
type rrset struct {
	rrType uint16
	count  uint16
	ttl    uint32 // of static sets; steered ones take the rule's
	wire   []byte
	ttlAt  []uint16 // offsets of the TTLs in wire
	hints  bool     // the addresses of the service at the name are added to each record
}

// service is one steered service.
type service struct {
	*answers
	table  Table
	src    *snapshot.DNSService // what it was made of, for explanations
	negTTL uint32
	// flat is the service with the addresses of names in the place of names; nil: it has no name where that is wanted.
	flat *service
}

// answers is what the rules of a service answer. Services that answer alike share one.
type answers struct {
	rules []rule // in the order of the table's values; the last is the catch-all
	// tailored says, by kind of question, whether the answer depends on who asks. Where it does not, ECS scopes are 0.
	tailored [kinds]bool
	// named: some rule answers with a name now.
	named bool
}

// rule is what one rule answers.
type rule struct {
	*offer
	ttl, minTTL uint32
	// deadline is the instant at which the answer may first change, on the clock of Exchange.Now; 0: none is known.
	deadline time.Duration
}

// offer is the edges a rule chooses from. Rules that choose from the same share one.
type offer struct {
	choices []choice
	// eligible are, by kind of question, the choices that have something to answer it with: a client that asks for one
	// family is never given an edge of the other while some edge has its own.
	eligible [kinds][]choice
}

// choice is one edge as an answer. All sets nil: nothing to answer with.
type choice struct {
	edge   string
	hash   uint64 // of service and edge, for the weighted choice; 0 where there is nothing to choose
	weight float64
	cname  *rrset
	a      *rrset
	aaaa   *rrset
}

// kind groups question types by what a steered name holds for them.
type kind uint8

const (
	kindA kind = iota
	kindAAAA
	kindANY
	kindOther // CNAME included: a CNAME answers every type, addresses only their own
	kinds
)

func kindOf(rrType uint16) kind {
	switch rrType {
	case typeA:
		return kindA
	case typeAAAA:
		return kindAAAA
	case typeANY:
		return kindANY
	default:
		return kindOther
	}
}

// set is what the choice answers to a kind of question; nil is NODATA.
func (c *choice) set(k kind) *rrset {
	switch {
	case c.cname != nil:
		return c.cname
	case k == kindA, k == kindANY && c.a != nil: // ANY: one record set (RFC 8482 section 4.1)
		return c.a
	case k == kindAAAA, k == kindANY:
		return c.aaaa
	default:
		return nil
	}
}

// ttlAt is the rule's TTL at now: the time left until the answer may change, within minTTL and ttl.
func (r *rule) ttlAt(now time.Duration) uint32 {
	left := r.deadline - now
	if r.deadline == 0 || left <= 0 || left >= time.Duration(r.ttl)*time.Second {
		return r.ttl
	}
	// Rounded up: a cache that asks again just before the change would keep the old answer for minTTL more.
	return max(r.minTTL, uint32((left+time.Second-1)/time.Second))
}

// find looks a name up: the node that answers for it, itself or the wildcard that covers it; or the closest
// existing node above it with exists false (NXDOMAIN there); or nil (no zone of ours).
func (ix *Index) find(name []byte) (n *node, exists bool) {
	if n := ix.nodes.get(name); n != nil {
		return n, true
	}
	for len(name) > 1 {
		name = name[1+int(name[0]):]
		if n := ix.nodes.get(name); n != nil {
			if n.wildcard != nil {
				return n.wildcard, true
			}
			return n, false
		}
	}
	return nil, false
}

// pick chooses the client's rule and, in it, the edge.
type pick struct {
	rule   *rule
	choice *choice // nil: the rule has none
	value  uint16  // what the table said of the address that decided
	bits   int     // leading bits of the ECS address that decided; 0 when it did not matter
	source Source
}

// pick finds the rule for a client: by the ECS address if there is one and it maps to something, otherwise by the
// resolver's address. ecs is not valid without a client subnet.
func (s *service) pick(ecs, resolver netip.Addr, k kind) pick {
	p := pick{value: uint16(len(s.rules) - 1), source: SourceStatic}
	client := resolver
	if ecs.IsValid() {
		client = ecs
	}
	if len(s.rules) > 1 {
		p.source = SourceResolver
		value := unmapped
		if ecs.IsValid() {
			// What the resolver's address is was not asked while the block maps to something; when it maps to
			// nothing, that holds for the whole unmapped block, so its length is the scope.
			if value, p.bits = s.table.Lookup(ecs); value != unmapped {
				p.source = SourceECS
			}
			if ecs.Is4In6() { // looked up, and its block counted, as IPv4
				p.bits += 96
			}
		}
		if value == unmapped {
			value, _ = s.table.Lookup(resolver)
		}
		if int(value) < len(s.rules) {
			p.value = value
		}
	}
	p.rule = &s.rules[p.value]
	switch choices := p.rule.eligible[k]; len(choices) {
	case 0:
	case 1:
		p.choice = &choices[0]
	default:
		p.choice = weighted(choices, client)
		if ecs.IsValid() {
			p.bits = max(p.bits, stickyBits(ecs))
			p.source = max(p.source, SourceECS)
		} else {
			p.source = max(p.source, SourceResolver)
		}
	}
	return p
}
