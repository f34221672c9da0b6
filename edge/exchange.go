package edge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2up"
	"steerpoint/edge/internal/pool"
)

// exchange is what is known of one request and of what became of it.
type exchange struct {
	begun    conn.Instant  // when its first octet was there
	deadline time.Duration // that a client of gRPC gave; 0: none
	grpc     int           // 1 + the status of the call; 0: it is none, or not known
	answer   struct {
		status int    // what is logged: 499 when the client left before the end
		reason string // why, in one word; "": an origin answered and all of it arrived
	}
	sent    int   // the status that was sent; 0: none
	in, out int64 // octets of bodies, without framing

	origin    *Origin
	tries     int
	tried     uint64
	fresh     bool // an idle connection was dead: the next one is to be new
	reused    bool
	connected conn.Instant
	headAt    conn.Instant // when the head of the response was there
	triedAt   conn.Instant // when a connection to the origin was first wanted
	trace     traced

	body   []byte // of the request: all of it if whole, or else the part that came with the head
	whole  bool
	up     *upload
	keep   bool // the connection goes on after this
	unread bool // something of the request may still come

	held     int64        // of body, counted in Gateway.bodies
	stalled  bool         // the client did not take what was sent
	uploaded bool         // a body was begun to be written as it came
	kept     *kept        // all of that body, when it has come to its end; nil: it was not kept
	spoilt   error        // what kept the rest of the request body from being read, once its upload has ended; nil: nothing did
	waits    conn.Instant // since when the origin has been waited for
}

func (e *exchange) begin(now conn.Instant) { *e = exchange{begun: now} }

// fail says what a request that failed is answered with.
func (e *exchange) fail(status int, reason string) { e.answer.status, e.answer.reason = status, reason }

// exchange answers a request whose head was read. It reports whether another one may follow.
func (x *client) exchange() (more bool) {
	e := &x.x
	if err := x.gather(); err != nil {
		x.unread(err, "body_timeout")
		x.refuse()
		return false
	}
	x.ask()
	x.beginTrace()
	director := x.g.site.Load().Director
	if err := x.awaitBody(director); err != nil {
		return x.unreadBody(err)
	}
	director.Direct(&x.asked, &x.plan)
	p := &x.plan
	switch {
	case p.Status != 0:
		e.fail(p.Status, p.Reason)
		return x.reply()
	case p.Route == nil || p.Group == nil:
		e.fail(500, "no_route")
		return x.reply()
	case x.hops() >= x.g.cfg.MaxHops:
		e.fail(508, "loop")
		return x.reply()
	case x.tooLarge(max(x.req.Length.N, e.in)) != nil:
		e.fail(413, h1.ErrLengthBig.Code)
		return x.reply()
	}
	x.route.Store(p.Route)
	defer x.route.Store(nil)
	if err := x.holdBody(); err != nil {
		return x.unreadBody(err)
	}
	return x.forward()
}

// gather takes the request body when it came with the head: then it can be sent again.
func (x *client) gather() (err error) {
	e := &x.x
	if e.body, err = x.reader.Ready(); err != nil {
		return err
	}
	e.in = int64(len(e.body))
	e.whole = x.reader.Done()
	return nil
}

// unread says what a request that cannot be read is answered with; late is the reason when it did not come in time.
func (x *client) unread(err error, late string) {
	fault := (*h1.Error)(nil)
	switch {
	case errors.Is(err, h1.ErrCut):
		x.x.fail(499, "client_left")
	case errors.As(err, &fault):
		x.x.fail(fault.Status, fault.Code)
	case errors.Is(err, conn.ErrTimeout):
		x.x.fail(408, late)
	default:
		x.x.fail(499, "client_left")
	}
}

// step is what comes after a try.
type step uint8

const (
	answered step = iota // a response was sent, or as much of it as there was
	another              // another origin may be tried
	over                 // no response can be had: x.x.answer says why
)

