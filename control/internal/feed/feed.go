// Package feed carries events to watchers: a bounded ring from which every watcher reads at its own pace. A slow
// watcher holds nobody up: it loses what the ring has overwritten, and is told so.
package feed

import (
	"sync"

	"steerpoint/control/api"
)

// Feed is a ring of the newest events. Methods may run at the same time.
type Feed struct {
	mu   sync.Mutex
	ring []api.Event
	next uint64        // ID of the next event; the first is 1
	news chan struct{} // closed and replaced with every event
}

// New makes a feed that keeps the newest size events.
func New(size int) *Feed {
	return &Feed{ring: make([]api.Event, size), next: 1, news: make(chan struct{})}
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

// Last is the ID of the newest event, 0 when there is none.
func (f *Feed) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next - 1
}

// After gives at most limit events that follow the one with ID last, in order. lost is how many of them are gone from
// the ring. A last that was never given out (from another process) counts as everything lost. news is closed when
// there is more.
func (f *Feed) After(last uint64, limit int) (events []api.Event, lost uint64, news <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest := uint64(1)
	if n := uint64(len(f.ring)); f.next > n {
		oldest = f.next - n
	}
	from := last + 1
	if last >= f.next {
		from, lost = oldest, 1 // IDs start anew with the process: what the watcher saw was another process's
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
