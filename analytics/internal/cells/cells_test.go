package cells

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"steerpoint/report"
)

var begin = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func seen(at time.Duration, edge string, ok bool) report.Measurement {
	return report.Measurement{At: begin.Add(at), Service: "s", Rule: "r", Edge: edge, Address: edge, OK: ok, Latency: 20 * time.Millisecond}
}

func answerOf(at time.Duration, targets ...report.AnswerTarget) report.Answer {
	return report.Answer{At: begin.Add(at), Service: "s", Rule: "r", Targets: targets}
}

// TestQuantileIsInTheBucketOfTheExactOne draws latencies of every size, weighted, and holds p95 against the exact value.
// Covers: A12, issue4 series
func TestQuantileIsInTheBucketOfTheExactOne(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s Sketch
		type one struct{ v, w float64 }
		var all []one
		total := 0.0
		for range 1 + r.IntN(300) {
			x := one{math.Exp(r.NormFloat64()*2 - 4), 1}
			if seed%2 == 1 {
				x.w = r.Float64() + 0.01
			}
			s.Add(x.v, x.w)
			all, total = append(all, x), total+x.w
		}
		slices.SortFunc(all, func(a, b one) int { return int(math.Copysign(1, a.v-b.v)) })
		for _, q := range []float64{0.05, 0.5, 0.95, 1} {
			exact, sum := 0.0, 0.0
			for _, x := range all {
				if exact, sum = x.v, sum+x.w; sum >= q*total*(1-1e-12) {
					break
				}
			}
			if got := s.Quantile(q); got < exact/1.0445 || got > exact*1.0445 {
				t.Fatalf("seed %d: quantile %v is %v, exactly %v", seed, q, got, exact)
			}
		}
	}
	var empty Sketch
	if empty.Quantile(0.95) != 0 {
		t.Error("a sketch without observations has a quantile")
	}
	empty.Add(0, 1)
	empty.Add(1e9, 1)
	if low, high := empty.Quantile(0.1), empty.Quantile(1); low > 1e-5 || high < 3600 || high > 4000 {
		t.Errorf("latencies out of bounds count as %v and %v", low, high)
	}
}

// TestCellsCloseInTime follows one cell: it takes what is a minute late, is closed 65 seconds after its end, and what
// comes then is counted and goes nowhere.
// Covers: A12, issue4 series
func TestCellsCloseInTime(t *testing.T) {
	b := NewBook()
	b.Measured(seen(9*time.Second, "a", true))
	b.Measured(seen(31*time.Second, "a", true))
	b.Measured(seen(0, "a", false)) // late, and in the first cell
	if got := b.Close(begin.Add(74 * time.Second)); len(got) != 0 {
		t.Fatalf("closed at 74 s: %+v", got)
	}
	got := b.Close(begin.Add(75 * time.Second))
	if len(got) != 1 || got[0].Probes != 2 || got[0].OK != 1 || got[0].Start != begin.UnixMilli() {
		t.Fatalf("closed at 75 s: %+v", got)
	}
	b.Measured(seen(9*time.Second, "a", true))
	if b.Late() != 1 {
		t.Errorf("%d late", b.Late())
	}
	if open := b.Open("s"); len(open) != 1 || open[0].Start != begin.Add(30*time.Second).UnixMilli() {
		t.Errorf("open: %+v", open)
	}
	if len(b.Open("other")) != 0 {
		t.Error("another service has cells")
	}
	b.Close(begin.Add(time.Hour))
	if len(b.services) != 0 {
		t.Errorf("a rule of which nothing comes any more is kept: %+v", b.services)
	}
}

// TestAsSteeredFollowsTheAnswers moves a rule from one edge to another: each observation counts for what was answered
// just before it was made, an address that is not answered for nothing, and an empty answer is a failure.
// Covers: A12, issue4 series
func TestAsSteeredFollowsTheAnswers(t *testing.T) {
	b := NewBook()
	sum := func() Tally { return b.Sum(Key{"s", "r", ""}) }
	b.Measured(seen(0, "a", true)) // before anything is answered
	b.Answered(answerOf(time.Second, report.AnswerTarget{Edge: "a", Address: "a", Weight: 1}))
	b.Measured(seen(time.Second, "a", true)) // at the instant of the decision: made before it
	if got := sum(); got.Probes != 0 {
		t.Fatalf("counts before its answer: %+v", got)
	}
	b.Measured(seen(2*time.Second, "a", true))
	b.Measured(seen(2*time.Second, "b", true))
	b.Answered(answerOf(20*time.Second, report.AnswerTarget{Edge: "b", Address: "b", Weight: 0.5}))
	b.Measured(seen(15*time.Second, "a", false)) // comes late, of the time of a
	b.Measured(seen(25*time.Second, "a", false))
	b.Measured(seen(25*time.Second, "b", true))
	if got := sum(); got.Probes != 2.5 || got.OK != 1.5 {
		t.Fatalf("as steered: %+v", got)
	}
	b.Answered(report.Answer{At: begin.Add(30 * time.Second), Service: "s", Rule: "r", Empty: true, Targets: []report.AnswerTarget{{Edge: "b", Address: "b", Weight: 1}}})
	b.Measured(seen(31*time.Second, "b", true))
	if got := sum(); got.Probes != 3.5 || got.OK != 1.5 {
		t.Fatalf("nothing is answered: %+v", got)
	}
	// Old answers go, the one in force stays.
	b.Close(begin.Add(10 * time.Minute))
	if r := b.rule("s", "r"); len(r.answers) != 1 || !r.answers[0].empty {
		t.Errorf("answers kept: %+v", r.answers)
	}
	b.Answered(answerOf(11 * time.Minute))
	b.Close(begin.Add(20 * time.Minute))
	if len(b.services) != 0 {
		t.Errorf("a rule that is gone is kept: %+v", b.services)
	}
}

