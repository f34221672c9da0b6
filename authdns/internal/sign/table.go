package sign

import (
	"bytes"
	"sync/atomic"
)

// Signed is the signatures of one record set: what is sent, and of what it is. It does not change but for used.
type Signed struct {
	zone  *Zone  // as it was when they were made
	owner []byte // the set, as it was given
	kind  uint16
	ttl   uint32
	wire  []byte
	hash  uint64

	rrsigs            []byte // records, one after the other, of equal length
	count             int
	inception, expiry uint32        // seconds of the wall clock (RFC 4034 section 3.1.5)
	renew             uint32        // likewise: from then on they are to be made anew
	used              atomic.Uint32 // likewise: last
}

// Count is the number of RRSIG records.
func (e *Signed) Count() uint16 { return uint16(e.count) }

// Len is how many octets Append appends; nil appends none.
func (e *Signed) Len() int {
	if e == nil {
		return 0
	}
	return len(e.rrsigs)
}

// Append appends the RRSIG records with an owner, as a pointer, and a TTL.
func (e *Signed) Append(dst []byte, owner uint16, ttl uint32) []byte {
	at := len(dst)
	dst = append(dst, e.rrsigs...)
	each := len(e.rrsigs) / e.count
	for ; at < len(dst); at += each {
		dst[at], dst[at+1] = byte(owner>>8), byte(owner)
		dst[at+6], dst[at+7], dst[at+8], dst[at+9] = byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl)
	}
	return dst
}

// is reports whether the signatures are those of a set in a zone of that name.
func (e *Signed) is(hash uint64, z *Zone, s *Set) bool {
	return e.hash == hash && e.kind == s.Type && e.ttl == s.TTL &&
		bytes.Equal(e.zone.name, z.name) && bytes.Equal(e.owner, s.Owner) && bytes.Equal(e.wire, s.Wire)
}

// ways is how many places a set of signatures may have.
const ways = 4

// table is a bounded cache: of the four places of a hash the one used longest ago is given up. Readers and writers need no
// lock. Two writers may take one place; then one of them has worked in vain.
type table struct {
	slots []atomic.Pointer[Signed]
	mask  uint64
}

// newTable holds at most size entries, a power of two.
func newTable(size int) *table {
	return &table{slots: make([]atomic.Pointer[Signed], size), mask: uint64(size/ways - 1)}
}

func (t *table) bucket(hash uint64) []atomic.Pointer[Signed] {
	at := (hash & t.mask) * ways
	return t.slots[at : at+ways]
}

func (t *table) find(hash uint64, z *Zone, s *Set) *Signed {
	b := t.bucket(hash)
	for i := range b {
		if e := b[i].Load(); e != nil && e.is(hash, z, s) {
			return e
		}
	}
	return nil
}

// put takes the place of an entry of the same set, or an empty one, or that of the one used longest ago.
func (t *table) put(e *Signed) {
	b := t.bucket(e.hash)
	worst, oldest := 0, ^uint32(0)
	for i := range b {
		have := b[i].Load()
		if have == nil {
			if oldest > 0 {
				worst, oldest = i, 0
			}
			continue
		}
		if have.is(e.hash, e.zone, &Set{Owner: e.owner, Type: e.kind, TTL: e.ttl, Wire: e.wire}) {
			worst = i
			break
		}
		if u := have.used.Load(); u < oldest {
			worst, oldest = i, u
		}
	}
	b[worst].Store(e)
}

// each calls f with every entry.
func (t *table) each(f func(*Signed)) {
	for i := range t.slots {
		if e := t.slots[i].Load(); e != nil {
			f(e)
		}
	}
}
