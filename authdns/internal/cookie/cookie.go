// Package cookie makes and checks interoperable DNS server cookies (RFC 7873, RFC 9018): SipHash-2-4 over the
// client's cookie, a timestamp and the client's address, under a secret shared by all servers of one name.
package cookie

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

const (
	clientLen = 8
	serverLen = 16
	// Len is the length of a complete cookie as this package makes it.
	Len = clientLen + serverLen

	version = 1

	// Time limits of RFC 9018 section 4.3, in seconds.
	maxAge     = 3600
	maxFuture  = 300
	refreshAge = 1800
)

// Secret is the key of the server cookies; name servers behind one address share it.
type Secret [16]byte

// make appends a cookie for a client: the client's own half of asked, and ours, made now.
func (s *Secret) make(dst, asked []byte, client netip.Addr, now uint32) []byte {
	dst = append(dst, asked[:clientLen]...)
	dst = append(dst, version, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, now)
	made := dst[len(dst)-clientLen-8:]
	return binary.LittleEndian.AppendUint64(dst, s.hash(made, client))
}

// check returns the age in seconds (negative: from the future) of a cookie that is ours.
func (s *Secret) check(asked []byte, client netip.Addr, now uint32) (age int32, ok bool) {
	if len(asked) != Len || asked[clientLen] != version {
		return 0, false
	}
	age = int32(now - binary.BigEndian.Uint32(asked[12:])) // serial number arithmetic: the clock wraps in 2106
	if age > maxAge || age < -maxFuture {
		return 0, false
	}
	return age, binary.LittleEndian.Uint64(asked[16:]) == s.hash(asked[:16], client)
}

// hash is SipHash-2-4 of head (client cookie, version, reserved, timestamp: 16 octets) and the client's address.
func (s *Secret) hash(head []byte, client netip.Addr) uint64 {
	var in [32]byte
	n := copy(in[:], head[:16])
	if client.Is4() {
		a := client.As4()
		n += copy(in[n:], a[:])
	} else {
		a := client.As16()
		n += copy(in[n:], a[:])
	}
	return s.sipHash(in[:n])
}

// sipHash is SipHash-2-4 (Aumasson and Bernstein, 2012).
func (s *Secret) sipHash(b []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:])
	v := state{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	length := uint64(len(b))
	for ; len(b) >= 8; b = b[8:] {
		v.absorb(binary.LittleEndian.Uint64(b))
	}
	var tail [8]byte
	copy(tail[:], b)
	v.absorb(binary.LittleEndian.Uint64(tail[:]) | length<<56)
	v[2] ^= 0xff
	for range 4 {
		v.round()
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

type state [4]uint64

func (v *state) absorb(m uint64) {
	v[3] ^= m
	v.round()
	v.round()
	v[0] ^= m
}

func (v *state) round() {
	v[0] += v[1]
	v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
	v[0] = bits.RotateLeft64(v[0], 32)
	v[2] += v[3]
	v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
	v[0] += v[3]
	v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
	v[2] += v[1]
	v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
	v[2] = bits.RotateLeft64(v[2], 32)
}
