package agent

import (
	"sync"
	"time"

	"steerpoint/report"
	"steerpoint/wire"
)

// maxBatch bounds one call: some 200 KiB of JSON, a tenth of a second on a slow line.
const maxBatch = 500

// spooled is an observation that waits for control.
type spooled struct {
	o      report.Observation
	at     time.Time // of its arrival here, by the monotonic clock
	urgent bool      // a failure, or the first ok after one: what decisions wait for
}

// spool holds what waits for control, oldest first. Add never waits.
//
// A batch that is under way stays the same until control has it: under its ID it counts once, however often it is sent.
type spool struct {
	size int
	more chan struct{} // 1 deep: rung by the first observation, when a batch is full, and by what one left behind

	mu      sync.Mutex
	queue   []spooled // guarded by mu, as is what follows
	batch   []spooled // under way
	id      string    // of batch
	ok      map[string]bool
	dropped uint64
	shipped uint64
}

func newSpool(size int) *spool {
	return &spool{size: size, more: make(chan struct{}, 1), ok: map[string]bool{}}
}

func (s *spool) add(o report.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.ok[o.Task]
	if len(s.ok) > 2*s.size { // tasks come and go for years; a forgotten one costs an urgent place, once
		clear(s.ok)
	}
	s.ok[o.Task] = o.OK
	e := spooled{o: o, at: time.Now(), urgent: !o.OK || known && !before}
	for len(s.queue) > 0 && len(s.queue)+len(s.batch) >= s.size {
		s.dropOldest()
	}
	if len(s.queue)+len(s.batch) >= s.size {
		s.dropped++
		return
	}
	s.queue = append(s.queue, e)
	if len(s.queue) == 1 || len(s.queue) == maxBatch {
		s.ring()
	}
}

func (s *spool) ring() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *spool) dropOldest() {
	s.queue[0] = spooled{}
	s.queue = s.queue[1:]
	s.dropped++
}

// next is the batch to ship now and its ID, each observation with its age by now; none when nothing waits. It is the
// same until done is called.
func (s *spool) next() (id string, list []report.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.batch) == 0 {
		s.choose()
		s.id = wire.NewBatchID()
	}
	list = make([]report.Observation, len(s.batch))
	for i, e := range s.batch {
		list[i] = e.o
		list[i].Age += time.Since(e.at)
	}
	return s.id, list
}

// choose moves the next batch out of the queue: first what belongs to tasks with something urgent, then the rest. The
// observations of one task stay in their order, whatever the batch: a run of failures is counted in it.
func (s *spool) choose() {
	if len(s.queue) <= maxBatch {
		s.batch, s.queue = s.queue, nil
		return
	}
	hot := map[string]bool{}
	for _, e := range s.queue {
		if e.urgent {
			hot[e.o.Task] = true
		}
	}
	taken := make([]bool, len(s.queue))
	for _, want := range []bool{true, false} {
		for i, e := range s.queue {
			if len(s.batch) < maxBatch && hot[e.o.Task] == want {
				s.batch = append(s.batch, e)
				taken[i] = true
			}
		}
	}
	rest := make([]spooled, 0, len(s.queue)-len(s.batch))
	for i, e := range s.queue {
		if !taken[i] {
			rest = append(rest, e)
		}
	}
	s.queue = rest
}

// done says that control has the batch.
func (s *spool) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shipped += uint64(len(s.batch))
	s.over()
}

// discard drops the batch: control will never take it.
func (s *spool) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped += uint64(len(s.batch))
	s.over()
}

// over ends the batch; what is left in the queue is to be looked at.
func (s *spool) over() {
	s.batch = nil
	if len(s.queue) > 0 {
		s.ring()
	}
}

// full reports whether a whole batch waits.
func (s *spool) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.batch) > 0 || len(s.queue) >= maxBatch
}

func (s *spool) counts() (waiting int, shipped, dropped uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) + len(s.batch), s.shipped, s.dropped
}
