package authdns

import (
	"errors"
	"sync/atomic"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/answer"
	"steerpoint/authdns/internal/server"
)

// rcodes bounds the response codes replies can have: up to BADCOOKIE.
const rcodes = dns.RcodeBadCookie + 1

// metrics are the plane's. What is counted for each query is resolved to its counter beforehand.
type metrics struct {
	queries [server.Transports][rcodes]atomic.Uint64 // by transport and response code
	answers [3]prometheus.Counter                    // by answer.Source
	ecs     prometheus.Counter
	dropped map[answer.Drop]prometheus.Counter
	panics  prometheus.Counter
	limited map[answer.Limited]prometheus.Counter
	proxied prometheus.Counter // datagrams of proxies without a header

	swaps, saves         *prometheus.CounterVec
	connections          prometheus.Gauge
	tcpRefused, tcpEnded *prometheus.CounterVec
	udpFailed            *prometheus.CounterVec
	transfers, notifies  *prometheus.CounterVec
	updates              *prometheus.CounterVec
	collectors           []prometheus.Collector
}

func newMetrics(reg prometheus.Registerer, info func() MapInfo, kept *atomic.Bool) (*metrics, error) {
	m := &metrics{}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "steer_authdns_" + name, Help: help}, labels)
		m.collectors = append(m.collectors, v)
		return v
	}
	gauge := func(name, help string, value func() float64) {
		m.collectors = append(m.collectors, prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "steer_authdns_" + name, Help: help}, value))
	}
	for t := range server.Transports {
		for _, rcode := range []int{
			dns.RcodeSuccess, dns.RcodeFormatError, dns.RcodeServerFailure, dns.RcodeNameError,
			dns.RcodeNotImplemented, dns.RcodeRefused, dns.RcodeNotAuth, dns.RcodeBadVers, dns.RcodeBadCookie,
			dns.RcodeYXDomain, dns.RcodeYXRrset, dns.RcodeNXRrset, dns.RcodeNotZone,
		} {
			n := &m.queries[t][rcode]
			m.collectors = append(m.collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "steer_authdns_queries_total", Help: "Queries answered, by transport and response code.",
				ConstLabels: prometheus.Labels{"transport": t.String(), "rcode": rcodeText(uint16(rcode))},
			}, func() float64 { return float64(n.Load()) }))
		}
	}
	answers := vec("answers_total", "Answers by what chose them: the same for all, the resolver's address, the client subnet.", "source")
	for i := range m.answers {
		m.answers[i] = answers.WithLabelValues(answer.Source(i).String())
	}
	dropped := vec("dropped_packets_total", "Messages not answered, by reason.", "reason")
	m.dropped = map[answer.Drop]prometheus.Counter{
		answer.DropShort: dropped.WithLabelValues("short"), answer.DropResponse: dropped.WithLabelValues("response"),
		answer.DropLimited: dropped.WithLabelValues("limited"),
	}
	m.panics = dropped.WithLabelValues("panic")
	m.proxied = dropped.WithLabelValues("proxy")
	limited := vec("rate_limited_total", "UDP replies over the limit of their kind and network, by what became of them.", "action")
	m.limited = map[answer.Limited]prometheus.Counter{}
	for _, l := range []answer.Limited{answer.LimitedBadCookie, answer.LimitedTruncated, answer.LimitedDropped} {
		m.limited[l] = limited.WithLabelValues(l.String())
	}
	m.ecs = vec("ecs_queries_total", "Queries with a client subnet.").WithLabelValues()
	m.swaps = vec("map_swaps_total", "Maps received, by result.", "result")
	m.saves = vec("state_writes_total", "Writes of the map to disk, by result.", "result")
	m.tcpRefused = vec("tcp_refused_total", "Connections closed at once, by the limit they were over.", "limit")
	m.tcpEnded = vec("tcp_cut_total", "Connections cut: query or reply too slow, not DNS, no handshake of TLS or header of a proxy, or without a query when all places were taken.", "reason")
	m.udpFailed = vec("udp_errors_total", "Packets that could not be read or written.", "op")
	m.transfers = vec("transfers_total", "Zone transfers, by what was sent: whole, changes, current (nothing newer), refused, failed.", "sent")
	m.notifies = vec("notifies_total", "Secondaries told of a change, by result: answered, failed.", "result")
	m.updates = vec("updates_total", "DNS UPDATE messages with a good signature, by response code.", "rcode")
	m.connections = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "steer_authdns_tcp_connections", Help: "TCP connections open, encrypted ones included.",
	})
	m.collectors = append(m.collectors, m.connections)
	gauge("map_version", "Version of the map that answers; 0: none.", func() float64 { return float64(info().Version) })
	gauge("map_kept", "1: the map that answers is on disk, and a restart goes on by it; 0: it is not yet.", func() float64 {
		if kept.Load() {
			return 1
		}
		return 0
	})
	gauge("map_age_seconds", "Time since control made the map that answers.", func() float64 { return info().Age.Seconds() })
	gauge("control_silence_seconds", "Time since control was last heard; 0 where control is in this process.", func() float64 { return info().Silence.Seconds() })
	gauge("map_names", "Names in the map that answers.", func() float64 { return float64(info().Names) })
	return m, m.register(reg)
}

func (m *metrics) register(reg prometheus.Registerer) error {
	var errs []error
	for _, c := range m.collectors {
		errs = append(errs, reg.Register(c))
	}
	return errors.Join(errs...)
}

func rcodeText(rcode uint16) string {
	if rcode == dns.RcodeBadVers { // the library calls 16 BADSIG, its meaning in TSIG
		return "BADVERS"
	}
	return dns.RcodeToString[int(rcode)]
}

// query counts one message and what became of it.
func (m *metrics) query(t server.Transport, r *answer.Result) {
	if r.Limit != answer.NotLimited {
		m.limited[r.Limit].Inc()
	}
	if r.Drop != answer.Answered {
		m.dropped[r.Drop].Inc()
		return
	}
	m.queries[t][r.Rcode].Add(1)
	if r.Rcode == dns.RcodeSuccess {
		m.answers[r.Source].Inc()
	}
	if r.ECS {
		m.ecs.Inc()
	}
}

// answered is how many queries were answered.
func (m *metrics) answered() (n uint64) {
	for t := range m.queries {
		for i := range m.queries[t] {
			n += m.queries[t][i].Load()
		}
	}
	return n
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

func (m *metrics) swapped(err error) { m.swaps.WithLabelValues(result(err)).Inc() }

func (m *metrics) saved(err error) { m.saves.WithLabelValues(result(err)).Inc() }

func (m *metrics) counters() server.Counters {
	return server.Counters{
		TCPOpened:  m.connections.Inc,
		TCPClosed:  m.connections.Dec,
		TCPRefused: func(reason string) { m.tcpRefused.WithLabelValues(reason).Inc() },
		TCPEnded:   func(reason string) { m.tcpEnded.WithLabelValues(reason).Inc() },
		UDPFailed:  func(op string) { m.udpFailed.WithLabelValues(op).Inc() },
	}
}
