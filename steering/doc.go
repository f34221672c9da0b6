// Package steering is the decision core: observations and now go in, decisions with reasons come out.
//
// It owns no clock, socket, disk, goroutine or randomness: equal inputs give equal decisions, so a recorded
// timeline replayed gives what happened.
package steering
