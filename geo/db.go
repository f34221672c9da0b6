package geo

import (
	"net/netip"
	"time"

	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// The kinds of sources.
const (
	KindList      = "list"
	KindMMDB      = "mmdb"
	KindIPDB      = "ipdb"
	KindIP2Region = "ip2region"
	KindCSV       = "csv"
	KindBuiltin   = "builtin"
)

// Info describes a source for people.
type Info struct {
	Name    string    `json:"name"`              // path of the file, or "builtin"
	Kind    string    `json:"kind"`              // list, mmdb, ipdb, ip2region, csv or builtin
	Type    string    `json:"type,omitempty"`    // what the file calls itself, such as GeoLite2-Country
	Layout  string    `json:"layout,omitempty"`  // of the records, such as nested or flat of an mmdb
	Built   time.Time `json:"built,omitzero"`    // of the data, as the file says
	Licence string    `json:"licence,omitempty"` // of the built-in table
	Credit  string    `json:"credit,omitempty"`  // of the built-in table
	Runs4   int       `json:"runs4"`             // runs of equal place, IPv4
	Runs6   int       `json:"runs6"`
	// Strange counts networks whose country code is not in ISO 3166-1 (EU, ZZ, ...); they count as unknown.
	Strange int `json:"strange,omitempty"`
	// Overlaps counts ranges of a CSV that overlap the one before; the first one has the addresses.
	Overlaps int    `json:"overlaps,omitempty"`
	SHA256   string `json:"sha256"` // of the file, in hex
}

// Source is one data file in memory: a place, maybe empty, for every address. It is immutable.
type Source struct {
	info   Info
	places []scope.Place // by id, all different; 0 is the empty place
	v4     ranges.Runs[ranges.V4, uint32]
	v6     ranges.Runs[ranges.V6, uint32]
}

// Info describes the source.
func (s *Source) Info() Info { return s.info }

// DB is an immutable stack of sources, the most preferred first, merged field by field: the place of an address has the
// location (continent, country, province, city) of the first source that names a country, finer fields from later
// sources only if they agree on what is known already, and the ISP and AS number of the first source that has them.
// Where no source names an ISP, the AS number does if it is a well-known network's.
type DB struct {
	sources []*Source
	places  []scope.Place // merged, by id; 0 is the empty place
	v4      ranges.Runs[ranges.V4, uint32]
	v6      ranges.Runs[ranges.V6, uint32]
}

// New stacks sources, the most preferred first. Without sources no place is known.
func New(sources ...*Source) *DB {
	m := newMerger()
	db := &DB{sources: sources, v4: ranges.Uniform[ranges.V4, uint32](0), v6: ranges.Uniform[ranges.V6, uint32](0)}
	for i, s := range sources {
		ids := m.intern(s.places)
		if i == 0 { // a source's places differ, so the first one's ids are the merged ones
			db.v4, db.v6 = s.v4, s.v6
			continue
		}
		under := func(over, id uint32) uint32 { return m.merge(over, ids[id]) }
		db.v4, db.v6 = ranges.Zip(db.v4, s.v4, under), ranges.Zip(db.v6, s.v6, under)
	}
	final := m.nameISPs()
	db.places = m.places
	if final != nil {
		same := func(id uint32) uint32 { return final[id] }
		db.v4, db.v6 = ranges.Map(db.v4, same), ranges.Map(db.v6, same)
	}
	return db
}

// Sources describes the stack, the most preferred first.
func (db *DB) Sources() []Info {
	all := make([]Info, len(db.sources))
	for i, s := range db.sources {
		all[i] = s.info
	}
	return all
}

// Field is one known field of a place and the source that said so.
type Field struct {
	Name   string `json:"name"`  // continent, country, province, city, isp or asn
	Value  string `json:"value"` // the stable id
	Source string `json:"source"`
	// Via is the AS number that named the ISP, where no source did.
	Via string `json:"via,omitempty"`
	// English and Chinese are what people call the value; "" where the id says it best.
	English string `json:"en,omitempty"`
	Chinese string `json:"zh,omitempty"`
}

// Opinion is what one source alone says of an address.
type Opinion struct {
	Source string      `json:"source"`
	Place  scope.Place `json:"place"`
}

// Result is what is known of an address.
type Result struct {
	Addr   netip.Addr   `json:"addr"`             // as asked
	Inside netip.Addr   `json:"inside,omitzero"`  // the IPv4 address it carries, if that was looked up instead
	Place  scope.Place  `json:"place"`            // zero: nothing is known
	Prefix netip.Prefix `json:"prefix"`           // widest block around Addr in which every address has this place
	Source string       `json:"source,omitempty"` // the most preferred source that says anything
	Fields []Field      `json:"fields,omitempty"` // in the order continent, country, province, city, isp, asn
	All    []Opinion    `json:"all,omitempty"`    // of LookupAll: every source that says something, the most preferred first
}
