package control

import (
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
)

// TestFromFileToSwitch is the whole story: files applied, an edge fails, the answer moves, the log says why and when it
// was published, the edge returns after its cool-down.
// Covers: A1, A5, A7, A8, A12, B8, E4, decisions 4, field 29
func TestFromFileToSwitch(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	p := r.apply(zoneYAML, shopYAML)
	if len(p.Changes) != 2 || !p.Applied || len(p.Answers) != 2 {
		t.Fatalf("apply: %+v", p)
	}
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.awaitAnswer("shop", "default", "192.0.2.2")
	st := r.rule("shop", "default")
	if st.Edge != "west" || st.Cause != "down" || !st.Locked || st.Edges[0].Verdict != "down" {
		t.Errorf("after the failure: %+v", st)
	}
	if fixed := r.rule("shop", "fixed"); fixed.Edge != "west" || fixed.Cause != "initial" {
		t.Errorf("the fixed rule: %+v", fixed)
	}
	var s api.Switch
	r.await("publication in the log", func() bool {
		list := r.switches()
		if len(list) != 1 {
			return false
		}
		s = list[0]
		return s.Publication != nil
	})
	if s.From != "east" || s.To != "west" || s.Cause != "down" || s.DetectionSeconds != 2 || len(s.Votes) == 0 || s.Reason == "" {
		t.Errorf("switch-log entry: %+v", s)
	}
	if d, _, _ := r.out.latest(); s.Publication.MapVersion > d.Version {
		t.Errorf("published by map %d, newest is %d", s.Publication.MapVersion, d.Version)
	}
	for range 14 { // cool-down 120 s
		r.pass(10 * time.Second)
		r.all()
	}
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.await("the first switch undone", func() bool {
		list := r.switches()
		return len(list) == 2 && list[0].Cause == "recovered" && list[1].Undone != nil && list[1].Undone.By == list[0].ID
	})
	if err := r.client.Delete(t.Context(), "service", "shop", 0); err != nil {
		t.Fatal(err)
	}
	r.await("the end of the last switch with its rule", func() bool {
		list := r.switches()
		return len(list) == 2 && list[0].Undone != nil && list[0].Undone.By == ""
	})
}

// TestLosingOneOfTwoAddresses proves that an edge with two addresses loses one from answers without a switch.
// Covers: issue2 one address
func TestLosingOneOfTwoAddresses(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	if _, err := r.client.Force(t.Context(), api.ForceRequest{Rule: "shop/default", Edge: "south", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	r.awaitAnswer("shop", "default", "192.0.2.3", "192.0.2.4")
	r.down("192.0.2.3", "192.0.2.1", "192.0.2.2", "192.0.2.4")
	r.awaitAnswer("shop", "default", "192.0.2.4")
	if n := len(r.switches()); n != 1 {
		t.Errorf("%d switches, want the forced one only", n)
	}
}

// TestWhenAllDownChangesAnAnswer proves that what an operator says about an outage is answered while the outage lasts: a
// new whenAllDown, and an edge taken out of the rule that answers with all.
//
// Covers: decisions 3
func TestWhenAllDownChangesAnAnswer(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	text := strings.Replace(shopYAML, "edges: [east, west, south]", "edges: [east, west]", 1)
	r.apply(zoneYAML, text)
	r.all()
	for range 3 {
		r.pass(time.Second)
		r.see("192.0.2.1", false)
		r.see("192.0.2.2", false)
	}
	if st := r.rule("shop", "default"); !st.AllDown {
		t.Fatalf("every edge is down: %+v", st)
	}
	r.awaitAnswer("shop", "default", "192.0.2.1")
	all := strings.Replace(text, "mode: failover", "mode: failover\n    whenAllDown: all", 1)
	r.apply(all)
	r.awaitAnswer("shop", "default", "192.0.2.1", "192.0.2.2")
	r.apply(strings.Replace(text, "mode: failover", "mode: failover\n    whenAllDown: empty", 1))
	r.awaitAnswer("shop", "default")
	r.apply(all)
	r.awaitAnswer("shop", "default", "192.0.2.1", "192.0.2.2")
	r.apply(strings.Replace(all, "edges: [east, west]", "edges: [east]", 1))
	r.awaitAnswer("shop", "default", "192.0.2.1")
}
