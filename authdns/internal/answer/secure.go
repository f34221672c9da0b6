package answer

import (
	"encoding/binary"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/sign"
	"steerpoint/authdns/internal/wire"
)

// typeNXNAME in the bitmap of an NSEC says that the name does not exist (RFC 9824 section 3.1).
const typeNXNAME = 128

// edeInvalidType is the extended error for a type that cannot be asked for (RFC 9824 section 3.5).
const edeInvalidType = 30

// security is what a reply of a signed zone has besides. An Exchange makes it at its first such reply and keeps it, so that
// the next ones allocate nothing.
type security struct {
	hops                  [maxChain]*sign.Signed // of the CNAMEs before the answer; nil: that zone is not signed
	answer, soa, nsec, ds *sign.Signed           // the signatures that are sent; nil: none

	keys  rrset // a set that follows from the keys, as the answer
	nsecs rrset // the NSEC that is sent
	last  [maxNameLen]byte
	hop   [maxNameLen]byte
	// Room that is enough for names as people have them.
	types   [32]uint16
	nsecBuf [rrHead + 2*maxNameLen + 64]byte
	soaBuf  [rrHead + 2*maxNameLen + soaNumbers]byte
}

const (
	maxNameLen  = 255
	maxLabelLen = 63
)

// secure makes an outcome that of a signed zone: it answers what follows from the keys, denies by NSEC (compact denial,
// RFC 9824), and adds signatures where the client asked for them. Unsigned zones, and queries without DO, leave it at the
// first lines.
//
// What is signed is the one set of the answer, or SOA and NSEC of a denial. A positive answer by a wildcard is signed as
// if the name existed, which to a validator it does: no proof about other names is needed, and none is given away.
func (r *Responder) secure(x *Exchange, o *outcome) {
	if r.cfg.Signer == nil || !x.q.DO && !ofKeys(x.q.Type) || o.node == nil || !o.aa && o.refer == nil || o.tc {
		return
	}
	ring := r.cfg.Signer.Ring()
	if ring.Len() == 0 {
		return
	}
	if x.q.Type == typeNXNAME && ring.Zone(o.lastZone().name) != nil {
		*o = refuse(dns.RcodeFormatError)
		o.ede = edeInvalidType
		return
	}
	if x.sec == nil {
		x.sec = new(security)
	}
	if o.refer == nil {
		x.sec.keySet(ring, o, x.q.Type)
	}
	if !x.q.DO {
		return
	}
	if !x.ready(o, ring) {
		unsignable(o)
		return
	}
	x.sec.answer, x.sec.soa, x.sec.nsec, x.sec.ds = nil, nil, nil, nil
	done := r.secureHops(x, o, ring)
	z := ring.Zone(o.lastZone().name)
	switch {
	case !done:
	case z == nil: // the CNAMEs before it may be of signed zones
		return
	case o.refer != nil:
		done = r.secureReferral(x, o, z)
	case o.soa == nil || x.q.Type == dns.TypeNSEC && o.rcode == dns.RcodeSuccess:
		done = r.secureAnswer(x, o, z)
	default:
		done = r.secureDenial(x, o, z)
	}
	o.signed = true
	if !done {
		overBudget(x, o)
	}
}

// ready reports whether the keys are at hand of every zone of the reply that is to be signed.
func (x *Exchange) ready(o *outcome, ring *sign.Ring) bool {
	of := func(z *zone) bool {
		s := ring.Zone(z.name)
		return s == nil || s.Ready()
	}
	for i := range o.hops {
		if !of(x.chain[i].node.zone) {
			return false
		}
	}
	return of(o.lastZone())
}

