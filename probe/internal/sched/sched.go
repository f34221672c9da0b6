// Package sched runs many periodic checks with few goroutines.
//
// One loop over a heap starts each check when it is due; only a check that runs has a goroutine. A check that hangs
// gives its place up to the next after a moment (Config.Patience), so that hanging targets do not delay the others.
package sched

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"steerpoint/report"
)

// Job is one periodic check.
type Job struct {
	ID       string
	Interval time.Duration // > 0, the longest time between two starts
	// SlowAbove makes a slower ok a reason to look again soon; 0: never.
	SlowAbove time.Duration
	Fall      int // failures in a row after which the target is known to be down; 0: 10
	Rise      int // oks in a row after which it no longer is; 0: 1
	// Check does it. It must return soon after its context ends.
	Check func(ctx context.Context) report.Observation
}

// Config of a Scheduler. All fields must be set.
type Config struct {
	Seed        string        // fixes all draws together with a job's ID: the point's name
	Concurrency int           // checks at once that have run for less than Patience
	Waiting     int           // further checks at once that have run for longer, or whose last one did
	Patience    time.Duration // how long a check keeps one of the first kind of places
	StartWindow time.Duration // over which the first checks of new jobs are spread, at most their interval
}

// Hooks are called by the scheduler. None may block or call it back.
type Hooks struct {
	// Done gets each result of a job that is still wanted, and whether the job is looked at again soon.
	Done func(o report.Observation, soon bool)
	// Late hears of a check that started later than a tenth of its interval after it was due, and how much there was.
	Late func(by time.Duration, load Stats)
	// Panicked hears of a check that panicked: a fault of ours. Its result is an observation without a vote.
	Panicked func(id string, value any, stack []byte)
}

// Stats is how much there is at the moment.
type Stats struct{ Jobs, Running, Waiting, Queued int }

// Scheduler runs jobs. Make one with New.
type Scheduler struct {
	cfg   Config
	hooks Hooks
	epoch time.Time // all times below are durations since it, by the monotonic clock
	wake  chan struct{}
	wg    sync.WaitGroup // of running checks

	mu   sync.Mutex
	jobs map[string]*entry
	// An entry is in due until its time, then in ready or (when its last check took long) in patient until it starts,
	// then in none until it ends. due is by time; the others are by deadline, so that short intervals go first.
	due, ready, patient queue
	quick, waiting      int    // running checks by place; quick <= Concurrency, waiting <= Waiting
	young               []*run // running checks in places of the first kind, oldest first, ended ones included
	sleepsUntil         time.Duration
}

// entry is a job with its place in time.
type entry struct {
	job    Job
	draws  draws
	due    time.Duration // of the next start, or of the one that runs
	est    estimate
	spread bool // it has its own place in the interval
	long   bool // the last check took longer than Patience
	now    *run // the check that runs; nil if none does

	in  *queue // that holds it; nil while it runs
	key time.Duration
	pos int
}

// run is one running check.
type run struct {
	entry   *entry
	start   time.Duration
	cancel  context.CancelFunc
	ended   bool
	waiting bool // it has a place of the second kind
	dropped bool // its job is gone: nobody wants the result
}

// New makes a scheduler without jobs.
func New(cfg Config, hooks Hooks) *Scheduler {
	return &Scheduler{
		cfg: cfg, hooks: hooks, epoch: time.Now(),
		wake: make(chan struct{}, 1), jobs: map[string]*entry{},
	}
}

func (s *Scheduler) now() time.Duration { return time.Since(s.epoch) }

// Set replaces the jobs. A job whose ID was there goes on with its schedule and all else it knows (a shorter interval
// brings its next start nearer); new ones start within the start window; the others stop at once: a check that runs is
// cancelled and its result dropped.
func (s *Scheduler) Set(jobs []Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	wanted := make(map[string]*entry, len(jobs))
	for _, j := range jobs {
		if e, ok := s.jobs[j.ID]; ok {
			s.change(e, j, now)
			wanted[j.ID] = e
			continue
		}
		e := &entry{job: j, draws: newDraws(s.cfg.Seed, j.ID)}
		e.due = now + e.draws.between(0, min(j.Interval, s.cfg.StartWindow))
		s.due.add(e, e.due)
		wanted[j.ID] = e
	}
	for id, e := range s.jobs {
		if wanted[id] == nil {
			s.drop(e)
		}
	}
	s.jobs = wanted
	s.nudge(0)
}

func (s *Scheduler) change(e *entry, j Job, now time.Duration) {
	shorter := j.Interval < e.job.Interval
	e.job = j
	if shorter && e.in == &s.due && e.due > now+j.Interval {
		s.due.remove(e)
		e.due = now + e.draws.between(0, j.Interval)
		s.due.add(e, e.due)
	}
}

func (s *Scheduler) drop(e *entry) {
	if e.in != nil {
		e.in.remove(e)
	}
	if e.now != nil {
		e.now.dropped = true
		e.now.cancel()
	}
}

