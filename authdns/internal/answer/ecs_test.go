package answer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/steering/scope"
)

// TestECS is what client subnets get: the answer, and the exact scope.
//
// Covers: field 1, field 2, field 4, field 6, field 7, field 8, field 9, field 10, E2, A3, rfc 7871 scope, rfc 7871 static, rfc 7871 opt out
func TestECS(t *testing.T) {
	r := newResponder(t, dnstest.Map(t))
	const shop, plain, split = "shop.gslb.example.net.", "plain.gslb.example.net.", "split.gslb.example.net."
	cn := netip.MustParseAddr("198.51.100.7")
	for _, row := range []struct {
		name, qtype, subnet string
		resolver            netip.Addr
		want                string
		scope               uint8
	}{
		{shop, "A", "192.0.2.0/24", resolver, "CNAME=shop.cdn-vendor.test./30", 24},
		{shop, "A", "192.0.2.77/32", resolver, "CNAME=shop.cdn-vendor.test./30", 24},
		{shop, "AAAA", "192.0.2.0/24", resolver, "CNAME=shop.cdn-vendor.test./30", 24},
		{shop, "TXT", "192.0.2.0/24", resolver, "CNAME=shop.cdn-vendor.test./30", 24},
		{shop, "NS", "192.0.2.0/24", resolver, "CNAME=shop.cdn-vendor.test./30", 24},
		// The /26 of Japan splits the /24 of China: the other blocks are 25 and 26 long.
		{shop, "A", "198.51.100.128/25", resolver, "A=198.51.100.1/30 A=198.51.100.2/30", 25},
		{shop, "A", "198.51.100.0/24", resolver, "A=198.51.100.1/30 A=198.51.100.2/30", 26},
		{shop, "A", "198.51.100.64/27", resolver, "A=192.0.2.1/30", 26},
		{shop, "A", "198.0.0.0/8", resolver, "A=192.0.2.1/30", 11},
		// A cidr scope goes before the place.
		{shop, "A", "203.0.113.0/24", resolver, "A=203.0.113.1/30", 28},
		{shop, "A", "203.0.113.16/28", resolver, "A=192.0.2.1/30", 28},
		{shop, "A", "2001:db8:1::/48", resolver, "CNAME=shop.cdn-vendor.test./30", 48},
		{shop, "A", "2001:db8:2::/56", resolver, "A=198.51.100.1/30 A=198.51.100.2/30", 48},
		{shop, "A", "2001:db8:f::/56", resolver, "A=203.0.113.1/30", 52},
		{shop, "A", "::ffff:192.0.2.0/120", resolver, "CNAME=shop.cdn-vendor.test./30", 120},
		// Unmapped: the resolver's address decides, for the whole unmapped block.
		{shop, "A", "10.1.2.0/24", resolver, "A=192.0.2.1/30", 0xFF},
		{shop, "A", "10.1.2.0/24", cn, "A=198.51.100.1/30 A=198.51.100.2/30", 0xFF},
		// Opted out: the resolver's address decides, scope 0.
		{shop, "A", "0.0.0.0/0", cn, "A=198.51.100.1/30 A=198.51.100.2/30", 0},
		{shop, "A", "::/0", resolver, "A=192.0.2.1/30", 0},
		// NODATA that others do not get keeps its scope; NODATA for all has scope 0.
		{shop, "AAAA", "198.51.100.128/25", resolver, "SOA:gslb.example.net./20", 25},
		{plain, "AAAA", "198.51.100.128/25", resolver, "SOA:gslb.example.net./30", 0},
		{"no.gslb.example.net.", "A", "198.51.100.128/25", resolver, "SOA:gslb.example.net./60", 0},
		// Static: scope 0.
		{plain, "A", "198.51.100.128/25", resolver, "A=192.0.2.7/30", 0},
		{"mail.example.com.", "A", "198.51.100.128/25", resolver, "A=192.0.2.25/60 A=192.0.2.26/60", 0},
		{"example.com.", "NS", "198.51.100.128/25", resolver, "NS=ns1.gslb.example.net./300", 0},
		// Weighted: at least the block that is hashed.
		{split, "A", "198.51.100.0/16", resolver, "", 24},
		{split, "A", "198.51.100.77/32", resolver, "", 24},
		{split, "A", "2001:db8::/32", resolver, "", 48},
		{split, "A", "2001:db8::/64", resolver, "", 48},
		{split, "AAAA", "198.51.100.0/24", resolver, "SOA:gslb.example.net./30", 0},
	} {
		q := dnstest.Query(row.name, dns.StringToType[row.qtype], dnstest.ECS(row.subnet))
		q.IsEdns0().Option[0].(*dns.EDNS0_SUBNET).Address = netip.MustParsePrefix(row.subnet).Masked().Addr().AsSlice()
		m := ask(t, r, q, row.resolver)
		got := brief(m)
		if row.scope == 0xFF { // as long as the unmapped block is; the property test says how long
			_, bits := r.Index().at(r.Index().nodes.get([]byte("\x04shop\x04gslb\x07example\x03net\x00"))).table.Lookup(netip.MustParsePrefix(row.subnet).Addr())
			row.scope = uint8(bits)
		}
		s := dnstest.Subnet(m)
		if s == nil || s.SourceScope != row.scope || row.want != "" && got != "NOERROR aa "+row.want && got != "NXDOMAIN aa "+row.want {
			t.Errorf("%s %s %s from %s\n got %s, %v\nwant %s, scope %d", row.name, row.qtype, row.subnet, row.resolver, got, s, row.want, row.scope)
		}
		if p := netip.MustParsePrefix(row.subnet); s != nil && int(s.SourceNetmask) != p.Bits() {
			t.Errorf("%s: source length %d came back", row.subnet, s.SourceNetmask)
		}
	}
}

