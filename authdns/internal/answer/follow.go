package answer

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
)

// maxChain is how many CNAMEs stand before an answer at most. What is longer, resolvers follow.
const maxChain = 8

// hop is one CNAME on the way to an answer.
type hop struct {
	node *node
	set  *rrset
	ttl  uint32
	// dname is the DNAME record that the CNAME was made of; nil: it is a record of its own.
	dname *rrset
}

// follow goes on from a static CNAME to the name that it leads to, as long as that is in our zones: RFC 1034 section 4.3.2. The
// last name decides the response code (RFC 6604), and its answer the scope. A CNAME that a service answers is not followed: one
// reply has one scope.
func (ix *Index) follow(o *outcome, x *Exchange) {
	first := o.node
	for o.hops < maxChain && o.answer != nil && o.answer.rrType == dns.TypeCNAME && o.service == nil {
		target := x.target[:copy(x.target[:], o.answer.wire[rrHead:])]
		for i, c := range target { // a length octet is below every letter
			target[i] = wire.Lower(c)
		}
		next := ix.lookUp(target, x, o.hops+1)
		if next.node == nil || next.refer != nil { // elsewhere
			return
		}
		if next.apex != nil { // the usual form is for questions of the zone's name
			next.apex, next.answer = nil, next.node.zone.ns
		}
		x.chain[o.hops] = hop{o.node, o.answer, o.ttl, o.dname}
		next.hops, next.first = o.hops+1, first
		*o = next
	}
}

// referred is the outcome at or below a delegation. The DS set at the delegation itself is ours.
func referred(n *node, name []byte, qtype uint16) outcome {
	if qtype == dns.TypeDS && len(name) == len(n.cut.name) {
		o := negative(n.zone, n.zone.negTTL)
		if s := n.set(dns.TypeDS); s != nil {
			o = positive(s, s.ttl)
		}
		o.node = n
		return o
	}
	return outcome{echo: true, ede: noEDE, refer: n.cut, node: n}
}

// digests answers for the DS set of a zone of ours that lies in another one, to which it belongs (RFC 4035 section 3.1.4.1). Where
// that one delegates a name between them, the set is neither's.
func (ix *Index) digests(n *node) outcome {
	if above := n.zone.hidden; above != nil {
		cut := ix.nodes.get(above)
		return outcome{echo: true, ede: noEDE, refer: cut.cut, node: cut}
	}
	o := negative(n.zone.parent, n.zone.parent.negTTL)
	if n.ds != nil {
		o = positive(n.ds, n.ds.ttl)
		o.of = n.zone.parent
	}
	o.node = n
	return o
}

// appendNS appends the NS records of a referral. name is the pointer to the name of the delegation.
func (r *referral) appendNS(dst []byte, name uint16) []byte {
	return r.appendPart(dst, 0, r.nsLen, name, 0)
}

// appendGlue appends the addresses that must go with them. base is where in the message the NS records begin.
func (r *referral) appendGlue(dst []byte, base int) []byte {
	return r.appendPart(dst, r.nsLen, r.must, 0, base)
}

// appendMore appends the other addresses.
func (r *referral) appendMore(dst []byte, base int) []byte {
	return r.appendPart(dst, r.must, len(r.wire), 0, base)
}

// appendPart appends a part of the records and sets its pointers: those to the delegation's name, which stand in the NS
// records alone, and those to names in the NS records, which stand behind them.
func (r *referral) appendPart(dst []byte, from, to int, name uint16, base int) []byte {
	at := len(dst) - from
	dst = append(dst, r.wire[from:to]...)
	for _, off := range r.ownerAt {
		if int(off) >= from && int(off) < to {
			binary.BigEndian.PutUint16(dst[at+int(off):], name)
		}
	}
	for _, off := range r.selfAt {
		if int(off) >= from && int(off) < to {
			p := dst[at+int(off):]
			binary.BigEndian.PutUint16(p, binary.BigEndian.Uint16(p)+uint16(base))
		}
	}
	return dst
}
