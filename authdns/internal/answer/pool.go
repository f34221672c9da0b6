package answer

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// pool makes equal record sets, offers and answers one, within an index and from one index to the next, so that memory
// goes with the number of different answers. It belongs to one chain of indexes, and only one of them is built at a time.
type pool struct {
	seed   maphash.Seed
	sets   map[uint64]*rrset   // by hash; of two sets with one hash only the first is shared
	offers map[choice]*offer   // of one choice
	lists  map[uint64]*answers // by hash, as sets
	none   *offer              // of no choice
	// sweepAt is how many of all there may be until those no longer in use are looked for: twice what was in use then,
	// so that the search costs a constant for each one made.
	sweepAt int
}

// minSweep keeps small maps from being swept at every change.
const minSweep = 1024

func newPool() *pool {
	p := &pool{seed: maphash.MakeSeed(), none: &offer{}, sweepAt: minSweep}
	p.forget()
	return p
}

func (p *pool) forget() {
	p.sets, p.offers, p.lists = map[uint64]*rrset{}, map[choice]*offer{}, map[uint64]*answers{}
}

func (p *pool) size() int { return len(p.sets) + len(p.offers) + len(p.lists) }

func (p *pool) hash(s *rrset) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	var head [7]byte
	binary.BigEndian.PutUint16(head[:], s.rrType)
	binary.BigEndian.PutUint32(head[2:], s.ttl)
	if s.hints {
		head[6] = 1
	}
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
	case old.rrType == s.rrType && old.ttl == s.ttl && old.hints == s.hints && bytes.Equal(old.wire, s.wire):
		return old
	}
	return s
}

// offer gives the offer of some choices, whose sets are shared. Where there is nothing to choose, it is that of all rules
// that have the one choice.
func (p *pool) offer(choices []choice) *offer {
	switch len(choices) {
	case 0:
		return p.none
	case 1:
		choices[0].hash, choices[0].weight = 0, 0
		if old := p.offers[choices[0]]; old != nil {
			return old
		}
	}
	made := &offer{choices: choices}
	for k := range kinds {
		made.eligible[k] = eligible(choices, k)
	}
	if len(choices) == 1 {
		p.offers[choices[0]] = made
	}
	return made
}

// answers gives those that stand for all equal ones.
func (p *pool) answers(made *answers) *answers {
	var h maphash.Hash
	h.SetSeed(p.seed)
	for i := range made.rules {
		maphash.WriteComparable(&h, made.rules[i])
	}
	key := h.Sum64()
	old := p.lists[key]
	switch {
	case old == nil:
		p.lists[key] = made
	case slices.Equal(old.rules, made.rules):
		return old
	}
	return made
}

// sweep forgets what ix does not use, when there is much.
func (p *pool) sweep(ix *Index) {
	if p.size() < p.sweepAt {
		return
	}
	p.forget()
	ix.nodes.each(func(n *node) {
		for _, s := range n.sets {
			p.share(s)
		}
		if n.ds != nil {
			p.share(n.ds)
		}
	})
	seen := map[*answers]struct{}{}
	for _, slot := range ix.order {
		for s := ix.service(slot); s != nil; s = s.flat {
			p.keepAnswers(s.answers, seen)
		}
	}
	p.sweepAt = max(minSweep, 2*p.size())
}

// keepAnswers has answers, their offers and sets stay.
func (p *pool) keepAnswers(a *answers, seen map[*answers]struct{}) {
	if _, ok := seen[a]; ok {
		return
	}
	seen[a] = struct{}{}
	if a.lasting() {
		p.answers(a)
	}
	for i := range a.rules {
		p.keep(a.rules[i].offer)
	}
}

// keep has an offer and its sets stay.
func (p *pool) keep(o *offer) {
	if len(o.choices) == 1 {
		p.offers[o.choices[0]] = o
	}
	for i := range o.choices {
		for _, set := range []*rrset{o.choices[i].cname, o.choices[i].a, o.choices[i].aaaa} {
			if set != nil {
				p.share(set)
			}
		}
	}
}
