package h2

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// Config is how a connection is served.
type Config struct {
	Clock   *conn.Clock
	Buffers *h1.Pool
	// Limits bound a head, as of HTTP/1.1.
	Limits h1.Limits
	// Handle answers a request, on a goroutine of its own. The stream is closed when it returns.
	Handle func(*Stream)
	// MaxStreams is how many requests may be under way at once. 0: 100.
	MaxStreams int
	// HeadTimeout bounds the preface and each header block, IdleTimeout a connection without a request, WriteTimeout what a
	// peer may take to read what is sent or to give a stream room. 0: 10s, 61s, 30s.
	HeadTimeout, IdleTimeout, WriteTimeout time.Duration
	// Silence is how long a peer with open streams may say nothing before it is asked whether it is there, and Answer how long it has for
	// that. PartTimeout is how long a frame of DATA that has begun may pause: nothing else is read meanwhile. 0: 45s, 20s, 40s.
	Silence, Answer, PartTimeout time.Duration
	// LeaveWait is how long a peer may take to say that it knows that no more streams are to be begun. 0: 1s.
	LeaveWait time.Duration
}

const (
	maxStreams = 100
	// streamWindow is what a stream may hold of a request body that nobody takes, connWindow what all of them may.
	streamWindow = 128 << 10
	connWindow   = 1 << 20
	// maxBlock bounds a header block as it comes, before it is decoded, and maxParts the frames that it may come in.
	maxBlock = 128 << 10
	maxParts = 64
	// tableSize is HPACK's table of a peer that nobody told another one.
	tableSize = 4096
)

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.Full()
	c.MaxStreams = cmp.Or(c.MaxStreams, maxStreams)
	c.HeadTimeout = cmp.Or(c.HeadTimeout, 10*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 61*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.Silence = cmp.Or(c.Silence, 45*time.Second)
	c.Answer = cmp.Or(c.Answer, 20*time.Second)
	c.LeaveWait = cmp.Or(c.LeaveWait, time.Second)
	c.PartTimeout = cmp.Or(c.PartTimeout, 40*time.Second)
	return c
}

// Conn is a connection. Make it with New, and call Serve once.
type Conn struct {
	cfg  Config
	link *conn.Conn // nil in tests of the machine alone

	// Of the goroutine that reads.
	greeted  int  // octets of the preface that came
	settled  bool // the first SETTINGS came
	decoder  *hpack.Decoder
	block    block
	inBlock  bool
	blockOf  frame        // the HEADERS that began it
	fate     fate         // what becomes of it
	size     int          // octets of it so far
	parts    int          // frames of it so far
	since    conn.Instant // when the frame or block began that is not all here; 0: none
	data     dataFrame
	pinged   bool // the peer was asked whether it is there
	starting []*Stream
	lost     *Stream        // was reset by the frame that is being taken
	work     sync.WaitGroup // handlers

	mu      sync.Mutex
	streams map[uint32]*Stream
	running int          // handlers, those of streams that are no more included
	over    int          // of them, those whose stream has ended both ways: the peer may have begun another in its place
	last    uint32       // the highest stream of the peer
	passed  uint32       // the highest that was begun too late and is passed over; 0: none was
	closed  [128]closing // streams that ended lately
	nClosed int          // of them, ever
	idleAt  conn.Instant // when the last stream ended
	flood   flood
	window  int // what may be sent on all streams
	first   int // the window a stream of the peer begins with
	in      int // what the peer may send
	credit  int // what was taken of that and is to be given back
	waiters int // streams that wait to send
	room    sync.Cond
	out     outgoing
	err     error // why nothing more can be sent
	faulty  bool  // nothing but why the connection ends is sent any more
	leaving leaving
	ended   error // a fault of the peer, found elsewhere than where it is read
}

// closing is a stream that ended; byUs: what the peer sent before it knew may still come.
type closing struct {
	id   uint32
	byUs bool
}

// New makes the server's side of a connection.
func New(link *conn.Conn, cfg Config) *Conn {
	c := &Conn{
		cfg: cfg.withDefaults(), link: link, streams: map[uint32]*Stream{}, window: firstWindow, first: firstWindow, in: connWindow,
	}
	c.idleAt = c.cfg.Clock.Now()
	c.room.L = &c.mu
	c.block = block{pool: c.cfg.Buffers, limit: c.cfg.Limits.Head}
	c.decoder = hpack.NewDecoder(tableSize, c.block.field)
	c.block.stop = func() { c.decoder.SetEmitEnabled(false) }
	c.out.pool = c.cfg.Buffers
	c.out.append(appendSettings(nil,
		setting{settingStreams, uint32(c.cfg.MaxStreams)}, setting{settingWindow, streamWindow}, setting{settingList, uint32(c.cfg.Limits.Head)},
		setting{settingConnect, 1}, setting{settingNoPriorities, 1}))
	c.out.append(appendWindow(nil, 0, connWindow-firstWindow))
	return c
}

