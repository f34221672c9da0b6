package wire

import (
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/report"
)

// metrics are what a hub counts. Labels are of fixed sets: calls, codes, kinds, never names of nodes.
type metrics struct {
	followers    *prometheus.GaugeVec
	bytes        *prometheus.CounterVec
	frames       *prometheus.CounterVec
	pushes       *prometheus.CounterVec
	calls        *prometheus.CounterVec
	refused      *prometheus.CounterVec
	slow         prometheus.Counter
	replaced     prometheus.Counter
	connections  prometheus.Gauge
	turnedAway   *prometheus.CounterVec
	observations prometheus.Counter
	repeated     prometheus.Counter
	encode       *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		followers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "steer_wire_followers", Help: "Streams that nodes follow now.",
		}, []string{"snapshot"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_wire_sent_bytes_total", Help: "Bytes of frames sent down streams, before TLS.",
		}, []string{"kind"}),
		frames: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_wire_sent_frames_total", Help: "Frames sent down streams.",
		}, []string{"kind"}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_wire_pushes_total", Help: "Snapshots sent to a follower, as a whole or as a delta.",
		}, []string{"snapshot", "form"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_wire_calls_total", Help: "Calls of nodes that were let in.",
		}, []string{"call"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_wire_refused_calls_total", Help: "Calls that were refused, by the code of the refusal.",
		}, []string{"call", "code"}),
		slow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "steer_wire_slow_disconnects_total", Help: "Streams ended because the node did not read.",
		}),
		replaced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "steer_wire_replaced_streams_total", Help: "Streams ended because the same node opened another of the kind.",
		}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "steer_wire_connections", Help: "Connections of nodes, and of whoever else connected.",
		}),
		turnedAway: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_wire_refused_connections_total", Help: "Connections closed at once, by the limit that was reached.",
		}, []string{"limit"}),
		observations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "steer_wire_observations_total", Help: "Observations taken from nodes.",
		}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "steer_wire_repeated_batches_total", Help: "Batches of observations that came again and were not counted twice.",
		}),
		encode: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "steer_wire_encode_seconds", Help: "Time to encode one snapshot or delta, once for all followers.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}, []string{"form"}),
	}
	for _, c := range []prometheus.Collector{
		m.followers, m.bytes, m.frames, m.pushes, m.calls, m.refused, m.slow, m.replaced, m.connections, m.turnedAway,
		m.observations, m.repeated, m.encode,
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	for _, kind := range []string{report.SnapshotDNS, report.SnapshotProbe, report.SnapshotEdge} {
		m.followers.WithLabelValues(kind).Set(0)
	}
	return m, nil
}
