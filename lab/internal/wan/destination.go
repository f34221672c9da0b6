package wan

import "net/netip"

// Offsets and sizes of IP headers: RFC 791 section 3.1 and RFC 8200 section 3.
const (
	header4, destination4 = 20, 16
	header6, destination6 = 40, 24
)

// Destination is the address an IP packet is sent to, of either family. ok is false for what is no IP packet.
func Destination(packet []byte) (addr netip.Addr, ok bool) {
	if len(packet) == 0 {
		return netip.Addr{}, false
	}
	switch version := packet[0] >> 4; {
	case version == 4 && len(packet) >= header4:
		return netip.AddrFrom4([4]byte(packet[destination4:])), true
	case version == 6 && len(packet) >= header6:
		return netip.AddrFrom16([16]byte(packet[destination6:])), true
	}
	return netip.Addr{}, false
}
