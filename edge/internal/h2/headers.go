package h2

import "encoding/binary"

// fate is what becomes of a header block when it has been read: it must be, whatever it is for, as HPACK is a state of the connection.
type fate struct {
	err    error   // the fault to be raised then
	ignore bool    // nobody waits for it
	of     *Stream // the stream whose trailer it is; nil: it begins one
}

// headers takes HEADERS.
func (c *Conn) headers(f frame, p []byte) error {
	if f.stream%2 == 0 {
		return broken(ProtocolError, "headers_stream")
	}
	pad := 0
	if f.has(flagPadded) {
		if len(p) < 1 {
			return broken(FrameSizeError, "headers_padding")
		}
		pad, p = int(p[0]), p[1:]
	}
	if f.has(flagPriority) {
		if len(p) < 5 {
			return broken(FrameSizeError, "headers_size")
		}
		if binary.BigEndian.Uint32(p)&maxStream == f.stream {
			return broken(ProtocolError, "priority")
		}
		p = p[5:]
	}
	if pad > len(p) {
		return broken(ProtocolError, "headers_padding")
	}
	p = p[:len(p)-pad]
	c.mu.Lock()
	fate, err := c.decide(f)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.inBlock, c.blockOf, c.fate, c.size, c.parts = true, f, fate, 0, 0
	c.decoder.SetEmitEnabled(true)
	c.block.begin(fate.of != nil)
	return c.fragment(p, f.has(flagEndHeaders))
}

// decide says what a header block is for. The lock is held.
func (c *Conn) decide(f frame) (fate, error) {
	if s := c.streams[f.stream]; s != nil {
		switch {
		case s.ended:
			return fate{of: s, err: &streamError{s.id, StreamClosed}}, nil
		case !f.has(flagEndStream):
			return fate{of: s, err: &streamError{s.id, ProtocolError}}, nil
		}
		return fate{of: s}, nil
	}
	if !c.idle(f.stream) {
		switch known, byUs := c.wasClosed(f.stream); {
		case known && byUs:
			return fate{ignore: true}, nil
		case known:
			return fate{}, broken(StreamClosed, "headers_closed")
		}
		return fate{}, broken(ProtocolError, "headers_order")
	}
	if c.leaving.done { // it is told that no more are begun; until it knows, more of this one may come
		c.passed = f.stream
		c.noteClosed(f.stream, true)
		return fate{ignore: true}, nil
	}
	c.last = f.stream
	return fate{}, nil
}

// fragment takes a part of a header block.
func (c *Conn) fragment(p []byte, end bool) error {
	c.size += len(p)
	if c.parts++; c.size > maxBlock || c.parts > maxParts {
		return broken(EnhanceYourCalm, "continuations")
	}
	if _, err := c.decoder.Write(p); err != nil {
		return broken(CompressionError, "hpack")
	}
	if !end {
		return nil
	}
	c.inBlock = false
	if err := c.decoder.Close(); err != nil {
		return broken(CompressionError, "hpack")
	}
	c.block.end()
	err := c.taken()
	c.block.drop()
	return err
}

// taken does with a header block what it is for.
func (c *Conn) taken() error {
	b, f := &c.block, c.blockOf
	switch {
	case c.fate.err != nil:
		return c.fate.err
	case c.fate.ignore:
		return nil
	case c.fate.of != nil:
		return c.trailer(c.fate.of)
	case b.bad:
		return &streamError{f.stream, ProtocolError}
	}
	end := f.has(flagEndStream)
	if end && b.length > 0 {
		return &streamError{f.stream, ProtocolError}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running-c.over >= c.cfg.MaxStreams || c.running >= 2*c.cfg.MaxStreams {
		return &streamError{f.stream, RefusedStream}
	}
	s := &Stream{c: c, id: f.stream, Begun: c.cfg.Clock.Now(), expects: b.length, window: c.first, in: streamWindow, TooLarge: b.big, ended: end, WebSocketKey: b.key}
	s.changed.L = &c.mu
	if !b.big {
		s.head, s.headSize = b.take()
	}
	c.streams[s.id] = s
	c.running++
	c.starting = append(c.starting, s)
	return nil
}

// trailer is the end of a request with fields behind its body.
func (c *Conn) trailer(s *Stream) error {
	b := &c.block
	if b.bad || b.big {
		return &streamError{s.id, ProtocolError}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.n > len("\r\n") {
		s.trailer = append([]byte(nil), b.buf.B[:b.n]...)
	}
	return c.endData(s)
}
