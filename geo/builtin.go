package geo

//go:generate go run ./mktable -out builtin

import (
	_ "embed" // the country table
	"sync"

	"steerpoint/geo/internal/countryfile"
	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// countryTable is made by geo/mktable; builtin/README.md says from what.
//
//go:embed builtin/country.bin.gz
var countryTable []byte

var loadBuiltin = sync.OnceValues(func() (*Source, error) {
	return readBuiltin(countryTable)
})

// Builtin returns the country table of the program itself, so that geo works on first start: countries and continents
// only. It is unpacked at the first call. The error is an *Error with CodeBuiltin and means a damaged build.
func Builtin() (*Source, error) { return loadBuiltin() }

func readBuiltin(packed []byte) (*Source, error) {
	t, err := countryfile.Decode(packed)
	if err != nil {
		return nil, &Error{Code: CodeBuiltin, File: KindBuiltin, Msg: "the built-in country table is damaged; build the program again", Err: err}
	}
	s := &Source{places: []scope.Place{{}}}
	for _, c := range t.Countries {
		s.places = append(s.places, scope.Place{Country: c}.Canonical())
	}
	s.v4 = ranges.Runs[ranges.V4, uint32]{Starts: t.V4.Starts, Values: ids(t.V4.Values)}
	s.v6 = ranges.Runs[ranges.V6, uint32]{Starts: t.V6.Starts, Values: ids(t.V6.Values)}
	s.info = Info{
		Name: KindBuiltin, Kind: KindBuiltin, Type: t.Source, Built: t.Date, Licence: t.Licence, Credit: t.Credit,
		Runs4: s.v4.Len(), Runs6: s.v6.Len(), SHA256: digest(packed),
	}
	return s, nil
}

// ids widens the file's values, which are place ids as they are.
func ids(values []uint16) []uint32 {
	out := make([]uint32, len(values))
	for i, v := range values {
		out[i] = uint32(v)
	}
	return out
}
