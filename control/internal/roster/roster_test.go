package roster

import (
	"slices"
	"testing"
	"time"

	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/store"
	"steerpoint/report"
	"steerpoint/steering"
)

const origin = steering.Instant(time.Hour)

func now(d time.Duration) moment.Moment {
	return moment.Moment{At: origin + d, Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(d)}
}

func rosterOf(local string, nodes ...store.Node) *Roster {
	r := New(origin, local)
	r.Load(store.Enrolled{Nodes: nodes})
	return r
}

func node1(name string, roles ...string) store.Node { return store.Node{Name: name, Roles: roles} }

// TestAudience proves who counts as a connected name server: the one in the process, and nodes while their DNS stream
// is open, a replaced stream being one.
// Covers: issue3 publication measured
func TestAudience(t *testing.T) {
	r := rosterOf("local", node1("a", RoleDNS), node1("b", RoleDNS), node1("p", RoleProbe))
	want := func(what string, names ...string) {
		t.Helper()
		if got := r.Audience().Names; !slices.Equal(got, names) {
			t.Errorf("%s: %v, want %v", what, got, names)
		}
	}
	want("nobody is connected", "local")
	before := r.Audience()
	if !r.Connected("b", report.SnapshotDNS, "192.0.2.1", now(0)) || r.Connected("b", report.SnapshotDNS, "192.0.2.2", now(1)) {
		t.Error("the first stream is news, the one that replaces it is not")
	}
	r.Connected("p", report.SnapshotProbe, "192.0.2.3", now(0))
	r.Connected("stranger", report.SnapshotDNS, "192.0.2.4", now(0))
	want("b is connected", "b", "local")
	if !slices.Equal(before.Names, []string{"local"}) {
		t.Errorf("an audience changed: %v", before.Names)
	}
	if r.Gone("p", report.SnapshotDNS) || !r.Gone("b", report.SnapshotDNS) || r.Gone("b", report.SnapshotDNS) {
		t.Error("b's only stream ended once")
	}
	want("b is gone", "local")
	r.Connected("a", report.SnapshotDNS, "192.0.2.5", now(0))
	revoked := node1("a", RoleDNS)
	revoked.Revoked = now(0).Wall
	r.Wrote(&store.Enrolment{Node: &revoked})
	want("a is revoked", "local")
}

// TestAwayAndSilent proves the two limits of silence, that they count from the start for a node not heard yet, and that
// any word of a node ends them.
// Covers: decisions 2, issue3 silent points
func TestAwayAndSilent(t *testing.T) {
	r := rosterOf("", node1("p", RoleProbe), node1("q", RoleProbe), node1("d", RoleDNS))
	silent := func(d time.Duration) (out []string) {
		for _, p := range r.Points(origin + d) {
			if p.Silent {
				out = append(out, p.Name)
			}
		}
		return out
	}
	if got := silent(SilentAfter - 1); got != nil {
		t.Errorf("silent before ten minutes: %v", got)
	}
	if got := silent(SilentAfter); !slices.Equal(got, []string{"p", "q"}) {
		t.Errorf("never heard: %v", got)
	}
	for name, speak := range map[string]func(moment.Moment) bool{
		"observations": func(m moment.Moment) bool { return r.Speaks("p", m, Counts{}) },
		"a report":     func(m moment.Moment) bool { return r.Reported("p", report.NodeStatus{}, m) },
		"an ack":       func(m moment.Moment) bool { return r.Acked("p", report.Ack{Snapshot: report.SnapshotProbe}, 0, m) },
		"a stream":     func(m moment.Moment) bool { return r.Connected("p", report.SnapshotProbe, "x", m) },
	} {
		r.Load(store.Enrolled{Nodes: []store.Node{node1("p", RoleProbe), node1("q", RoleProbe)}})
		r.nodes["p"].heard, r.nodes["p"].streams = moment.Moment{}, map[string]bool{}
		if !speak(now(9 * time.Minute)) {
			t.Errorf("%s: not taken", name)
		}
		if got := silent(15 * time.Minute); !slices.Equal(got, []string{"q"}) {
			t.Errorf("after %s: silent %v", name, got)
		}
		if got := silent(19 * time.Minute); !slices.Equal(got, []string{"p", "q"}) {
			t.Errorf("ten minutes after %s: silent %v", name, got)
		}
	}
	r.Connected("p", report.SnapshotProbe, "x", now(20*time.Minute))
	if v, _ := r.View("p", now(20*time.Minute+AwayAfter-1)); v.Away || !v.Connected {
		t.Errorf("p is there: %+v", v)
	}
	if v, _ := r.View("p", now(20*time.Minute+AwayAfter)); !v.Away {
		t.Errorf("a stream without a word for a minute is no sign of life: %+v", v)
	}
}

