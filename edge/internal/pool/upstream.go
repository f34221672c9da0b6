package pool

import (
	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// This file is what a request does with its connection: with HTTP/1.1 to the connection itself, with HTTP/2 to its stream.

// ReadBy and WriteBy limit what comes after: an instant of the clock, 0 for none.
func (u *Conn) ReadBy(at conn.Instant) {
	if u.Stream != nil {
		u.Stream.ReadBy(at)
		return
	}
	u.Conn.ReadBy(at)
}

// WriteBy limits writes, see ReadBy.
func (u *Conn) WriteBy(at conn.Instant) {
	if u.Stream != nil {
		u.Stream.WriteBy(at)
		return
	}
	u.Conn.WriteBy(at)
}

// Cut ends all that reads and writes, from any goroutine: it fails with conn.ErrCut then.
func (u *Conn) Cut() {
	if u.Stream != nil {
		u.Stream.Cut()
		return
	}
	u.Conn.Cut()
}

// Response reads the head of the next response; bodiless says that it answers HEAD.
func (u *Conn) Response(p *h1.Response, bodiless bool) error {
	if u.Stream != nil {
		return u.Stream.Response(p, bodiless)
	}
	return u.Reader.Response(p, bodiless)
}

// Ready gives the part of the body that is here already, nil if nothing is.
func (u *Conn) Ready() ([]byte, error) {
	if u.Stream != nil {
		return u.Stream.Ready()
	}
	return u.Reader.Ready()
}

// Next gives the next part of the body, which is valid until the next call. io.EOF is its end.
func (u *Conn) Next() ([]byte, error) {
	if u.Stream != nil {
		return u.Stream.Next()
	}
	return u.Reader.Next()
}

// Done reports whether the body has been read to its end.
func (u *Conn) Done() bool {
	if u.Stream != nil {
		return u.Stream.Done()
	}
	return u.Reader.Done()
}

// Trailer reads the trailer fields of a body that has been read to its end.
func (u *Conn) Trailer(h *h1.Head) error {
	if u.Stream != nil {
		return u.Stream.Trailer(h)
	}
	return u.Reader.Trailer(h)
}

// Release gives back what only the beginning of a response needs.
func (u *Conn) Release() {
	if u.Stream != nil {
		u.Stream.Release()
		return
	}
	u.Reader.Release()
}

// Put gives the connection back to its pool, see Pool.Put.
func (u *Conn) Put(now conn.Instant) { u.pool.Put(u, now) }

// Drop ends the use of the connection, see Pool.Drop.
func (u *Conn) Drop() { u.pool.Drop(u) }
