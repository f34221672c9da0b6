package conn

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Header reads a header at the beginning of a connection, before anything else is read from it, and no octet more: TLS may
// follow. need says how many octets the header has at least when it begins with those given; when they are as many, or
// more, it is whole. room must hold the largest. The limit of ReadBy holds.
func (c *Conn) Header(room []byte, need func(b []byte) (int, error)) ([]byte, error) {
	have := 0
	for {
		seen, err := c.sock.peek(room[have:])
		if err != nil {
			return nil, err
		}
		n, err := need(room[:have+seen])
		switch {
		case err != nil:
			return nil, err
		case n > len(room):
			return nil, fmt.Errorf("header of %d octets is too long", n)
		}
		whole := n <= have+seen
		take := have + seen // as it goes on, all of this is of the header
		if whole {
			take = n
		}
		if _, err := io.ReadFull(c.sock, room[have:take]); err != nil {
			return nil, err
		}
		if have = take; whole {
			return room[:have], nil
		}
	}
}

// peek waits until something is there, and copies it without taking it. io.ErrUnexpectedEOF is the end of what comes.
func (s *sock) peek(p []byte) (n int, err error) {
	for {
		if err := s.ready(&s.reads, setRead); err != nil {
			return 0, err
		}
		var failed error
		err := s.raw.Read(func(fd uintptr) bool {
			for {
				n, _, failed = unix.Recvfrom(int(fd), p, unix.MSG_PEEK)
				if failed != unix.EINTR {
					return failed != unix.EAGAIN
				}
			}
		})
		switch {
		case err != nil:
			if err := s.passed(&s.reads, err); err != nil {
				return 0, err
			}
		case failed != nil:
			return 0, fmt.Errorf("look at connection: %w", failed)
		case n == 0:
			return 0, io.ErrUnexpectedEOF
		default:
			return n, nil
		}
	}
}

// Unsent is how many octets that were written the other side has not taken yet.
func (c *Conn) Unsent() int {
	n := 0
	var failed error
	if err := c.sock.raw.Control(func(fd uintptr) { n, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); errors.Join(err, failed) != nil {
		return 0
	}
	return n
}
