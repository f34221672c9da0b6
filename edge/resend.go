package edge

import (
	"errors"
	"sync"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2up"
	"steerpoint/edge/internal/pool"
)

// This file is how a body that an origin with HTTP/2 has refused is sent again: such an origin says that it has not begun on a request
// only after some of its body has gone out.

// maxKept is how much of a body is kept for that: as much as goes out on a stream before an origin has given it room (RFC 9113 section
// 6.9.2).
const maxKept = 64 << 10

// kept is what was read of a body that is being written.
type kept struct {
	mu   sync.Mutex
	on   bool // all that was read is here
	body []byte
	held int64 // of the request, counted before
	// short is a body that says that it is no longer than what is kept: the rest of it can be waited for.
	short bool
}

// keepFor decides whether a body is kept while it is written.
func (x *client) keepFor(u *upload, up *pool.Conn) {
	if x.x.uploaded = true; up.Stream == nil || x.x.whole {
		return
	}
	u.kept.on, u.kept.held = true, x.x.held
	u.kept.short = x.req.Length.Kind == h1.Sized && x.req.Length.N <= maxKept && !x.plan.Route.GRPC
}

// keep keeps a part, and with the last one sees that nothing follows it that would be lost.
func (x *client) keep(u *upload, part []byte) {
	k := &u.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.on {
		return
	}
	var trailer h1.Head
	if len(k.body)+len(part) > maxKept || !x.g.bodies.take(&x.x, x.g.cfg.BodyMemory) ||
		x.reader.Done() && (x.reader.Trailer(&trailer) != nil || trailer.Len() > 0) {
		x.dropKept(k)
		return
	}
	k.body = append(k.body, part...)
	x.g.bodies.adjust(&x.x, k.held+int64(len(k.body)))
}

func (x *client) dropKept(k *kept) {
	x.g.bodies.adjust(&x.x, k.held)
	k.on, k.body = false, nil
}

// heard ends the keeping of a body: the origin has begun to answer.
func (x *client) heard() {
	if u := x.x.up; u != nil {
		u.kept.mu.Lock()
		defer u.kept.mu.Unlock()
		if u.kept.on {
			x.dropKept(&u.kept)
		}
	}
}

// waitable reports whether the rest of a body is worth waiting for, though the origin takes nothing of it.
func (u *upload) waitable() bool {
	u.kept.mu.Lock()
	defer u.kept.mu.Unlock()
	return u.kept.on && u.kept.short
}

// readOn reads the rest of a body that the origin takes no more of.
func (x *client) readOn(u *upload, begun conn.Instant) {
	for !x.reader.Done() && u.waitable() {
		x.bodyBy(x.total(x.bodyLimit(begun, u.in)))
		part, err := x.reader.Next()
		u.in += int64(len(part))
		if err != nil && !ended(err) {
			u.err = err
			return
		}
		x.keep(u, part)
		u.taken.Store(x.reader.Done())
	}
}

// gatherRest waits for the rest of a body when the origin has not begun on the request, so that it can be sent again.
func (x *client) gatherRest(err error) {
	u := x.x.up
	if u == nil || !errors.Is(err, h2up.ErrUnprocessed) || !u.waitable() || !x.guard(x.cutBody) {
		return
	}
	<-u.done
	x.guard(nil)
}

// restore has the whole body at hand again of a request that the origin has not begun on, and reports whether it has.
func (x *client) restore() bool {
	e := &x.x
	switch {
	case e.whole, !e.uploaded: // all of it is here, or none has been read but what came with the head
		return true
	case e.kept == nil:
		return false
	}
	e.body, e.whole = e.kept.body, true
	x.asked.Body = nil // it lies where another part does now
	return true
}
