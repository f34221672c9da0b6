//go:build !race

package control

// underRace: the race detector is off.
const underRace = false
