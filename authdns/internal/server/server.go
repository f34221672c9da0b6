// Package server owns the sockets of the name server: it reads queries from UDP and TCP, hands each to a Handler and
// sends what it returns. It knows framing, limits and timeouts, and nothing of DNS beyond the length of a message.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"steerpoint/internal/inherit"
	"steerpoint/internal/proxyproto"
)

// Config says where to listen and what a client may use up. Every field must be set but Inherited and those for
// encryption and proxies.
type Config struct {
	Listen     []netip.AddrPort // UDP and TCP on each; port 0: one that is free for both
	Sockets    int              // UDP sockets an address
	ReadBuffer int              // octets, of a UDP socket
	// Inherited are sockets of the program that ran before in this process; each address found among them is served
	// by them, whatever Sockets says. nil: none.
	Inherited *inherit.Sockets

	TCPIdle      time.Duration // without a query on a connection
	TCPMessage   time.Duration // from the first octet of a query to its last
	TCPWrite     time.Duration // for the client to take a reply
	TCPTotal     int           // connections
	TCPPerClient int           // of one IPv4 address or IPv6 /64

	// DoT and DoH are where encrypted queries are taken; port 0: any free one. They need TLS, and DoH needs Web. Their
	// connections are counted with all others, and have the same times.
	DoT, DoH []netip.AddrPort
	TLS      *tls.Config  // see func TLS
	Web      http.Handler // of the requests of DoH; the client is in their RemoteAddr
	// Proxies begin each connection by saying whose it is.
	Proxies proxyproto.Trusted
}

// Handler answers messages for one socket or connection; it is not called concurrently.
type Handler interface {
	// Handle appends the reply to msg, or nothing when msg is to be dropped. now is when msg was taken; messages that
	// were taken together have one now.
	Handle(reply, msg []byte, client netip.Addr, now time.Time) []byte
}

// Preparer is a Handler that is shown the messages of a batch before it handles them one by one.
type Preparer interface {
	Prepare(msgs [][]byte)
}

// Streamer is a Handler whose replies may be several messages, on connections.
type Streamer interface {
	// More appends the next message of the reply to the message handled last, or nothing when that was all of it.
	More(reply []byte) []byte
}

// Handlers makes one more handler of a UDP socket, or of a connection for the time in which something comes on it.
type Handlers func(t Transport) Handler

// Counters is told of what happens on the sockets. Its methods are called concurrently.
type Counters struct {
	TCPOpened, TCPClosed func()
	// TCPRefused is told why a connection was closed before it was used: total or client.
	TCPRefused func(reason string)
	// TCPEnded is told of a connection that was cut: read (the message did not come in time), write (the client did
	// not take its reply), message (what came was no query), evicted (it had no whole query and gave way to another),
	// handshake (of TLS, failed), proxy (it came from a proxy, and who it is of was not said).
	TCPEnded func(reason string)
	// UDPFailed is told of a packet that could not be received or sent: read or write.
	UDPFailed func(op string)
}

// Server is a set of bound sockets.
type Server struct {
	cfg      Config
	handlers Handlers
	count    Counters
	log      *slog.Logger

	bound []netip.AddrPort
	udp   []*udpSocket
	tcp   []*net.TCPListener
	conns connSet

	dot, doh []*net.TCPListener
	tls      *tls.Config // of DoT
	web      *web        // of DoH; nil: there is none
	sessions [Transports]sessions

	drainTime time.Duration // drainTime, but in tests

	late sync.WaitGroup // replies over UDP that wait for something
}

// Name is what the sockets are called when they are handed on.
const Name = "dns"

// portTries bounds the search for a port that is free for UDP and TCP.
const portTries = 20

