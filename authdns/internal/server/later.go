package server

import (
	"encoding/binary"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Later is the rest of the handling of a message whose reply has to wait for something. It is called once, on a goroutine of
// its own, when the message is not there any more, and calls send for each message of the reply; false from that: nobody takes
// them any more.
type Later func(send func(reply []byte) bool)

// Deferrer is a Handler some of whose replies take time. They hold up nobody who asks after them (RFC 7766 section 7).
type Deferrer interface {
	// Later gives the rest of the handling of the message handled last, for which nothing was appended; nil: there is none.
	Later() Later
}

// laterOf takes the rest of the handling from a handler.
func laterOf(h Handler) Later {
	d, can := h.(Deferrer)
	if !can {
		return nil
	}
	return d.Later()
}

// sender is where a packet came from, in the kernel's form, and which address it was sent to.
type sender struct {
	name    unix.RawSockaddrInet6
	nameLen uint32
	control []byte
}

// laterUDP has the reply to a packet made apart, if that is to be.
func (s *Server) laterUDP(c *udpSocket, b *batch, i int, h Handler) {
	rest := laterOf(h)
	if rest == nil {
		return
	}
	to := b.sender(i)
	s.late.Go(func() {
		rest(func(reply []byte) bool {
			if c.sendTo(reply, to) != nil {
				s.count.UDPFailed("write")
				return false
			}
			return true
		})
	})
}

// maxLate is how many replies of one connection may wait at once. While they do, it is not read further.
const maxLate = 16

// lateReplies are those of one connection.
type lateReplies struct {
	mu      sync.Mutex
	running sync.WaitGroup
	slots   chan struct{} // nil: there was none yet
}

func (l *lateReplies) enter() {
	l.mu.Lock()
	if l.slots == nil {
		l.slots = make(chan struct{}, maxLate)
	}
	slots := l.slots
	l.mu.Unlock()
	slots <- struct{}{}
}

func (l *lateReplies) leave() { <-l.slots }

// laterTCP has the reply to the message handled last made apart; false: there is nothing of the kind. The connection keeps its
// place meanwhile. Each message is one write, and writes of others come before or behind it.
func (s *Server) laterTCP(m *member, w io.Writer, x *session) (deferred bool) {
	rest := laterOf(x.handler)
	if rest == nil {
		return false
	}
	m.late.enter()
	s.conns.hold(m)
	m.late.running.Go(func() {
		defer m.late.leave()
		defer s.conns.release(m)
		var framed []byte
		rest(func(reply []byte) bool {
			framed = append(binary.BigEndian.AppendUint16(framed[:0], uint16(len(reply))), reply...)
			return s.sendLate(m, w, framed)
		})
	})
	return true
}

func (s *Server) sendLate(m *member, w io.Writer, framed []byte) bool {
	err := m.conn.SetWriteDeadline(time.Now().Add(s.cfg.TCPWrite))
	if err == nil {
		_, err = w.Write(framed)
	}
	if err != nil {
		_ = m.conn.Close() // a message that was cut leaves nothing to go on with; its reader sees the end
		return false
	}
	return true
}

// hold keeps a connection from giving way: it has a query that is not answered.
func (s *connSet) hold(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.held++
	m.unwait()
}

// release ends one hold.
func (s *connSet) release(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.held--; m.held > 0 || !m.waits {
		return
	}
	if _, in := s.open[m]; !in {
		return
	}
	s.wait(m)
	if !s.last.IsZero() {
		_ = m.conn.SetReadDeadline(s.last) // fails when it is closed already
	}
}
