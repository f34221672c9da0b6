package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLinesBecomeFigures(t *testing.T) {
	name, values, ok := parseLine("BenchmarkObservation-2   \t 1000000\t      1041 ns/op\t       0 B/op\t       0 allocs/op")
	if !ok || name != "Observation" || values["ns/op"] != 1041 || len(values) != 3 {
		t.Errorf("have %q %v %v", name, values, ok)
	}
	if _, _, ok := parseLine("ok  \tsteerpoint/bench\t3.2s"); ok {
		t.Error("a closing line was taken for a benchmark")
	}
}

func TestBarsAreHeldAgainstMedians(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bars.tsv")
	if err := os.WriteFile(file, []byte("# name, unit, at most, source\nObservation\tns/op\t2000\tissue 2\nLookup\tns/op\t10\tissue 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bars, err := readBars(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &result{Name: "Observation", samples: map[string][]float64{"ns/op": {3000, 1000, 1500, 1600}}}
	slow := &result{Name: "Lookup", samples: map[string][]float64{"ns/op": {20}}}
	r.judge(bars)
	slow.judge(bars)
	page := table([]*result{r, slow}, machine{})
	for _, row := range []string{
		"| Observation | ns/op | 1550 | 1000 to 3000 | 2000 | kept, issue 2 |",
		"| Lookup | ns/op | 20 | 20 to 20 | 10 | **missed**, issue 2 |",
	} {
		if !strings.Contains(page, row) {
			t.Errorf("no row %q in:\n%s", row, page)
		}
	}
	if got := (&result{Name: "AnswerOverUDP/WithECS"}).fileName(); got != "answer_over_udp_with_ecs.json" {
		t.Errorf("file name: have %s", got)
	}
}

func TestOthersAreSeen(t *testing.T) {
	before := []float64{0, 0, 0, 0, 0, 0, 0, 0}
	after := []float64{500, 0, 100, 300, 0, 0, 0, 100} // 10 s in all: 6 busy, 3 idle, 1 stolen
	steal, others := shares(before, after, 4)
	if steal != 0.1 || others != 0.2 {
		t.Errorf("have steal %v, others %v; want 0.1 and 0.2", steal, others)
	}
	page := table(nil, machine{Others: others})
	if !strings.Contains(page, "measure again") {
		t.Errorf("a noisy run is not called one:\n%s", page)
	}
}

// TestGate: a figure three times its bar fails, one below does not, and a bar of nothing stays nothing.
func TestGate(t *testing.T) {
	at := func(bar, median float64) []*result {
		return []*result{{Name: "X", Figures: map[string]*figure{"ns/op": {Median: median, Bar: &bar}}}}
	}
	for _, row := range []struct {
		bar, median, factor float64
		fails               bool
	}{{10, 30, 3, false}, {10, 31, 3, true}, {10, 1000, 0, false}, {0, 1, 3, true}} {
		if err := missed(at(row.bar, row.median), row.factor); (err != nil) != row.fails {
			t.Errorf("bar %v, median %v, factor %v: %v", row.bar, row.median, row.factor, err)
		}
	}
}
