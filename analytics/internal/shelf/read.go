package shelf

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"steerpoint/analytics/internal/cells"
)

// Query selects cells. An empty Service, Rule or Edge does not narrow it.
type Query struct {
	Service, Rule, Edge string
	From, To            int64 // Unix milliseconds: cells that start at From or later, and end at To or before
	Edges, Steered      bool
	Latency             bool // sums and histograms of latency too
}

// Snapshot is what was on the shelf at one instant.
type Snapshot struct {
	querier storage.Querier
	query   Query
}

// Snapshot takes one. alongside is called at that same instant: no Append becomes visible between the two.
func (s *Shelf) Snapshot(q Query, alongside func()) (*Snapshot, error) {
	s.flip.RLock()
	defer s.flip.RUnlock()
	querier, err := s.db.Querier(q.From+1, q.To) // samples are at the ends of cells
	if err != nil {
		return nil, fmt.Errorf("series: %w", err)
	}
	alongside()
	return &Snapshot{querier, q}, nil
}

// Close gives the snapshot up.
func (s *Snapshot) Close() error { return s.querier.Close() }

// Each hands out every sample as a part of its cell: series is called for each key, more than once, and gives what takes
// the parts. A part is good until the next one.
func (s *Snapshot) Each(ctx context.Context, series func(cells.Key) func(start int64, part *cells.Tally)) error {
	q := &s.query
	for _, m := range []struct {
		name string
		on   bool
	}{
		{EdgeProbes, q.Edges},
		{EdgeOK, q.Edges},
		{EdgeLatency, q.Edges && q.Latency},
		{RuleProbes, q.Steered},
		{RuleOK, q.Steered},
		{RuleLatency, q.Steered && q.Latency},
	} {
		if !m.on {
			continue
		}
		if err := s.read(ctx, m.name, series); err != nil {
			return fmt.Errorf("series: %w", err)
		}
	}
	return nil
}

func (s *Snapshot) matchers(name string) []*labels.Matcher {
	out := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, metricName, name)}
	for label, v := range map[string]string{LabelService: s.query.Service, LabelRule: s.query.Rule, LabelEdge: s.query.Edge} {
		if v != "" && !(label == LabelEdge && (name == RuleProbes || name == RuleOK || name == RuleLatency)) {
			out = append(out, labels.MustNewMatcher(labels.MatchEqual, label, v))
		}
	}
	return out
}

// lookEvery is how many samples are read before it is looked whether anybody still waits.
const lookEvery = 1 << 14

func (s *Snapshot) read(ctx context.Context, name string, series func(cells.Key) func(int64, *cells.Tally)) error {
	set := s.querier.Select(ctx, false, nil, s.matchers(name)...)
	var it chunkenc.Iterator
	var h *histogram.FloatHistogram
	var part cells.Tally
	n := 0
	for set.Next() {
		one := set.At()
		l := one.Labels()
		take := series(cells.Key{Service: l.Get(LabelService), Rule: l.Get(LabelRule), Edge: l.Get(LabelEdge)})
		it = one.Iterator(it)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			if n++; n%lookEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			part = cells.Tally{Latency: part.Latency[:0]}
			switch kind {
			case chunkenc.ValFloat:
				_, v := it.At()
				if name == EdgeProbes || name == RuleProbes {
					part.Probes = v
				} else {
					part.OK = v
				}
			case chunkenc.ValFloatHistogram:
				_, h = it.AtFloatHistogram(h)
				readNative(&part, h)
			}
			take(it.AtT()-cells.Width.Milliseconds(), &part)
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	return errors.Join(set.Err(), ctx.Err())
}

// readNative reads what native made.
func readNative(to *cells.Tally, h *histogram.FloatHistogram) {
	to.Seconds = h.Sum
	var index int32
	i := 0
	for _, span := range h.PositiveSpans {
		index += span.Offset
		for range span.Length {
			if n := h.PositiveBuckets[i]; n > 0 { // all samples of a chunk have the buckets of any
				to.Latency = append(to.Latency, cells.Bucket{Index: index, N: n})
			}
			index, i = index+1, i+1
		}
	}
}
