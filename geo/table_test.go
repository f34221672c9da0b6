package geo_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"steerpoint/geo"
	"steerpoint/steering/scope"
)

func mustParse(t testing.TB, text string) scope.Scope {
	t.Helper()
	s, err := scope.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return s
}

// scopesOf parses and sorts scopes; the catch-all is added.
func scopesOf(t testing.TB, texts ...string) []scope.Scope {
	t.Helper()
	all := []scope.Scope{{Any: true}}
	for _, text := range texts {
		all = append(all, mustParse(t, text))
	}
	slices.SortFunc(all, scope.Compare)
	return all
}

func mustCompile(t testing.TB, db *geo.DB, scopes []scope.Scope) *geo.Table {
	t.Helper()
	table, err := geo.Compile(db, scopes)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func listSource(t testing.TB, lines ...string) *geo.Source {
	t.Helper()
	s, err := geo.ParseList("test.list", []byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLookup is the story of one table by hand: values and exact lengths.
//
// Covers: field 1, field 3
func TestLookup(t *testing.T) {
	db := geo.New(listSource(t,
		"192.0.0.0/16 country=CN", // all CN, with one hole
		"192.0.2.0/24 country=JP",
		"198.51.100.0/24 asn=64500",
		"2001:db8::/32 country=CN",
		"2001:db8:0:1::/64 country=JP",
	))
	scopes := scopesOf(t, "cidr=203.0.113.0/25", "country=CN", "country=JP")
	cidr, cn, jp, rest := uint16(0), uint16(1), uint16(2), uint16(3)
	table := mustCompile(t, db, scopes)
	for _, tc := range []struct {
		addr  string
		value uint16
		bits  int
	}{
		{"192.0.128.1", cn, 17}, // the hole is in the other half
		{"192.0.2.1", jp, 24},
		{"192.0.3.1", cn, 24}, // next to the hole
		{"192.0.0.1", cn, 23},
		{"192.1.0.0", geo.Unmapped, 16},
		{"1.2.3.4", geo.Unmapped, 1},
		{"198.51.100.9", rest, 24}, // a place that no scope takes is the catch-all's, not unmapped
		{"203.0.113.1", cidr, 25},
		{"203.0.113.129", geo.Unmapped, 25},
		{"::ffff:192.0.2.1", jp, 24},
		{"2001:db8:1::", cn, 48},
		{"2001:db8:0:1::9", jp, 64},
		{"2001:db8::", cn, 64},
		{"2001:db8:0:2::", cn, 63},
		{"2001:db8:8000::", cn, 33},
		{"ff02::1", geo.Unmapped, 1},
		{"2002:c000:0201::1", jp, 16 + 24}, // 6to4 of 192.0.2.1
		{"2002:c000:8001::", cn, 16 + 17},
		{"64:ff9b::192.0.2.1", jp, 96 + 24},        // NAT64
		{"64:ff9b::1.2.3.4", geo.Unmapped, 96 + 1}, //
		{"64:ff9b:1::192.0.2.1", geo.Unmapped, 48}, // not the well-known prefix
		{"2001:0:c000:201::", geo.Unmapped, 21},    // Teredo is plain IPv6
		{"::1", geo.Unmapped, 81},                  // up to the IPv4-mapped block
	} {
		value, bits := table.Lookup(netip.MustParseAddr(tc.addr))
		if value != tc.value || bits != tc.bits {
			t.Errorf("Lookup(%s) = %d/%d, want %d/%d", tc.addr, value, bits, tc.value, tc.bits)
		}
	}
	if value, bits := table.Lookup(netip.Addr{}); value != geo.Unmapped || bits != 0 {
		t.Errorf("Lookup of no address = %d/%d", value, bits)
	}
	var zero geo.Table
	if value, bits := zero.Lookup(netip.MustParseAddr("192.0.2.1")); value != geo.Unmapped || bits != 0 {
		t.Errorf("the zero table says %d/%d", value, bits)
	}
}

// TestCatchAllOnly proves that a service with one rule gives everybody value 0 with the widest scope, known or not.
//
// Covers: field 1
func TestCatchAllOnly(t *testing.T) {
	table := mustCompile(t, geo.New(listSource(t, "192.0.2.0/24 country=CN")), scopesOf(t))
	for _, addr := range []string{"192.0.2.1", "10.0.0.1", "::1", "2001:db8::1", "2002::1", "64:ff9b::1", "::ffff:10.0.0.1"} {
		if value, bits := table.Lookup(netip.MustParseAddr(addr)); value != 0 || bits != 0 {
			t.Errorf("Lookup(%s) = %d/%d, want 0/0", addr, value, bits)
		}
	}
	if v4, v6 := table.Runs(); v4 != 1 || v6 != 1 {
		t.Errorf("%d + %d runs, want one each", v4, v6)
	}
}

// TestUniformFamilies proves the lengths when one family has a single value: then carried addresses join the rest.
func TestUniformFamilies(t *testing.T) {
	db := geo.New(listSource(t, "0.0.0.0/0 country=CN", "2000::/3 country=CN"))
	table := mustCompile(t, db, scopesOf(t, "country=CN"))
	for addr, want := range map[string]struct {
		value uint16
		bits  int
	}{
		"192.0.2.1":          {0, 0},
		"2001:db8::1":        {0, 3},
		"2002::1":            {0, 3},
		"64:ff9b::192.0.2.1": {0, 96},
		"::1":                {geo.Unmapped, 81},
	} {
		if value, bits := table.Lookup(netip.MustParseAddr(addr)); value != want.value || bits != want.bits {
			t.Errorf("Lookup(%s) = %d/%d, want %v", addr, value, bits, want)
		}
	}
}

// world is random data in a form a dumb reader can hold: prefixes with places, per source.
type world struct {
	sources [][]entry // the most preferred first
	scopes  []scope.Scope
	values  map[netip.Addr]uint16 // what value found already
}

type entry struct {
	prefix netip.Prefix
	place  scope.Place
}

// randomPrefix draws from a few corners of the space, so that prefixes nest, meet and fill one another.
func randomPrefix(r *rand.Rand) netip.Prefix {
	if r.IntN(2) == 0 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], r.Uint32())
		if r.IntN(3) > 0 {
			b[0], b[1] = 10, byte(r.IntN(4))
		}
		return netip.PrefixFrom(netip.AddrFrom4(b), r.IntN(33)).Masked()
	}
	var b [16]byte
	for i := range b {
		b[i] = byte(r.IntN(256))
	}
	bits := r.IntN(129)
	switch r.IntN(4) {
	case 0:
		copy(b[:], []byte{0x20, 0x01, 0x0d, 0xb8, 0, byte(r.IntN(2))})
	case 1:
		copy(b[:], []byte{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0}) // below one /64
		bits = 60 + r.IntN(69)
	case 2:
		copy(b[:], []byte{0x20, byte(r.IntN(4))}) // around 6to4
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), bits).Masked()
}

