package edge

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/pool"
)

const (
	defaultTunnelTimeout = 5 * time.Minute
	// halfClosed is how long the other side may go on after one side has ended.
	halfClosed = 10 * time.Second
)

// tunnel is a connection that has become a WebSocket: octets in both directions, none of which is looked at.
type tunnel struct {
	client, origin *conn.Conn
	clock          *conn.Clock
	buffers        *h1.Pool
	timeout        time.Duration
	write          time.Duration
	active         atomic.Int64 // the conn.Instant at which something last came, from either side
	up, down       frames       // toward the origin, and toward the client; each of who writes there
	late           atomic.Pointer[time.Timer]
	leaving, idle  atomic.Bool // both sides are being told to go; since neither had anything to say
}

// tunnel passes the switch of protocols on, and then whatever comes, until one side ends it.
func (x *client) tunnel(o *Origin, up *pool.Conn) {
	e := &x.x
	defer up.Drop()
	t := &tunnel{
		client: x.c, origin: up.Conn, clock: x.g.clock, buffers: x.g.buffers, write: x.g.cfg.WriteTimeout,
		timeout: or(x.plan.Route.TunnelTimeout, defaultTunnelTimeout),
	}
	t.active.Store(int64(x.g.clock.Now()))
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
	x.asked = Asked{Client: x.asked.Client, Socket: x.asked.Socket}
	ahead := append([]byte(nil), x.reader.Take()...)
	x.reader.Detach(&x.req.Head)

	if life := x.plan.Route.TunnelLife; life > 0 {
		defer time.AfterFunc(life, t.farewell).Stop()
	}
	x.g.metrics.tunnels.Add(1)
	defer x.g.metrics.tunnels.Add(-1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.in, _ = t.pump(t.origin, t.client, ahead) // why it ended is told by the other direction, which it ends
	}()
	back := up.Reader.Take()
	e.out, _ = t.pump(t.client, t.origin, back)
	up.Reader.Release()
	<-done
	t.seeOff()
	switch {
	case t.idle.Load():
		e.fail(101, "tunnel_idle")
	case t.leaving.Load():
		e.fail(101, "going_away")
	}
}

// endBy says how kill ends the connection from now on; nil: by a cut.
func (x *client) endBy(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.also = f
}

// pump writes to one side what comes from the other. It returns how many octets that were, and why it ended; nil: the side
// ended it.
func (t *tunnel) pump(to, from *conn.Conn, first []byte) (n int64, err error) {
	if len(first) > 0 {
		if err := t.pass(to, first); err != nil {
			t.end()
			return 0, err
		}
		n = int64(len(first))
	}
	for {
		from.ReadBy(conn.Instant(t.active.Load()).Add(t.timeout))
		room, got, err := from.ReadLent(t.buffers, h1.Large)
		switch {
		case err == nil:
		case errors.Is(err, conn.ErrTimeout) && t.clock.Now() < conn.Instant(t.active.Load()).Add(t.timeout):
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

func (t *tunnel) pass(to *conn.Conn, p []byte) error {
	now := t.clock.Now()
	t.active.Store(int64(now))
	to.WriteBy(now.Add(t.write))
	_, err := to.Write(p)
	if err == nil {
		t.toward(to).follow(p)
	}
	return err
}

// halfClose tells one side that the other has ended. What it still says is passed on for a while.
func (t *tunnel) halfClose(to *conn.Conn) {
	if to.CloseWrite() != nil {
		t.end()
		return
	}
	time.AfterFunc(halfClosed, to.CutReads) // to a connection that has ended by then it does nothing
}

func (t *tunnel) end() {
	t.client.Cut()
	t.origin.Cut()
}
