package engine

import (
	"strings"
	"testing"
	"time"

	"steerpoint/report"
	"steerpoint/steering"
)

// TestAPointThatReturnsIsLookedAt proves that the first result of a point after a silence is looked at, however many
// equal ones came before it: its vote was gone in between, and its return may change the verdict of an address.
//
// Covers: decisions 1, decisions 2
func TestAPointThatReturnsIsLookedAt(t *testing.T) {
	points := []string{"p1", "p2", "p3", "p4", "p5"}
	text := service("shop", 1, "[east, west]")
	e := engineOf(t, set(t, zone, strings.Replace(text, "timeout: 2s", "timeout: 2s, points: {count: 5}", 1)), points...)
	now := start
	told := steering.Unknown // what the outcomes say of 192.0.2.2
	note := func(out []Outcome) {
		for _, o := range out {
			for _, edge := range o.Edges {
				for _, a := range edge.Addresses {
					if a.Address == "192.0.2.2" {
						told = a.Verdict
					}
				}
			}
		}
	}
	round := func(silent int) {
		now += 10 * steering.Instant(time.Second)
		note(e.Advance(now))
		for i, p := range points {
			if i < silent {
				continue
			}
			for _, address := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
				o := report.Observation{Task: task(t, e, p, address), Point: p, OK: true, Latency: time.Millisecond}
				if address == "192.0.2.2" && i >= 3 { // two of five see this address down
					o.OK, o.Cause = false, report.CauseRefused
				}
				note(e.Observe(now, &o))
			}
		}
	}
	for range 10 {
		round(0)
	}
	if told != steering.Up {
		t.Fatalf("three of five see it up: %v", told)
	}
	for range 4 {
		round(2) // two of those fall silent: two of three see it down
	}
	if told != steering.Down {
		t.Fatalf("two of three see it down: %v", told)
	}
	for range 3 {
		round(0)
	}
	v, _ := e.View(now, "shop/default")
	if got := v.Edges[1].Addresses[0].Verdict; got != steering.Up || told != got {
		t.Errorf("the rule holds the address %v, told was %v", got, told)
	}
}
