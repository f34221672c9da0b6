package pool

import (
	"context"
	"slices"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h2up"
)

// shared are the connections of a pool of HTTP/2, each of which has many requests at once. The lock of the pool guards them.
type shared struct {
	conns   []*h2up.Conn // the oldest first: those that take what comes are few, and the others become idle
	dialing *dialing     // one at a time: those that wait for it all have room on it
}

// dialing is a connection that is being made.
type dialing struct {
	done   chan struct{}
	err    error // set before done is closed
	cancel context.CancelFunc
}

// stream takes a stream of a connection that has room, which is one that was there before or not; nil: none has. It is called with the
// lock held.
func (p *Pool) stream(reused bool) *Conn {
	for _, c := range p.h2.conns {
		s := c.Reserve()
		if s == nil {
			continue
		}
		u := &Conn{Stream: s, pool: p, Reused: reused}
		u.Cutter = s.Cut
		if p.cfg.MaxIdle < 0 {
			c.Close() // after this request
		}
		return u
	}
	return nil
}

// idleStream is Idle with HTTP/2.
func (p *Pool) idleStream() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.full() {
		return nil
	}
	u := p.stream(true)
	if u != nil {
		p.active++
	}
	return u
}

// dialStream is Dial with HTTP/2, after the request was counted in. A connection that somebody else is making will do: it is as
// new as one of its own.
func (p *Pool) dialStream(ctx context.Context, fresh bool, timeout time.Duration) (*Conn, error) {
	for {
		p.mu.Lock()
		if !fresh {
			if u := p.stream(true); u != nil {
				p.mu.Unlock()
				return u, nil
			}
		}
		d := p.h2.dialing
		if d == nil {
			if p.cfg.MaxConns > 0 && p.usable() >= p.cfg.MaxConns {
				p.mu.Unlock()
				return nil, ErrBusy
			}
			d = p.startDialing(timeout)
		}
		p.mu.Unlock()
		select {
		case <-d.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if d.err != nil {
			return nil, d.err
		}
		p.mu.Lock()
		u := p.stream(false)
		p.mu.Unlock()
		if u != nil {
			return u, nil
		}
		fresh = false // others were faster: the next one is as good as this
	}
}

// usable counts the connections that take requests, and forgets the others. It is called with the lock held.
func (p *Pool) usable() int {
	p.h2.conns = slices.DeleteFunc(p.h2.conns, func(c *h2up.Conn) bool { return !c.Usable() })
	return len(p.h2.conns)
}

// startDialing makes a connection on a goroutine of its own: whoever asked for it may leave before it is there. It is called
// with the lock held.
func (p *Pool) startDialing(timeout time.Duration) *dialing {
	ctx, cancel := context.WithTimeout(context.Background(), or(timeout, dialTimeout))
	d := &dialing{done: make(chan struct{}), cancel: cancel}
	p.h2.dialing = d
	p.running.Add(1)
	go func() {
		defer p.running.Done()
		defer cancel()
		c, err := p.dialShared(ctx)
		p.mu.Lock()
		p.h2.dialing, d.err = nil, err
		switch {
		case p.closed:
			if d.err = ErrClosed; c != nil {
				c.Close()
			}
		case err == nil:
			p.usable()
			p.h2.conns = append(p.h2.conns, c)
		}
		p.mu.Unlock()
		close(d.done)
	}()
	return d
}

func (p *Pool) dialShared(ctx context.Context) (*h2up.Conn, error) {
	up, err := p.link(ctx, p.cfg.TLS)
	if err != nil {
		return nil, err
	}
	p.running.Add(1)
	return h2up.New(ctx, up, p.clock, p.buffers, h2up.Config{
		Secure: p.cfg.TLS != nil, Limits: p.cfg.Limits, Ended: p.running.Done,
	})
}

// endStream is Put and Drop of a stream: its connection goes on for the others.
func (p *Pool) endStream(u *Conn) {
	u.Stream.Close()
	p.mu.Lock()
	p.leave()
	p.mu.Unlock()
}

// trimShared closes connections that have had no stream for too long, and looks at those that say nothing. It is called with the
// lock held.
func (p *Pool) trimShared(now conn.Instant) {
	kept := p.h2.conns[:0]
	idle := 0
	for _, c := range p.h2.conns {
		c.Check(now)
		since := c.IdleSince()
		if since != 0 {
			idle++
		}
		if !c.Usable() || since != 0 && (now.Sub(since) >= p.cfg.IdleTimeout || idle > p.cfg.MaxIdle) {
			c.Close()
			continue
		}
		kept = append(kept, c)
	}
	clear(p.h2.conns[len(kept):])
	p.h2.conns = kept
}

// closeShared closes them all when their streams have ended. It is called with the lock held.
func (p *Pool) closeShared() {
	for _, c := range p.h2.conns {
		c.Close()
	}
	p.h2.conns = nil
	if p.h2.dialing != nil {
		p.h2.dialing.cancel()
	}
}

// countShared counts them. It is called with the lock held.
func (p *Pool) countShared(n *Counts) {
	n.Streams, n.Active = n.Active, 0
	for _, c := range p.h2.conns {
		switch {
		case c.IdleSince() != 0:
			n.Idle++
		default:
			n.Active++
		}
	}
}

func or(d, zero time.Duration) time.Duration {
	if d <= 0 {
		return zero
	}
	return d
}
