// Package wire reads DNS queries by hand, without allocating, and says of each what it is: a question, a fault to be
// told to the sender, or something not to be answered. It knows the formats of RFC 1035, RFC 6891 (EDNS), RFC 7871
// (client subnet) and RFC 7873 (cookies); it decides nothing about answers.
package wire

import "encoding/binary"

// Verdict says what a message is.
type Verdict uint8

// The verdicts of Parse. Short and Response are never answered: the first has no header to answer, the second is
// itself an answer, and answering it would let two servers talk for ever.
const (
	OK Verdict = iota
	FormErr
	BadVersion // EDNS version above 0
	CookieOnly // no question, but a cookie: RFC 7873 section 5.4
	Short
	Response
)

// Codes used here and by those who answer.
const (
	OpcodeQuery  = 0
	OpcodeNotify = 4
	OpcodeUpdate = 5

	TypeOPT = 41
	ClassIN = 1
	ClassCH = 3

	OptionNSID      = 3
	OptionECS       = 8
	OptionCookie    = 10
	OptionKeepalive = 11
	OptionEDE       = 15
	OptionVersion   = 19 // ZONEVERSION, RFC 9660

	HeaderLen = 12
	maxName   = 255 // RFC 1035 section 3.1, length octets and root included
	maxLabel  = 63
	rrFixed   = 10 // type, class, TTL, length
)

// Query is one parsed message. The zero value is ready; Parse overwrites all of it, so one value serves a socket.
// Slices point into the message.
type Query struct {
	ID     uint16
	Opcode uint8
	RD     bool

	// Question is the question section as sent: name in its own case, type, class. nil when there was not exactly
	// one question that could be read.
	Question    []byte
	Type, Class uint16

	EDNS    bool
	UDPSize uint16
	Version uint8
	DO      bool
	CO      bool // compact answers are understood (RFC 9824 section 5)

	HasECS    bool
	ECS       ECS
	Cookie    []byte // nil, 8 octets (client) or 16..40 (client and server)
	NSID      bool
	Keepalive bool
	// ZoneVersion asks which version of the zone the answer is of.
	ZoneVersion bool
	// TSIG: a record in the additional section signs the message.
	TSIG bool

	name    [maxName]byte
	nameLen int
}

// Name is the question's name in wire form with ASCII letters lowered: the key of look-ups. It is valid until the
// next Parse and empty without a question.
func (q *Query) Name() []byte { return q.name[:q.nameLen] }

// Parse reads msg into q. Whatever the verdict but Short and Response, ID, Opcode and RD are set, and Question and
// the EDNS fields are as far as they could be read, so that a FORMERR can echo them.
func (q *Query) Parse(msg []byte) Verdict {
	q.reset()
	if len(msg) < HeaderLen {
		return Short
	}
	flags := binary.BigEndian.Uint16(msg[2:])
	if flags&0x8000 != 0 {
		return Response
	}
	q.ID = binary.BigEndian.Uint16(msg)
	q.Opcode = uint8(flags>>11) & 0xF
	q.RD = flags&0x0100 != 0
	return q.parseBody(msg)
}

func (q *Query) reset() {
	// Not *q = Query{}: clearing 255 octets of name for each packet would be the dearest line of the file.
	q.ID, q.Opcode, q.RD = 0, 0, false
	q.Question, q.Type, q.Class, q.nameLen = nil, 0, 0, 0
	q.EDNS, q.UDPSize, q.Version, q.DO = false, 0, 0, false
	q.HasECS, q.ECS, q.Cookie = false, ECS{}, nil
	q.NSID, q.Keepalive, q.ZoneVersion, q.TSIG, q.CO = false, false, false, false, false
}

func (q *Query) parseBody(msg []byte) Verdict {
	counts := [4]int{}
	for i := range counts {
		counts[i] = int(binary.BigEndian.Uint16(msg[4+2*i:]))
	}
	off, ok := q.questions(msg, counts[0])
	if !ok {
		return FormErr
	}
	// A query carries no answers, and authority only in IXFR, which is refused by its type anyway; NOTIFY, UPDATE
	// and unknown opcodes may use the sections as they like.
	if q.Opcode == OpcodeQuery && counts[1] != 0 {
		return FormErr
	}
	for section := 1; section <= 3; section++ {
		for range counts[section] {
			v := FormErr
			if off, v = q.record(msg, off, section == 3); v != OK {
				return v
			}
		}
	}
	if off != len(msg) {
		return FormErr
	}
	return q.judge(counts[0])
}

