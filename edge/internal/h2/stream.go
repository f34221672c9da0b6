package h2

import (
	"errors"
	"io"
	"sync"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// Stream is a request and its response. One goroutine at a time may read from it and one write; Kill and CutReads may be
// called by any.
type Stream struct {
	c  *Conn
	id uint32

	// Begun is when the request came.
	Begun conn.Instant
	// TooLarge says that the head was above the limit: there is none then.
	TooLarge bool
	// WebSocketKey is the Sec-WebSocket-Key that the head was given, if it asks for a WebSocket. "": it does not.
	WebSocketKey string

	head     *h1.Buffer
	headSize int

	// Under the lock of the connection. changed is for all that may be waited for.
	changed sync.Cond
	gone    bool // reset, by either side, or over
	whole   bool // over, as both sides have ended

	// What comes.
	queue         []piece
	ended         bool // the end of the request came
	cutReads      bool
	trailer       []byte
	expects, got  int64 // octets of the body: what the head says, -1 if nothing; what came
	in            int   // what the peer may send
	lent, credit  int   // what was taken at last; what is to be given back
	readBy        conn.Instant
	waitsForReads bool

	// What goes.
	window  int
	sentEnd bool
	killed  bool

	hook sync.Mutex
	left func() // called once when the stream is gone
}

// piece is a part of a body in a buffer.
type piece struct {
	buf *h1.Buffer
	n   int
}

// run has the stream handled.
func (s *Stream) run() {
	defer s.c.work.Done()
	s.c.cfg.Handle(s)
	s.close()
}

// drop is the end of a stream that is not handled.
func (s *Stream) drop() {
	s.c.cfg.Buffers.Return(s.head)
	s.close()
}

// Head gives the head of the request as one of HTTP/1.1, n octets in a buffer that is the caller's then, and whether a body
// follows. nil: it was too large.
func (s *Stream) Head() (b *h1.Buffer, n int, body bool) {
	b, n = s.head, s.headSize
	s.head = nil
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return b, n, !s.ended || len(s.queue) > 0
}

// Early gives the first part of the body if it came with the head, nil if none did; end says that it is all. The buffer is
// the caller's then.
func (s *Stream) Early() (b *h1.Buffer, n int, end bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if len(s.queue) > 0 {
		b, n = s.pop()
	}
	return b, n, s.ended && len(s.queue) == 0
}

// OnGone names what is to be called, once, when the peer has reset the stream or the connection is over. nil: nothing; it
// returns when what was named before is not being called.
func (s *Stream) OnGone(f func()) {
	s.hook.Lock()
	s.left = f
	s.hook.Unlock()
	if f != nil && s.isGone() {
		s.tell()
	}
}

func (s *Stream) tell() {
	s.hook.Lock()
	defer s.hook.Unlock()
	if f := s.left; f != nil {
		s.left = nil
		f()
	}
}

func (s *Stream) isGone() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.gone
}

// lose ends a stream that the peer cannot be told anything about any more.
func (s *Stream) lose() {
	s.c.mu.Lock()
	s.gone = true
	s.changed.Broadcast()
	s.c.mu.Unlock()
	s.tell()
}

// Kill ends the stream whatever is being done with it, and tells the peer.
func (s *Stream) Kill() {
	s.c.mu.Lock()
	s.killed = true
	s.changed.Broadcast()
	s.c.mu.Unlock()
}

// put takes a part of a body; more is how much of its frame is to come. It reports whether it was taken. The lock of the
// connection is held.
func (s *Stream) put(p []byte, more int) bool {
	s.got += int64(len(p)) // whether it is taken or not: the end is held against it
	if s.gone || s.cutReads {
		return false
	}
	for len(p) > 0 {
		last := len(s.queue) - 1
		if last < 0 || s.queue[last].n == len(s.queue[last].buf.B) {
			size := h1.Large
			if last < 0 && len(p)+more <= 4<<10 {
				size = h1.Small
			}
			s.queue = append(s.queue, piece{buf: s.c.cfg.Buffers.Lend(size)})
			last++
		}
		q := &s.queue[last]
		n := copy(q.buf.B[q.n:], p)
		q.n += n
		p = p[n:]
	}
	if s.waitsForReads {
		s.changed.Broadcast()
	}
	return true
}

