package scope_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/steering/scope"
)

func parse(t *testing.T, text string) scope.Scope {
	t.Helper()
	s, err := scope.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return s
}

func parseAll(t *testing.T, texts ...string) []scope.Scope {
	t.Helper()
	all := make([]scope.Scope, len(texts))
	for i, text := range texts {
		all[i] = parse(t, text)
	}
	return all
}

// order is the total order of the design, most specific first, with one scope of every allowed shape.
var order = []string{
	"cidr=192.0.2.128/25",
	"cidr=192.0.2.0/24",
	"country=CN province=GD city=shenzhen isp=chinatelecom",
	"country=CN city=guangzhou isp=chinatelecom",
	"country=CN province=GD isp=chinatelecom",
	"country=CN province=GD city=shenzhen",
	"country=CN city=guangzhou",
	"country=CN province=GD",
	"country=CN isp=chinatelecom",
	"asn=4134",
	"country=CN",
	"isp=chinatelecom",
	"continent=AS",
	"*",
}

// TestOrder proves the total order of scopes, whatever order they are given in.
//
// Covers: A3
func TestOrder(t *testing.T) {
	want := []scope.Level{
		scope.LevelCIDR, scope.LevelCIDR, scope.LevelISPCity, scope.LevelISPCity, scope.LevelISPProvince,
		scope.LevelCity, scope.LevelCity, scope.LevelProvince, scope.LevelISPCountry, scope.LevelASN,
		scope.LevelCountry, scope.LevelISP, scope.LevelContinent, scope.LevelAny,
	}
	all := parseAll(t, order...)
	for i, s := range all {
		if s.Level() != want[i] {
			t.Errorf("level of %q is %v, want %v", order[i], s.Level(), want[i])
		}
		for j, o := range all {
			switch c := scope.Compare(s, o); {
			case i == j && c != 0:
				t.Errorf("Compare(%q, itself) = %d", order[i], c)
			case want[i] != want[j] && (c < 0) != (i < j):
				t.Errorf("Compare(%q, %q) = %d", order[i], order[j], c)
			case c != -scope.Compare(o, s) && (c < 0) == (scope.Compare(o, s) < 0) && i != j:
				t.Errorf("Compare(%q, %q) is not antisymmetric", order[i], order[j])
			}
		}
	}
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	slices.SortFunc(backwards, scope.Compare)
	for i := 1; i < len(backwards); i++ {
		if scope.Compare(backwards[i-1], backwards[i]) >= 0 {
			t.Errorf("the order has %q before %q", backwards[i-1], backwards[i])
		}
	}
}

// TestMatches proves that lists are sets, fields multiply, and unknown fields of a place match nothing.
//
// Covers: A3
func TestMatches(t *testing.T) {
	place := scope.Place{Continent: "AS", Country: "CN", Province: "GD", City: "shenzhen", ISP: "chinatelecom", ASN: 4134}
	addr := netip.MustParseAddr("192.0.2.1")
	for _, tc := range []struct {
		scope string
		place scope.Place
		addr  string
		want  bool
	}{
		{"*", scope.Place{}, "", true},
		{"country=CN", place, "", true},
		{"country=JP,CN", place, "", true},
		{"country=JP,KR", place, "", false},
		{"country=CN isp=chinaunicom,chinatelecom", place, "", true},
		{"country=JP isp=chinatelecom", place, "", false},
		{"country=CN province=GD isp=chinaunicom", place, "", false},
		{"country=CN city=shenzhen", place, "", true},
		{"country=CN province=FJ city=shenzhen", place, "", false},
		{"asn=4134,4809", place, "", true},
		{"asn=4809", scope.Place{}, "", false},
		{"continent=EU", place, "", false},
		{"continent=AS", scope.Place{Country: "CN"}, "", false},
		{"country=CN", scope.Place{}, "", false},
		{"country=CN isp=chinatelecom", scope.Place{Country: "CN"}, "", false},
		{"country=CN", scope.Place{Country: "cn"}, "", true},
		{"cidr=192.0.2.0/24", scope.Place{}, addr.String(), true},
		{"cidr=192.0.2.0/24", scope.Place{}, "::ffff:192.0.2.1", true},
		{"cidr=192.0.2.0/24", scope.Place{}, "192.0.3.1", false},
		{"cidr=192.0.2.0/24", place, "", false},
		{"cidr=2001:db8::/32", scope.Place{}, "2001:db8::1", true},
		{"cidr=::/0", scope.Place{}, "192.0.2.1", false},
	} {
		var a netip.Addr
		if tc.addr != "" {
			a = netip.MustParseAddr(tc.addr)
		}
		if got := parse(t, tc.scope).Matches(tc.place, a); got != tc.want {
			t.Errorf("%q matches %v, %v: %t, want %t", tc.scope, tc.place, a, got, tc.want)
		}
	}
	if (scope.Scope{}).Matches(place, addr) {
		t.Error("the zero scope matches somebody")
	}
}

