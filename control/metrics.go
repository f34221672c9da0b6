package control

import (
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/report"
	"steerpoint/steering"
)

// metrics of the control plane.
type metrics struct {
	observations   [2]prometheus.Counter // fail, ok
	local, dropped prometheus.Counter
	switches       *prometheus.CounterVec
	verdicts       *prometheus.CounterVec
	detection      prometheus.Histogram
	commit         prometheus.Histogram
	publication    prometheus.Histogram
	storeErrors    prometheus.Counter
	requests       *prometheus.CounterVec
	watchers       prometheus.Gauge
	refused        *prometheus.CounterVec
	nodeRefusals   *prometheus.CounterVec
	nodeNacks      prometheus.Counter
	nodeAcked      prometheus.Histogram
	updates        *prometheus.CounterVec
	orders         *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, c *Control) (*metrics, error) {
	observations := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "steer_control_observations_total", Help: "Observations evaluated, by result: ok, fail, local (no vote).",
	}, []string{"result"})
	m := &metrics{
		observations: [2]prometheus.Counter{observations.WithLabelValues("fail"), observations.WithLabelValues("ok")},
		local:        observations.WithLabelValues("local"),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "steer_control_observations_dropped_total", Help: "Observations dropped because evaluation could not follow.",
		}),
		switches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_control_switches_total", Help: "Switches, by cause.",
		}, []string{"cause"}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_control_verdicts_total", Help: "Changes of an edge's verdict in a rule, by the verdict reached.",
		}, []string{"verdict"}),
		detection: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "steer_control_detection_seconds", Help: "First failing observation to decision.",
			Buckets: []float64{0.1, 0.3, 1, 2, 3, 5, 8, 15, 30, 60, 120, 300},
		}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "steer_control_commit_seconds", Help: "Time to write decisions to the store.",
			Buckets: []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 5},
		}),
		publication: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "steer_control_publication_seconds", Help: "Decision of a switch to the acknowledgement of the last name server connected then.",
			Buckets: []float64{0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 5, 30},
		}),
		storeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "steer_control_store_errors_total", Help: "Writes of decisions that the store did not take.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_control_api_requests_total", Help: "API requests, by method and status code.",
		}, []string{"method", "code"}),
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "steer_control_watchers", Help: "Open watch streams.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_control_observations_refused_total",
			Help: "Observations that are no votes, by reason: late (over a minute old), order (overtaken), task (not the point's), point (of another point).",
		}, []string{"reason"}),
		nodeRefusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_control_node_refusals_total", Help: "Joins and renewals refused, by code.",
		}, []string{"code"}),
		nodeNacks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "steer_control_node_nacks_total", Help: "Snapshots that a node did not take.",
		}),
		nodeAcked: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "steer_control_node_acked_seconds", Help: "Hand-out of a map to the acknowledgement of each joined name server.",
			Buckets: []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30},
		}),
		updates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_control_dns_updates_total", Help: "DNS UPDATE messages that name servers handed on, by response code.",
		}, []string{"rcode"}),
		orders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_control_acme_orders_total", Help: "Tries to order a certificate, by what came of it: issued, or why not.",
		}, []string{"result"}),
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	for _, col := range []prometheus.Collector{
		observations, m.dropped, m.switches, m.verdicts, m.detection, m.commit, m.publication, m.storeErrors, m.requests, m.watchers,
		m.refused, m.nodeRefusals, m.nodeNacks, m.nodeAcked, m.updates, m.orders, newOrdersCollector(c), newNodeCollector(c), newHistoryCollector(c), newCertCollector(c), newNotifyCollector(c),
		gauge("steer_control_tape_size_bytes", "Size of the tape on disk.", func() float64 {
			if c.tape == nil {
				return 0
			}
			s, _ := c.tape.Stats() // a folder that cannot be read is an alarm of its own
			return float64(s.Bytes)
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "steer_control_tape_missing_total", Help: "Records that should be on the tape and are not: the disk could not follow, or takes nothing.",
		}, func() float64 {
			if c.tape == nil {
				return 0
			}
			return float64(c.tape.Missing())
		}),
		gauge("steer_control_alarms", "Alarms that are on.", func() float64 { return float64(c.alarms.count()) }),
		gauge("steer_control_decisions_pending", "Rules whose newest decision waits for the store.", func() float64 { return float64(c.queue.pending()) }),
		gauge("steer_control_map_version", "Version of the map name servers answer by.", func() float64 {
			s, _ := c.answers.state()
			return float64(s.Version)
		}),
		gauge("steer_control_store_size_bytes", "Size of the store on disk.", func() float64 {
			if c.store == nil {
				return 0
			}
			size, _ := c.store.Size()
			return float64(size)
		}),
	} {
		if err := reg.Register(col); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) observed(o *report.Observation) {
	switch {
	case o.Cause == report.CauseLocal:
		m.local.Inc()
	case o.OK:
		m.observations[1].Inc()
	default:
		m.observations[0].Inc()
	}
}

// events counts what happened in a rule.
func (m *metrics) events(o *engineOutcome) {
	for i := range o.Events {
		switch ev := &o.Events[i]; {
		case ev.Kind == steering.EventVerdict && ev.VerdictFrom != ev.VerdictTo:
			m.verdicts.WithLabelValues(ev.VerdictTo.String()).Inc()
		case ev.Kind == steering.EventDecision && ev.From != "":
			m.switches.WithLabelValues(string(ev.Cause)).Inc()
			if ev.Detection > 0 {
				m.detection.Observe(ev.Detection.Seconds())
			}
		}
	}
}