// Listen binds all sockets, or none. The error names the address; errors.Is(err, syscall.EADDRINUSE) tells a taken
// port.
func Listen(ctx context.Context, cfg Config, handlers Handlers, count Counters, log *slog.Logger) (*Server, error) {
	s := &Server{cfg: cfg, handlers: handlers, count: count, log: log, drainTime: drainTime}
	s.conns.init(cfg.TCPTotal, cfg.TCPPerClient)
	if err := cfg.checkEncrypted(); err != nil {
		return nil, err
	}
	s.prepare()
	for _, addr := range cfg.Listen {
		err := s.bind(ctx, addr)
		for try := 1; addr.Port() == 0 && errors.Is(err, syscall.EADDRINUSE) && try < portTries; try++ {
			err = s.bind(ctx, addr)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if err := s.bindEncrypted(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) bind(ctx context.Context, addr netip.AddrPort) error {
	udp, err := s.bindUDP(ctx, addr)
	if err != nil {
		return fmt.Errorf("udp %s: %w", addr, errors.Join(err, closeAll(udp)))
	}
	local := udp[0].LocalAddr().(*net.UDPAddr).AddrPort()
	l, err := s.cfg.Inherited.Listen(ctx, Name, network("tcp", addr.Addr()), local.String())
	if err != nil {
		return fmt.Errorf("tcp %s: %w", local, errors.Join(err, closeAll(udp)))
	}
	s.tcp = append(s.tcp, l.(*net.TCPListener))
	for i, c := range udp {
		socket, err := newUDPSocket(c)
		if err != nil {
			return fmt.Errorf("udp %s: %w", addr, errors.Join(err, closeAll(udp[i+1:])))
		}
		s.udp = append(s.udp, socket)
	}
	s.bound = append(s.bound, local)
	return nil
}

// bindUDP takes over the sockets of an address, or opens them.
func (s *Server) bindUDP(ctx context.Context, addr netip.AddrPort) ([]*net.UDPConn, error) {
	udp, err := s.cfg.Inherited.UDP(Name, addr)
	for _, c := range udp {
		err = errors.Join(err, adoptUDP(c, addr.Addr(), s.cfg.ReadBuffer))
	}
	if err != nil || len(udp) > 0 {
		return udp, err
	}
	if udp, err = listenUDP(ctx, addr, s.cfg.Sockets, s.cfg.ReadBuffer); err != nil {
		return nil, err
	}
	for _, c := range udp {
		err = errors.Join(err, s.cfg.Inherited.Keep(Name, c))
	}
	return udp, err
}

func closeAll(conns []*net.UDPConn) error {
	var errs []error
	for _, c := range conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Bound are the addresses really bound, in the order of Config.Listen.
func (s *Server) Bound() []netip.AddrPort { return s.bound }

// Close closes every socket and connection. Serve then returns.
func (s *Server) Close() error {
	var errs []error
	for _, c := range s.udp {
		errs = append(errs, c.Close())
	}
	for _, listeners := range s.streams() {
		for _, l := range listeners {
			errs = append(errs, ignoreClosed(l.Close()))
		}
	}
	s.conns.close()
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// drainTime bounds how long the end of Serve waits for TCP clients that are being answered.
const drainTime = time.Second

// Serve answers until ctx ends; it returns when every goroutine it started has returned. What was received is answered
// first: a query is read only by who will answer it, and what is not read waits in the socket for the next program, if
// there is one that inherits it.
func (s *Server) Serve(ctx context.Context) error {
	var udp, tcp errgroup.Group
	for _, c := range s.udp {
		udp.Go(func() error { return s.serveUDP(ctx, c) })
	}
	for t, listeners := range s.streams() {
		for _, l := range listeners {
			tcp.Go(func() error { s.accept(ctx, l, Transport(t)); return nil })
		}
	}
	if s.web != nil {
		udp.Go(s.web.serve)
	}
	udp.Go(func() error {
		<-ctx.Done()
		var errs []error
		// TCP first: UDP clients are answered while the others are waited for.
		for _, listeners := range s.streams() {
			for _, l := range listeners {
				errs = append(errs, ignoreClosed(l.Close()))
			}
		}
		errs = append(errs, tcp.Wait()) // from here on no connection is new
		if s.web != nil {
			defer s.web.shutdown()()
		}
		s.conns.drain(s.drainTime)
		for _, c := range s.udp {
			c.stop()
		}
		return errors.Join(errs...)
	})
	err := udp.Wait()
	s.late.Wait() // their sockets are still open
	return errors.Join(err, s.Close())
}

// pause waits after an error that would otherwise repeat at once; it reports whether to go on.
func pause(ctx context.Context) bool {
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
