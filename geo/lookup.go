package geo

import (
	"fmt"
	"net/netip"
	"strconv"

	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// Lookup says what is known of an address and which source said so. IPv4-mapped addresses are IPv4; 6to4 and NAT64
// addresses are looked up as the IPv4 address they carry. It is for people and tests; answers come from a Table.
func (db *DB) Lookup(addr netip.Addr) Result {
	r := Result{Addr: addr}
	addr = addr.Unmap()
	switch {
	case !addr.IsValid():
		return r
	case addr.Is4():
		db.lookup4(&r, ranges.FromV4(addr))
		return r
	}
	for _, b := range append(scope.EmbeddingBlocks(), mappedBlock()) {
		if !b.Contains(addr) {
			continue
		}
		v4, base := carried(ranges.FromV6(addr))
		r.Inside = v4.Addr()
		db.lookup4(&r, v4)
		r.Prefix = netip.PrefixFrom(addr, base+r.Prefix.Bits()).Masked()
		return r
	}
	k := ranges.FromV6(addr)
	i := db.v6.Find(k)
	r.Place = db.places[db.v6.Values[i]]
	r.Prefix = netip.PrefixFrom(k.Addr(), db.v6.Bits(i, k)).Masked()
	r.attribute(db.sources, addr)
	return r
}

// LookupAll is Lookup with what every source says by itself.
func (db *DB) LookupAll(addr netip.Addr) Result {
	r := db.Lookup(addr)
	at := addr.Unmap()
	if r.Inside.IsValid() {
		at = r.Inside
	}
	if !at.IsValid() {
		return r
	}
	for _, s := range db.sources {
		if p := s.place(at); p != (scope.Place{}) {
			r.All = append(r.All, Opinion{Source: s.info.Name, Place: p})
		}
	}
	return r
}

// place is what a source says of an address that is not IPv4-mapped.
func (s *Source) place(addr netip.Addr) scope.Place {
	if addr.Is4() {
		return s.places[s.v4.Values[s.v4.Find(ranges.FromV4(addr))]]
	}
	return s.places[s.v6.Values[s.v6.Find(ranges.FromV6(addr))]]
}

func (db *DB) lookup4(r *Result, k ranges.V4) {
	i := db.v4.Find(k)
	r.Place = db.places[db.v4.Values[i]]
	r.Prefix = netip.PrefixFrom(k.Addr(), db.v4.Bits(i, k)).Masked()
	r.attribute(db.sources, k.Addr())
}

// attribute repeats the merge of one address, noting for each field the source that filled it.
func (r *Result) attribute(sources []*Source, addr netip.Addr) {
	var place scope.Place
	by := map[string]string{}
	for _, s := range sources {
		next := fill(place, s.place(addr))
		for _, f := range fieldsOf(next) {
			if by[f.Name] == "" {
				by[f.Name] = s.info.Name
				if r.Source == "" {
					r.Source = s.info.Name
				}
			}
		}
		place = next
	}
	r.Fields = fieldsOf(r.Place)
	for i := range r.Fields {
		f := &r.Fields[i]
		f.Source = by[f.Name]
		if f.Name == "isp" && place.ISP == "" {
			f.Source, f.Via = by["asn"], fmt.Sprintf("AS%d", place.ASN)
		}
		f.English, f.Chinese = scope.Label(f.Name, place.Country, f.Value)
	}
}

// fieldsOf lists the known fields of a place.
func fieldsOf(p scope.Place) []Field {
	asn := ""
	if p.ASN != 0 {
		asn = strconv.FormatUint(uint64(p.ASN), 10)
	}
	all := []Field{
		{Name: "continent", Value: p.Continent},
		{Name: "country", Value: p.Country},
		{Name: "province", Value: p.Province},
		{Name: "city", Value: p.City},
		{Name: "isp", Value: p.ISP},
		{Name: "asn", Value: asn},
	}
	known := all[:0]
	for _, f := range all {
		if f.Value != "" {
			known = append(known, f)
		}
	}
	return known
}