// usable refuses what lists and scopes refuse: prefixes inside carrying blocks.
func usable(p netip.Prefix) bool {
	s := scope.Scope{CIDR: []netip.Prefix{p}}
	return s.Validate() == nil
}

func randomWorld(t testing.TB, r *rand.Rand) *world {
	t.Helper()
	w := &world{scopes: []scope.Scope{{Any: true}}, values: map[netip.Addr]uint16{}}
	places := []scope.Place{
		{Country: "CN"},
		{Country: "JP"},
		{Country: "FR"},
		{Country: "CN", ISP: "a"},
		{Country: "CN", Province: "GD"},
		{ISP: "b"},
		{ASN: 1},
		{ASN: 2, ISP: "a"},
		{Country: "JP", City: "x"},
		{Continent: "EU"},
	}
	for range 1 + r.IntN(3) {
		var source []entry
		seen := map[netip.Prefix]bool{}
		for range 1 + r.IntN(12) {
			if p := randomPrefix(r); usable(p) && !seen[p] {
				seen[p] = true
				source = append(source, entry{p, places[r.IntN(len(places))].Canonical()})
			}
		}
		if len(source) > 0 {
			w.sources = append(w.sources, source)
		}
	}
	texts := []string{
		"country=CN", "country=JP,FR", "isp=a", "isp=b", "asn=1", "continent=AS", "country=CN isp=a", "country=CN province=GD",
		"country=JP city=x",
	}
	for _, text := range texts {
		if r.IntN(2) == 0 {
			w.scopes = append(w.scopes, mustParse(t, text))
		}
	}
	for range r.IntN(5) {
		s := scope.Scope{CIDR: []netip.Prefix{randomPrefix(r)}}
		if n, err := s.Normalize(); err == nil && !slices.ContainsFunc(w.scopes, func(o scope.Scope) bool { return scope.Overlap(n, o) }) {
			w.scopes = append(w.scopes, n)
		}
	}
	slices.SortFunc(w.scopes, scope.Compare)
	return w
}