// secureHops signs the CNAMEs before the answer. False: over budget.
func (r *Responder) secureHops(x *Exchange, o *outcome, ring *sign.Ring) bool {
	for i := range o.hops {
		h := &x.chain[i]
		x.sec.hops[i] = nil
		z := ring.Zone(h.node.zone.name)
		if z == nil {
			continue
		}
		name := x.nameAt(i, x.sec.hop[:0])
		set, class := sign.Set{Owner: name, Type: dns.TypeCNAME, TTL: h.ttl, Wire: h.set.wire}, classOf(x, h.node, true, name)
		if h.dname != nil { // the CNAME that is made of it is not signed: RFC 6672 section 5.3.1
			set, class = dnameSet(name, h.node, h.dname), sign.Known
		}
		if x.sec.hops[i] = r.cfg.Signer.Sign(z, &set, class, x.clock()); x.sec.hops[i] == nil {
			return false
		}
		o.signed = true
	}
	return true
}

// nameAt appends to buf, which is empty, the name that the question's leads to over so many CNAMEs, in lower case.
func (x *Exchange) nameAt(hops int, buf []byte) []byte {
	if hops == 0 {
		return x.q.Name()
	}
	for _, c := range x.chain[hops-1].set.wire[rrHead:] {
		buf = append(buf, wire.Lower(c))
	}
	return buf
}

// final is the name that the answer, or its denial, is of.
func (x *Exchange) final(o *outcome) []byte { return x.nameAt(o.hops, x.sec.last[:0]) }

// ofKeys reports whether a type at an apex, or above it, follows from keys.
func ofKeys(rrType uint16) bool {
	switch rrType {
	case dns.TypeDNSKEY, dns.TypeCDS, dns.TypeCDNSKEY, dns.TypeDS, typeNXNAME:
		return true
	}
	return false
}

// unsignable refuses a client that wants signatures of a zone whose keys are not at hand: an answer without them would be
// taken for a forgery. It asks another name server then.
func unsignable(o *outcome) {
	n := o.node
	*o = refuse(dns.RcodeServerFailure)
	o.ede, o.node = dns.ExtendedErrorCodeNotReady, n
}

// overBudget is the reply where a signature cannot be made now: over UDP an empty truncated one, which costs little and
// makes the client prove its address over TCP; over TCP a failure, which it asks another name server after.
func overBudget(x *Exchange, o *outcome) {
	o.signed = false
	if !x.TCP {
		o.tc = true
		return
	}
	n := o.node
	*o = refuse(dns.RcodeServerFailure)
	o.ede, o.node = dns.ExtendedErrorCodeNotReady, n
}

// keySet makes the answer the set that follows from the keys, where one was asked for: at an apex the keys, and above a zone
// of ours its DS.
func (s *security) keySet(ring *sign.Ring, o *outcome, rrType uint16) {
	if o.soa == nil || o.rcode != dns.RcodeSuccess || !o.node.apex {
		return
	}
	var set *sign.KeySet
	child := ring.Zone(o.node.zone.name)
	switch {
	case child == nil:
	case o.soa == o.node.zone:
		set = child.Keys(rrType)
	case rrType == dns.TypeDS:
		set = child.DS()
	}
	if set == nil {
		return
	}
	s.keys = rrset{rrType: set.Type, count: set.Count, ttl: set.TTL, wire: set.Wire, ttlAt: set.TTLAt}
	o.answer, o.ttl, o.soa, o.of = &s.keys, set.TTL, nil, o.soa
}

// classOf says whose budget a signature for a name is of.
func classOf(x *Exchange, n *node, exists bool, name []byte) sign.Class {
	switch {
	case exists && (!isWildcard(n.name) || len(name) > 2 && name[0] == 1 && name[1] == '*'):
		return sign.Known
	case x.TCP:
		return sign.MadeUpTCP
	default:
		return sign.MadeUp
	}
}

func (x *Exchange) clock() sign.Clock { return sign.Clock{Unix: x.Unix, Mono: x.Now} }

