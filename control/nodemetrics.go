package control

import (
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/internal/roster"
)

// nodeCollector gives the state of every joined node at the time it is asked.
type nodeCollector struct {
	c                                              *Control
	connected, version, age, expiry, spooled, edge *prometheus.Desc
}

func newNodeCollector(c *Control) *nodeCollector {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, []string{"node"}, nil) }
	return &nodeCollector{
		c:         c,
		connected: desc("steer_control_node_connected", "1 while a joined node has a stream open and speaks, else 0."),
		version:   desc("steer_control_node_map_version", "Version of the map a joined name server answers by."),
		age:       desc("steer_control_node_map_age_seconds", "Age of the map a joined name server answers by."),
		expiry:    desc("steer_control_node_certificate_left_seconds", "Time to the end of a joined node's certificate."),
		edge:      desc("steer_control_node_snapshot_version", "Version of the snapshot a joined gateway serves by."),
		spooled:   desc("steer_control_node_spooled_observations", "Observations that wait at a joined probe point."),
	}
}

// Describe implements prometheus.Collector.
func (n *nodeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{n.connected, n.version, n.age, n.expiry, n.spooled, n.edge} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (n *nodeCollector) Collect(ch chan<- prometheus.Metric) {
	if n.c.roster == nil { // asked before everything is open
		return
	}
	now := n.c.clock.Moment()
	for _, v := range n.c.roster.Views(now) {
		if v.Record.Revoked.IsZero() {
			n.collect(ch, &v, v.Record.Expires.Sub(now.Wall).Seconds())
		}
	}
}

func (n *nodeCollector) collect(ch chan<- prometheus.Metric, v *roster.View, left float64) {
	give := func(d *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, v.Record.Name)
	}
	connected := 1.0
	if v.Away {
		connected = 0
	}
	give(n.connected, connected)
	give(n.expiry, left)
	if v.Map.Using != 0 {
		give(n.version, float64(v.Map.Using))
		give(n.age, v.MapAge.Seconds())
	}
	if v.Edge.Using != 0 {
		give(n.edge, float64(v.Edge.Using))
	}
	if v.Status != nil && v.Status.Tasks != nil {
		give(n.spooled, float64(v.Status.Tasks.Spooled))
	}
}
