package feed

import (
	"testing"
	"time"

	"steerpoint/control/api"
)

// TestResume proves that a watcher goes on where it was, and is told what it lost.
func TestResume(t *testing.T) {
	f := New(4, time.Time{})
	for range 10 {
		f.Add(api.Event{Kind: api.EventVerdict})
	}
	for _, c := range []struct {
		name        string
		last, first uint64
		n           int
		lost        uint64
	}{
		{"all there", 6, 7, 4, 0},
		{"some lost", 3, 7, 4, 3},
		{"up to date", 10, 0, 0, 0},
		{"of another process", 500, 7, 4, 1},
	} {
		events, lost, _ := f.After(c.last, 100)
		if len(events) != c.n || lost != c.lost || (c.n > 0 && events[0].ID != c.first) {
			t.Errorf("%s: %d events, %d lost, %+v", c.name, len(events), lost, events)
		}
	}
	if events, _, _ := f.After(6, 2); len(events) != 2 || events[1].ID != 8 {
		t.Errorf("limited: %+v", events)
	}
}

// TestResumeAfterARestart proves that a watcher of the process before is told that it lost events, whether the new one had
// fewer of them, more, or none; that one that has seen nothing yet, and one that begins with the process, lost nothing; and
// that every ID is a whole number in the double-precision floats of JSON clients.
func TestResumeAfterARestart(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := New(4, start)
	for range 3 {
		before.Add(api.Event{})
	}
	seen := before.Last()
	now := New(4, start.Add(time.Millisecond))
	quiet := now.Last()
	for n := range 9 {
		events, lost, _ := now.After(seen, 100)
		if lost == 0 || len(events) != min(n, 4) {
			t.Errorf("a watcher of before, after %d events: %d lost, got %+v", n, lost, events)
		}
		for _, last := range []uint64{0, quiet} {
			if events, lost, _ := now.After(last, 100); len(events) != min(n, 4) || lost != uint64(max(n-4, 0)) {
				t.Errorf("a watcher from %d on, after %d events: %d lost, got %+v", last, n, lost, events)
			}
		}
		now.Add(api.Event{})
	}
	if events, lost, _ := before.After(now.Last(), 100); lost == 0 || len(events) != 3 {
		t.Errorf("a clock that was set back: %d lost, %+v", lost, events)
	}
	far := New(4, time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))
	if last := far.Last(); last >= 1<<53 {
		t.Errorf("ID %d", last)
	}
}

// TestNews proves that waiting watchers wake.
func TestNews(t *testing.T) {
	f := New(4, time.Time{})
	_, _, news := f.After(0, 1)
	f.Add(api.Event{})
	<-news
	if f.Last() != 1 {
		t.Errorf("last %d", f.Last())
	}
}
