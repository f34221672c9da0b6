package cells

import (
	"math"
	"slices"
)

// Schema is the resolution of a Sketch, as the native histograms of Prometheus count it: each power of two is divided
// into 2^Schema buckets. Bucket i holds what is above 2^((i-1)/2^Schema) and not above 2^(i/2^Schema) seconds.
const Schema = 4

// perDoubling is how many buckets lie between a latency and twice that: 2^Schema. Its 16th root of two bounds the error
// of a quantile: 4.5 %.
const perDoubling = 1 << Schema

// Latencies outside of this are counted as the nearer of the two: a microsecond is less than any network takes, and no
// probe lasts an hour.
const (
	least = 1e-6
	most  = 3600
)

// Bucket is how many observations are in one bucket.
type Bucket struct {
	Index int32
	N     float64
}

// Sketch is a histogram of latencies: the buckets that hold any, by index. The zero value is empty.
type Sketch []Bucket

// Add counts a latency with a weight.
func (s *Sketch) Add(seconds, weight float64) {
	seconds = min(max(seconds, least), most)
	s.AddIndex(int32(math.Ceil(math.Log2(seconds)*perDoubling)), weight)
}

// AddIndex counts so many observations in one bucket.
func (s *Sketch) AddIndex(index int32, n float64) {
	i, found := slices.BinarySearchFunc(*s, index, func(b Bucket, index int32) int { return int(b.Index) - int(index) })
	if found {
		(*s)[i].N += n
		return
	}
	*s = slices.Insert(*s, i, Bucket{index, n})
}

// Quantile is the latency in seconds that the part q of the observations is not above; 0 without observations. It lies
// in the same bucket as the exact value.
func (s Sketch) Quantile(q float64) float64 {
	total := 0.0
	for _, b := range s {
		total += b.N
	}
	if total == 0 {
		return 0
	}
	// Sums of weights are off by their rounding: what reaches the rank but for that has reached it.
	rank, below := q*total*(1-1e-12), 0.0
	for i, b := range s {
		if below+b.N >= rank || i == len(s)-1 {
			part := min(max((rank-below)/b.N, 0), 1)
			return math.Exp2((float64(b.Index) - 1 + part) / perDoubling)
		}
		below += b.N
	}
	return 0
}
