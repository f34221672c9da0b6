package edge

import (
	"errors"
	"strconv"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// reply answers a request without an origin, as x.x.answer and the plan say. It reports whether another one may follow: not
// when its body was not read.
func (x *client) reply() (more bool) {
	e := &x.x
	x.guard(nil)
	for !x.reader.Done() {
		if part, err := x.reader.Ready(); err != nil || len(part) == 0 {
			e.unread = true
			break
		}
	}
	e.keep = x.req.KeepAlive && !e.unread && e.answer.status != 499 && !x.g.clients.draining.Load()
	x.say()
	return e.keep
}

// refuse answers a request that cannot be read, or not to its end. The connection ends with it.
func (x *client) refuse() {
	x.x.keep, x.x.unread = false, true
	x.say()
}

// say writes an answer of the gateway's own.
func (x *client) say() {
	e := &x.x
	if e.answer.status == 499 {
		return // there is nobody to tell
	}
	if x.isGRPC() {
		defer x.speakGRPC()()
	}
	room := x.g.buffers.Lend(h1.Small)
	defer x.g.buffers.Return(room)
	dst := appendStatus(room.B[:0], e.answer.status, []byte(phrase(e.answer.status)))
	dst = x.appendDate(dst)
	if e.answer.status >= 400 && !overruled(x.plan.Response, "Cache-Control") {
		dst = append(dst, "Cache-Control: no-store\r\n"...) // the fault may be gone at the next request
	}
	dst = appendOps(dst, x.plan.Response)
	dst = x.appendTiming(dst)
	if p := &x.plan; p.Status != 0 {
		if len(p.Location) > 0 {
			dst = h1.AppendField(dst, "Location", p.Location)
		}
		if p.Retry > 0 {
			dst = append(dst, "Retry-After: "...)
			dst = strconv.AppendInt(dst, seconds(p.Retry), 10)
			dst = append(dst, "\r\n"...)
		}
	}
	body := x.text()
	if status := e.answer.status; status >= 200 && status != 204 && status != 304 {
		kind := x.plan.ContentType
		if x.plan.Body == nil {
			kind = "text/plain; charset=utf-8"
		}
		if kind != "" {
			dst = append(append(append(dst, "Content-Type: "...), kind...), "\r\n"...)
		}
		dst = appendLength(dst, int64(len(body)))
	} else {
		body = nil
	}
	dst = x.appendConnection(dst)
	if x.s != nil {
		x.sayToStream(dst, body)
		return
	}
	if string(x.req.Method()) != "HEAD" {
		dst = append(dst, body...)
		e.out = int64(len(body))
	}
	e.sent = e.answer.status
	x.c.WriteBy(x.g.clock.Now().Add(x.g.cfg.WriteTimeout))
	if _, err := x.c.Write(dst); err != nil {
		e.keep = false
	}
}

// text is the body of an answer of the gateway's own: the status, and the reason as it stands in the log.
func (x *client) text() []byte {
	if x.plan.Status != 0 && x.plan.Body != nil {
		return x.plan.Body
	}
	a := &x.x.answer
	dst := strconv.AppendInt(nil, int64(a.status), 10)
	dst = append(append(dst, ' '), phrase(a.status)...)
	if a.reason != "" {
		dst = append(append(dst, ": "...), a.reason...)
	}
	return append(dst, '\n')
}

// phrase is the reason phrase of the statuses that a gateway gives by itself.
func phrase(status int) string {
	switch status {
	case 200:
		return "OK"
	case 204:
		return "No Content"
	case 301:
		return "Moved Permanently"
	case 302:
		return "Found"
	case 307:
		return "Temporary Redirect"
	case 308:
		return "Permanent Redirect"
	case 400:
		return "Bad Request"
	case 403:
		return "Forbidden"
	case 404:
		return "Not Found"
	case 405:
		return "Method Not Allowed"
	case 408:
		return "Request Timeout"
	case 413:
		return "Content Too Large"
	case 414:
		return "URI Too Long"
	case 417:
		return "Expectation Failed"
	case 429:
		return "Too Many Requests"
	case 431:
		return "Request Header Fields Too Large"
	}
	return serverPhrase(status)
}

func serverPhrase(status int) string {
	switch status {
	case 500:
		return "Internal Server Error"
	case 501:
		return "Not Implemented"
	case 502:
		return "Bad Gateway"
	case 503:
		return "Service Unavailable"
	case 504:
		return "Gateway Timeout"
	case 505:
		return "HTTP Version Not Supported"
	case 508:
		return "Loop Detected"
	}
	return ""
}

// isCut reports whether an error is of a connection that was cut here.
func isCut(err error) bool { return errors.Is(err, conn.ErrCut) }

// millis is a time between two instants, 0 if one is missing.
func millis(from, to conn.Instant) time.Duration {
	if from == 0 || to == 0 {
		return 0
	}
	return to.Sub(from)
}
