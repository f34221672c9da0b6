package edge

import (
	"steerpoint/edge/internal/accesslog"
)

// appendTiming appends Server-Timing where that is wanted (W3C Server Timing): what the time until the head of the response
// went to, in milliseconds. edge is the gateway's own, with the wait for a body and for origins that were passed over;
// connect is the connection to the origin that answered, none when it was there already; origin is until its head came.
func (x *client) appendTiming(dst []byte) []byte {
	if !x.g.cfg.ServerTiming {
		return dst
	}
	e := &x.x
	all := x.g.clock.Now().Sub(e.begun)
	connect, origin := millis(e.triedAt, e.connected), millis(e.connected, e.headAt)
	if e.headAt == 0 {
		connect, origin = 0, 0 // nobody answered: all of it is ours
	}
	dst = append(dst, "Server-Timing: edge;dur="...)
	dst = accesslog.AppendMillis(dst, all-connect-origin)
	if e.headAt != 0 {
		dst = append(dst, ", connect;dur="...)
		dst = accesslog.AppendMillis(dst, connect)
		dst = append(dst, ", origin;dur="...)
		dst = accesslog.AppendMillis(dst, origin)
	}
	return append(dst, "\r\n"...)
}
