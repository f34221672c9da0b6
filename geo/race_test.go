//go:build race

package geo_test

// underRace: the race detector is on, and times are some ten times what they are.
const underRace = true
