package sched

import (
	"hash/fnv"
	"time"
)

// Where a probe falls in time. Every draw is a hash of (point, task, count), so that a schedule can be told in
// advance and two points do not probe in step.

const (
	// gapLeast: a gap between two probes is 0.95 to 1 of the interval. It is never longer than the interval because
	// the promised detection time is interval + timeout + (fall-1) x (1.1 s + timeout) (decisions.md section 1), and
	// varies so that probes do not stay in step with something periodic at the target.
	gapLeast = 0.95
	// A recheck comes 1 s after the failed probe, give or take a tenth (decisions.md section 1).
	recheckLeast = 900 * time.Millisecond
	recheckMost  = 1100 * time.Millisecond
)

// draws is a sequence of numbers in [0, 1), fixed by its seed (splitmix64; Steele, Lea, Flood, OOPSLA 2014).
type draws uint64

func newDraws(seed, id string) draws {
	h := fnv.New64a()
	h.Write([]byte(seed)) // a hash.Hash never fails
	h.Write([]byte{0})
	h.Write([]byte(id))
	return draws(h.Sum64())
}

func (d *draws) next() float64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// between is a moment in [least, most).
func (d *draws) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.next()*float64(most-least))
}

// nextDue is when the probe after one that was due at due, started at start and ended at end comes. The first gap that
// is no recheck's is any part of the interval: the start crowds all tasks into one window, this spreads them over the
// interval, those that fail from the start too.
func (e *entry) nextDue(start, end time.Duration, soon bool) time.Duration {
	interval := e.job.Interval
	gap := e.draws.between(time.Duration(gapLeast*float64(interval)), interval)
	if !soon && !e.spread {
		gap = e.draws.between(interval/20, interval)
		e.spread = true
	}
	// Counting from when the probe was due keeps lateness from adding up; after more than a twentieth of the interval
	// the schedule moves instead, or the next probe would come too close.
	next := max(e.due, start-interval/20) + gap
	if soon {
		next = min(next, end+e.draws.between(recheckLeast, recheckMost))
	}
	return max(next, end)
}
