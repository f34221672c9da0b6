package control

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

// shopNear is the shop with four points near each scope.
func shopNear() string {
	return strings.ReplaceAll(shopYAML, "timeout: 2s}", "timeout: 2s, points: {near: scope, count: 4}}")
}

// alone is control without a name server and a probe point of its own.
func alone(c *Config, d *Deps) {
	c.Points = []steering.Point{}
	d.NoNameServer = true
}

// TestJoinedPointsVote proves the whole way of an observation: joined nodes become the points of a rule, get its tasks,
// and vote; two of four are a tie, three switch; and all of it goes on over a restart.
// Covers: A6, A7, issue3 four points, issue3 restart
func TestJoinedPointsVote(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil, alone)
	r.apply(zoneYAML, shopNear())
	names := []string{"p1", "p2", "p3", "p4"}
	for _, n := range names {
		r.join(n, nil, "probe")
	}
	r.connect(names...)
	r.await("tasks at every point", func() bool {
		return !slices.ContainsFunc(names, func(n string) bool { s := r.out.tasks(n); return s == nil || len(s.Tasks) != 4 })
	})
	all := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}
	see := func(r *rig, down string, blind ...string) {
		for range 3 {
			r.pass(time.Second)
			for _, n := range names {
				for _, a := range all {
					r.tell(n, a, a != down || !slices.Contains(blind, n), 0)
				}
			}
		}
	}
	see(r, "")
	see(r, "192.0.2.1", "p1", "p2")
	if st := r.rule("shop", "default"); st.Edge != "east" || len(st.Points) != 4 {
		t.Errorf("two of four see it down: %+v", st)
	}
	versions := map[string]uint64{}
	for _, n := range names {
		versions[n] = r.out.tasks(n).Version
	}
	r.stop()

	again := start(t, dir, r.clocks, alone)
	again.connect(names...)
	again.await("tasks again", func() bool {
		return !slices.ContainsFunc(names, func(n string) bool { s := again.out.tasks(n); return s == nil || len(s.Tasks) != 4 })
	})
	for _, n := range names {
		if v := again.out.tasks(n).Version; v <= versions[n] {
			t.Errorf("tasks of %s have version %d after the restart, and had %d before", n, v, versions[n])
		}
	}
	if st := again.rule("shop", "default"); st.Edge != "east" || len(st.Points) != 4 || !slices.ContainsFunc(st.Edges[0].Addresses[0].Points, func(v api.VoteView) bool { return v.State == "down" }) {
		t.Errorf("after the restart: %+v", st)
	}
	see(again, "192.0.2.1", "p1", "p2", "p3")
	if st := again.rule("shop", "default"); st.Edge != "west" {
		t.Errorf("three of four see it down: %+v", st)
	}
}

// TestObservationsOfANode proves what a node may say: only of its own point, only of tasks it has, nothing older than a
// minute; the rest is evaluated in the order of its age, whatever its clock shows.
// Covers: A6, issue3 observations, issue3 clocks
func TestObservationsOfANode(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, alone)
	r.apply(zoneYAML, shopNear())
	r.join("p1", nil, "probe")
	r.join("p2", nil, "probe")
	r.connect("p1", "p2")
	r.await("tasks", func() bool { return r.out.tasks("p1") != nil && r.out.tasks("p2") != nil })
	id := r.out.tasks("p1").Tasks[0].ID
	r.pass(time.Hour)
	obs := func(point, task string, ok bool, age time.Duration) report.Observation {
		o := report.Observation{Point: point, Task: task, OK: ok, Age: age}
		if !ok {
			o.Cause = report.CauseTimeout
		}
		return o
	}
	r.Observe("p1", []report.Observation{
		obs("p2", id, true, 0),                      // of another point
		obs("local", id, true, 0),                   // of a point that control could have itself
		obs("p1", "no such task", true, 0),          // of a task it does not have
		obs("p1", id, false, time.Minute+1),         // too old
		obs("p1", id, false, 24*365*time.Hour),      // far too old
		obs("p1", id, false, 1*time.Second),         // the last of a run
		obs("p1", id, false, 3*time.Second),         //
		obs("p1", id, true, 4*time.Second),          // what was before it
		obs("p1", id, false, 2*time.Second),         //
		obs("p1", id, true, -5*time.Hour),           // an age from the future counts as none
		obs("p1", id, false, 59*time.Second),        // the oldest that counts
		{Point: "p1", Task: id, Cause: "local"},     // it could not probe
		{Point: "p1", Task: id, OK: true, Age: 1e9}, // ok, a second ago
	})
	r.settle()
	n := r.node("p1")
	if n.Tasks.Refused != 3 || n.Tasks.Late != 2 || n.Tasks.Observations != 8 {
		t.Errorf("evaluated %d, late %d, refused %d", n.Tasks.Observations, n.Tasks.Late, n.Tasks.Refused)
	}
	r.Observe("p1", []report.Observation{obs("p1", id, false, 30*time.Second)})
	r.settle()
	if n := r.node("p1"); n.Tasks.Late != 3 {
		t.Errorf("an observation that was overtaken by half a minute is evaluated: %+v", n.Tasks)
	}
	r.Observe("stranger", []report.Observation{obs("stranger", id, true, 0)})
	r.ObserveLocal(obs("p1", id, true, 0))
	r.settle()
	_, _, page := r.raw("GET", "/metrics", "", "")
	for reason, want := range map[string]int{"point": 2 + 1 + 1, "task": 1, "late": 2, "order": 1} {
		if line := fmt.Sprintf("steer_control_observations_refused_total{reason=%q} %d\n", reason, want); !strings.Contains(string(page), line) {
			t.Errorf("no line %s", line)
		}
	}
}

