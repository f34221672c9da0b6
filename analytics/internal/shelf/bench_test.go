package shelf

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"steerpoint/analytics/internal/cells"
)

// ninety writes 90 days of one edge and its rule, probed every 30 s by three points, as blocks.
func ninety(b *testing.B) (*Shelf, time.Time) {
	b.Helper()
	cfg := config(b.TempDir())
	cfg.Block = 24 * time.Hour // or most of the time goes into making blocks of two hours
	s, _, err := Open(context.Background(), cfg, begin.Add(91*24*time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	r := rand.New(rand.NewPCG(1, 1))
	at := begin
	for range 90 {
		var list []cells.Cell
		for range 24 * 3600 / 30 {
			var t cells.Tally
			for range 3 {
				seconds := 0.02 * math.Exp(r.NormFloat64()*0.2)
				t.Probes++
				if r.IntN(500) > 0 {
					t.OK++
					t.Seconds += seconds
					t.Latency.Add(seconds, 1)
				}
			}
			list = append(list, cells.Cell{Key: edgeKey, Start: at.UnixMilli(), Tally: t}, cells.Cell{Key: ruleKey, Start: at.UnixMilli(), Tally: t})
			at = at.Add(30 * time.Second)
		}
		if _, err := s.Append(context.Background(), list, func() {}); err != nil {
			b.Fatal(err)
		}
		if err := s.db.Compact(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	return s, at
}

// BenchmarkNinetyDays reads 90 days of an edge: of availability alone, and with latencies. The bytes are those of an edge
// and its rule, on disk.
func BenchmarkNinetyDays(b *testing.B) {
	s, end := ninety(b)
	for name, latency := range map[string]bool{"availability": false, "latency": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				snap, err := s.Snapshot(Query{Service: "s", From: begin.UnixMilli(), To: end.UnixMilli(), Edges: true, Latency: latency}, func() {})
				if err != nil {
					b.Fatal(err)
				}
				var sum cells.Tally
				if err := snap.Each(b.Context(), func(cells.Key) func(int64, *cells.Tally) {
					return func(_ int64, part *cells.Tally) { sum.Add(part) }
				}); err != nil {
					b.Fatal(err)
				}
				if err := snap.Close(); err != nil {
					b.Fatal(err)
				}
				if sum.Probes != 3*90*24*3600/30 {
					b.Fatalf("%v probes", sum.Probes)
				}
			}
			b.ReportMetric(float64(s.Size()), "bytes")
		})
	}
}
