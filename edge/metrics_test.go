package edge

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// metricsText is the metrics as lines of text, each NAME{LABELS} VALUE, between line ends.
func metricsText(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := []string{""}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			sort.Strings(labels)
			set := "{" + strings.Join(labels, ",") + "}"
			if len(labels) == 0 {
				set = ""
			}
			if h := m.GetHistogram(); h != nil {
				out = append(out, fmt.Sprintf("%s_count%s %d", f.GetName(), set, h.GetSampleCount()))
				continue
			}
			out = append(out, fmt.Sprintf("%s%s %v", f.GetName(), set, m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	return strings.Join(append(out, ""), "\n")
}
