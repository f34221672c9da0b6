package web

import (
	"net/netip"
	"sync"
	"time"
)

// maxBuckets bounds the addresses remembered; beyond it, those that have all their tokens back are forgotten.
const maxBuckets = 4096

// Limiter lets each address make so many requests a second, over a burst. IPv6 addresses count by /64.
type Limiter struct {
	rate, burst float64
	mu          sync.Mutex
	buckets     map[netip.Addr]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// NewLimiter allows rate requests a second over a burst of twice that.
func NewLimiter(rate float64) *Limiter {
	return &Limiter{rate: rate, burst: 2 * rate, buckets: map[netip.Addr]bucket{}}
}

// Allow takes n tokens of an address and reports whether there were that many. Of an address whose bucket is empty
// nothing is taken.
func (l *Limiter) Allow(a netip.Addr, now time.Time, n float64) bool {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			a = p.Addr()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.buckets[a]
	if !ok {
		if len(l.buckets) >= maxBuckets {
			l.forget(now)
		}
		b = bucket{l.burst, now}
	}
	b.left, b.at = refill(b.left, now.Sub(b.at), l.rate, l.burst), now
	allowed := b.left >= n
	if allowed {
		b.left -= n
	}
	l.buckets[a] = b
	return allowed
}

// forget drops full buckets; if none is full, all: then the flood comes from everywhere, and memory matters more.
func (l *Limiter) forget(now time.Time) {
	for a, b := range l.buckets {
		if refill(b.left, now.Sub(b.at), l.rate, l.burst) >= l.burst {
			delete(l.buckets, a)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}