const defaultTries = 3

// forward gives the request to an origin, and to another one if that may be.
func (x *client) forward() (more bool) {
	e := &x.x
	x.readDeadline()
	tries := or(x.plan.Tries, defaultTries)
	for next := another; ; {
		o, why := x.plan.Group.Choose(&x.asked, &x.plan, time.Duration(x.g.clock.Now()), e.tried)
		if o == nil {
			if e.tries == 0 {
				e.fail(503, why)
			}
			return x.reply()
		}
		next = x.try(o)
		switch {
		case next == answered:
			return e.keep
		case next == over || e.tries >= tries || x.hasLeft():
			return x.reply()
		}
	}
}

// try gives the request to one origin.
func (x *client) try(o *Origin) step {
	e := &x.x
	e.origin, e.fresh = o, false
	e.fail(0, "") // what the one before failed for is not this one's
	e.tries++
	e.tried |= 1 << o.Index
	for {
		up, next := x.connect(o)
		if up == nil {
			return next
		}
		err := x.send(o, up)
		if err == nil || e.up != nil {
			err = x.await(up)
		}
		if err == nil {
			x.heard()
			x.report(o, x.resp.Status)
			x.relay(o, up)
			return answered
		}
		x.guard(nil)
		e.waits = x.waitedSince()
		x.gatherRest(err)
		x.endUpload(up)
		up.Drop()
		next, again := x.broke(o, up, err)
		if !again {
			return next
		}
		e.fresh = true
		o.run.stale.Add(1)
	}
}

// broke says what becomes of a request that got no response on a connection. again is on a new one to the same origin: the
// idle one was closed by it meanwhile, as it may.
func (x *client) broke(o *Origin, up *pool.Conn, err error) (next step, again bool) {
	e := &x.x
	fault := (*h1.Error)(nil)
	switch {
	case e.answer.status != 0: // the fault is the client's
		return over, false
	case x.hasLeft():
		e.fail(499, "client_left")
		return over, false
	case errors.Is(err, conn.ErrTimeout) && (x.overdue() || x.rushed()):
		e.fail(504, "deadline")
		return over, false
	case errors.Is(err, conn.ErrTimeout):
		x.fault(o, TimesOut)
		e.fail(504, "origin_timeout")
		return over, false
	case up.Stream != nil:
		return x.brokeStream(o, up, err)
	case errors.As(err, &fault) && !errors.Is(err, h1.ErrCut):
		x.fault(o, Breaks)
		e.fail(502, "origin_"+fault.Code)
		return over, false
	case up.Reused && x.replayable() && !errors.Is(err, h1.ErrCut):
		return another, true
	}
	x.fault(o, Breaks)
	e.fail(502, "origin_closed")
	if x.replayable() {
		return another, false
	}
	return over, false
}

// replayable reports whether a request that may have been received can be sent again: then its method means the same when
// it is received twice, and all of its body is still here.
func (x *client) replayable() bool { return x.x.whole && x.repeatable() }

func (x *client) repeatable() bool {
	switch string(x.req.Method()) {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE":
		return true
	}
	if x.plan.IdempotencyField == "" {
		return false
	}
	_, ok := x.req.Field(x.plan.IdempotencyField, 0)
	return ok
}

// staleAfter is how long a connection may have been idle that gets a request which cannot be sent again: the longer it
// was, the more likely the origin is closing it at this moment.
const staleAfter = time.Second

// connect finds a connection to an origin, or says what comes next.
func (x *client) connect(o *Origin) (*pool.Conn, step) {
	e := &x.x
	now := x.g.clock.Now()
	e.triedAt, e.waits = now, now
	if !e.fresh {
		limit := staleAfter
		if x.replayable() {
			limit = 0
		}
		if up := o.pool(x).Idle(now, limit); up != nil {
			e.reused, e.connected = true, now
			return x.guarded(o, up)
		}
	}
	ctx, cancel := x.context(now)
	defer cancel()
	if !x.guard(cancel) {
		e.fail(499, "client_left")
		return nil, over
	}
	up, err := o.pool(x).Dial(ctx, e.fresh, x.plan.Route.ConnectTimeout)
	if err != nil {
		x.guard(nil)
		return nil, x.refused(o, err)
	}
	e.reused, e.connected = up.Reused, x.g.clock.Now()
	return x.guarded(o, up)
}

