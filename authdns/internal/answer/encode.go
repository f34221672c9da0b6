package answer

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
)

const (
	// minUDP is what every resolver takes (RFC 1035 section 2.3.4); smaller EDNS sizes count as that (RFC 6891
	// section 6.2.3).
	minUDP = 512
	maxTCP = 65535
	optLen = 11 // OPT without options
)

// limit is the largest reply the query's transport and sender allow.
func (r *Responder) limit(x *Exchange) int {
	switch {
	case x.TCP:
		return maxTCP
	case !x.q.EDNS:
		return minUDP
	default:
		return min(max(int(x.q.UDPSize), minUDP), r.largestUDP(x))
	}
}

// encode appends the reply to dst.
func (r *Responder) encode(dst []byte, x *Exchange, o *outcome) []byte {
	q, start := &x.q, len(dst)
	var header [wire.HeaderLen]byte
	dst = append(dst, header[:]...)
	questions := 0
	if o.echo && q.Question != nil {
		dst = append(dst, q.Question...)
		questions = 1
	}
	opt := x.opt[:0]
	if q.EDNS {
		opt = r.appendOPT(opt, x, o)
	}
	body, room := len(dst), start+r.limit(x)-x.Reserve-len(opt)
	if note := r.noteFor(q, o); note != nil && len(dst)+o.size(x)+x.sec.size(o)+optionLen+len(*note) <= room {
		opt = appendNote(opt, *note)
		room -= optionLen + len(*note)
	}
	dst, counts := appendSections(dst, start, x, o)
	truncated := o.tc || len(dst) > room
	if truncated {
		// Empty sections: a cache must not take a part for the whole (RFC 2181 section 9).
		dst, counts = dst[:body], sections{}
	}
	if o.apex != nil && !truncated && len(dst)+len(o.apex.glue) <= room {
		dst = append(dst, o.apex.glue...)
		counts.additional = uint16(o.apex.glues)
	}
	if o.refer != nil && !truncated && len(dst)-o.refer.must+len(o.refer.wire) <= room {
		dst = o.refer.appendMore(dst, x.refersAt)
		counts.additional += o.refer.more
	}
	if q.EDNS {
		dst = append(dst, opt...)
		counts.additional++
	}
	h := dst[start:]
	binary.BigEndian.PutUint16(h, q.ID)
	binary.BigEndian.PutUint16(h[2:], flags(q, o, truncated))
	binary.BigEndian.PutUint16(h[4:], uint16(questions))
	binary.BigEndian.PutUint16(h[6:], counts.answer)
	binary.BigEndian.PutUint16(h[8:], counts.authority)
	binary.BigEndian.PutUint16(h[10:], counts.additional)
	return dst
}

type sections struct{ answer, authority, additional uint16 }

// flags makes the second word of the header: opcode and RD are the query's; RA, AD, CD and Z are never set.
func flags(q *wire.Query, o *outcome, truncated bool) uint16 {
	f := uint16(0x8000) | uint16(q.Opcode)<<11 | o.rcode&0xF
	if o.aa {
		f |= 0x0400
	}
	if truncated {
		f |= 0x0200
	}
	if q.RD {
		f |= 0x0100
	}
	return f
}

// owner is where the name that records are of stands in the message: that of the question, or what a CNAME leads to.
type owner struct{ at, length int }

// pointer is the compressed name of what begins in the name after so many octets.
func (w owner) pointer(skip int) uint16 { return 0xC000 | uint16(w.at+skip) }

// appendSet appends one record set. This is the one place where the sets of answers become records.
func (w owner) appendSet(dst []byte, s *rrset, ttl uint32) []byte {
	at := len(dst)
	dst = append(dst, s.wire...)
	for _, off := range s.ttlAt {
		binary.BigEndian.PutUint32(dst[at+int(off):], ttl)
	}
	if w.at != wire.HeaderLen { // sets are kept with the question's name as owner
		for _, off := range s.ttlAt {
			binary.BigEndian.PutUint16(dst[at+int(off)-ttlOff:], w.pointer(0))
		}
	}
	return dst
}