// judge gives the verdict on a message that is well-formed as a whole.
func (q *Query) judge(questions int) Verdict {
	switch {
	case q.EDNS && q.Version > 0:
		return BadVersion
	case q.Opcode != OpcodeQuery || questions == 1:
		return OK
	case questions == 0 && q.Cookie != nil:
		return CookieOnly
	default:
		return FormErr // RFC 9619
	}
}

// questions reads n questions and returns the offset behind them. Only a lone one is kept.
func (q *Query) questions(msg []byte, n int) (off int, ok bool) {
	off = HeaderLen
	for range n {
		start := off
		if off, ok = q.readName(msg, off); !ok || off+4 > len(msg) {
			q.nameLen = 0
			return 0, false
		}
		if n == 1 {
			q.Type = binary.BigEndian.Uint16(msg[off:])
			q.Class = binary.BigEndian.Uint16(msg[off+2:])
			q.Question = msg[start : off+4]
		}
		off += 4
	}
	if n != 1 {
		q.nameLen = 0
	}
	return off, true
}

// readName reads the name at off into q.name, lowered. Compression is not allowed: in a first question a pointer
// could only lead into the header.
func (q *Query) readName(msg []byte, off int) (next int, ok bool) {
	n := 0
	for off < len(msg) {
		l := int(msg[off])
		if l > maxLabel || off+1+l > len(msg) || n+1+l > maxName {
			return 0, false
		}
		q.name[n] = byte(l)
		for i := 1; i <= l; i++ {
			q.name[n+i] = Lower(msg[off+i])
		}
		n += 1 + l
		off += 1 + l
		if l == 0 {
			q.nameLen = n
			return off, true
		}
	}
	return 0, false
}

// Lower is ASCII lower case, the only case folding DNS has (RFC 4343).
func Lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// record steps over one resource record and takes in OPT when it stands in the additional section.
func (q *Query) record(msg []byte, off int, additional bool) (next int, v Verdict) {
	root := off < len(msg) && msg[off] == 0
	off, ok := skipName(msg, off)
	if !ok || off+rrFixed > len(msg) {
		return 0, FormErr
	}
	rrType := binary.BigEndian.Uint16(msg[off:])
	length := int(binary.BigEndian.Uint16(msg[off+8:]))
	next = off + rrFixed + length
	if next > len(msg) {
		return 0, FormErr
	}
	if rrType != TypeOPT {
		q.TSIG = q.TSIG || rrType == TypeTSIG && additional
		return next, OK
	}
	if !root || !additional || q.EDNS { // one OPT, at the root, in additional: RFC 6891 section 6.1.1
		return 0, FormErr
	}
	q.EDNS = true
	q.UDPSize = binary.BigEndian.Uint16(msg[off+2:])
	q.Version = msg[off+5]
	q.DO = msg[off+6]&0x80 != 0
	q.CO = msg[off+6]&0x40 != 0
	if q.Version > 0 {
		return next, OK // what the options of a later version look like is not known
	}
	if !q.options(msg[off+rrFixed : next]) {
		return 0, FormErr
	}
	return next, OK
}

// skipName steps over a name of any record; a pointer ends it and is not followed.
func skipName(msg []byte, off int) (next int, ok bool) {
	for length := 0; off < len(msg) && length < maxName; {
		l := int(msg[off])
		switch {
		case l == 0:
			return off + 1, true
		case l&0xC0 == 0xC0:
			return off + 2, off+2 <= len(msg)
		case l > maxLabel:
			return 0, false
		}
		length += 1 + l
		off += 1 + l
	}
	return 0, false
}

// options reads the options of OPT. Unknown ones are passed over (RFC 6891 section 6.1.2).
func (q *Query) options(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 4 {
			return false
		}
		code, length := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		if b = b[4:]; length > len(b) {
			return false
		}
		if !q.option(code, b[:length]) {
			return false
		}
		b = b[length:]
	}
	return true
}

func (q *Query) option(code uint16, data []byte) bool {
	switch code {
	case OptionNSID:
		q.NSID = true
	case OptionKeepalive:
		q.Keepalive = true
	case OptionVersion:
		q.ZoneVersion = len(data) == 0 // with data it is an answer, and means nothing here
	case OptionECS:
		if q.HasECS { // two subnets name two clients
			q.HasECS, q.ECS = false, ECS{}
			return false
		}
		q.ECS, q.HasECS = parseECS(data)
		return q.HasECS
	case OptionCookie:
		if q.Cookie != nil { // the first one counts: RFC 7873 section 5.2
			return true
		}
		if len(data) != 8 && (len(data) < 16 || len(data) > 40) {
			return false
		}
		q.Cookie = data
	}
	return true
}
