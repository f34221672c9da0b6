// Package sign makes the signatures of record sets when they are first asked for, keeps them in a bounded cache, and makes
// them anew when half of their life is over (RFC 4033 to 4035, ECDSA P-256 of RFC 6605).
//
// A signature depends on what is signed alone, so equal answers of many scopes have one. Signatures of names that exist and
// of names that somebody made up have caches and budgets of their own: a flood of made-up names can neither push the known
// out of the cache nor take more than its share of a processor.
//
// Signing is pure but for the cache and for the randomness in ECDSA: clocks are handed in.
package sign

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
)

// Class says whose budget and cache a signature is of.
type Class uint8

// The classes.
const (
	// Known: what is signed exists as it is in the map. There is a bounded number of such sets.
	Known Class = iota
	// MadeUp: the name is the client's: it does not exist, or a wildcard covers it. There is no end of them.
	MadeUp
	// MadeUpTCP is MadeUp for clients whose address is proven.
	MadeUpTCP
	classes
)

// Config of a Signer. The zero value is usable.
type Config struct {
	// KnownSize and MadeUpSize are how many sets of signatures are kept, rounded up to a power of two; some 400 octets
	// each. 0: 262144 and 16384.
	KnownSize, MadeUpSize int
	// KnownRate is how many signatures a second are made for known sets, and MadeUpRate for made-up names, over UDP and
	// over TCP each; twice as many may come at once. One takes some 40 microseconds of a core. 0: 10000 and 1000.
	KnownRate, MadeUpRate int
}

// Signer signs. Its methods may be called by any number of goroutines.
type Signer struct {
	ring    atomic.Pointer[Ring]
	seed    maphash.Seed
	tables  [classes]*table
	buckets [classes]bucket

	made    [classes]atomic.Uint64
	refused [classes]atomic.Uint64
	failed  atomic.Uint64
}

// New makes a signer without keys: no zone is signed.
func New(c Config) *Signer {
	or := func(v, zero int) int {
		if v <= 0 {
			v = zero
		}
		return v
	}
	madeUp := newTable(power(or(c.MadeUpSize, 1<<14)))
	s := &Signer{seed: maphash.MakeSeed(), tables: [classes]*table{newTable(power(or(c.KnownSize, 1<<18))), madeUp, madeUp}}
	rate := or(c.MadeUpRate, 1000)
	for class, r := range [classes]int{or(c.KnownRate, 10_000), rate, rate} {
		s.buckets[class].set(r)
	}
	return s
}

// power is the next power of two, at least the places of one hash.
func power(n int) int {
	p := ways
	for p < n {
		p *= 2
	}
	return p
}

// Ring is the keys in use; nil: no zone is signed.
func (s *Signer) Ring() *Ring { return s.ring.Load() }

// SetRing puts other keys in use. Signatures that were made by keys that are published still stay in use until they are
// made anew.
func (s *Signer) SetRing(r *Ring) { s.ring.Store(r) }

// Clock is the present: seconds of the wall clock, by which signatures are valid, and a monotonic time, by which budgets
// are counted.
type Clock struct {
	Unix uint32
	Mono time.Duration
}

// Sign gives the signatures of a set, from the cache or made now. nil: the budget is used up, or there is no key.
// It allocates nothing for what is in the cache.
func (s *Signer) Sign(z *Zone, set *Set, class Class, now Clock) *Signed {
	hash := s.hash(z, set)
	e := s.tables[class].find(hash, z, set)
	if e.usable(z, now.Unix) {
		if e.used.Load() != now.Unix {
			e.used.Store(now.Unix)
		}
		if !e.stale(z, now.Unix) {
			return e
		}
	} else {
		e = nil
	}
	if !s.buckets[class].take(now.Mono) {
		if e == nil {
			s.refused[class].Add(1)
		}
		return e // one that is due is good for half of its life more
	}
	if made := s.makeAndKeep(z, set, class, hash, now.Unix); made != nil {
		return made
	}
	return e
}

func (s *Signer) makeAndKeep(z *Zone, set *Set, class Class, hash uint64, unix uint32) *Signed {
	e, err := z.sign(set, unix)
	if err != nil {
		s.failed.Add(1)
		return nil
	}
	e.hash = hash
	e.used.Store(unix)
	// A due time of its own for each, so that what was signed in one hour is not made anew in one hour.
	e.renew -= uint32(hash>>32) % (uint32(z.life/time.Second)/8 + 1)
	s.made[class].Add(1)
	s.tables[class].put(e)
	return e
}

func (s *Signer) hash(z *Zone, set *Set) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	var head [7]byte
	binary.BigEndian.PutUint16(head[:], set.Type)
	binary.BigEndian.PutUint32(head[2:], set.TTL)
	head[6] = byte(len(z.name))
	_, _ = h.Write(head[:])
	_, _ = h.Write(set.Owner)
	_, _ = h.Write(set.Wire)
	return h.Sum64()
}

// usable reports whether signatures are valid now by keys that are published.
func (e *Signed) usable(z *Zone, unix uint32) bool {
	if e == nil || int32(unix-e.inception) < 0 || int32(e.expiry-unix) <= 0 {
		return false
	}
	if e.zone == z {
		return true
	}
	for _, k := range e.zone.signers(e.kind) {
		if z.tags[k.Tag] == 0 {
			return false
		}
	}
	// A key set is signed by every key that signs it, or a new one would not count.
	return !keySet(e.kind) || sameSigners(e.zone.ksk, z.ksk)
}