func (w *world) db(t testing.TB) *geo.DB {
	t.Helper()
	var sources []*geo.Source
	for _, s := range w.sources {
		var lines []string
		for _, e := range s {
			fields := strings.ReplaceAll(strings.ReplaceAll(e.place.String(), "continent=AS ", ""), "continent=EU ", "")
			lines = append(lines, e.prefix.String()+" "+fields)
		}
		sources = append(sources, listSource(t, lines...))
	}
	return geo.New(sources...)
}

// place is the dumb look-up: in each source all prefixes that hold the address, each completed from the next wider one,
// then the next source.
func (w *world) place(a netip.Addr) scope.Place {
	var p scope.Place
	for _, s := range w.sources {
		var inSource scope.Place
		for bits := range a.BitLen() + 1 {
			for _, e := range s {
				if e.prefix.Bits() == bits && e.prefix.Contains(a) {
					inSource = geo.Fill(e.place, inSource)
				}
			}
		}
		p = geo.Fill(p, inSource)
	}
	return p
}

func (w *world) value(a netip.Addr) uint16 {
	v, ok := w.values[a]
	if !ok {
		v = w.find(a)
		w.values[a] = v
	}
	return v
}

// find is the dumb table.
func (w *world) find(a netip.Addr) uint16 {
	if len(w.scopes) == 1 {
		return 0
	}
	a = inner(a)
	place := w.place(a)
	best, level, bits := -1, scope.Level(0), -1
	for i, s := range w.scopes {
		if l, b := s.Level(), s.MatchBits(a); s.Matches(place, a) && (l > level || l == level && b > bits) {
			best, level, bits = i, l, b
		}
	}
	if place == (scope.Place{}) && level != scope.LevelCIDR {
		return geo.Unmapped
	}
	return uint16(best)
}

// inner is the address itself, or the IPv4 address it carries.
func inner(a netip.Addr) netip.Addr {
	b := a.As16()
	switch {
	case a.Is4() || a.Is4In6():
		return a.Unmap()
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6]))
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// carriers returns the first IPv6 address that carries v4, in each of the three forms.
func carriers(v4 netip.Addr) []netip.Addr {
	b := v4.As4()
	return []netip.Addr{
		netip.AddrFrom16([16]byte{0x20, 0x02, b[0], b[1], b[2], b[3]}),
		netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]}),
		netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff, 12: b[0], 13: b[1], 14: b[2], 15: b[3]}),
	}
}

