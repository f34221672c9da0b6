// Package feed carries events to watchers: a bounded ring from which every watcher reads at its own pace. A slow
// watcher holds nobody up: it loses what the ring has overwritten, and is told so.
package feed

import (
	"sync"
	"time"

	"steerpoint/control/api"
)

// Feed is a ring of the newest events. Methods may run at the same time.
type Feed struct {
	mu   sync.Mutex
	ring []api.Event
	base uint64        // the IDs up to it are those of processes before
	next uint64        // ID of the next event; the first is base+1
	news chan struct{} // closed and replaced with every event
}

// idsPerMilli is how many IDs a process has for each millisecond before the next one: far more than there are events. A
// JSON number holds the IDs (up to 2^53) until the year 2248.
const idsPerMilli = 1 << 10

// New makes a feed that keeps the newest size events. Its IDs are above those of a feed that started before it, so that a
// watcher of that one is known by what it saw last.
func New(size int, start time.Time) *Feed {
	base := uint64(max(start.UnixMilli(), 0)) * idsPerMilli
	return &Feed{ring: make([]api.Event, size), base: base, next: base + 1, news: make(chan struct{})}
}

// Add gives an event its ID and wakes the watchers.
func (f *Feed) Add(e api.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.ID = f.next
	f.ring[e.ID%uint64(len(f.ring))] = e
	f.next++
	close(f.news)
	f.news = make(chan struct{})
}

// Last is the ID of the newest event; when there is none, the one before the first.
func (f *Feed) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next - 1
}

// After gives at most limit events that follow the one with ID last, in order; 0 is the beginning of this feed. lost is how
// many of them are gone from the ring. A last that this feed never gave out (from another process) counts as everything
// lost. news is closed when there is more.
func (f *Feed) After(last uint64, limit int) (events []api.Event, lost uint64, news <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest := f.base + 1
	if n := uint64(len(f.ring)); f.next-oldest > n {
		oldest = f.next - n
	}
	from := last + 1
	switch {
	case last == 0:
		from = f.base + 1
	case last < f.base || last >= f.next: // above all IDs: the clock was set back between the processes
		from, lost = oldest, 1 // how many is not known
	}
	if from < oldest {
		lost += oldest - from
		from = oldest
	}
	for id := from; id < f.next && len(events) < limit; id++ {
		events = append(events, f.ring[id%uint64(len(f.ring))])
	}
	return events, lost, f.news
}