// secureAnswer signs the set of the answer; for a question about NSEC that is the NSEC itself. False: over budget.
func (r *Responder) secureAnswer(x *Exchange, o *outcome, z *sign.Zone) bool {
	s, name := x.sec, x.final(o)
	if o.dname != nil {
		set := dnameSet(name, o.node, o.dname)
		s.answer = r.cfg.Signer.Sign(z, &set, sign.Known, x.clock())
		return s.answer != nil
	}
	set := sign.Set{Owner: name}
	if o.answer != nil {
		set.TTL = o.signedTTL()
	} else {
		s.makeNSEC(name, s.typesAt(o, dns.TypeNone), o.soa.negTTL)
		o.answer, o.ttl, o.soa, o.of = &s.nsecs, o.soa.negTTL, nil, o.soa
		set.TTL = o.ttl
	}
	set.Type, set.Wire = o.answer.rrType, o.answer.wire
	if set.Type == dns.TypeSOA {
		set.Wire = s.makeSOA(o.node.zone, o.serial, questionName)
	}
	s.answer = r.cfg.Signer.Sign(z, &set, classOf(x, o.node, true, name), x.clock())
	return s.answer != nil
}

// secureReferral signs the DS set of a delegation, or the NSEC that says that there is none. False: over budget.
func (r *Responder) secureReferral(x *Exchange, o *outcome, z *sign.Zone) bool {
	s, name := x.sec, o.refer.name
	if ds := o.node.set(dns.TypeDS); ds != nil {
		s.ds = r.cfg.Signer.Sign(z, &sign.Set{Owner: name, Type: dns.TypeDS, TTL: ds.ttl, Wire: ds.wire}, sign.Known, x.clock())
		return s.ds != nil
	}
	zone := o.node.zone
	s.makeNSEC(name, append(s.types[:0], dns.TypeNS, dns.TypeRRSIG, dns.TypeNSEC), zone.negTTL)
	s.nsec = r.cfg.Signer.Sign(z, &sign.Set{Owner: name, Type: dns.TypeNSEC, TTL: zone.negTTL, Wire: s.nsecs.wire}, sign.Known, x.clock())
	return s.nsec != nil
}

// nsecTTLAt are the offsets of the TTLs in a set of one record.
var nsecTTLAt = [1]uint16{6}

// signedTTL is the TTL under which the answer is signed: of a steered one the rule's, whatever is left of it now.
func (o *outcome) signedTTL() uint32 {
	if o.service != nil && o.answer.hints {
		return min(o.pick.rule.ttl, o.answer.ttl)
	}
	if o.service != nil {
		return o.pick.rule.ttl
	}
	return o.answer.ttl
}

// secureDenial signs SOA and NSEC. A name that does not exist becomes one that has nothing but the mark NXNAME; its rcode
// stays for clients that know that mark. False: over budget.
func (r *Responder) secureDenial(x *Exchange, o *outcome, z *sign.Zone) bool {
	s, zone, name := x.sec, o.soa, x.final(o)
	class := classOf(x, o.node, o.rcode == dns.RcodeSuccess, name)
	s.makeNSEC(name, s.typesAt(o, x.q.Type), zone.negTTL)
	if o.rcode == dns.RcodeNameError && !x.q.CO {
		o.rcode = dns.RcodeSuccess
	}
	set := sign.Set{Owner: name, Type: dns.TypeNSEC, TTL: zone.negTTL, Wire: s.nsecs.wire}
	if s.nsec = r.cfg.Signer.Sign(z, &set, class, x.clock()); s.nsec == nil {
		return false
	}
	set = sign.Set{Owner: zone.name, Type: dns.TypeSOA, TTL: zone.ttl, Wire: s.makeSOA(zone, o.serial, questionName)}
	s.soa = r.cfg.Signer.Sign(z, &set, sign.Known, x.clock())
	return s.soa != nil
}

// questionName is the pointer to the question's name. It stands for the owner in what is signed, whatever stands there in
// the reply: signatures are made and looked up by the owner itself.
const questionName = 0xC000 | wire.HeaderLen

// makeSOA makes the SOA record of a zone.
func (s *security) makeSOA(z *zone, serial uint32, owner uint16) []byte {
	b := binary.BigEndian.AppendUint16(s.soaBuf[:0], owner)
	b = appendRR(b, nil, dns.TypeSOA, 0, z.soa)
	binary.BigEndian.PutUint32(b[len(b)-soaNumbers:], serial)
	return b
}

