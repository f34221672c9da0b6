package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"steerpoint/internal/proxyproto"
)

// Transport is how messages come.
type Transport uint8

// The transports.
const (
	UDP Transport = iota
	TCP
	DoT // DNS over TLS (RFC 7858)
	DoH // DNS over HTTPS (RFC 8484)
	Transports
)

func (t Transport) String() string { return [...]string{"udp", "tcp", "dot", "doh"}[t] }

// What the sockets of the encrypted listeners are called when they are handed on.
const (
	NameDoT = "dot"
	NameDoH = "doh"
)

// ListenError is the error of a listener that could not be bound.
type ListenError struct {
	Transport Transport // UDP and TCP are one listener: UDP
	Addr      netip.AddrPort
	err       error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Transport, e.Addr, e.err)
}

func (e *ListenError) Unwrap() error { return e.err }

// prepare makes what serving needs besides sockets.
func (s *Server) prepare() {
	for t := range s.sessions {
		s.sessions[t].init(func() Handler { return s.handlers(Transport(t)) })
	}
	if s.cfg.TLS != nil {
		s.tls = s.cfg.TLS.Clone()
		s.tls.NextProtos = []string{"dot"}
	}
	s.web = newWeb(s)
}

// bindEncrypted binds the listeners for DoT and DoH.
func (s *Server) bindEncrypted(ctx context.Context) error {
	for _, k := range []struct {
		transport Transport
		name      string
		listen    []netip.AddrPort
		to        *[]*net.TCPListener
	}{{DoT, NameDoT, s.cfg.DoT, &s.dot}, {DoH, NameDoH, s.cfg.DoH, &s.doh}} {
		for _, addr := range k.listen {
			l, err := s.cfg.Inherited.Listen(ctx, k.name, network("tcp", addr.Addr()), addr.String())
			if err != nil {
				return &ListenError{k.transport, addr, err}
			}
			*k.to = append(*k.to, l.(*net.TCPListener))
		}
	}
	return nil
}

// streams are the listeners of connections, by transport.
func (s *Server) streams() [Transports][]*net.TCPListener {
	return [Transports][]*net.TCPListener{TCP: s.tcp, DoT: s.dot, DoH: s.doh}
}

// Encrypted are the addresses really bound for DoT or DoH, in the order of the configuration.
func (s *Server) Encrypted(t Transport) (bound []netip.AddrPort) {
	for _, l := range s.streams()[t] {
		bound = append(bound, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return bound
}

// introduced is who a connection is of: its peer, or who a proxy says. false: the connection was ended.
func (s *Server) introduced(m *member, peer netip.AddrPort, proxied bool) (client netip.AddrPort, ok bool) {
	if !proxied {
		return peer, true
	}
	h, err := s.readHeader(m)
	if err != nil {
		s.leave(m, "proxy")
		return client, false
	}
	if !h.Client.IsValid() { // the proxy itself
		return peer, true
	}
	if !s.conns.identify(m, h.Client.Addr()) {
		s.count.TCPRefused("client")
		s.leave(m, "")
		return client, false
	}
	return h.Client, true
}

// readHeader reads the PROXY header at the beginning of a connection, and no octet more.
func (s *Server) readHeader(m *member) (proxyproto.Header, error) {
	if err := s.conns.await(m, s.cfg.TCPMessage); err != nil {
		return proxyproto.Header{}, err
	}
	b := make([]byte, proxyproto.FixedLen)
	if _, err := io.ReadFull(m.conn, b); err != nil {
		return proxyproto.Header{}, err
	}
	n, err := proxyproto.Len(b)
	if err != nil {
		return proxyproto.Header{}, err
	}
	b = append(b, make([]byte, n-len(b))...)
	if _, err := io.ReadFull(m.conn, b[proxyproto.FixedLen:]); err != nil {
		return proxyproto.Header{}, err
	}
	h, _, err := proxyproto.Parse(b, false)
	return h, err
}

// checkEncrypted refuses what cannot be served.
func (c *Config) checkEncrypted() error {
	if len(c.DoT)+len(c.DoH) > 0 && c.TLS == nil {
		return errors.New("DoT and DoH need a certificate")
	}
	if len(c.DoH) > 0 && c.Web == nil {
		return errors.New("DoH needs a handler of requests")
	}
	return nil
}

// TLS is the configuration of the encrypted listeners for a source of certificates. Sessions are resumed by tickets whose
// keys this process makes and changes by itself.
func TLS(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get}
}