// edges returns every address of a family at which the dumb value may change: between two neighbours it is constant,
// so that checking the edges inside a block checks all its addresses.
func (w *world) edges(v6 bool) []netip.Addr {
	var prefixes []netip.Prefix
	for _, s := range w.sources {
		for _, e := range s {
			prefixes = append(prefixes, e.prefix)
		}
	}
	for _, s := range w.scopes {
		prefixes = append(prefixes, s.CIDR...)
	}
	edges4 := []netip.Addr{netip.MustParseAddr("0.0.0.0")}
	edges6 := []netip.Addr{netip.MustParseAddr("::")}
	for _, p := range prefixes {
		into := &edges6
		if p.Addr().Is4() {
			into = &edges4
		}
		*into = append(*into, p.Addr())
		if after := lastOf(p).Next(); after.IsValid() {
			*into = append(*into, after)
		}
	}
	if !v6 {
		return edges4
	}
	for _, a := range edges4 {
		edges6 = append(edges6, carriers(a)...)
	}
	for _, block := range []string{"2002::/16", "64:ff9b::/96", "::ffff:0:0/96"} {
		edges6 = append(edges6, lastOf(netip.MustParsePrefix(block)).Next())
	}
	return edges6
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().As16()
	for bit := p.Bits() + 128 - p.Addr().BitLen(); bit < 128; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	if p.Addr().Is4() {
		return netip.AddrFrom16(b).Unmap()
	}
	return netip.AddrFrom16(b)
}

// contains is Prefix.Contains that takes IPv4-mapped addresses for the IPv6 addresses they are.
func contains(p netip.Prefix, a netip.Addr) bool {
	if p.Addr().Is4() || !a.Is4In6() {
		return p.Contains(a)
	}
	return !a.Less(p.Addr()) && !lastOf(p).Less(a)
}

// check proves one look-up: the right value, the same for every address of the block, and for no wider block.
func (w *world) check(t *testing.T, table *geo.Table, a netip.Addr, edges []netip.Addr) {
	t.Helper()
	want := w.value(a)
	got, bits := table.Lookup(a)
	if got != want {
		t.Fatalf("%s\nLookup(%s) = %d, want %d", w, a, got, want)
	}
	block := netip.PrefixFrom(a, bits).Masked()
	if other, is := w.other(block, edges, want); is {
		t.Fatalf("%s\nLookup(%s) = %d/%d, but %s has %d", w, a, got, bits, other, w.value(other))
	}
	if bits > 0 {
		wider := netip.PrefixFrom(a, bits-1).Masked()
		if _, is := w.other(wider, edges, want); !is {
			t.Fatalf("%s\nLookup(%s) = %d/%d, but all of %s has this value", w, a, got, bits, wider)
		}
	}
}

// other finds an address of the block with another value.
func (w *world) other(block netip.Prefix, edges []netip.Addr, want uint16) (netip.Addr, bool) {
	if w.value(block.Addr()) != want {
		return block.Addr(), true
	}
	for _, e := range edges {
		if contains(block, e) && w.value(e) != want {
			return e, true
		}
	}
	return netip.Addr{}, false
}

func (w *world) String() string {
	var b strings.Builder
	for i, s := range w.sources {
		for _, e := range s {
			fmt.Fprintf(&b, "source %d: %s %s\n", i, e.prefix, e.place)
		}
	}
	for i, s := range w.scopes {
		fmt.Fprintf(&b, "scope %d: %s\n", i, s)
	}
	return b.String()
}

// TestTableAgainstDumbReader proves the property of scope lengths on random data, complete over every address: the
// value is right, every address of the returned block has it, and no wider block does. Blocks answered are also the
// same after a trip through the binary form.
//
// Covers: field 1, field 2, field 3, field 4
func TestTableAgainstDumbReader(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	worlds := 150
	if os.Getenv("STEER_LONG") != "" {
		worlds = 1000
	}
	for range worlds {
		w := randomWorld(t, r)
		table := mustCompile(t, w.db(t), w.scopes)
		for _, v6 := range []bool{false, true} {
			edges := w.edges(v6)
			for _, e := range edges {
				if e.Is4In6() {
					continue // answered as IPv4, checked there
				}
				w.check(t, table, e, edges)
				if before := e.Prev(); before.IsValid() && !before.Is4In6() {
					w.check(t, table, before, edges)
				}
			}
			for range 40 {
				p := randomPrefix(r)
				if p.Addr().Is6() == v6 && !p.Addr().Is4In6() {
					w.check(t, table, p.Addr(), edges)
				}
			}
		}
	}
}

