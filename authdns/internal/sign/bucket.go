package sign

import (
	"sync/atomic"
	"time"
)

// bucket allows a rate over a burst of twice it. It needs no lock: one number says when all that was taken would have been
// given back.
type bucket struct {
	full  atomic.Int64 // on the monotonic clock handed in, in nanoseconds
	each  int64        // nanoseconds a token
	burst int64        // nanoseconds
}

// burstSeconds is how many seconds of the rate may be taken at once.
const burstSeconds = 2

func (b *bucket) set(rate int) {
	b.each, b.burst = int64(time.Second)/int64(rate), burstSeconds*int64(time.Second)
}

// take takes a token; false: there is none.
func (b *bucket) take(now time.Duration) bool {
	for {
		at := b.full.Load()
		next := max(at, int64(now)) + b.each
		if next > int64(now)+b.burst {
			return false
		}
		if b.full.CompareAndSwap(at, next) {
			return true
		}
	}
}
