// Package pool keeps the connections of the gateway to one origin: those in use are counted and bounded, those idle are
// kept for the next request, the newest first.
//
// Invariants: a connection is used by one request at a time; one that anything came on while it was idle is not used
// again; an idle one is closed before the origin is likely to close it.
package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2up"
)

var (
	// ErrBusy is an origin with as many requests as it may have, and as many that wait.
	ErrBusy = errors.New("origin has all the requests it may have")
	// ErrClosed is a pool whose origin is no more.
	ErrClosed = errors.New("origin was removed")
)

// Config says how an origin is connected to.
type Config struct {
	// Address is where it is: an address or a name, with a port.
	Address string
	// TLS, unless nil, is how to speak TLS to it. ServerName must be set.
	TLS *tls.Config
	// MaxIdle is how many idle connections are kept. 0: 64; below 0: none.
	MaxIdle int
	// IdleTimeout is how long one is kept. It is to be shorter than the origin's: many servers close after 5s. 0: 4s.
	IdleTimeout time.Duration
	// MaxActive bounds the requests at once. 0: no bound.
	MaxActive int
	// MaxWaiting is how many requests may wait beyond MaxActive, the first come first. 0: none.
	MaxWaiting int
	// WaitTimeout is how long one may wait. 0: as long as its context.
	WaitTimeout time.Duration
	// Limits bound the heads of responses.
	Limits h1.Limits
	// HTTP2 is an origin that is asked by HTTP/2: over TLS it must agree by ALPN, without it is spoken with prior knowledge. A
	// connection has many requests at once then; each is a Conn with its Stream.
	HTTP2 bool
	// MaxConns bounds the connections of HTTP/2; a request beyond them gets ErrBusy. 0: no bound.
	MaxConns int
	// Dialed, unless nil, is called for each connection that is made.
	Dialed func()
	// Running, unless nil, counts what connections of HTTP/2 have running: it can be waited for after Close.
	Running *sync.WaitGroup
}

func (c Config) withDefaults() Config {
	if c.MaxIdle == 0 {
		c.MaxIdle = 64
	}
	if c.IdleTimeout <= 0 {
		c.IdleTimeout = 4 * time.Second
	}
	return c
}

// Conn is a connection to an origin that a request has: one of HTTP/1.1, or a stream of HTTP/2.
type Conn struct {
	*conn.Conn // nil with HTTP/2
	// Reader reads the responses of HTTP/1.1.
	Reader *h1.Reader
	// Stream is that of HTTP/2; nil: there is none.
	Stream *h2up.Stream
	// Reused says that the connection had requests before: the origin may have closed it while it was idle.
	Reused bool
	// Cutter is Conn.Cut, made once.
	Cutter func()
	since  conn.Instant // idle since then
	pool   *Pool
}

func (u *Conn) close() {
	_ = u.Close() // what it was for is over
	u.Reader.Close()
}

// Pool is the connections to one origin. Make it with New.
type Pool struct {
	cfg     Config
	clock   *conn.Clock
	buffers *h1.Pool

	mu      sync.Mutex
	idle    []*Conn // the newest last
	active  int
	waiting []chan struct{} // the first first; a turn is given by closing
	closed  bool
	h2      shared

	running *sync.WaitGroup
}

// New makes a pool.
func New(cfg Config, clock *conn.Clock, buffers *h1.Pool) *Pool {
	p := &Pool{cfg: cfg.withDefaults(), clock: clock, buffers: buffers, running: cfg.Running}
	if p.running == nil {
		p.running = &sync.WaitGroup{}
	}
	return p
}

// Idle gives an idle connection that is alive, nil if there is none; with HTTP/2, a stream of one that has room, whatever maxIdle
// is: the end of those is noticed when it comes. It counts as active until Put or Drop.
func (p *Pool) Idle(now conn.Instant, maxIdle time.Duration) *Conn {
	if p.cfg.HTTP2 {
		return p.idleStream()
	}
	p.mu.Lock()
	if p.closed || p.full() || len(p.idle) == 0 {
		p.mu.Unlock()
		return nil
	}
	p.active++
	p.mu.Unlock()
	if u := p.take(now, maxIdle); u != nil {
		return u
	}
	p.mu.Lock()
	p.leave()
	p.mu.Unlock()
	return nil
}

// take takes the newest idle connection for a request that is counted in already. maxIdle, unless 0, is how long it may
// have been idle. Those found dead are closed.
func (p *Pool) take(now conn.Instant, maxIdle time.Duration) *Conn {
	for {
		p.mu.Lock()
		last := len(p.idle) - 1
		if last < 0 || maxIdle > 0 && now.Sub(p.idle[last].since) > maxIdle {
			p.mu.Unlock()
			return nil
		}
		u := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if now.Sub(u.since) < p.cfg.IdleTimeout && u.Alive() {
			return u
		}
		u.close()
	}
}

// full is called with the lock held.
func (p *Pool) full() bool { return p.cfg.MaxActive > 0 && p.active >= p.cfg.MaxActive }

// Dial makes a new connection. It waits for its turn first when the origin has all the requests it may have; what is idle
// then will do, unless it must be fresh. It counts as active until Put or Drop. timeout bounds the connect with its TLS
// handshake; 0: 3s.
func (p *Pool) Dial(ctx context.Context, fresh bool, timeout time.Duration) (*Conn, error) {
	waited, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	if waited && !fresh && !p.cfg.HTTP2 {
		if u := p.take(p.clock.Now(), 0); u != nil {
			return u, nil
		}
	}
	var u *Conn
	if p.cfg.HTTP2 {
		u, err = p.dialStream(ctx, fresh, timeout)
	} else {
		u, err = p.dialApart(ctx, timeout)
	}
	if err != nil {
		p.mu.Lock()
		p.leave()
		p.mu.Unlock()
		return nil, err
	}
	return u, nil
}

