package edge

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Describe names what is told of origins and snapshots.
func (s *Snapshots) Describe(out chan<- *prometheus.Desc) {
	for _, d := range originDescs() {
		out <- d
	}
	out <- certificateEnds()
}

// originDescs are origin_healthy, probes_total, snapshot_version and fail_open_total.
func originDescs() [4]*prometheus.Desc {
	return [4]*prometheus.Desc{
		prometheus.NewDesc("steer_edge_origin_healthy", "1: so many of the last probes of the origin succeeded as are needed.", []string{"service", "group", "origin"}, nil),
		prometheus.NewDesc("steer_edge_probes_total", "Probes of origins by this gateway.", nil, nil),
		prometheus.NewDesc("steer_edge_snapshot_version", "Version of the snapshot that the gateway works by; 0: none.", nil, nil),
		prometheus.NewDesc("steer_edge_fail_open_total", "Choices of an origin made although none of the group was healthy.", []string{"service", "group"}, nil),
	}
}

// Collect tells it. Origins come and go with the configuration.
func (s *Snapshots) Collect(out chan<- prometheus.Metric) {
	all := originDescs()
	s.mu.Lock()
	site := s.site
	s.mu.Unlock()
	s.keys.collect(out)
	version := 0.0
	if site != nil {
		version = float64(site.Version)
	}
	out <- prometheus.MustNewConstMetric(all[1], prometheus.CounterValue, float64(s.probes.done.Load()))
	out <- prometheus.MustNewConstMetric(all[2], prometheus.GaugeValue, version)
	if site == nil {
		return
	}
	for _, g := range site.Groups() {
		healthy := g.Healthy()
		out <- prometheus.MustNewConstMetric(all[3], prometheus.CounterValue, float64(g.FailOpens()), g.Service, g.Spec.Name)
		for i := range g.Spec.Origins {
			value := 0.0
			if healthy.Has(i) {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(all[0], prometheus.GaugeValue, value, g.Service, g.Spec.Name, g.Spec.Origins[i].Name)
		}
	}
}
