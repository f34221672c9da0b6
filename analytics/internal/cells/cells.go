// Package cells sums observations up by edge and rule in cells of ten seconds, while the cells are open. It knows no
// disk and no clock: who uses it says which instant it is.
package cells

import (
	"cmp"
	"time"

	"steerpoint/report"
)

// Width is the length of a cell.
const Width = 10 * time.Second

// widthMs is Width in the unit of cells' starts.
const widthMs = int64(Width / time.Millisecond)

// Key names a series: an edge of a rule, or, with Edge "", the rule as steered.
type Key struct{ Service, Rule, Edge string }

// Compare orders keys by service, rule and edge.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Service, o.Service), cmp.Compare(k.Rule, o.Rule), cmp.Compare(k.Edge, o.Edge))
}

// Tally sums observations up. The zero value is empty.
type Tally struct {
	Probes, OK float64
	Seconds    float64 // of latency, of those that were ok
	Latency    Sketch  // of those that were ok
}

// observe counts one observation with a weight.
func (t *Tally) observe(ok bool, latency time.Duration, weight float64) {
	t.Probes += weight
	if !ok {
		return
	}
	t.OK += weight
	seconds := latency.Seconds()
	t.Seconds += seconds * weight
	t.Latency.Add(seconds, weight)
}

// Add puts the observations of another tally to these.
func (t *Tally) Add(o *Tally) {
	t.Probes += o.Probes
	t.OK += o.OK
	t.Seconds += o.Seconds
	for _, b := range o.Latency {
		t.Latency.AddIndex(b.Index, b.N)
	}
}

// Figures are what people ask of a tally.
func (t *Tally) Figures() report.Figures {
	f := report.Figures{Probes: t.Probes, OK: t.OK}
	if t.OK > 0 {
		f.Mean = duration(t.Seconds / t.OK)
		f.P95 = duration(t.Latency.Quantile(0.95))
	}
	return f
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// Cell is what was observed for one key in the Width from Start on.
type Cell struct {
	Key
	Start int64 // Unix milliseconds, a multiple of Width
	Tally
}

// End is the first instant after the cell, in Unix milliseconds.
func (c *Cell) End() int64 { return c.Start + widthMs }

// StartOf is the start of the cell that an instant lies in.
func StartOf(at time.Time) int64 { return floor(at.UnixMilli(), widthMs) }

func floor(v, to int64) int64 {
	r := v % to
	if r < 0 {
		r += to
	}
	return v - r
}
