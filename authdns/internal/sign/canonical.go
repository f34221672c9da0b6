package sign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
)

// Set is one record set as the name server sends it: records one after the other, each with a pointer for its owner, class
// IN, and a TTL that is not looked at. A name in the RDATA may end in a pointer to the owner of the set, which then is the
// name of the question.
type Set struct {
	Owner []byte // wire form, lower case
	Type  uint16
	TTL   uint32 // the one that is signed; the one sent may be lower (RFC 4034 section 3.1.4)
	Wire  []byte
}

const (
	// rrHead is a record without RDATA, its owner a pointer.
	rrHead = 12
	// questionPointer is the pointer to the name of the question.
	questionPointer = 0xC000 | wire.HeaderLen
)

var errRecord = errors.New("a record cannot be read")

// rdatas gives the RDATA of every record in canonical form (RFC 4034 section 6.2), in canonical order, each once.
func (s *Set) rdatas() ([][]byte, error) {
	var out [][]byte
	for b := s.Wire; len(b) > 0; {
		if len(b) < rrHead || b[0]&0xC0 != 0xC0 {
			return nil, errRecord
		}
		end := rrHead + int(binary.BigEndian.Uint16(b[10:]))
		if end > len(b) {
			return nil, errRecord
		}
		data, err := canonical(s.Type, b[rrHead:end], s.Owner)
		if err != nil {
			return nil, err
		}
		out, b = append(out, data), b[end:]
	}
	if len(out) == 0 {
		return nil, errRecord
	}
	slices.SortFunc(out, bytes.Compare)
	return slices.CompactFunc(out, bytes.Equal), nil
}

// layout says where the names in the RDATA of a type stand that RFC 4034 section 6.2, as RFC 6840 section 5.1 amends it,
// wants in lower case: behind so many octets, and so many of them. Others are signed as they are.
func layout(rrType uint16) (skip, names int) {
	switch rrType {
	case dns.TypeNS, dns.TypeCNAME, dns.TypePTR, dns.TypeDNAME, dns.TypeMB, dns.TypeMD, dns.TypeMF, dns.TypeMG, dns.TypeMR:
		return 0, 1
	case dns.TypeSOA, dns.TypeRP, dns.TypeMINFO:
		return 0, 2
	case dns.TypeMX, dns.TypeAFSDB, dns.TypeRT, dns.TypeKX:
		return 2, 1
	case dns.TypePX:
		return 2, 2
	case dns.TypeSRV:
		return 6, 1
	default:
		return 0, 0
	}
}

// canonical is one RDATA in canonical form.
func canonical(rrType uint16, data, owner []byte) ([]byte, error) {
	skip, names := layout(rrType)
	if rrType == dns.TypeNAPTR {
		var ok bool
		if skip, ok = naptrStrings(data); !ok {
			return nil, errRecord
		}
		names = 1
	}
	if skip > len(data) {
		return nil, errRecord
	}
	out := append(make([]byte, 0, len(data)+len(owner)), data[:skip]...)
	rest, ok := data[skip:], true
	for range names {
		if out, rest, ok = appendName(out, rest, owner); !ok {
			return nil, fmt.Errorf("%w: type %d", errRecord, rrType)
		}
	}
	return append(out, rest...), nil
}

// naptrStrings is the length of what stands before the name of a NAPTR record: order, preference and three strings.
func naptrStrings(data []byte) (int, bool) {
	at := 4
	for range 3 {
		if at >= len(data) {
			return 0, false
		}
		at += 1 + int(data[at])
	}
	return at, true
}

// appendName appends the name that b begins with, in lower case and whole.
func appendName(dst, b, owner []byte) (out, rest []byte, ok bool) {
	for len(b) > 0 {
		l := int(b[0])
		switch {
		case l == 0:
			return append(dst, 0), b[1:], true
		case l&0xC0 == 0xC0:
			if len(b) < 2 || binary.BigEndian.Uint16(b) != questionPointer {
				return nil, nil, false
			}
			return append(dst, owner...), b[2:], true
		case l > 63 || len(b) < 1+l:
			return nil, nil, false
		}
		dst = append(dst, b[0])
		for _, c := range b[1 : 1+l] {
			dst = append(dst, wire.Lower(c))
		}
		b = b[1+l:]
	}
	return nil, nil, false
}

// labels is the value of the Labels field for an owner: the root and a leading * do not count (RFC 4034 section 3.1.3).
func labels(owner []byte) (n uint8) {
	for b := owner; len(b) > 1; b = b[1+int(b[0]):] {
		n++
	}
	if len(owner) > 2 && owner[0] == 1 && owner[1] == '*' {
		n--
	}
	return n
}
