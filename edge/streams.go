package edge

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2"
)

// front is a connection of HTTP/2. Each of its streams is a client of its own, which shares nothing but the connection with its
// siblings.
type front struct {
	x    *client // the connection
	conn *h2.Conn

	mu      sync.Mutex
	streams map[*client]struct{}
}

// partGrace is how much longer a frame of DATA may pause than a body: by then the stream has been told, and its siblings wait no longer.
const partGrace = 10 * time.Second

// protocols are what ALPN offers.
func (c *Config) protocols() []string {
	if c.DisableHTTP2 {
		return []string{"http/1.1"}
	}
	return []string{"h2", "http/1.1"}
}

// agreed reports whether TLS agreed on HTTP/2.
func (x *client) agreed() bool {
	s := x.c.TLS()
	return s != nil && s.NegotiatedProtocol == "h2"
}

// begins reports whether what came instead of the first request is the beginning of HTTP/2 (RFC 9113 section 3.3): on a plain
// connection alone, as TLS has its own way to agree on it.
func (x *client) begins(err error) bool {
	return errors.Is(err, h1.ErrPreface) && x.first && x.secure == "" && !x.g.cfg.DisableHTTP2
}

// serveHTTP2 serves the connection as HTTP/2 to its end. first is what was read of it.
func (x *client) serveHTTP2(first []byte) {
	if x.ticket != 0 { // who reads sees by itself when the client leaves
		x.g.watcher.Remove(x.ticket)
		x.ticket = 0
	}
	first = bytes.Clone(first)
	x.reader.Release()
	x.doing.Store(serving)
	f := &front{x: x, streams: map[*client]struct{}{}}
	cfg := &x.g.cfg
	f.conn = h2.New(x.c, h2.Config{
		Clock: x.g.clock, Buffers: x.g.buffers, Limits: cfg.limits(), Handle: f.handle, MaxStreams: cfg.MaxStreams,
		HeadTimeout: cfg.HeadTimeout, IdleTimeout: cfg.IdleTimeout, WriteTimeout: cfg.WriteTimeout,
		PartTimeout: cfg.BodyTimeout + partGrace,
	})
	x.front.Store(f)
	x.g.metrics.h2.connections.Add(1)
	defer x.g.metrics.h2.connections.Add(-1)
	if x.g.clients.draining.Load() {
		f.conn.Shutdown()
	}
	if s := x.c.TLS(); s != nil && weak(s) {
		f.conn.End(h2.InadequateSecurity, "cipher")
	}
	err := f.conn.Serve(first)
	fault, system := (*h2.ConnError)(nil), net.Error(nil)
	switch {
	case errors.As(err, &fault):
		x.g.metrics.h2.fault(fault)
		x.g.metrics.ended("h2_" + fault.Reason)
	case err != nil && !errors.As(err, &system):
		x.g.metrics.ended("broken")
	}
	if err == nil || fault != nil {
		x.lastWords()
	}
}

// lastWords lets the client read what was said last: were the connection closed at once, what is still on its way from the client
// would have the system throw that away.
func (x *client) lastWords() {
	x.x.unread = true
	x.linger()
}

// handle answers the request of a stream.
func (f *front) handle(s *h2.Stream) {
	x := f.x.g.lendStream()
	x.bind(f, s)
	f.mu.Lock()
	f.streams[x] = struct{}{}
	f.mu.Unlock()
	x.g.metrics.h2.streams.Add(1)
	s.OnGone(x.leaves)

	x.answerStream()

	s.OnGone(nil)
	f.mu.Lock() // from here on nobody kills it
	delete(f.streams, x)
	f.mu.Unlock()
	x.g.metrics.h2.streams.Add(-1)
	x.unbind()
}

// each calls g with every stream there is. None of them ends meanwhile.
func (f *front) each(g func(*client)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for x := range f.streams {
		g(x)
	}
}

// saysGoodbye reports whether the connection ends after its streams, which were told to: there are WebSockets among them, and those say
// goodbye. It does not wait for them longer than they may take.
func (f *front) saysGoodbye() bool {
	goodbyes := false
	f.each(func(x *client) { goodbyes = goodbyes || x.saysGoodbye() })
	if goodbyes {
		f.conn.Shutdown()
		time.AfterFunc(2*goodbyeTime, f.x.c.Cut) // to a connection that has ended by then it does nothing
	}
	return goodbyes
}

// lendStream gives a client for a stream. It is used again when the stream has ended.
func (g *Gateway) lendStream() *client {
	if x, ok := g.spare.Get().(*client); ok {
		return x
	}
	x := &client{g: g}
	x.reader = h1.NewReader(streamBody{x}, g.buffers, g.cfg.limits(), h1.Small)
	x.choose()
	x.leaves = x.leave
	return x
}

