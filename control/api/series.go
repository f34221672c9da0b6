package api

import "time"

// SeriesAnswer is what was measured of a service over time. Sums are over cells of ten seconds that lie wholly between
// From and To.
type SeriesAnswer struct {
	Service     string    `json:"service"`
	Metric      string    `json:"metric,omitempty"` // as asked for; absent: all
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	StepSeconds float64   `json:"stepSeconds"`
	Series      []Series  `json:"series"` // by rule; of a rule the one as steered first, then its edges by name
}

// Series is an edge of a rule, or the rule as it steered its visitors: edge is absent then.
type Series struct {
	Rule    string `json:"rule"`
	Edge    string `json:"edge,omitempty"`
	Steered bool   `json:"steered"`
	SeriesFigures
	// Points are by time. Each is of the step that begins at its time; a step without an observation has none.
	Points []SeriesPoint `json:"points"`
}

// SeriesPoint is one step.
type SeriesPoint struct {
	Time time.Time `json:"time"`
	SeriesFigures
}

// SeriesFigures sum observations up. Of a rule as steered each observation counts with its edge's part of the visitors,
// so that probes and ok need not be whole.
type SeriesFigures struct {
	Probes       float64  `json:"probes"`
	OK           float64  `json:"ok"`
	Availability *float64 `json:"availability,omitempty"` // ok / probes
	LatencyMs    *float64 `json:"latencyMs,omitempty"`    // mean of those that were ok
	P95Ms        *float64 `json:"p95Ms,omitempty"`        // of those that were ok; at most 4.5 % off
}
