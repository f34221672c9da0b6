package importer

import (
	"fmt"
	"net/netip"
	"strings"

	"steerpoint/spec"
	"steerpoint/steering/scope"
)

// Everybody is the scope "*".
func Everybody() spec.Scope { return spec.Scope{Any: true} }

// Continent is the scope of one continent, such as EU.
func Continent(code string) (spec.Scope, error) {
	var c spec.Continent
	if err := c.UnmarshalText([]byte(code)); err != nil {
		return spec.Scope{}, fmt.Errorf("%q %w", code, err)
	}
	return spec.Scope{Continent: spec.List[spec.Continent]{c}}, nil
}

// Place is the scope of a country, or of a province or city of it where they are not "".
func Place(country, province, city string) (spec.Scope, error) {
	var c spec.Country
	if err := c.UnmarshalText([]byte(country)); err != nil {
		return spec.Scope{}, fmt.Errorf("%q %w", country, err)
	}
	s := spec.Scope{Country: spec.List[spec.Country]{c}}
	if province != "" {
		s.Province = spec.List[string]{province}
	}
	if city != "" {
		s.City = spec.List[string]{city}
	}
	return valid(s)
}

// ContinentOf is the continent of a scope's first country, as our places have it; "" without a country.
func ContinentOf(s spec.Scope) string {
	if len(s.Country) == 0 {
		return ""
	}
	return scope.ContinentOf(string(s.Country[0]))
}

// CIDR is the scope of one range of addresses. Bits beyond its length are dropped, and changed then says so.
func CIDR(text string) (s spec.Scope, changed bool, err error) {
	text = strings.TrimSpace(text)
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, addrErr := netip.ParseAddr(text)
		if addrErr != nil {
			return s, false, fmt.Errorf("%q is no range of addresses", text)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if compatible := netip.MustParsePrefix("::/96"); p.Addr().Is6() && p.Bits() >= 96 && compatible.Contains(p.Addr()) {
		b := p.Addr().As16()
		p, changed = netip.PrefixFrom(netip.AddrFrom4([4]byte(b[12:])), p.Bits()-96), true
	}
	var out spec.Prefix
	changed = changed || p != p.Masked()
	if err := out.UnmarshalText([]byte(p.Masked().String())); err != nil {
		return s, changed, err
	}
	s, err = valid(spec.Scope{CIDR: spec.List[spec.Prefix]{out}})
	return s, changed, err
}

func valid(s spec.Scope) (spec.Scope, error) {
	sc := s.Scope()
	return s, sc.Validate()
}

// shape is what two scopes must share for their rules to be one: the fields they use, and all but the finest of them.
func shape(s *spec.Scope) string {
	switch {
	case s.Any:
		return "*"
	case len(s.CIDR) > 0:
		return "cidr"
	case len(s.City) > 0:
		return fmt.Sprint("city", s.Country, s.Province)
	case len(s.Province) > 0:
		return fmt.Sprint("province", s.Country)
	case len(s.Country) > 0:
		return "country"
	}
	return "continent"
}

// extend adds the finest values of another scope of the same shape.
func extend(s, o *spec.Scope) {
	switch {
	case len(s.CIDR) > 0:
		s.CIDR = append(s.CIDR, o.CIDR...)
	case len(s.City) > 0:
		s.City = append(s.City, o.City...)
	case len(s.Province) > 0:
		s.Province = append(s.Province, o.Province...)
	case len(s.Country) > 0:
		s.Country = append(s.Country, o.Country...)
	default:
		s.Continent = append(s.Continent, o.Continent...)
	}
}

// size is the number of values of the longest list.
func size(s *spec.Scope) int {
	return max(len(s.CIDR), len(s.Continent), len(s.Country), len(s.Province), len(s.City))
}

func ruleName(s *spec.Scope) string {
	var words []string
	more := size(s) - 1
	switch {
	case s.Any:
		return "default"
	case len(s.CIDR) > 0:
		words = []string{"net", s.CIDR[0].String()}
	case len(s.Continent) > 0:
		words = []string{"continent", string(s.Continent[0])}
	default:
		words = []string{string(s.Country[0])}
		for _, list := range [][]string{s.Province, s.City} {
			if len(list) > 0 {
				words = append(words, list[0])
			}
		}
	}
	if more > 0 {
		words = append(words, fmt.Sprintf("and-%d-more", more))
	}
	return strings.Join(words, "-")
}