// TestAPointsClockChangesNothing proves that a wall clock that is an hour off, or steps, moves no verdict and no answer:
// it is shown, and raises an alarm that says so.
// Covers: issue3 clocks
func TestAPointsClockChangesNothing(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, alone)
	r.apply(zoneYAML, shopNear())
	r.join("p1", nil, "probe")
	r.connect("p1")
	r.await("tasks", func() bool { return r.out.tasks("p1") != nil })
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		r.pass(time.Second)
		r.Reported("p1", report.NodeStatus{Wall: r.Wall().Add(off), Tasks: &report.NodeTasks{Spooled: 3, Dropped: 4}})
		for _, a := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"} {
			r.tell("p1", a, true, 100*time.Millisecond)
		}
		r.look()
		if n := r.node("p1"); n.ClockOffsetSeconds != off.Seconds() || n.Tasks.Spooled != 3 || n.Tasks.Dropped != 4 {
			t.Errorf("offset %v: %+v", off, n)
		}
		if a, on := r.alarm(api.AlarmNodeClock, "p1"); on != (off != 0) {
			t.Errorf("offset %v: alarm %v %+v", off, on, a)
		}
		st := r.rule("shop", "default")
		vote := st.Edges[0].Addresses[0].Points[0]
		if st.Edge != "east" || vote.State != "up" || vote.AgeSeconds > 1 {
			t.Errorf("offset %v: %+v", off, vote)
		}
	}
	if len(r.switches()) != 0 {
		t.Errorf("switches %+v", r.switches())
	}
}

