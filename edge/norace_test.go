//go:build !race

package edge

// underRace: the race detector is off, and pools keep what they are given.
const underRace = false
