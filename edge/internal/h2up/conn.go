// Package h2up is the client's side of HTTP/2 (RFC 9113): connections to origins, and the streams on them. Heads leave it and
// come into it as heads of HTTP/1.1 in octets, so that one codec judges those of all origins and the core knows one form.
//
// A connection has two goroutines: one reads frames and hands them to their streams, one writes what was put together for
// it. Who uses a stream waits for neither socket nor peer longer than its own time limits: to send is to append, and bodies wait
// for room.
//
// Frames are read, and HPACK is decoded, by a library (golang.org/x/net/http2). What is sent is encoded with HPACK's static table
// alone, so that nothing of one visitor's request is in the state that another's is encoded with.
//
// Invariants: a request that the origin cannot have begun on is told from one that it may have (ErrUnprocessed); a stream that ends
// early is an error and never an end; nothing is sent twice; a stream that is cut is reset at once; what an origin can make us keep is
// bounded by windows that grow only for who reads fast; a malformed response ends its stream, a malformed frame the connection.
package h2up

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// Config says how a connection is used. The zero value is good.
type Config struct {
	// Secure is the scheme that origins are told: true is https.
	Secure bool
	// Limits bound heads and trailers of responses.
	Limits h1.Limits
	// MaxStreams is how many streams there may be at once, if the origin allows as many. 0: 100.
	MaxStreams int
	// WriteTimeout is how long the origin may take nothing of what is sent to it. 0: 30s.
	WriteTimeout time.Duration
	// PingAfter is the silence after which a request goes with a PING, PingTimeout how long its answer may take. 0: 10s, 5s.
	PingAfter, PingTimeout time.Duration
	// Ended, unless nil, is called once when everything that the connection started has stopped.
	Ended func()
}

func (c Config) withDefaults() Config {
	if c.MaxStreams <= 0 {
		c.MaxStreams = 100
	}
	for v, zero := range map[*time.Duration]time.Duration{
		&c.WriteTimeout: 30 * time.Second, &c.PingAfter: 10 * time.Second, &c.PingTimeout: 5 * time.Second,
	} {
		if *v <= 0 {
			*v = zero
		}
	}
	return c
}

const (
	// headList bounds a header list as HTTP/2 counts it: 32 octets a field beside its own. h1.Limits judges after that.
	headList = 128 << 10
	// maxFrame is the largest payload that is sent: what every peer must take (RFC 9113 section 4.2). maxTaken is the largest that is
	// taken: many servers write a frame by a system call.
	maxFrame  = 16 << 10
	maxTaken  = 64 << 10
	frameHead = 9
	maxStream = 1<<31 - 1
	maxWindow = 1<<31 - 1
	// assumedStreams is what a peer is taken to allow that says nothing (RFC 9113 section 5.1.2 recommends no less).
	assumedStreams = 100
	// maxUseless is how many frames may come in a row that carry nothing, and how many answers to frames may wait to be written: each
	// costs us and moves nobody on.
	maxUseless = 10_000
	// closeTimeout is how long the last words of a connection may take.
	closeTimeout = time.Second
)

