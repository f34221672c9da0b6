package edge

import (
	"crypto/tls"
	"errors"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2up"
	"steerpoint/edge/internal/pool"
)

// This file is what differs when an origin is asked by HTTP/2.

// speaking is a TLS configuration that offers one protocol; nil: plain.
func speaking(config *tls.Config, protocol string) *tls.Config {
	if config == nil {
		return nil
	}
	c := config.Clone()
	c.NextProtos = []string{protocol}
	return c
}

func (g *Gateway) newOriginRun(o *Origin, k originKey) *originRun {
	r := &originRun{key: k}
	of := *o
	if o.HTTP2 {
		of.HTTP2, of.TLS = false, speaking(o.TLS, "http/1.1")
		r.old = g.newPool(&of, r)
		of.HTTP2, of.TLS = true, speaking(o.TLS, "h2")
	}
	r.pool = g.newPool(&of, r)
	return r
}

func (r *originRun) trim(now conn.Instant) {
	r.pool.Trim(now)
	if r.old != nil {
		r.old.Trim(now)
	}
}

func (r *originRun) close() {
	r.pool.Close()
	if r.old != nil {
		r.old.Close()
	}
}

func (r *originRun) counts() pool.Counts {
	n := r.pool.Counts()
	if r.old != nil {
		o := r.old.Counts()
		n.Active, n.Idle, n.Waiting = n.Active+o.Active, n.Idle+o.Idle, n.Waiting+o.Waiting
	}
	return n
}

// pool is where a request has its connection from.
func (o *Origin) pool(x *client) *pool.Pool {
	if o.run.old != nil && x.req.WebSocket {
		return o.run.old
	}
	return o.run.pool
}

// sendStream writes the request on a stream. A body that there is no room for at once is written by a second goroutine, so that
// an origin that takes none of it can say so.
func (x *client) sendStream(o *Origin, up *pool.Conn) error {
	e := &x.x
	room := x.g.buffers.Lend(h1.Small)
	defer x.g.buffers.Return(room)
	head := x.appendRequest(room.B[:0], o)
	if !e.whole {
		if _, err := up.Stream.Send(head, nil, false); err != nil {
			return err
		}
		if !x.req.Continue || len(e.body) > 0 {
			x.startUpload(up)
		}
		return nil
	}
	taken, err := up.Stream.Send(head, e.body, true)
	if err == nil && !taken {
		x.startUpload(up)
	}
	return err
}

// writeStream writes a part of a body on a stream, and the end of it after the last part.
func (x *client) writeStream(up *pool.Conn, part []byte) error {
	limit := x.g.cfg.WriteTimeout
	if r := x.plan.Route; r.GRPC {
		limit = or(r.IdleTimeout, defaultIdleTimeout)
	}
	up.WriteBy(x.g.clock.Now().Add(limit))
	if !x.reader.Done() {
		return up.Stream.Write(part, false)
	}
	var trailer h1.Head
	if err := x.reader.Trailer(&trailer); err != nil {
		return err
	}
	lines := trailer.AppendFields(nil, keepTrailer)
	if len(lines) == 0 {
		return up.Stream.Write(part, true)
	}
	if err := up.Stream.Write(part, false); err != nil {
		return err
	}
	return up.Stream.WriteTrailer(lines)
}

// brokeStream is broke for a stream: what the origin said of it tells more than that a connection ended.
func (x *client) brokeStream(o *Origin, up *pool.Conn, err error) (next step, again bool) {
	e := &x.x
	fault, reset := (*h1.Error)(nil), (*h2up.ResetError)(nil)
	refused := errors.As(err, &reset)
	switch fresh := errors.Is(err, h2up.ErrUnprocessed); {
	case fresh && !refused && up.Reused && x.restore():
		return another, true // it closes the connection, and says how far it came
	case fresh:
		x.fault(o, Breaks)
		e.fail(503, "origin_refused")
		if x.restore() {
			return another, false
		}
		return over, false
	case errors.As(err, &fault) && !errors.Is(err, h1.ErrCut):
		x.fault(o, Breaks)
		e.fail(502, "origin_"+fault.Code)
		return over, false
	case refused:
		x.fault(o, Breaks)
		e.fail(502, "origin_reset")
	case up.Reused && x.replayable():
		return another, true
	default:
		x.fault(o, Breaks)
		e.fail(502, "origin_closed")
	}
	if x.replayable() {
		return another, false
	}
	return over, false
}

// stillSends reports whether the client has sent something not long ago, so that a response which pauses is not over yet.
func (x *client) stillSends() bool {
	u := x.x.up
	if u == nil {
		return false
	}
	now := x.g.clock.Now()
	last := conn.Instant(u.moved.Load())
	return last.Add(or(x.plan.Route.IdleTimeout, defaultIdleTimeout)) > now && x.total(now+1) > now
}
