package wire

import (
	"sync"
	"time"
)

// The forms in which a snapshot goes down.
const (
	formFull  = "full"
	formDelta = "delta"
)

// packet is one frame that is made when the first follower needs it, and shared by all that need it after.
type packet struct {
	form   string
	encode func() ([]byte, error)
	once   sync.Once
	ready  chan struct{} // closed when bytes and err are there
	bytes  []byte
	err    error
}

func newPacket(form string, encode func() ([]byte, error)) *packet {
	return &packet{form: form, encode: encode, ready: make(chan struct{})}
}

// start makes the frame beside its followers, since a large one takes longer than they may be silent.
func (p *packet) start(h *Hub) {
	p.once.Do(func() {
		h.streams.Go(func() {
			start := time.Now()
			p.bytes, p.err = p.encode()
			h.metrics.encode.WithLabelValues(p.form).Observe(time.Since(start).Seconds())
			p.encode = nil // what it holds may go
			close(p.ready)
		})
	})
}

// lineOf is what a line must know of a kind of snapshot. diff makes the frame's value out of two snapshots; nil: they always go
// whole.
type lineOf[S any] struct {
	version func(*S) uint64
	diff    func(from, to *S) any
	bases   int
}

// line is the row of versions of one snapshot. It keeps the newest, and the few before it to make deltas from.
type line[S any] struct {
	of lineOf[S]

	mu     sync.Mutex
	kept   []*S // oldest first; the last is the newest
	full   *packet
	deltas map[uint64]*packet // by the version they start from
}

// put makes s the newest. It encodes nothing, so it never takes long.
func (l *line[S]) put(s *S) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.kept); n > 0 && l.of.version(s) <= l.of.version(l.kept[n-1]) {
		l.kept = nil // control went back: no delta leads from what it said before
	}
	l.kept = append(l.kept, s)
	if over := len(l.kept) - 1 - l.of.bases; over > 0 {
		l.kept = append([]*S(nil), l.kept[over:]...) // a copy, so that the old ones are let go
	}
	l.deltas = map[uint64]*packet{}
	l.full = newPacket(formFull, func() ([]byte, error) { return jsonFrame(frameFull, s) })
}

// next is what leads a follower that has a version to the newest, and that version; nil if there is none yet, or if it
// has it. One that just came has only said so: it gets the empty delta, whose digest proves that the two mean the same.
func (l *line[S]) next(have uint64, came bool) (*packet, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == 0 {
		return nil, have
	}
	newest := l.kept[len(l.kept)-1]
	version := l.of.version(newest)
	if have == version && !came {
		return nil, have
	}
	if l.of.diff == nil {
		return l.full, version
	}
	if p := l.deltas[have]; p != nil {
		return p, version
	}
	for _, base := range l.kept {
		if l.of.version(base) == have {
			p := newPacket(formDelta, func() ([]byte, error) { return jsonFrame(frameDelta, l.of.diff(base, newest)) })
			l.deltas[have] = p
			return p, version
		}
	}
	return l.full, version
}