// Serve serves the connection until it ends, and all of its requests have. first is what was read of it already. The
// connection is not closed, but nothing more can be said on it. An error is why it ended, if neither side meant it to; it is a
// *ConnError when the peer was told so.
func (c *Conn) Serve(first []byte) error {
	err := c.read(first)
	fault := (*ConnError)(nil)
	c.mu.Lock()
	if err == nil {
		err = c.ended
	}
	c.faulty = true
	if errors.As(err, &fault) && c.err == nil {
		c.out.append(appendGoAway(nil, c.last, fault.Code, fault.Reason))
	}
	streams := slices.Collect(maps.Values(c.streams))
	c.mu.Unlock()
	for _, s := range streams {
		s.lose()
	}
	for _, s := range c.starting {
		s.drop()
	}
	c.lastWords()
	c.work.Wait()
	c.block.drop()
	return err
}

// lastWords says what is still to be said. Nothing is said after it.
func (c *Conn) lastWords() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	for c.out.writing {
		c.room.Wait()
	}
	if c.err == nil {
		c.err = errGone
	}
	c.leaving.stop()
	c.out.drop()
}

// End ends the connection for a reason of ours, which the peer is told. It may be called by any goroutine.
func (c *Conn) End(code Code, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = broken(code, reason)
	}
	c.link.CutReads()
}

// read reads frames until the connection ends.
func (c *Conn) read(first []byte) (err error) {
	buf := c.cfg.Buffers.Lend(h1.Large)
	defer func() { c.cfg.Buffers.Return(buf) }()
	from, to := 0, copy(buf.B, first)
	for {
		var part []byte
		if buf != nil { // or else nothing came in time
			part = buf.B[from:to]
		}
		used, err := c.feed(part)
		from += used
		if err == nil {
			err = c.pause(from < to)
		}
		if err != nil {
			return c.quietly(err)
		}
		if from < to { // the rest of a frame is to come
			to, from = copy(buf.B, buf.B[from:to]), 0
			n, err := c.link.Read(buf.B[to:])
			if to += n; err != nil && n == 0 {
				if err = c.silent(err); err != nil {
					return c.quietly(err)
				}
			}
			continue
		}
		from, to = 0, 0
		c.cfg.Buffers.Return(buf)
		buf, to, err = c.link.ReadLent(c.cfg.Buffers, h1.Large)
		if err != nil {
			if err = c.silent(err); err != nil {
				return c.quietly(err)
			}
		}
	}
}

// errOver is the end of a connection that both sides are done with.
var errOver = errors.New("HTTP/2 connection is over")

// quietly leaves out the ends that are meant.
func (c *Conn) quietly(err error) error {
	if errors.Is(err, errOver) || errors.Is(err, io.EOF) || errors.Is(err, conn.ErrCut) {
		return nil
	}
	return err
}

// pause is before the goroutine waits for the peer: it starts what came, says what is to be said, and sets a limit. part says that the
// beginning of a frame is here.
func (c *Conn) pause(part bool) error {
	c.start()
	now := c.cfg.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack()
	c.flush()
	c.waitForRoom()
	switch {
	case c.ended != nil:
		return c.ended
	case c.err != nil:
		return c.err
	case c.leaving.done && len(c.streams) == 0:
		return errOver
	}
	if c.link == nil {
		return nil
	}
	switch waits := part && c.data.left == 0 || c.inBlock || !c.settled; {
	case waits:
		if c.since == 0 {
			c.since = now
		}
		c.link.ReadBy(c.since.Add(c.cfg.HeadTimeout))
		return nil
	case c.data.left > 0:
		c.link.ReadBy(now.Add(c.cfg.PartTimeout))
	case len(c.streams) > 0 && c.pinged:
		c.link.ReadBy(now.Add(c.cfg.Answer))
	case len(c.streams) > 0:
		c.link.ReadBy(now.Add(c.cfg.Silence))
	default:
		c.link.ReadBy(max(now, c.idleAt.Add(c.cfg.IdleTimeout)))
	}
	c.since = 0
	return nil
}

// silent says what it means that nothing more came; nil is to go on.
func (c *Conn) silent(err error) error {
	if !errors.Is(err, conn.ErrTimeout) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.since != 0:
		return broken(ProtocolError, "head_timeout")
	case c.data.left > 0:
		return broken(ProtocolError, "body_timeout")
	case len(c.streams) > 0 && c.pinged:
		return broken(NoError, "silent")
	case len(c.streams) > 0:
		c.pinged = true
		c.out.append(appendPing(nil, 0, []byte("steer?  ")))
	case c.cfg.Clock.Now() >= c.idleAt.Add(c.cfg.IdleTimeout):
		return broken(NoError, "idle")
	}
	return nil
}

// start starts the requests that came.
func (c *Conn) start() {
	for i, s := range c.starting {
		c.starting[i] = nil
		if s.isGone() { // reset at once: nothing was done for it yet
			s.drop()
			continue
		}
		c.work.Add(1)
		go s.run()
	}
	c.starting = c.starting[:0]
}

// offend counts what a peer has little reason for. The lock is held.
func (c *Conn) offend(o offence) error {
	if reason, over := c.flood.add(o, c.cfg.Clock.Now()); over {
		return broken(EnhanceYourCalm, reason)
	}
	return nil
}
