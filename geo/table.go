package geo

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"

	"steerpoint/geo/internal/ranges"
)

// Unmapped is the value of addresses for which no place is known and no cidr scope matches. It is a class of its own:
// callers go on with the resolver's address.
const Unmapped uint16 = 0xFFFF

// embedded marks the IPv6 blocks whose addresses are looked up as the IPv4 address they carry.
const embedded uint16 = 0xFFFE

// maxScopes keeps the indices of scopes below the two special values.
const maxScopes = int(embedded)

// Table maps every address of both families to a small value, the index into the scopes it was compiled from, with
// exact scope lengths. It is immutable and safe for concurrent use; the zero Table knows nothing (Unmapped, 0).
//
// IPv4-mapped IPv6 addresses are IPv4 addresses. 6to4 (2002::/16) and NAT64 (64:ff9b::/96) addresses have the value of
// the IPv4 address they carry. Teredo carries it in the last 32 bits, which no client-subnet prefix shows, so Teredo
// addresses are plain IPv6 addresses.
type Table struct {
	v4 ranges.Runs[ranges.V4, uint16]
	v6 ranges.Runs[ranges.V6, uint16]

	// index4[a >> shift4] is the run that holds the first address of that slice of the space: a search starts
	// between two neighbouring entries, the last of which is len(v4.Starts)-1.
	index4 []uint32
	shift4 int
	// index6 holds the high half of every 64th start of v6: it is small enough to stay in the cache.
	index6 []uint64
}

// The first level of the search: at most 2^16 slices for IPv4, one sample per sampleEvery runs for IPv6.
const (
	maxIndexBits = 16
	sampleEvery  = 64
)

func newTable(v4 ranges.Runs[ranges.V4, uint16], v6 ranges.Runs[ranges.V6, uint16]) *Table {
	t := &Table{
		v4: ranges.Runs[ranges.V4, uint16]{Starts: fit(v4.Starts), Values: fit(v4.Values)},
		v6: ranges.Runs[ranges.V6, uint16]{Starts: fit(v6.Starts), Values: fit(v6.Values)},
	}
	t.index()
	return t
}

// fit frees what a slice has reserved too much: compiling reserves for a database, a table may have ten runs.
func fit[T any](s []T) []T {
	if cap(s)-len(s) > len(s)/8 {
		return slices.Clone(s)
	}
	return s
}

// index builds the first levels. About as many slices as runs, so that a table of few scopes stays small.
func (t *Table) index() {
	n := min(maxIndexBits, bits.Len(uint(t.v4.Len())))
	t.shift4 = 32 - n
	t.index4 = make([]uint32, 1<<n+1)
	run := 0
	for slice := range t.index4 {
		if slice == 1<<n {
			t.index4[slice] = uint32(t.v4.Len() - 1)
			break
		}
		first := ranges.V4(uint64(slice) << t.shift4)
		for run+1 < t.v4.Len() && !first.Less(t.v4.Starts[run+1]) {
			run++
		}
		t.index4[slice] = uint32(run)
	}
	t.index6 = make([]uint64, 0, t.v6.Len()/sampleEvery+1)
	for i := 0; i < t.v6.Len(); i += sampleEvery {
		t.index6 = append(t.index6, t.v6.Starts[i].Hi)
	}
}

// Lookup returns the value of an address and the length of the widest block around it in which every address has this
// value; 0 when the whole family has it. An IPv4-mapped address is looked up, and its block counted, as IPv4: a caller
// that saw it in IPv6 form adds 96. The zero Addr has (Unmapped, 0). Lookup does not allocate.
func (t *Table) Lookup(addr netip.Addr) (value uint16, scopeBits int) {
	if t.index4 == nil || !addr.IsValid() {
		return Unmapped, 0
	}
	if addr.Is4() || addr.Is4In6() {
		b := addr.Unmap().As4()
		return t.lookup4(ranges.V4(binary.BigEndian.Uint32(b[:])))
	}
	b := addr.As16()
	return t.lookup6(ranges.V6{Hi: binary.BigEndian.Uint64(b[:8]), Lo: binary.BigEndian.Uint64(b[8:])})
}

// lookup4, lookup6 and find6 spell out what ranges.Runs does for any family: the calls that generic code makes per step
// would cost as much again as the search.
func (t *Table) lookup4(k ranges.V4) (uint16, int) {
	slice := uint64(k) >> t.shift4
	lo, hi := int(t.index4[slice]), int(t.index4[slice+1])+1
	starts := t.v4.Starts
	for hi-lo > 1 { // starts[lo] <= k, and k < starts[hi] if there is such a run
		mid := int(uint(lo+hi) >> 1)
		if starts[mid] <= k {
			lo = mid
		} else {
			hi = mid
		}
	}
	length := 0
	if lo > 0 {
		length = bits.LeadingZeros32(uint32(k^(starts[lo]-1))) + 1
	}
	if lo+1 < len(starts) {
		length = max(length, bits.LeadingZeros32(uint32(k^starts[lo+1]))+1)
	}
	return t.v4.Values[lo], length
}

func (t *Table) lookup6(k ranges.V6) (uint16, int) {
	i := t.find6(k)
	value, starts := t.v6.Values[i], t.v6.Starts
	if value == embedded {
		v4, base := carried(k)
		value, length := t.lookup4(v4)
		return value, base + length
	}
	length := 0
	if i > 0 {
		length = k.Common(starts[i].Prev()) + 1
	}
	if i+1 < len(starts) {
		length = max(length, k.Common(starts[i+1])+1)
	}
	return value, length
}

// find6 returns the run that holds k: the last sample not above k's high half, then the runs up to the next one.
func (t *Table) find6(k ranges.V6) int {
	lo, hi := 0, len(t.index6) // index6[0] is 0
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if t.index6[mid] <= k.Hi {
			lo = mid
		} else {
			hi = mid
		}
	}
	starts := t.v6.Starts
	lo, hi = lo*sampleEvery, min(hi*sampleEvery, len(starts))
	if k.Less(starts[lo]) {
		lo, hi = 0, lo // runs finer than /64: the sample has k's high half, but a larger low one
	}
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if k.Less(starts[mid]) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// carried returns the IPv4 address inside a key of an embedding block, and where in the address it starts. A table
// has the marker only if IPv4 is not uniform, so the block returned is never wider than the embedding block.
func carried(k ranges.V6) (v4 ranges.V4, base int) {
	if k.Hi>>48 == 0x2002 {
		return ranges.V4(k.Hi >> 16), 16
	}
	return ranges.V4(k.Lo), 96
}

// Runs returns how many runs of equal value the table has per family; for metrics and people.
func (t *Table) Runs() (v4, v6 int) { return t.v4.Len(), t.v6.Len() }
