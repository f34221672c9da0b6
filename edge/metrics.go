package edge

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/edge/internal/pool"
)

// bounds are those of the histograms of durations, in seconds. The last bucket is above them all.
var bounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// classes of statuses that are counted: 1xx to 5xx, and 499 by itself.
const (
	classes   = 7
	classLeft = 6
)

// routeRun is what is counted of a route. It lives on from one configuration to the next.
type routeRun struct {
	service, name string

	statuses [classes]atomic.Uint64
	in, out  atomic.Uint64
	retries  atomic.Uint64
	buckets  [len(bounds) + 1]atomic.Uint64
	total    atomic.Int64 // nanoseconds
}

func newRouteRun(r *Route) *routeRun { return &routeRun{service: r.Service, name: r.Name} }

func (r *routeRun) count(e *exchange, took time.Duration) {
	class := min(e.answer.status/100, classLeft-1)
	if e.answer.status == 499 {
		class = classLeft
	}
	r.statuses[class].Add(1)
	if e.in > 0 {
		r.in.Add(uint64(e.in))
	}
	r.out.Add(uint64(e.out))
	if e.tries > 1 {
		r.retries.Add(uint64(e.tries - 1))
	}
	i := 0
	for i < len(bounds) && took > bounds[i] {
		i++
	}
	r.buckets[i].Add(1)
	r.total.Add(int64(took))
}

// metrics are the plane's. What is counted for each request is counted in the runs of routes and origins, and read from
// there when it is asked for.
type metrics struct {
	g    *Gateway
	none *routeRun // of requests that no route is found for

	h2 *protocolMetrics

	accepted     atomic.Uint64
	tunnels      atomic.Int64
	refusedConns *prometheus.CounterVec
	endedConns   *prometheus.CounterVec

	mu      sync.Mutex
	reasons map[string]uint64

	desc struct {
		requests, in, out, retries, duration, dials, stale, results, connections, origins, took *prometheus.Desc
		accepted, tunnels, reasons, lost, streams                                               *prometheus.Desc
	}
}

func newMetrics(reg prometheus.Registerer, g *Gateway) (*metrics, error) {
	m := &metrics{g: g, none: &routeRun{}, reasons: map[string]uint64{}}
	var err error
	if m.h2, err = newProtocolMetrics(reg); err != nil {
		return nil, err
	}
	m.refusedConns = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "steer_edge_connections_refused_total", Help: "Connections of clients that were closed unheard, by reason.",
	}, []string{"reason"})
	m.endedConns = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "steer_edge_connections_ended_total", Help: "Connections of clients that ended between requests other than by the client, by reason.",
	}, []string{"reason"})
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("steer_edge_"+name, help, labels, nil)
	}
	m.desc.requests = d("requests_total", "Requests, by route and class of status; left: the client left before the end.", "service", "route", "status")
	m.desc.in = d("request_bytes_total", "Octets of request bodies.", "service", "route")
	m.desc.out = d("response_bytes_total", "Octets of response bodies.", "service", "route")
	m.desc.retries = d("retries_total", "Further origins that requests were given to.", "service", "route")
	m.desc.duration = d("request_duration_seconds", "From the first octet of a request to the last of its response.", "service", "route")
	m.desc.dials = d("origin_connects_total", "Connections made to an origin.", "service", "group", "origin")
	m.desc.stale = d("origin_stale_total", "Idle connections that an origin had closed when a request was sent on them.", "service", "group", "origin")
	m.desc.results = d("origin_requests_total", "Requests to an origin, by how they went.", "service", "group", "origin", "result")
	m.desc.took = d("origin_duration_seconds", "From a request on a connection to an origin to the head of the response.", "service", "group", "origin")
	m.desc.origins = d("origin_connections", "Connections to an origin, by what they do.", "service", "group", "origin", "state")
	m.desc.streams = d("origin_streams", "Requests under way to an origin with HTTP/2.", "service", "group", "origin")
	m.desc.connections = d("connections", "Connections of clients.")
	m.desc.accepted = d("connections_accepted_total", "Connections of clients that were taken.")
	m.desc.tunnels = d("websockets", "Connections that have become WebSockets.")
	m.desc.reasons = d("failures_total", "Requests that no origin answered whole, by reason.", "reason")
	m.desc.lost = d("log_lines_lost_total", "Lines of the access log that could not be written.")
	for _, c := range []prometheus.Collector{m, m.refusedConns, m.endedConns, newBodyGauge(g)} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) ended(reason string) { m.endedConns.WithLabelValues(reason).Inc() }

