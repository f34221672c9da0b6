package answer

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/sign"
	"steerpoint/authdns/internal/wire"
)

// madeCNAMEs are the CNAMEs of one reply that were made of DNAME records. An Exchange makes room for them at its first.
type madeCNAMEs struct {
	sets [maxChain + 1]rrset // by how many CNAMEs come before
	wire [maxChain + 1][rrHead + maxNameLen]byte
}

// madeTTLAt are the offsets of the TTLs in a set of one record.
var madeTTLAt = [1]uint16{ttlOff}

// renamed is the outcome at a name below one with a DNAME: the DNAME, and a CNAME made of it for those that do not know DNAMEs,
// with the same TTL (RFC 6672 section 3.1). A name that would be too long is YXDOMAIN (section 2.2).
func renamed(n *node, name []byte, x *Exchange, hops int) outcome {
	set := n.set(dns.TypeDNAME)
	front, target := name[:len(name)-len(n.name)], set.wire[rrHead:]
	o := outcome{echo: true, aa: true, ede: noEDE, dname: set, ttl: set.ttl, node: n}
	if len(front)+len(target) > maxNameLen {
		o.rcode = dns.RcodeYXDomain
		return o
	}
	if x.made == nil {
		x.made = new(madeCNAMEs)
	}
	b := append(x.made.wire[hops][:0], pointerToQuestion...)
	b = append(b, 0, byte(dns.TypeCNAME), 0, wire.ClassIN, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(front)+len(target)))
	b = append(append(b, front...), target...)
	x.made.sets[hops] = rrset{rrType: dns.TypeCNAME, count: 1, ttl: set.ttl, wire: b, ttlAt: madeTTLAt[:]}
	o.answer = &x.made.sets[hops]
	return o
}

// above is the owner that ends a name: that of its last octets.
func (w owner) above(n *node) owner { return owner{w.at + w.length - len(n.name), len(n.name)} }

// dnameSet is a DNAME record for its signature. name lies below it, in lower case.
func dnameSet(name []byte, n *node, set *rrset) sign.Set {
	return sign.Set{Owner: name[len(name)-len(n.name):], Type: dns.TypeDNAME, TTL: set.ttl, Wire: set.wire}
}

// renamer is the node whose DNAME the question's name lies below. There is one.
func (x *Exchange) renamer(o *outcome) *node {
	if o.hops > 0 {
		return x.chain[0].node
	}
	return o.node
}