// TestPublicationIsMeasured proves that a switch is published when the last name server that was connected at the
// decision answers by its map: each with its seconds, the missing named after 30 s, late comers not counted.
// Covers: decisions 4, issue3 publication measured
func TestPublicationIsMeasured(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	for _, n := range []string{"ns1", "ns2", "ns3", "ns4"} {
		r.join(n, nil, "dns")
	}
	r.connect("ns1", "ns2", "ns3")
	r.all()
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.awaitAnswer("shop", "default", "192.0.2.2")
	r.connect("ns4") // after the decision
	ack := func(node string, version uint64) {
		r.Acked(node, report.Ack{Snapshot: report.SnapshotDNS, Version: version, OK: true, Using: version})
	}
	d, _, _ := r.out.latest()
	r.await("the map handed out", func() bool { s, _ := r.answers.state(); return s.Version >= d.Version })
	r.clocks.pass(40 * time.Millisecond)
	ack("ns1", d.Version)
	r.clocks.pass(60 * time.Millisecond)
	ack("ns2", d.Version)
	r.clocks.pass(time.Second)
	ack("ns4", d.Version)
	if s := r.switches(); len(s) != 1 || s[0].Publication != nil {
		t.Fatalf("ns3 has not acknowledged: %+v", s)
	}
	r.clocks.pass(time.Second)
	ack("ns3", d.Version)
	var p api.Publication
	published := func(i int) func() bool {
		return func() bool {
			s := r.switches()
			if len(s) <= i || s[0].Publication == nil {
				return false
			}
			p = *s[0].Publication
			return true
		}
	}
	r.await("the publication", published(0))
	got := ""
	for _, n := range p.Nodes {
		got += fmt.Sprintf("%s %.2f ", n.Node, n.Seconds)
	}
	if got != "ns3 2.10 ns2 0.10 ns1 0.04 local 0.00 " || p.Acked != 4 || len(p.Missing) != 0 || fmt.Sprintf("%.2f", p.Seconds) != "2.10" || p.MapVersion > d.Version {
		t.Errorf("nodes %q, publication %+v", got, p)
	}
	if n := r.node("ns1"); n.Map.Version != d.Version || n.Map.AckedSeconds != 0.04 {
		t.Errorf("ns1: %+v", n.Map)
	}

	r.Gone("ns2", report.SnapshotDNS)
	r.down("192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.awaitAnswer("shop", "default", "192.0.2.3", "192.0.2.4")
	d, _, _ = r.out.latest()
	r.await("the map handed out", func() bool { s, _ := r.answers.state(); return s.Version >= d.Version })
	ack("ns1", d.Version)
	r.Reported("ns4", report.NodeStatus{Map: &report.NodeMap{Version: d.Version}}) // its ack was lost
	r.Reported("ns3", report.NodeStatus{Map: &report.NodeMap{Version: d.Version, FromDisk: true}})
	r.clocks.pass(31 * time.Second)
	r.look()
	r.await("the publication with those missing", func() bool { return len(r.switches()) == 2 && published(1)() })
	if p.Acked != 3 || p.MissingCount != 1 || !slices.Equal(p.Missing, []string{"ns3"}) || p.Seconds > 31 {
		t.Errorf("publication %+v", p)
	}
	s, err := r.client.Status(t.Context(), api.StatusParams{})
	if err != nil || s.Map.Nodes != 4 || s.Map.Current < 1 || len(s.Nodes) != 4 {
		t.Errorf("status: map %+v, %d nodes, %v", s.Map, len(s.Nodes), err)
	}
}

// TestRefusedMap proves that a node that does not take a map is named with its reason until it takes one.
// Covers: issue3 ack and nack
func TestRefusedMap(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.join("ns1", nil, "dns")
	r.connect("ns1")
	r.Acked("ns1", report.Ack{Snapshot: report.SnapshotDNS, Version: 9, Reason: "MAP_DIGEST: it is damaged\x00", Using: 8})
	a, on := r.alarm(api.AlarmNodeNack, "ns1 dns")
	if !on || !strings.Contains(a.Message, "MAP_DIGEST: it is damaged;") || !strings.Contains(a.Message, "ns1") {
		t.Errorf("alarm %v %+v", on, a)
	}
	if n := r.node("ns1"); n.Map.Refused != 9 || n.Map.Version != 8 || !strings.Contains(n.Map.Error, "MAP_DIGEST") {
		t.Errorf("node %+v", n.Map)
	}
	r.Acked("ns1", report.Ack{Snapshot: report.SnapshotDNS, Version: 10, OK: true, Using: 10})
	if _, on := r.alarm(api.AlarmNodeNack, "ns1 dns"); on {
		t.Error("it takes maps again and the alarm stays")
	}
	if n := r.node("ns1"); n.Map.Refused != 0 || n.Map.Error != "" || n.Map.Version != 10 {
		t.Errorf("node %+v", n.Map)
	}
}

// TestAwayAndExpiring proves the alarms about nodes that are away or do not renew, and that nobody is asked to look for
// a drained, revoked or removed one.
// Covers: issue3 node alarms
func TestAwayAndExpiring(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.join("ns1", nil, "dns")
	r.join("ns2", nil, "dns")
	r.connect("ns1", "ns2")
	r.pass(50 * time.Second)
	r.Reported("ns1", report.NodeStatus{Version: "1.2.4", Trouble: []string{"DISK_FULL: no room"}})
	r.pass(20 * time.Second)
	r.look()
	if _, on := r.alarm(api.AlarmNodeAway, "ns1"); on {
		t.Error("ns1 spoke 20 s ago")
	}
	if a, on := r.alarm(api.AlarmNodeAway, "ns2"); !on || !strings.Contains(a.Message, "1m10s") {
		t.Errorf("ns2 has been silent for 70 s: %v %+v", on, a)
	}
	if n := r.node("ns2"); n.State != api.NodeAway || !n.Connected {
		t.Errorf("ns2 %+v", n)
	}
	if n := r.node("ns1"); n.State != api.NodeConnected || n.Version != "1.2.4" || len(n.Trouble) != 1 {
		t.Errorf("ns1 %+v", n)
	}
	r.Reported("ns2", report.NodeStatus{})
	r.look()
	if _, on := r.alarm(api.AlarmNodeAway, "ns2"); on {
		t.Error("ns2 speaks again")
	}
	r.pass(20*time.Hour + time.Minute)
	r.Reported("ns1", report.NodeStatus{})
	r.look()
	if a, on := r.alarm(api.AlarmCertEnding, "ns1"); !on || !strings.Contains(a.Message, "ns1") {
		t.Errorf("less than a sixth of the certificate is left: %v %+v", on, a)
	}
	if _, on := r.alarm(api.AlarmCertEnding, "ns2"); on {
		t.Error("ns2 is away: it renews when it comes back")
	}
	if _, err := r.client.RevokeNode(t.Context(), "ns1", api.RevokeRequest{Reason: "gone"}); err != nil {
		t.Fatal(err)
	}
	if err := r.client.RemoveNode(t.Context(), "ns2"); err != nil {
		t.Fatal(err)
	}
	r.pass(time.Hour)
	r.look()
	for _, a := range r.alarms.list() {
		if strings.HasPrefix(a.Code, "ALARM_NODE") || a.Code == api.AlarmCertEnding {
			t.Errorf("alarm about a node that is no more: %+v", a)
		}
	}
}

// TestSilentPoint proves that a point that is not heard for ten minutes gives its place to another one, with a warning
// in status and an event but no switch, and has it back when it speaks.
// Covers: decisions 2, issue3 silent points
func TestSilentPoint(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, alone)
	text := strings.ReplaceAll(strings.Replace(shopYAML, `scope: "*"`, "scope: {country: [DE]}", 1), "timeout: 2s}", "timeout: 2s, points: {near: scope, count: 2}}")
	text += "  - {name: rest, scope: \"*\", mode: fixed, edges: [west], probe: {enabled: false}}\n"
	r.apply(zoneYAML, text)
	for name, country := range map[string]string{"fra": "DE", "ber": "DE", "par": "FR"} {
		r.join(name, map[string]string{"country": country}, "probe")
		r.connect(name)
	}
	of := func() []string { return slices.Sorted(slices.Values(r.rule("shop", "default").Points)) }
	if got := of(); !slices.Equal(got, []string{"ber", "fra"}) {
		t.Fatalf("points %v", got)
	}
	r.tell("ber", "192.0.2.1", true, 0)
	from := r.feed.Last()
	for range 11 {
		r.pass(time.Minute)
		r.Reported("ber", report.NodeStatus{})
		r.Reported("par", report.NodeStatus{})
		r.look()
	}
	if got := of(); !slices.Equal(got, []string{"ber", "par"}) {
		t.Errorf("fra is silent: points %v", got)
	}
	st := r.rule("shop", "default")
	if !strings.Contains(st.Warning, "fra") || !strings.Contains(st.Warning, "par") {
		t.Errorf("warning %q", st.Warning)
	}
	point := func() api.PointStatus {
		s, err := r.client.Status(t.Context(), api.StatusParams{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(s.Points, func(p api.PointStatus) bool { return p.Name == "fra" })
		return s.Points[i]
	}
	if p := point(); p.State != api.PointSilent || p.Tasks != 0 {
		t.Errorf("fra: %+v", p)
	}
	r.Reported("fra", report.NodeStatus{})
	r.points()
	if got := of(); !slices.Equal(got, []string{"ber", "fra"}) || r.rule("shop", "default").Warning != "" {
		t.Errorf("fra speaks: points %v, warning %q", got, r.rule("shop", "default").Warning)
	}
	if p := point(); p.State != api.PointConnected || p.Tasks == 0 {
		t.Errorf("fra: %+v", p)
	}
	var told []string
	events, _, _ := r.feed.After(from, 1000)
	for _, e := range events {
		if e.Kind == api.EventPoint {
			told = append(told, fmt.Sprint(e.Point, e.On))
		}
	}
	if !slices.Equal(told, []string{"fratrue", "frafalse"}) || len(r.switches()) != 0 {
		t.Errorf("events %v, switches %+v", told, r.switches())
	}
}

// TestLabels proves that the labels of a node are changed and taken away, audited, and that rules follow at once.
// Covers: A6, issue3 labels
func TestLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil, alone)
	ctx := t.Context()
	r.apply(zoneYAML, strings.ReplaceAll(shopYAML, "timeout: 2s}", "timeout: 2s, points: {labels: {region: east}}}"))
	r.join("p1", map[string]string{"country": "DE"}, "probe")
	r.connect("p1")
	if got := r.rule("shop", "default").Points; len(got) != 0 {
		t.Errorf("points %v", got)
	}
	n, err := r.client.LabelNode(ctx, "p1", api.LabelsRequest{Set: map[string]string{"region": "east"}, Remove: []string{"country", "none"}})
	if err != nil || len(n.Labels) != 1 || n.Labels["region"] != "east" {
		t.Fatalf("label: %+v, %v", n, err)
	}
	if got := r.rule("shop", "default").Points; !slices.Equal(got, []string{"p1"}) {
		t.Errorf("points %v", got)
	}
	_, err = r.client.LabelNode(ctx, "p1", api.LabelsRequest{Set: map[string]string{"a b": "c"}})
	wantCode(t, "a label that is none", err, 422, api.CodeBadRequest)
	_, err = r.client.LabelNode(ctx, "p9", api.LabelsRequest{Set: map[string]string{"a": "c"}})
	wantCode(t, "a node that is none", err, 404, api.CodeNotFound)
	trail, err := r.store.AuditTrail(ctx, 1)
	if err != nil || trail[0].Kind != "Node" || trail[0].Action != "update" || !strings.Contains(string(trail[0].Before), `"DE"`) || strings.Contains(string(trail[0].After), `"DE"`) {
		t.Errorf("audit %+v, %v", trail, err)
	}
	r.stop()
	again := start(t, dir, r.clocks, alone)
	if got := again.rule("shop", "default").Points; !slices.Equal(got, []string{"p1"}) {
		t.Errorf("points after a restart %v", got)
	}
}

