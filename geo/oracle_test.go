package geo_test

import (
	"net/netip"
	"slices"
	"testing"

	"steerpoint/geo"
	"steerpoint/geo/geotest"
	"steerpoint/steering/scope"
)

// TestTableAgainstTheList holds answers and scope lengths of a table made from each golden file to the list behind it:
// the scope that wins for an address is found by trying all of them, and the length by trying every shorter block.
//
// Covers: issue4 table oracle, A6, field 1, field 3
func TestTableAgainstTheList(t *testing.T) {
	list := geotest.Golden()
	scopes := scopesOf(t,
		"country=CN province=Guangdong isp=中国电信", "country=CN province=Guangdong", "country=CN city=Shenzhen isp=China-Unicom",
		"country=HK", "country=CN", "isp=Alibaba-Cloud", "continent=EU", "cidr=14.16.130.8/30",
	)
	for _, f := range formats() {
		table := mustCompile(t, geo.New(parseOne(t, f, list)), scopes)
		// The value is constant between these addresses.
		edges := []netip.Addr{mustAddr("0.0.0.0"), mustAddr("14.16.130.8"), mustAddr("14.16.130.12"), mustAddr("::")}
		for _, r := range list {
			edges = append(edges, r.First)
			if next := r.Last.Next(); next.IsValid() {
				edges = append(edges, next)
			}
		}
		for _, p := range append(embeddings(), netip.MustParsePrefix("::ffff:0:0/96")) {
			edges = append(edges, p.Addr(), lastAddr(p).Next())
		}
		slices.SortFunc(edges, netip.Addr.Compare)
		for _, a := range append(probes(list), mustAddr("14.16.130.8"), mustAddr("14.16.130.12"), mustAddr("14.16.130.7")) {
			if a.Is6() && carriesV4(a) {
				continue
			}
			want := winner(f, list, scopes, a)
			value, bits := table.Lookup(a)
			if value != want {
				t.Errorf("%s: %s has the value %d, want %d", f.file, a, value, want)
				continue
			}
			if least := leastBits(f, list, scopes, edges, a); bits != least {
				t.Errorf("%s: the block of %s is /%d, want /%d", f.file, a, bits, least)
			}
		}
	}
}

func parseOne(t *testing.T, f format, list []geotest.Range) *geo.Source {
	t.Helper()
	s, err := geo.Parse(f.file, f.write(t, list))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func embeddings() []netip.Prefix { return scope.EmbeddingBlocks() }

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func carriesV4(a netip.Addr) bool {
	return a.Is4In6() || slices.ContainsFunc(embeddings(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// different is the value that addresses carrying IPv4 have here: they are unlike every plain one.
const different = 0xFFFE

// winner tries every scope.
func winner(f format, list []geotest.Range, scopes []scope.Scope, a netip.Addr) uint16 {
	if a.Is6() && carriesV4(a) {
		return different
	}
	place := f.want(list, a)
	if place.ISP == "" {
		place.ISP = scope.ISPOfASN(place.ASN)
	}
	best := -1
	for i, s := range scopes {
		if !s.Matches(place, a) || place == (scope.Place{}) && len(s.CIDR) == 0 {
			continue
		}
		if best < 0 || s.Level() > scopes[best].Level() || s.Level() == scope.LevelCIDR && s.MatchBits(a) > scopes[best].MatchBits(a) {
			best = i
		}
	}
	if best < 0 {
		return geo.Unmapped
	}
	return uint16(best)
}

// leastBits tries every block around an address, the widest first.
func leastBits(f format, list []geotest.Range, scopes []scope.Scope, edges []netip.Addr, a netip.Addr) int {
	want := winner(f, list, scopes, a)
	for bits := 0; ; bits++ {
		p, _ := a.Prefix(bits)
		same := winner(f, list, scopes, p.Addr()) == want
		for _, e := range edges {
			if same && p.Contains(e) {
				same = winner(f, list, scopes, e) == want
			}
		}
		if same {
			return bits
		}
	}
}
