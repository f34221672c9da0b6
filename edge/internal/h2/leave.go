package h2

import "time"

// leavePing is how it is found out that a peer knows that no more streams are to be begun.
const leavePing = "steerbye"

// leaving is the end of a connection that its streams survive (RFC 9113 section 6.8): first the peer is told to begin no more,
// and what it has begun meanwhile is still served; then it is told which the last one was.
type leaving struct {
	begun, done bool
	late        *time.Timer
}

func (l *leaving) stop() {
	if l.late != nil {
		l.late.Stop()
	}
}

// Shutdown ends the connection when the requests under way have been answered. It may be called by any goroutine.
func (c *Conn) Shutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving.begun || c.err != nil {
		return
	}
	c.leaving.begun = true
	c.out.append(appendGoAway(nil, maxStream, NoError, "drain"))
	c.out.append(appendPing(nil, 0, []byte(leavePing)))
	c.leaving.late = time.AfterFunc(c.cfg.LeaveWait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leave()
	})
	c.flush()
}

// leave takes the second step. The lock is held.
func (c *Conn) leave() {
	if c.leaving.done || c.err != nil {
		return
	}
	c.leaving.done = true
	c.out.append(appendGoAway(nil, c.last, NoError, "drain"))
	c.flush()
	c.endIfDone()
}

// endIfDone wakes the goroutine that reads when there is nothing more to do. The lock is held.
func (c *Conn) endIfDone() {
	if c.leaving.done && len(c.streams) == 0 && c.link != nil {
		c.link.CutReads()
	}
}
