package answer

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
)

// maxHints is how many octets hints add to one record: two keys, and ten addresses of each family.
const maxHints = 2*4 + 10*4 + 10*16

// withHints marks a set as one whose records get hints.
func (b *builder) withHints(what string, s *rrset) *rrset {
	if len(s.wire)+int(s.count)*maxHints > 1<<16-1-rrHead {
		b.fail("%s: its records do not fit into one message with hints", what)
		return s
	}
	marked := *s
	marked.hints = true
	return b.ix.pool.share(&marked)
}

// hinted is the outcome for an HTTPS or SVCB set whose hints follow the decision: to each record the addresses are added that
// the service answers this client when it asks for A and AAAA. The TTL is the shorter one of both, and the client-subnet scope
// that of both questions: whoever gets this answer would get those addresses.
func (ix *Index) hinted(n *node, s *rrset, q *wire.Query, x *Exchange) outcome {
	svc := ix.at(n)
	v4, v6 := svc.pick(q.ECS.Addr, x.Client, kindA), svc.pick(q.ECS.Addr, x.Client, kindAAAA)
	if x.hint == nil {
		x.hint = new(rrset)
	}
	made := x.hint
	*made = rrset{rrType: s.rrType, count: s.count, ttl: s.ttl, hints: true, wire: made.wire[:0], ttlAt: made.ttlAt[:0]}
	for _, at := range s.ttlAt {
		length := int(binary.BigEndian.Uint16(s.wire[at+4:]))
		data := s.wire[int(at)+6:][:length]
		start := len(made.wire)
		made.ttlAt = append(made.ttlAt, uint16(start+ttlOff))
		made.wire = append(made.wire, s.wire[int(at)-ttlOff:int(at)+6]...)
		made.wire = appendHints(made.wire, data, v4.choice.addresses(kindA), v6.choice.addresses(kindAAAA))
		binary.BigEndian.PutUint16(made.wire[start+rrHead-2:], uint16(len(made.wire)-start-rrHead))
	}
	o := positive(made, min(s.ttl, v4.rule.ttlAt(x.Now)))
	o.pick, o.service = v4, svc
	for k, p := range [2]pick{kindA: v4, kindAAAA: v6} {
		if svc.tailored[k] {
			o.scope, o.source = max(o.scope, p.bits), max(o.source, p.source)
		}
	}
	return o
}

// addresses is the set of addresses of one family that a choice answers; nil: it has none.
func (c *choice) addresses(k kind) *rrset {
	if c == nil || c.cname != nil {
		return nil
	}
	return c.set(k)
}

// appendHints appends the data of an HTTPS or SVCB record with hints among its parameters, which stand in the order of their
// keys (RFC 9460 section 2.2).
func appendHints(dst, data []byte, v4, v6 *rrset) []byte {
	at := 2 // behind the priority is the target
	for data[at] != 0 {
		at += 1 + int(data[at])
	}
	at++
	dst = append(dst, data[:at]...)
	hints := [2]struct {
		key uint16
		set *rrset
	}{{uint16(dns.SVCB_IPV4HINT), v4}, {uint16(dns.SVCB_IPV6HINT), v6}}
	next := 0
	until := func(key int) {
		for ; next < len(hints) && int(hints[next].key) < key; next++ {
			dst = appendHint(dst, hints[next].key, hints[next].set)
		}
	}
	for at < len(data) {
		length := 4 + int(binary.BigEndian.Uint16(data[at+2:]))
		until(int(binary.BigEndian.Uint16(data[at:])))
		dst = append(dst, data[at:at+length]...)
		at += length
	}
	until(1 << 16)
	return dst
}

// appendHint appends one parameter: addresses one after the other (RFC 9460 section 7.3). Without any there is none.
func appendHint(dst []byte, key uint16, set *rrset) []byte {
	if set == nil || set.count == 0 {
		return dst
	}
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, key)
	dst = append(dst, 0, 0)
	for _, at := range set.ttlAt {
		n := int(binary.BigEndian.Uint16(set.wire[at+4:]))
		dst = append(dst, set.wire[int(at)+6:][:n]...)
	}
	binary.BigEndian.PutUint16(dst[start+2:], uint16(len(dst)-start-4))
	return dst
}
