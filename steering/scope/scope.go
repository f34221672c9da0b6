// Package scope says which visitors a rule is for: Geo & ISP scopes, their total order and their text form.
//
// A Scope is a set of cells. Every list is a set and a scope with several lists is their product: country CN, JP with
// isp a, b holds four cells. A Place is one visitor's cell. The package knows no database and no addresses of its own;
// package geo turns an address into a Place.
//
// Values are compared in one spelling. Countries, continents and province codes are upper case; provinces known by
// name become their ISO 3166-2 code (Guangdong and 广东 are GD in CN); cities and ISPs are lower case without spaces
// and punctuation, so "China Telecom" and "chinatelecom" are one ISP. Normalize and Place.Canonical write that spelling.
package scope

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Place is where an address is. An empty field is not known. The fields are in the canonical spelling; Canonical
// brings foreign data there.
type Place struct {
	Continent string `json:"continent,omitempty"` // AF AN AS EU NA OC SA
	Country   string `json:"country,omitempty"`   // ISO 3166-1 alpha-2
	Province  string `json:"province,omitempty"`  // the part of an ISO 3166-2 code after the hyphen, or a name
	City      string `json:"city,omitempty"`
	ISP       string `json:"isp,omitempty"`
	ASN       uint32 `json:"asn,omitempty"`
}

// Scope is the set of visitors a rule is for. Any alone is the catch-all "*". The zero Scope is not valid.
type Scope struct {
	Any       bool
	CIDR      []netip.Prefix
	Continent []string
	Country   []string
	Province  []string
	City      []string
	ISP       []string
	ASN       []uint32
}

// Level is the place of a scope in the total order; a higher Level is more specific and wins. 0 is no level: the scope
// names a combination the order does not have, or nothing.
type Level uint8

// The levels, least specific first. Two cidr scopes are ordered by the longer of the prefixes that match.
const (
	LevelAny Level = iota + 1
	LevelContinent
	LevelISP
	LevelCountry
	LevelASN
	LevelISPCountry
	LevelProvince
	LevelCity
	LevelISPProvince
	LevelISPCity
	LevelCIDR
)

// String names the level as the documents do.
func (l Level) String() string {
	names := [...]string{
		"none", "*", "continent", "isp", "country", "asn", "isp+country", "province", "city",
		"isp+province", "isp+city", "cidr",
	}
	if int(l) >= len(names) {
		return "level " + strconv.Itoa(int(l))
	}
	return names[l]
}

// set of the lists a scope fills, as bits; the shape decides the level.
const (
	hasAny = 1 << iota
	hasCIDR
	hasContinent
	hasCountry
	hasProvince
	hasCity
	hasISP
	hasASN
)

func (s Scope) shape() int {
	shape := 0
	for _, f := range []struct {
		set bool
		bit int
	}{
		{s.Any, hasAny},
		{len(s.CIDR) > 0, hasCIDR},
		{len(s.Continent) > 0, hasContinent},
		{len(s.Country) > 0, hasCountry},
		{len(s.Province) > 0, hasProvince},
		{len(s.City) > 0, hasCity},
		{len(s.ISP) > 0, hasISP},
		{len(s.ASN) > 0, hasASN},
	} {
		if f.set {
			shape |= f.bit
		}
	}
	return shape
}

// Level returns the level of the scope, or 0 for a combination that is not in the order. A province belongs to a
// country, since codes repeat from country to country; a city names its country and may name its province.
func (s Scope) Level() Level {
	switch s.shape() {
	case hasAny:
		return LevelAny
	case hasCIDR:
		return LevelCIDR
	case hasContinent:
		return LevelContinent
	case hasISP:
		return LevelISP
	case hasCountry:
		return LevelCountry
	case hasASN:
		return LevelASN
	case hasCountry | hasISP:
		return LevelISPCountry
	case hasCountry | hasProvince:
		return LevelProvince
	case hasCountry | hasCity, hasCountry | hasProvince | hasCity:
		return LevelCity
	case hasCountry | hasProvince | hasISP:
		return LevelISPProvince
	case hasCountry | hasCity | hasISP, hasCountry | hasProvince | hasCity | hasISP:
		return LevelISPCity
	}
	return 0
}

// Compare orders scopes most specific first: negative when a comes before b. Equal levels are ordered by the longest
// prefix, then by Canonical, so that a sorted set has one order. Both are normalized. It orders a set; to choose for a
// visitor use Set.Select, since of two cidr scopes the one with the longer matching prefix wins.
func Compare(a, b Scope) int {
	if c := cmp.Compare(b.Level(), a.Level()); c != 0 {
		return c
	}
	if c := cmp.Compare(b.longest(), a.longest()); c != 0 {
		return c
	}
	return strings.Compare(a.Canonical(), b.Canonical())
}

func (s Scope) longest() int {
	longest := -1
	for _, p := range s.CIDR {
		longest = max(longest, p.Bits())
	}
	return longest
}

// Matches says whether a visitor at place with address addr is in the scope. Letter case does not matter. addr counts
// for cidr scopes only, an IPv4-mapped address as IPv4; the zero Addr is in no prefix.
func (s Scope) Matches(place Place, addr netip.Addr) bool {
	switch {
	case s.Any:
		return true
	case len(s.CIDR) > 0:
		return s.MatchBits(addr) >= 0
	case s.shape() == 0:
		return false
	}
	return holds(s.Continent, place.Continent) && holds(s.Country, place.Country) &&
		holds(s.Province, place.Province) && holds(s.City, place.City) && holds(s.ISP, place.ISP) &&
		(len(s.ASN) == 0 || place.ASN != 0 && slices.Contains(s.ASN, place.ASN))
}

// MatchBits returns the length of the longest prefix of the scope that holds addr, or -1.
func (s Scope) MatchBits(addr netip.Addr) int {
	addr = addr.Unmap()
	bits := -1
	for _, p := range s.CIDR {
		if p.Bits() > bits && p.Contains(addr) {
			bits = p.Bits()
		}
	}
	return bits
}

// holds says whether an empty list (no condition) or one of its values fits v.
func holds(list []string, v string) bool {
	if len(list) == 0 {
		return true
	}
	return v != "" && slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, v) })
}

// Overlap says whether two normalized scopes claim a cell in common at the same level: then the order does not say
// which of them wins, and two rules of one service must not have them. A list that is absent counts as every value.
// Prefixes overlap only when equal: of two nested ones the longer wins.
func Overlap(a, b Scope) bool {
	level := a.Level()
	if level == 0 || level != b.Level() {
		return false
	}
	return meet(a.CIDR, b.CIDR) && meet(a.Continent, b.Continent) && meet(a.Country, b.Country) &&
		meet(a.Province, b.Province) && meet(a.City, b.City) && meet(a.ISP, b.ISP) && meet(a.ASN, b.ASN)
}

func meet[T comparable](a, b []T) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	return slices.ContainsFunc(a, func(v T) bool { return slices.Contains(b, v) })
}
