package edge

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// durations is a histogram by bounds.
type durations struct {
	buckets [len(bounds) + 1]atomic.Uint64
	total   atomic.Int64 // nanoseconds
}

func (d *durations) observe(took time.Duration) {
	i := 0
	for i < len(bounds) && took > bounds[i] {
		i++
	}
	d.buckets[i].Add(1)
	d.total.Add(int64(took))
}

// add counts what another one has counted.
func (d *durations) add(o *durations) {
	for i := range d.buckets {
		d.buckets[i].Add(o.buckets[i].Load())
	}
	d.total.Add(o.total.Load())
}

func (d *durations) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	below, n := map[float64]uint64{}, uint64(0)
	for i, b := range bounds {
		n += d.buckets[i].Load()
		below[b.Seconds()] = n
	}
	n += d.buckets[len(bounds)].Load()
	return prometheus.MustNewConstHistogram(desc, n, time.Duration(d.total.Load()).Seconds(), below, labels...)
}