// TestECSEcho sends the option's octets by hand: well-formed ones come back unchanged but for the scope, others are
// FORMERR without the option.
//
// Covers: field 6, field 7, field 10, rfc 7871 echo, rfc 7871 malformed, rfc 7871 opt out
func TestECSEcho(t *testing.T) {
	r := newResponder(t, dnstest.Map(t))
	for _, row := range []struct {
		name  string
		data  []byte
		valid bool
		scope byte
	}{
		{"IPv4 /24", []byte{0, 1, 24, 0, 192, 0, 2}, true, 24},
		{"IPv4 /20", []byte{0, 1, 20, 0, 192, 0, 0}, true, 23},
		{"IPv4 /32", []byte{0, 1, 32, 0, 192, 0, 2, 9}, true, 24},
		{"IPv6 /56", []byte{0, 2, 56, 0, 0x20, 1, 0x0d, 0xb8, 0, 1, 0}, true, 48},
		{"opt-out", []byte{0, 1, 0, 0}, true, 0},
		{"opt-out IPv6", []byte{0, 2, 0, 0}, true, 0},
		{"opt-out without family", []byte{0, 0, 0, 0}, true, 0},
		{"empty", nil, false, 0},
		{"three octets", []byte{0, 1, 0}, false, 0},
		{"family 0 with a source", []byte{0, 0, 8, 0, 10}, false, 0},
		{"family 3", []byte{0, 3, 8, 0, 10}, false, 0},
		{"family 3, source 0", []byte{0, 3, 0, 0}, false, 0},
		{"source 33", []byte{0, 1, 33, 0, 192, 0, 2, 1, 0}, false, 0},
		{"source 129", append([]byte{0, 2, 129, 0}, make([]byte, 17)...), false, 0},
		{"scope set", []byte{0, 1, 24, 24, 192, 0, 2}, false, 0},
		{"address too short", []byte{0, 1, 24, 0, 192, 0}, false, 0},
		{"address too long", []byte{0, 1, 24, 0, 192, 0, 2, 0}, false, 0},
		{"spare bits", []byte{0, 1, 20, 0, 192, 0, 0x1F}, false, 0},
		{"address with source 0", []byte{0, 1, 0, 0, 192}, false, 0},
	} {
		question := dnstest.Question("shop.gslb.example.net.", dns.TypeA, 1)
		req := dnstest.Raw(9, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0, dnstest.Option(8, row.data...)...))
		got := r.Respond(nil, req, &Exchange{Client: resolver})
		m := dnstest.Unpack(t, got)
		if !row.valid {
			if m.Rcode != dns.RcodeFormatError || dnstest.Subnet(m) != nil || m.IsEdns0() == nil {
				t.Errorf("%s: %v", row.name, m)
			}
			continue
		}
		want := slices.Clone(row.data)
		want[3] = row.scope
		if opt := got[len(got)-len(want)-4:]; m.Rcode != 0 || !slices.Equal(opt, dnstest.Option(8, want...)) {
			t.Errorf("%s: option %x, want %x", row.name, opt, dnstest.Option(8, want...))
		}
	}
	two := append(dnstest.Option(8, 0, 1, 8, 0, 10), dnstest.Option(8, 0, 1, 8, 0, 11)...)
	req := dnstest.Raw(9, 0, [4]uint16{1, 0, 0, 1}, dnstest.Question("shop.gslb.example.net.", dns.TypeA, 1), dnstest.OPT(1232, 0, 0, two...))
	if m := dnstest.Unpack(t, r.Respond(nil, req, &Exchange{Client: resolver})); m.Rcode != dns.RcodeFormatError {
		t.Errorf("two subnets: %s", brief(m))
	}
}

