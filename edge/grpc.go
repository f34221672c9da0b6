package edge

import (
	"strconv"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/pool"
	"steerpoint/edge/internal/route"
)

// This file is what a gateway knows of gRPC: how clients tell their deadline, and how they are told that a call has failed.

// isGRPC reports whether a request is a call of gRPC, by its content type.
func (x *client) isGRPC() bool {
	const kind = "application/grpc"
	v := x.req.Get(h1.ContentType)
	if len(v) < len(kind) || string(v[:len(kind)]) != kind {
		return false
	}
	return len(v) == len(kind) || v[len(kind)] == '+' || v[len(kind)] == ';' // and not -web, which is for browsers
}

// readDeadline reads the time that a client of gRPC gave, from when its request began.
func (x *client) readDeadline() {
	if !x.plan.Route.GRPC {
		return
	}
	if v, ok := x.req.Field("grpc-timeout", 0); ok {
		x.x.deadline = grpcTimeout(v)
	}
}

// maxDeadline is above what a Duration holds of the longest grpc-timeout.
const maxDeadline = 1000 * 24 * time.Hour

// grpcTimeout reads a grpc-timeout: at most eight digits and a unit. 0: it is none.
func grpcTimeout(v []byte) time.Duration {
	if len(v) < 2 || len(v) > 9 {
		return 0
	}
	n := int64(0)
	for _, o := range v[:len(v)-1] {
		if o < '0' || o > '9' {
			return 0
		}
		n = n*10 + int64(o-'0')
	}
	unit := time.Duration(0)
	switch v[len(v)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0
	}
	if n > int64(maxDeadline/unit) {
		return maxDeadline
	}
	return max(1, time.Duration(n)*unit) // 0 is over at once
}

// totalTimeout is what the whole request may take: what the route gives it, and what its client does. 0: no bound.
func (x *client) totalTimeout() time.Duration {
	total := x.plan.Route.TotalTimeout
	if d := x.x.deadline; d > 0 && (total == 0 || d < total) {
		return d
	}
	return total
}

// overdue reports whether the time is over that the client gave. That is no fault of an origin.
func (x *client) overdue() bool {
	e := &x.x
	return e.deadline > 0 && x.g.clock.Now() >= e.begun.Add(e.deadline)
}

// patience is how long an origin may take to begin its response. Many servers of gRPC begin it with their first message, which may
// be as late as any other.
func (x *client) patience() time.Duration {
	r := x.plan.Route
	d := or(r.ResponseTimeout, defaultResponseTimeout)
	if r.GRPC {
		d = max(d, or(r.IdleTimeout, defaultIdleTimeout))
	}
	return d
}

// sendsSince is from when on the response is waited for while a body is still sent: from now on, and in a conversation from the
// last that was said.
func (x *client) sendsSince(u *upload) conn.Instant {
	if x.plan.Route.GRPC {
		return max(conn.Instant(u.moved.Load()), x.x.connected)
	}
	return x.g.clock.Now()
}

// The codes of gRPC that failures of a gateway are.
const (
	grpcUnknown         = 2
	grpcDeadline        = 4
	grpcPermission      = 7
	grpcExhausted       = 8
	grpcUnimplemented   = 12
	grpcInternal        = 13
	grpcUnavailable     = 14
	grpcUnauthenticated = 16
)

// grpcCode is the code of gRPC for a failure, by the table of gRPC for statuses of HTTP. What has run out of time after it was sent
// says so: whoever takes it for unavailable sends it again.
func grpcCode(status int, reason string) int {
	switch {
	case reason == "origin_timeout", reason == "deadline", status == 408:
		return grpcDeadline
	case reason == route.NoHost, reason == route.NoPath:
		return grpcUnimplemented
	}
	switch status {
	case 400, 500:
		return grpcInternal
	case 401:
		return grpcUnauthenticated
	case 403:
		return grpcPermission
	case 404, 501:
		return grpcUnimplemented
	case 413, 431:
		return grpcExhausted
	case 429, 502, 503, 504:
		return grpcUnavailable
	}
	return grpcUnknown
}

// speakGRPC makes an answer of the gateway's own, if it is a failure, one of gRPC: status 200, and the code in a field. What it
// gives brings the status back that is logged.
func (x *client) speakGRPC() (restore func()) {
	a, p := &x.x.answer, &x.plan
	status := a.status
	if status < 400 {
		return func() {}
	}
	code := grpcCode(status, a.reason)
	x.x.grpc = 1 + code
	text := strconv.Itoa(status) + " " + phrase(status)
	if a.reason != "" {
		text += ": " + a.reason
	}
	p.Response = append(p.Response[:len(p.Response):len(p.Response)],
		HeaderOp{Name: "grpc-status", Value: strconv.AppendInt(nil, int64(code), 10)},
		HeaderOp{Name: "grpc-message", Value: grpcMessage(text)})
	a.status, p.Status, p.Body, p.ContentType = 200, 200, []byte{}, "application/grpc"
	return func() { a.status = status }
}

// grpcMessage escapes a text for grpc-message: what is not printable ASCII, and %.
func grpcMessage(text string) []byte {
	const hex = "0123456789ABCDEF"
	var dst []byte
	for i := range len(text) {
		if o := text[i]; o < ' ' || o > '~' || o == '%' {
			dst = append(dst, '%', hex[o>>4], hex[o&15])
		} else {
			dst = append(dst, o)
		}
	}
	return dst
}

// noteGRPC keeps the status of a call that an origin has answered to its end, for the log: it stands in the trailer, or in the
// head of a response that has nothing else.
func (x *client) noteGRPC(up *pool.Conn) {
	if !x.plan.Route.GRPC {
		return
	}
	var trailer h1.Head
	v, ok := x.resp.Field("grpc-status", 0)
	if !ok && up.Trailer(&trailer) == nil {
		v, ok = trailer.Field("grpc-status", 0)
	}
	if code, err := strconv.Atoi(string(v)); ok && err == nil && 0 <= code && code <= maxGRPC {
		x.x.grpc = 1 + code
	}
}

// maxGRPC is above every code of gRPC, which are 0 to 16.
const maxGRPC = 999

// appendGRPC appends the status of a call to its line in the log.
func (x *client) appendGRPC(dst []byte) []byte {
	if x.x.grpc == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, `,"grpc_status":`...), int64(x.x.grpc-1), 10)
}
