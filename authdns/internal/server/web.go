package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"steerpoint/authdns/internal/doh"
)

// maxStreams is how many requests one HTTP/2 connection may have under way.
const maxStreams = 100

// web serves HTTPS on connections that were admitted like all others.
type web struct {
	s      *Server
	http   *http.Server
	conns  chan net.Conn
	ended  chan struct{}
	ending sync.Once
}

// newWeb makes the server of requests; nil where there are no listeners for it.
func newWeb(s *Server) *web {
	if len(s.cfg.DoH) == 0 {
		return nil
	}
	w := &web{s: s, conns: make(chan net.Conn), ended: make(chan struct{})}
	w.http = &http.Server{
		Handler: s.cfg.Web, TLSConfig: s.cfg.TLS.Clone(), MaxHeaderBytes: doh.MaxHeader,
		ReadHeaderTimeout: s.cfg.TCPMessage, ReadTimeout: s.cfg.TCPMessage, IdleTimeout: s.cfg.TCPIdle,
		WriteTimeout: s.cfg.TCPMessage + s.cfg.TCPWrite, // it counts from the head of the request on
		HTTP2:        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ConnState:    w.changed,
		// Handshakes that fail, and the like: the doing of clients.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return w
}

// take serves an admitted connection and ends it some time.
func (w *web) take(m *member, client netip.AddrPort) {
	c := &webConn{TCPConn: m.conn, m: m, s: w.s, client: net.TCPAddrFromAddrPort(client)}
	select {
	case w.conns <- c:
	case <-w.ended:
		_ = c.Close() // nothing came on it
	}
}

// serve answers requests until shutdown.
func (w *web) serve() error {
	err := w.http.ServeTLS(w, "", "")
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// shutdown takes no more connections and gives requests under way their time; end cuts those that still are.
func (w *web) shutdown() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.http.Shutdown(ctx) // its error is that end was called
	}()
	return func() {
		cancel()
		<-ended
		_ = w.http.Close() // of connections that are closed already
	}
}

// changed follows the connections, so that those without a request can give way.
func (w *web) changed(c net.Conn, state http.ConnState) {
	t, ok := c.(*tls.Conn)
	if !ok {
		return
	}
	own, ok := t.NetConn().(*webConn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		w.s.conns.asked(own.m)
	case http.StateIdle:
		w.s.conns.idles(own.m)
	}
}

// Accept gives the next admitted connection; it makes web a net.Listener.
func (w *web) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.ended:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (w *web) Close() error {
	w.ending.Do(func() { close(w.ended) })
	return nil
}

// Addr names the listener, which is none of the kernel's.
func (w *web) Addr() net.Addr { return &net.TCPAddr{} }

// webConn is a connection whose client may be another than its peer, and whose end is noted.
type webConn struct {
	*net.TCPConn
	m      *member
	s      *Server
	client net.Addr
	once   sync.Once
}

// RemoteAddr is the client.
func (c *webConn) RemoteAddr() net.Addr { return c.client }

// Close ends the connection.
func (c *webConn) Close() error {
	c.once.Do(func() { c.s.leave(c.m, "") })
	return nil
}
