package quorum

import (
	"slices"
	"testing"
)

// Covers: A7, decisions 2, field 28
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name            string
		prev            Verdict
		ups, downs, pts int
		min             int
		want            Verdict
		held            bool
	}{
		{"one of three is too few", Up, 0, 1, 3, 0, Up, true},
		{"two of three down", Up, 0, 2, 3, 0, Down, false},
		{"one each of three: tie", Up, 1, 1, 3, 0, Up, false},
		{"two to one", Down, 2, 1, 3, 0, Up, false},
		{"tie of four stays down", Down, 2, 2, 4, 0, Down, false},
		{"three of four", Up, 1, 3, 4, 0, Down, false},
		{"tie from the start stays unknown", Unknown, 1, 1, 2, 0, Unknown, false},
		{"nobody", Up, 0, 0, 3, 0, Up, true},
		{"one point alone decides", Up, 0, 1, 1, 0, Down, false},
		{"no points at all", Unknown, 0, 0, 0, 0, Unknown, true},
		{"minPoints below the majority", Up, 0, 1, 5, 1, Down, false},
		{"minPoints above the fresh ones", Up, 0, 3, 5, 4, Up, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, held := Judge(tt.prev, Votes{tt.ups, tt.downs, tt.pts}, tt.min)
			if got != tt.want || held != tt.held {
				t.Errorf("verdict %d held %v, want %d %v", got, held, tt.want, tt.held)
			}
		})
	}
}

// Covers: decisions 2, field 28
func TestSuspend(t *testing.T) {
	for _, tt := range []struct {
		name  string
		views []View // ups, downs
		edges int
		was   []bool
		want  []bool
	}{
		{"a point alone in the dark", []View{{0, 3}, {3, 0}, {2, 1}}, 3, []bool{false, false, false}, []bool{true, false, false}},
		{"80 % is enough", []View{{1, 4}, {5, 0}, {5, 0}}, 5, []bool{false, false, false}, []bool{true, false, false}},
		{"60 % is not", []View{{2, 3}, {5, 0}, {5, 0}}, 5, []bool{false, false, false}, []bool{false, false, false}},
		{"one edge says nothing of the point", []View{{0, 1}, {1, 0}, {1, 0}}, 1, []bool{false, false, false}, []bool{false, false, false}},
		{"an outage all see is real", []View{{0, 3}, {0, 3}, {0, 3}}, 3, []bool{false, false, false}, []bool{false, false, false}},
		{"two of three in the dark is no majority of fine ones", []View{{0, 3}, {0, 3}, {3, 0}}, 3, []bool{false, false, false}, []bool{false, false, false}},
		{"of two points neither", []View{{0, 3}, {3, 0}}, 3, []bool{false, false}, []bool{false, false}},
		{"two of five in the dark", []View{{0, 3}, {0, 3}, {3, 0}, {3, 0}, {3, 0}}, 3, make([]bool, 5), []bool{true, true, false, false, false}},
		{"half of the points: the world is broken", []View{{0, 3}, {0, 3}, {3, 0}, {3, 0}}, 3, []bool{true, false, false, false}, make([]bool, 4)},
		{"stays suspended below half up", []View{{1, 1}, {3, 0}, {3, 0}}, 3, []bool{true, false, false}, []bool{true, false, false}},
		{"restored at half up", []View{{2, 2}, {4, 0}, {4, 0}}, 4, []bool{true, false, false}, []bool{false, false, false}},
		{"restored when the others are no longer fine", []View{{0, 3}, {0, 3}, {3, 0}}, 3, []bool{true, false, false}, []bool{false, false, false}},
		{"points that see nothing are not others", []View{{0, 3}, {0, 0}, {3, 0}}, 3, []bool{false, false, false}, []bool{true, false, false}},
		{"nobody else sees anything", []View{{0, 3}, {0, 0}, {0, 0}}, 3, []bool{false, false, false}, []bool{false, false, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := slices.Clone(tt.was)
			changed := Suspend(tt.views, tt.edges, got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("suspended %v, want %v", got, tt.want)
			}
			if changed == slices.Equal(tt.was, tt.want) {
				t.Errorf("changed is %v from %v to %v", changed, tt.was, got)
			}
		})
	}
}
