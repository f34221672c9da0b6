// Package ranges holds total functions over the addresses of one family as sorted runs, and the algebra on them:
// flattening nested prefixes, overlaying, exact block lengths, and a compact binary form.
package ranges

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Key is an address as an unsigned integer of its family's width. The zero value is the first address.
type Key[K any] interface {
	comparable
	Less(K) bool
	// Next is the following address; the last one is followed by the zero value.
	Next() K
	// Prev is the address before; before the zero value comes the last one.
	Prev() K
	// Common is the number of leading bits equal in both.
	Common(K) int
	// Last is the last address of the block of the given length that holds the key.
	Last(length int) K
	// Width is 32 or 128.
	Width() int
	// Addr is the address in its usual form.
	Addr() netip.Addr
}

// V4 is an IPv4 address.
type V4 uint32

// FromV4 converts an address for which Is4 holds.
func FromV4(a netip.Addr) V4 {
	b := a.As4()
	return V4(binary.BigEndian.Uint32(b[:]))
}

// Less orders addresses as numbers.
func (k V4) Less(o V4) bool { return k < o }

// Next is the following address.
func (k V4) Next() V4 { return k + 1 }

// Prev is the address before.
func (k V4) Prev() V4 { return k - 1 }

// Common counts equal leading bits.
func (k V4) Common(o V4) int { return bits.LeadingZeros32(uint32(k ^ o)) }

// Last is the end of the block of length bits around k.
func (k V4) Last(length int) V4 { return k | V4(^uint32(0)>>length) }

// Width is 32.
func (V4) Width() int { return 32 }

// Addr is the address in its usual form.
func (k V4) Addr() netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(k))
	return netip.AddrFrom4(b)
}

// V6 is an IPv6 address.
type V6 struct{ Hi, Lo uint64 }

// FromV6 converts an address for which Is6 holds.
func FromV6(a netip.Addr) V6 {
	b := a.As16()
	return V6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// Less orders addresses as numbers.
func (k V6) Less(o V6) bool { return k.Hi < o.Hi || k.Hi == o.Hi && k.Lo < o.Lo }

// Next is the following address.
func (k V6) Next() V6 {
	lo, carry := bits.Add64(k.Lo, 1, 0)
	return V6{k.Hi + carry, lo}
}

// Prev is the address before.
func (k V6) Prev() V6 {
	lo, borrow := bits.Sub64(k.Lo, 1, 0)
	return V6{k.Hi - borrow, lo}
}

// Common counts equal leading bits.
func (k V6) Common(o V6) int {
	if k.Hi != o.Hi {
		return bits.LeadingZeros64(k.Hi ^ o.Hi)
	}
	return 64 + bits.LeadingZeros64(k.Lo^o.Lo)
}

// Last is the end of the block of length bits around k. Shifts of 64 and more give 0 in Go, as is wanted here.
func (k V6) Last(length int) V6 {
	if length <= 64 {
		return V6{k.Hi | ^uint64(0)>>length, ^uint64(0)}
	}
	return V6{k.Hi, k.Lo | ^uint64(0)>>(length-64)}
}

// Width is 128.
func (V6) Width() int { return 128 }

// Addr is the address in its usual form.
func (k V6) Addr() netip.Addr {
	b := k.bytes()
	return netip.AddrFrom16(b)
}

func (k V6) bytes() (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], k.Hi)
	binary.BigEndian.PutUint64(b[8:], k.Lo)
	return b
}
