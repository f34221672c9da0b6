package edge

import (
	"sync/atomic"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/pool"
)

// upload is the writing of a request body that comes bit by bit. It has the reader of the client, and the writing side of
// the origin, until done is closed.
type upload struct {
	done  chan struct{}
	taken atomic.Bool  // all of the body was read from the client
	ended atomic.Int64 // the conn.Instant at which all was written to the origin; 0: not yet
	stuck atomic.Int64 // that at which the origin took no more; 0: it does
	moved atomic.Int64 // that at which the last part was written
	// err is what kept the body from being read; nil: it was read to its end, or the origin took no more. It is set before
	// done is closed.
	err  error
	in   int64 // octets read
	kept kept  // to be sent again
}

func (x *client) startUpload(up *pool.Conn) {
	u := &upload{done: make(chan struct{}), in: x.x.in}
	x.keepFor(u, up)
	u.taken.Store(x.x.whole)
	x.x.up = u
	go x.upload(u, up, x.x.body)
}

// upload writes a body to an origin as it comes. When it cannot be read, the origin is cut off, so that it cannot take
// half of it for the whole, and whoever waits for its response wakes.
func (x *client) upload(u *upload, up *pool.Conn, part []byte) {
	defer close(u.done)
	chunked := x.req.Length.Kind == h1.Chunked && !x.x.whole // of a whole body the length was said
	begun := x.g.clock.Now()
	for {
		u.taken.Store(x.reader.Done()) // before the origin has it: its response may come at once
		if len(part) > 0 || x.reader.Done() {
			x.keep(u, part)
			if x.writePart(up, part, chunked) != nil {
				u.stuck.Store(int64(x.g.clock.Now()))
				x.readOn(u, begun)
				return // the origin takes no more: what it has to say is read elsewhere
			}
			u.moved.Store(int64(x.g.clock.Now()))
		}
		if x.reader.Done() {
			u.ended.Store(int64(x.g.clock.Now()))
			return
		}
		x.bodyBy(x.bodyLimit(begun, u.in))
		var err error
		part, err = x.reader.Next()
		if u.in += int64(len(part)); err == nil || ended(err) {
			err = x.tooLarge(u.in)
		}
		if err != nil {
			u.err = err
			up.Cut()
			return
		}
	}
}

// writePart writes a part of a body, and the end of it after the last part.
func (x *client) writePart(up *pool.Conn, part []byte, chunked bool) error {
	if up.Stream != nil {
		return x.writeStream(up, part)
	}
	up.WriteBy(x.g.clock.Now().Add(x.g.cfg.WriteTimeout))
	if !chunked {
		_, err := up.Write(part)
		return err
	}
	var room [32]byte
	var before, after []byte
	if len(part) > 0 {
		before, after = h1.AppendChunkSize(room[:0], len(part)), crlf
	}
	if x.reader.Done() {
		var trailer h1.Head
		if err := x.reader.Trailer(&trailer); err != nil {
			return err
		}
		after = h1.AppendLastChunk(append([]byte(nil), after...), &trailer, keepTrailer)
	}
	return up.WriteParts(before, part, after)
}

// bodyLimit is when more of a body must have come. It follows what came, so that slow senders may be slow and those who
// only hold a connection may not.
func (x *client) bodyLimit(begun conn.Instant, in int64) conn.Instant {
	cfg := &x.g.cfg
	if r := x.plan.Route; r != nil && r.GRPC { // nil: rules look at the body before there is one
		return 0 // such a body is a conversation: its pauses are bounded by those of the response
	}
	return min(x.g.clock.Now().Add(cfg.BodyTimeout), begun.Add(cfg.BodyGrace+paid(in, int64(cfg.BodyRate))))
}

// maxPaid is as good as for ever, and far below what a Duration holds.
const maxPaid = 100 * 365 * 24 * time.Hour

// paid is how long so many octets take at a rate. Of some bodies that times a second in nanoseconds is more than an int64 holds.
func paid(in, rate int64) time.Duration {
	if s := float64(in) / float64(rate); s < maxPaid.Seconds() {
		return time.Duration(s * float64(time.Second))
	}
	return maxPaid
}

func (x *client) tooLarge(in int64) error {
	if most := x.plan.Route.MaxBody; most > 0 && in > most {
		return h1.ErrLengthBig
	}
	return nil
}

// over reports whether an upload has ended by itself: the reader of the client is free again.
func (u *upload) over() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// uploading reports whether some of a request body is still to come from the client.
func (e *exchange) uploading() bool { return e.up != nil && !e.up.taken.Load() }

// lastPart is how long the last part of a body may take to be written when the response has been read already: long enough
// for a goroutine that is about to say that it has been.
const lastPart = 100 * time.Millisecond

// endUpload ends the writing of a body, if there is any, and takes the reader of the client back. It reports whether the
// origin got all of the body.
func (x *client) endUpload(up *pool.Conn) (whole bool) {
	e := &x.x
	u := e.up
	if u == nil {
		return true
	}
	if !u.taken.Load() {
		up.Cut()
		x.cutBody()
	}
	late := time.AfterFunc(lastPart, up.Cutter)
	<-u.done
	cut := !late.Stop()
	e.in = u.in
	if !u.taken.Load() {
		e.unread, e.keep = true, false
	}
	if u.err != nil && !isCut(u.err) {
		if e.spoilt = u.err; e.answer.status == 0 {
			x.unread(u.err, "body_timeout")
		}
	}
	if u.taken.Load() && u.kept.on {
		e.kept = &u.kept
	}
	e.up = nil
	return !cut && u.ended.Load() != 0
}