// context bounds a connect by what the whole request may take.
func (x *client) context(now conn.Instant) (context.Context, context.CancelFunc) {
	if total := x.totalTimeout(); total > 0 {
		return context.WithTimeout(context.Background(), x.x.begun.Add(total).Sub(now))
	}
	return context.WithCancel(context.Background())
}

func (x *client) guarded(o *Origin, up *pool.Conn) (*pool.Conn, step) {
	if x.guard(up.Cutter) {
		return up, answered
	}
	x.guard(nil)
	up.Drop()
	x.x.fail(499, "client_left")
	return nil, over
}

// refused says what comes after a connection that was not made. Nothing was sent, so that another origin may be tried.
func (x *client) refused(o *Origin, err error) step {
	e := &x.x
	switch {
	case x.hasLeft():
		e.fail(499, "client_left")
		return over
	case errors.Is(err, context.DeadlineExceeded) && (x.overdue() || x.rushed()):
		e.fail(504, "deadline")
		return over
	case errors.Is(err, pool.ErrBusy):
		e.fail(503, "origin_busy")
		return another
	case errors.Is(err, pool.ErrClosed):
		e.fail(503, "origin_removed")
		return another
	case errors.Is(err, h2up.ErrNotHTTP2):
		x.fault(o, Refuses)
		e.fail(502, "origin_not_http2")
		return another
	case errors.Is(err, context.DeadlineExceeded):
		x.fault(o, TimesOut)
		e.fail(504, "connect_timeout")
		return another
	}
	x.fault(o, Refuses)
	e.fail(502, "connect_failed")
	return another
}

// send writes the request. A body that is not here as a whole is written by a second goroutine, once it is asked for.
func (x *client) send(o *Origin, up *pool.Conn) error {
	if up.Stream != nil {
		return x.sendStream(o, up)
	}
	e := &x.x
	room := x.g.buffers.Lend(h1.Small)
	up.WriteBy(e.connected.Add(x.g.cfg.WriteTimeout))
	head := x.appendRequest(room.B[:0], o)
	if e.whole && len(head)+len(e.body) <= len(room.B) {
		up.ReadBy(x.responseLimit()) // Ask waits for the response already
		return up.Ask(room, len(append(head, e.body...)))
	}
	defer x.g.buffers.Return(room)
	if e.whole && len(e.body) <= maxAtOnce {
		return up.WriteParts(head, e.body, nil)
	}
	if _, err := up.Write(head); err != nil {
		return err
	}
	if !x.req.Continue || len(e.body) > 0 {
		x.startUpload(up)
	}
	return nil
}

// maxAtOnce is how much of a body that is here is written before anything is read: about as much as systems take for an
// origin that takes nothing, such as one that has refused the request by its head.
const maxAtOnce = 64 << 10

const (
	// maxInformation bounds the responses before the response.
	maxInformation = 16
	// continueAfter is how long a client that asked waits for 100 Continue when the origin says nothing: many know nothing
	// of it and wait for the body.
	continueAfter = time.Second
)

