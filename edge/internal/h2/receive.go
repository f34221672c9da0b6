package h2

import (
	"encoding/binary"
	"errors"
)

// feed takes frames. It returns how many octets it took: what is left is the beginning of a frame.
func (c *Conn) feed(p []byte) (used int, err error) {
	for {
		n, err := c.next(p[used:])
		used += n
		if err != nil {
			err = c.judge(err)
		}
		if err != nil || n == 0 {
			return used, err
		}
	}
}

// next takes a frame, or the next part of one of DATA. n 0: more of it must come.
func (c *Conn) next(p []byte) (n int, err error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case c.greeted < len(Preface):
		return c.greet(p)
	case c.data.left > 0:
		return c.content(p)
	case len(p) < frameHead:
		return 0, nil
	}
	f := readFrame(p)
	switch {
	case f.length > maxFrame:
		return 0, broken(FrameSizeError, "frame_size")
	case !c.settled && (f.kind != frameSettings || f.has(flagAck)):
		return 0, broken(ProtocolError, "no_settings")
	case c.inBlock && (f.kind != frameContinuation || f.stream != c.blockOf.stream):
		return 0, broken(ProtocolError, "block_interrupted")
	case f.kind == frameData:
		c.since, c.pinged = 0, false
		return frameHead, c.dataHead(f)
	case len(p) < frameHead+f.length:
		return 0, nil
	}
	err = c.frame(f, p[frameHead:frameHead+f.length])
	if c.pinged = false; !c.inBlock {
		c.since = 0
	}
	return frameHead + f.length, err
}

func (c *Conn) greet(p []byte) (int, error) {
	n := min(len(p), len(Preface)-c.greeted)
	if string(p[:n]) != Preface[c.greeted:c.greeted+n] {
		return 0, broken(ProtocolError, "preface")
	}
	c.greeted += n
	return n, nil
}

// frame takes a frame other than DATA.
func (c *Conn) frame(f frame, p []byte) error {
	switch f.kind {
	case frameHeaders:
		return c.headers(f, p)
	case frameContinuation:
		if !c.inBlock {
			return broken(ProtocolError, "continuation")
		}
		return c.fragment(p, f.has(flagEndHeaders))
	case framePush:
		return broken(ProtocolError, "push")
	}
	c.mu.Lock()
	err := c.control(f, p)
	lost := c.lost
	c.lost = nil
	c.mu.Unlock()
	if lost != nil {
		lost.lose() // without the lock: it ends what is done for it elsewhere
	}
	return err
}

// control takes a frame that holds nothing of a message. The lock is held.
func (c *Conn) control(f frame, p []byte) error {
	switch f.kind {
	case framePriority:
		return c.priority(f, p)
	case frameReset:
		return c.reset(f, p)
	case frameSettings:
		return c.settings(f, p)
	case framePing:
		return c.ping(f, p)
	case frameGoAway:
		return c.goAway(f, p)
	case frameWindow:
		return c.windowUpdate(f, p)
	}
	return c.offend(empties) // of a type that is not known, and means nothing
}

// idle reports whether a stream has not been begun. The lock is held.
func (c *Conn) idle(id uint32) bool { return id > max(c.last, c.passed) || id%2 == 0 }

func (c *Conn) priority(f frame, p []byte) error {
	switch {
	case f.stream == 0:
		return broken(ProtocolError, "priority")
	case len(p) != 5:
		return &streamError{f.stream, FrameSizeError}
	case binary.BigEndian.Uint32(p)&maxStream == f.stream:
		return &streamError{f.stream, ProtocolError}
	}
	return c.offend(empties) // priorities of that kind are history (RFC 9113 section 5.3.2)
}

func (c *Conn) reset(f frame, p []byte) error {
	switch {
	case len(p) != 4:
		return broken(FrameSizeError, "reset_size")
	case f.stream == 0 || c.idle(f.stream):
		return broken(ProtocolError, "reset_idle")
	}
	if s := c.streams[f.stream]; s != nil {
		c.forget(s, false)
		c.lost = s
	}
	return c.offend(resets)
}

func (c *Conn) settings(f frame, p []byte) error {
	switch {
	case f.stream != 0:
		return broken(ProtocolError, "settings_stream")
	case f.has(flagAck):
		if len(p) != 0 {
			return broken(FrameSizeError, "settings_ack")
		}
		return c.offend(settings)
	case len(p)%6 != 0:
		return broken(FrameSizeError, "settings_size")
	}
	c.settled = true
	for ; len(p) > 0; p = p[6:] {
		if err := c.set(setting{binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])}); err != nil {
			return err
		}
	}
	c.out.append(appendFrame(nil, 0, frameSettings, flagAck, 0))
	return c.offend(settings)
}

// set takes one parameter. What it says of HPACK's table means nothing to us: we use none.
func (c *Conn) set(s setting) error {
	switch s.id {
	case settingPush:
		if s.value > 1 {
			return broken(ProtocolError, "settings_push")
		}
	case settingFrame:
		if s.value < maxFrame || s.value > 1<<24-1 {
			return broken(ProtocolError, "settings_frame")
		}
	case settingWindow:
		if s.value > maxWindow {
			return broken(FlowControlError, "settings_window")
		}
		more := int(s.value) - c.first
		c.first = int(s.value)
		for _, of := range c.streams {
			if of.window += more; of.window > maxWindow {
				return broken(FlowControlError, "window")
			}
			of.changed.Broadcast()
		}
	}
	return nil
}