// TestScopesAreExact checks, by asking for every neighbour, that each address in the block a scope names has the same
// answer, and, where all of the space is mapped, that the next wider block has not.
//
// Covers: field 1, field 3, E2
func TestScopesAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 8 {
		mapped := round%4 != 0
		d, places := randomMap(t, rng, mapped)
		r := newResponder(t, d)
		answerTo := func(a netip.Addr, bits int) (string, int) {
			p := netip.PrefixFrom(a, bits).Masked()
			m := ask(t, r, dnstest.Query("shop.gslb.example.net.", dns.TypeA, dnstest.ECS(p.String())), resolver)
			return brief(m), int(dnstest.Subnet(m).SourceScope)
		}
		for range 16 {
			// Random data lives in 10.0.0.0/24 and 2001:db8::/120: all 256 neighbours can be asked.
			base, width := netip.MustParsePrefix("10.0.0.0/24"), 32
			if rng.IntN(2) == 0 {
				base, width = netip.MustParsePrefix("2001:db8::/120"), 128
			}
			a := nth(base, rng.IntN(256))
			want, bits := answerTo(a, width)
			if mapped && bits < base.Bits() {
				t.Fatalf("round %d: scope /%d is wider than the data's frame\n%s", round, bits, places)
			}
			block := netip.PrefixFrom(a, bits).Masked()
			wider := netip.PrefixFrom(a, bits-1).Masked()
			same := true
			for i := range 256 {
				n := nth(base, i)
				got, _ := answerTo(n, width)
				if block.Contains(n) && got != want {
					t.Fatalf("round %d: %s answers %s, %s in the same scope /%d answers %s\n%s", round, a, want, n, bits, got, places)
				}
				if wider.Contains(n) && got != want {
					same = false
				}
			}
			if mapped && same && bits > base.Bits() {
				t.Fatalf("round %d: %s: scope /%d, but /%d has one answer too\n%s", round, a, bits, bits-1, places)
			}
		}
	}
}

// nth is the i-th address of a block.
func nth(p netip.Prefix, i int) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1] += byte(i)
	a, _ := netip.AddrFromSlice(b)
	return a
}

// randomMap makes a map with random places in 10.0.0.0/24 and 2001:db8::/120 and one rule a country. With mapped, no
// address of the two has no place. Beside each is a block of another country, so that no scope is wider.
func randomMap(t *testing.T, rng *rand.Rand, mapped bool) (*snapshot.DNS, string) {
	t.Helper()
	countries := []string{"CN", "JP", "US", "DE"}
	country := map[string]string{"10.0.1.0/24": "FR", "2001:db8::100/120": "FR"}
	for _, frame := range []string{"10.0.0.0/24", "2001:db8::/120"} {
		base := netip.MustParsePrefix(frame)
		if mapped {
			country[frame] = countries[rng.IntN(4)]
		}
		for _, bits := range rng.Perm(8)[:5] {
			p := netip.PrefixFrom(nth(base, rng.IntN(256)), base.Bits()+1+bits).Masked()
			country[p.String()] = countries[rng.IntN(4)]
		}
	}
	list := ""
	for _, p := range slices.Sorted(maps.Keys(country)) {
		list += p + " country=" + country[p] + "\n"
	}
	places, err := geo.ParseList("random", []byte(list))
	if err != nil {
		t.Fatal(err)
	}
	scopes := []scope.Scope{{Country: []string{"CN"}}, {Country: []string{"DE"}}, {Country: []string{"JP"}}, {Any: true}}
	table, err := geo.Compile(geo.New(places), scopes)
	if err != nil {
		t.Fatal(err)
	}
	d := dnstest.Map(t)
	d.Tables[0] = table
	for i := range 4 {
		d.Services[0].Rules[i].Choices = []snapshot.DNSChoice{{Edge: fmt.Sprint("e", i), A: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}}}
	}
	return d, list
}
