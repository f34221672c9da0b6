// Package latency keeps what a rule knows of one target's response times at one point: a learnt baseline, the last
// five oks, and the results of the last ten minutes. Numbers only; comparisons are exact.
package latency

import (
	"slices"
	"time"
)

const (
	// learn is how many oks make a baseline: fewer and one odd probe would set it.
	learn = 8
	// smooth is the weight of a new ok: small enough that a slow drift is followed over minutes, not one probe.
	smooth = 16
	// Relearn is how long slowness must last before the baseline is learnt anew: a lasting route change is not an
	// outage for ever.
	Relearn = 30 * time.Minute
	// Horizon is the length of the availability window.
	Horizon = 10 * time.Minute
)

// Baseline is the usual latency of one (rule, target, point). Its zero value has learnt nothing.
//
// Invariants: Value > 0 once N == learn (for positive latencies). Healthy is the last Value that oks which were not
// slow made; a relearnt Value is never above factor x Healthy.
type Baseline struct {
	N         int32 // oks learnt so far, at most learn
	SlowOpen  bool  // a slow ok has come since the last one that was not slow
	Relearnt  bool  // the learning under way, or the last one, followed a long slowness
	Sum       time.Duration
	Value     time.Duration // integer nanoseconds; divisions truncate
	Healthy   time.Duration
	FirstSlow time.Duration // instant of the first of them, if SlowOpen
}

// OK takes the latency x of an ok and says whether it counts as slow. milli is slowFactor in thousandths; 0: never.
func (b *Baseline) OK(now, x time.Duration, milli int64) (slow bool) {
	if b.SlowOpen && now-b.FirstSlow >= Relearn {
		b.N, b.Sum, b.SlowOpen, b.Relearnt = 0, 0, false, true
	}
	if b.N < learn {
		b.learn(x, milli)
		return false
	}
	if milli > 0 && int64(x)*1000 > int64(b.Value)*milli {
		if !b.SlowOpen {
			b.SlowOpen, b.FirstSlow = true, now
		}
		return true
	}
	b.SlowOpen = false
	b.Value += (x - b.Value) / smooth
	b.Healthy = b.Value
	return false
}

func (b *Baseline) learn(x time.Duration, milli int64) {
	b.N++
	b.Sum += x
	if b.N < learn {
		return
	}
	b.Value = b.Sum / learn
	if !b.Relearnt {
		b.Healthy = b.Value
		return
	}
	if limit := time.Duration(int64(b.Healthy) * milli / 1000); milli > 0 && b.Value > limit {
		b.Value = limit
	}
}

// SlowAbove is the latency above which the next ok counts as slow; 0 while nothing would.
func (b *Baseline) SlowAbove(milli int64) time.Duration {
	if b.N < learn || milli <= 0 {
		return 0
	}
	return time.Duration(int64(b.Value) * milli / 1000)
}

// Recent holds the last five oks of one (target, point).
type Recent struct {
	V [5]time.Duration
	N uint8 // how many are filled
	I uint8 // where the next goes
}

// Add takes the latency of an ok.
func (r *Recent) Add(x time.Duration) {
	r.V[r.I] = x
	r.I = (r.I + 1) % uint8(len(r.V))
	if int(r.N) < len(r.V) {
		r.N++
	}
}

// Median2 is twice the median (an even count takes the mean of the middle two, so twice it is exact); ok is false
// without any value.
func (r *Recent) Median2() (m time.Duration, ok bool) {
	s := r.V
	v := s[:r.N]
	return Middle2(v)
}

// Middle2 sorts v and returns twice its median; ok is false when v is empty.
func Middle2(v []time.Duration) (m time.Duration, ok bool) {
	n := len(v)
	if n == 0 {
		return 0, false
	}
	slices.Sort(v)
	return v[n/2] + v[(n-1)/2], true
}

// Window holds the results of the last ten minutes, oldest first: instants shifted left by one, the lowest bit set
// for an ok. It allocates only while it grows; a full ring is reused in place.
type Window struct {
	ring  []int64
	head  int32 // index of the oldest
	n     int32
	fails int32
}

// Add takes one result and drops those that have left the window.
func (w *Window) Add(now time.Duration, ok bool) {
	w.Prune(now)
	if int(w.n) == len(w.ring) {
		w.grow()
	}
	v := int64(now) << 1
	if ok {
		v |= 1
	} else {
		w.fails++
	}
	w.ring[(int(w.head)+int(w.n))%len(w.ring)] = v
	w.n++
}

// grow enlarges by a half, not by two: at a 30 s interval a window holds 20 results and a few rechecks, and memory
// for 100,000 states is counted.
func (w *Window) grow() {
	bigger := make([]int64, max(8, len(w.ring)+len(w.ring)/2))
	for i := range int(w.n) {
		bigger[i] = w.ring[(int(w.head)+i)%len(w.ring)]
	}
	w.ring, w.head = bigger, 0
}

// Prune drops results at or before now-Horizon.
func (w *Window) Prune(now time.Duration) {
	for w.n > 0 {
		v := w.ring[w.head]
		if time.Duration(v>>1) > now-Horizon {
			return
		}
		if v&1 == 0 {
			w.fails--
		}
		w.head = (w.head + 1) % int32(len(w.ring))
		w.n--
	}
}

// Counts returns the observations kept and the failures among them.
func (w *Window) Counts() (observations, failures int) { return int(w.n), int(w.fails) }

// Oldest is the instant of the oldest result kept; ok is false when there is none.
func (w *Window) Oldest() (at time.Duration, ok bool) {
	if w.n == 0 {
		return 0, false
	}
	return time.Duration(w.ring[w.head] >> 1), true
}

// Save returns the results in their stored form, oldest first; Load takes it back.
func (w *Window) Save() []int64 {
	out := make([]int64, w.n)
	for i := range out {
		out[i] = w.ring[(int(w.head)+i)%len(w.ring)]
	}
	return out
}

// Load replaces the window by what Save returned.
func (w *Window) Load(saved []int64) {
	w.ring, w.head, w.n, w.fails = slices.Clone(saved), 0, int32(len(saved)), 0
	for _, v := range saved {
		if v&1 == 0 {
			w.fails++
		}
	}
}
