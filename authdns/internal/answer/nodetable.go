package answer

import (
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// A table has a number of shards, each a hash table that grows by itself: what a change of one name copies is one shard and
// the list of shards. There are as many as keep shards small, and no more, so that what is looked up lies close together.
const (
	shardNames = 256 // names a shard is meant for; it may come to hold more
	maxShards  = 1 << 14
	minSlots   = 4
)

// nodeTable finds nodes by name. Looking up takes no lock and allocates nothing. A table is changed only between edit and
// seal, by one goroutine; the table it was made from stays as it is and shares the shards that did not change.
type nodeTable struct {
	seed   maphash.Seed
	shards []shard // a power of two
	shift  uint8   // that makes the number of a shard of a hash
	count  int
	own    []bool // by shard, whether this edit has made it; nil: the table is sealed
}

// shard is a hash table with linear probing; the number of slots is a power of two, and one at least is free.
type shard struct {
	slots []slot
	used  int
}

// slot holds the hash beside the node, so that a look-up reads no node but the one it wants.
type slot struct {
	hash uint64
	node *node // nil: free
}

// newNodeTable makes an empty table for about so many names, which may be changed.
func newNodeTable(names int) nodeTable {
	order := bits.Len(uint(min(max(names, 1)/shardNames, maxShards-1)))
	t := nodeTable{seed: maphash.MakeSeed(), shards: make([]shard, 1<<order), own: make([]bool, 1<<order), shift: uint8(64 - order)}
	for i := range t.shards {
		t.shards[i].slots = make([]slot, 1)
	}
	return t
}

// edit is a copy of a sealed table that may be changed.
func (t *nodeTable) edit() nodeTable {
	return nodeTable{
		seed: t.seed, shards: append([]shard(nil), t.shards...), own: make([]bool, len(t.shards)), shift: t.shift, count: t.count,
	}
}

func (t *nodeTable) seal() { t.own = nil }

// get is the node of a name in wire form, lower case; nil: there is none.
func (t *nodeTable) get(name []byte) *node {
	h := maphash.Bytes(t.seed, name)
	s := t.shards[h>>t.shift].slots
	mask := uint64(len(s) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := &s[i]
		if e.node == nil {
			return nil
		}
		if e.hash == h && e.node.name == string(name) {
			return e.node
		}
	}
}

// hash is that of a name in wire form, lower case.
func (t *nodeTable) hash(name []byte) uint64 { return maphash.Bytes(t.seed, name) }

// byHash is the node with a hash among the slots of a shard, most likely the one of the name that has it; nil: there is none.
func byHash(s []slot, h uint64) *node {
	mask := uint64(len(s) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if e := &s[i]; e.hash == h || e.node == nil {
			return e.node
		}
	}
}

// writable is the shard of a hash, of this table alone and with room for one more.
func (t *nodeTable) writable(h uint64) *shard {
	at := h >> t.shift
	s := &t.shards[at]
	full := 4*(s.used+1) > 3*len(s.slots)
	if t.own[at] && !full {
		return s
	}
	old := s.slots
	if !full {
		s.slots = append([]slot(nil), old...)
	} else {
		s.slots = make([]slot, max(minSlots, 2*len(old)))
		for _, e := range old {
			if e.node != nil {
				s.slots[s.free(e.hash)] = e
			}
		}
	}
	t.own[at] = true
	return s
}

// free is the slot where a hash that is not there goes.
func (s *shard) free(h uint64) uint64 {
	mask := uint64(len(s.slots) - 1)
	i := h & mask
	for s.slots[i].node != nil {
		i = (i + 1) & mask
	}
	return i
}

// put adds a node, or puts it in the place of the one with its name.
func (t *nodeTable) put(n *node) {
	h := maphash.String(t.seed, n.name)
	s := t.writable(h)
	mask := uint64(len(s.slots) - 1)
	i := h & mask
	for ; s.slots[i].node != nil; i = (i + 1) & mask {
		if e := &s.slots[i]; e.hash == h && e.node.name == n.name {
			e.node = n
			return
		}
	}
	s.slots[i] = slot{h, n}
	s.used++
	t.count++
}

// remove takes a node away that is there.
func (t *nodeTable) remove(name string) {
	h := maphash.String(t.seed, name)
	s := t.writable(h)
	mask := uint64(len(s.slots) - 1)
	i := h & mask
	for s.slots[i].hash != h || s.slots[i].node.name != name {
		i = (i + 1) & mask
	}
	// What stands behind, up to the next free slot, may have gone past this one: whatever could stand here moves up.
	for next := (i + 1) & mask; s.slots[next].node != nil; next = (next + 1) & mask {
		if home := s.slots[next].hash & mask; (next-home)&mask >= (next-i)&mask {
			s.slots[i] = s.slots[next]
			i = next
		}
	}
	s.slots[i] = slot{}
	s.used--
	t.count--
}

// each calls f with every node, in no order.
func (t *nodeTable) each(f func(*node)) {
	for i := range t.shards {
		for _, e := range t.shards[i].slots {
			if e.node != nil {
				f(e.node)
			}
		}
	}
}

// newNode makes a node of a name. The octets of the name lie right behind it, where a look-up that found it reads on.
func newNode(name []byte, z *zone) *node {
	var n *node
	var room []byte
	switch {
	case len(name) <= 16:
		x := new(struct {
			node
			room [16]byte
		})
		n, room = &x.node, x.room[:]
	case len(name) <= 32:
		x := new(struct {
			node
			room [32]byte
		})
		n, room = &x.node, x.room[:]
	case len(name) <= 64:
		x := new(struct {
			node
			room [64]byte
		})
		n, room = &x.node, x.room[:]
	default:
		return &node{name: string(name), zone: z}
	}
	copy(room, name)
	n.name, n.zone = unsafe.String(&room[0], len(name)), z
	return n
}
