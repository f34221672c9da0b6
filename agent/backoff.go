package agent

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"
)

// Between tries to reach control: the first again almost at once, since most breaks are short; then at most so far
// apart that a node comes back within seconds of control, and a thousand nodes do not keep it from coming back.
const (
	backoffMin = 100 * time.Millisecond
	backoffMax = 5 * time.Second
	// steady is how long a stream must have stood for its end to be the first failure again.
	steady = backoffMax
	// hopeless is the longest wait after a refusal that only an operator can lift.
	hopeless = time.Minute
)

// backoff gives the waits between tries: each is twice the one before, shortened at random by up to half so that
// nodes which lost control together do not come back together.
type backoff struct {
	min, max time.Duration
	jitter   func() float64
	next     time.Duration
}

func (a *Agent) newBackoff() *backoff {
	return &backoff{min: backoffMin, max: backoffMax, jitter: a.jitter}
}

func (b *backoff) delay() time.Duration {
	d := max(b.next, b.min)
	b.next = min(2*d, b.max)
	return shortened(d, b.jitter)
}

func (b *backoff) reset() { b.next = 0 }

// shortened is d less up to half of it.
func shortened(d time.Duration, jitter func() float64) time.Duration {
	return d - time.Duration(jitter()*float64(d/2))
}

// wait returns after d or when wake has something, or early with false when ctx ends. A nil wake never has.
func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// bell wakes everyone who waits on it, every time it rings.
type bell struct {
	mu sync.Mutex
	c  chan struct{}
}

func (b *bell) heard() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}

// throttle lets each thing be said once in a while.
type throttle struct {
	every time.Duration
	mu    sync.Mutex
	said  map[string]time.Time
}

func newThrottle(every time.Duration) *throttle {
	return &throttle{every: every, said: map[string]time.Time{}}
}

// may reports whether what is to be said now.
func (t *throttle) may(what string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if last, ok := t.said[what]; ok && now.Sub(last) < t.every {
		return false
	}
	t.said[what] = now
	return true
}

// forget makes everything that begins with prefix news again.
func (t *throttle) forget(prefix string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.said, func(what string, _ time.Time) bool { return strings.HasPrefix(what, prefix) })
}

// mailbox holds the newest of what is to be delivered: an older one that is still in it is replaced.
type mailbox[T any] struct {
	mu   sync.Mutex
	have bool
	v    T
	more chan struct{} // 1 deep
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{more: make(chan struct{}, 1)} }

func (m *mailbox[T]) put(v T) {
	m.mu.Lock()
	m.v, m.have = v, true
	m.mu.Unlock()
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// restore puts v back unless something newer has come. It does not ring.
func (m *mailbox[T]) restore(v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.have {
		m.v, m.have = v, true
	}
}

// take empties the box.
func (m *mailbox[T]) take() (v T, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok = m.v, m.have
	var none T
	m.v, m.have = none, false
	return v, ok
}

// empty reports whether nothing newer has come.
func (m *mailbox[T]) empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.have
}
