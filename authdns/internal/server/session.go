package server

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readAhead holds a burst of pipelined queries.
	readAhead = 4096
	// writeAhead is how much of the replies to such a burst is sent by one call.
	writeAhead = 16 << 10
)

// session is what answering on a connection takes. It is lent to a connection that something has come on and taken back
// when all of that is answered, so that connections that ask nothing hold none: thousands of those are usual.
type session struct {
	handler Handler
	in      []byte // what has come and is not answered
	out     []byte
	begun   time.Time // when the query that is not whole began; zero: in is new
}

// sessions are those that no connection has.
type sessions struct{ pool sync.Pool }

func (p *sessions) init(newHandler func() Handler) {
	p.pool.New = func() any {
		return &session{handler: newHandler(), in: make([]byte, 0, readAhead)}
	}
}

func (p *sessions) get() *session {
	x, _ := p.pool.Get().(*session)
	x.in, x.out, x.begun = x.in[:0], x.out[:0], time.Time{}
	return x
}

// put takes a session back, but not the room for messages of unusual size.
func (p *sessions) put(x *session) {
	if cap(x.in) > readAhead {
		x.in = make([]byte, 0, readAhead)
	}
	if cap(x.out) > 2*writeAhead {
		x.out = nil
	}
	p.pool.Put(x)
}

// read appends what has come to x.in, with room for a whole query.
func (x *session) read(r io.Reader) error {
	if need := x.wanted(); need > cap(x.in) {
		x.in = append(make([]byte, 0, need), x.in...)
	}
	n, err := r.Read(x.in[len(x.in):cap(x.in)])
	x.in = x.in[:len(x.in)+n]
	if n > 0 {
		return nil
	}
	return err
}

// wanted is how long x.in must become for a query to be whole.
func (x *session) wanted() int {
	if len(x.in) < lengthLen {
		return lengthLen
	}
	return lengthLen + int(binary.BigEndian.Uint16(x.in))
}

// answer answers the whole queries in x.in and leaves the rest. Each reply goes out in one write, with its length before
// it (RFC 7766 section 8); those to one burst go together.
func (s *Server) answer(m *member, w io.Writer, x *session, client netip.Addr) (answered bool, cut string) {
	rest := x.in
	defer func() { x.in = x.in[:copy(x.in, rest)] }()
	now := time.Now()
	for len(rest) >= lengthLen {
		n := lengthLen + int(binary.BigEndian.Uint16(rest))
		if len(rest) < n {
			break
		}
		if !answered {
			s.conns.asked(m)
			answered = true
		}
		ok := x.reply(rest[lengthLen:n], client, now)
		if rest = rest[n:]; !ok && s.laterTCP(m, w, x) {
			continue
		}
		if !ok {
			// What came before it was right.
			if failed := s.flush(m, w, x); failed != "" {
				return answered, failed
			}
			return answered, "message"
		}
		if failed := s.more(m, w, x); failed != "" {
			return answered, failed
		}
	}
	return answered, s.flush(m, w, x)
}

// more appends what belongs to a reply that is several messages, and sends what has become long.
func (s *Server) more(m *member, w io.Writer, x *session) (cut string) {
	streamer, several := x.handler.(Streamer)
	for {
		if len(x.out) >= writeAhead {
			if cut = s.flush(m, w, x); cut != "" {
				return cut
			}
		}
		if !several {
			return ""
		}
		at := len(x.out)
		out := streamer.More(append(x.out, 0, 0))
		if len(out) <= at+lengthLen {
			return ""
		}
		binary.BigEndian.PutUint16(out[at:], uint16(len(out)-at-lengthLen))
		x.out = out
	}
}

// reply appends the reply to a query to x.out; false: it is none.
func (x *session) reply(msg []byte, client netip.Addr, now time.Time) bool {
	at := len(x.out)
	if len(msg) < headerLen {
		return false
	}
	out := x.handler.Handle(append(x.out, 0, 0), msg, client, now)
	if len(out) <= at+lengthLen {
		return false
	}
	binary.BigEndian.PutUint16(out[at:], uint16(len(out)-at-lengthLen))
	x.out = out
	return true
}

// flush sends what is in x.out and says why it could not.
func (s *Server) flush(m *member, w io.Writer, x *session) (cut string) {
	if len(x.out) == 0 {
		return ""
	}
	if err := m.conn.SetWriteDeadline(time.Now().Add(s.cfg.TCPWrite)); err != nil {
		return endOfTalk
	}
	_, err := w.Write(x.out)
	x.out = x.out[:0]
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "write"
	case err != nil:
		return endOfTalk
	}
	return ""
}

// talk is one connection as it is read and written.
type talk interface {
	io.ReadWriteCloser
	// first waits until something comes and gives it in a session.
	first() (*session, error)
}

// open makes the talk of a connection: at once, or by a handshake.
func (s *Server) open(m *member, t Transport) (talk, error) {
	if t != DoT {
		return s.plain(m)
	}
	if err := s.conns.await(m, s.cfg.TCPMessage); err != nil {
		return nil, err
	}
	if err := m.conn.SetWriteDeadline(time.Now().Add(s.cfg.TCPMessage)); err != nil {
		return nil, err
	}
	c := tls.Server(m.conn, s.tls)
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	return &encrypted{Conn: c, sessions: &s.sessions[DoT]}, nil
}

// plain is a TCP connection.
type plain struct {
	io.ReadWriteCloser
	raw      syscall.RawConn
	sessions *sessions
	got      *session
	err      error
	take     func(fd uintptr) bool // made once: a closure for each wait would be garbage of each wait
}

func (s *Server) plain(m *member) (*plain, error) {
	raw, err := m.conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &plain{ReadWriteCloser: m.conn, raw: raw, sessions: &s.sessions[TCP]}
	p.take = p.receive
	return p, nil
}

func (p *plain) first() (*session, error) {
	p.got, p.err = nil, nil
	if err := p.raw.Read(p.take); err != nil {
		return nil, err
	}
	return p.got, p.err
}

// receive takes what is there; false: nothing is, and the netpoller waits until something is.
func (p *plain) receive(fd uintptr) (done bool) {
	x := p.sessions.get()
	n, err := unix.Read(int(fd), x.in[:cap(x.in)])
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(int(fd), x.in[:cap(x.in)])
	}
	if err == nil && n > 0 {
		x.in, p.got = x.in[:n], x
		return true
	}
	p.sessions.put(x)
	if errors.Is(err, unix.EAGAIN) {
		return false
	}
	if p.err = io.EOF; err != nil {
		p.err = os.NewSyscallError("read", err)
	}
	return true
}

// encrypted is a TLS connection.
type encrypted struct {
	*tls.Conn
	sessions *sessions
	octet    [1]byte
}

// first reads one octet; TLS keeps what came with it.
func (e *encrypted) first() (*session, error) {
	if _, err := io.ReadFull(e.Conn, e.octet[:]); err != nil {
		return nil, err
	}
	x := e.sessions.get()
	x.in = append(x.in, e.octet[0])
	return x, nil
}
