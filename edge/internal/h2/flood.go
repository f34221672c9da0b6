package h2

import (
	"time"

	"steerpoint/edge/internal/conn"
)

// offence is what costs us work and brings the peer nothing. Each is innocent now and then; who does much more of it than
// any program has reason to is not answered any longer.
type offence uint8

const (
	resets   offence = iota // streams that the peer reset, that were refused, or that were malformed
	pings                   // PING
	settings                // SETTINGS
	empties                 // DATA without content and without an end, PRIORITY, frames of unknown types
	updates                 // WINDOW_UPDATE beyond what we sent gave reason for
	offences
)

// allowances are how much of each may come at once, and how much more each second.
var allowances = [offences]struct {
	burst, perSecond int
	reason           string
}{
	// A browser that leaves a page resets all it had asked for: MaxStreams at once, page after page.
	resets: {300, 30, "resets"},
	// Programs that measure the round trip by PING send one for each few frames of DATA.
	pings:    {100, 20, "pings"},
	settings: {20, 1, "settings"},
	empties:  {500, 50, "empty_frames"},
	updates:  {2000, 200, "window_updates"},
}

// flood counts offences. They are forgiven at a steady rate.
type flood struct {
	level [offences]int
	at    [offences]conn.Instant // when level was brought up to date
}

// add counts one. It reports whether that is too much.
func (f *flood) add(o offence, now conn.Instant) (reason string, over bool) {
	a := &allowances[o]
	each := time.Second / time.Duration(a.perSecond)
	if forgiven := int(now.Sub(f.at[o]) / each); forgiven >= f.level[o] {
		f.level[o], f.at[o] = 0, now
	} else {
		f.level[o] -= forgiven
		f.at[o] += conn.Instant(time.Duration(forgiven) * each)
	}
	f.level[o]++
	return a.reason, f.level[o] > a.burst
}

// forgive takes n back that there was a reason for.
func (f *flood) forgive(o offence, n int) { f.level[o] = max(0, f.level[o]-n) }
