package agent

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/report"
)

type metrics struct {
	renewals, refusals, acks *prometheus.CounterVec
	asks                     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, a *Agent) (*metrics, error) {
	var list []prometheus.Collector
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "steer_agent_" + name, Help: help}, labels)
		list = append(list, v)
		return v
	}
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		list = append(list, prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "steer_agent_" + name, Help: help, ConstLabels: labels}, value))
	}
	counter := func(name, help string, value func() float64) {
		list = append(list, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "steer_agent_" + name, Help: help}, value))
	}
	m := &metrics{
		renewals: vec("renewals_total", "Tries to renew the certificate, by result.", "result"),
		refusals: vec("refusals_total", "Calls that control refused, by code.", "code"),
		acks:     vec("acks_total", "Snapshots answered for, by kind and result.", "snapshot", "result"),
	}
	m.asks = vec("asks_total", "Probes asked for outside the schedule.").WithLabelValues()
	for _, kind := range a.kinds() {
		gauge("connected", "Whether the stream of these snapshots stands.", prometheus.Labels{"snapshot": kind}, func() float64 {
			if a.stream(kind).up {
				return 1
			}
			return 0
		})
	}
	if a.has(RoleDNS) {
		gauge("map_age_seconds", "Time since control could last have sent a newer map: 0 while its stream stands.", nil, func() float64 {
			s := a.stream(report.SnapshotDNS)
			if s.up {
				return 0
			}
			return time.Since(s.since).Seconds()
		})
	}
	if a.has(RoleProbe) {
		gauge("spool_observations", "Observations that wait for control.", nil, func() float64 {
			n, _, _ := a.spool.counts()
			return float64(n)
		})
		counter("shipped_observations_total", "Observations that control has.", func() float64 {
			_, n, _ := a.spool.counts()
			return float64(n)
		})
		counter("dropped_observations_total", "Observations dropped, the oldest first, because the spool was full.", func() float64 {
			_, _, n := a.spool.counts()
			return float64(n)
		})
	}
	gauge("certificate_seconds", "Time until the node's certificate ends; 0: it has none.", nil, func() float64 {
		if id := a.identity(); id != nil {
			return id.left().Seconds()
		}
		return 0
	})
	gauge("drained", "Whether control drains this node.", nil, func() float64 {
		if a.Drained() {
			return 1
		}
		return 0
	})
	var errs []error
	if reg != nil {
		for _, c := range list {
			errs = append(errs, reg.Register(c))
		}
	}
	return m, errors.Join(errs...)
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

func (m *metrics) renewed(err error) { m.renewals.WithLabelValues(result(err)).Inc() }

func (m *metrics) acked(k report.Ack) {
	r := "ok"
	if !k.OK {
		r = "refused"
	}
	m.acks.WithLabelValues(k.Snapshot, r).Inc()
}
