package main

import (
	"net/netip"

	"steerpoint/geo/internal/ranges"
)

// special are the blocks no visitor on the Internet has: the IANA special-purpose registries (RFC 6890), documentation
// (RFC 5737, 3849, 9637), multicast, and IPv6 outside global unicast. The data give some of them to the registry that
// wrote them down, so 192.168.0.0/16 would be in Australia.
func special() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
		"::/3", "4000::/2", "8000::/1", // all but 2000::/3
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

// scrub makes the special blocks unknown.
func scrub(v4 ranges.Runs[ranges.V4, uint16], v6 ranges.Runs[ranges.V6, uint16]) (ranges.Runs[ranges.V4, uint16], ranges.Runs[ranges.V6, uint16]) {
	var b4 []ranges.Block[ranges.V4, bool]
	var b6 []ranges.Block[ranges.V6, bool]
	for _, p := range special() {
		if p.Addr().Is4() {
			first := ranges.FromV4(p.Addr())
			b4 = append(b4, ranges.Block[ranges.V4, bool]{First: first, Last: first.Last(p.Bits()), Value: true})
		} else {
			first := ranges.FromV6(p.Addr())
			b6 = append(b6, ranges.Block[ranges.V6, bool]{First: first, Last: first.Last(p.Bits()), Value: true})
		}
	}
	known := func(value uint16, gone bool) uint16 {
		if gone {
			return 0
		}
		return value
	}
	return ranges.Zip(v4, ranges.Flatten(b4, nil), known), ranges.Zip(v6, ranges.Flatten(b6, nil), known)
}
