// Package rrl limits how many replies of one kind go to one network in a second, so that queries with a forged source do
// not make the name server a weapon (response rate limiting). A network is an IPv4 /24 or an IPv6 /56.
//
// What is counted stands in a table of fixed size, each counter in one word that is changed by compare-and-swap: nothing
// is allocated, no lock is taken, and a flood of forged sources takes no memory. When counters run short, those that are
// furthest from their limit give way.
package rrl

import (
	"hash/maphash"
	"math/bits"
	"net/netip"
	"sync/atomic"
	"time"
)

// Kind is what replies are counted apart by.
type Kind uint8

// The kinds.
const (
	Answer   Kind = iota // of one name; NODATA too, which is of a name as well
	NXDomain             // of one zone: the names are the attacker's choice
	Error                // of the server: the names do not matter
	kinds
)

// Verdict is what is to become of a reply.
type Verdict uint8

// The verdicts.
const (
	Send Verdict = iota
	Slip         // say only that there is an answer: over TCP the source is no forgery
	Drop
)

// Config is the limits, in replies a second to one network. 0 is no limit.
type Config struct {
	Answers, NXDomains, Errors int
	// Total is of all replies together, whatever their kind and name.
	Total int
	// Burst is how much may come at once after a pause: as much as the limit allows in that time.
	Burst time.Duration
	// Slip: one reply in so many that are over the limit is told as Slip, the others are dropped. 0: all are dropped.
	Slip int
	// Exempt are networks without limits.
	Exempt []netip.Prefix
}

// MaxRate is the highest limit that can be told from none.
const MaxRate = 100_000

const (
	// ways is how many counters a key may stand in: a line of a processor's cache.
	ways = 8
	// lines is how many of those there are: 1 MiB in all, which holds 131,072 counters. Each belongs to a pair of network
	// and name that was answered in the last seconds.
	lines = 1 << 14

	// A counter is the instant at which it will be empty, in ticks, and a tag of its key.
	tagBits  = 16
	tickBits = 10 // a tick is 1024 ns: 48 bits are nine years
)

// line is the counters a key may stand in.
type line [ways]atomic.Uint64

// Limiter is the limits and what was counted. Its methods may be called by any number of goroutines.
type Limiter struct {
	table   []line
	seed    maphash.Seed
	secret  uint64
	cost    [kinds]uint64 // ticks a reply takes; 0: no limit
	total   uint64
	burst   uint64 // ticks
	slip    uint64
	limited atomic.Uint64
	exempt  []netip.Prefix
}

// New makes a limiter.
func New(cfg Config) *Limiter {
	cost := func(rate int) uint64 {
		if rate <= 0 {
			return 0
		}
		return max(1, uint64(time.Second)>>tickBits/uint64(min(rate, MaxRate)))
	}
	seed := maphash.MakeSeed()
	return &Limiter{
		table: make([]line, lines), seed: seed, secret: maphash.Bytes(seed, []byte("secret")) | 1,
		cost:  [kinds]uint64{Answer: cost(cfg.Answers), NXDomain: cost(cfg.NXDomains), Error: cost(cfg.Errors)},
		total: cost(cfg.Total), burst: uint64(cfg.Burst) >> tickBits,
		slip: uint64(max(0, cfg.Slip)), exempt: cfg.Exempt,
	}
}

// Check counts a reply and says what is to become of it. name tells apart what is counted apart, but for errors, which
// are one; nil: only Total counts. now is on any clock that does not go back.
func (l *Limiter) Check(client netip.Addr, kind Kind, name []byte, now time.Duration) Verdict {
	for i := range l.exempt {
		if l.exempt[i].Contains(client) {
			return Send
		}
	}
	// The first instants of the clock would look like counters that were never used.
	t := uint64(now)>>tickBits + 1
	network := networkOf(client)
	if !l.take(l.key(network, uint64(kinds)), t, l.total) {
		return l.over()
	}
	if name == nil {
		return Send
	}
	if kind == Error {
		name = nil
	}
	if !l.take(l.key(network, maphash.Bytes(l.seed, name)+uint64(kind)<<32), t, l.cost[kind]) {
		return l.over()
	}
	return Send
}

func (l *Limiter) over() Verdict {
	if n := l.limited.Add(1); l.slip > 0 && n%l.slip == 0 {
		return Slip
	}
	return Drop
}

// networkOf is the network of a client, each its own number.
func networkOf(a netip.Addr) uint64 {
	if a.Is4() {
		b := a.As4()
		return uint64(b[0])<<16 | uint64(b[1])<<8 | uint64(b[2])
	}
	b := a.As16()
	n := uint64(1) << 56
	for i, octet := range b[:7] {
		n |= uint64(octet) << (8 * i)
	}
	return n
}

// key mixes by a secret, so that nobody finds networks that share a counter with another's.
func (l *Limiter) key(network, what uint64) uint64 {
	hi, lo := bits.Mul64(network^l.secret, what^bits.RotateLeft64(l.secret, 32)|1)
	hi, lo = bits.Mul64(hi^lo^l.secret, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// take counts a reply that costs so many ticks and reports whether it is within the limit. One that is not is not
// counted: whoever is limited gets what the limit allows, and all of it again as soon as it asks for less.
func (l *Limiter) take(key, now, cost uint64) bool {
	if cost == 0 {
		return true
	}
	tag := key >> (64 - tagBits)
	row := &l.table[key%lines]
	// When another goroutine changes the counter meanwhile, once more; in the end a reply may go uncounted.
	for range 3 {
		slot, was, empty := find(row, tag, now)
		if empty > now+l.burst {
			return false
		}
		if slot.CompareAndSwap(was, (max(empty, now)+cost)<<tagBits|tag) {
			return true
		}
	}
	return true
}

// find is the counter with a tag, or the one that gives way to it: the one that is or will be empty first.
func find(row *line, tag, now uint64) (slot *atomic.Uint64, was, empty uint64) {
	slot, was = &row[0], row[0].Load()
	for i := range row {
		v := row[i].Load()
		if v&(1<<tagBits-1) == tag && v != 0 {
			return &row[i], v, v >> tagBits
		}
		if v>>tagBits < was>>tagBits {
			slot, was = &row[i], v
		}
	}
	return slot, was, now
}
