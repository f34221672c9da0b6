package echo16

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// places is how many counters there are: 256 KiB, fixed, however many sources are forged. Sources that fall on one
// counter share it; which ones do, nobody outside can tell.
const places = 1 << 14

// limiter lets each source have so many answers a second. Its methods may run at the same time.
type limiter struct {
	rate, burst float64
	seed        maphash.Seed
	epoch       time.Time

	mu     sync.Mutex
	places [places]place
}

// place is a bucket of tokens: how many there were, and when.
type place struct {
	tokens float64
	at     time.Duration // since epoch; 0: full
}

func newLimiter(rate, burst float64) *limiter {
	return &limiter{rate: rate, burst: burst, seed: maphash.MakeSeed(), epoch: time.Now()}
}

// take reports whether a source may have one more answer.
func (l *limiter) take(now time.Time, from netip.Addr) bool {
	if from.Is6() {
		if p, err := from.WithZone("").Prefix(64); err == nil { // a machine has all of a /64
			from = p.Addr()
		}
	}
	p := &l.places[maphash.Comparable(l.seed, from)%places]
	at := max(now.Sub(l.epoch), 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.at == 0 {
		p.tokens = l.burst
	} else {
		p.tokens = min(l.burst, p.tokens+(at-p.at).Seconds()*l.rate)
	}
	p.at = at
	if p.tokens < 1 {
		return false
	}
	p.tokens--
	return true
}
