package conn

import (
	"golang.org/x/sys/unix"

	"steerpoint/edge/internal/h1"
)

// Ask writes the first n octets of a buffer, gives the buffer back, and waits until there is something to read or the limit of
// ReadBy has passed. It is a Write and the wait of the Read after it in one: a Read looks for the answer before it waits, and
// finds none, at the cost of a system call. It may return without an answer being there; the Read waits for it then.
func (c *Conn) Ask(b *h1.Buffer, n int) error {
	if c.secure == nil {
		return c.sock.ask(c.buffers, b, n)
	}
	_, err := c.secure.Write(b.B[:n])
	c.buffers.Return(b)
	return err
}

// question is what ask has to write, and what has become of it.
type question struct {
	buf  *h1.Buffer // nil: it was given back
	n    int
	done int // octets written
	err  error
}

// ask writes within the wait: whatever comes from there on wakes it.
func (s *sock) ask(pool *h1.Pool, b *h1.Buffer, n int) error {
	s.pool, s.question = pool, question{buf: b, n: n}
	q := &s.question
	err := s.askOnce()
	if q.buf == nil {
		return err
	}
	if err == nil {
		_, err = s.Write(q.buf.B[q.done:n]) // more than the socket takes at once
	}
	pool.Return(q.buf)
	q.buf = nil
	return err
}

func (s *sock) askOnce() error {
	if err := s.ready(&s.writes, setWrite); err != nil {
		return err
	}
	for {
		if err := s.ready(&s.reads, setRead); err != nil {
			return err
		}
		err := s.raw.Read(s.put)
		if err == nil {
			return s.question.err
		}
		if err := s.passed(&s.reads, err); err != nil {
			return err
		}
		if s.question.done > 0 {
			return nil
		}
	}
}

// tryPut writes the question, once; false is to wait.
func (s *sock) tryPut(fd uintptr) bool {
	q := &s.question
	if q.done > 0 {
		return true
	}
	n, err := unix.Write(int(fd), q.buf.B[:q.n])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return true // nothing was written: that is left to Write
	case err != nil:
		q.err = err
		return true
	}
	if q.done = n; n < q.n {
		return true
	}
	s.pool.Return(q.buf)
	q.buf = nil
	return false
}
