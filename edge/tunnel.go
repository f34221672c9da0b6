package edge

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2"
	"steerpoint/edge/internal/pool"
)

const (
	defaultTunnelTimeout = 5 * time.Minute
	// halfClosed is how long the other side may go on after one side has ended.
	halfClosed = 10 * time.Second
)

// side is one side of a tunnel: a connection, or a stream of one of HTTP/2.
type side struct {
	c *conn.Conn
	s *h2.Stream // nil: it is the connection
}

// readLent waits for what comes next, until an instant.
func (d *side) readLent(by conn.Instant, p *h1.Pool) (*h1.Buffer, int, error) {
	if d.s != nil {
		d.s.ReadBy(by)
		return d.s.ReadLent(p, h1.Large)
	}
	d.c.ReadBy(by)
	return d.c.ReadLent(p, h1.Large)
}

// write writes all of p. A stream has a limit of its own.
func (d *side) write(p []byte, by conn.Instant) error {
	if d.s != nil {
		return d.s.Write(p, false)
	}
	d.c.WriteBy(by)
	_, err := d.c.Write(p)
	return err
}

// closeWrite ends what is sent.
func (d *side) closeWrite() error {
	if d.s != nil {
		return d.s.Write(nil, true)
	}
	return d.c.CloseWrite()
}

// cut ends all that reads and writes, from any goroutine.
func (d *side) cut() {
	if d.s != nil {
		d.s.Kill()
		return
	}
	d.c.Cut()
}

// cutReads ends what reads, from any goroutine. To a side that has ended it does nothing.
func (d *side) cutReads() {
	if d.s != nil {
		d.s.CutReads()
		return
	}
	d.c.CutReads()
}

// tunnel is a connection, or a stream, that has become a WebSocket before an origin of HTTP/1.1: octets in both directions, of
// which only the ends of frames are looked for.
type tunnel struct {
	client, origin side
	clock          *conn.Clock
	buffers        *h1.Pool
	timeout        time.Duration
	write          time.Duration
	active         atomic.Int64 // the conn.Instant at which something last came, from either side
	up, down       frames       // toward the origin, and toward the client; each of who writes there
	late           atomic.Pointer[time.Timer]
	leaving, idle  atomic.Bool // both sides are being told to go; since neither had anything to say
}

func (x *client) newTunnel(up *pool.Conn) *tunnel {
	t := &tunnel{
		client: side{c: x.c, s: x.s}, origin: side{c: up.Conn}, clock: x.g.clock, buffers: x.g.buffers, write: x.g.cfg.WriteTimeout,
		timeout: or(x.plan.Route.TunnelTimeout, defaultTunnelTimeout),
	}
	t.active.Store(int64(x.g.clock.Now()))
	return t
}

// tunnel passes the switch of protocols on, and then whatever comes, until one side ends it.
func (x *client) tunnel(o *Origin, up *pool.Conn) {
	e := &x.x
	defer up.Drop()
	t := x.newTunnel(up)
	x.endBy(t.farewell)
	defer x.endBy(nil)
	// A client that leaves is seen by who reads from it, after the last that it sent. Only kill ends both sides at once.
	x.guard(nil)
	room := x.g.buffers.Lend(h1.Small)
	err := x.write(x.appendResponse(room.B[:0], o, false), nil, nil)
	x.g.buffers.Return(room)
	if err != nil {
		e.fail(499, "client_left")
		return
	}
	e.sent = 101
	x.carry(t, up, append([]byte(nil), x.reader.Take()...))
}

// carry passes on whatever comes, until both sides have ended. ahead is what was read of the client already.
func (x *client) carry(t *tunnel, up *pool.Conn, ahead []byte) {
	e := &x.x
	x.asked = Asked{Client: x.asked.Client, Socket: x.asked.Socket}
	x.reader.Detach(&x.req.Head)
	if life := x.plan.Route.TunnelLife; life > 0 {
		defer time.AfterFunc(life, t.farewell).Stop()
	}
	x.g.metrics.tunnels.Add(1)
	defer x.g.metrics.tunnels.Add(-1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.in, _ = t.pump(&t.origin, &t.client, ahead) // why it ended is told by the other direction, which it ends
	}()
	back := up.Reader.Take()
	e.out, _ = t.pump(&t.client, &t.origin, back)
	up.Reader.Release()
	<-done
	t.seeOff()
	switch {
	case t.idle.Load():
		e.fail(e.sent, "tunnel_idle")
	case t.leaving.Load():
		e.fail(e.sent, "going_away")
	}
}

// endBy says how kill ends the connection from now on; nil: by a cut.
func (x *client) endBy(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.also = f
}

// saysGoodbye reports whether kill tells the other side to go, by what endBy said.
func (x *client) saysGoodbye() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.also != nil
}

// limit is until when either side may be silent.
func (t *tunnel) limit() conn.Instant { return conn.Instant(t.active.Load()).Add(t.timeout) }

// pump writes to one side what comes from the other. It returns how many octets that were, and why it ended; nil: the side
// ended it.
func (t *tunnel) pump(to, from *side, first []byte) (n int64, err error) {
	if len(first) > 0 {
		if err := t.pass(to, first); err != nil {
			t.end()
			return 0, err
		}
		n = int64(len(first))
	}
	for {
		room, got, err := from.readLent(t.limit(), t.buffers)
		switch {
		case err == nil:
		case errors.Is(err, conn.ErrTimeout) && t.clock.Now() < t.limit():
			continue // the other side was not silent
		case errors.Is(err, io.EOF) && !t.leaving.Load():
			t.halfClose(to)
			return n, nil
		default:
			t.part(to, err)
			return n, err
		}
		err = t.pass(to, room.B[:got])
		t.buffers.Return(room)
		if err != nil {
			t.end()
			return n, err
		}
		n += int64(got)
	}
}

func (t *tunnel) pass(to *side, p []byte) error {
	now := t.clock.Now()
	t.active.Store(int64(now))
	err := to.write(p, now.Add(t.write))
	if err == nil {
		t.toward(to).follow(p)
	}
	return err
}

// halfClose tells one side that the other has ended. What it still says is passed on for a while.
func (t *tunnel) halfClose(to *side) {
	if to.closeWrite() != nil {
		t.end()
		return
	}
	time.AfterFunc(halfClosed, to.cutReads)
}

func (t *tunnel) end() {
	t.client.cut()
	t.origin.cut()
}
