package mmdb

import (
	"errors"
	"fmt"

	"github.com/oschwald/maxminddb-golang/v2"

	"steerpoint/geo/internal/ranges"
	"steerpoint/geo/internal/trie"
)

// separator is the number of zero bytes between tree and data.
const separator = 16

// tree is the search tree: nodes of two records, each a node, "nothing" (the node count), or a pointer to data.
type tree struct {
	data    []byte
	count   uint64 // nodes
	size    uint64 // bits of a record: 24, 28 or 32
	version uint   // 4 or 6
}

func newTree(data []byte, meta maxminddb.Metadata) (*tree, error) {
	t := &tree{
		data: data, count: uint64(meta.NodeCount), size: uint64(meta.RecordSize), version: uint(meta.IPVersion),
	}
	switch {
	case t.size != 24 && t.size != 28 && t.size != 32:
		return nil, fmt.Errorf("%w: record size %d, not 24, 28 or 32", ErrDamaged, t.size)
	case t.version != 4 && t.version != 6:
		return nil, fmt.Errorf("%w: IP version %d", ErrDamaged, t.version)
	case t.count == 0 || t.count > uint64(len(data)) || t.count*t.size/4+separator > uint64(len(data)):
		return nil, fmt.Errorf("%w: %d nodes do not fit in %d bytes", ErrDamaged, t.count, len(data))
	}
	return t, nil
}

// record returns one side (0 or 1) of a node below count.
func (t *tree) record(node, side uint64) uint64 {
	at := t.data[node*t.size/4:]
	switch t.size {
	case 24:
		at = at[3*side:]
		return uint64(at[0])<<16 | uint64(at[1])<<8 | uint64(at[2])
	case 28: // the middle byte holds the high four bits of both
		high := uint64(at[3]) >> (4 * (1 - side)) & 0xf
		at = at[4*side:]
		return high<<24 | uint64(at[0])<<16 | uint64(at[1])<<8 | uint64(at[2])
	}
	at = at[4*side:]
	return uint64(at[0])<<24 | uint64(at[1])<<16 | uint64(at[2])<<8 | uint64(at[3])
}

func (t *tree) walk(r *records) (v4 ranges.Runs[ranges.V4, uint32], v6 ranges.Runs[ranges.V6, uint32], err error) {
	w := trie.Tree{Count: t.count, Child: t.record, Leaf: func(record uint64) (uint32, error) {
		if record < t.count+separator {
			return 0, fmt.Errorf("%w: a tree record points before the data", ErrDamaged)
		}
		return r.id(record - t.count - separator)
	}}
	if t.version == 6 {
		w.Find4(false)
	}
	if v4, err = w.Walk4(w.Start4); err == nil && t.version == 6 {
		v6, err = w.Walk6()
	}
	if t.version == 4 {
		v6 = ranges.Uniform[ranges.V6, uint32](0)
	}
	if errors.Is(err, trie.ErrTree) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return v4, v6, err
}