// TestMatchBits proves that the longest of a scope's own prefixes counts.
func TestMatchBits(t *testing.T) {
	s := parse(t, "cidr=192.0.0.0/16,192.0.2.0/24")
	for addr, want := range map[string]int{"192.0.2.1": 24, "192.0.3.1": 16, "198.51.100.1": -1, "::1": -1} {
		if got := s.MatchBits(netip.MustParseAddr(addr)); got != want {
			t.Errorf("MatchBits(%s) = %d, want %d", addr, got, want)
		}
	}
}

// TestOverlap proves which scopes may not stand in one service.
//
// Covers: A3
func TestOverlap(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"country=CN,JP", "country=JP", true},
		{"country=CN", "country=JP", false},
		{"country=CN,JP isp=a,b", "country=JP,KR isp=b,c", true},
		{"country=CN,JP isp=a,b", "country=JP isp=c", false},
		{"country=CN", "country=CN isp=a", false}, // another level: the narrower wins
		{"country=CN city=shenzhen", "country=CN province=GD city=shenzhen", true},
		{"country=CN province=GD city=shenzhen", "country=CN province=FJ city=shenzhen", false},
		{"country=CN province=GD isp=a", "country=CN province=Guangdong isp=a", true},
		{"asn=1,2", "asn=2", true},
		{"continent=AS", "continent=EU", false},
		{"isp=China Telecom", "isp=chinatelecom", true},
		{"cidr=192.0.2.0/24", "cidr=192.0.2.0/24,198.51.100.0/24", true},
		{"cidr=192.0.2.0/24", "cidr=192.0.2.0/25", false}, // nested: the longer wins
		{"*", "*", true},
	} {
		a, b := tolerant(t, tc.a), tolerant(t, tc.b)
		if scope.Overlap(a, b) != tc.want || scope.Overlap(b, a) != tc.want {
			t.Errorf("Overlap(%q, %q) = %t, want %t", tc.a, tc.b, scope.Overlap(a, b), tc.want)
		}
	}
	if scope.Overlap(scope.Scope{}, scope.Scope{}) {
		t.Error("two zero scopes overlap")
	}
}

// tolerant parses a text whose last value may hold spaces.
func tolerant(t *testing.T, text string) scope.Scope {
	t.Helper()
	if key, value, _ := strings.Cut(text, "="); key == "isp" {
		s, err := (scope.Scope{ISP: strings.Split(value, ",")}).Normalize()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return parse(t, text)
}

// TestPlace proves that foreign spellings come to the one the scopes use.
func TestPlace(t *testing.T) {
	for _, tc := range []struct{ in, want scope.Place }{
		{
			scope.Place{Country: "cn", Province: "Guangdong", City: "Shenzhen", ISP: "China Telecom"},
			scope.Place{Continent: "AS", Country: "CN", Province: "GD", City: "shenzhen", ISP: "chinatelecom"},
		},
		{scope.Place{Country: "CN", Province: "广东省"}, scope.Place{Continent: "AS", Country: "CN", Province: "GD"}},
		{scope.Place{Country: "CN", Province: "44"}, scope.Place{Continent: "AS", Country: "CN", Province: "GD"}},
		{scope.Place{Country: "CN", Province: "CN-GD"}, scope.Place{Continent: "AS", Country: "CN", Province: "GD"}},
		{scope.Place{Country: "US", Province: "New York", City: "New York"}, scope.Place{Continent: "NA", Country: "US", Province: "NY", City: "newyork"}},
		{scope.Place{Country: "JP", Province: "13"}, scope.Place{Continent: "AS", Country: "JP", Province: "13"}},
		{scope.Place{Country: "JP", Province: "Tokyo"}, scope.Place{Continent: "AS", Country: "JP", Province: "tokyo"}},
		{scope.Place{Country: "ZZ", Continent: "eu"}, scope.Place{Continent: "EU"}},
		{scope.Place{Country: "FR", Continent: "AS"}, scope.Place{Continent: "EU", Country: "FR"}},
		{scope.Place{Continent: "??"}, scope.Place{}},
		{scope.Place{Country: "BR", City: "São  Paulo"}, scope.Place{Continent: "SA", Country: "BR", City: "sãopaulo"}},
	} {
		got := tc.in.Canonical()
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("Canonical of %+v (-want +got):\n%s", tc.in, diff)
		}
		if again := got.Canonical(); again != got {
			t.Errorf("Canonical is not stable: %+v, then %+v", got, again)
		}
	}
}

// TestCountries proves the table of continents: every country once, as many as ISO 3166-1 has and Kosovo.
func TestCountries(t *testing.T) {
	count := map[string]int{}
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			if c := scope.ContinentOf(string(a) + string(b)); c != "" {
				count[c]++
			}
		}
	}
	want := map[string]int{"AF": 58, "AN": 5, "AS": 51, "EU": 53, "NA": 41, "OC": 28, "SA": 14}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("countries by continent (-want +got):\n%s", diff)
	}
	for code, want := range map[string]string{"CN": "AS", "US": "NA", "GB": "EU", "AU": "OC", "ZA": "AF", "BR": "SA", "AQ": "AN", "UK": "", "": ""} {
		if got := scope.ContinentOf(code); got != want {
			t.Errorf("ContinentOf(%q) = %q, want %q", code, got, want)
		}
	}
}