// TestDrainedNode proves that a drained node is told so at every connection, has no vote, and is told when it ends.
// Covers: issue3 drain
func TestDrainedNode(t *testing.T) {
	t.Parallel()
	var h hub
	r := start(t, t.TempDir(), nil, alone, withHub(&h))
	r.apply(zoneYAML, shopNear())
	r.join("n1", nil, "probe", "dns")
	r.connect("n1")
	if drained, told := h.told("n1"); !told || drained {
		t.Errorf("a node that connects: drained %v, told %v", drained, told)
	}
	ctx := t.Context()
	drain := func(q api.DrainRequest) {
		t.Helper()
		q.Reason = "works"
		if _, err := r.client.Drain(ctx, q); err != nil {
			t.Fatal(err)
		}
		r.points()
	}
	undrain := func(q api.UndoRequest) {
		t.Helper()
		if _, err := r.client.Undrain(ctx, q); err != nil {
			t.Fatal(err)
		}
		r.points()
	}
	drain(api.DrainRequest{Node: "n1"})
	if drained, _ := h.told("n1"); !drained {
		t.Error("it is not told that it is drained")
	}
	if n := r.node("n1"); n.State != api.NodeDrained || !n.Drained || !n.Connected || n.Tasks.Tasks != 0 {
		t.Errorf("node %+v", n)
	}
	if st := r.rule("shop", "default"); len(st.Points) != 0 {
		t.Errorf("points %v", st.Points)
	}
	r.pass(2 * time.Minute)
	r.look()
	if _, on := r.alarm(api.AlarmNodeAway, "n1"); on {
		t.Error("a drained node may be away")
	}
	h.mu.Lock()
	delete(h.drained, "n1")
	h.mu.Unlock()
	r.connect("n1")
	if drained, _ := h.told("n1"); !drained {
		t.Error("it connects again and is not told that it is drained")
	}
	undrain(api.UndoRequest{Node: "n1"})
	drain(api.DrainRequest{Point: "n1"})
	if drained, told := h.told("n1"); drained || !told {
		t.Error("a drain of its votes alone is none of the node")
	}
	if st := r.rule("shop", "default"); len(st.Points) != 0 {
		t.Errorf("points %v", st.Points)
	}
	undrain(api.UndoRequest{Point: "n1"})
	if n := r.node("n1"); n.State != api.NodeConnected || n.Tasks.Tasks != 4 {
		t.Errorf("undrained: %+v", n)
	}
}