// Conn is a connection. Make it with New.
type Conn struct {
	cfg     Config
	c       *conn.Conn
	cut     func() // c.Cut
	clock   *conn.Clock
	buffers *h1.Pool
	src     source
	fr      *http2.Framer

	settled    chan struct{} // closed when the peer's SETTINGS are here
	writerDone chan struct{}
	done       chan struct{}

	mu       sync.Mutex
	writes   sync.Cond // there is something to write, or nothing more will be
	streams  map[uint32]*Stream
	reserved int    // streams that are promised and have not begun
	next     uint32 // the ID of the next stream
	err      error  // why the connection can no longer be used
	draining bool   // no more streams are promised: the peer said so, or Close did
	refusing bool   // no more may begin: the peer said so
	ending   bool   // it ends when what is in out has been written
	flushed  bool   // the writer has ended
	late     *time.Timer

	out, spare []byte // what is to be written; what was
	swaps      uint64 // how often out was taken to be written
	encoded    bytes.Buffer
	encoder    *hpack.Encoder
	lowered    []byte

	peerStreams uint32 // that the peer allows
	peerWindow  int64  // of a new stream, to send in
	window      int64  // of the connection, to send in

	receive    int64 // that the peer may still send on the connection
	uncredited int64 // of what it sent
	queued     int64 // octets in the queues of streams
	grown      int64 // what the windows of streams are above their first
	useless    int   // frames in a row that carried nothing
	answers    int   // to frames of the peer, that are not written yet
	hasSettled bool

	heard     conn.Instant // when the last frame came
	pinged    conn.Instant // when the PING was sent that is not answered yet; 0: none
	mayPing   bool
	idleSince conn.Instant // 0: there are streams
}

// New speaks HTTP/2 on a connection, over TLS or with prior knowledge, and waits until the origin does too. The connection is
// closed when it fails, and otherwise by Close. ErrNotHTTP2 is an origin that speaks something else.
func New(ctx context.Context, c *conn.Conn, clock *conn.Clock, buffers *h1.Pool, cfg Config) (*Conn, error) {
	k := newConn(clock, buffers, cfg)
	k.c, k.cut = c, c.Cut
	k.src = source{c: c, buffers: buffers}
	k.read(&k.src)
	c.ReadBy(0)
	go k.writeLoop()
	go k.readLoop()
	select {
	case <-k.settled:
		return k, nil
	case <-k.done:
		return nil, k.cause()
	case <-ctx.Done():
	}
	k.lose(ctx.Err())
	<-k.done
	return nil, ctx.Err()
}

// newConn makes a connection with its first words, without a socket.
func newConn(clock *conn.Clock, buffers *h1.Pool, cfg Config) *Conn {
	k := &Conn{
		cfg: cfg.withDefaults(), clock: clock, buffers: buffers, streams: map[uint32]*Stream{}, next: 1,
		settled: make(chan struct{}), writerDone: make(chan struct{}), done: make(chan struct{}),
		cut: func() {}, peerStreams: assumedStreams, peerWindow: firstWindow, window: firstWindow, receive: connWindow, mayPing: true,
	}
	k.writes.L = &k.mu
	k.encoder = hpack.NewEncoder(&k.encoded)
	k.encoder.SetMaxDynamicTableSize(0)
	k.heard = clock.Now()
	k.idleSince = k.heard
	k.out = append(k.out, http2.ClientPreface...)
	k.out = appendSettings(k.out,
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: maxTaken},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: headList})
	k.out = appendWindow(k.out, 0, connWindow-firstWindow)
	return k
}

// Reserve promises a stream, nil if there can be none now. It must be closed.
func (c *Conn) Reserve() *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.err != nil || len(c.streams)+c.reserved >= min(c.cfg.MaxStreams, int(c.peerStreams)) {
		return nil
	}
	c.reserved++
	c.idleSince = 0
	return newStream(c)
}

// Usable reports whether there may be more streams, now or later.
func (c *Conn) Usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.draining && c.err == nil
}

// Streams is how many streams there are, with those promised.
func (c *Conn) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams) + c.reserved
}

// IdleSince is since when there has been no stream; 0: there is one.
func (c *Conn) IdleSince() conn.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idleSince
}

// Check ends a connection whose peer has not answered a PING in time. It is to be called about once a second.
func (c *Conn) Check(now conn.Instant) {
	c.mu.Lock()
	dead := c.pinged != 0 && now.Sub(c.pinged) >= c.cfg.PingTimeout
	c.mu.Unlock()
	if dead {
		c.lose(errNoAnswer)
	}
}

// Close takes no more streams, and closes the connection when those there are have ended.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	c.maybeEnd()
}

// Done is closed when the connection is, and everything it started has stopped.
func (c *Conn) Done() <-chan struct{} { return c.done }

