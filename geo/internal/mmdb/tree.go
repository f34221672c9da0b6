package mmdb

import (
	"fmt"

	"github.com/oschwald/maxminddb-golang/v2"

	"steerpoint/geo/internal/ranges"
)

// separator is the number of zero bytes between tree and data.
const separator = 16

// tree is the search tree: nodes of two records, each a node, "nothing" (the node count), or a pointer to data.
type tree struct {
	data    []byte
	count   uint64 // nodes
	size    uint64 // bits of a record: 24, 28 or 32
	version uint   // 4 or 6
	// start4 is where the IPv4 space hangs, 96 zero bits below the root of an IPv6 tree.
	start4 uint64
	// budget is how many more records may be visited. A tree visits two a node; a few more allow for shared nodes.
	budget uint64
}

// The budget of a walk, in records a node, and a floor for tiny files.
const (
	visitsPerNode = 8
	visitsFloor   = 1024
)

func newTree(data []byte, meta maxminddb.Metadata) (*tree, error) {
	t := &tree{
		data: data, count: uint64(meta.NodeCount), size: uint64(meta.RecordSize), version: uint(meta.IPVersion),
		budget: visitsFloor + visitsPerNode*uint64(meta.NodeCount),
	}
	switch {
	case t.size != 24 && t.size != 28 && t.size != 32:
		return nil, fmt.Errorf("%w: record size %d, not 24, 28 or 32", ErrDamaged, t.size)
	case t.version != 4 && t.version != 6:
		return nil, fmt.Errorf("%w: IP version %d", ErrDamaged, t.version)
	case t.count == 0 || t.count > uint64(len(data)) || t.count*t.size/4+separator > uint64(len(data)):
		return nil, fmt.Errorf("%w: %d nodes do not fit in %d bytes", ErrDamaged, t.count, len(data))
	}
	if t.version == 6 {
		for depth := 0; depth < 96 && t.start4 < t.count; depth++ {
			t.start4 = t.record(t.start4, 0)
		}
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
	if t.version == 4 {
		err = descend(t, r, &v4, 0, ranges.V4(0), 0)
		return v4, ranges.Uniform[ranges.V6, uint32](0), err
	}
	if err = descend(t, r, &v4, t.start4, ranges.V4(0), 0); err != nil {
		return v4, v6, err
	}
	err = descend(t, r, &v6, 0, ranges.V6{}, 0)
	return v4, v6, err
}

// descend appends the runs below a record, in order of address.
func descend[K ranges.Key[K]](t *tree, r *records, out *ranges.Runs[K, uint32], record uint64, first K, depth int) error {
	if t.budget == 0 {
		return fmt.Errorf("%w: the search tree is not a tree", ErrDamaged)
	}
	t.budget--
	switch {
	case record == t.count, record == t.start4 && first.Width() == 128 && depth > 0 && t.start4 < t.count:
		out.Append(first, 0) // nothing, or the IPv4 space and its aliases (6to4, Teredo, mapped)
		return nil
	case record > t.count:
		if record < t.count+separator {
			return fmt.Errorf("%w: a tree record points before the data", ErrDamaged)
		}
		id, err := r.id(record - t.count - separator)
		if err != nil {
			return fmt.Errorf("record of %s/%d: %w", first.Addr(), depth, err)
		}
		out.Append(first, id)
		return nil
	case depth == first.Width():
		return fmt.Errorf("%w: the search tree is deeper than %d bits", ErrDamaged, depth)
	}
	if err := descend(t, r, out, t.record(record, 0), first, depth+1); err != nil {
		return err
	}
	right := first.Last(depth + 1).Next()
	return descend(t, r, out, t.record(record, 1), right, depth+1)
}
