package edge

import (
	"strconv"

	"steerpoint/edge/internal/accesslog"
	"steerpoint/edge/internal/h1"
)

// finish counts a request and logs it.
func (x *client) finish() {
	e := &x.x
	x.settle()
	now := x.g.clock.Now()
	run := x.g.metrics.none
	if r := x.plan.Route; r != nil && r.run != nil {
		run = r.run
	}
	run.count(e, now.Sub(e.begun))
	x.g.metrics.h2.count(x)
	if e.answer.reason != "" {
		x.g.metrics.reason(e.answer.reason)
	}
	x.endTrace(now)
	if x.g.access.On() {
		room := x.g.buffers.Lend(h1.Small)
		x.g.access.Write(x.appendLine(room.B[:0]))
		x.g.buffers.Return(room)
	}
}

// appendLine appends the line of the access log. docs/gateway-http.md says what each field means.
func (x *client) appendLine(dst []byte) []byte {
	e, q := &x.x, &x.req
	now := x.g.clock.Now()
	dst = append(dst, `{"time":"`...)
	dst = x.g.clock.Wall(e.begun).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	dst = append(dst, `","status":`...)
	dst = strconv.AppendInt(dst, int64(e.answer.status), 10)
	if e.sent != e.answer.status {
		dst = append(dst, `,"sent":`...)
		dst = strconv.AppendInt(dst, int64(max(0, e.sent)), 10)
	}
	dst = appendText(dst, "reason", []byte(e.answer.reason))
	dst = appendText(dst, "method", q.Method())
	if dst = append(dst, `,"scheme":"http`...); x.secure != "" {
		dst = append(dst, 's')
	}
	dst = append(dst, `","protocol":"HTTP/`...)
	dst = append(x.appendVersion(dst), '"')
	dst = appendText(dst, "host", q.Hostname())
	dst = appendText(dst, "target", q.Target())
	dst = append(dst, `,"peer":"`...)
	dst = x.peer.AppendTo(dst)
	dst = append(dst, '"')
	if x.proxied && x.asked.Client.IsValid() {
		dst = append(dst, `,"client":"`...)
		dst = x.asked.Client.Addr().AppendTo(dst)
		dst = append(dst, '"')
	}
	dst = appendText(dst, "user_agent", q.Get(h1.UserAgent))
	dst = appendText(dst, "referer", q.Get(h1.Referer))
	dst = append(dst, `,"in":`...)
	dst = strconv.AppendInt(dst, e.in, 10)
	dst = append(dst, `,"out":`...)
	dst = strconv.AppendInt(dst, e.out, 10)
	dst = append(dst, `,"ms":`...)
	dst = accesslog.AppendMillis(dst, now.Sub(e.begun))
	dst = x.appendOrigin(dst)
	dst = x.appendTraceID(dst)
	dst = x.appendGRPC(dst)
	return append(dst, "}\n"...)
}

// appendOrigin appends who answered, and how long that took.
func (x *client) appendOrigin(dst []byte) []byte {
	e := &x.x
	if r := x.plan.Route; r != nil {
		dst = appendName(dst, "service", r.Service)
		dst = appendName(dst, "route", r.Name)
	}
	o := e.origin
	if o == nil {
		return dst
	}
	dst = appendName(dst, "group", o.Group)
	dst = appendName(dst, "origin", o.Name)
	dst = append(dst, `,"tries":`...)
	dst = strconv.AppendInt(dst, int64(e.tries), 10)
	dst = append(dst, `,"reused":`...)
	dst = strconv.AppendBool(dst, e.reused)
	if e.connected != 0 {
		dst = append(dst, `,"connect_ms":`...)
		dst = accesslog.AppendMillis(dst, millis(e.begun, e.connected))
	}
	if e.headAt != 0 {
		dst = append(dst, `,"origin_ms":`...)
		dst = accesslog.AppendMillis(dst, millis(e.connected, e.headAt))
	}
	return dst
}

// appendText appends a text field of the log, unless it is empty.
func appendText(dst []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return accesslog.AppendString(dst, value)
}

// appendName appends a name of ours, which needs no escape.
func appendName(dst []byte, name, value string) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":"`...)
	dst = append(dst, value...)
	return append(dst, '"')
}
