package answer

import (
	"encoding/binary"
	"math"
	"net/netip"
)

// stickyBits is the length of the block of clients that a weighted choice treats as one: /24 and /48 (decisions.md
// section 3). An ECS scope of a weighted answer is at least that long.
func stickyBits(a netip.Addr) int {
	if a.Is4() {
		return 24
	}
	return 48
}

// weighted picks one of the choices by the client's block, in proportion to the weights. It is weighted rendezvous
// hashing: every choice draws -ln(u)/weight with u from a hash of block and choice, the smallest wins. One draw
// depends on one weight alone, so changing a weight moves only the blocks that must move.
func weighted(choices []choice, client netip.Addr) *choice {
	block := blockHash(client)
	best, least := &choices[0], math.Inf(1)
	for i := range choices {
		c := &choices[i]
		// 53 bits of the hash and half a step: never 0, never 1.
		u := (float64(mix(block^c.hash)>>11) + 0.5) / (1 << 53)
		if draw := -math.Log(u) / c.weight; draw < least {
			best, least = c, draw
		}
	}
	return best
}

// eligible are the choices a question of kind k is weighed over. Where one of them is a name, all are: a CNAME answers
// every type, and a client must not get a CNAME for one family and addresses for the other.
func eligible(choices []choice, k kind) []choice {
	var have []choice
	for i := range choices {
		if choices[i].cname != nil {
			return choices
		}
		if choices[i].set(k) != nil {
			have = append(have, choices[i])
		}
	}
	if len(have) == 0 {
		return choices
	}
	return have
}

// blockHash hashes the /24 or /48 of an address.
func blockHash(a netip.Addr) uint64 {
	if a.Is4() {
		b := a.As4()
		return mix(uint64(binary.BigEndian.Uint32(b[:])>>8) | 4<<56)
	}
	b := a.As16()
	return mix(binary.BigEndian.Uint64(b[:])>>16 | 6<<56)
}

// mix spreads every bit of x over all bits of the result (the finalizer of SplitMix64, Steele et al. 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// nameHash is FNV-1a over the parts, each ended by a zero octet: a fixed function, so that all name servers agree.
func nameHash(parts ...string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint64(p[i])) * 0x100000001b3
		}
		h *= 0x100000001b3
	}
	return mix(h)
}
