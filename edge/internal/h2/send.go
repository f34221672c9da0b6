package h2

import (
	"errors"
	"runtime"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

const (
	// maxOut is how much may wait to go out before those who say more wait too: what a buffer holds, but for small frames.
	maxOut = 31 << 10
	// leastPart is the room that a part of a body waits for that does not fit into what there is.
	leastPart = 4 << 10
	// maxTurns is how many times whoever writes goes on for others, before a goroutine of its own does.
	maxTurns = 8
)

// outgoing is what is to go out.
type outgoing struct {
	pool    *h1.Pool
	buf     *h1.Buffer // that b began in; nil: there is nothing
	b       []byte
	writing bool // somebody is writing, and will come back for b
}

func (o *outgoing) append(p []byte) { o.b = append(o.room(), p...) }

// room is b, with a buffer to append to.
func (o *outgoing) room() []byte {
	if o.buf == nil {
		o.buf = o.pool.Lend(h1.Large)
		o.b = o.buf.B[:0]
	}
	return o.b
}

func (o *outgoing) take() ([]byte, *h1.Buffer) {
	b, buf := o.b, o.buf
	o.b, o.buf = nil, nil
	return b, buf
}

func (o *outgoing) drop() {
	o.pool.Return(o.buf)
	o.b, o.buf = nil, nil
}

// flush writes what is to go out, unless somebody does already. The lock is held, and not meanwhile.
func (c *Conn) flush() {
	if c.out.writing || len(c.out.b) == 0 || c.err != nil || c.link == nil {
		return
	}
	c.out.writing = true
	c.mu.Unlock()
	runtime.Gosched() // others that are about to say something say it now, and it goes in one call
	c.mu.Lock()
	c.writeOut(maxTurns)
}

// writeOut writes until there is nothing left. The lock is held, and not meanwhile.
func (c *Conn) writeOut(turns int) {
	for ; len(c.out.b) > 0 && c.err == nil; turns-- {
		if turns == 0 {
			go func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.writeOut(-1)
			}()
			return
		}
		b, buf := c.out.take()
		c.mu.Unlock()
		c.link.WriteBy(c.cfg.Clock.Now().Add(c.cfg.WriteTimeout))
		_, err := c.link.Write(b)
		c.cfg.Buffers.Return(buf)
		c.mu.Lock()
		if err != nil && c.err == nil {
			if c.err = err; errors.Is(err, conn.ErrTimeout) && c.ended == nil {
				c.ended = broken(NoError, "stalled")
			}
			c.link.CutReads() // who reads ends the connection
		}
		c.wake()
	}
	c.out.writing = false
	c.room.Broadcast()
}

// outRoom is how much more may be said. Where there is no link, all.
func (c *Conn) outRoom() int {
	if c.link == nil {
		return maxFrame
	}
	return maxOut - len(c.out.b) - frameHead
}

// wake wakes who waits for room: in a window, or in what goes out. The lock is held.
func (c *Conn) wake() {
	c.room.Broadcast()
	if c.waiters == 0 {
		return
	}
	for _, s := range c.streams {
		s.changed.Broadcast()
	}
}

// waitForRoom keeps who reads from making more to say than the peer reads. The lock is held, and not meanwhile.
func (c *Conn) waitForRoom() {
	for len(c.out.b) > maxOut && c.err == nil && c.link != nil {
		c.flush()
		if c.out.writing && len(c.out.b) > maxOut && c.err == nil {
			c.room.Wait()
		}
	}
}

// giveBack lets the peer send again what it had room for on the connection. The lock is held.
func (c *Conn) giveBack() {
	if c.credit < connWindow/2 {
		return
	}
	c.out.append(appendWindow(nil, 0, c.credit))
	c.in += c.credit
	c.credit = 0
}

// forget takes a stream out. byUs: the peer may not know yet. The lock is held.
func (c *Conn) forget(s *Stream, byUs bool) {
	if c.streams[s.id] != s {
		return
	}
	delete(c.streams, s.id)
	c.noteClosed(s.id, byUs)
	c.idleAt = c.cfg.Clock.Now()
	s.gone = true
	s.changed.Broadcast()
	c.endIfDone()
}

func (c *Conn) noteClosed(id uint32, byUs bool) {
	c.closed[c.nClosed%len(c.closed)] = closing{id, byUs}
	c.nClosed++
}

// wasClosed looks for a stream among those that ended lately.
func (c *Conn) wasClosed(id uint32) (known, byUs bool) {
	for i := range min(c.nClosed, len(c.closed)) {
		if c.closed[i].id == id {
			return true, c.closed[i].byUs
		}
	}
	return false, false
}
