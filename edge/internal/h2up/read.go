package h2up

import (
	"errors"
	"io"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/h1"
)

// read has frames come from src.
func (c *Conn) read(src io.Reader) {
	c.fr = http2.NewFramer(nil, src)
	c.fr.SetMaxReadFrameSize(maxTaken)
	c.fr.SetReuseFrames()
	c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil) // the size that holds when nobody said otherwise (RFC 9113 section 6.5.2)
	c.fr.MaxHeaderListSize = headList
}

// readFrames hands frames on until there are no more.
func (c *Conn) readFrames() error {
	for {
		f, err := c.fr.ReadFrame()
		bad := http2.StreamError{}
		if err != nil && !errors.As(err, &bad) {
			return err
		}
		c.mu.Lock()
		if err != nil {
			err = c.malformed(bad)
		} else {
			err = c.take(f)
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// take takes a frame. Its errors end the connection. The lock is held.
func (c *Conn) take(f http2.Frame) error {
	c.heard, c.pinged = c.clock.Now(), 0 // whatever came, the peer is there
	if !c.hasSettled {
		if s, ok := f.(*http2.SettingsFrame); !ok || s.IsAck() {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
	}
	if c.useless++; c.useless > maxUseless || c.answers > maxUseless {
		return errFlood
	}
	switch f := f.(type) {
	case *http2.DataFrame:
		return c.onData(f)
	case *http2.MetaHeadersFrame:
		return c.onHeaders(f)
	case *http2.RSTStreamFrame:
		return c.onReset(f)
	case *http2.SettingsFrame:
		return c.onSettings(f)
	case *http2.PingFrame:
		c.onPing(f)
	case *http2.GoAwayFrame:
		c.onGoAway(f)
	case *http2.WindowUpdateFrame:
		return c.onWindow(f)
	case *http2.PushPromiseFrame: // we said that we take none
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil
}

// stream finds the stream of a frame; nil: it is over here, and what still comes on it is passed over.
func (c *Conn) stream(id uint32) (*Stream, error) {
	if id%2 == 0 || id >= c.next {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return c.streams[id], nil
}

// malformed ends the stream that a frame was malformed on.
func (c *Conn) malformed(bad http2.StreamError) error {
	c.heard = c.clock.Now()
	if !c.hasSettled {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if c.useless++; c.useless > maxUseless || c.answers > maxUseless {
		return errFlood
	}
	s, err := c.stream(bad.StreamID)
	if s != nil {
		s.refuse(bad.Code, Malformed)
	}
	return err
}

func (c *Conn) onData(f *http2.DataFrame) error {
	length := int64(f.Length)
	if c.receive -= length; c.receive < 0 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	c.uncredited += length
	data := f.Data()
	if len(data) > 0 {
		c.useless = 0
		c.mayPing = true
	}
	s, err := c.stream(f.StreamID)
	switch {
	case err != nil:
		return err
	case s == nil || s.reset:
	case !s.headed || s.ended:
		s.refuse(http2.ErrCodeProtocol, Malformed)
	case s.receive < length:
		s.refuse(http2.ErrCodeFlowControl, Malformed)
	default:
		s.receive -= length
		s.consumed += length - int64(len(data)) // padding
		s.push(data)
		if f.StreamEnded() {
			s.ended = true
		}
		wake(s.readable)
	}
	c.credit()
	return nil
}

// credit lets the peer send more on the connection: the windows of the streams bound what lies here.
func (c *Conn) credit() {
	if c.uncredited < connWindow/4 {
		return
	}
	c.out = appendWindow(c.out, 0, c.uncredited)
	c.receive += c.uncredited
	c.uncredited = 0
	c.writes.Signal()
}

func (c *Conn) onHeaders(f *http2.MetaHeadersFrame) error {
	c.useless = 0
	c.mayPing = true
	s, err := c.stream(f.StreamID)
	switch {
	case err != nil:
		return err
	case s == nil || s.reset:
		return nil
	case s.ended:
		s.refuse(http2.ErrCodeStreamClosed, Malformed)
		return nil
	case f.Truncated:
		s.refuse(http2.ErrCodeCancel, h1.ErrHeadLong)
		return nil
	case s.headed:
		s.onTrailer(f)
		return nil
	}
	s.onHead(f)
	return nil
}

func (c *Conn) onReset(f *http2.RSTStreamFrame) error {
	s, err := c.stream(f.StreamID)
	if s == nil || s.reset {
		return err
	}
	s.reset = true
	s.fail(&ResetError{f.ErrCode}, f.ErrCode == http2.ErrCodeRefusedStream)
	return nil
}

func (c *Conn) onSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if err := f.ForeachSetting(c.setting); err != nil {
		return err
	}
	if !c.hasSettled {
		c.hasSettled = true
		close(c.settled)
	}
	c.answers++
	c.out = appendFrame(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	c.writes.Signal()
	return nil
}

func (c *Conn) setting(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return err
	}
	switch s.ID {
	case http2.SettingMaxConcurrentStreams:
		c.peerStreams = min(s.Val, 1<<20) // more than any limit of ours
	case http2.SettingInitialWindowSize:
		more := int64(s.Val) - c.peerWindow
		c.peerWindow = int64(s.Val)
		for _, s := range c.streams {
			if s.window += more; s.window > maxWindow {
				return http2.ConnectionError(http2.ErrCodeFlowControl)
			}
		}
		c.wakeWriters()
	default: // frames and tables stay as small as every peer takes them
	}
	return nil
}

func (c *Conn) onPing(f *http2.PingFrame) {
	if f.IsAck() {
		return
	}
	c.answers++
	c.out = appendPing(c.out, http2.FlagPingAck, f.Data)
	c.writes.Signal()
}

// onGoAway takes no more streams. Those that the peer has not begun on can go to another connection.
func (c *Conn) onGoAway(f *http2.GoAwayFrame) {
	c.draining, c.refusing = true, true
	for id, s := range c.streams {
		if id > f.LastStreamID {
			s.reset = true // it knows nothing of it
			s.fail(ErrClosed, true)
		}
	}
	c.maybeEnd()
}

func (c *Conn) onWindow(f *http2.WindowUpdateFrame) error {
	more := int64(f.Increment)
	if f.StreamID == 0 {
		if c.window += more; c.window > maxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.wakeWriters()
		return nil
	}
	s, err := c.stream(f.StreamID)
	if s == nil || s.reset {
		return err
	}
	if s.window += more; s.window > maxWindow {
		s.refuse(http2.ErrCodeFlowControl, Malformed)
		return nil
	}
	if s.waits {
		s.waits = false
		wake(s.writable)
	}
	return nil
}
