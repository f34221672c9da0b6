package scope_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"steerpoint/steering/scope"
)

// pick makes a random list of one or two values.
func pick(r *rand.Rand, values ...string) []string {
	list := []string{values[r.IntN(len(values))]}
	if r.IntN(3) == 0 {
		list = append(list, values[r.IntN(len(values))])
	}
	return list
}

// randomScope makes a valid scope over few values, so that scopes meet.
func randomScope(r *rand.Rand) scope.Scope {
	var s scope.Scope
	country := func() { s.Country = pick(r, "CN", "US", "JP", "FR") }
	province := func() { s.Province = pick(r, "GD", "FJ", "CA") }
	city := func() { s.City = pick(r, "x", "y", "z") }
	isp := func() { s.ISP = pick(r, "a", "b", "c") }
	for _, fill := range [][]func(){
		{func() { s.Continent = pick(r, "AS", "NA", "EU") }},
		{isp},
		{country},
		{func() { s.ASN = []uint32{uint32(1 + r.IntN(4))} }},
		{country, isp},
		{country, province},
		{country, city},
		{country, province, city},
		{country, province, isp},
		{country, city, isp},
		{country, province, city, isp},
		{func() {
			for range 1 + r.IntN(2) {
				a := netip.AddrFrom4([4]byte{10, byte(r.IntN(2)), byte(r.IntN(2)), byte(r.IntN(4))})
				s.CIDR = append(s.CIDR, netip.PrefixFrom(a, 12+r.IntN(21)).Masked())
			}
		}},
	}[r.IntN(12)] {
		fill()
	}
	return s
}

func randomPlace(r *rand.Rand) scope.Place {
	var p scope.Place
	for _, f := range []struct {
		into   *string
		values []string
	}{
		{&p.Country, []string{"CN", "US", "JP", "FR", "BR"}},
		{&p.Province, []string{"GD", "FJ", "CA"}},
		{&p.City, []string{"x", "y", "z"}},
		{&p.ISP, []string{"a", "b", "c", "d"}},
	} {
		if r.IntN(4) > 0 {
			*f.into = f.values[r.IntN(len(f.values))]
		}
	}
	p.ASN = uint32(r.IntN(5))
	return p.Canonical()
}

// best is the dumb way to choose: all that match, the longest prefix or highest level wins.
func best(scopes []scope.Scope, p scope.Place, a netip.Addr) int {
	winner, level, bits := -1, scope.Level(0), -1
	for i, s := range scopes {
		if !s.Matches(p, a) {
			continue
		}
		if l, b := s.Level(), s.MatchBits(a); l > level || l == level && b > bits {
			winner, level, bits = i, l, b
		}
	}
	return winner
}

// TestSetAgainstDumbChoice proves Select on random sets of scopes that do not overlap.
//
// Covers: A3
func TestSetAgainstDumbChoice(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	winners := map[scope.Level]int{}
	for range 400 {
		scopes := randomSet(t, r, 1+r.IntN(25))
		set, err := scope.NewSet(scopes)
		if err != nil {
			t.Fatalf("%v: %v", scopes, err)
		}
		for range 100 {
			p := randomPlace(r)
			a := netip.AddrFrom4([4]byte{10, byte(r.IntN(2)), byte(r.IntN(2)), byte(r.IntN(4))})
			want, got := best(scopes, p, a), set.Select(p, a)
			if got != want {
				t.Fatalf("of %v\n%v at %v selects %d, want %d", scopes, p, a, got, want)
			}
			winners[scopes[got].Level()]++
		}
	}
	for level := scope.LevelAny; level <= scope.LevelCIDR; level++ {
		if winners[level] < 100 {
			t.Errorf("level %v won %d times only: the test proves little of it", level, winners[level])
		}
	}
}

// randomSet makes a valid set, sorted, with the catch-all last.
func randomSet(t *testing.T, r *rand.Rand, n int) []scope.Scope {
	t.Helper()
	set := []scope.Scope{{Any: true}}
next:
	for range n {
		s, err := randomScope(r).Normalize()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range set {
			if scope.Overlap(s, o) {
				continue next
			}
		}
		set = append(set, s)
	}
	slices.SortFunc(set, scope.Compare)
	return set
}

// TestSetRefuses proves that a set that does not say who wins is refused, naming both scopes.
func TestSetRefuses(t *testing.T) {
	for _, tc := range []struct {
		scopes []string
		code   string
	}{
		{nil, scope.CodeCatchAll},
		{[]string{"country=CN"}, scope.CodeCatchAll},
		{[]string{"*", "country=CN"}, scope.CodeSyntax},
		{[]string{"*", "*"}, scope.CodeOverlap},
		{[]string{"country=CN", "country=CN,JP", "*"}, scope.CodeOverlap},
		{[]string{"country=CN city=x", "country=CN province=GD city=x", "*"}, scope.CodeOverlap},
		{[]string{"asn=1,2", "asn=2,3", "*"}, scope.CodeOverlap},
		{[]string{"cidr=10.0.0.0/8", "cidr=10.0.0.0/8,11.0.0.0/8", "*"}, scope.CodeOverlap},
		{[]string{"country=CN", "country=CN isp=a", "*"}, scope.CodeSyntax},
	} {
		_, err := scope.NewSet(parseAll(t, tc.scopes...))
		var e *scope.Error
		if !errors.As(err, &e) || e.Code != tc.code {
			t.Errorf("NewSet(%v): %v, want %s", tc.scopes, err, tc.code)
		}
	}
	if _, err := scope.NewSet([]scope.Scope{{Country: []string{"cn"}}, {Any: true}}); err == nil {
		t.Error("a scope that is not normalized is accepted, and would never match")
	}
	if _, err := scope.NewSet([]scope.Scope{{}, {Any: true}}); err == nil {
		t.Error("the zero scope is accepted")
	}
}

func ExampleSet_Select() {
	scopes := []scope.Scope{
		{Country: []string{"CN"}, ISP: []string{"chinatelecom"}},
		{Country: []string{"CN"}},
		{Any: true},
	}
	set, err := scope.NewSet(scopes)
	if err != nil {
		fmt.Println(err)
		return
	}
	place := scope.Place{Country: "CN", ISP: "chinaunicom"}
	fmt.Println(scopes[set.Select(place, netip.Addr{})])
	// Output: country=CN
}
