package transfer

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
)

const (
	// messageSize is when the next message of a transfer begins: large, so that headers, signatures and system calls are
	// few; small enough that names seldom stand beyond what a pointer reaches.
	messageSize = 32 << 10
	maxMessage  = 65535
	// maxPointer is the first offset no pointer reaches (RFC 1035 section 4.1.4).
	maxPointer = 1 << 14
	opt        = "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00" // OPT: 4096 octets, version 0, no options
)

// Request is what a transfer answers.
type Request struct {
	ID       uint16
	Question []byte // as it was sent: name, type and class
	EDNS     bool
}

// Packer makes the messages of one transfer.
type Packer struct {
	req     Request
	records [][]string
	list    int // of records, the next one to send
	at      int // in it
	first   bool
	names   map[string]int // where a name stands in the message in the making, by its wire form
}

// NewPacker packs the records of Whole or Since.
func NewPacker(req Request, records [][]string) *Packer {
	return &Packer{req: req, records: records, first: true}
}

// Done reports whether everything was packed.
func (p *Packer) Done() bool {
	for p.list < len(p.records) && p.at == len(p.records[p.list]) {
		p.list, p.at = p.list+1, 0
	}
	return p.list == len(p.records)
}

// Append appends the next message, with reserve octets left free below limit, which is at most 65535. It packs at least
// one record; false: that does not fit, and dst is as it was.
func (p *Packer) Append(dst []byte, limit, reserve int) ([]byte, bool) {
	start := len(dst)
	p.names = map[string]int{}
	dst = append(dst, make([]byte, wire.HeaderLen)...)
	binary.BigEndian.PutUint16(dst[start:], p.req.ID)
	dst[start+2] = 0x84 // an authoritative response to a query
	extra := 0
	if p.first {
		dst = p.question(dst, start)
		if p.req.EDNS {
			extra = len(opt)
		}
	}
	room, records := start+limit-reserve-extra, 0
	for !p.Done() && len(dst)-start < messageSize && records < 1<<16-1 {
		next := p.record(dst, start, p.records[p.list][p.at])
		if len(next) > room {
			break
		}
		dst = next
		p.at++
		records++
	}
	if records == 0 {
		return dst[:start], false
	}
	if extra > 0 {
		dst = append(dst, opt...)
		dst[start+11] = 1
	}
	binary.BigEndian.PutUint16(dst[start+6:], uint16(records))
	p.first = false
	return dst, true
}

// question repeats the question, whose name is the zone's and is pointed to from then on.
func (p *Packer) question(dst []byte, start int) []byte {
	q := p.req.Question
	binary.BigEndian.PutUint16(dst[start+4:], 1)
	name := q[:len(q)-4]
	for at := 0; at < len(name); at += 1 + int(name[at]) {
		p.learn(string(name[at:]), len(dst)+at-start)
	}
	return append(dst, q...)
}

func (p *Packer) learn(name string, at int) {
	if _, known := p.names[name]; !known && at < maxPointer && name != "\x00" {
		p.names[name] = at
	}
}

// record appends one record with its names compressed: the owner, and in the data of types of RFC 1035, which alone may
// (RFC 3597 section 4).
func (p *Packer) record(dst []byte, start int, rr string) []byte {
	owner := nameLen(rr)
	fixed := rr[owner : owner+8] // type, class and TTL
	data := rr[owner+10:]
	dst = p.name(dst, start, rr[:owner])
	dst = append(dst, fixed...)
	at := len(dst)
	dst = append(dst, 0, 0)
	head, end := namesIn(uint16(fixed[0])<<8|uint16(fixed[1]), data)
	dst = append(dst, data[:head]...)
	for head < end {
		n := nameLen(data[head:])
		dst = p.name(dst, start, data[head:head+n])
		head += n
	}
	dst = append(dst, data[end:]...)
	binary.BigEndian.PutUint16(dst[at:], uint16(len(dst)-at-2))
	return dst
}

// name appends a name, its end as a pointer if that stands in the message already.
func (p *Packer) name(dst []byte, start int, name string) []byte {
	for at := 0; at < len(name)-1; at += 1 + int(name[at]) {
		if to, ok := p.names[name[at:]]; ok {
			return binary.BigEndian.AppendUint16(dst, 0xC000|uint16(to))
		}
		p.learn(name[at:], len(dst)-start)
		dst = append(dst, name[at:at+1+int(name[at])]...)
	}
	return append(dst, 0)
}

// namesIn says from where to where names stand in the data of a record that may be compressed; data that is not as it should
// be is sent as it is.
func namesIn(rrType uint16, data string) (from, to int) {
	names, tail := 1, 0
	switch rrType {
	case dns.TypeNS, dns.TypeCNAME, dns.TypePTR:
	case dns.TypeMX:
		from = 2
	case dns.TypeSOA:
		names, tail = 2, 20
	default:
		return 0, 0
	}
	to = from
	for range names {
		n := nameLen(data[min(to, len(data)):])
		if n == 0 {
			return 0, 0
		}
		to += n
	}
	if to+tail != len(data) {
		return 0, 0
	}
	return from, to
}

// nameLen is the length of the name that begins s; 0: there is none.
func nameLen(s string) int {
	at := 0
	for at < len(s) && s[at] != 0 {
		at += 1 + int(s[at])
	}
	if at >= len(s) {
		return 0
	}
	return at + 1
}
