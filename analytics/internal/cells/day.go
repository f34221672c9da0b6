package cells

import (
	"sync"
	"time"
)

// The last day is kept in quarters of an hour: 96 of them, the one that is under way included.
const (
	slotMs = int64(15 * time.Minute / time.Millisecond)
	slots  = 96
)

// slot is what was observed in one quarter of an hour. 32 bits each: of 10,000 edges a day takes 15 MB.
type slot struct {
	number              int32 // since 1970; in it or not yet used
	probes, ok, seconds float32
}

// Day keeps availability and mean latency of the last 24 hours for every key. Its methods may run at the same time. The
// zero value is empty.
type Day struct {
	mu   sync.Mutex
	keys map[Key]*[slots]slot
}

// Add counts a cell.
func (d *Day) Add(k Key, start int64, t *Tally) {
	number := int32(start / slotMs)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = map[Key]*[slots]slot{}
	}
	ring := d.keys[k]
	if ring == nil {
		ring = new([slots]slot)
		d.keys[k] = ring
	}
	s := &ring[number%slots]
	switch {
	case number < s.number:
		return // a day older than what is there
	case number > s.number:
		*s = slot{number: number}
	}
	s.probes += float32(t.Probes)
	s.ok += float32(t.OK)
	s.seconds += float32(t.Seconds)
}

// Of sums the last 24 hours of a key up, without a histogram.
func (d *Day) Of(k Key, now time.Time) Tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	var t Tally
	ring := d.keys[k]
	if ring == nil {
		return t
	}
	first := int32(now.UnixMilli()/slotMs) - slots + 1
	for i := range ring {
		if s := &ring[i]; s.number >= first {
			t.Probes += float64(s.probes)
			t.OK += float64(s.ok)
			t.Seconds += float64(s.seconds)
		}
	}
	return t
}

// Forget drops the keys of which nothing was observed in the last 24 hours.
func (d *Day) Forget(now time.Time) {
	first := int32(now.UnixMilli()/slotMs) - slots + 1
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, ring := range d.keys {
		newest := ring[0].number
		for i := range ring {
			newest = max(newest, ring[i].number)
		}
		if newest < first {
			delete(d.keys, k)
		}
	}
}
