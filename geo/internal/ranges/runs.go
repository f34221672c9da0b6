package ranges

import (
	"slices"
	"sort"
)

// Runs is a total function from the addresses of a family to values. Run i covers Starts[i] up to the address before
// Starts[i+1], the last run up to the end of the family. Invariants: Starts[0] is the zero key, Starts rise strictly,
// neighbouring values differ. The zero Runs is no function; Uniform is the smallest.
type Runs[K Key[K], V comparable] struct {
	Starts []K
	Values []V
}

// Uniform maps every address to v.
func Uniform[K Key[K], V comparable](v V) Runs[K, V] {
	var first K
	return Runs[K, V]{Starts: []K{first}, Values: []V{v}}
}

// Append adds a run from start on. Starts must not fall; a repeated start replaces, an equal value merges.
func (r *Runs[K, V]) Append(start K, v V) {
	n := len(r.Starts)
	if n > 0 && r.Starts[n-1] == start {
		r.Starts, r.Values = r.Starts[:n-1], r.Values[:n-1]
		n--
	}
	if n > 0 && r.Values[n-1] == v {
		return
	}
	r.Starts = append(r.Starts, start)
	r.Values = append(r.Values, v)
}

// Len is the number of runs.
func (r *Runs[K, V]) Len() int { return len(r.Starts) }

// Find returns the index of the run that holds k.
func (r *Runs[K, V]) Find(k K) int {
	return sort.Search(len(r.Starts), func(i int) bool { return k.Less(r.Starts[i]) }) - 1
}

// Bounds returns the first and last address of run i.
func (r *Runs[K, V]) Bounds(i int) (first, last K) {
	first = r.Starts[i]
	if i+1 < len(r.Starts) {
		return first, r.Starts[i+1].Prev()
	}
	return first, first.Last(0)
}

// Bits returns the length of the widest block around k, a key of run i, that lies inside the run.
func (r *Runs[K, V]) Bits(i int, k K) int {
	length := 0
	if i > 0 {
		length = k.Common(r.Starts[i].Prev()) + 1
	}
	if i+1 < len(r.Starts) {
		length = max(length, k.Common(r.Starts[i+1])+1)
	}
	return length
}

// Block is an inclusive range of addresses with a value.
type Block[K Key[K], V comparable] struct {
	First, Last K
	Value       V
}

// Flatten lays out blocks that nest or are apart (as prefixes do), the inner over the outer, on a ground of zero
// values. within, if not nil, gives the value of a block inside an outer one. Equal blocks must not occur. It sorts
// blocks.
func Flatten[K Key[K], V comparable](blocks []Block[K, V], within func(inner, outer V) V) Runs[K, V] {
	slices.SortFunc(blocks, func(a, b Block[K, V]) int {
		switch {
		case a.First.Less(b.First):
			return -1
		case b.First.Less(a.First):
			return 1
		case b.Last.Less(a.Last):
			return -1
		}
		return 1
	})
	var ground V
	out := Uniform[K](ground)
	var open []Block[K, V]
	closeUntil := func(first *K) {
		for len(open) > 0 {
			top := open[len(open)-1]
			if first != nil && !top.Last.Less(*first) {
				return
			}
			open = open[:len(open)-1]
			if top.Last == top.Last.Last(0) {
				continue // nothing comes after the last address
			}
			under := ground
			if len(open) > 0 {
				under = open[len(open)-1].Value
			}
			out.Append(top.Last.Next(), under)
		}
	}
	for _, b := range blocks {
		closeUntil(&b.First)
		if len(open) > 0 && within != nil {
			b.Value = within(b.Value, open[len(open)-1].Value)
		}
		out.Append(b.First, b.Value)
		open = append(open, b)
	}
	closeUntil(nil)
	return out
}

// Zip combines two functions address by address.
func Zip[K Key[K], A, B, V comparable](a Runs[K, A], b Runs[K, B], f func(A, B) V) Runs[K, V] {
	out := Runs[K, V]{Starts: make([]K, 0, max(a.Len(), b.Len())), Values: make([]V, 0, max(a.Len(), b.Len()))}
	var start K
	for i, j := 0, 0; ; {
		out.Append(start, f(a.Values[i], b.Values[j]))
		moreA, moreB := i+1 < a.Len(), j+1 < b.Len()
		switch {
		case !moreA && !moreB:
			return out
		case !moreB, moreA && a.Starts[i+1].Less(b.Starts[j+1]):
			i++
			start = a.Starts[i]
		case !moreA, b.Starts[j+1].Less(a.Starts[i+1]):
			j++
			start = b.Starts[j]
		default:
			i, j = i+1, j+1
			start = a.Starts[i]
		}
	}
}

// Map gives every run a new value; neighbours that become equal merge.
func Map[K Key[K], A, V comparable](a Runs[K, A], f func(A) V) Runs[K, V] {
	var out Runs[K, V]
	for i, start := range a.Starts {
		out.Append(start, f(a.Values[i]))
	}
	return out
}