// ttlOff is where the TTL stands in a record whose owner is a pointer.
const ttlOff = 6

// appendSections appends answer and authority, and of a referral what must stand in additional. start is where the message
// begins in dst.
func appendSections(dst []byte, start int, x *Exchange, o *outcome) ([]byte, sections) {
	var counts sections
	q := &x.q
	w := owner{wire.HeaderLen, len(q.Name())}
	for i := range o.hops {
		h := &x.chain[i]
		signs := w
		if h.dname != nil {
			signs = w.above(h.node)
			dst = signs.appendSet(dst, h.dname, h.ttl)
			counts.answer++
		}
		dst = w.appendSet(dst, h.set, h.ttl)
		counts.answer++
		w.length = len(h.set.wire) - rrHead
		w.at = len(dst) - start - w.length
		if o.signed {
			dst = x.sec.appendHop(dst, i, signs, h.ttl, &counts)
		}
	}
	signs := w
	if o.dname != nil {
		signs = w.above(o.node)
		dst = signs.appendSet(dst, o.dname, o.ttl)
		counts.answer++
		if o.answer == nil && o.signed {
			dst = x.sec.appendAnswer(dst, signs, o.ttl, &counts)
		}
	}
	switch {
	case o.answer != nil:
		dst = w.appendSet(dst, o.answer, o.ttl)
		counts.answer += o.answer.count
		if o.answer.rrType == dns.TypeSOA {
			binary.BigEndian.PutUint32(dst[len(dst)-soaNumbers:], o.serial)
		}
		if o.signed {
			dst = x.sec.appendAnswer(dst, signs, o.ttl, &counts)
		}
	case o.soa != nil:
		// The zone's name is the end of the name that is denied.
		apex := w.pointer(w.length - len(o.soa.name))
		dst = binary.BigEndian.AppendUint16(dst, apex)
		dst = appendRR(dst, nil, dns.TypeSOA, o.soaTTL, o.soa.soa)
		binary.BigEndian.PutUint32(dst[len(dst)-soaNumbers:], o.serial)
		counts.authority = 1
		if o.signed {
			dst = x.sec.appendDenial(dst, w, apex, o.soaTTL, &counts)
		}
	case o.refer != nil:
		x.refersAt = len(dst) - start
		below := owner{w.at + w.length - len(o.refer.name), len(o.refer.name)}
		dst = o.refer.appendNS(dst, below.pointer(0))
		counts.authority = o.refer.ns
		if o.signed {
			dst = x.sec.appendDelegation(dst, below, o, &counts)
		}
		dst = o.refer.appendGlue(dst, x.refersAt)
		counts.additional = o.refer.glue
	case o.text != "":
		dst = append(dst, pointerToQuestion...)
		dst = append(dst, 0, byte(dns.TypeTXT), 0, wire.ClassCH, 0, 0, 0, 0, 0, byte(len(o.text)+1), byte(len(o.text)))
		dst = append(dst, o.text...)
		counts.answer = 1
	}
	return dst, counts
}

