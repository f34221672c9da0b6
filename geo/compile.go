package geo

import (
	"fmt"
	"net/netip"

	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// Compile makes the table of a scope set: the value of an address is the index of the scope that wins for it. scopes
// are normalized, in the order of scope.Compare, without overlaps; the last is the catch-all. An address with a known
// place that no narrower scope takes has the catch-all's index; one without a place, and in no cidr scope, is Unmapped.
// With the catch-all alone every address has value 0 with length 0. Errors are *scope.Error or *Error.
func Compile(db *DB, scopes []scope.Scope) (*Table, error) {
	set, err := scope.NewSet(scopes)
	if err != nil {
		return nil, fmt.Errorf("scope set: %w", err)
	}
	if set.Len() > maxScopes {
		return nil, &Error{Code: CodeTooManyScopes, Msg: fmt.Sprintf("%d scopes in one set; at most %d", set.Len(), maxScopes)}
	}
	if set.Len() == 1 {
		return newTable(ranges.Uniform[ranges.V4, uint16](0), ranges.Uniform[ranges.V6, uint16](0)), nil
	}
	values := placeValues(db, set)
	project := func(id uint32) uint16 { return values[id] }
	cidr4, cidr6 := prefixValues(set)
	v4 := ranges.Zip(ranges.Map(db.v4, project), cidr4, overPlace)
	v6 := ranges.Zip(ranges.Map(db.v6, project), cidr6, overPlace)
	return newTable(v4, embedV4(v6, v4)), nil
}

// placeValues gives the winning scope of every place; place 0 is the unknown one.
func placeValues(db *DB, set *scope.Set) []uint16 {
	values := make([]uint16, len(db.places))
	for i, p := range db.places {
		values[i] = uint16(set.SelectPlace(p))
	}
	values[0] = Unmapped
	return values
}

// noPrefix is the ground under the cidr scopes; values are kept one higher so that it can be the zero value.
const noPrefix = 0

// prefixValues lays the cidr scopes out, the longest prefix on top. Values are index + 1.
func prefixValues(set *scope.Set) (ranges.Runs[ranges.V4, uint32], ranges.Runs[ranges.V6, uint32]) {
	var b4 []ranges.Block[ranges.V4, uint32]
	var b6 []ranges.Block[ranges.V6, uint32]
	for p, i := range set.Prefixes {
		if p.Addr().Is4() {
			b4 = append(b4, block(ranges.FromV4(p.Addr()), p, uint32(i)+1))
		} else {
			b6 = append(b6, block(ranges.FromV6(p.Addr()), p, uint32(i)+1))
		}
	}
	return ranges.Flatten(b4, nil), ranges.Flatten(b6, nil)
}

func block[K ranges.Key[K], V comparable](first K, p netip.Prefix, v V) ranges.Block[K, V] {
	return ranges.Block[K, V]{First: first, Last: first.Last(p.Bits()), Value: v}
}

func overPlace(place uint16, prefix uint32) uint16 {
	if prefix == noPrefix {
		return place
	}
	return uint16(prefix - 1)
}

// mappedBlock holds the IPv4-mapped addresses. Lookups never reach it in the IPv6 runs, but it must not pass for part
// of a wider block with one value.
func mappedBlock() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff}), 96)
}

// embedV4 puts the IPv4 addresses carried in IPv6 into the IPv6 runs: the one value IPv4 has, or the marker. Blocks
// stay exact with the marker: while IPv4 has two values, the block around an address inside an embedding block ends
// inside it, and the block around an address outside has the same distance to all of the embedding block.
func embedV4(v6 ranges.Runs[ranges.V6, uint16], v4 ranges.Runs[ranges.V4, uint16]) ranges.Runs[ranges.V6, uint16] {
	value := embedded
	if v4.Len() == 1 {
		value = v4.Values[0]
	}
	blocks := []ranges.Block[ranges.V6, bool]{block(ranges.FromV6(mappedBlock().Addr()), mappedBlock(), true)}
	for _, p := range scope.EmbeddingBlocks() {
		blocks = append(blocks, block(ranges.FromV6(p.Addr()), p, true))
	}
	return ranges.Zip(v6, ranges.Flatten(blocks, nil), func(plain uint16, carries bool) uint16 {
		if carries {
			return value
		}
		return plain
	})
}
