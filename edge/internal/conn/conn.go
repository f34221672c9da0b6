// Package conn is a TCP connection, perhaps with TLS on it, as the gateway needs it on both of its sides: it can be waited
// on without a buffer, looked at before it is used again, cut off by another goroutine, and given a time limit that costs
// nothing as long as it is not reached.
package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"steerpoint/edge/internal/h1"
)

var (
	// ErrTimeout is a limit of ReadBy or WriteBy that was reached. A read may go on after it, over TLS too.
	ErrTimeout error = timeoutError{}
	// ErrCut is a connection that Cut has ended.
	ErrCut = errors.New("connection was cut")
)

// timeoutError is a net.Error, and a temporary one: TLS ends its reading for good after any other error.
type timeoutError struct{}

// Error says what was reached.
func (timeoutError) Error() string { return "time limit reached" }

// Timeout is net.Error's.
func (timeoutError) Timeout() bool { return true }

// Temporary is net.Error's.
func (timeoutError) Temporary() bool { return true }

// Instant is a moment on a Clock, in nanoseconds since its beginning. 0 as a limit is none.
type Instant int64

// Add is the instant d later; d 0 is no limit.
func (i Instant) Add(d time.Duration) Instant {
	if d == 0 {
		return 0
	}
	return i + Instant(d)
}

// Sub is the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Clock tells instants. It is monotonic.
type Clock struct{ epoch time.Time }

// NewClock makes a clock that begins now.
func NewClock() *Clock { return &Clock{epoch: time.Now().Add(-time.Nanosecond)} }

// Now is the present; it is never 0.
func (c *Clock) Now() Instant { return Instant(time.Since(c.epoch)) }

// Wall is an instant as the time of day.
func (c *Clock) Wall(i Instant) time.Time { return c.epoch.Add(time.Duration(i)) }

// Conn is a connection. One goroutine at a time may read from it and one write; Cut may be called by any.
type Conn struct {
	sock    *sock
	secure  *tls.Conn // nil: plain
	buffers *h1.Pool
	one     [1]byte
}

// New takes a connection over.
func New(c *net.TCPConn, clock *Clock, buffers *h1.Pool) (*Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("take over connection: %w", err)
	}
	s := &sock{TCPConn: c, raw: raw, clock: clock}
	s.lend, s.look, s.put = s.tryLend, s.tryLook, s.tryPut
	return &Conn{sock: s, buffers: buffers}, nil
}

// Accept makes c the server's side of TLS. The time limits of c hold.
func (c *Conn) Accept(ctx context.Context, config *tls.Config) error {
	return c.handshake(ctx, tls.Server(c.sock, config))
}

// Dial makes c the client's side of TLS. The time limits of c hold.
func (c *Conn) Dial(ctx context.Context, config *tls.Config) error {
	return c.handshake(ctx, tls.Client(c.sock, config))
}

func (c *Conn) handshake(ctx context.Context, t *tls.Conn) error {
	if err := t.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	c.secure = t
	return nil
}

// TLS is what TLS agreed on; nil: there is none.
func (c *Conn) TLS() *tls.ConnectionState {
	if c.secure == nil {
		return nil
	}
	s := c.secure.ConnectionState()
	return &s
}

// Remote is the address of the other end, Local that of ours.
func (c *Conn) Remote() netip.AddrPort { return addrPort(c.sock.RemoteAddr()) }

// Local is the address of our end.
func (c *Conn) Local() netip.AddrPort { return addrPort(c.sock.LocalAddr()) }

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// ReadBy and WriteBy limit what comes after: an instant of the clock, 0 for none.
func (c *Conn) ReadBy(at Instant) { c.sock.reads.want = at }

// WriteBy limits writes, see ReadBy.
func (c *Conn) WriteBy(at Instant) { c.sock.writes.want = at }

// Read reads. Its errors are io.EOF, ErrTimeout, ErrCut and those of the system.
func (c *Conn) Read(p []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Read(p)
	}
	return c.sock.Read(p)
}

// ReadLent is h1.Source's: it waits without a buffer. Of a TLS connection the first octet is read by itself: that costs no
// system call, as a whole record is deciphered for it. What is read after it must not wait: a record may hold one octet
// alone, as the last one of a body of 16 KiB and one octet does.
func (c *Conn) ReadLent(p *h1.Pool, size h1.Size) (*h1.Buffer, int, error) {
	if c.secure == nil {
		return c.sock.readLent(p, size)
	}
	if _, err := io.ReadFull(c.secure, c.one[:]); err != nil {
		return nil, 0, err
	}
	b := p.Lend(size)
	b.B[0] = c.one[0]
	c.sock.still = true
	n, _ := c.secure.Read(b.B[1:]) // an error other than that nothing is here comes again with the next read
	c.sock.still = false
	return b, n + 1, nil
}

// Write writes all of p.
func (c *Conn) Write(p []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Write(p)
	}
	return c.sock.Write(p)
}

// WriteParts writes a, b and c, one after the other, by one system call where it can. Each may be empty.
func (c *Conn) WriteParts(a, b, d []byte) error {
	if c.secure == nil {
		return c.sock.writeParts(a, b, d)
	}
	room := c.buffers.Lend(h1.Large) // a record for each part would cost more than to copy them
	defer c.buffers.Return(room)
	if len(a)+len(b)+len(d) <= len(room.B) {
		n := copy(room.B, a)
		n += copy(room.B[n:], b)
		n += copy(room.B[n:], d)
		_, err := c.secure.Write(room.B[:n])
		return err
	}
	for _, p := range [...][]byte{a, b, d} {
		if len(p) > 0 {
			if _, err := c.secure.Write(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// CutReads ends what reads, as Cut does, and leaves the other direction as it is.
func (c *Conn) CutReads() {
	c.sock.cutReads.Store(true)
	_ = c.sock.TCPConn.SetReadDeadline(time.Unix(1, 0)) // a closed connection needs none
}

// Alive reports whether an idle connection can be used again: nothing has come on it, neither octets nor its end.
func (c *Conn) Alive() bool { return c.sock.alive() }

// Cut ends all that reads and writes, from any goroutine: it fails with ErrCut then. The connection must still be closed.
func (c *Conn) Cut() {
	c.sock.cut.Store(true)
	_ = c.sock.TCPConn.SetDeadline(time.Unix(1, 0)) // a closed connection needs none
}

// WasCut reports whether Cut was called.
func (c *Conn) WasCut() bool { return c.sock.cut.Load() }

// CloseWrite ends what is sent; the other side sees the end of it.
func (c *Conn) CloseWrite() error {
	if c.secure != nil {
		if err := c.secure.CloseWrite(); err != nil {
			return err
		}
	}
	return c.sock.CloseWrite()
}

// Close ends the connection. Over TLS it says so to the other end. One that was cut ends with RST: the other end must not take
// what it got for the whole.
func (c *Conn) Close() error {
	switch {
	case c.WasCut():
		_ = c.sock.SetLinger(0) // a closed connection needs none
	case c.secure != nil:
		return c.secure.Close()
	}
	return c.sock.TCPConn.Close()
}

// Reset ends the connection with RST, so that the other end cannot take what it got for the whole.
func (c *Conn) Reset() {
	_ = c.sock.SetLinger(0)    // what is not sent yet is not wanted any more
	_ = c.sock.TCPConn.Close() // nothing was promised on it
}

// Sock is the TCP connection below, for those that watch it.
func (c *Conn) Sock() *net.TCPConn { return c.sock.TCPConn }
