package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

const (
	lengthLen = 2 // RFC 1035 section 4.2.2
	headerLen = 12
)

// accept takes connections in until the listener is closed.
func (s *Server) accept(ctx context.Context, l *net.TCPListener, t Transport) {
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
		s.admit(c, t)
	}
}

// admit serves a connection on its own goroutine, unless that would be one too many.
func (s *Server) admit(c *net.TCPConn, t Transport) {
	peer := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
	m, client := &member{conn: c}, peer.Addr()
	proxied := s.cfg.Proxies.Contains(client)
	if proxied { // it speaks for many, who are counted when it has said for whom
		client = netip.Addr{}
	}
	if reason := s.conns.add(m, client); reason != "" {
		s.count.TCPRefused(reason)
		_ = c.Close() // nothing was promised on it
		return
	}
	s.count.TCPOpened()
	go func() {
		peer, ok := s.introduced(m, peer, proxied)
		switch {
		case !ok:
		case t == DoH:
			s.web.take(m, peer) // which ends it
		default:
			s.leave(m, s.converse(m, t, peer.Addr()))
		}
	}()
}

// leave ends a connection. cut is why, "" for an ordinary end.
func (s *Server) leave(m *member, cut string) {
	defer s.conns.done()
	// Removed before it is closed, so that a client that sees the end may come back at once.
	if !s.conns.remove(m) {
		cut = "evicted"
	}
	_ = m.conn.Close() // the conversation is over; its own error is in cut
	if cut != "" {
		s.count.TCPEnded(cut)
	}
	s.count.TCPClosed()
}

// converse answers queries on a connection, in the order they come but for those that have to wait, until the client ends it, falls silent or
// misbehaves. It returns why it was cut, "" for an ordinary end.
//
// Replies that wait for something come when they are ready. The connection ends when they are sent, or are of no use.
func (s *Server) converse(m *member, t Transport, client netip.Addr) (cut string) {
	talk, err := s.open(m, t)
	if err != nil {
		return "handshake"
	}
	if cut = s.listen(m, t, talk, client); cut != "" {
		_ = m.conn.Close() // whoever still writes on it is done
	}
	m.late.running.Wait()
	_ = talk.Close() // with the last word of TLS; whether it is heard does not matter
	return cut
}

// listen answers as long as queries come.
func (s *Server) listen(m *member, t Transport, talk talk, client netip.Addr) (cut string) {
	for {
		if err := s.conns.await(m, s.cfg.TCPIdle); err != nil {
			return ""
		}
		x, err := talk.first()
		if err != nil {
			return ""
		}
		end, cut := s.burst(m, talk, x, client)
		s.sessions[t].put(x)
		if end {
			return cut
		}
	}
}

// burst answers what comes in a row, until nothing is left of it. It reports whether the connection is to end, and why
// it was cut.
//
// Until a query is whole the connection counts as waiting for it: were its first octet enough to keep its place, one
// octet on each connection would lock everybody out. From its first octet to its last a query has its own, shorter time:
// octet by octet is allowed, for ever is not.
func (s *Server) burst(m *member, talk talk, x *session, client netip.Addr) (end bool, cut string) {
	for {
		answered, cut := s.answer(m, talk, x, client)
		switch {
		case cut == endOfTalk:
			return true, ""
		case cut != "":
			return true, cut
		case len(x.in) == 0:
			return false, ""
		}
		if answered || x.begun.IsZero() {
			x.begun = time.Now()
		}
		if err := s.conns.await(m, s.cfg.TCPMessage-time.Since(x.begun)); err != nil {
			return true, ""
		}
		if err := x.read(talk); err != nil {
			return true, "read"
		}
	}
}

// endOfTalk is a write that failed since the client went away: an ordinary end.
const endOfTalk = "gone"
