package geo

import (
	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// What tests of the outside need from the inside.
var (
	Fill        = fill
	ReadBuiltin = readBuiltin
	NewTable    = newTable
)

// CountryTable is the embedded file.
func CountryTable() []byte { return countryTable }

// NewSource makes a source without a file.
func NewSource(places []scope.Place, v4 ranges.Runs[ranges.V4, uint32], v6 ranges.Runs[ranges.V6, uint32]) *Source {
	return &Source{places: places, v4: v4, v6: v6, info: Info{Name: "made"}}
}
