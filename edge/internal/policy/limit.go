package policy

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"steerpoint/edge/internal/rules"
	"steerpoint/snapshot"
)

const (
	shards = 64
	// maxClients is how many clients one limit counts apart in one shard: some 10 MB a limit in all. Beyond it, clients that are
	// new share one count, so that a flood of made-up ones costs no memory and admits no more than one client.
	maxClients = 4096
	// maxRoom is the most that may be saved up: a century, beyond which times would overflow.
	maxRoom = 100 * 365 * 24 * time.Hour
)

// Limits bounds the requests of clients.
type Limits struct{ list []*limit }

type limit struct {
	paths  paths
	header string
	// every is the time that one request costs, room what may be saved up: the generic cell rate algorithm (ITU-T I.371) with
	// the virtual scheduling of its section A.
	every, room time.Duration

	most   int // clients in a shard
	seed   maphash.Seed
	shards [shards]shard
}

// shard is some clients of a limit.
type shard struct {
	mu sync.Mutex
	// due is when a client has paid for all it asked, by the hash of who it is.
	due  map[uint64]time.Duration
	rest time.Duration // likewise, of all that are not in due
	// swept is when due was last looked through while it was full: a flood must not have it done for each of its requests.
	swept time.Duration
	_     [32]byte // a shard each cache line
}

// NewLimits compiles rate limits. before, unless nil, are those of the snapshot before: a limit that did not change
// goes on counting.
func NewLimits(list []snapshot.EdgeLimit, before *Limits) *Limits {
	l := &Limits{}
	for i := range list {
		e := &list[i]
		every := max(1, e.Per/time.Duration(e.Requests))
		room := every * min(time.Duration(e.Burst), maxRoom/every)
		n := &limit{paths: newPaths(e.Paths), header: e.Header, every: every, room: room, most: maxClients, seed: maphash.MakeSeed()}
		if b := before.like(n, i); b != nil {
			n.seed = b.seed
			n.take(b)
		}
		l.list = append(l.list, n)
	}
	return l
}

// like is the limit among those before that n goes on from: the same one, wherever it stands, or the one in its place with the same
// numbers, for other paths; nil: there is none.
func (l *Limits) like(n *limit, i int) *limit {
	if l == nil {
		return nil
	}
	same := func(b *limit) bool { return b.header == n.header && b.every == n.every && b.room == n.room }
	for _, b := range l.list {
		if same(b) && b.paths.same(&n.paths) {
			return b
		}
	}
	if i < len(l.list) && same(l.list[i]) {
		return l.list[i]
	}
	return nil
}

// take goes on from the counts of another.
func (l *limit) take(b *limit) {
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		l.shards[i].rest = s.rest
		l.shards[i].due = make(map[uint64]time.Duration, len(s.due))
		for k, v := range s.due {
			l.shards[i].due[k] = v
		}
		s.mu.Unlock()
	}
}

// Admits reports whether a request may go on; if not, which limit refuses it, counted from 0, and after how long one would
// be admitted. A request that one limit refuses is taken back from those before it, so that it costs nothing. now is on a
// clock that never goes back.
func (l *Limits) Admits(r *rules.Request, now time.Duration) (ok bool, by int, wait time.Duration) {
	for i, u := range l.list {
		if !u.paths.fit(r.Path) {
			continue
		}
		if wait := u.pay(u.client(r), now); wait > 0 {
			for _, v := range l.list[:i] {
				if v.paths.fit(r.Path) {
					v.refund(v.client(r))
				}
			}
			return false, i, wait
		}
	}
	return true, -1, 0
}

// client is a hash of who is counted: the value of the header, or the address. Of IPv6 the first 64 bits are one client,
// who has all of the rest.
func (l *limit) client(r *rules.Request) uint64 {
	if l.header != "" && r.Header != nil {
		if v, ok := r.Header.Field(l.header, 0); ok {
			return maphash.Bytes(l.seed, v)
		}
	}
	a := r.Client.Addr().Unmap()
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		p = netip.Prefix{} // no address is known: one client
	}
	b := p.Addr().As16()
	return maphash.Bytes(l.seed, b[:])
}

// pay takes one request; the time to wait, unless 0, says that there was no room for it.
func (l *limit) pay(client uint64, now time.Duration) (wait time.Duration) {
	s := &l.shards[client%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	due, known := s.due[client]
	if !known && len(s.due) >= l.most && !s.sweep(now, l.most) {
		if wait = l.excess(s.rest, now); wait == 0 {
			s.rest = max(s.rest, now) + l.every
		}
		return wait
	}
	if wait = l.excess(due, now); wait > 0 {
		return wait
	}
	if s.due == nil {
		s.due = map[uint64]time.Duration{}
	}
	s.due[client] = max(due, now) + l.every
	return 0
}

// excess is how much a further request would be too early.
func (l *limit) excess(due, now time.Duration) time.Duration {
	return max(0, max(due, now)+l.every-l.room-now)
}

// sweep forgets who has paid for everything, at most once a second, and reports whether there is room then.
func (s *shard) sweep(now time.Duration, most int) bool {
	if now-s.swept < time.Second {
		return false
	}
	s.swept = now
	for k, due := range s.due {
		if due <= now {
			delete(s.due, k)
		}
	}
	return len(s.due) < most
}

func (l *limit) refund(client uint64) {
	s := &l.shards[client%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if due, known := s.due[client]; known {
		s.due[client] = due - l.every
	} else {
		s.rest -= l.every
	}
}