// endIn is the end of the request. The lock of the connection is held.
func (s *Stream) endIn() {
	s.ended = true
	s.changed.Broadcast()
	if s.sentEnd {
		s.complete()
	}
}

// complete is the end of a stream both ways. The lock of the connection is held.
func (s *Stream) complete() {
	if s.c.streams[s.id] == s {
		s.whole = true
		s.c.over++
	}
	s.c.forget(s, false)
}

func (s *Stream) pop() (*h1.Buffer, int) {
	q := s.queue[0]
	s.queue[0] = piece{}
	s.queue = s.queue[1:]
	s.lent = q.n
	return q.buf, q.n
}

// ReadBy limits what is read after it: an instant of the clock, 0 for none.
func (s *Stream) ReadBy(at conn.Instant) { s.readBy = at }

// CutReads ends what reads. What still comes is thrown away.
func (s *Stream) CutReads() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.cutReads = true
	s.changed.Broadcast()
}

// ReadLent gives the next part of the body, as h1.Source has it. By that the part before is done with: the peer may send as
// much again.
func (s *Stream) ReadLent(_ *h1.Pool, _ h1.Size) (*h1.Buffer, int, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.taken()
	for {
		switch {
		case s.cutReads, s.killed:
			return nil, 0, conn.ErrCut
		case len(s.queue) > 0:
			b, n := s.pop()
			return b, n, nil
		case s.ended:
			return nil, 0, io.EOF
		case s.gone:
			return nil, 0, errGone
		case s.readBy != 0 && c.cfg.Clock.Now() >= s.readBy:
			return nil, 0, conn.ErrTimeout
		}
		s.waitsForReads = true
		s.wait(s.readBy)
		s.waitsForReads = false
	}
}

// Read reads a part of the body.
func (s *Stream) Read(p []byte) (int, error) {
	b, got, err := s.ReadLent(nil, h1.Large)
	if err != nil {
		return 0, err
	}
	n := copy(p, b.B[:got])
	if n == got {
		s.c.cfg.Buffers.Return(b)
		return n, nil
	}
	copy(b.B, b.B[n:got])
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.lent = n
	s.queue = append([]piece{{b, got - n}}, s.queue...)
	return n, nil
}

// Discard reads what the peer still says until it has ended, or until an instant, and throws it away: also after CutReads, when
// nothing reads any more.
func (s *Stream) Discard(until conn.Instant) {
	s.c.mu.Lock()
	s.cutReads = false
	s.c.mu.Unlock()
	s.ReadBy(until)
	for {
		b, _, err := s.ReadLent(nil, h1.Large)
		if err != nil {
			return
		}
		s.c.cfg.Buffers.Return(b)
	}
}

// taken gives back the room of what was lent at last. The lock of the connection is held.
func (s *Stream) taken() {
	c := s.c
	s.credit += s.lent
	c.credit += s.lent
	s.lent = 0
	if s.credit >= streamWindow/2 && !s.ended && !s.gone {
		c.out.append(appendWindow(nil, s.id, s.credit))
		s.in += s.credit
		s.credit = 0
	}
	c.giveBack()
	c.flush()
}

// Trailer are the trailer fields of the request, as lines with an empty one at their end, once its body was read to the end;
// nil: there are none.
func (s *Stream) Trailer() []byte {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.trailer
}

// wait waits for a change, or for an instant. The lock of the connection is held, and not meanwhile.
func (s *Stream) wait(until conn.Instant) {
	if until != 0 {
		d := max(until.Sub(s.c.cfg.Clock.Now()), time.Millisecond)
		defer time.AfterFunc(d, func() {
			s.c.mu.Lock()
			defer s.c.mu.Unlock()
			s.changed.Broadcast()
		}).Stop()
	}
	s.changed.Wait()
}

// ErrStalled is a peer that gives a stream no room to send in.
var ErrStalled = errors.New("the client gives the stream no room")

var errEnded = errors.New("the response has ended")

// writable says why nothing can be sent. The lock of the connection is held.
func (s *Stream) writable() error {
	switch {
	case s.killed:
		return conn.ErrCut
	case s.c.err != nil:
		return s.c.err
	case s.gone, s.c.faulty:
		return errGone
	case s.sentEnd:
		return errEnded
	}
	return nil
}

