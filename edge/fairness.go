package edge

import "steerpoint/edge/internal/conn"

// This file is what an origin is not blamed for.

// rushed reports whether the time of the whole request is over and the origin had less than half of it: before that the
// client was sending or reading, or others were tried. Were that a fault of the origin, slow clients could have the origins
// of a group left out, one after the other.
func (x *client) rushed() bool {
	e, total := &x.x, x.totalTimeout()
	return total > 0 && x.g.clock.Now() >= e.begun.Add(total) && e.waits > e.begun.Add(total/2)
}

// waitedSince is since when an origin that has not answered could have: it has all of the request since then, or takes no
// more of it.
func (x *client) waitedSince() conn.Instant {
	e, u := &x.x, x.x.up
	switch {
	case u == nil, u.stuck.Load() != 0:
		return e.connected
	case u.ended.Load() != 0:
		return conn.Instant(u.ended.Load())
	}
	return x.g.clock.Now() // the rest is still to come from the client
}
