package edge

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2"
	"steerpoint/edge/internal/rules"
)

// bodyReader is a Director some of whose rules look at bodies.
type bodyReader interface {
	// BodyWanted says how many octets of the body of a request Direct is to see; 0: none but what came with the head.
	BodyWanted(a *Asked) int64
}

// BodyWanted says how much of a body the rules of its route look at.
func (d *director) BodyWanted(a *Asked) int64 {
	return d.site.BodyWanted(a.Host, a.Path, a.Scheme == "https")
}

// errBodyMemory is a body that there is no room for, as too many others are kept.
var errBodyMemory = errors.New("too many bodies are kept")

// awaitBody waits for as much of a body as a Director wants to see. A client that waits for 100 Continue is told to go on:
// without the body nobody can say who is to be asked.
func (x *client) awaitBody(d Director) error {
	x.asked.Body = x.asked.Body[:min(len(x.asked.Body), rules.BodyWindow)]
	if x.x.whole {
		return nil
	}
	r, ok := d.(bodyReader)
	if !ok {
		return nil
	}
	want := r.BodyWanted(&x.asked)
	if want <= int64(len(x.x.body)) {
		return nil
	}
	if x.req.Continue {
		if err := x.sayContinue(); err != nil {
			return err
		}
		x.req.Continue = false
	}
	if err := x.takeBody(want); err != nil {
		return err
	}
	x.asked.Body = x.x.body[:min(len(x.x.body), rules.BodyWindow)]
	return nil
}

// holdBody waits for the body of a request that could be sent again, when it says that it is no longer than what is kept for
// that. A body that is longer, or of unknown length, goes on as it comes. Without room nothing is kept.
func (x *client) holdBody() error {
	most := x.plan.BufferBody
	if x.x.whole || x.req.Length.Kind != h1.Sized || x.req.Length.N > most || x.req.Continue || !x.repeatable() {
		return nil
	}
	if err := x.takeBody(most); !errors.Is(err, errBodyMemory) {
		return err
	}
	return nil
}

// takeBody reads of a body until it is whole, or so many octets of it are here. Room grows with what came, not with what was
// announced.
func (x *client) takeBody(most int64) error {
	e := &x.x
	kept := append([]byte(nil), e.body...)
	begun := x.g.clock.Now()
	for !x.reader.Done() && int64(len(kept)) < most {
		if !x.g.bodies.take(e, x.g.cfg.BodyMemory) {
			e.body = kept
			return errBodyMemory
		}
		x.bodyBy(x.takeLimit(begun))
		part, err := x.reader.Next()
		if err != nil && !ended(err) {
			return err
		}
		kept = append(kept, part...)
		e.in += int64(len(part))
		x.g.bodies.adjust(e, int64(len(kept)))
	}
	e.body, e.whole = kept, x.reader.Done()
	return nil
}

// takeLimit is when more of a body must have come, within what the whole request may take.
func (x *client) takeLimit(begun conn.Instant) conn.Instant {
	at := x.bodyLimit(begun, x.x.in)
	if x.plan.Route != nil {
		return x.total(at)
	}
	return at
}

// unreadBody answers a request whose body could not be taken.
func (x *client) unreadBody(err error) (more bool) {
	if errors.Is(err, errBodyMemory) {
		x.x.fail(503, "body_memory")
	} else {
		x.unread(err, "body_timeout")
	}
	x.refuse()
	return false
}

// bodyWindow is what is counted for a part of a body before it is read: as much as is read at once.
const bodyWindow = 32 << 10

// bodyMemory counts the octets of bodies that are kept, of all requests.
type bodyMemory struct{ n atomic.Int64 }

// take makes room for another part; false: there is none.
func (m *bodyMemory) take(e *exchange, most int64) bool {
	if m.n.Add(bodyWindow) > most {
		m.n.Add(-bodyWindow)
		return false
	}
	e.held += bodyWindow
	return true
}

// adjust counts what a request really keeps.
func (m *bodyMemory) adjust(e *exchange, n int64) {
	m.n.Add(n - e.held)
	e.held = n
}

// settle gives back what a request kept, and says of a client that did not read that it did not.
func (x *client) settle() {
	e := &x.x
	if e.held != 0 {
		x.g.bodies.adjust(e, 0)
		e.body, e.kept, x.asked.Body = nil, nil, nil
	}
	if e.stalled && e.answer.status == 499 {
		e.answer.reason = "client_stalled"
	}
}

// stalls ends a client that does not take what is sent to it (a stream is reset when it is closed): with RST, as what waits for it in the system would stay for as
// long as it likes.
func (x *client) stalls(err error) {
	if errors.Is(err, conn.ErrTimeout) || errors.Is(err, h2.ErrStalled) {
		x.x.stalled = true
		if x.s == nil {
			x.c.Cut()
		}
	}
}

// newBodyGauge shows how much is kept.
func newBodyGauge(g *Gateway) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "steer_edge_body_memory_bytes", Help: "Octets of request bodies that are kept, for rules and to be sent again."},
		func() float64 { return float64(g.bodies.n.Load()) })
}
