package latency

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

// Covers: B5, decisions 1
func TestBaselineLearnsFromEightOks(t *testing.T) {
	var b Baseline
	for i := range 7 {
		if b.OK(0, time.Duration(i+1)*100*ms, 2000) {
			t.Fatalf("ok %d counts as slow before a baseline is learnt", i+1)
		}
	}
	if b.SlowAbove(2000) != 0 {
		t.Fatal("a limit before eight oks")
	}
	b.OK(0, 800*ms, 2000)
	if want := 450 * ms; b.Value != want {
		t.Fatalf("baseline %s, want the mean %s", b.Value, want)
	}
	if got := b.SlowAbove(2000); got != 900*ms {
		t.Fatalf("slow above %s, want 900ms", got)
	}
	if b.OK(0, 900*ms, 2000) {
		t.Fatal("exactly twice the baseline counts as slow")
	}
	if want := 450*ms + 450*ms/16; b.Value != want {
		t.Fatalf("baseline %s after an ok that is not slow, want %s", b.Value, want)
	}
}

// The baseline does not chase the fault; after half an hour it is learnt anew, but never above factor x the last
// healthy one, however often that happens.
//
// Covers: B5, decisions 1
func TestLongSlownessDoesNotBecomeNormal(t *testing.T) {
	var b Baseline
	now := time.Duration(0)
	feed := func(n int, x time.Duration) (slow int) {
		for range n {
			now += 5 * time.Second
			if b.OK(now, x, 2000) {
				slow++
			}
		}
		return slow
	}
	feed(8, 40*ms)
	if slow := feed(360, 1800*ms); slow != 360 {
		t.Fatalf("%d of 360 slow oks within half an hour counted as slow", slow)
	}
	for round := range 5 {
		if slow := feed(8, 1800*ms); slow != 0 {
			t.Fatalf("round %d: %d of the eight oks that are learnt from counted as slow", round, slow)
		}
		if b.Value != 80*ms || b.Healthy != 40*ms {
			t.Fatalf("round %d: baseline %s healthy %s, want 80ms from 40ms", round, b.Value, b.Healthy)
		}
		feed(360, 1800*ms)
		if !b.SlowOpen {
			t.Fatalf("round %d: 1800 ms is not slow", round)
		}
	}
}

// A moderate lasting change of route is not an outage for ever.
//
// Covers: decisions 1
func TestModerateSlownessIsRelearnt(t *testing.T) {
	var b Baseline
	for range 8 {
		b.OK(0, 40*ms, 2000)
	}
	b.OK(time.Second, 100*ms, 2000)
	for i := range 8 {
		if b.OK(time.Second+Relearn+time.Duration(i)*time.Second, 100*ms, 2000) {
			t.Fatal("slow while learning anew")
		}
	}
	if b.OK(2*Relearn, 100*ms, 2000) || b.Healthy <= 80*ms {
		t.Fatalf("100 ms is not taken as healthy: baseline %s healthy %s", b.Value, b.Healthy)
	}
}

func TestFactorZeroIsNeverSlow(t *testing.T) {
	var b Baseline
	for range 8 {
		b.OK(0, ms, 0)
	}
	if b.OK(0, time.Hour, 0) || b.SlowAbove(0) != 0 {
		t.Fatal("slow without a factor")
	}
}

// Covers: decisions 3
func TestMedianIsExact(t *testing.T) {
	for _, tt := range []struct {
		in    []time.Duration
		want2 time.Duration
	}{
		{[]time.Duration{7}, 14},
		{[]time.Duration{7, 4}, 11},
		{[]time.Duration{9, 1, 5}, 10},
		{[]time.Duration{4, 1, 3, 2}, 5},
		{[]time.Duration{100, 1, 2, 3, 4, 5}, 6}, // only the last five count
	} {
		var r Recent
		for _, v := range tt.in {
			r.Add(v)
		}
		if got, ok := r.Median2(); !ok || got != tt.want2 {
			t.Errorf("twice the median of %v: %d, want %d", tt.in, got, tt.want2)
		}
	}
	if _, ok := new(Recent).Median2(); ok {
		t.Error("a median of nothing")
	}
}

// The ring agrees with a plain list, whatever comes.
func TestWindowAgreesWithAList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	type result struct {
		at time.Duration
		ok bool
	}
	for range 200 {
		var w Window
		var list []result
		now := time.Duration(0)
		for range 400 {
			now += time.Duration(rnd.Int64N(int64(40 * time.Second)))
			r := result{now, rnd.IntN(3) > 0}
			w.Add(now, r.ok)
			list = append(list, r)
			if rnd.IntN(50) == 0 {
				var again Window
				again.Load(w.Save())
				w = again
			}
			n, f := 0, 0
			for _, r := range list {
				if r.at > now-Horizon {
					n++
					if !r.ok {
						f++
					}
				}
			}
			if gotN, gotF := w.Counts(); gotN != n || gotF != f {
				t.Fatalf("at %s: %d observations %d failures, want %d %d", now, gotN, gotF, n, f)
			}
		}
	}
}

func TestWindowIsReusedInPlace(t *testing.T) {
	var w Window
	now := time.Duration(0)
	add := func() { now += 30 * time.Second; w.Add(now, true) }
	for range 100 {
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n != 0 {
		t.Errorf("%v allocations per observation", n)
	}
}
