package steering

import (
	"slices"
	"time"
)

// lookAhead is how far the next change of a schedule is searched: every window recurs within a week, and a day more
// covers one that spans midnight or a shift of daylight saving time.
const lookAhead = 8

// wanted is the list of enabled edges that config and schedule ask for at now, and when the schedule next changes.
func (r *Rule) wanted(now Instant) (list []string, boundary Instant) {
	edges := r.cfg.Edges
	switch {
	case len(r.cfg.Schedule) == 0:
	case r.wall.IsZero(): // SetWall comes first; until then nothing moves
		if len(r.list) > 0 {
			edges = r.list
		}
	default:
		wall := r.wall.Add(now - r.wallAt)
		var next time.Time
		for i := range r.cfg.Schedule {
			w := &r.cfg.Schedule[i]
			if w.holds(wall) {
				edges = w.Edges
				break
			}
		}
		for i := range r.cfg.Schedule {
			if at := r.cfg.Schedule[i].next(wall); !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if !next.IsZero() {
			boundary = now + next.Sub(wall)
		}
	}
	if list = r.enabled(edges); len(list) == 0 {
		list = r.enabled(r.cfg.Edges)
	}
	return list, boundary
}

func (r *Rule) enabled(names []string) (out []string) {
	for _, n := range names {
		if e := r.serviceEdge(n); e != nil && e.Enabled {
			out = append(out, n)
		}
	}
	return out
}

// equal reports whether two windows are the same. Zones are compared by name: each configuration loads its own.
func (w Window) equal(o Window) bool {
	return w.Days == o.Days && w.From == o.From && w.To == o.To && w.Zone.String() == o.Zone.String() && slices.Equal(w.Edges, o.Edges)
}

// span is the window that starts on the day t falls on in the window's zone: local wall times, so that a shift of
// daylight saving time moves the end, not the start.
func (w *Window) span(day time.Time) (start, end time.Time) {
	y, m, d := day.Date()
	at := func(offset time.Duration, extraDay int) time.Time {
		return time.Date(y, m, d+extraDay, int(offset/time.Hour), int(offset/time.Minute)%60, int(offset/time.Second)%60, 0, w.zone())
	}
	start = at(w.From, 0)
	if w.To > w.From {
		return start, at(w.To, 0)
	}
	return start, at(w.To, 1)
}

func (w *Window) zone() *time.Location {
	if w.Zone == nil {
		return time.UTC
	}
	return w.Zone
}

// holds reports whether the window is open at t: from its start, included, to its end, excluded.
func (w *Window) holds(t time.Time) bool {
	today := t.In(w.zone())
	for back := range 2 { // a window that spans midnight belongs to the day before
		day := today.AddDate(0, 0, -back)
		if !w.Days[day.Weekday()] {
			continue
		}
		if start, end := w.span(day); !t.Before(start) && t.Before(end) {
			return true
		}
	}
	return false
}

// next is the first start or end after t; zero when the window has no day.
func (w *Window) next(t time.Time) (first time.Time) {
	today := t.In(w.zone())
	for ahead := -1; ahead < lookAhead; ahead++ {
		day := today.AddDate(0, 0, ahead)
		if !w.Days[day.Weekday()] {
			continue
		}
		start, end := w.span(day)
		for _, at := range [2]time.Time{start, end} {
			if at.After(t) && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	return first
}
