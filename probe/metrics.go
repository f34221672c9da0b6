package probe

import (
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/probe/internal/sched"
	"steerpoint/report"
)

// metrics of the plane. All names begin with steer_probe_.
type metrics struct {
	results  *prometheus.CounterVec // by result: ok or a cause
	duration prometheus.Histogram   // of all probes
	rechecks prometheus.Counter
	late     prometheus.Counter
	dropped  prometheus.Counter
	panics   prometheus.Counter
	refused  prometheus.Gauge
}

// durationBuckets reach from one machine to another beside it up to the default timeout and beyond.
var durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func newMetrics(reg prometheus.Registerer, stats func() sched.Stats) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steer_probe_results_total",
			Help: "Finished probes by result: ok, or the cause of the failure. Cause local means the point itself could not probe.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "steer_probe_duration_seconds", Help: "Time a probe took from its start to its result, name resolution included.",
			Buckets: durationBuckets,
		}),
		rechecks: counter("steer_probe_rechecks_total", "Probes planned a second after a failure instead of at the next interval."),
		late:     counter("steer_probe_late_total", "Probes that started more than a tenth of their interval late: the point is overloaded."),
		dropped:  counter("steer_probe_dropped_total", "Observations thrown away because their receiver did not keep up."),
		panics:   counter("steer_probe_panics_total", "Probes that ended in a fault of this program. Any is worth a report."),
		refused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "steer_probe_refused_tasks", Help: "Tasks of the present snapshot that this point does not probe.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	gauge := func(name, help string, value func(sched.Stats) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(stats())) })
	}
	for _, c := range []prometheus.Collector{
		m.results, m.duration, m.rechecks, m.late, m.dropped, m.panics, m.refused,
		gauge("steer_probe_tasks", "Tasks that are probed.", func(s sched.Stats) int { return s.Jobs }),
		gauge("steer_probe_running_probes", "Probes that run.", func(s sched.Stats) int { return s.Running }),
		gauge("steer_probe_waiting_probes", "Of those, probes that wait for a slow or hanging target.", func(s sched.Stats) int { return s.Waiting }),
		gauge("steer_probe_queued_probes", "Probes that are due and wait for a place.", func(s sched.Stats) int { return s.Queued }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) count(o *report.Observation, soon bool) {
	result := string(o.Cause)
	if o.OK {
		result = "ok"
	}
	m.results.WithLabelValues(result).Inc()
	m.duration.Observe(o.Phases.Total.Seconds())
	if soon {
		m.rechecks.Inc()
	}
}
