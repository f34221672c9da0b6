//go:build race

package edge

// underRace: the race detector is on, and pools lose things at random.
const underRace = true