// TestRestoreLeavesOutWhatIsOnDisk puts open cells into a new book, beside what came meanwhile.
// Covers: A12, issue4 series restart
func TestRestoreLeavesOutWhatIsOnDisk(t *testing.T) {
	b := NewBook()
	for at := range 4 {
		b.Measured(seen(time.Duration(at)*10*time.Second, "a", true))
	}
	b.Answered(answerOf(0, report.AnswerTarget{Edge: "a", Address: "a", Weight: 1}))
	b.Measured(seen(35*time.Second, "a", true))
	again := NewBook()
	again.Measured(seen(36*time.Second, "a", true))
	again.Restore(b.Open(""), begin.Add(20*time.Second).UnixMilli())
	if edge, steered := again.Sum(Key{"s", "r", "a"}), again.Sum(Key{"s", "r", ""}); edge.Probes != 4 || steered.Probes != 1 {
		t.Errorf("restored: edge %+v, as steered %+v", edge, steered)
	}
	// A book that has closed cells of that time gives them back, by start.
	late := NewBook()
	late.Close(begin.Add(30*time.Second + Late))
	over := late.Restore(b.Open(""), begin.Add(10*time.Second).UnixMilli())
	if len(over) != 2 || over[0].Start != begin.Add(10*time.Second).UnixMilli() || over[1].Start != begin.Add(20*time.Second).UnixMilli() {
		t.Errorf("given back: %+v", over)
	}
	if edge := late.Sum(Key{"s", "r", "a"}); edge.Probes != 2 {
		t.Errorf("restored beside them: %+v", edge)
	}
}

// TestAnswersSaidAgain says the same answer over and over: it is kept once, and holds from the first time on.
// Covers: A12, issue4 series
func TestAnswersSaidAgain(t *testing.T) {
	b := NewBook()
	target := report.AnswerTarget{Edge: "a", Address: "a", Weight: 1}
	for at := range 3 {
		b.Answered(answerOf(time.Duration(at)*10*time.Second, target))
	}
	b.Measured(seen(5*time.Second, "a", true))
	target.Weight = 0.5
	b.Answered(answerOf(30*time.Second, target))
	b.Measured(seen(35*time.Second, "a", true))
	if n := len(b.rule("s", "r").answers); n != 2 {
		t.Errorf("%d answers are kept", n)
	}
	if steered := b.Sum(Key{"s", "r", ""}); steered.Probes != 1.5 {
		t.Errorf("as steered: %+v", steered)
	}
}

// TestDayIsTheLast24Hours adds a cell a minute for three days: the sum is of the last 24 hours, to a quarter of one, and a
// key of which nothing comes is forgotten a day later.
// Covers: A12, issue4 series
func TestDayIsTheLast24Hours(t *testing.T) {
	var d Day
	k, gone := Key{"s", "r", "a"}, Key{"s", "r", "b"}
	d.Add(gone, begin.UnixMilli(), &Tally{Probes: 1})
	for minute := range 3 * 24 * 60 {
		now := begin.Add(time.Duration(minute) * time.Minute)
		d.Add(k, now.UnixMilli(), &Tally{Probes: 2, OK: 1, Seconds: 0.5})
		got := d.Of(k, now)
		most := min(minute+1, 24*60)
		if got.Probes > float64(2*most) || got.Probes < float64(2*max(most-15, 1)) || got.OK != got.Probes/2 || got.Seconds != got.OK/2 {
			t.Fatalf("after %d minutes: %+v", minute, got)
		}
	}
	d.Add(k, begin.UnixMilli(), &Tally{Probes: 1000}) // of three days ago
	end := begin.Add(3 * 24 * time.Hour)
	if got := d.Of(k, end); got.Probes > 2*24*60 {
		t.Errorf("an old cell counts: %+v", got)
	}
	d.Forget(end)
	if len(d.keys) != 1 {
		t.Errorf("%d keys are kept", len(d.keys))
	}
	if f := d.Of(Key{}, end); f.Figures() != (report.Figures{}) {
		t.Errorf("a key that is not there: %+v", f)
	}
}