// TestNodeMetrics proves the metrics of a node, and that those of a removed one go.
// Covers: issue3 publication measured
func TestNodeMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.join("ns1", nil, "dns")
	r.connect("ns1")
	r.Acked("ns1", report.Ack{Snapshot: report.SnapshotDNS, Version: 7, OK: true, Using: 7})
	r.pass(30 * time.Second)
	page := func() string {
		_, _, b := r.raw("GET", "/metrics", "", "")
		return string(b)
	}
	text := page()
	for _, want := range []string{
		`steer_control_node_connected{node="ns1"} 1`, `steer_control_node_map_version{node="ns1"} 7`, `steer_control_node_map_age_seconds{node="ns1"} 30`,
		"steer_control_node_acked_seconds_count", `steer_control_node_certificate_left_seconds{node="ns1"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if err := r.client.RemoveNode(t.Context(), "ns1"); err != nil {
		t.Fatal(err)
	}
	if text := page(); strings.Contains(text, "ns1") {
		t.Error("metrics of a removed node stay")
	}
}

// TestProbeNowAtAPoint proves that every connected point is asked, and that one that is away is refused by name.
// Covers: issue3 probe now
func TestProbeNowAtAPoint(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	r := start(t, t.TempDir(), nil, alone, func(_ *Config, d *Deps) {
		d.Probe = func(_ context.Context, point string, _ snapshot.ProbeTask) (report.Observation, error) {
			asked <- point
			return report.Observation{Point: point, OK: true}, nil
		}
	})
	ctx := t.Context()
	_, err := r.client.Probe(ctx, api.ProbeRequest{URL: "http://192.0.2.1/"})
	wantCode(t, "no point at all", err, 503, api.CodeProberUnavailable)
	r.join("p1", nil, "probe")
	r.join("p2", nil, "probe")
	r.connect("p2")
	res, err := r.client.Probe(ctx, api.ProbeRequest{URL: "http://192.0.2.1/"})
	if err != nil || len(res.Results) != 1 || res.Results[0].Point != "p2" || <-asked != "p2" {
		t.Errorf("%+v, %v", res, err)
	}
	_, err = r.client.Probe(ctx, api.ProbeRequest{URL: "http://192.0.2.1/", Point: "p1"})
	if p := wantCode(t, "a point that is away", err, 503, api.CodeProberUnavailable); !strings.Contains(p.Detail, "p1") {
		t.Errorf("%s", p.Detail)
	}
	_, err = r.client.Probe(ctx, api.ProbeRequest{URL: "http://192.0.2.1/", Point: "p9"})
	wantCode(t, "no such point", err, 404, api.CodeNotFound)
}

// TestLostAuthority proves that an authority that was lost and made anew is an alarm that says what to do, that control
// runs on, and that the alarm goes with the last node of the old one.
// Covers: issue3 state files
func TestLostAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.join("ns1", nil, "dns")
	r.join("ns2", nil, "dns")
	r.look()
	if a, on := r.alarm(api.AlarmAuthority, ""); on {
		t.Errorf("alarm %+v", a)
	}
	r.stop()
	if err := os.RemoveAll(filepath.Join(dir, "ca")); err != nil {
		t.Fatal(err)
	}
	again := start(t, dir, r.clocks)
	again.look()
	if a, on := again.alarm(api.AlarmAuthority, ""); !on || !strings.Contains(a.Message, "2 node(s)") || !strings.Contains(a.Message, dir) {
		t.Errorf("alarm %v %+v", on, a)
	}
	for _, n := range []string{"ns1", "ns2"} {
		if err := again.client.RemoveNode(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	again.join("ns1", nil, "dns")
	again.look()
	if a, on := again.alarm(api.AlarmAuthority, ""); on {
		t.Errorf("alarm %+v", a)
	}
}