// TestScopeForEverySourceLength proves what a name server answers for a client subnet of any source length: the first
// address of the subnet decides, and the scope is that address's block, which may be longer than the source.
//
// Covers: field 1, field 3
func TestScopeForEverySourceLength(t *testing.T) {
	table := mustCompile(t, geo.New(listSource(t, "10.0.0.0/8 country=CN", "10.32.0.0/12 country=JP")), scopesOf(t, "country=CN", "country=JP"))
	for _, tc := range []struct {
		source int
		value  uint16
		bits   int
	}{{0, geo.Unmapped, 5}, {8, 0, 11}, {12, 1, 12}, {16, 1, 12}, {24, 1, 12}, {32, 1, 12}} {
		subnet := netip.PrefixFrom(netip.MustParseAddr("10.33.44.55"), tc.source).Masked()
		value, bits := table.Lookup(subnet.Addr())
		if value != tc.value || bits != tc.bits {
			t.Errorf("%s: %d/%d, want %d/%d", subnet, value, bits, tc.value, tc.bits)
		}
	}
}

// TestFineRuns proves the look-up when more runs share a /64 than lie between two samples of its first level.
func TestFineRuns(t *testing.T) {
	var lines []string
	for i := range 400 {
		lines = append(lines, fmt.Sprintf("2001:db8::%x/128 country=%s", 2*i, []string{"CN", "JP"}[i%2]))
	}
	table := mustCompile(t, geo.New(listSource(t, lines...)), scopesOf(t, "country=CN", "country=JP"))
	base := netip.MustParseAddr("2001:db8::")
	for i := range 800 {
		want := geo.Unmapped
		if i%2 == 0 {
			want = uint16(i / 2 % 2)
		}
		if value, bits := table.Lookup(base); value != want || bits != 128 && i < 798 {
			t.Fatalf("Lookup(%s) = %d/%d, want %d/128", base, value, bits, want)
		}
		base = base.Next()
	}
	if value, _ := table.Lookup(netip.MustParseAddr("2001:db8:0:0:8000::")); value != geo.Unmapped {
		t.Errorf("the end of the /64 has value %d", value)
	}
}

// TestLookupDoesNotAllocate proves that the query path makes no garbage.
func TestLookupDoesNotAllocate(t *testing.T) {
	table := mustCompile(t, geo.New(listSource(t, "10.0.0.0/8 country=CN", "2001:db8::/32 country=CN")), scopesOf(t, "country=CN"))
	addrs := []netip.Addr{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2002:a00:1::"),
		netip.MustParseAddr("::ffff:10.0.0.1"),
	}
	var sum int
	if n := testing.AllocsPerRun(100, func() {
		for _, a := range addrs {
			v, b := table.Lookup(a)
			sum += int(v) + b
		}
	}); n != 0 {
		t.Errorf("%v allocations per round, want 0 (sum %d)", n, sum)
	}
}

// TestCompileRefuses proves that a set without a clear winner is refused, and that a DB without sources works.
func TestCompileRefuses(t *testing.T) {
	db := geo.New()
	for name, scopes := range map[string][]scope.Scope{
		"nothing":        nil,
		"no catch-all":   {mustParse(t, "country=CN")},
		"wrong order":    {{Any: true}, mustParse(t, "country=CN")},
		"overlap":        {mustParse(t, "country=CN"), mustParse(t, "country=CN,JP"), {Any: true}},
		"not normalized": {{Country: []string{"cn"}}, {Any: true}},
	} {
		if _, err := geo.Compile(db, scopes); err == nil {
			t.Errorf("%s: compiled", name)
		}
	}
	table := mustCompile(t, db, scopesOf(t, "cidr=10.0.0.0/8"))
	if value, bits := table.Lookup(netip.MustParseAddr("10.1.1.1")); value != 0 || bits != 8 {
		t.Errorf("without data a cidr scope gives %d/%d, want 0/8", value, bits)
	}
}
