// Package places turns what database records say of a place, in many spellings, into places with small numbers.
package places

import (
	"fmt"
	"strings"

	"steerpoint/steering/scope"
)

// maxName is the longest name taken, in bytes. The longest place names are under 100; more is a damaged file.
const maxName = 256

// Raw is what a record says, as it says it. An empty field, "0" and "-" say nothing.
type Raw struct {
	Continent, CountryCode, CountryName, Province, City, ISP string
	// Owner is who an address block belongs to; it is the ISP where none is named and the owner is a known network.
	Owner string
	ASN   uint32
}

// Set numbers places. The zero Set is not usable; make one with New.
type Set struct {
	Places []scope.Place // by number, all different; 0 is the empty place
	ids    map[scope.Place]uint32
}

// New returns a set with the empty place.
func New() *Set {
	return &Set{Places: []scope.Place{{}}, ids: map[scope.Place]uint32{{}: 0}}
}

// Add returns the number of a record's place. strange is set when the record names a country that is none (EU, ZZ,
// "reserved"): it counts as unknown. The error says that a name is too long to be one.
func (s *Set) Add(r Raw) (id uint32, strange bool, err error) {
	for _, name := range []string{r.CountryName, r.Province, r.City, r.ISP, r.Owner} {
		if len(name) > maxName {
			return 0, false, fmt.Errorf("a name of %d bytes", len(name))
		}
	}
	p := scope.Place{
		Continent: known(r.Continent), Country: known(r.CountryCode), Province: known(r.Province), City: known(r.City),
		ISP: known(r.ISP), ASN: r.ASN,
	}
	named := p.Country != "" || known(r.CountryName) != ""
	if scope.ContinentOf(strings.ToUpper(p.Country)) == "" {
		p.Country = scope.CountryNamed(known(r.CountryName))
	}
	if p.ISP == "" {
		p.ISP = scope.ISPNamed(r.Owner)
	}
	p = p.Canonical()
	if p.Country == "" {
		p.Province, p.City = "", "" // of nowhere
	}
	id, ok := s.ids[p]
	if !ok {
		id = uint32(len(s.Places))
		s.ids[p] = id
		s.Places = append(s.Places, p)
	}
	return id, named && p.Country == "", nil
}

// known returns a value that says something.
func known(v string) string {
	v = strings.TrimSpace(v)
	switch v {
	case "0", "-", "N/A", "null", "内网IP", "局域网", "保留", "保留地址", "保留地址用于本地回送", "IANA", "未知":
		return ""
	}
	return v
}
