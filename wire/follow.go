package wire

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
)

// writeChunk is how much of a stream a node must take within SlowAfter.
const writeChunk = 64 * kib

// nextPacket is line.next.
type nextPacket func(have uint64, came bool) (*packet, uint64)

type followerKey struct{ node, kind string }

// follower is one stream. Its handler writes; everybody else leaves things for it and nudges.
type follower struct {
	wake chan struct{} // holds one nudge
	done chan struct{} // closed when the stream must end

	mu     sync.Mutex
	state  *NodeState // to be sent
	asks   []any      // to be sent: each an Ask or an EdgeAsk
	why    *pki.Refusal
	ending bool
}

func newFollower() *follower {
	return &follower{wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (f *follower) nudge() {
	select {
	case f.wake <- struct{}{}:
	default: // one is there already
	}
}

func (f *follower) setState(s NodeState) {
	f.mu.Lock()
	f.state = &s
	f.mu.Unlock()
	f.nudge()
}

func (f *follower) ask(a any) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asks) >= maxAsks || f.ending {
		return false
	}
	f.asks = append(f.asks, a)
	f.nudge()
	return true
}

// end makes the stream end. why goes to the node; nil: Admit is asked.
func (f *follower) end(why *pki.Refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ending {
		f.ending, f.why = true, why
		close(f.done)
	}
}

func (f *follower) isEnding() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ending
}

func (f *follower) take() (*NodeState, []any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, asks := f.state, f.asks
	f.state, f.asks = nil, nil
	return state, asks
}

func (h *Hub) followDNS(r *request) (any, error) {
	return nil, h.follow(r, report.SnapshotDNS, h.dns.next)
}

func (h *Hub) followProbe(r *request) (any, error) {
	return nil, h.follow(r, report.SnapshotProbe, h.probeLine(r.node.Name).next)
}

// follow serves one stream until it ends.
func (h *Hub) follow(r *request, kind string, next nextPacket) error {
	have, err := parseHave(r.http.URL.Query().Get(queryHave))
	if err != nil {
		return err
	}
	f := newFollower()
	if err := h.enter(r, kind, f); err != nil {
		return err
	}
	defer h.leave(r, kind, f)
	// Between the first Admit and enter a Disconnect would have found no stream to end.
	if err := h.registry.Admit(r.node); err != nil {
		return err
	}
	s := &stream{hub: h, r: r, kind: kind, f: f, next: next, have: have}
	return s.run()
}

func parseHave(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	have, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, pki.Refuse(pki.BadRequest, fmt.Sprintf("%s=%.40q is no version of a snapshot", queryHave, text), "")
	}
	return have, nil
}

// enter puts a follower in its place. One that was there before is of the same node, which came again: it ends.
func (h *Hub) enter(r *request, kind string, f *follower) error {
	h.order.Lock()
	defer h.order.Unlock()
	key := followerKey{r.node.Name, kind}
	h.mu.Lock()
	if h.stopping {
		h.mu.Unlock()
		return pki.Refuse(pki.Busy, "control stops", "")
	}
	h.streams.Add(1)
	before := h.followers[key]
	h.followers[key] = f
	state, drained := h.states[r.node.Name]
	h.mu.Unlock()
	if drained {
		f.setState(state)
	}
	if before == nil {
		h.metrics.followers.WithLabelValues(kind).Inc()
	} else {
		before.end(pki.Refuse(pki.Busy, "the same node opened another stream of the kind",
			"if it is not one machine that came again, two machines share one identity"))
		h.metrics.replaced.Inc()
		h.log.Warn("a node's stream replaces its earlier one", "node", r.node.Name, "snapshot", kind, "remote", r.remote)
	}
	h.presence.Connected(r.node.Name, kind, r.remote)
	return nil
}

func (h *Hub) leave(r *request, kind string, f *follower) {
	defer h.streams.Done()
	h.order.Lock()
	defer h.order.Unlock()
	key := followerKey{r.node.Name, kind}
	h.mu.Lock()
	last := h.followers[key] == f
	if last {
		delete(h.followers, key)
	}
	h.mu.Unlock()
	f.end(nil)
	if last {
		h.metrics.followers.WithLabelValues(kind).Dec()
		h.asks.gone(key)
		h.presence.Gone(r.node.Name, kind)
	}
}

// stream writes one follower's frames.
type stream struct {
	hub  *Hub
	r    *request
	kind string
	f    *follower
	next nextPacket
	have uint64
	tick *time.Ticker
	torn bool // a frame was begun and not ended: nothing that follows could be read
	met  bool // something was sent that leads to the newest, or proves that the node has it
}

var (
	errSlow   = errors.New("the node does not read")
	errEnding = errors.New("the stream is to end")
)

