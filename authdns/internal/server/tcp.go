package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"
)

const (
	lengthLen = 2 // RFC 1035 section 4.2.2
	headerLen = 12
	// readAhead holds a burst of pipelined queries.
	readAhead = 2048
)

// serveTCP accepts connections until the listener is closed.
func (s *Server) serveTCP(ctx context.Context, l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			s.log.WarnContext(ctx, "accept failed", "listen", l.Addr().String(), "error", err)
			if !pause(ctx) {
				return
			}
			continue
		}
		s.admit(c)
	}
}

// admit serves a connection on its own goroutine, unless that would be one too many.
func (s *Server) admit(c *net.TCPConn) {
	client := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	if reason := s.conns.add(c, client); reason != "" {
		s.count.TCPRefused(reason)
		_ = c.Close() // nothing was promised on it
		return
	}
	s.count.TCPOpened()
	go func() {
		defer s.conns.done()
		reason := s.converse(c, client)
		// Removed before it is closed, so that a client that sees the end may come back at once.
		if !s.conns.remove(c) {
			reason = "evicted"
		}
		_ = c.Close() // the conversation is over; its own error is in reason
		if reason != "" {
			s.count.TCPEnded(reason)
		}
		s.count.TCPClosed()
	}()
}

// converse answers queries on a connection, in the order they come, until the client ends it, falls silent or
// misbehaves. It returns why it was cut, "" for an ordinary end. Each answer is one write (RFC 7766 section 8).
func (s *Server) converse(c *net.TCPConn, client netip.Addr) (cut string) {
	handler := s.handlers(true)
	in := bufio.NewReaderSize(c, readAhead)
	var msg, out []byte
	for {
		if err := s.awaitQuery(c, in); err != nil {
			return ""
		}
		var err error
		if msg, err = readMessage(in, msg); err != nil {
			return "read"
		}
		s.conns.asked(c)
		if len(msg) < headerLen {
			return "message"
		}
		out = handler.Handle(append(out[:0], 0, 0), msg, client, time.Now())
		if len(out) <= lengthLen {
			return "message"
		}
		binary.BigEndian.PutUint16(out, uint16(len(out)-lengthLen))
		if err := c.SetWriteDeadline(time.Now().Add(s.cfg.TCPWrite)); err != nil {
			return ""
		}
		if _, err := c.Write(out); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return "write"
			}
			return ""
		}
	}
}

// awaitQuery waits for the first octet of the next query and then gives the rest of it its own, shorter time: octet by
// octet is allowed, for ever is not.
//
// Until the query is whole the connection counts as waiting for it: were its first octet enough to keep its place, one
// octet on each connection would lock everybody out.
func (s *Server) awaitQuery(c *net.TCPConn, in *bufio.Reader) error {
	if err := s.conns.await(c, s.cfg.TCPIdle); err != nil {
		return err
	}
	if in.Buffered() == 0 {
		if _, err := in.Peek(1); err != nil {
			return err
		}
	}
	return c.SetReadDeadline(time.Now().Add(s.cfg.TCPMessage))
}

// readMessage reads one message with its length prefix into buf, which grows as needed.
func readMessage(in *bufio.Reader, buf []byte) ([]byte, error) {
	var length [lengthLen]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return buf, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err := io.ReadFull(in, buf)
	return buf, err
}
