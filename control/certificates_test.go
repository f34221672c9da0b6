package control

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
	"steerpoint/report"
)

const secureYAML = `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [shop.example.com]
edges:
  - {name: east, addresses: [192.0.2.1, 192.0.2.2]}
  - {name: west, addresses: [192.0.2.3]}
rules:
  - {name: default, scope: "*", mode: failover, edges: [east, west], probe: {interval: 30s}}
`

// judged lets the certificates be judged as they are once a minute at the latest.
func (r *rig) judged() {
	r.t.Helper()
	if err := r.do(r.t.Context(), func() {
		r.Control.certificates.dirty = true
		r.judgeCertificates(r.clock.Moment())
	}); err != nil {
		r.t.Fatal(err)
	}
}

// shows gives an observation of an address that showed a certificate with that end.
func (r *rig) shows(address string, end time.Time) {
	r.t.Helper()
	_, probe, _ := r.out.latest()
	for _, task := range probe.Tasks {
		if task.Address == address {
			r.ObserveLocal(report.Observation{Task: task.ID, Point: "local", OK: true, CertExpiry: end, Latency: time.Millisecond})
		}
	}
	r.settle()
}

func (r *rig) certAlarm(edge string) string {
	for _, a := range r.alarms.list() {
		if a.Code == api.AlarmEdgeCert && a.Subject == edge {
			return a.Message
		}
	}
	return ""
}

func (r *rig) level(edge string) (level int) {
	r.t.Helper()
	if err := r.do(r.t.Context(), func() { level = r.Control.certificates.levels[edge] }); err != nil {
		r.t.Fatal(err)
	}
	return level
}

// The end of an edge's certificates is shown, and told of 14, 7 and 3 days before by control's clock; an edge that is
// down keeps its alarm, a new certificate ends it.
//
// Covers: issue4 certificate expiry
func TestCertificateAlarm(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, secureYAML)
	r.await("tasks", func() bool { _, p, _ := r.out.latest(); return p != nil && len(p.Tasks) == 3 })
	begun := r.clocks.read().Wall
	end := begun.Add(20 * day).UTC().Truncate(time.Second)
	seeAll := func() {
		r.shows("192.0.2.1", end.Add(100*day))
		r.shows("192.0.2.2", end)
		r.shows("192.0.2.3", end.Add(100*day))
		r.judged()
	}
	seeAll()
	if a := r.certAlarm("shop/east"); a != "" {
		t.Errorf("20 days before: %s", a)
	}
	var got []string
	for _, e := range r.rule("shop", "default").Edges {
		for _, a := range e.Addresses {
			if a.CertificateExpires != nil {
				got = append(got, a.Address+" "+a.CertificateExpires.Sub(end).String())
			}
		}
	}
	if want := "192.0.2.1 2400h0m0s, 192.0.2.2 0s, 192.0.2.3 2400h0m0s"; strings.Join(got, ", ") != want {
		t.Errorf("status: %v", got)
	}
	for _, step := range []struct {
		days  int
		level int
		text  string
	}{{7, 14, "in 13 days"}, {13, 7, "in 7 days"}, {14, 7, "in 6 days"}, {18, 3, "in 2 days"}, {19, 3, "in 1 day"}, {21, -1, "ended on"}} {
		r.pass(begun.Add(time.Duration(step.days)*day - time.Minute).Sub(r.clocks.read().Wall))
		if step.days == 13 { // at seven days to the second it is not yet below
			r.pass(2 * time.Minute)
			step.text = "in 6 days"
		}
		seeAll()
		if a := r.certAlarm("shop/east"); !strings.Contains(a, step.text) || !strings.Contains(a, end.Format(time.RFC3339)) {
			t.Errorf("after %d days: %q", step.days, a)
		}
		if got := r.level("shop/east"); got != step.level {
			t.Errorf("after %d days: level %d", step.days, got)
		}
		if a := r.certAlarm("shop/west"); a != "" {
			t.Errorf("the other edge: %s", a)
		}
	}
	for range 5 { // down: nothing is seen of a certificate, and it is no better for that
		r.pass(30 * time.Second)
		r.see("192.0.2.2", false)
	}
	r.judged()
	if r.certAlarm("shop/east") == "" {
		t.Error("the alarm ended with the edge")
	}
	r.shows("192.0.2.2", end.Add(90*day))
	r.judged()
	if a := r.certAlarm("shop/east"); a != "" {
		t.Errorf("after the renewal: %s", a)
	}
	metrics := make(chan prometheus.Metric, 10)
	newCertCollector(r.Control).Collect(metrics)
	if len(metrics) != 1 { // the others were not seen for three intervals
		t.Errorf("%d edges have a certificate", len(metrics))
	}
}
