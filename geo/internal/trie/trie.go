// Package trie walks the binary search trees that address databases are made of into runs. A walk visits no more
// records than the tree has room for, so nodes that are shared or form a loop end it with an error.
package trie

import (
	"errors"
	"fmt"

	"steerpoint/geo/internal/ranges"
)

// ErrTree says that a tree is none: nodes are shared or form a loop, or a path is longer than an address.
var ErrTree = errors.New("the search tree is not a tree")

// The budget of a walk, in records a node, and a floor for tiny files. A tree visits two a node; a few more allow for
// shared nodes.
const (
	visitsPerNode = 8
	visitsFloor   = 1024
)

// Tree is a search tree of Count nodes, the root 0. A record is a node below Count, Count for nothing, or more than
// that for a leaf.
type Tree struct {
	Count uint64
	// Start4 is where the IPv4 space hangs in an IPv6 tree; 0: nowhere, the tree is of one family.
	Start4 uint64
	// Child returns the record on one side (0 or 1) of a node below Count.
	Child func(node, side uint64) uint64
	// Leaf returns the value of a record above Count.
	Leaf func(record uint64) (uint32, error)
}

// Find4 sets Start4 to what lies below 96 bits of an IPv6 tree: zeros, the last 16 of them ones where mapped is set.
func (t *Tree) Find4(mapped bool) {
	for depth := 0; depth < 96 && t.Start4 < t.Count; depth++ {
		side := uint64(0)
		if mapped && depth >= 80 {
			side = 1
		}
		t.Start4 = t.Child(t.Start4, side)
	}
}

// Walk4 gives the runs below a record as the IPv4 space.
func (t *Tree) Walk4(from uint64) (ranges.Runs[ranges.V4, uint32], error) {
	var out ranges.Runs[ranges.V4, uint32]
	err := descend(t, t.budget(), &out, from, ranges.V4(0), 0)
	return out, err
}

// Walk6 gives the runs below the root as the IPv6 space, without the IPv4 space and its aliases (6to4, Teredo, mapped).
func (t *Tree) Walk6() (ranges.Runs[ranges.V6, uint32], error) {
	var out ranges.Runs[ranges.V6, uint32]
	err := descend(t, t.budget(), &out, 0, ranges.V6{}, 0)
	return out, err
}

func (t *Tree) budget() *uint64 {
	left := visitsFloor + visitsPerNode*t.Count
	return &left
}

// descend appends the runs below a record, in order of address.
func descend[K ranges.Key[K]](t *Tree, left *uint64, out *ranges.Runs[K, uint32], record uint64, first K, depth int) error {
	if *left == 0 {
		return ErrTree
	}
	*left--
	switch {
	case record == t.Count, record == t.Start4 && first.Width() == 128 && depth > 0 && t.Start4 < t.Count:
		out.Append(first, 0)
		return nil
	case record > t.Count:
		id, err := t.Leaf(record)
		if err != nil {
			return fmt.Errorf("record of %s/%d: %w", first.Addr(), depth, err)
		}
		out.Append(first, id)
		return nil
	case depth == first.Width():
		return fmt.Errorf("%w: deeper than %d bits", ErrTree, depth)
	}
	if err := descend(t, left, out, t.Child(record, 0), first, depth+1); err != nil {
		return err
	}
	right := first.Last(depth + 1).Next()
	return descend(t, left, out, t.Child(record, 1), right, depth+1)
}