func (x *client) bind(f *front, s *h2.Stream) {
	of := f.x
	x.s, x.c, x.peer, x.local, x.secure = s, of.c, of.peer, of.local, of.secure
	x.left, x.stop, x.also = false, nil, nil
	x.doing.Store(serving)
}

func (x *client) unbind() {
	x.reader.Close()
	x.s, x.c = nil, nil
	x.g.spare.Put(x)
}

// answerStream reads a request and answers it.
func (x *client) answerStream() {
	s := x.s
	x.x.begin(s.Begun)
	x.plan, x.asked = Plan{Memory: x.plan.Memory}, Asked{}
	if err := x.streamHead(); err == nil {
		x.exchange()
	} else {
		x.badHead(err)
	}
	x.finish()
}

// streamHead reads the head of a stream's request, and the part of its body that came with it.
func (x *client) streamHead() error {
	head, n, body := x.s.Head()
	if head == nil {
		x.req = h1.Request{}
		return h1.ErrHeadLong
	}
	if err := x.reader.Begin(&x.req, head, n, body); err != nil {
		return err
	}
	if body && !x.req.WebSocket {
		part, n, end := x.s.Early()
		x.reader.Preload(part, n, end)
	}
	return nil
}

// streamBody is the body of a stream's request, as its reader reads it.
type streamBody struct{ x *client }

// Read is an io.Reader's.
func (b streamBody) Read(p []byte) (int, error) { return b.x.s.Read(p) }

// ReadLent is an h1.Source's. With the end of the body its trailer is there, judged as one of HTTP/1.1 is: what is none must be a
// fault of the client, before anybody tries to pass it on.
func (b streamBody) ReadLent(p *h1.Pool, size h1.Size) (*h1.Buffer, int, error) {
	buf, n, err := b.x.s.ReadLent(p, size)
	if ended(err) {
		b.x.reader.SetTrailer(b.x.s.Trailer())
		var trailer h1.Head
		if fault := b.x.reader.Trailer(&trailer); fault != nil {
			return nil, 0, fault
		}
	}
	return buf, n, err
}

// bodyBy limits when more of a request body must have come.
func (x *client) bodyBy(at conn.Instant) {
	if x.s != nil {
		x.s.ReadBy(at)
		return
	}
	x.c.ReadBy(at)
}

// cutBody ends what reads the request body.
func (x *client) cutBody() {
	if x.s != nil {
		x.s.CutReads()
		return
	}
	x.c.CutReads()
}

// sayToStream sends an answer of the gateway's own: its head as that of HTTP/1.1, and its body.
func (x *client) sayToStream(head, body []byte) {
	if string(x.req.Method()) == "HEAD" {
		body = nil
	}
	x.x.out, x.x.sent = int64(len(body)), x.x.answer.status
	if x.s.Respond(head, body, true) != nil {
		x.x.out = 0 // the client has left, and there is nobody to tell
	}
}

// upstream is what is read of a response.
type upstream interface {
	Done() bool
	Trailer(h *h1.Head) error
}

// partToStream sends a part of a response, its head before it unless that was sent (nil), and its end after the last part.
func (x *client) partToStream(up upstream, head, part []byte) error {
	x.x.out += int64(len(part))
	var trailer *h1.Head // nil: there is none
	end := up.Done()
	if end && x.resp.Length.Kind == h1.Chunked {
		trailer = new(h1.Head)
		if err := up.Trailer(trailer); err != nil {
			return err
		}
		if trailer.Len() == 0 {
			trailer = nil
		}
	}
	var err error
	switch last := end && trailer == nil; {
	case head != nil:
		err = x.s.Respond(head, part, last)
	case len(part) > 0 || last:
		err = x.s.Write(part, last)
	}
	if err == nil && trailer != nil {
		err = x.s.WriteTrailer(trailer, keepTrailer)
	}
	if err != nil {
		x.stalls(err)
		return errClient{err}
	}
	return nil
}

// weak reports whether TLS agreed on what HTTP/2 must not be spoken over (RFC 9113 section 9.2.2): with TLS 1.2 all but
// AEAD with a key exchange that is forgotten.
func weak(s *tls.ConnectionState) bool {
	return s.Version == tls.VersionTLS12 && !slices.Contains([]uint16{
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	}, s.CipherSuite)
}

// appendVersion appends the version of HTTP that a request came by.
func (x *client) appendVersion(dst []byte) []byte {
	if x.s != nil {
		return append(dst, "2.0"...)
	}
	return append(append(dst, "1."...), byte('0'+x.req.Minor))
}
