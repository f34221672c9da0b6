package control

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/report"
)

// TestTenThousandRules applies 1,000 services of 10 rules each in one request, fails one edge of all of them and
// restarts. It prints what that takes; STEER_LONG=1 runs it. What goes on at once in it does so in smaller tests too, and
// under the race detector it takes minutes.
func TestTenThousandRules(t *testing.T) {
	if os.Getenv("STEER_LONG") == "" {
		t.Skip("long: set STEER_LONG=1")
	}
	if underRace {
		t.Skip("takes minutes under the race detector: make crash-loops-hold runs it without")
	}
	dir := t.TempDir()
	r := start(t, dir, nil)
	q := request(zoneYAML)
	for i := range 1000 {
		var b strings.Builder
		fmt.Fprintf(&b, "apiVersion: steerpoint/v1\nkind: Service\nname: s%d\ndomains: [s%d.example.com]\nedges:\n", i, i)
		b.WriteString("  - {name: east, addresses: [192.0.2.1]}\n  - {name: west, addresses: [192.0.2.2]}\n  - {name: south, addresses: [192.0.2.3]}\nrules:\n")
		for j := range 10 {
			scope := `"*"`
			if j > 0 {
				scope = fmt.Sprintf("{cidr: [10.%d.0.0/16]}", j)
			}
			fmt.Fprintf(&b, "  - {name: r%d, scope: %s, mode: failover, edges: [east, west, south], probe: {url: \"http://x.example.com/\", interval: 30s}}\n", j, scope)
		}
		q.Sources = append(q.Sources, api.Source{File: fmt.Sprint(i), Content: b.String()})
	}
	step := func(what string, f func()) {
		began := time.Now()
		f()
		t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
	}
	step("apply of 1,000 services, 10,000 rules", func() {
		if _, err := r.client.Apply(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	})
	step("first map", func() { r.awaitAnswer("s999", "r9", "192.0.2.1") })
	r.all()
	step("one edge of every rule fails: last answer moved", func() {
		r.down("192.0.2.1", "192.0.2.2", "192.0.2.3")
		r.awaitAnswer("s999", "r9", "192.0.2.2")
	})
	step("30,000 evaluations by 3 results", func() {
		_, probe, _ := r.out.latest()
		for _, x := range probe.Tasks {
			r.ObserveLocal(report.Observation{Task: x.ID, Point: "local", OK: true, Latency: time.Millisecond})
		}
		r.settle()
	})
	step("status of everything", func() {
		if _, err := r.client.Status(t.Context(), api.StatusParams{}); err != nil {
			t.Fatal(err)
		}
	})
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("heap in use %d MiB", m.HeapInuse>>20)
	step("stop", r.stop)
	step("start and first map", func() {
		again := start(t, dir, r.clocks)
		again.awaitAnswer("s999", "r9", "192.0.2.2")
		if n := len(again.switches()); n == 0 {
			t.Error("no switches")
		}
	})
}
