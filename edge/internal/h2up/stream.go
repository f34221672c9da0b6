package h2up

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

const (
	// firstWindow is every window before anybody said otherwise (RFC 9113 section 6.9.2).
	firstWindow = 1<<16 - 1
	// streamWindow is what an origin may send ahead on a stream at first. It doubles for who has to wait for more, up to
	// maxStreamWindow: 400 MB/s at 20 ms.
	streamWindow    = 256 << 10
	maxStreamWindow = 8 << 20
	// maxGrown is how much the windows of a connection may grow in all: what they hold is what we may have to keep, if those who
	// read stop. So the window of the connection can always be opened again, and no stream waits for another.
	maxGrown   = 32 << 20
	connWindow = 16 << 20
	// maxBacklog is how much may wait to be written before bodies wait for it.
	maxBacklog = 64 << 10
	// maxHeads bounds the heads that wait to be read: information, and the response.
	maxHeads = 20
	// pingPause is between two PINGs to a peer that sent nothing meanwhile: gRPC servers close connections on which they come more
	// often (five minutes, gRPC A8).
	pingPause = 6 * time.Minute
)

// part is a piece of a body in a buffer.
type part struct {
	b *h1.Buffer
	n int
}

// Stream is a request and its response. One goroutine at a time may read and one may write; Cut may be called by any.
type Stream struct {
	c       *Conn
	waiting [2]*time.Timer // of who reads, and of who writes
	readBy  conn.Instant
	writeBy conn.Instant

	readable, writable chan struct{} // 1 deep

	// Of who reads.
	held   *h1.Buffer // that the last part lies in
	isDone bool
	length h1.Length
	left   int64 // octets still to come, of a Sized one

	cut atomic.Bool

	// The lock of the connection guards what follows.
	id       uint32 // 0: it has not begun
	swap     uint64 // of the connection, that its head is written by
	window   int64  // to send in
	receive  int64  // that the peer may send
	size     int64  // of the window to receive in
	consumed int64  // octets that no credit was given for
	kept     int64  // octets in the queue
	starved  bool   // who reads had to wait since credit was given last
	heads    [][]byte
	queue    []part
	trailer  []byte
	err      error
	headed   bool // the head of the response has come
	ended    bool // the response has, to its end
	sent     bool // the request was written to its end
	reset    bool // by either side
	waits    bool // for room
	closed   bool
}