// maxReasons bounds the reasons that are counted apart: those of the gateway are fewer, those of a Director are its own.
const maxReasons = 200

func (m *metrics) reason(r string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.reasons[r]; !known && len(m.reasons) >= maxReasons {
		r = "other"
	}
	m.reasons[r]++
}

// Describe is a Collector's: what there is depends on the site.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	d := &m.desc
	for _, x := range []*prometheus.Desc{
		d.requests, d.in, d.out, d.retries, d.duration, d.dials, d.stale, d.results, d.connections, d.origins, d.took,
		d.accepted, d.tunnels, d.reasons, d.lost, d.streams,
	} {
		ch <- x
	}
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, v uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v int, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

// Collect is a Collector's.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	d := &m.desc
	gauge(ch, d.connections, m.g.clients.count())
	gauge(ch, d.tunnels, int(m.tunnels.Load()))
	counter(ch, d.accepted, m.accepted.Load())
	counter(ch, d.lost, m.g.access.Lost())
	m.mu.Lock()
	for reason, n := range m.reasons {
		counter(ch, d.reasons, n, reason)
	}
	m.mu.Unlock()
	p := &m.g.pools
	p.mu.Lock()
	defer p.mu.Unlock()
	m.collectRoute(ch, m.none)
	for _, r := range p.routes {
		m.collectRoute(ch, r)
	}
	runs := map[[3]string][]*originRun{} // an origin that is asked by http and by https has one for each
	for k, r := range p.origins {
		l := [3]string{k.service, k.group, k.name}
		runs[l] = append(runs[l], r)
	}
	for l, of := range runs {
		m.collectOrigin(ch, of, l[:]...)
	}
}

func (m *metrics) collectRoute(ch chan<- prometheus.Metric, r *routeRun) {
	d := &m.desc
	for class := 1; class < classes; class++ {
		name := strconv.Itoa(class) + "xx"
		if class == classLeft {
			name = "left"
		}
		counter(ch, d.requests, r.statuses[class].Load(), r.service, r.name, name)
	}
	counter(ch, d.in, r.in.Load(), r.service, r.name)
	counter(ch, d.out, r.out.Load(), r.service, r.name)
	counter(ch, d.retries, r.retries.Load(), r.service, r.name)
	below, n := map[float64]uint64{}, uint64(0)
	for i, b := range bounds {
		n += r.buckets[i].Load()
		below[b.Seconds()] = n
	}
	n += r.buckets[len(bounds)].Load()
	ch <- prometheus.MustNewConstHistogram(d.duration, n, time.Duration(r.total.Load()).Seconds(), below, r.service, r.name)
}

func (m *metrics) collectOrigin(ch chan<- prometheus.Metric, runs []*originRun, labels ...string) {
	d := &m.desc
	var dials, stale uint64
	var results [TimesOut + 1]uint64
	var took durations
	var n pool.Counts
	http2 := false
	for _, r := range runs {
		dials, stale, http2 = dials+r.dials.Load(), stale+r.stale.Load(), http2 || r.key.http2
		for i := range results {
			results[i] += r.results[i].Load()
		}
		took.add(&r.took)
		c := r.counts()
		n.Active, n.Idle, n.Waiting, n.Streams = n.Active+c.Active, n.Idle+c.Idle, n.Waiting+c.Waiting, n.Streams+c.Streams
	}
	counter(ch, d.dials, dials, labels...)
	counter(ch, d.stale, stale, labels...)
	for i, name := range [...]string{Answers: "answers", Fails: "fails", Refuses: "refuses", Breaks: "breaks", TimesOut: "times_out"} {
		counter(ch, d.results, results[i], append(labels[:3:3], name)...)
	}
	ch <- took.metric(d.took, labels[:3:3]...)
	gauge(ch, d.origins, n.Active, append(labels[:3:3], "active")...)
	gauge(ch, d.origins, n.Idle, append(labels[:3:3], "idle")...)
	gauge(ch, d.origins, n.Waiting, append(labels[:3:3], "waiting")...)
	if http2 {
		gauge(ch, d.streams, n.Streams, labels...)
	}
}
