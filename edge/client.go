package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2"
)

// What a connection is doing.
const (
	idle    = iota // between two requests
	serving        // a request
	ending         // it takes no more
)

// client is the connection of a client, and the request on it.
type client struct {
	g      *Gateway
	c      *conn.Conn
	reader *h1.Reader
	peer   netip.AddrPort
	local  netip.AddrPort
	source netip.Addr // what it is counted as; not valid: not counted
	secure string     // TLSv1.2 | TLSv1.3; "": none
	doing  atomic.Int32
	ticket uint64 // of the watcher
	first  bool   // no request came yet

	front atomic.Pointer[front] // set when the connection speaks HTTP/2
	s     *h2.Stream            // this is no connection but a stream of one, which c is then; nil: it is a connection

	// left says that the client has left, or was made to. Under mu, stop ends what is being done for it meanwhile.
	mu   sync.Mutex
	left bool
	stop func()
	also func() // how kill ends it instead of by a cut; nil: by a cut

	route atomic.Pointer[Route] // of the request that is served; nil: none

	req   h1.Request
	resp  h1.Response
	asked Asked
	plan  Plan
	x     exchange
	host  []byte // room for Asked.Host
	room  [32]byte
	state []byte // room for tracestate

	answered Answered
	proxied  bool // what the peer says of its client is believed

	// Functions made once: made for each request they would be allocated.
	keepRequest, keepResponse func(*h1.Head, int) bool
	leaves                    func() // leave
}

func newClient(g *Gateway, c *conn.Conn) *client {
	x := &client{g: g, c: c, first: true, peer: c.Remote(), local: c.Local()}
	x.reader = h1.NewReader(c, g.buffers, g.cfg.limits(), h1.Small)
	x.choose()
	return x
}

// choose says which fields of requests and responses are passed on.
func (x *client) choose() {
	x.keepRequest, x.keepResponse = x.passesUp, x.passesDown
	if x.g.tracer != nil {
		x.keepRequest = x.passesUpTraced
	}
}

// serve serves a connection until it ends.
func (x *client) serve(secure bool) {
	defer x.end()
	now := x.g.clock.Now()
	x.c.ReadBy(now.Add(x.g.cfg.HeadTimeout))
	x.c.WriteBy(now.Add(x.g.cfg.HeadTimeout))
	if !x.introduced() {
		return
	}
	if secure && !x.handshake() {
		return
	}
	if x.agreed() {
		x.serveHTTP2(nil)
		return
	}
	var err error
	if x.ticket, err = x.g.watcher.Add(x.c, x.leave); err != nil {
		x.g.metrics.ended("watch")
		return
	}
	x.converse()
}

func (x *client) handshake() bool {
	if err := x.c.Accept(context.Background(), x.g.tls); err != nil { // bounded by the limits of the connection
		x.g.metrics.ended("handshake")
		return false
	}
	x.secure = "TLSv1.3"
	if x.c.TLS().Version == tls.VersionTLS12 {
		x.secure = "TLSv1.2"
	}
	return true
}

// converse takes one request after the other.
func (x *client) converse() {
	for {
		if !x.doing.CompareAndSwap(serving, idle) && x.doing.Load() == ending || x.g.clients.draining.Load() {
			return
		}
		if x.reader.Buffered() == 0 {
			x.c.ReadBy(x.g.clock.Now().Add(x.g.cfg.IdleTimeout))
		}
		if err := x.reader.Await(); err != nil {
			x.lost(err)
			return
		}
		if !x.doing.CompareAndSwap(idle, serving) {
			return
		}
		if !x.request() {
			return
		}
	}
}

// lost counts how a connection ended between requests.
func (x *client) lost(err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, conn.ErrCut):
	case errors.Is(err, conn.ErrTimeout):
		x.g.metrics.ended("idle")
		if x.c.Unsent() > 0 {
			x.c.Cut() // it does not read: what waits for it would stay in the system
		}
	default:
		x.g.metrics.ended("broken")
	}
}

// request reads a request and answers it. It reports whether another one may follow.
func (x *client) request() (more bool) {
	now := x.g.clock.Now()
	x.c.ReadBy(now.Add(x.g.cfg.HeadTimeout))
	x.c.WriteBy(now.Add(x.g.cfg.WriteTimeout))
	x.x.begin(now)
	x.plan, x.asked = Plan{Memory: x.plan.Memory}, Asked{}
	if err := x.reader.Request(&x.req); err == nil {
		more = x.exchange()
	} else if x.begins(err) {
		x.serveHTTP2(x.reader.Take())
		return false
	} else {
		x.badHead(err)
	}
	x.first = false
	x.finish()
	if !more {
		x.linger()
	}
	return more
}

// badHead answers a request whose head cannot be read.
func (x *client) badHead(err error) {
	x.unread(err, "head_timeout")
	x.refuse()
}

// end closes the connection and forgets it.
func (x *client) end() {
	if x.ticket != 0 {
		x.g.watcher.Remove(x.ticket)
	}
	_ = x.c.Close() // what was to be said has been said
	x.reader.Close()
	x.g.clients.remove(x, x.source)
}

// leave is called when the client has left: what is done for it ends.
func (x *client) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.left = true
	if x.stop != nil {
		x.stop()
	}
}

// guard names what is to be called when the client leaves; nil is nothing. It reports whether the client is still there.
func (x *client) guard(stop func()) (there bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stop = stop
	return !x.left
}

func (x *client) hasLeft() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.left
}

// endIdle closes a connection that has no request.
func (x *client) endIdle() {
	if f := x.front.Load(); f != nil {
		f.conn.Shutdown()
	} else if x.doing.CompareAndSwap(idle, ending) {
		x.c.CutReads()
	}
}

// kill ends a connection whatever it does.
func (x *client) kill() {
	if f := x.front.Load(); f != nil && f.saysGoodbye() {
		return
	}
	x.doing.Store(ending)
	x.cut() // before what is done for it ends, or its end could look like that of a whole response
	x.leave()
}

func (x *client) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.also != nil {
		x.also()
		return
	}
	if x.s != nil {
		x.s.Kill()
		return
	}
	x.c.Cut()
}

// What is read at most of a client that was answered before it had sent all. Were the connection closed at once, its system
// could throw the answer away (RFC 9112 section 9.6).
const (
	lingerTime   = 2 * time.Second
	lingerOctets = 256 << 10
)

// linger ends the connection to the client so that it can still read the answer.
func (x *client) linger() {
	if !x.x.unread && x.reader.Buffered() == 0 || x.c.WasCut() || x.hasLeft() {
		return
	}
	if x.c.CloseWrite() != nil {
		return
	}
	sock := x.c.Sock()
	if sock.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	room := x.g.buffers.Lend(h1.Small)
	defer x.g.buffers.Return(room)
	for read := 0; read < lingerOctets; {
		n, err := sock.Read(room.B)
		if err != nil {
			return
		}
		read += n
	}
}
