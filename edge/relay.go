package edge

import (
	"errors"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/pool"
)

const defaultIdleTimeout = 60 * time.Second

// relay passes a response on, and then gives the connection back if it can be used again.
func (x *client) relay(o *Origin, up *pool.Conn) {
	e := &x.x
	e.fail(x.resp.Status, "")
	if x.resp.Status == 101 && x.s != nil {
		x.tunnelStream(o, up)
		return
	}
	if x.resp.Status == 101 {
		x.tunnel(o, up)
		return
	}
	chunked := x.chunksDown()
	// A request body that is still on its way when the response begins is not waited for. It cannot be known whether a client
	// that waits for 100 Continue will send it.
	e.keep = x.req.KeepAlive && !e.uploading() && x.bodyTaken() && !x.g.clients.draining.Load() &&
		(x.resp.Length.Known() >= 0 || chunked)
	err := x.relayBody(o, up, chunked)
	if err == nil {
		x.noteGRPC(up)
	}
	x.guard(nil)
	whole := x.endUpload(up)
	if !x.bodyTaken() {
		e.unread, e.keep = true, false
	}
	if err == nil && whole && x.resp.KeepAlive && up.Done() && !e.unread {
		up.Put(x.g.clock.Now())
		return
	}
	up.Drop()
	if err != nil {
		x.ruin(o, err)
	}
}

// bodyTaken reports whether nothing of the request body is left to come.
func (x *client) bodyTaken() bool { return x.x.whole || x.x.up != nil || x.reader.Done() }

// chunksDown reports whether the client gets chunks: its response has no known length, and it can read them.
func (x *client) chunksDown() bool {
	return x.resp.Length.Known() < 0 && x.req.Minor == 1 && x.s == nil
}

// errClient is a client that cannot be written to, wrapped around why.
type errClient struct{ err error }

// Error gives what kept the client from being written to.
func (e errClient) Error() string { return "client: " + e.err.Error() }

// relayBody writes head and body. The head goes at once, with what came with it; then each part goes as it comes.
func (x *client) relayBody(o *Origin, up *pool.Conn, chunked bool) error {
	e := &x.x
	room := x.g.buffers.Lend(h1.Small)
	head := x.appendResponse(room.B[:0], o, chunked)
	part, err := up.Ready()
	if err == nil {
		err = x.firstPart(up, head, part, chunked)
	}
	x.g.buffers.Return(room)
	for err == nil && !up.Done() {
		if chunked || x.resp.Length.Known() < 0 {
			x.letGo(up)
		}
		e.waits = x.g.clock.Now()
		up.ReadBy(x.total(e.waits.Add(or(x.plan.Route.IdleTimeout, defaultIdleTimeout))))
		part, err = up.Next()
		if errors.Is(err, conn.ErrTimeout) && x.stillSends() {
			err = nil
			continue
		}
		if err != nil && !ended(err) {
			break
		}
		err = x.nextPart(up, part, chunked)
	}
	if e.sent == 0 && err != nil && !errors.As(err, new(errClient)) {
		e.sent = -1 // nothing has gone out: it can still be said
	}
	return err
}

// letGo gives back what only the beginning of a message needs, so that one that lasts holds little.
func (x *client) letGo(up *pool.Conn) {
	up.Release()
	if u := x.x.up; u != nil && !u.over() {
		return // the reader of the client is in use
	}
	x.asked, x.x.body = Asked{Client: x.asked.Client, Socket: x.asked.Socket}, nil
	x.settle()
	x.reader.Detach(&x.req.Head)
}

// firstPart writes the head with what came of the body.
func (x *client) firstPart(up *pool.Conn, head, part []byte, chunked bool) error {
	x.x.sent = x.resp.Status
	if x.s != nil {
		return x.partToStream(up, head, part)
	}
	before, after, err := x.frame(up, head, part, chunked)
	if err != nil {
		return err
	}
	if len(before)+len(part)+len(after) <= cap(before) {
		before = append(append(before, part...), after...)
		part, after = nil, nil
	}
	return x.write(before, part, after)
}

func (x *client) nextPart(up *pool.Conn, part []byte, chunked bool) error {
	if x.s != nil {
		return x.partToStream(up, nil, part)
	}
	before, after, err := x.frame(up, x.room[:0], part, chunked)
	if err != nil || len(before)+len(part)+len(after) == 0 {
		return err
	}
	return x.write(before, part, after)
}

// frame gives what stands before and after a part: the chunk's frame, and the end of the body after the last part.
func (x *client) frame(up *pool.Conn, dst, part []byte, chunked bool) (before, after []byte, err error) {
	x.x.out += int64(len(part))
	if !chunked {
		return dst, nil, nil
	}
	if len(part) > 0 {
		dst, after = h1.AppendChunkSize(dst, len(part)), crlf
	}
	if !up.Done() {
		return dst, after, nil
	}
	var trailer h1.Head
	if err := up.Trailer(&trailer); err != nil {
		return nil, nil, err
	}
	switch {
	case trailer.Len() > 0:
		after = h1.AppendLastChunk(append([]byte(nil), after...), &trailer, keepTrailer)
	case len(part) > 0:
		after = crlfLast
	default:
		after = last
	}
	return dst, after, nil
}

// Ends of chunks and of chunked bodies.
var (
	crlf     = []byte{'\r', '\n'}
	last     = []byte{'0', '\r', '\n', '\r', '\n'}
	crlfLast = []byte{'\r', '\n', '0', '\r', '\n', '\r', '\n'}
)

func (x *client) write(a, b, c []byte) error {
	x.c.WriteBy(x.g.clock.Now().Add(x.g.cfg.WriteTimeout))
	var err error
	if len(b)+len(c) == 0 {
		_, err = x.c.Write(a)
	} else {
		err = x.c.WriteParts(a, b, c)
	}
	if err != nil {
		x.stalls(err)
		return errClient{err}
	}
	return nil
}

// ruin ends a response that cannot be completed, so that the client can tell.
func (x *client) ruin(o *Origin, err error) {
	e := &x.x
	e.keep = false
	fault := (*h1.Error)(nil)
	switch {
	case errors.As(err, new(errClient)), x.hasLeft():
		e.fail(499, "client_left")
		return
	case e.spoilt != nil: // the origin was cut off for that, and did nothing wrong
		x.unread(e.spoilt, "body_timeout")
	case errors.Is(err, conn.ErrTimeout) && (x.overdue() || x.rushed()):
		e.fail(504, "deadline")
	case errors.Is(err, conn.ErrTimeout):
		x.fault(o, TimesOut)
		e.fail(502, "origin_paused")
	case errors.As(err, &fault) && !errors.Is(err, h1.ErrCut):
		x.fault(o, Breaks)
		e.fail(502, "origin_"+fault.Code)
	default:
		x.fault(o, Breaks)
		e.fail(502, "origin_cut")
	}
	if e.sent < 0 {
		e.sent = 0
		x.refuse()
		return
	}
	if x.s != nil {
		return // it is reset when it is closed
	}
	x.c.Cut() // it ends with RST, which nobody takes for the end of the body, and TLS does not say that all was sent
}