func newStream(c *Conn) *Stream {
	return &Stream{c: c, readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// ReadBy limits reads that come after: an instant of the clock, 0 for none. They fail with conn.ErrTimeout.
func (s *Stream) ReadBy(at conn.Instant) { s.readBy = at }

// WriteBy limits writes, see ReadBy.
func (s *Stream) WriteBy(at conn.Instant) { s.writeBy = at }

// wait waits for a signal. The lock is not held.
func (s *Stream) wait(ch chan struct{}, side int, at conn.Instant) error {
	if at == 0 {
		<-ch
		return nil
	}
	d := at.Sub(s.c.clock.Now())
	if d <= 0 {
		return conn.ErrTimeout
	}
	t := s.waiting[side]
	if t == nil {
		t = time.NewTimer(d)
		s.waiting[side] = t
	} else {
		t.Reset(d)
	}
	select {
	case <-ch:
		t.Stop()
		return nil
	case <-t.C:
		return conn.ErrTimeout
	}
}

// fail ends a stream. fresh says that the peer has not begun on it. The lock is held.
func (s *Stream) fail(err error, fresh bool) {
	if s.err == nil {
		if s.err = err; fresh {
			s.err = &unprocessed{err}
		}
	}
	wake(s.readable)
	wake(s.writable)
}

// refuse resets a stream because of what came on it. The lock is held.
func (s *Stream) refuse(code http2.ErrCode, err error) {
	s.sendReset(code)
	s.dropQueue()
	s.ended = false
	s.fail(err, false)
}

func (s *Stream) sendReset(code http2.ErrCode) {
	if s.id != 0 && !s.reset && !(s.ended && s.sent) {
		s.c.out = appendReset(s.c.out, s.id, code)
		s.c.writes.Signal()
	}
	s.reset = true
}

// Cut ends the stream from any goroutine, without waiting for anything: the origin is told, and what reads and writes fails with
// conn.ErrCut.
func (s *Stream) Cut() {
	if s.cut.Swap(true) {
		return
	}
	s.c.mu.Lock()
	s.sendReset(http2.ErrCodeCancel)
	s.c.mu.Unlock()
	wake(s.readable)
	wake(s.writable)
}

// WasCut reports whether Cut was called.
func (s *Stream) WasCut() bool { return s.cut.Load() }

// Close ends the use of the stream, which is reset unless both sides have ended.
func (s *Stream) Close() {
	s.Release()
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.id == 0 {
		c.reserved--
	} else {
		s.sendReset(http2.ErrCodeCancel)
		delete(c.streams, s.id)
		c.grown -= s.size - streamWindow
	}
	s.dropQueue()
	if len(c.streams)+c.reserved == 0 {
		c.idleSince = c.clock.Now()
	}
	c.maybeEnd()
}

// dropQueue gives back what nobody will read.
func (s *Stream) dropQueue() {
	for _, p := range s.queue {
		s.c.buffers.Return(p.b)
	}
	s.c.queued -= s.kept
	s.queue, s.kept = nil, 0
}

// push takes a part of the body that came. The lock is held.
func (s *Stream) push(data []byte) {
	s.c.queued += int64(len(data))
	s.kept += int64(len(data))
	if last := len(s.queue) - 1; last >= 0 {
		p := &s.queue[last]
		n := copy(p.b.B[p.n:], data)
		p.n += n
		data = data[n:]
	}
	for len(data) > 0 {
		size := h1.Small
		if len(data) > smallPart {
			size = h1.Large
		}
		b := s.c.buffers.Lend(size)
		n := copy(b.B, data)
		s.queue = append(s.queue, part{b, n})
		data = data[n:]
	}
}

// smallPart is the largest part that a small buffer is taken for.
const smallPart = 2 << 10

// onHead takes the head of a response, or one of information. The lock is held.
func (s *Stream) onHead(f *http2.MetaHeadersFrame) {
	text, status := appendHead(nil, f)
	informs := status < 200
	if text == nil || informs && f.StreamEnded() || len(s.heads) >= maxHeads {
		s.refuse(http2.ErrCodeProtocol, Malformed)
		return
	}
	s.heads = append(s.heads, text)
	s.headed = !informs
	s.ended = f.StreamEnded()
	wake(s.readable)
}

func (s *Stream) onTrailer(f *http2.MetaHeadersFrame) {
	text := appendTrailer(nil, f)
	if text == nil || !f.StreamEnded() {
		s.refuse(http2.ErrCodeProtocol, Malformed)
		return
	}
	s.trailer, s.ended = text, true
	wake(s.readable)
}

// Response reads the next head; bodiless says that it answers HEAD. Errors that are not of the stream are *h1.Error.
func (s *Stream) Response(p *h1.Response, bodiless bool) error {
	s.Release()
	text, ended, err := s.nextHead()
	if err != nil {
		return err
	}
	if err := p.Parse(text, s.c.cfg.Limits, bodiless); err != nil {
		return err
	}
	if p.Informational() {
		return nil
	}
	if p.Length.Kind == h1.UntilClose {
		p.Length = h1.Length{Kind: h1.Chunked} // its end is told, and trailer fields may come with it
	}
	if p.Length.Kind == h1.Chunked && ended {
		p.Length = h1.Length{Kind: h1.Sized} // such as a gRPC status without a message
	}
	p.KeepAlive = true
	s.length, s.left = p.Length, p.Length.N
	if p.Length.Kind == h1.Sized && !ended && p.Has(h1.Trailer) {
		p.Length = h1.Length{Kind: h1.Chunked} // HTTP/1.1 has a length or trailer fields
	}
	return nil
}

// nextHead waits for a head. ended says that nothing follows it.
func (s *Stream) nextHead() (text []byte, ended bool, err error) {
	c := s.c
	for {
		c.mu.Lock()
		switch {
		case s.cut.Load():
			err = conn.ErrCut
		case len(s.heads) > 0:
			text = s.heads[0]
			s.heads = s.heads[1:]
			ended = s.ended && len(s.queue) == 0 && s.trailer == nil
		case s.err != nil:
			err = s.err
		}
		c.mu.Unlock()
		if text != nil || err != nil {
			return text, ended, err
		}
		if err := s.wait(s.readable, 0, s.readBy); err != nil {
			return nil, false, err
		}
	}
}

// Next gives the next part of the body, which is valid until the next call. io.EOF is its end.
func (s *Stream) Next() ([]byte, error) {
	for {
		p, err := s.Ready()
		if p != nil || err != nil {
			return p, err
		}
		if s.isDone {
			return nil, io.EOF
		}
		if err := s.wait(s.readable, 0, s.readBy); err != nil {
			return nil, err
		}
	}
}

// Ready gives the part of the body that has come already, nil if nothing has. It never waits.
func (s *Stream) Ready() ([]byte, error) {
	s.Release()
	if s.isDone {
		return nil, nil
	}
	if s.cut.Load() {
		return nil, conn.ErrCut
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	if len(s.queue) > 0 {
		p := s.queue[0]
		s.queue[0] = part{}
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil
		}
		s.held, n = p.b, p.n
		c.queued -= int64(n)
		s.kept -= int64(n)
		s.credit(int64(n))
	} else if !s.ended {
		s.starved = true
		return nil, s.err
	}
	s.isDone = s.ended && len(s.queue) == 0
	if err := s.measure(n); err != nil {
		s.isDone = false
		return nil, err
	}
	if n == 0 {
		return nil, nil
	}
	return s.held.B[:n], nil
}

// measure holds a body against the length that its head states.
func (s *Stream) measure(n int) error {
	switch s.length.Kind {
	case h1.Sized:
		if s.left -= int64(n); s.left < 0 {
			return h1.ErrLength
		}
		if s.isDone && s.left > 0 {
			return h1.ErrCut
		}
	case h1.None:
		if n > 0 {
			return Malformed
		}
	case h1.Chunked, h1.UntilClose:
	}
	return nil
}

// credit lets the peer send more on the stream. The window grows for who had to wait for more. The lock is held.
func (s *Stream) credit(n int64) {
	if s.consumed += n; s.ended || s.reset || s.consumed < s.size/4 {
		return
	}
	more := s.consumed
	if s.starved && s.size < maxStreamWindow && s.c.grown+s.size <= maxGrown {
		more += s.size
		s.c.grown += s.size
		s.size *= 2
	}
	s.starved = false
	s.c.out = appendWindow(s.c.out, s.id, more)
	s.c.writes.Signal()
	s.receive += more
	s.consumed = 0
}

// Done reports whether the body has been read to its end.
func (s *Stream) Done() bool { return s.isDone }

// Trailer reads the trailer fields of a body that has been read to its end.
func (s *Stream) Trailer(h *h1.Head) error {
	s.c.mu.Lock()
	text := s.trailer
	s.c.mu.Unlock()
	return h.ParseTrailer(text, s.c.cfg.Limits)
}

// Release ends the use of the last part.
func (s *Stream) Release() {
	s.c.buffers.Return(s.held)
	s.held = nil
}

// Send begins the stream with a head of HTTP/1.1, and with a body when that can be sent at once; end says that nothing follows it.
// taken is false for a body that must be written. It waits for nothing.
func (s *Stream) Send(head, body []byte, end bool) (taken bool, err error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.cut.Load():
		return false, conn.ErrCut
	case c.err != nil:
		return false, &unprocessed{c.err}
	case c.refusing || c.next > maxStream:
		c.draining = true
		return false, &unprocessed{ErrClosed}
	}
	block, err := c.encode(head)
	if err != nil {
		return false, err
	}
	s.id, s.swap = c.next, c.swaps+1
	c.next += 2
	c.reserved--
	c.streams[s.id] = s
	s.window, s.receive, s.size = c.peerWindow, streamWindow, streamWindow
	s.sent = end && len(body) == 0
	c.out = appendBlock(c.out, s.id, block, s.sent)
	c.ping()
	c.writes.Signal()
	size := int64(len(body))
	heads := size / maxFrame * frameHead // of the frames before the last one
	if taken = size <= min(s.window, c.window) && size+heads <= maxBacklog-int64(len(c.out)); taken && size > 0 {
		s.writeSome(body, end)
	}
	return taken, nil
}

// ping asks whether the peer is there, when nothing was heard of it for long. The lock is held.
func (c *Conn) ping() {
	now := c.clock.Now()
	if c.pinged != 0 || now.Sub(c.heard) < c.cfg.PingAfter || !c.mayPing && now.Sub(c.heard) < pingPause {
		return
	}
	c.pinged, c.mayPing = now, false
	c.out = appendPing(c.out, 0, [8]byte{'s', 't', 'e', 'e', 'r'})
}

// Write writes a part of the request body, all of it; end says that it is the last. It waits for room.
func (s *Stream) Write(p []byte, end bool) error {
	c := s.c
	for {
		c.mu.Lock()
		err := s.unwritable()
		if err == nil {
			p = s.writeSome(p, end)
		}
		more := len(p) > 0
		s.waits = err == nil && more
		c.mu.Unlock()
		if err != nil || !more {
			return err
		}
		if err := s.wait(s.writable, 1, s.writeBy); err != nil {
			return err
		}
	}
}

// unwritable is why no more of a request can be written.
func (s *Stream) unwritable() error {
	switch {
	case s.cut.Load():
		return conn.ErrCut
	case s.err != nil:
		return s.err
	case s.reset || s.sent || s.closed:
		return errors.New("HTTP/2 stream takes no more")
	}
	return nil
}

// writeSome writes what there is room for and gives the rest. The lock is held.
func (s *Stream) writeSome(p []byte, end bool) []byte {
	c := s.c
	if len(p) == 0 {
		if end {
			c.out = appendData(c.out, s.id, nil, true)
			s.sent = true
			c.writes.Signal()
		}
		return nil
	}
	for len(p) > 0 && len(c.out) <= maxBacklog {
		n := min(int64(len(p)), maxFrame, s.window, c.window)
		if n <= 0 {
			break
		}
		s.window -= n
		c.window -= n
		s.sent = end && int(n) == len(p)
		c.out = appendData(c.out, s.id, p[:n], s.sent)
		p = p[n:]
		c.useless = 0
		c.writes.Signal()
	}
	return p
}

// WriteTrailer ends the request with trailer fields, given as lines.
func (s *Stream) WriteTrailer(lines []byte) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.unwritable(); err != nil {
		return err
	}
	c.encoded.Reset()
	if err := c.encodeFields(lines); err != nil {
		return err
	}
	c.out = appendBlock(c.out, s.id, c.encoded.Bytes(), true)
	s.sent = true
	c.writes.Signal()
	return nil
}