func (c *Conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// maybeEnd ends a connection that has nothing left to do. The lock is held.
func (c *Conn) maybeEnd() {
	if !c.draining || c.ending || len(c.streams)+c.reserved > 0 {
		return
	}
	c.ending = true
	if c.err == nil {
		c.err = ErrClosed
	}
	c.out = appendGoAway(c.out, http2.ErrCodeNo)
	c.late = time.AfterFunc(closeTimeout, c.cut)
	c.writes.Signal()
}

// lose ends a connection for a reason. Streams that were not begun on by the origin are told so.
func (c *Conn) lose(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = c.explain(err)
	}
	c.draining = true
	for _, s := range c.streams {
		s.fail(c.err, c.swaps < s.swap)
	}
	switch code, told := lastWord(err); {
	case c.flushed:
	case told && !c.ending:
		c.out = appendGoAway(c.out, code)
		c.late = time.AfterFunc(closeTimeout, c.cut)
	default:
		c.cut()
	}
	c.ending = true
	c.writes.Signal()
}

// explain says what the end of a connection means.
func (c *Conn) explain(err error) error {
	if !c.hasSettled && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return &notHTTP2{err}
	}
	return &lost{err}
}

// readLoop reads until the connection ends, and closes it when the writer has ended too.
func (c *Conn) readLoop() {
	c.lose(c.readFrames())
	<-c.writerDone
	_ = c.c.Close() // what was to be said has been said
	c.mu.Lock()
	late := c.late
	c.mu.Unlock()
	if late != nil {
		late.Stop()
	}
	c.src.drop()
	close(c.done)
	if c.cfg.Ended != nil {
		c.cfg.Ended()
	}
}

// writeLoop writes what there is, until the connection ends.
func (c *Conn) writeLoop() {
	defer close(c.writerDone)
	for {
		p := c.takeOut()
		if p == nil {
			c.c.CutReads() // which ends the reader
			return
		}
		c.c.WriteBy(c.clock.Now().Add(c.cfg.WriteTimeout))
		if _, err := c.c.Write(p); err != nil {
			c.mu.Lock()
			c.flushed, c.out = true, nil
			c.mu.Unlock()
			c.lose(err)
			c.cut()
			return
		}
	}
}

// keptOut is the most that is kept to write into while there is nothing to be written.
const keptOut = 4 << 10

// takeOut waits for something to write; nil: there will be nothing more. What it gave last is used again.
func (c *Conn) takeOut() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) == 0 {
		if c.ending {
			c.flushed = true
			return nil
		}
		if cap(c.spare) > keptOut {
			c.spare = nil
		}
		if cap(c.out) > keptOut {
			c.out = nil
		}
		c.writes.Wait()
	}
	p := c.out
	c.out, c.spare = c.spare[:0], p[:0]
	c.swaps++
	c.answers = 0
	c.wakeWriters()
	return p
}

// wakeWriters wakes those that wait for room, in windows or in out. The lock is held.
func (c *Conn) wakeWriters() {
	for _, s := range c.streams {
		if s.waits {
			s.waits = false
			wake(s.writable)
		}
	}
}

// source reads from the connection without a buffer while nothing comes.
type source struct {
	c       *conn.Conn
	buffers *h1.Pool
	buf     *h1.Buffer
	r, w    int
}

// Read gives what there is.
func (s *source) Read(p []byte) (n int, err error) {
	if s.r == s.w {
		s.drop()
		if s.buf, s.w, err = s.c.ReadLent(s.buffers, h1.Large); err != nil && s.w == 0 {
			return 0, err
		}
	}
	n = copy(p, s.buf.B[s.r:s.w])
	if s.r += n; s.r == s.w {
		s.drop()
	}
	return n, nil
}

func (s *source) drop() {
	s.buffers.Return(s.buf)
	s.buf, s.r, s.w = nil, 0, 0
}