func (s *stream) run() error {
	h := s.hub
	s.r.writer.Header().Set("Content-Type", typeFrames)
	s.r.started = true
	hello := Hello{Protocol: Protocol, Program: h.cfg.Program, Node: s.r.node.Name, KeepAlive: h.cfg.KeepAlive}
	err := s.send(frameHello, hello)
	s.tick = time.NewTicker(h.cfg.KeepAlive)
	defer s.tick.Stop()
	for err == nil {
		if err = s.sendPending(); err != nil {
			break
		}
		select {
		case <-s.r.ctx.Done():
			return nil
		case <-s.f.done:
			return s.sayEnd()
		case <-s.f.wake:
		case <-s.tick.C:
			err = s.keepAlive()
		}
	}
	switch {
	case errors.Is(err, errEnding) && !s.torn:
		return s.sayEnd()
	case errors.Is(err, errSlow):
		h.metrics.slow.Inc()
		h.log.Warn("a node that does not read is let go", "node", s.r.node.Name, "snapshot", s.kind, "remote", s.r.remote)
	}
	return err
}

// keepAlive also asks again whether the node may be here: a certificate ends while its stream goes on.
func (s *stream) keepAlive() error {
	if !s.hub.cfg.Now().Before(s.r.node.NotAfter) {
		s.f.end(pki.Refuse(pki.CertExpired, "the certificate ended while the stream went on", "connect with the renewed one"))
		return nil
	}
	if err := s.hub.registry.Admit(s.r.node); err != nil {
		s.f.end(s.hub.refusalOf(s.r, err))
		return nil
	}
	f, err := frame(frameKeepAlive, nil)
	if err != nil {
		return err
	}
	return s.write(frameKeepAlive, f)
}

func (s *stream) sendPending() error {
	state, asks := s.f.take()
	if state != nil {
		if err := s.send(frameState, state); err != nil {
			return err
		}
	}
	for _, a := range asks {
		if err := s.send(frameAsk, a); err != nil {
			return err
		}
	}
	p, version := s.next(s.have, !s.met)
	if p == nil {
		return nil
	}
	if err := s.await(p); err != nil {
		return err
	}
	kind := frameFull
	if p.form == formDelta {
		kind = frameDelta
	}
	if err := s.write(kind, p.bytes); err != nil {
		return err
	}
	s.have, s.met = version, true
	s.hub.metrics.pushes.WithLabelValues(s.kind, p.form).Inc()
	s.f.nudge() // a newer one may have come meanwhile
	return nil
}

// await waits until a packet is made, and is not silent meanwhile.
func (s *stream) await(p *packet) error {
	p.start(s.hub)
	for {
		select {
		case <-p.ready:
			if p.err != nil {
				s.hub.log.Error("a snapshot cannot be sent", "snapshot", s.kind, "err", p.err)
			}
			return p.err
		case <-s.r.ctx.Done():
			return s.r.ctx.Err()
		case <-s.f.done:
			return errEnding
		case <-s.tick.C:
			if err := s.keepAlive(); err != nil {
				return err
			}
		}
	}
}

// sayEnd tells the node why its stream ends.
func (s *stream) sayEnd() error {
	s.f.mu.Lock()
	why := s.f.why
	s.f.mu.Unlock()
	if why == nil {
		why = pki.Refuse(pki.Busy, "control ended the stream", "")
		if err := s.hub.registry.Admit(s.r.node); err != nil {
			why = s.hub.refusalOf(s.r, err)
		}
	}
	return s.send(frameEnd, why)
}

func (s *stream) send(kind byte, value any) error {
	f, err := jsonFrame(kind, value)
	if err != nil {
		return err
	}
	return s.write(kind, f)
}

// write writes a frame in pieces, each with its own deadline, so that a slow link may carry a large snapshot and a
// node that reads nothing is let go.
func (s *stream) write(kind byte, frame []byte) error {
	for rest := frame; len(rest) > 0; {
		piece := rest[:min(len(rest), writeChunk)]
		rest = rest[len(piece):]
		if kind != frameEnd && s.f.isEnding() { // revoked, perhaps in the middle of a snapshot: not a byte more
			return errEnding
		}
		s.torn = len(rest) > 0
		start := time.Now()
		if err := s.writePiece(piece); err != nil {
			if time.Since(start) >= s.hub.cfg.SlowAfter {
				err = fmt.Errorf("%w: %w", errSlow, err)
			}
			return err
		}
	}
	s.hub.metrics.frames.WithLabelValues(frameNames[kind]).Inc()
	s.hub.metrics.bytes.WithLabelValues(frameNames[kind]).Add(float64(len(frame)))
	return nil
}

// writePiece leaves its deadline standing. The next piece comes at most KeepAlive later and moves it, and that is
// below SlowAfter.
func (s *stream) writePiece(piece []byte) error {
	if err := s.r.control.SetWriteDeadline(time.Now().Add(s.hub.cfg.SlowAfter)); err != nil {
		return err
	}
	if _, err := s.r.writer.Write(piece); err != nil {
		return err
	}
	return s.r.control.Flush()
}