// enter counts a request in, after its turn has come.
func (p *Pool) enter(ctx context.Context) (waited bool, err error) {
	p.mu.Lock()
	switch {
	case p.closed:
		p.mu.Unlock()
		return false, ErrClosed
	case !p.full():
		p.active++
		p.mu.Unlock()
		return false, nil
	case len(p.waiting) >= p.cfg.MaxWaiting:
		p.mu.Unlock()
		return false, ErrBusy
	}
	turn := make(chan struct{})
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	return true, p.wait(ctx, turn)
}

// wait waits for a turn. Who gives it has counted the request in already.
func (p *Pool) wait(ctx context.Context, turn chan struct{}) error {
	if p.cfg.WaitTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.cfg.WaitTimeout, ErrBusy)
		defer cancel()
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, turn); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		return errors.Join(ErrBusy, context.Cause(ctx)) // whatever ended the wait: nobody has tried the origin
	}
	p.leave() // the turn came at the same moment, and goes to the next one
	return errors.Join(ErrBusy, context.Cause(ctx))
}

// leave counts a request out, or gives its place to who waits. It is called with the lock held.
func (p *Pool) leave() {
	if len(p.waiting) > 0 {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		return
	}
	p.active--
}

// dialTimeout is two lost packets of a handshake, sent again after one second and after three.
const dialTimeout = 3 * time.Second

func (p *Pool) dial(ctx context.Context, timeout time.Duration) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, or(timeout, dialTimeout))
	defer cancel()
	up, err := p.link(ctx, p.cfg.TLS)
	if err != nil {
		return nil, err
	}
	u := &Conn{Conn: up, Reader: h1.NewReader(up, p.buffers, p.cfg.Limits, h1.Large), pool: p}
	u.Cutter = up.Cut
	return u, nil
}

// link connects, and agrees on TLS unless config is nil.
func (p *Pool) link(ctx context.Context, config *tls.Config) (*conn.Conn, error) {
	var d net.Dialer
	d.KeepAlive = -1 // idle ones live for seconds, and those in use have time limits
	if p.cfg.HTTP2 { // streams may be silent for as long as their routes say
		d.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
	}
	c, err := d.DialContext(ctx, "tcp", p.cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("connect to origin: %w", late(err))
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connect to origin: %T is no TCP connection", c), c.Close())
	}
	up, err := conn.New(tcp, p.clock, p.buffers)
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	if config != nil {
		if err := up.Dial(ctx, config); err != nil {
			return nil, errors.Join(fmt.Errorf("connect to origin: %w", err), tcp.Close())
		}
		if p.cfg.HTTP2 && up.TLS().NegotiatedProtocol != "h2" {
			return nil, errors.Join(fmt.Errorf("connect to origin: %w: TLS agreed on no protocol h2", h2up.ErrNotHTTP2), tcp.Close())
		}
	}
	if p.cfg.Dialed != nil {
		p.cfg.Dialed()
	}
	return up, nil
}

// Put takes back a connection whose response has been read to its end. It is kept if it can be.
func (p *Pool) Put(u *Conn, now conn.Instant) {
	if u.Stream != nil {
		p.endStream(u)
		return
	}
	buffered := u.Reader.Buffered() > 0 // what comes unasked would be taken for the next response
	u.Reader.Release()
	u.Reused, u.since = true, now
	p.mu.Lock()
	p.leave()
	var over *Conn
	switch {
	case p.closed || buffered || u.WasCut() || p.cfg.MaxIdle < 0:
		over = u
	case len(p.idle) >= p.cfg.MaxIdle:
		over = p.idle[0]
		copy(p.idle, p.idle[1:])
		p.idle[len(p.idle)-1] = u
	default:
		p.idle = append(p.idle, u)
	}
	p.mu.Unlock()
	if over != nil {
		over.close()
	}
}

// Drop closes a connection that cannot be used again; of HTTP/2, its stream.
func (p *Pool) Drop(u *Conn) {
	if u.Stream != nil {
		p.endStream(u)
		return
	}
	u.close()
	p.mu.Lock()
	p.leave()
	p.mu.Unlock()
}

// Trim closes those that have been idle for too long. It is to be called about once a second.
func (p *Pool) Trim(now conn.Instant) {
	p.mu.Lock()
	p.trimShared(now)
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].since) >= p.cfg.IdleTimeout {
		n++
	}
	old := append([]*Conn(nil), p.idle[:n]...)
	p.idle = slices.Delete(p.idle, 0, n)
	p.mu.Unlock()
	for _, u := range old {
		u.close()
	}
}

// Close closes what is idle, now, and what is in use when it is given back. Who waits gets its turn still.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.closeShared()
	old := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, u := range old {
		u.close()
	}
}

// Wait waits until nothing of the pool runs, after Close and the last Put or Drop.
func (p *Pool) Wait() { p.running.Wait() }

// Counts are the connections of a pool at a moment, the requests that wait, and with HTTP/2 those under way.
type Counts struct{ Active, Idle, Waiting, Streams int }

// Counts counts.
func (p *Pool) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := Counts{Active: p.active, Idle: len(p.idle), Waiting: len(p.waiting)}
	if p.cfg.HTTP2 {
		p.countShared(&n)
	}
	return n
}
