package answer

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// makeNSEC makes the NSEC at a name: one that covers nothing but the name itself (RFC 9824). types are what any client may
// find there.
func (s *security) makeNSEC(name []byte, types []uint16, ttl uint32) {
	b := binary.BigEndian.AppendUint16(s.nsecBuf[:0], questionName)
	b = appendRR(b, nil, dns.TypeNSEC, 0, nil)
	b = appendSuccessor(b, name)
	b = appendBitmap(b, types)
	binary.BigEndian.PutUint16(b[rrHead-2:], uint16(len(b)-rrHead))
	s.nsecs = rrset{rrType: dns.TypeNSEC, count: 1, ttl: ttl, wire: b, ttlAt: nsecTTLAt[:]}
}

// appendSuccessor appends the name that follows a name at once in canonical order (RFC 4034 section 6.1): the name below it
// with a label of one octet 0. A name too long for that is followed by a sibling.
func appendSuccessor(dst, name []byte) []byte {
	if len(name)+2 <= maxNameLen {
		return append(append(dst, 1, 0), name...)
	}
	return appendSibling(dst, name)
}

// appendSibling appends the first name behind a name and all that is below it.
func appendSibling(dst, name []byte) []byte {
	first := int(name[0])
	label, rest := name[1:1+first], name[1+first:]
	if len(name)+1 <= maxNameLen && first < maxLabelLen {
		dst = append(append(dst, byte(first+1)), label...)
		return append(append(dst, 0), rest...)
	}
	// The last octet that can grow does, and what is behind it goes.
	at := first - 1
	for at >= 0 && label[at] == 0xFF {
		at--
	}
	if at < 0 {
		return appendSibling(dst, rest)
	}
	dst = append(append(dst, byte(at+1)), label[:at+1]...)
	switch last := &dst[len(dst)-1]; *last {
	case 'A' - 1: // capital letters count as small ones, which come later
		*last = 'Z' + 1
	default:
		*last++
	}
	return append(dst, rest...)
}

// typesAt lists, in order, what a name has for any client, but for a type that is denied; dns.TypeNone denies none.
func (s *security) typesAt(o *outcome, denied uint16) []uint16 {
	t := typeList{list: s.types[:0], denied: denied}
	t.add(dns.TypeRRSIG)
	t.add(dns.TypeNSEC)
	n := o.node
	switch {
	case o.rcode == dns.RcodeNameError:
		t.add(typeNXNAME)
	case n.cut != nil: // nothing else there is ours
		t.add(dns.TypeNS)
		if n.set(dns.TypeDS) != nil {
			t.add(dns.TypeDS)
		}
	case n.apex && o.soa != n.zone: // a zone below, seen from above
		t.add(dns.TypeNS)
	default:
		for _, set := range n.sets {
			t.add(set.rrType)
		}
		if n.apex {
			t.add(dns.TypeDNSKEY)
			t.add(dns.TypeCDS)
			t.add(dns.TypeCDNSKEY)
		}
		// A name that is steered to addresses may have both families for somebody. One that is steered to names has
		// a CNAME where it has anything, and a denial beside one would contradict itself.
		if n.service != 0 && !o.named() {
			t.add(typeA)
			t.add(typeAAAA)
		}
	}
	return t.list
}

// named reports whether the service of the node answers with names.
func (o *outcome) named() bool { return o.service != nil && o.service.named }

// typeList is types in order, each once, but for one.
type typeList struct {
	list   []uint16
	denied uint16
}

func (t *typeList) add(rrType uint16) {
	if rrType == t.denied {
		return
	}
	at := len(t.list)
	for at > 0 && t.list[at-1] >= rrType {
		if t.list[at-1] == rrType {
			return
		}
		at--
	}
	t.list = append(t.list, 0)
	copy(t.list[at+1:], t.list[at:])
	t.list[at] = rrType
}

// appendBitmap appends types, which are in order, as windows (RFC 4034 section 4.1.2).
func appendBitmap(dst []byte, types []uint16) []byte {
	for i := 0; i < len(types); {
		window, start := types[i]>>8, len(dst)
		dst = append(dst, byte(window), 0)
		for ; i < len(types) && types[i]>>8 == window; i++ {
			low := int(types[i] & 0xFF)
			for len(dst) <= start+2+low/8 {
				dst = append(dst, 0)
			}
			dst[start+2+low/8] |= 0x80 >> (low % 8)
		}
		dst[start+1] = byte(len(dst) - start - 2)
	}
	return dst
}
