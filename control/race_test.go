//go:build race

package control

// underRace: the race detector is on, and each start of a control takes seconds.
const underRace = true
