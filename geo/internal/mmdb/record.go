package mmdb

import (
	"fmt"
	"maps"
	"slices"

	"github.com/oschwald/maxminddb-golang/v2"

	"steerpoint/geo/internal/places"
	"steerpoint/steering/scope"
)

// Layout names how records are built.
type Layout string

// The layouts. Nested: country.iso_code, continent.code, subdivisions[0], city.names.en (MaxMind's country, city and
// enterprise files). Flat: country_code, state1, city (DB-IP and the ip-location-db family), autonomous_system_number,
// isp (ASN and ISP files of both).
const (
	Nested Layout = "nested"
	Flat   Layout = "flat"
)

type nested struct {
	Continent struct {
		Code string `maxminddb:"code"`
	} `maxminddb:"continent"`
	Country struct {
		ISOCode string `maxminddb:"iso_code"`
	} `maxminddb:"country"`
	Subdivisions []struct {
		ISOCode string `maxminddb:"iso_code"`
		Names   names  `maxminddb:"names"`
	} `maxminddb:"subdivisions"`
	City struct {
		Names names `maxminddb:"names"`
	} `maxminddb:"city"`
	ASN uint32 `maxminddb:"autonomous_system_number"`
	ISP string `maxminddb:"isp"`
	// Traits hold the two in enterprise files.
	Traits struct {
		ASN uint32 `maxminddb:"autonomous_system_number"`
		ISP string `maxminddb:"isp"`
	} `maxminddb:"traits"`
}

type names struct {
	English string `maxminddb:"en"`
}

func (n *nested) place() scope.Place {
	p := scope.Place{
		Continent: n.Continent.Code, Country: n.Country.ISOCode, City: n.City.Names.English, ISP: n.ISP, ASN: n.ASN,
	}
	if p.ISP == "" {
		p.ISP = n.Traits.ISP
	}
	if p.ASN == 0 {
		p.ASN = n.Traits.ASN
	}
	if len(n.Subdivisions) > 0 {
		p.Province = n.Subdivisions[0].ISOCode
		if p.Province == "" {
			p.Province = n.Subdivisions[0].Names.English
		}
	}
	return p
}

type flat struct {
	Continent string `maxminddb:"continent_code"`
	Country   string `maxminddb:"country_code"`
	Province  string `maxminddb:"state1"`
	City      string `maxminddb:"city"`
	ASN       uint32 `maxminddb:"autonomous_system_number"`
	ISP       string `maxminddb:"isp"`
}

func (f *flat) place() scope.Place {
	return scope.Place{Continent: f.Continent, Country: f.Country, Province: f.Province, City: f.City, ISP: f.ISP, ASN: f.ASN}
}

// records turns data offsets into place ids, each record decoded once.
type records struct {
	db      *maxminddb.Reader
	layout  Layout
	byData  map[uint64]uint32 // by offset
	set     *places.Set
	strange int
	odd     map[uint64]bool // offsets whose country code is not in ISO 3166-1
	first   uint64          // offset of a record, for the report of an unknown layout
	seen    bool
}

func (r *records) id(offset uint64) (uint32, error) {
	if id, ok := r.byData[offset]; ok {
		if r.odd[offset] {
			r.strange++
		}
		return id, nil
	}
	result := r.db.LookupOffset(uintptr(offset))
	if r.layout == "" {
		r.layout = layoutOf(result)
		if !r.seen {
			r.first, r.seen = offset, true
		}
	}
	place, err := r.decode(result)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	id, odd, err := r.set.Add(places.Raw{
		Continent: place.Continent, CountryCode: place.Country, Province: place.Province, City: place.City, ISP: place.ISP, ASN: place.ASN,
	})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if odd {
		r.odd[offset] = true
		r.strange++
	}
	r.byData[offset] = id
	return id, nil
}

func (r *records) decode(result maxminddb.Result) (scope.Place, error) {
	switch r.layout {
	case Nested:
		var n nested
		err := result.Decode(&n)
		return n.place(), err
	case Flat:
		var f flat
		err := result.Decode(&f)
		return f.place(), err
	}
	return scope.Place{}, nil // a record without any field we know says nothing
}

// layoutOf tries the fields that tell the layouts apart. A record may have few fields, so several must be asked until
// one tells.
func layoutOf(result maxminddb.Result) Layout {
	for _, path := range [][]any{{"country", "iso_code"}, {"continent", "code"}, {"registered_country", "iso_code"}} {
		var s *string
		if err := result.DecodePath(&s, path...); err == nil && s != nil {
			return Nested
		}
	}
	for _, key := range []string{"country_code", "continent_code", "state1", "isp"} {
		var s *string
		if err := result.DecodePath(&s, key); err == nil && s != nil {
			return Flat
		}
	}
	var n *uint32
	if err := result.DecodePath(&n, "autonomous_system_number"); err == nil && n != nil {
		return Flat
	}
	return ""
}

// describe names what an unknown file calls itself and which keys its records have.
func (r *records) describe(databaseType string) string {
	known := "known are country.iso_code, continent.code, country_code, autonomous_system_number, isp"
	if !r.seen {
		return fmt.Sprintf("type %q has no records; %s", databaseType, known)
	}
	var fields map[string]any
	if err := r.db.LookupOffset(uintptr(r.first)).Decode(&fields); err != nil || len(fields) == 0 {
		return fmt.Sprintf("type %q, records are not maps of fields; %s", databaseType, known)
	}
	keys := slices.Sorted(maps.Keys(fields))
	if len(keys) > 20 {
		keys = append(keys[:20], "...")
	}
	return fmt.Sprintf("type %q, records with the fields %q; %s", databaseType, keys, known)
}
