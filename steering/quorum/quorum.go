// Package quorum turns what several points hold of an edge into one verdict, and finds points that have lost their
// own network. Counting only: it knows no names and no time.
package quorum

// Verdict is what the points together hold. The zero value is Unknown.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota
	Up
	Down
)

// Votes are the counts of one target in one rule. Ups and Downs are over points that are not unknown and not
// suspended; Points is how many the rule has, suspended and unknown ones included.
type Votes struct {
	Ups, Downs, Points int
}

// Needed is how many fresh points a verdict takes: minPoints, or a majority of the points when that is 0.
func Needed(points, minPoints int) int {
	if minPoints > 0 {
		return minPoints
	}
	return points/2 + 1
}

// Judge gives the verdict after prev. Too few fresh points leave it as it was, held; a tie leaves it as it was.
func Judge(prev Verdict, v Votes, minPoints int) (verdict Verdict, held bool) {
	fresh := v.Ups + v.Downs
	switch {
	case fresh < Needed(v.Points, minPoints):
		return prev, true
	case v.Downs*2 > fresh:
		return Down, false
	case v.Ups*2 > fresh:
		return Up, false
	default:
		return prev, false
	}
}

// View is what one point sees of a rule's enabled edges: how many up, how many down; the rest are unknown to it.
type View struct {
	Ups, Downs int
}

func (v View) fine() bool { return v.Downs*2 <= v.Ups+v.Downs }

// Suspend decides which points have no vote in the rule. suspended holds the answer of the last call and is updated
// in place; edges is the number of the rule's enabled edges. It reports whether anything changed.
//
// A point is suspended when it sees at least 80 % of the edges down (and at least two of them at all) while more
// than half of the other points that see anything are mostly fine; it is restored when it sees at least half of the
// edges up, or when the others are no longer mostly fine. When the points so found are half or more of all, none is
// suspended: then it is the world that is broken, not a point.
func Suspend(views []View, edges int, suspended []bool) (changed bool) {
	seeing, fine := 0, 0
	for _, v := range views {
		if v.Ups+v.Downs > 0 {
			seeing++
			if v.fine() {
				fine++
			}
		}
	}
	found := 0
	for i, v := range views {
		if isolated(v, edges, suspended[i], seeing, fine) {
			found++
		}
	}
	none := found*2 >= len(views)
	for i, v := range views {
		s := !none && isolated(v, edges, suspended[i], seeing, fine)
		if s != suspended[i] {
			suspended[i], changed = s, true
		}
	}
	return changed
}

func isolated(v View, edges int, already bool, seeing, fine int) bool {
	if v.Ups+v.Downs > 0 { // take the point itself out of the others
		seeing--
		if v.fine() {
			fine--
		}
	}
	if fine*2 <= seeing {
		return false
	}
	if already {
		return v.Ups*2 < edges
	}
	return v.Downs*100 >= edges*80 && v.Ups+v.Downs >= 2
}
