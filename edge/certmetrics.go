package edge

import "github.com/prometheus/client_golang/prometheus"

// certificateEnds is when certificates in use end. It is a time and no age, as is usual for such a metric.
func certificateEnds() *prometheus.Desc {
	return prometheus.NewDesc("steer_edge_certificate_expiry_timestamp_seconds",
		"When the certificate that the gateway serves ends, in seconds of Unix time.", []string{"certificate"}, nil)
}

func (k *keyring) collect(out chan<- prometheus.Metric) {
	for name, end := range k.ends() {
		out <- prometheus.MustNewConstMetric(certificateEnds(), prometheus.GaugeValue, float64(end.Unix()), name)
	}
}
