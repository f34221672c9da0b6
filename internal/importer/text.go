package importer

import (
	"slices"

	"steerpoint/spec"
)

// Distinct gives each address once, in the order of their first places.
func Distinct(list []spec.Address) []spec.Address {
	var out []spec.Address
	for _, a := range list {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
