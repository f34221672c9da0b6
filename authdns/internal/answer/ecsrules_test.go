package answer

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/steering/scope"
)

// The random data lives in these blocks, all of whose addresses can be asked. Beside each is one of a country that has a
// rule of its own, so that no block of one answer is wider.
var frames = map[string]string{"10.0.0.0/24": "10.0.1.0/24", "2001:db8::/120": "2001:db8::100/120"}

// randomRules is a set of rules with what the oracle needs to know of it.
type randomRules struct {
	scopes []scope.Scope
	places map[netip.Prefix]scope.Place
	text   string
	d      *snapshot.DNS
}

// makeRules makes rules by networks, country, operator and both, in their order, over random places; some addresses have
// no place. A rule answers with its own address, or with one of several by weight.
func makeRules(t *testing.T, rng *rand.Rand) *randomRules {
	t.Helper()
	r := &randomRules{places: map[netip.Prefix]scope.Place{}}
	countries, isps := []string{"CN", "JP", "US", "DE"}, []string{"one", "two"}
	for frame, beside := range frames {
		base := netip.MustParsePrefix(frame)
		r.places[netip.MustParsePrefix(beside)] = scope.Place{Country: "FR", ISP: "one"}
		for range 1 + rng.IntN(6) {
			p := netip.PrefixFrom(nth(base, rng.IntN(256)), base.Bits()+rng.IntN(9)).Masked()
			r.places[p] = scope.Place{Country: countries[rng.IntN(4)], ISP: isps[rng.IntN(2)]}
		}
	}
	candidates := []scope.Scope{
		{Country: []string{"CN"}, ISP: []string{"one"}}, {Country: []string{"CN", "JP"}}, {Country: []string{"US"}}, {ISP: []string{"two"}},
	}
	for range 2 {
		var cidr scope.Scope
		for frame := range frames {
			base := netip.MustParsePrefix(frame)
			cidr.CIDR = append(cidr.CIDR, netip.PrefixFrom(nth(base, rng.IntN(256)), base.Bits()+1+rng.IntN(8)).Masked())
		}
		slices.SortFunc(cidr.CIDR, netip.Prefix.Compare)
		candidates = append(candidates, cidr)
	}
	r.scopes = append(r.scopes, scope.Scope{Country: []string{"FR"}})
	for _, s := range candidates {
		if rng.IntN(3) > 0 {
			r.scopes = append(r.scopes, s)
		}
	}
	slices.SortFunc(r.scopes, scope.Compare)
	r.scopes = append(slices.CompactFunc(r.scopes, func(a, b scope.Scope) bool { return a.Canonical() == b.Canonical() }), scope.Scope{Any: true})

	var list strings.Builder
	for _, p := range slices.SortedFunc(maps.Keys(r.places), netip.Prefix.Compare) {
		fmt.Fprintf(&list, "%s country=%s isp=%s\n", p, r.places[p].Country, r.places[p].ISP)
	}
	source, err := geo.ParseList("random", []byte(list.String()))
	if err != nil {
		t.Fatal(err)
	}
	table, err := geo.Compile(geo.New(source), r.scopes)
	if err != nil {
		return makeRules(t, rng) // two rules have one network: such a set is refused
	}
	r.d = dnstest.Map(t)
	r.d.Tables[0] = table
	rules := r.d.Services[0].Rules[:0]
	for i, s := range r.scopes {
		rule := snapshot.DNSRule{Rule: fmt.Sprint("r", i), Scope: s.Canonical(), TTL: 30 * time.Second}
		for c := range 1 + rng.IntN(2)*rng.IntN(3) { // most have one
			rule.Choices = append(rule.Choices, snapshot.DNSChoice{
				Edge: fmt.Sprint("e", c), Weight: 50, A: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, byte(i), byte(c)})},
			})
		}
		rules = append(rules, rule)
	}
	r.d.Services[0].Rules = rules
	r.text = list.String()
	for i, s := range r.scopes {
		r.text += fmt.Sprintf("rule %d: %s, %d edges\n", i, s.Canonical(), len(rules[i].Choices))
	}
	return r
}

// value is the rule of an address by trying all: the rule, or unmapped where neither its place nor a network decides.
func (r *randomRules) value(a netip.Addr) uint16 {
	best, placed := netip.Prefix{}, false
	for p := range r.places {
		if p.Contains(a) && (!placed || p.Bits() > best.Bits()) {
			best, placed = p, true
		}
	}
	network, longest := -1, -1
	for i, s := range r.scopes {
		if bits := s.MatchBits(a); len(s.CIDR) > 0 && bits > longest {
			network, longest = i, bits
		}
	}
	if network >= 0 {
		return uint16(network)
	}
	if !placed {
		return unmapped
	}
	for i, s := range r.scopes {
		if len(s.CIDR) == 0 && s.Matches(r.places[best], a) {
			return uint16(i)
		}
	}
	return unmapped
}

// block is the length of the widest block around an address in which all have its value.
func (r *randomRules) block(values map[netip.Addr]uint16, base netip.Prefix, a netip.Addr) int {
	width := a.BitLen()
	for bits := base.Bits(); bits < width; bits++ {
		p := netip.PrefixFrom(a, bits).Masked()
		same := true
		for i := range 256 {
			n := nth(base, i)
			same = same && (!p.Contains(n) || values[n] == values[a])
		}
		if same {
			return bits
		}
	}
	return width
}

// TestScopesOfAnyRules: for random rules, by networks, country and operator, over random places, with weights and with
// addresses that have no place, every address of IPv4 and IPv6 gets the answer of the rule that an oracle finds by trying
// all, and the scope is the widest block in which all addresses have that rule; of a weighted answer at least the block
// that is weighed. Where the address has no place, the resolver's decides for the whole block.
//
// Covers: field 1, field 3, field 4, A3, E2
func TestScopesOfAnyRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	seen := map[string]int{}
	for round := range rounds {
		rules := makeRules(t, rng)
		r := newResponder(t, rules.d)
		from := nth(netip.MustParsePrefix("10.0.0.0/24"), rng.IntN(256)) // the resolver may have a place or none
		for frame := range frames {
			base := netip.MustParsePrefix(frame)
			values := map[netip.Addr]uint16{}
			for i := range 256 {
				values[nth(base, i)] = rules.value(nth(base, i))
			}
			for a, value := range values {
				m := ask(t, r, dnstest.Query("shop.gslb.example.net.", dns.TypeA, dnstest.ECS(netip.PrefixFrom(a, a.BitLen()).String())), from)
				bits := rules.block(values, base, a)
				if value == unmapped {
					seen["unmapped"]++
					value = rules.value(from)
				}
				if value == unmapped {
					value = uint16(len(rules.scopes) - 1)
				}
				if len(rules.d.Services[0].Rules[value].Choices) > 1 {
					seen["weighted"]++
					bits = max(bits, stickyBits(a))
				}
				seen[rules.scopes[value].Canonical()[:1]]++
				got := binary.BigEndian.Uint32(m.Answer[0].(*dns.A).A.To4())
				if rule := uint16(got >> 8 & 0xFF); rule != value || int(dnstest.Subnet(m).SourceScope) != bits {
					t.Fatalf("round %d: %s gets rule %d, scope /%d; want rule %d, /%d; resolver %s\n%s",
						round, a, rule, dnstest.Subnet(m).SourceScope, value, bits, from, rules.text)
				}
			}
		}
	}
	for _, kind := range []string{"unmapped", "weighted", "*", "i", "c"} {
		if seen[kind] < 100 {
			t.Errorf("only %d answers of kind %q: the test tests little", seen[kind], kind)
		}
	}
}
