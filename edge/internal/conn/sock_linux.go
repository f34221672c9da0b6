package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/edge/internal/h1"
)

// limit is a time limit. The kernel side of one is costly to move, and nearly every limit is moved on before it is
// reached: armed stays behind want, and is moved only when it passes.
type limit struct{ want, armed Instant }

// sock is the TCP connection. It is the net.Conn below TLS.
type sock struct {
	*net.TCPConn
	raw           syscall.RawConn
	clock         *Clock
	reads, writes limit
	cut, cutReads atomic.Bool
	still         bool // Read asks the system for nothing, as if its limit had passed; of who reads

	// What the functions below, made once, take and give: functions made for each call would be allocated.
	lend func(fd uintptr) bool
	look func(fd uintptr)
	put  func(fd uintptr) bool
	pool *h1.Pool
	size h1.Size
	got  *h1.Buffer
	n    int
	err  error
	idle bool
	seen [1]unix.PollFd

	question question

	parts [3][]byte
	vec   net.Buffers
}

// ready moves the armed limit to where it must be for the next call. Whoever cuts sets cut and then the deadline, and here
// the deadline is set and then cut is read: one of both sees the other.
func (s *sock) ready(l *limit, set func(*net.TCPConn, time.Time) error) error {
	switch {
	case l.want == 0 && l.armed != 0:
		if err := set(s.TCPConn, time.Time{}); err != nil {
			return err
		}
		l.armed = 0
	case l.want != 0 && (l.armed == 0 || l.armed > l.want):
		if err := set(s.TCPConn, s.clock.Wall(l.want)); err != nil {
			return err
		}
		l.armed = l.want
	}
	if s.ended(l) {
		return ErrCut
	}
	return nil
}

func (s *sock) ended(l *limit) bool { return s.cut.Load() || l == &s.reads && s.cutReads.Load() }

// passed says what it means that the armed limit has passed: nil is to go on.
func (s *sock) passed(l *limit, err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if s.ended(l) {
		return ErrCut
	}
	if l.want != 0 && s.clock.Now() >= l.want {
		return ErrTimeout
	}
	l.armed = 0
	if l.want == 0 {
		l.armed = 1 // so that ready takes it away
	}
	return nil
}

func setRead(c *net.TCPConn, t time.Time) error  { return c.SetReadDeadline(t) }
func setWrite(c *net.TCPConn, t time.Time) error { return c.SetWriteDeadline(t) }

// Read reads at least one octet, or fails.
func (s *sock) Read(p []byte) (int, error) {
	if s.still {
		return 0, ErrTimeout
	}
	for {
		if err := s.ready(&s.reads, setRead); err != nil {
			return 0, err
		}
		n, err := s.TCPConn.Read(p)
		if n > 0 || err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		if err := s.passed(&s.reads, err); err != nil {
			return 0, err
		}
	}
}

// readLent waits, and reads into a buffer borrowed then.
func (s *sock) readLent(p *h1.Pool, size h1.Size) (*h1.Buffer, int, error) {
	s.pool, s.size = p, size
	for {
		if err := s.ready(&s.reads, setRead); err != nil {
			return nil, 0, err
		}
		s.got, s.n, s.err = nil, 0, nil
		err := s.raw.Read(s.lend)
		if err == nil {
			b := s.got
			s.got = nil
			return b, s.n, s.err
		}
		if err := s.passed(&s.reads, err); err != nil {
			return nil, 0, err
		}
	}
}

// tryLend is called when there may be something to read; false is to wait.
func (s *sock) tryLend(fd uintptr) bool {
	b := s.pool.Lend(s.size)
	n, err := readAgain(int(fd), b.B)
	if n > 0 {
		s.got, s.n = b, n
		return true
	}
	s.pool.Return(b)
	if errors.Is(err, unix.EAGAIN) {
		return false
	}
	if s.err = err; err == nil {
		s.err = io.EOF
	}
	return true
}

// readAgain is read(2), again when a signal came between.
func readAgain(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// alive looks at an idle connection without taking anything. Limits do not matter to it.
func (s *sock) alive() bool {
	s.idle = false
	return !s.cut.Load() && s.raw.Control(s.look) == nil && s.idle
}

func (s *sock) tryLook(fd uintptr) {
	s.seen[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}
	n, err := unix.Poll(s.seen[:], 0)
	s.idle = n == 0 && err == nil
}

// Write writes all of p, or fails.
func (s *sock) Write(p []byte) (int, error) {
	done := 0
	for {
		if err := s.ready(&s.writes, setWrite); err != nil {
			return done, err
		}
		n, err := s.TCPConn.Write(p[done:])
		done += n
		if err == nil {
			return done, nil
		}
		if err := s.passed(&s.writes, err); err != nil {
			return done, err
		}
	}
}

// writeParts writes them by writev(2).
func (s *sock) writeParts(a, b, d []byte) error {
	s.vec = s.parts[:0]
	for _, p := range [...][]byte{a, b, d} {
		if len(p) > 0 {
			s.vec = append(s.vec, p)
		}
	}
	for {
		if err := s.ready(&s.writes, setWrite); err != nil {
			return err
		}
		_, err := s.vec.WriteTo(s.TCPConn)
		if err == nil {
			return nil
		}
		if err := s.passed(&s.writes, err); err != nil {
			return err
		}
	}
}

// The limits of a net.Conn, which TLS sets at its end. They are limits like all others.

// SetDeadline limits reads and writes.
func (s *sock) SetDeadline(t time.Time) error {
	s.reads.want, s.writes.want = s.at(t), s.at(t)
	return nil
}

// SetReadDeadline limits reads.
func (s *sock) SetReadDeadline(t time.Time) error {
	s.reads.want = s.at(t)
	return nil
}

// SetWriteDeadline limits writes.
func (s *sock) SetWriteDeadline(t time.Time) error {
	s.writes.want = s.at(t)
	return nil
}

func (s *sock) at(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return max(1, Instant(t.Sub(s.clock.epoch)))
}
