// Package selection chooses: among the edges of a rule, and among the origins of a group in the gateway.
//
// For edges it has pure functions over a small table of what is known of each, and keeps nothing between calls. For
// origins what must be kept, such as whose turn it is, is in a State that belongs to the caller. Clocks and locks are the
// caller's.
package selection

import "time"

const (
	// MarginNum/MarginDen: a challenger must be more than 10 % faster, or two near-equal edges would trade places.
	MarginNum, MarginDen = 9, 10
	// MarginAbs: and by 5 ms, below which a visitor notices nothing and measurements wobble.
	MarginAbs = 5 * time.Millisecond
	// availabilityMargin is how many percentage points below the best leave an edge out of the round.
	availabilityMargin = 2
	// fewFailures: with fewer failures than this above the best one's, the difference may be one lost packet.
	fewFailures = 3
)

// Edge is what a choice needs to know of one edge. Tables are in the order of choice (after damping).
type Edge struct {
	Up, Down  bool // the verdict; neither: unknown
	Held      bool
	Confirmed bool // up, and seen well since the current edge began to fail
	Cooled    bool // up and not held for the whole cool-down
	Damped    bool
	HasScore  bool
	// Score4 is four times the score in nanoseconds: medians of medians of even counts stay exact.
	Score4 int64
	// Observations and Failures of the last ten minutes, of points not suspended.
	Observations, Failures int
}

// None is the index of no edge.
const None = -1

// FirstConfirmed is the first edge that may take over, skipping skip (None: skip nothing).
func FirstConfirmed(t []Edge, skip int) int {
	for i := range t {
		if i != skip && t[i].Confirmed {
			return i
		}
	}
	return None
}

// FirstCooled is the first edge before limit that has been well for the whole cool-down.
func FirstCooled(t []Edge, limit int) int {
	for i := range limit {
		if t[i].Cooled {
			return i
		}
	}
	return None
}

// Start is the first edge that is not down, else the first; None only for an empty table.
func Start(t []Edge) int {
	for i := range t {
		if !t[i].Down {
			return i
		}
	}
	if len(t) > 0 {
		return 0
	}
	return None
}

// FirstUp is the first edge with verdict up, else the first not down, else the first.
func FirstUp(t []Edge) int {
	for i := range t {
		if t[i].Up {
			return i
		}
	}
	return Start(t)
}

// Round marks in in[i] the edges that compete in quality mode; in has the table's length. outForAvailability is set
// when edge cur would be in the round but for its availability.
func Round(t []Edge, in []bool, cur int) (outForAvailability bool) {
	ups := 0
	for i := range t {
		if t[i].Up {
			ups++
		}
	}
	best := None
	for i := range t {
		e := &t[i]
		others := ups
		if e.Up {
			others--
		}
		in[i] = e.Up && !e.Held && e.HasScore && (!e.Damped || others == 0)
		if in[i] && (best == None || moreAvailable(e, &t[best])) {
			best = i
		}
	}
	if best == None {
		return false
	}
	for i := range t {
		if in[i] && lessAvailable(&t[i], &t[best]) {
			in[i] = false
			outForAvailability = outForAvailability || i == cur
		}
	}
	return outForAvailability
}

// share returns the edge's oks and observations; none counts as all well.
func (e *Edge) share() (oks, of int64) {
	if e.Observations == 0 {
		return 1, 1
	}
	return int64(e.Observations - e.Failures), int64(e.Observations)
}

func moreAvailable(a, b *Edge) bool {
	ao, an := a.share()
	bo, bn := b.share()
	return ao*bn > bo*an
}

// lessAvailable: a is more than two percentage points below best, and by three failures more: the ratios are compared
// by cross multiplication, exactly.
func lessAvailable(a, best *Edge) bool {
	ao, an := a.share()
	bo, bn := best.share()
	// bo/bn - ao/an > 2/100
	return (bo*an-ao*bn)*100 > availabilityMargin*an*bn && a.Failures >= best.Failures+fewFailures
}

// BestConfirmed is the confirmed edge of the round with the best score, the earlier one on a tie, skipping skip.
func BestConfirmed(t []Edge, in []bool, skip int) int {
	return best(t, skip, func(i int) bool { return in[i] && t[i].Confirmed })
}

// Challenger is the best-scored edge of the round other than cur.
func Challenger(t []Edge, in []bool, cur int) int {
	return best(t, cur, func(i int) bool { return in[i] })
}

func best(t []Edge, skip int, eligible func(int) bool) int {
	b := None
	for i := range t {
		if i != skip && eligible(i) && (b == None || t[i].Score4 < t[b].Score4) {
			b = i
		}
	}
	return b
}

// Faster reports whether a challenger beats the current edge by both margins, exactly.
func Faster(challenger4, current4 int64) bool {
	return challenger4*MarginDen < current4*MarginNum && current4-challenger4 >= 4*int64(MarginAbs)
}
