package analytics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the plane.
type metrics struct{ cells, refused prometheus.Counter }

func (m *metrics) init(reg prometheus.Registerer, a *Analytics) error {
	m.cells = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "steer_analytics_cells_total", Help: "Cells of ten seconds written to disk.",
	})
	m.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "steer_analytics_samples_refused_total", Help: "Samples that the disk did not take because newer ones are there: the clock was set back.",
	})
	lost := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "steer_analytics_cells_lost_total", Help: "Cells dropped because the disk took none for too long.",
	}, func() float64 {
		_, dropped := a.waiting.count()
		return float64(dropped)
	})
	late := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "steer_analytics_observations_late_total", Help: "Observations that came after their cell was closed.",
	}, func() float64 { return float64(a.book.Late()) })
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "steer_analytics_waiting_cells", Help: "Cells that wait for the disk.",
	}, func() float64 {
		n, _ := a.waiting.count()
		return float64(n)
	})
	size := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "steer_analytics_size_bytes", Help: "Size of the series on disk.",
	}, func() float64 { return float64(a.size.Load()) }) // no scrape waits for a shelf that is being checked
	var errs []error
	for _, c := range []prometheus.Collector{m.cells, m.refused, lost, late, waiting, size} {
		errs = append(errs, reg.Register(c))
	}
	return errors.Join(errs...)
}