// appendOPT appends our OPT record: never the client's own, only what answers it.
func (r *Responder) appendOPT(dst []byte, x *Exchange, o *outcome) []byte {
	q, start := &x.q, len(dst)
	dst = append(dst, 0, 0, wire.TypeOPT)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.cfg.MaxUDP))
	dst = append(dst, byte(o.rcode>>4), 0, 0, 0, 0, 0) // extended rcode, version 0, flags, length
	if q.DO {
		dst[start+7] = 0x80
	}
	if o.signed && q.CO {
		dst[start+7] |= 0x40
	}
	if q.HasECS {
		dst = appendOption(dst, wire.OptionECS, len(q.ECS.Raw))
		at := len(dst)
		dst = append(dst, q.ECS.Raw...)
		dst[at+3] = byte(o.scope) // 0 when the client opted out: no address of its own decided
	}
	if q.Cookie != nil && r.cfg.Cookies != nil {
		dst = appendOption(dst, wire.OptionCookie, 0)
		at := len(dst)
		dst = r.cfg.Cookies.Append(dst, q.Cookie, x.Client, x.Unix, x.cookie)
		dst[at-1] = byte(len(dst) - at)
	}
	if q.NSID && r.cfg.NSID != "" {
		dst = appendOption(dst, wire.OptionNSID, len(r.cfg.NSID))
		dst = append(dst, r.cfg.NSID...)
	}
	if q.Keepalive && x.TCP && !x.NoKeepalive { // over UDP it must be ignored: RFC 7828 section 3.2.1
		dst = appendOption(dst, wire.OptionKeepalive, 2)
		dst = binary.BigEndian.AppendUint16(dst, uint16(min(r.cfg.TCPIdle.Milliseconds()/100, 65535)))
	}
	if z := o.zone(); q.ZoneVersion && z != nil {
		dst = appendOption(dst, wire.OptionVersion, 6)
		dst = append(dst, z.labels, 0) // type 0: SOA serial
		dst = binary.BigEndian.AppendUint32(dst, o.version)
	}
	if o.ede != noEDE {
		dst = appendOption(dst, wire.OptionEDE, 2)
		dst = binary.BigEndian.AppendUint16(dst, o.ede)
	}
	binary.BigEndian.PutUint16(dst[start+9:], uint16(len(dst)-start-optLen))
	return dst
}

// optionLen is the code and length of an option, and the info code of an extended error.
const optionLen = 6

// noteFor is the text that goes with a steered answer while control is silent; nil: none.
func (r *Responder) noteFor(q *wire.Query, o *outcome) *string {
	if !q.EDNS || o.service == nil || o.ede != noEDE {
		return nil
	}
	return r.note.Load()
}

// appendNote adds an extended error "other" with a text to an OPT record (RFC 8914 section 4.1).
func appendNote(opt []byte, note string) []byte {
	opt = appendOption(opt, wire.OptionEDE, 2+len(note))
	opt = binary.BigEndian.AppendUint16(opt, dns.ExtendedErrorCodeOther)
	opt = append(opt, note...)
	binary.BigEndian.PutUint16(opt[optLen-2:], uint16(len(opt)-optLen))
	return opt
}

// size bounds the octets of answer and authority.
func (o *outcome) size(x *Exchange) int {
	n := 0
	for i := range o.hops {
		n += len(x.chain[i].set.wire)
		if dname := x.chain[i].dname; dname != nil {
			n += len(dname.wire)
		}
	}
	if o.dname != nil {
		n += len(o.dname.wire)
	}
	switch {
	case o.answer != nil:
		return n + len(o.answer.wire)
	case o.soa != nil:
		return n + rrHead + len(o.soa.soa)
	default:
		return n
	}
}

// rrHead is a record without its RDATA, the owner a pointer.
const rrHead = 12

// zone is the zone an authoritative reply is of; nil: it is of none.
func (o *outcome) zone() *zone {
	switch {
	case o.node == nil || !o.aa:
		return nil
	case o.first != nil:
		return o.first.zone
	default:
		return o.lastZone()
	}
}

// lastZone is the zone that the answer, its denial or the referral is of, which is that of the question's name unless CNAMEs
// led to another. There is a node.
func (o *outcome) lastZone() *zone {
	switch {
	case o.soa != nil:
		return o.soa
	case o.of != nil:
		return o.of
	default:
		return o.node.zone
	}
}

func appendOption(dst []byte, code uint16, length int) []byte {
	dst = binary.BigEndian.AppendUint16(dst, code)
	return binary.BigEndian.AppendUint16(dst, uint16(length))
}
