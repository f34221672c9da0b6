package selection

import (
	"slices"
	"testing"
	"time"
)

func score(d time.Duration) int64 { return 4 * int64(d) }

// All comparisons are exact: 90 ms is not less than 0.9 x 100 ms.
//
// Covers: A5, decisions 3
func TestFasterIsExact(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		challenger, current time.Duration
		want                bool
	}{
		{90 * ms, 100 * ms, false},
		{90*ms - 1, 100 * ms, true},
		{40 * ms, 45 * ms, true},
		{40*ms + 1, 45 * ms, false}, // 5 ms are needed
		{9 * ms, 13 * ms, false},
		{95 * ms, 100 * ms, false},
		{100 * ms, 50 * ms, false},
	} {
		if got := Faster(score(tt.challenger), score(tt.current)); got != tt.want {
			t.Errorf("%s against %s: %v, want %v", tt.challenger, tt.current, got, tt.want)
		}
	}
}

func up(s time.Duration, observations, failures int) Edge {
	return Edge{Up: true, HasScore: true, Score4: score(s), Observations: observations, Failures: failures, Confirmed: true}
}

// Covers: A5, decisions 3
func TestRound(t *testing.T) {
	down := Edge{Down: true, HasScore: true, Score4: 1}
	held, damped, blind := up(1, 20, 0), up(1, 20, 0), up(1, 20, 0)
	held.Held, damped.Damped, blind.HasScore = true, true, false
	for _, tt := range []struct {
		name string
		t    []Edge
		want []bool
		out  bool // edge 0 is out for availability
	}{
		{"all well", []Edge{up(5, 20, 0), up(6, 20, 0)}, []bool{true, true}, false},
		{"one lost probe is no reason", []Edge{up(5, 20, 1), up(6, 20, 0)}, []bool{true, true}, false},
		{"two are not", []Edge{up(5, 20, 2), up(6, 20, 0)}, []bool{true, true}, false},
		{"three are", []Edge{up(5, 20, 3), up(6, 20, 0)}, []bool{false, true}, true},
		{"three more but within 2 points", []Edge{up(5, 600, 13), up(6, 600, 10)}, []bool{true, true}, false},
		{"exactly 2 points below stays", []Edge{up(5, 200, 4), up(6, 200, 0)}, []bool{true, true}, false},
		{"nothing observed counts as well", []Edge{up(5, 0, 0), up(6, 20, 4)}, []bool{true, false}, false},
		{"down, held and unscored do not compete", []Edge{up(5, 20, 0), down, held, blind}, []bool{true, false, false, false}, false},
		{"damped is left out while another is up", []Edge{up(5, 20, 0), damped}, []bool{true, false}, false},
		{"damped alone competes", []Edge{down, damped}, []bool{false, true}, false},
		{"damped is not the measure of the others", []Edge{up(5, 20, 5), damped}, []bool{true, false}, false},
		{"nobody", []Edge{down}, []bool{false}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := make([]bool, len(tt.t))
			out := Round(tt.t, in, 0)
			if !slices.Equal(in, tt.want) || out != tt.out {
				t.Errorf("round %v, edge 0 out for availability %v; want %v %v", in, out, tt.want, tt.out)
			}
		})
	}
}

// Covers: A5, B4
func TestChoices(t *testing.T) {
	slow, fast, unconfirmed := up(50, 9, 0), up(10, 9, 0), up(1, 9, 0)
	unconfirmed.Confirmed = false
	table := []Edge{{Down: true}, unconfirmed, slow, fast, fast}
	all := []bool{true, true, true, true, true}
	if got := FirstConfirmed(table, 0); got != 2 {
		t.Errorf("first confirmed is %d, want 2", got)
	}
	if got := BestConfirmed(table, all, 0); got != 3 {
		t.Errorf("best confirmed is %d, want 3: the earlier of a tie", got)
	}
	if got := Challenger(table, []bool{false, true, true, true, true}, 1); got != 3 {
		t.Errorf("challenger of 1 is %d, want 3", got)
	}
	if got := Start(table); got != 1 {
		t.Errorf("start is %d, want 1", got)
	}
	if got := Start([]Edge{{Down: true}, {Down: true}}); got != 0 {
		t.Errorf("start with all down is %d, want the first", got)
	}
	if got := FirstUp([]Edge{{Down: true}, {}, {Up: true}}); got != 2 {
		t.Errorf("first up is %d, want 2", got)
	}
	if got := FirstConfirmed([]Edge{{Up: true}}, None); got != None {
		t.Errorf("first confirmed of none is %d", got)
	}
	cooled := []Edge{{Up: true}, {Up: true, Cooled: true}, {Up: true, Cooled: true}}
	if got := FirstCooled(cooled, 2); got != 1 {
		t.Errorf("first cooled before 2 is %d, want 1", got)
	}
	if got := FirstCooled(cooled, 1); got != None {
		t.Errorf("first cooled before 1 is %d, want none", got)
	}
}
