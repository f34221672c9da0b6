package report

import "time"

// Measurement is one observation as a series keeps it: of one address of one edge, for one rule that has the edge.
type Measurement struct {
	At                           time.Time
	Service, Rule, Edge, Address string
	OK                           bool
	Latency                      time.Duration // of an ok
}

// Answer is what a rule answers from an instant on, until the next one. Without targets nobody knows what the visitors
// of the rule get: nothing is probed there, or the rule is gone.
type Answer struct {
	At            time.Time
	Service, Rule string
	Targets       []AnswerTarget
	// Empty: the rule answers with nothing. Visitors then get nothing, whatever a probe of a target says.
	Empty bool
}

// AnswerTarget is one address that visitors are sent to. Weight is the part of them, above 0 to 1: those of an answer
// sum to 1, so that an observation of each counts as one in all, however many share.
type AnswerTarget struct {
	Edge, Address string
	Weight        float64
}

// Figures sum up observations. Probes and OK are counts; of a rule as steered each observation counts with the weight
// of its target. Mean and P95 are latencies of those that were ok, 0 without one; P95 is read from a histogram and at
// most 4.5 % off (see docs/series.md).
type Figures struct {
	Probes, OK float64
	Mean, P95  time.Duration
}

// SeriesQuery selects series of one service. Rule and Edge narrow it when set. Only cells of 10 s that lie wholly
// between From and To count; both are rounded down to such a border.
type SeriesQuery struct {
	Service, Rule, Edge string
	From, To            time.Time
	Step                time.Duration // a multiple of 10 s; points begin at multiples of it since 1970
	Edges, Steered      bool          // the series of edges; those of rules as steered
	Latency             bool          // also latencies, which take longer to read
}

// Series is one edge of a rule, or the rule as steered: then Edge is "". A step without an observation has no point.
type Series struct {
	Rule, Edge string
	Total      Figures // over the whole time asked for
	Points     []SeriesPoint
}

// SeriesPoint is what was observed in the step that begins at Start.
type SeriesPoint struct {
	Start time.Time
	Figures
}
