package edge

import (
	"bytes"
	"crypto/sha1" // #nosec G505 -- RFC 6455 section 4.2.2 names it, and nothing is kept secret by it
	"encoding/base64"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2"
	"steerpoint/edge/internal/pool"
)

// streamTunnel is a stream that has become a WebSocket (RFC 8441), before a connection of HTTP/1.1 that has.
type streamTunnel struct {
	client  *h2.Stream
	origin  *conn.Conn
	clock   *conn.Clock
	buffers *h1.Pool
	timeout time.Duration
	write   time.Duration
	active  atomic.Int64 // the conn.Instant at which something last came, from either side
}

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
	room := x.g.buffers.Lend(h1.Small)
	err := x.s.WriteHead(x.appendSwitch(room.B[:0], o), false)
	x.g.buffers.Return(room)
	if err != nil {
		e.fail(499, "client_left")
		return
	}
	e.fail(200, "")
	e.sent = 200
	if !x.guard(up.Cutter) {
		e.fail(499, "client_left")
		return
	}
	t := &streamTunnel{
		client: x.s, origin: up.Conn, clock: x.g.clock, buffers: x.g.buffers, write: x.g.cfg.WriteTimeout,
		timeout: or(x.plan.Route.TunnelTimeout, defaultTunnelTimeout),
	}
	t.active.Store(int64(x.g.clock.Now()))
	x.asked = Asked{Client: x.asked.Client, Socket: x.asked.Socket}
	x.reader.Detach(&x.req.Head)
	if life := x.plan.Route.TunnelLife; life > 0 {
		defer time.AfterFunc(life, t.end).Stop()
	}
	x.g.metrics.tunnels.Add(1)
	defer x.g.metrics.tunnels.Add(-1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.in = t.up()
	}()
	back := up.Reader.Take()
	e.out, err = t.down(back)
	up.Reader.Release()
	<-done
	x.guard(nil)
	if errors.Is(err, conn.ErrTimeout) {
		e.fail(200, "tunnel_idle")
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

// limit is until when either side may be silent.
func (t *streamTunnel) limit() conn.Instant { return conn.Instant(t.active.Load()).Add(t.timeout) }

// up passes on what the client sends. It returns how many octets that were.
func (t *streamTunnel) up() (n int64) {
	for {
		t.client.ReadBy(t.limit())
		room, got, err := t.client.ReadLent(t.buffers, h1.Large)
		switch {
		case err == nil:
		case errors.Is(err, conn.ErrTimeout) && t.clock.Now() < t.limit():
			continue // the other side was not silent
		case errors.Is(err, io.EOF):
			if t.origin.CloseWrite() != nil {
				t.end()
				return n
			}
			time.AfterFunc(halfClosed, t.origin.CutReads) // to a connection that has ended by then it does nothing
			return n
		default:
			t.end()
			return n
		}
		now := t.clock.Now()
		t.active.Store(int64(now))
		t.origin.WriteBy(now.Add(t.write))
		_, err = t.origin.Write(room.B[:got])
		t.buffers.Return(room)
		if err != nil {
			t.end()
			return n
		}
		n += int64(got)
	}
}

// down passes on what the origin sends, first of all what was read of it already. It returns how many octets that were, and
// why it ended; nil: the origin ended it.
func (t *streamTunnel) down(first []byte) (n int64, err error) {
	if len(first) > 0 {
		if err := t.client.Write(first, false); err != nil {
			t.end()
			return 0, err
		}
		n = int64(len(first))
	}
	for {
		t.origin.ReadBy(t.limit())
		room, got, err := t.origin.ReadLent(t.buffers, h1.Large)
		switch {
		case err == nil:
		case errors.Is(err, conn.ErrTimeout) && t.clock.Now() < t.limit():
			continue
		case errors.Is(err, io.EOF):
			if t.client.Write(nil, true) != nil {
				t.end()
				return n, nil
			}
			time.AfterFunc(halfClosed, t.client.CutReads)
			return n, nil
		default:
			t.end()
			return n, err
		}
		t.active.Store(int64(t.clock.Now()))
		err = t.client.Write(room.B[:got], false)
		t.buffers.Return(room)
		if err != nil {
			t.end()
			return n, err
		}
		n += int64(got)
	}
}

func (t *streamTunnel) end() {
	t.client.Kill()
	t.origin.Cut()
}
