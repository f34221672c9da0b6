package scope

import (
	"net/netip"
	"slices"
	"strconv"
)

// Set is the scopes of one service's rules, in the total order, ready to choose from. It is immutable.
type Set struct {
	scopes []Scope
	byCIDR map[netip.Prefix]int
	// byKey holds, per level, the scopes that list a value of the level's key field; most lists are short.
	byKey [LevelCIDR]map[string][]int
	byASN map[uint32]int
}

// NewSet takes scopes that are normalized, in the order of Compare, without overlaps, and end with the one catch-all.
// A violation is an error that errors.As finds an *Error in.
func NewSet(scopes []Scope) (*Set, error) {
	s := &Set{scopes: slices.Clone(scopes), byCIDR: make(map[netip.Prefix]int), byASN: make(map[uint32]int)}
	for i := range s.byKey {
		s.byKey[i] = make(map[string][]int)
	}
	for i, sc := range scopes {
		if err := s.add(i, sc); err != nil {
			return nil, err
		}
	}
	if len(scopes) == 0 || !scopes[len(scopes)-1].Any {
		return nil, &Error{Code: CodeCatchAll, Msg: `no scope "*": somebody would get no answer`}
	}
	return s, nil
}

func (s *Set) add(i int, sc Scope) error {
	level := sc.Level()
	n, err := sc.Normalize()
	switch {
	case err != nil:
		return err
	case n.Canonical() != sc.Canonical():
		return &Error{Code: CodeSyntax, Value: sc.Canonical(), Msg: "not in canonical spelling; normalize it first"}
	case i > 0 && Compare(s.scopes[i-1], sc) > 0:
		return &Error{Code: CodeSyntax, Value: sc.Canonical(), Msg: "the scopes are not in the total order; sort them first"}
	}
	for _, j := range s.rivals(sc, level) {
		if Overlap(s.scopes[j], sc) {
			return &Error{
				Code: CodeOverlap, Value: sc.Canonical(),
				Msg: "claims visitors that " + strconv.Quote(s.scopes[j].Canonical()) + " claims too, at the same level (" + level.String() + "); make one of them narrower",
			}
		}
	}
	for _, p := range sc.CIDR {
		s.byCIDR[p] = i
	}
	for _, n := range sc.ASN {
		s.byASN[n] = i
	}
	for _, key := range keyList(sc, level) {
		s.byKey[level][key] = append(s.byKey[level][key], i)
	}
	return nil
}

// rivals returns the scopes that share a key with sc, and so may overlap it.
func (s *Set) rivals(sc Scope, level Level) []int {
	var found []int
	for _, p := range sc.CIDR {
		if j, ok := s.byCIDR[p]; ok {
			found = append(found, j)
		}
	}
	for _, n := range sc.ASN {
		if j, ok := s.byASN[n]; ok {
			found = append(found, j)
		}
	}
	for _, key := range keyList(sc, level) {
		found = append(found, s.byKey[level][key]...)
	}
	return found
}

// keyList returns the values of the field that tells most at a level; "" stands for the one key of the catch-all.
func keyList(sc Scope, level Level) []string {
	switch level {
	case LevelCity, LevelISPCity:
		return sc.City
	case LevelProvince, LevelISPProvince:
		return sc.Province
	case LevelCountry, LevelISPCountry:
		return sc.Country
	case LevelISP:
		return sc.ISP
	case LevelContinent:
		return sc.Continent
	case LevelAny:
		return []string{""}
	}
	return nil
}

// Len is the number of scopes.
func (s *Set) Len() int { return len(s.scopes) }

// Prefixes yields every prefix of the cidr scopes with the index of its scope, in no order.
func (s *Set) Prefixes(yield func(netip.Prefix, int) bool) {
	for p, i := range s.byCIDR {
		if !yield(p, i) {
			return
		}
	}
}

// Select returns the index of the scope that wins for a visitor at place (canonical) with address addr: the longest
// prefix, else SelectPlace.
func (s *Set) Select(place Place, addr netip.Addr) int {
	addr = addr.Unmap()
	for bits := addr.BitLen(); bits >= 0 && len(s.byCIDR) > 0 && addr.IsValid(); bits-- {
		p, err := addr.Prefix(bits)
		if err != nil {
			break
		}
		if i, ok := s.byCIDR[p]; ok {
			return i
		}
	}
	return s.SelectPlace(place)
}

// SelectPlace returns the index of the scope that wins for a canonical place when no cidr scope matches; the catch-all
// at least.
func (s *Set) SelectPlace(place Place) int {
	for _, at := range []struct {
		level Level
		key   string
	}{
		{LevelISPCity, place.City},
		{LevelISPProvince, place.Province},
		{LevelCity, place.City},
		{LevelProvince, place.Province},
		{LevelISPCountry, place.Country},
		{LevelASN, ""},
		{LevelCountry, place.Country},
		{LevelISP, place.ISP},
		{LevelContinent, place.Continent},
	} {
		if at.level == LevelASN {
			if i, ok := s.byASN[place.ASN]; ok {
				return i
			}
			continue
		}
		if at.key == "" {
			continue
		}
		for _, i := range s.byKey[at.level][at.key] {
			if s.scopes[i].Matches(place, netip.Addr{}) {
				return i
			}
		}
	}
	return len(s.scopes) - 1
}