// appendHop appends the signature of a CNAME on the way to the answer.
func (s *security) appendHop(dst []byte, i int, w owner, ttl uint32, c *sections) []byte {
	if s.hops[i] == nil {
		return dst
	}
	c.answer += s.hops[i].Count()
	return s.hops[i].Append(dst, w.pointer(0), ttl)
}

// appendAnswer appends the signatures of the answer.
func (s *security) appendAnswer(dst []byte, w owner, ttl uint32, c *sections) []byte {
	if s.answer == nil {
		return dst
	}
	c.answer += s.answer.Count()
	return s.answer.Append(dst, w.pointer(0), ttl)
}

// appendDenial appends, behind the SOA, its signature, and the NSEC with its own.
func (s *security) appendDenial(dst []byte, w owner, apex uint16, ttl uint32, c *sections) []byte {
	if s.soa == nil {
		return dst
	}
	dst = s.soa.Append(dst, apex, ttl)
	dst = w.appendSet(dst, &s.nsecs, ttl)
	c.authority += s.soa.Count() + 1 + s.nsec.Count()
	return s.nsec.Append(dst, w.pointer(0), ttl)
}

// appendDelegation appends, behind the NS records, what proves whether the zone below is signed.
func (s *security) appendDelegation(dst []byte, w owner, o *outcome, c *sections) []byte {
	set, signed := &s.nsecs, s.nsec
	if s.ds != nil {
		set, signed = o.node.set(dns.TypeDS), s.ds
	}
	if signed == nil {
		return dst
	}
	c.authority += set.count + signed.Count()
	dst = w.appendSet(dst, set, set.ttl)
	return signed.Append(dst, w.pointer(0), set.ttl)
}

// size bounds the octets of signatures and NSEC in a reply.
func (s *security) size(o *outcome) (n int) {
	if !o.signed { // then s may be nil
		return 0
	}
	for i := range o.hops {
		if s.hops[i] != nil {
			n += s.hops[i].Len()
		}
	}
	for _, x := range [...]*sign.Signed{s.answer, s.soa, s.nsec, s.ds} {
		if x != nil {
			n += x.Len()
		}
	}
	if s.nsec != nil {
		n += len(s.nsecs.wire)
	}
	return n
}

// warmBudget bounds the time a swap waits for signatures.
const warmBudget = 50 * time.Millisecond

// hotFor is how long after its last use a signed name counts as hot.
const hotFor = 10 * time.Minute

// Warm signs, for names whose signatures were used of late, what ix answers otherwise than the index in use: call it before
// SetIndex, so that the first clients after a change do not wait for signatures. elapsed gives the time since the call.
func (r *Responder) Warm(ix *Index, now sign.Clock, elapsed func() time.Duration) {
	s, old := r.cfg.Signer, r.Index()
	if s == nil || s.Ring().Len() == 0 || old == nil {
		return
	}
	room := new(security)
	s.Hot(now, hotFor, func(owner []byte, rrType uint16) {
		n, exists := ix.find(owner)
		if n == nil || !exists || elapsed() > warmBudget {
			return
		}
		z := s.Ring().Zone(n.zone.name)
		if z == nil || !z.Ready() {
			return
		}
		if rrType == dns.TypeSOA && n.apex {
			set := sign.Set{Owner: owner, Type: rrType, TTL: n.zone.ttl, Wire: room.makeSOA(n.zone, ix.serial(n.zone), questionName)}
			s.Sign(z, &set, sign.Known, now)
			return
		}
		svc := ix.at(n)
		if o, was := old.find(owner); svc == nil || was && o != nil && old.at(o) == svc {
			return
		}
		svc.signAll(s, z, owner, now)
	})
}

// signAll signs every answer of a service at a name.
func (s *service) signAll(signer *sign.Signer, z *sign.Zone, owner []byte, now sign.Clock) {
	for i := range s.rules {
		for j := range s.rules[i].choices {
			c := &s.rules[i].choices[j]
			for _, set := range [...]*rrset{c.cname, c.a, c.aaaa} {
				if set != nil {
					signer.Sign(z, &sign.Set{Owner: owner, Type: set.rrType, TTL: s.rules[i].ttl, Wire: set.wire}, sign.Known, now)
				}
			}
		}
	}
}
