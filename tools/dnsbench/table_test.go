package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The table has the median of the rounds with its spread, and only workloads that a server was asked.
func TestRows(t *testing.T) {
	a, b := &server{peer: peer{name: "a"}}, &server{peer: peer{name: "b"}}
	got := rows([]sample{
		{"a", "static", 5, 100, 0.5}, {"a", "static", 1, 300, 0}, {"a", "static", 3, 200, 0.25}, {"b", "geo", 2, 10, 0}, {"b", "geo", 4, 20, 0},
	}, []*server{a, b})
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	if r := got[0]; r.Server != "a" || r.Workload != "static" || r.Rounds != 3 || r.CPU != (spread{3, 1, 5}) || r.QPS != (spread{200, 100, 300}) || r.Lost != 0.25 {
		t.Errorf("%+v", r)
	}
	if r := got[1]; r.Server != "b" || r.Workload != "geo" || r.CPU != (spread{3, 2, 4}) {
		t.Errorf("%+v", r)
	}
}

// Every peer gets a configuration that names its port, and the data that it needs is there.
func TestPrepare(t *testing.T) {
	work := t.TempDir()
	if err := writeData(work); err != nil {
		t.Fatal(err)
	}
	for _, w := range workloads {
		if info, err := os.Stat(filepath.Join(work, w.file)); err != nil || info.Size() == 0 {
			t.Errorf("questions of %s: %v", w.name, err)
		}
	}
	for _, p := range peers("steer") {
		dir := t.TempDir()
		args, err := p.prepare(dir, work, 4711)
		if err != nil || len(args) == 0 {
			t.Errorf("%s: %q, %v", p.name, args, err)
		}
		said := strings.Join(args, " ")
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, _ := os.ReadFile(f) // a folder says nothing
			said += string(b)
		}
		if !strings.Contains(said, "4711") {
			t.Errorf("%s is told of no port", p.name)
		}
	}
}
