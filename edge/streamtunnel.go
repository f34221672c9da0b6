package edge

import (
	"bytes"
	"crypto/sha1" // #nosec G505 -- RFC 6455 section 4.2.2 names it, and nothing is kept secret by it
	"encoding/base64"

	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/pool"
)

// accepted is what an origin must say to a Sec-WebSocket-Key (RFC 6455 section 4.2.2).
func accepted(key string) []byte {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // #nosec G401 -- see the import
	return base64.StdEncoding.AppendEncode(nil, sum[:])
}

// tunnelStream passes the switch of protocols on to a stream, and then whatever comes, until both sides have ended.
func (x *client) tunnelStream(o *Origin, up *pool.Conn) {
	e := &x.x
	defer up.Drop()
	x.guard(nil)
	if accept, _ := x.resp.Field("sec-websocket-accept", 0); !bytes.Equal(accept, accepted(x.s.WebSocketKey)) {
		x.fault(o, Breaks)
		e.fail(502, "origin_websocket")
		x.refuse()
		return
	}
	t := x.newTunnel(up)
	x.endBy(t.farewell)
	defer x.endBy(nil)
	room := x.g.buffers.Lend(h1.Small)
	err := x.s.WriteHead(x.appendSwitch(room.B[:0], o), false)
	x.g.buffers.Return(room)
	if err != nil {
		e.fail(499, "client_left")
		return
	}
	e.fail(200, "")
	e.sent = 200
	if !x.guard(t.abandon) && !t.leaving.Load() {
		e.fail(499, "client_left")
		return
	}
	x.carry(t, up, nil)
	x.guard(nil)
}

// abandon lets the origin go when the client has reset the stream, even if the origin takes nothing. Who is told to go is not cut.
func (t *tunnel) abandon() {
	if !t.leaving.Load() {
		t.origin.cut()
	}
}

// appendSwitch appends the head that tells a client that its stream is a WebSocket. What is about the switch of HTTP/1.1 is left out.
func (x *client) appendSwitch(dst []byte, o *Origin) []byte {
	r := &x.resp
	dst = appendStatus(dst, 200, []byte("OK"))
	dst = r.AppendFields(dst, func(h *h1.Head, i int) bool {
		return x.passesDown(h, i) && !bytes.EqualFold(h.Name(i), []byte("sec-websocket-accept"))
	})
	dst = appendOps(dst, x.plan.Response)
	if !r.Has(h1.Date) {
		dst = x.appendDate(dst)
	}
	x.answered = Answered{Status: 200, Header: &r.Head, Asked: &x.req.Head, Secure: x.secure != ""}
	dst = x.plan.Group.Fields(dst, &x.answered, &x.plan, o)
	return append(dst, "\r\n"...)
}