// nudge wakes the loop if something is to be done before it would wake by itself.
func (s *Scheduler) nudge(due time.Duration) {
	if due >= s.sleepsUntil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // it is woken already
	}
}

// Stats says how much there is at the moment.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats()
}

func (s *Scheduler) stats() Stats {
	return Stats{
		Jobs: len(s.jobs), Running: s.quick + s.waiting, Waiting: s.waiting,
		Queued: s.ready.Len() + s.patient.Len(),
	}
}

// Run starts checks until ctx ends, then cancels those that run and returns when they have. It runs once at a time.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.wg.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(s.turn(ctx))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-s.wake:
		}
	}
}

// idle is how long the loop sleeps when nothing is due: any long time will do, Set wakes it.
const idle = time.Hour

// turn starts what can be started and returns how long there is nothing to do.
func (s *Scheduler) turn(ctx context.Context) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for s.due.Len() > 0 && s.due.first().key <= now {
		e := s.due.take()
		q := &s.ready
		if e.long {
			q = &s.patient
		}
		q.add(e, e.due+e.job.Interval)
	}
	for s.patient.Len() > 0 && s.waiting < s.cfg.Waiting {
		s.start(ctx, s.patient.take(), now, true)
	}
	for s.ready.Len() > 0 && s.place(now) {
		s.start(ctx, s.ready.take(), now, false)
	}
	// Far targets take longer than Patience every time, and hang for nobody: they may use half of what is left.
	for s.patient.Len() > 0 && s.quick < s.cfg.Concurrency/2 {
		s.start(ctx, s.patient.take(), now, false)
	}
	s.sleepsUntil = s.nextTurn(now)
	return s.sleepsUntil - now
}

// place reports whether a place of the first kind is free, moving checks that have run long to the second if need be.
func (s *Scheduler) place(now time.Duration) bool {
	for len(s.young) > 0 && s.young[0].ended {
		s.forgetOldest()
	}
	for s.quick >= s.cfg.Concurrency && s.waiting < s.cfg.Waiting && len(s.young) > 0 {
		r := s.young[0]
		if !r.ended && now-r.start < s.cfg.Patience {
			break
		}
		s.forgetOldest()
		if !r.ended {
			r.waiting = true
			s.quick--
			s.waiting++
		}
	}
	return s.quick < s.cfg.Concurrency
}

func (s *Scheduler) forgetOldest() {
	s.young[0] = nil
	s.young = s.young[1:]
}

// nextTurn is when the loop has to look again if nothing ends before: at the next due time, or when the oldest check
// has had its time while others wait for its place.
func (s *Scheduler) nextTurn(now time.Duration) time.Duration {
	next := now + idle
	if s.due.Len() > 0 {
		next = min(next, s.due.first().key)
	}
	if s.ready.Len() > 0 && s.waiting < s.cfg.Waiting && len(s.young) > 0 {
		next = min(next, s.young[0].start+s.cfg.Patience)
	}
	return next
}

func (s *Scheduler) start(ctx context.Context, e *entry, now time.Duration, waiting bool) {
	ctx, cancel := context.WithCancel(ctx)
	r := &run{entry: e, start: now, cancel: cancel, waiting: waiting}
	e.now = r
	if waiting {
		s.waiting++
	} else {
		s.quick++
		s.young = append(s.young, r)
	}
	if by := now - e.due; by > e.job.Interval/10 {
		s.hooks.Late(by, s.stats())
	}
	id, check := e.job.ID, e.job.Check // Set may replace e.job meanwhile
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		o := s.guarded(ctx, id, check)
		cancelled := ctx.Err() != nil
		cancel()
		s.end(r, o, cancelled)
	}()
}

// guarded runs a check. A panic is a fault in ours, not in the target: it must neither end the process nor count
// against the target.
func (s *Scheduler) guarded(ctx context.Context, id string, check func(context.Context) report.Observation) (o report.Observation) {
	defer func() {
		if v := recover(); v != nil {
			s.hooks.Panicked(id, v, debug.Stack())
			o = report.Observation{Task: id, Cause: report.CauseLocal, Detail: fmt.Sprintf("the check panicked: %v", v)}
		}
	}()
	return check(ctx)
}

// end takes a result in and plans the next check. What a cancelled check says is not a result.
func (s *Scheduler) end(r *run, o report.Observation, cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r.ended = true
	if r.waiting {
		s.waiting--
	} else {
		s.quick--
	}
	if s.ready.Len()+s.patient.Len() > 0 {
		s.nudge(0)
	}
	if r.dropped {
		return
	}
	e := r.entry
	e.now = nil
	if cancelled { // by the end of Run: due again when it runs anew
		s.due.add(e, e.due)
		return
	}
	e.long = now-r.start > s.cfg.Patience
	soon := e.est.step(now, &e.job, &o)
	e.due = e.nextDue(r.start, now, soon)
	s.due.add(e, e.due)
	s.nudge(e.due)
	s.hooks.Done(o, soon)
}
