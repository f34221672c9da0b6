//go:build !race

package geo_test

// underRace: the race detector is off, and times are real.
const underRace = false
