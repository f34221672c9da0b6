package doh

import "encoding/binary"

const (
	headerLen = 12
	rrFixed   = 10 // type, class, TTL, length
	typeSOA   = 6
)

// freshness is how many seconds a reply keeps: the least TTL of its answers or, without any, what its SOA says of
// negative answers. false: it does not keep at all, as an error or what was cut does not.
func freshness(reply []byte) (seconds uint32, ok bool) {
	if len(reply) < headerLen {
		return 0, false
	}
	truncated, rcode := reply[2]&2 != 0, reply[3]&0xF
	if truncated || rcode != 0 && rcode != 3 {
		return 0, false
	}
	var counts [3]int // questions, answers, authority
	for i := range counts {
		counts[i] = int(binary.BigEndian.Uint16(reply[4+2*i:]))
	}
	at := headerLen
	for range counts[0] {
		if at = skipName(reply, at) + 4; at > len(reply) {
			return 0, false
		}
	}
	if counts[1] > 0 {
		return leastTTL(reply, at, counts[1])
	}
	for range counts[2] {
		rr, next, ok := record(reply, at)
		if !ok {
			return 0, false
		}
		if data := reply[next-rr.length : next]; rr.kind == typeSOA && rr.length >= 4 {
			return min(rr.ttl, binary.BigEndian.Uint32(data[rr.length-4:])), true
		}
		at = next
	}
	return 0, false
}

func leastTTL(reply []byte, at, n int) (least uint32, ok bool) {
	least = 1<<31 - 1
	for range n {
		rr, next, ok := record(reply, at)
		if !ok {
			return 0, false
		}
		least, at = min(least, rr.ttl), next
	}
	return least, true
}

// fixed is what stands in every record.
type fixed struct {
	kind   uint16
	ttl    uint32
	length int
}

// record reads the record at an offset and gives the offset behind it.
func record(b []byte, at int) (rr fixed, next int, ok bool) {
	if at = skipName(b, at); at+rrFixed > len(b) {
		return fixed{}, 0, false
	}
	rr.kind, rr.ttl = binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint32(b[at+4:])
	rr.length = int(binary.BigEndian.Uint16(b[at+8:]))
	next = at + rrFixed + rr.length
	return rr, next, next <= len(b)
}

// skipName gives the offset behind a name; one beyond the end where there is none.
func skipName(b []byte, at int) int {
	for at < len(b) {
		switch l := int(b[at]); {
		case l == 0:
			return at + 1
		case l&0xC0 == 0xC0:
			return at + 2
		case l > 63:
			return len(b) + 1
		default:
			at += 1 + l
		}
	}
	return len(b) + 1
}