func (c *Conn) ping(f frame, p []byte) error {
	switch {
	case len(p) != 8:
		return broken(FrameSizeError, "ping_size")
	case f.stream != 0:
		return broken(ProtocolError, "ping_stream")
	case f.has(flagAck):
		if string(p) == leavePing && c.leaving.begun {
			c.leave()
			return nil
		}
		return c.offend(pings)
	}
	c.out.append(appendPing(nil, flagAck, p))
	return c.offend(pings)
}

// goAway is a peer that begins no more streams.
func (c *Conn) goAway(f frame, p []byte) error {
	switch {
	case f.stream != 0:
		return broken(ProtocolError, "goaway_stream")
	case len(p) < 8:
		return broken(FrameSizeError, "goaway_size")
	}
	c.leaving.begun, c.leaving.done = true, true
	return nil
}

func (c *Conn) windowUpdate(f frame, p []byte) error {
	if len(p) != 4 {
		return broken(FrameSizeError, "window_size")
	}
	n := int(binary.BigEndian.Uint32(p) & maxWindow)
	if err := c.offend(updates); err != nil {
		return err
	}
	if f.stream == 0 {
		switch {
		case n == 0:
			return broken(ProtocolError, "window_zero")
		case c.window+n > maxWindow:
			return broken(FlowControlError, "window")
		}
		c.window += n
		c.wake()
		return nil
	}
	s := c.streams[f.stream]
	switch {
	case s == nil && c.idle(f.stream):
		return broken(ProtocolError, "window_idle")
	case s == nil:
		return nil // it was on its way when the stream ended
	case n == 0:
		return &streamError{f.stream, ProtocolError}
	case s.window+n > maxWindow:
		return &streamError{f.stream, FlowControlError}
	}
	s.window += n
	s.changed.Broadcast()
	return nil
}

// dataFrame is a frame of DATA that is being taken, part by part.
type dataFrame struct {
	stream *Stream // nil: nobody takes it
	left   int     // octets to come, padding included
	pad    int     // of them, at the end; -1: the octet that says so is to come
	end    bool
}

// dataHead takes the head of a frame of DATA.
func (c *Conn) dataHead(f frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.stream == 0 {
		return broken(ProtocolError, "data_stream")
	}
	if f.has(flagPadded) && f.length == 0 {
		return broken(FrameSizeError, "data_padding")
	}
	if c.in -= f.length; c.in < 0 {
		return broken(FlowControlError, "window")
	}
	s := c.streams[f.stream]
	c.data = dataFrame{stream: s, left: f.length, end: f.has(flagEndStream)}
	if f.has(flagPadded) {
		c.data.pad = -1
	}
	if s == nil || s.ended {
		c.data.stream = nil
		return c.uncalled(f)
	}
	if s.in -= f.length; s.in < 0 {
		c.data.stream = nil
		return &streamError{s.id, FlowControlError}
	}
	if f.length > 0 {
		return nil
	}
	if c.data.end {
		return c.endData(s)
	}
	return c.offend(empties)
}

// uncalled is DATA for a stream that takes none.
func (c *Conn) uncalled(f frame) error {
	if c.idle(f.stream) {
		return broken(ProtocolError, "data_idle")
	}
	if known, byUs := c.wasClosed(f.stream); known && byUs {
		return nil // it was on its way
	}
	return &streamError{f.stream, StreamClosed}
}

// content takes what there is of a frame of DATA.
func (c *Conn) content(p []byte) (n int, err error) {
	d := &c.data
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.pad < 0 {
		d.pad, n = int(p[0]), 1
		d.left--
		if d.pad > d.left {
			return n, broken(ProtocolError, "data_padding")
		}
		c.spare(d.stream, 1+d.pad)
	}
	if m := min(len(p)-n, d.left-d.pad); m > 0 {
		part := p[n : n+m]
		n, d.left = n+m, d.left-m
		s := d.stream
		if s != nil && s.expects >= 0 && s.got+int64(m) > s.expects {
			d.stream = nil // nothing of it goes on
			c.credit += m
			return n, &streamError{s.id, ProtocolError}
		}
		if s == nil || !s.put(part, d.left-d.pad) {
			c.spare(s, m)
		}
	}
	if d.left <= d.pad { // the rest is padding
		m := min(len(p)-n, d.left)
		n, d.left = n+m, d.left-m
	}
	if d.left == 0 && d.end && d.stream != nil {
		return n, c.endData(d.stream)
	}
	return n, nil
}

// spare gives room back that padding took, or what nobody reads.
func (c *Conn) spare(s *Stream, n int) {
	c.credit += n
	if s != nil {
		s.credit += n
	}
}

// endData is the end of a request. The lock is held.
func (c *Conn) endData(s *Stream) error {
	if s.expects >= 0 && s.got != s.expects {
		return &streamError{s.id, ProtocolError}
	}
	s.endIn()
	return nil
}

// judge ends a stream for its fault; nil: the connection goes on.
func (c *Conn) judge(err error) error {
	if of := (*streamError)(nil); errors.As(err, &of) {
		return c.refuse(of)
	}
	return err
}

// refuse ends a stream for a fault of the peer.
func (c *Conn) refuse(of *streamError) error {
	c.mu.Lock()
	c.out.append(appendReset(nil, of.id, of.code))
	s := c.streams[of.id]
	if s != nil {
		c.forget(s, true)
	} else if of.id%2 == 1 {
		c.noteClosed(of.id, true)
	}
	err := c.offend(resets)
	c.mu.Unlock()
	if s != nil {
		s.lose()
	}
	return err
}