// await reads the head of the response, past those that come before it.
func (x *client) await(up *pool.Conn) error {
	e := &x.x
	waits := x.req.Continue && e.up == nil && !e.whole
	for n := 0; n < maxInformation; {
		x.limitResponse(up, waits)
		err := up.Response(&x.resp, string(x.req.Method()) == "HEAD")
		switch {
		case errors.Is(err, conn.ErrTimeout) && waits:
			if err := x.sayContinue(); err != nil {
				return err
			}
			waits = false
			x.startUpload(up)
			continue
		case errors.Is(err, conn.ErrTimeout) && e.up != nil && x.g.clock.Now() < x.responseLimit():
			continue // the body is still on its way, or has just arrived
		case err != nil:
			return err
		case x.resp.Status == 101 && !x.req.WebSocket:
			return h1.ErrStatusLine
		case !x.resp.Informational():
			return nil
		case x.resp.Status != 100:
			if err := x.information(); err != nil {
				return err
			}
		case waits:
			if err := x.sayContinue(); err != nil {
				return err
			}
			waits = false
			x.startUpload(up)
		}
		n++
	}
	return h1.ErrInformation
}

// limitResponse sets the limit for the head of the response.
func (x *client) limitResponse(up *pool.Conn, waits bool) {
	at := x.responseLimit()
	if waits {
		at = min(at, x.g.clock.Now().Add(continueAfter))
	}
	up.ReadBy(at)
}

const defaultResponseTimeout = 30 * time.Second

// responseLimit is when the origin must have begun its response: some time after it had all of the request.
func (x *client) responseLimit() conn.Instant {
	from := x.x.connected
	if up := x.x.up; up != nil {
		if from = conn.Instant(max(up.ended.Load(), up.stuck.Load())); from == 0 {
			from = x.sendsSince(up)
		}
	}
	return x.total(from.Add(x.patience()))
}

// total brings a limit within what the whole request may take.
func (x *client) total(at conn.Instant) conn.Instant {
	if total := x.totalTimeout(); total > 0 {
		return min(at, x.x.begun.Add(total))
	}
	return at
}

func (x *client) sayContinue() error { return x.toClient([]byte("HTTP/1.1 100 Continue\r\n\r\n")) }

// information passes on a response that comes before the response, to who can know of it.
func (x *client) information() error {
	if x.req.Minor == 0 {
		return nil
	}
	room := x.g.buffers.Lend(h1.Small)
	defer x.g.buffers.Return(room)
	head := appendStatus(room.B[:0], x.resp.Status, x.resp.Reason())
	head = x.resp.AppendFields(head, x.keepResponse)
	return x.toClient(append(head, "\r\n"...))
}

// toClient writes to the client. When it cannot, the client has left.
func (x *client) toClient(p []byte) error {
	var err error
	if x.s != nil {
		err = x.s.WriteHead(p, false)
	} else {
		x.c.WriteBy(x.g.clock.Now().Add(x.g.cfg.WriteTimeout))
		_, err = x.c.Write(p)
	}
	if err != nil {
		x.stalls(err)
		x.x.fail(499, "client_left")
	}
	return err
}

// report tells a group, and the metrics, how an origin answered.
func (x *client) report(o *Origin, status int) {
	e := &x.x
	e.headAt = x.g.clock.Now()
	result := Answers
	if status >= 500 {
		result = Fails
	}
	o.run.results[result].Add(1)
	o.run.took.observe(e.headAt.Sub(e.connected))
	x.plan.Group.Report(o, time.Duration(e.headAt), result)
}

func (x *client) fault(o *Origin, r Result) {
	o.run.results[r].Add(1)
	x.plan.Group.Report(o, time.Duration(x.g.clock.Now()), r)
}

// hops counts the gateways of Steerpoint that a request came through.
func (x *client) hops() int {
	n := 0
	if !x.req.Has(h1.Via) {
		return 0
	}
	for i := range x.req.Len() {
		if x.req.ID(i) == h1.Via {
			n += bytes.Count(x.req.Value(i), []byte(" "+viaName))
		}
	}
	return n
}

func or[T int | int64 | time.Duration](v, zero T) T {
	if v == 0 {
		return zero
	}
	return v
}

// ended reports whether an error of a body is its end.
func ended(err error) bool { return errors.Is(err, io.EOF) }
