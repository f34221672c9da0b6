package engine

import (
	"strings"
	"testing"
	"time"

	"steerpoint/report"
	"steerpoint/steering"
)

// TestANewEdgeHasTimeToBeProbed proves that an edge without any result is no alarm before it could be probed three
// times, and one afterwards; and that it does not put off the alarm of an edge that was known.
//
// Covers: decisions 1
func TestANewEdgeHasTimeToBeProbed(t *testing.T) {
	one := strings.Replace(service("shop", 1, "[east]"), "192.0.2.2, 192.0.2.3", "192.0.2.2", 1)
	e := engineOf(t, set(t, zone, one))
	now := start
	held := func() bool {
		t.Helper()
		f, ok := e.Flags(now, "shop/default")
		if !ok {
			t.Fatal("no rule")
		}
		return f.Held
	}
	see := func(address string) {
		e.Observe(now, &report.Observation{Task: task(t, e, "local", address), Point: "local", OK: true, Latency: time.Millisecond})
	}
	if held() {
		t.Error("an alarm about a service that was just applied")
	}
	see("192.0.2.1")
	now += steering.Instant(time.Minute)
	see("192.0.2.1")
	e.Configure(now, wall, set(t, zone, strings.Replace(one, "[east]", "[east, west]", 1)), nil)
	for range 3 {
		if held() {
			t.Errorf("an alarm %v after an edge was added", now-start-steering.Instant(time.Minute))
		}
		now += 9 * steering.Instant(time.Second)
		see("192.0.2.1")
		e.Advance(now)
	}
	now += 3 * steering.Instant(time.Second)
	if !held() {
		t.Error("no alarm about an edge that was never probed")
	}
	see("192.0.2.2")
	if held() {
		t.Error("the alarm stays although every edge has a result")
	}
	now += 31 * steering.Instant(time.Second)
	e.Advance(now)
	if !held() {
		t.Error("no alarm at once about edges that were known")
	}
}
