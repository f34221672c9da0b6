package analytics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"steerpoint/analytics/internal/cells"
	"steerpoint/analytics/internal/shelf"
	"steerpoint/report"
)

// Query gives the series that are asked for, by rule and edge; of a rule, the one as steered comes first. Points are by
// time. Its sums are exact: what is on disk and what is still in memory is read at one instant. Errors match
// ErrUnavailable when the disk is at fault.
func (a *Analytics) Query(ctx context.Context, q report.SeriesQuery) ([]report.Series, error) {
	if q.Step < Width || q.Step%Width != 0 {
		return nil, fmt.Errorf("series: a step of %v is no multiple of %v", q.Step, Width)
	}
	s := &sums{
		query: q, from: cells.StartOf(q.From), to: cells.StartOf(q.To), step: q.Step.Milliseconds(), series: map[cells.Key]*sum{},
	}
	a.using.RLock()
	defer a.using.RUnlock()
	if a.shelf == nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, a.why)
	}
	snap, err := a.shelf.Snapshot(shelf.Query{
		Service: q.Service, Rule: q.Rule, Edge: q.Edge, From: s.from, To: s.to, Edges: q.Edges, Steered: q.Steered, Latency: q.Latency,
	}, func() { s.memory(a) })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	err = errors.Join(snap.Each(ctx, s.takes), snap.Close())
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("series: %w", ctx.Err())
	case err != nil:
		a.suspectDamage()
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return s.result(), nil
}

// sums collects what a query asks for.
type sums struct {
	query          report.SeriesQuery
	from, to, step int64
	series         map[cells.Key]*sum
}

type sum struct {
	total  cells.Tally
	points map[int64]*cells.Tally // by start of the step
}

// memory adds the cells that are not on disk.
func (s *sums) memory(a *Analytics) {
	take := func(c *cells.Cell) {
		if c.Service != s.query.Service || c.Start < s.from || c.End() > s.to || !s.wants(c.Key) {
			return
		}
		if !s.query.Latency {
			c = &cells.Cell{Key: c.Key, Start: c.Start, Tally: cells.Tally{Probes: c.Probes, OK: c.OK}}
		}
		s.takes(c.Key)(c.Start, &c.Tally)
	}
	a.waiting.look(func(list []cells.Cell) {
		open := a.book.Open(s.query.Service)
		for _, part := range [][]cells.Cell{list, open} {
			for i := range part {
				take(&part[i])
			}
		}
	})
}

func (s *sums) wants(k cells.Key) bool {
	if s.query.Rule != "" && k.Rule != s.query.Rule {
		return false
	}
	if k.Edge == "" {
		return s.query.Steered
	}
	return s.query.Edges && (s.query.Edge == "" || k.Edge == s.query.Edge)
}

// takes gives what adds parts of cells to a series.
func (s *sums) takes(k cells.Key) func(int64, *cells.Tally) {
	one := s.series[k]
	if one == nil {
		one = &sum{points: map[int64]*cells.Tally{}}
		s.series[k] = one
	}
	var at int64
	var point *cells.Tally // of at: cells of a step come one after another
	return func(start int64, part *cells.Tally) {
		if step := start - start%s.step; point == nil || step != at {
			at = step
			if point = one.points[step]; point == nil {
				point = &cells.Tally{}
				one.points[step] = point
			}
		}
		point.Add(part)
	}
}

func (s *sums) result() []report.Series {
	out := []report.Series{}
	for _, k := range slices.SortedFunc(maps.Keys(s.series), cells.Key.Compare) {
		one := s.series[k]
		if len(one.points) == 0 {
			continue
		}
		r := report.Series{Rule: k.Rule, Edge: k.Edge, Points: make([]report.SeriesPoint, 0, len(one.points))}
		for _, start := range slices.Sorted(maps.Keys(one.points)) {
			t := one.points[start]
			one.total.Add(t)
			r.Points = append(r.Points, report.SeriesPoint{Start: time.UnixMilli(start).UTC(), Figures: t.Figures()})
		}
		r.Total = one.total.Figures()
		out = append(out, r)
	}
	return out
}