func keySet(rrType uint16) bool {
	return rrType == dns.TypeDNSKEY || rrType == dns.TypeCDS || rrType == dns.TypeCDNSKEY
}

func sameSigners(a, b []*key) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Tag != b[i].Tag || string(a[i].Public) != string(b[i].Public) {
			return false
		}
	}
	return true
}

// stale reports whether signatures are to be made anew: half of their life is over, or another key signs now.
func (e *Signed) stale(z *Zone, unix uint32) bool {
	return int32(unix-e.renew) >= 0 || e.zone != z && !sameSigners(e.zone.signers(e.kind), z.signers(e.kind))
}

// backdate is how far before its making a signature begins, for validators whose clocks are behind.
const backdate = time.Hour

// sign makes the signatures of a set by every key that signs it.
func (z *Zone) sign(set *Set, unix uint32) (*Signed, error) {
	keys := z.signers(set.Type)
	if len(keys) == 0 {
		return nil, fmt.Errorf("zone %s has no key to sign with", z.text)
	}
	datas, err := set.rdatas()
	if err != nil {
		return nil, err
	}
	e := &Signed{
		zone: z, owner: append([]byte(nil), set.Owner...), kind: set.Type, ttl: set.TTL, wire: append([]byte(nil), set.Wire...), count: len(keys),
		inception: unix - uint32(backdate/time.Second), expiry: unix + uint32(z.life/time.Second), renew: unix + uint32(z.life/(2*time.Second)),
	}
	for _, k := range keys {
		if e.rrsigs, err = e.add(e.rrsigs, k, datas); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// add appends one RRSIG record: RFC 4034 section 3.1; what is signed says section 3.1.8.1.
func (e *Signed) add(dst []byte, k *key, datas [][]byte) ([]byte, error) {
	head := binary.BigEndian.AppendUint16(nil, e.kind)
	head = append(head, dns.ECDSAP256SHA256, labels(e.owner))
	head = binary.BigEndian.AppendUint32(head, e.ttl)
	head = binary.BigEndian.AppendUint32(head, e.expiry)
	head = binary.BigEndian.AppendUint32(head, e.inception)
	head = binary.BigEndian.AppendUint16(head, k.Tag)
	head = append(head, e.zone.name...)
	h := sha256.New()
	h.Write(head)
	for _, d := range datas {
		rr := append([]byte(nil), e.owner...)
		rr = binary.BigEndian.AppendUint16(rr, e.kind)
		rr = binary.BigEndian.AppendUint16(rr, wire.ClassIN)
		rr = binary.BigEndian.AppendUint32(rr, e.ttl)
		rr = binary.BigEndian.AppendUint16(rr, uint16(len(d)))
		h.Write(append(rr, d...))
	}
	sig, err := signature(k.private, h.Sum(nil))
	if err != nil {
		return nil, err
	}
	dst = binary.BigEndian.AppendUint16(dst, questionPointer)
	dst = binary.BigEndian.AppendUint16(dst, dns.TypeRRSIG)
	dst = binary.BigEndian.AppendUint16(dst, wire.ClassIN)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(head)+len(sig)))
	return append(append(dst, head...), sig...), nil
}

// Renew makes signatures of known sets anew that are due and were used within a time, at most so many; so that no query
// waits for it. It returns how many it made.
func (s *Signer) Renew(now Clock, usedWithin time.Duration, most int) (made int) {
	ring := s.Ring()
	s.tables[Known].each(func(e *Signed) {
		if made >= most || int64(now.Unix)-int64(e.used.Load()) > int64(usedWithin/time.Second) {
			return
		}
		z := ring.Zone(e.zone.name)
		if z == nil || !z.ready || !e.stale(z, now.Unix) {
			return
		}
		used := e.used.Load()
		set := Set{Owner: e.owner, Type: e.kind, TTL: e.ttl, Wire: e.wire}
		if fresh := s.makeAndKeep(z, &set, Known, e.hash, now.Unix); fresh != nil {
			fresh.used.Store(used) // nobody asked
			made++
		}
	})
	return made
}

// Hot calls f with owner and type of every known set whose signatures were used within a time.
func (s *Signer) Hot(now Clock, within time.Duration, f func(owner []byte, rrType uint16)) {
	s.tables[Known].each(func(e *Signed) {
		if int64(now.Unix)-int64(e.used.Load()) <= int64(within/time.Second) {
			f(e.owner, e.kind)
		}
	})
}

// Counts are totals since the start.
type Counts struct {
	Made, Refused struct{ Known, MadeUp, MadeUpTCP uint64 }
	Failed        uint64 // sets that could not be signed: records that cannot be read
}

// Totals gives them.
func (s *Signer) Totals() Counts {
	var c Counts
	c.Made.Known, c.Made.MadeUp, c.Made.MadeUpTCP = s.made[Known].Load(), s.made[MadeUp].Load(), s.made[MadeUpTCP].Load()
	c.Refused.Known, c.Refused.MadeUp, c.Refused.MadeUpTCP = s.refused[Known].Load(), s.refused[MadeUp].Load(), s.refused[MadeUpTCP].Load()
	c.Failed = s.failed.Load()
	return c
}

// NextExpiry is when the first signature of a known set that was used within a day ends, in seconds of the wall clock; 0:
// there is none. It walks the cache.
func (s *Signer) NextExpiry(now Clock) (next uint32) {
	const day = 24 * 60 * 60
	s.tables[Known].each(func(e *Signed) {
		if int64(now.Unix)-int64(e.used.Load()) <= day && (next == 0 || e.expiry < next) {
			next = e.expiry
		}
	})
	return next
}
