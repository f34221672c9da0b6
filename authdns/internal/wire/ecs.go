package wire

import (
	"encoding/binary"
	"net/netip"
)

// ECS is the client subnet option of a query (RFC 7871 section 6).
type ECS struct {
	// Raw is the option's data as sent, to be echoed: family, source, scope and the truncated address.
	Raw    []byte
	Source uint8
	// Addr is the first address of the block; not valid when Source is 0 (the client opted out).
	Addr netip.Addr
}

// Address families of RFC 7871, from the IANA registry.
const (
	familyNone = 0
	familyIPv4 = 1
	familyIPv6 = 2
)

// parseECS reads the option's data. It must be exact: a known family, a source length the family has, exactly as
// many address octets as that needs, no bits set beyond it, and scope 0, as RFC 7871 section 7.1.2 and 7.2.1 ask.
// Family 0 is taken with an empty source: "no subnet, please" (dig +subnet=0 sends it so).
func parseECS(b []byte) (e ECS, ok bool) {
	if len(b) < 4 || b[3] != 0 {
		return ECS{}, false
	}
	e.Raw, e.Source = b, b[2]
	addr := b[4:]
	if len(addr) != (int(e.Source)+7)/8 {
		return ECS{}, false
	}
	if spare := e.Source % 8; spare != 0 && addr[len(addr)-1]&(0xFF>>spare) != 0 {
		return ECS{}, false
	}
	switch binary.BigEndian.Uint16(b) {
	case familyNone:
		return e, e.Source == 0
	case familyIPv4:
		return e.withAddr4(addr)
	case familyIPv6:
		return e.withAddr6(addr)
	default:
		return ECS{}, false
	}
}

func (e ECS) withAddr4(b []byte) (ECS, bool) {
	if e.Source > 32 {
		return ECS{}, false
	}
	if e.Source > 0 {
		var a [4]byte
		copy(a[:], b)
		e.Addr = netip.AddrFrom4(a)
	}
	return e, true
}

func (e ECS) withAddr6(b []byte) (ECS, bool) {
	if e.Source > 128 {
		return ECS{}, false
	}
	if e.Source > 0 {
		var a [16]byte
		copy(a[:], b)
		e.Addr = netip.AddrFrom16(a)
	}
	return e, true
}
