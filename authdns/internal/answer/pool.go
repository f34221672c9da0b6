package answer

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// pool makes equal record sets one, within an index and from one index to the next, so that memory goes with the
// number of different answers. It belongs to one chain of indexes, and only one of them is built at a time.
type pool struct {
	seed maphash.Seed
	sets map[uint64]*rrset // by hash; of two sets with one hash only the first is shared
	// sweepAt is how many sets there may be until those no longer in use are looked for: twice what was in use then,
	// so that the search costs a constant for each set made.
	sweepAt int
}

// minSweep keeps small maps from being swept at every change.
const minSweep = 1024

func newPool() *pool {
	return &pool{seed: maphash.MakeSeed(), sets: map[uint64]*rrset{}, sweepAt: minSweep}
}

func (p *pool) hash(s *rrset) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	var head [6]byte
	binary.BigEndian.PutUint16(head[:], s.rrType)
	binary.BigEndian.PutUint32(head[2:], s.ttl)
	_, _ = h.Write(head[:])
	_, _ = h.Write(s.wire)
	return h.Sum64()
}

// share gives the set that stands for all equal ones.
func (p *pool) share(s *rrset) *rrset {
	key := p.hash(s)
	old := p.sets[key]
	switch {
	case old == nil:
		p.sets[key] = s
	case old.rrType == s.rrType && old.ttl == s.ttl && bytes.Equal(old.wire, s.wire):
		return old
	}
	return s
}

// sweep forgets sets that ix does not use, when there are many.
func (p *pool) sweep(ix *Index) {
	if len(p.sets) < p.sweepAt {
		return
	}
	p.sets = make(map[uint64]*rrset, len(p.sets)/2)
	for _, n := range ix.nodes {
		for _, s := range n.sets {
			p.share(s)
		}
	}
	for _, s := range ix.services {
		for i := range s.rules {
			for _, c := range s.rules[i].choices {
				for _, set := range []*rrset{c.cname, c.a, c.aaaa} {
					if set != nil {
						p.share(set)
					}
				}
			}
		}
	}
	p.sweepAt = max(minSweep, 2*len(p.sets))
}
