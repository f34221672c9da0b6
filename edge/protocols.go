package edge

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/edge/internal/h2"
)

// protocolMetrics are what is counted of HTTP/2, and of the versions of HTTP.
type protocolMetrics struct {
	connections, streams atomic.Int64
	one, two             atomic.Uint64 // requests of HTTP/1.x and of HTTP/2
	faults               *prometheus.CounterVec
	desc                 struct{ requests, connections, streams *prometheus.Desc }
}

func newProtocolMetrics(reg prometheus.Registerer) (*protocolMetrics, error) {
	m := &protocolMetrics{}
	m.faults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "steer_edge_http2_faults_total", Help: "Connections of HTTP/2 that ended for a fault or an excess of the client, by code and reason.",
	}, []string{"code", "reason"})
	m.desc.requests = prometheus.NewDesc("steer_edge_protocol_requests_total", "Requests, by the version of HTTP.", []string{"protocol"}, nil)
	m.desc.connections = prometheus.NewDesc("steer_edge_http2_connections", "Connections of clients that speak HTTP/2.", nil, nil)
	m.desc.streams = prometheus.NewDesc("steer_edge_http2_streams", "Requests of HTTP/2 that are under way.", nil, nil)
	for _, c := range []prometheus.Collector{m, m.faults} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register: %w", err)
		}
	}
	return m, nil
}

func (m *protocolMetrics) fault(f *h2.ConnError) {
	if f.Code != h2.NoError {
		m.faults.WithLabelValues(f.Code.String(), f.Reason).Inc()
	}
}

// count counts a request.
func (m *protocolMetrics) count(x *client) {
	if x.s != nil {
		m.two.Add(1)
		return
	}
	m.one.Add(1)
}

// Describe is a Collector's.
func (m *protocolMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.desc.requests
	ch <- m.desc.connections
	ch <- m.desc.streams
}

// Collect is a Collector's.
func (m *protocolMetrics) Collect(ch chan<- prometheus.Metric) {
	counter(ch, m.desc.requests, m.one.Load(), "HTTP/1")
	counter(ch, m.desc.requests, m.two.Load(), "HTTP/2")
	gauge(ch, m.desc.connections, int(m.connections.Load()))
	gauge(ch, m.desc.streams, int(m.streams.Load()))
}
