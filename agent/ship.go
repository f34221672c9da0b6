package agent

import (
	"context"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
)

// Observe takes an observation to be shipped, from any goroutine. It never waits: when the spool is full the oldest is
// dropped, and counted.
func (a *Agent) Observe(o report.Observation) { a.spool.add(o) }

// ship brings observations to control: a batch when it is full, or when its first observation has waited for
// Config.ShipEvery. While control is away the batch is tried again, with the ages of that moment.
func (a *Agent) ship(ctx context.Context) error {
	b := a.newBackoff()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.spool.more:
		}
		if !a.spool.full() && !a.gather(ctx) {
			return nil
		}
		for a.shipOne(ctx, b) {
		}
	}
}

// gather waits until the batch is full or its first observation has waited long enough.
func (a *Agent) gather(ctx context.Context) bool {
	t := time.NewTimer(a.cfg.ShipEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		case <-a.spool.more:
			if a.spool.full() {
				return true
			}
		}
	}
}

// shipOne ships one batch, or waits after it failed to. It reports whether there is more to be done at once.
func (a *Agent) shipOne(ctx context.Context, b *backoff) bool {
	id, list := a.spool.next()
	if len(list) == 0 {
		return false
	}
	s, gen := a.link.get()
	again := a.again.heard()
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := s.up.ObserveBatch(call, id, list)
	if ctx.Err() != nil {
		return false
	}
	if err == nil {
		a.spool.done()
		b.reset()
		a.settle("observations")
		return a.spool.full()
	}
	if _, now := a.link.get(); now != gen {
		return true
	}
	lasting := a.heard(err)
	if code := pki.CodeOf(err); code == pki.BadRequest || code == pki.BodyTooLarge { // the same again would be refused again
		a.spool.discard()
		a.complain("observations", code, "control does not take these observations, and they are dropped", err)
		return true
	}
	pause := b.delay()
	if lasting {
		pause = shortened(hopeless, a.jitter)
		a.complain("observations", "", "", err)
	}
	return wait(ctx, pause, again)
}

// ack hands an answer to control on. Of each kind of snapshot only the newest matters.
func (a *Agent) ack(k report.Ack) {
	a.metrics.acked(k)
	a.acks[k.Snapshot].put(k)
}

// sendAcks delivers the acks of one kind of snapshot.
func (a *Agent) sendAcks(ctx context.Context, kind string) error {
	box, b := a.acks[kind], a.newBackoff()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-box.more:
		}
		k, ok := box.take()
		for ok && !a.sendAck(ctx, k) {
			again := a.again.heard()
			if !wait(ctx, b.delay(), again) {
				return nil
			}
			if !box.empty() {
				k, ok = box.take()
			}
		}
		b.reset()
	}
}

// sendAck reports whether the answer needs no further try.
func (a *Agent) sendAck(ctx context.Context, k report.Ack) bool {
	s, _ := a.link.get()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := s.up.Ack(ctx, k)
	if err == nil {
		return true
	}
	a.heard(err)
	code := pki.CodeOf(err)
	return code == pki.BadRequest || code == pki.BodyTooLarge
}