// TestDrainsAreToldOnce proves that a node is told of being drained when that changes, and at every connection.
// Covers: issue3 drain
func TestDrainsAreToldOnce(t *testing.T) {
	r := rosterOf("", node1("a", RoleDNS), node1("b", RoleDNS))
	drained := map[string]bool{"a": true}
	tell := func() []Drain { return r.TellDrains(func(n string) bool { return drained[n] }) }
	if got := tell(); got != nil {
		t.Errorf("nobody is connected: %v", got)
	}
	r.Connected("a", report.SnapshotDNS, "x", now(0))
	if got := tell(); !slices.Equal(got, []Drain{{"a", true}}) {
		t.Errorf("a connects: %v", got)
	}
	if got := tell(); got != nil {
		t.Errorf("told again: %v", got)
	}
	delete(drained, "a")
	if got := tell(); !slices.Equal(got, []Drain{{"a", false}}) {
		t.Errorf("a is back: %v", got)
	}
	r.Connected("a", report.SnapshotDNS, "x", now(0))
	if got := tell(); !slices.Equal(got, []Drain{{"a", false}}) {
		t.Errorf("a connects again, and may remember otherwise: %v", got)
	}
}

// TestMapOfANode proves what is known of a node's map: by acks and reports, refused ones named until one is taken.
// Covers: issue3 ack and nack
func TestMapOfANode(t *testing.T) {
	r := rosterOf("local", node1("a", RoleDNS))
	r.Connected("a", report.SnapshotDNS, "x", now(0))
	r.Reported("a", report.NodeStatus{Map: &report.NodeMap{Version: 4, Age: time.Hour}}, now(0))
	v, _ := r.View("a", now(time.Minute))
	if v.Map.Using != 4 || v.MapAge != time.Hour+time.Minute {
		t.Errorf("reported: %+v, age %v", v.Map, v.MapAge)
	}
	r.Acked("a", report.Ack{Snapshot: report.SnapshotDNS, Version: 5, Reason: "MAP_DAMAGED: digest differs", Using: 4}, 0, now(time.Minute))
	if connected, current := r.Current(5, 5); connected != 2 || current != 1 {
		t.Errorf("of %d name servers %d answer by map 5, want 1 of 2", connected, current)
	}
	v, _ = r.View("a", now(time.Minute))
	if v.Map.Refused != 5 || v.Map.Reason == "" || v.Map.Using != 4 {
		t.Errorf("refused: %+v", v.Map)
	}
	r.Acked("a", report.Ack{Snapshot: report.SnapshotDNS, Version: 6, OK: true, Using: 6}, 30*time.Millisecond, now(2*time.Minute))
	v, _ = r.View("a", now(2*time.Minute+time.Second))
	if v.Map != (Ack{Using: 6, After: 30 * time.Millisecond}) || v.MapAge != time.Second {
		t.Errorf("taken: %+v, age %v", v.Map, v.MapAge)
	}
	if connected, current := r.Current(6, 6); connected != 2 || current != 2 {
		t.Errorf("of %d name servers %d answer by map 6", connected, current)
	}
	r.Acked("a", report.Ack{Snapshot: report.SnapshotDNS, Version: 2, Reason: "MAP_INVALID: not this one", Using: 6}, 0, now(3*time.Minute))
	if connected, current := r.Current(2, 2); connected != 2 || current != 1 {
		t.Errorf("of %d name servers %d answer by map 2 of a control that went back, want 1 of 2", connected, current)
	}
}