// WriteHead sends the head of a response, an informational one or the last, written as one of HTTP/1.1; fields about the connection
// are left out. end says that nothing follows.
func (s *Stream) WriteHead(head []byte, end bool) error {
	return s.Respond(head, nil, end)
}

// Respond sends a head, and what there is of the body. end says that it is all.
func (s *Stream) Respond(head, body []byte, end bool) error {
	room := s.c.cfg.Buffers.Lend(h1.Small)
	block := appendResponse(room.B[:0], head)
	err := s.headers(block, end && len(body) == 0, len(body) == 0)
	s.c.cfg.Buffers.Return(room)
	if err != nil || len(body) == 0 {
		return err
	}
	return s.Write(body, end)
}

// headers sends a header block; now says that nothing follows at once.
func (s *Stream) headers(block []byte, end, now bool) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := s.writable(); err != nil {
			return err
		}
		if c.outRoom() > 0 {
			break
		}
		s.waitToSend(c.cfg.Clock.Now().Add(c.cfg.WriteTimeout), false)
	}
	c.out.b = appendHeaders(c.out.room(), s.id, block, end)
	s.sent(end)
	if now {
		c.flush()
	}
	return nil
}

// waitToSend waits until there may be room, in the windows too for DATA. The lock of the connection is held, and not meanwhile.
func (s *Stream) waitToSend(until conn.Instant, data bool) {
	c := s.c
	c.waiters++
	if c.flush(); s.writable() == nil && (c.outRoom() < leastPart || data && min(s.window, c.window) <= 0) {
		s.wait(until)
	}
	c.waiters--
}

// Write sends a part of the body, as the windows allow. end says that it is the last.
func (s *Stream) Write(p []byte, end bool) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	until := conn.Instant(0)
	for {
		if err := s.writable(); err != nil {
			return err
		}
		n := min(len(p), maxFrame, s.window, c.window)
		if room := c.outRoom(); n > room && room < leastPart {
			n = 0 // rather than a frame of next to nothing
		} else {
			n = min(n, room)
		}
		if n <= 0 && len(p) > 0 {
			now := c.cfg.Clock.Now()
			if until == 0 {
				until = now.Add(c.cfg.WriteTimeout)
			} else if now >= until {
				return ErrStalled
			}
			s.waitToSend(until, true)
			continue
		}
		last := n == len(p)
		flags := uint8(0)
		if end && last {
			flags = flagEndStream
		}
		c.out.b = append(appendFrame(c.out.room(), n, frameData, flags, s.id), p[:n]...)
		s.window, c.window, p = s.window-n, c.window-n, p[n:]
		c.flood.forgive(updates, 2)
		c.flood.forgive(pings, 1)
		if until = 0; last {
			s.sent(end)
			c.flush()
			return nil
		}
	}
}

// WriteTrailer ends the response with those fields of a trailer that keep accepts.
func (s *Stream) WriteTrailer(h *h1.Head, keep func(*h1.Head, int) bool) error {
	room := s.c.cfg.Buffers.Lend(h1.Small)
	defer s.c.cfg.Buffers.Return(room)
	block, n := appendTrailer(room.B[:0], h, keep)
	if n == 0 {
		return s.Write(nil, true)
	}
	return s.headers(block, true, true)
}

// sent notes the end of the response. The lock of the connection is held.
func (s *Stream) sent(end bool) {
	if !end {
		return
	}
	if s.sentEnd = true; s.ended {
		s.complete()
	}
}

// close ends the stream when it has been handled: whatever is not complete is reset, so that a response that was cut is no whole one.
func (s *Stream) close() {
	s.OnGone(nil)
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if s.whole {
		c.over--
	}
	c.credit += s.lent
	s.lent = 0
	for _, q := range s.queue {
		c.credit += q.n
		c.cfg.Buffers.Return(q.buf)
	}
	s.queue = nil
	if c.streams[s.id] == s && !c.faulty {
		code := InternalError
		if s.sentEnd {
			code = NoError // the request need not be sent to its end (RFC 9113 section 8.1)
		}
		c.out.append(appendReset(nil, s.id, code))
		c.forget(s, true)
	}
	s.gone = true
	c.giveBack()
	c.flush()
}
