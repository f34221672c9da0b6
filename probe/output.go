package probe

import (
	"context"
	"time"

	"steerpoint/probe/internal/sched"
	"steerpoint/report"
)

// sayEvery is how often a lasting trouble is logged.
const sayEvery = time.Minute

// throttle lets something be said once in sayEvery and counts in between.
type throttle struct {
	said  time.Time
	count int
	worst time.Duration
}

// add counts one and reports whether to speak now, of how many and of the worst since the last time.
func (t *throttle) add(now time.Time, by time.Duration) (count int, worst time.Duration, speak bool) {
	t.count++
	t.worst = max(t.worst, by)
	if !t.said.IsZero() && now.Sub(t.said) < sayEvery {
		return 0, 0, false
	}
	count, worst = t.count, t.worst
	*t = throttle{said: now}
	return count, worst, true
}

// done takes a result from the scheduler. It never blocks: with a full queue the oldest observation goes, for the
// newest say most about now.
func (p *Prober) done(o report.Observation, soon bool) {
	o.Point = p.cfg.Point // a probe that panicked did not come to say it
	p.metrics.count(&o, soon)
	f := finished{o, time.Now()}
	for {
		select {
		case p.out <- f:
			return
		default:
		}
		select {
		case <-p.out:
			p.dropped()
		default: // the receiver was faster
		}
	}
}

func (p *Prober) dropped() {
	p.metrics.dropped.Inc()
	if n, _, speak := p.lost.add(time.Now(), 0); speak {
		p.log.Warn("observations dropped: their receiver does not keep up", "count", n, "queue", p.cfg.QueueSize)
	}
}

// handOver calls emit, with the age of each observation at that moment.
func (p *Prober) handOver(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-p.out:
			f.o.Age = time.Since(f.end)
			p.emit(f.o)
		}
	}
}

func (p *Prober) startedLate(by time.Duration, load sched.Stats) {
	p.metrics.late.Inc()
	if n, worst, speak := p.late.add(time.Now(), by); speak {
		p.log.Warn("probes start late: more probes are due than may run at once",
			"count", n, "worst", worst, "running", load.Running, "waiting", load.Waiting, "queued", load.Queued,
			"concurrency", p.cfg.Concurrency, "concurrency_waiting", p.cfg.Waiting)
	}
}

func (p *Prober) panicked(id string, value any, stack []byte) {
	p.metrics.panics.Inc()
	p.log.Error("a probe panicked; its result has no vote", "task", id, "panic", value, "stack", string(stack))
}
