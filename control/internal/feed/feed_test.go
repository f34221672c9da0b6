package feed

import (
	"testing"

	"steerpoint/control/api"
)

// TestResume proves that a watcher goes on where it was, and is told what it lost.
func TestResume(t *testing.T) {
	f := New(4)
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

// TestNews proves that waiting watchers wake.
func TestNews(t *testing.T) {
	f := New(4)
	_, _, news := f.After(0, 1)
	f.Add(api.Event{})
	<-news
	if f.Last() != 1 {
		t.Errorf("last %d", f.Last())
	}
}
