package sched

import (
	"time"

	"steerpoint/report"
)

const (
	// defaultFall bounds rechecks of a task that does not say how many failures its rules need: ten seconds of
	// closer looks are more than any sensible fall, and little enough to give a dead target.
	defaultFall = 10
	// forgetAfter is the number of intervals without a result after which nothing is known any more: the same at
	// which the core forgets a point's state (decisions.md section 1).
	forgetAfter = 3
)

// streak follows one target through consecutive results; its zero value knows nothing. It errs to not down: with
// the largest fall and the smallest rise of the rules, whatever it holds down is down in every rule.
type streak struct {
	down  bool
	fails int // in a row while not down; < fall
	oks   int // in a row while down; < rise
}

func (s *streak) step(ok bool, fall, rise int) {
	switch {
	case ok && !s.down:
		s.fails = 0
	case ok:
		if s.oks++; s.oks >= rise {
			*s = streak{}
		}
	case s.down:
		s.oks = 0
	default:
		if s.fails++; s.fails >= fall {
			*s = streak{down: true}
		}
	}
}

// open reports whether a run of failures is under way that has not yet decided anything.
func (s *streak) open() bool { return s.fails > 0 && !s.down }

// estimate is what the point itself holds of a target, only to know when to look again soon. Rules differ in whether
// a slow ok is a failure, so both readings are followed: plain takes it for an ok, strict for a failure.
type estimate struct {
	plain, strict streak
	last          time.Duration // of the last result that counts, by the scheduler's clock
}

// step takes one result and reports whether the target is to be looked at again soon.
func (e *estimate) step(now time.Duration, j *Job, o *report.Observation) bool {
	if now-e.last >= forgetAfter*j.Interval {
		*e = estimate{}
	}
	if o.Counts() {
		fall, rise := j.Fall, max(j.Rise, 1)
		if fall <= 0 {
			fall = defaultFall
		}
		slow := o.OK && j.SlowAbove > 0 && o.Latency > j.SlowAbove
		e.plain.step(o.OK, fall, rise)
		e.strict.step(o.OK && !slow, fall, rise)
		e.last = now
	}
	return e.plain.open() || e.strict.open()
}
