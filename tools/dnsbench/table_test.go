package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steerpoint/tools/machine"
)

// The table has the median of the rounds with its spread, and only workloads that a server was asked.
func TestRows(t *testing.T) {
	a, b := &server{peer: peer{name: "a"}}, &server{peer: peer{name: "b"}}
	sampled := func(server, workload string, cpu, qps, lost float64) sample {
		return sample{server: server, workload: workload, cpu: cpu, qps: qps, lost: lost, looks: 7}
	}
	got := rows(phases[0], []sample{
		sampled("a", "static", 5, 100, 0.5), sampled("a", "static", 1, 300, 0), sampled("a", "static", 3, 200, 0.25),
		sampled("b", "geo", 2, 10, 0), sampled("b", "geo", 4, 20, 0),
	}, []*server{a, b})
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	if r := got[0]; r.Server != "a" || r.Workload != "static" || r.Rounds != 3 || r.CPU != (machine.Spread{Median: 3, Min: 1, Max: 5}) || r.QPS != (machine.Spread{Median: 200, Min: 100, Max: 300}) || r.Lost != 0.25 || r.Looks != 21 {
		t.Errorf("%+v", r)
	}
	if r := got[1]; r.Server != "b" || r.Workload != "geo" || r.CPU != (machine.Spread{Median: 3, Min: 2, Max: 4}) {
		t.Errorf("%+v", r)
	}
}

// A bar is the median over the rounds of what ours is to the best of the others in the same round.
func TestBars(t *testing.T) {
	b := bar{
		ours: func(s sample) bool { return s.server == "a" }, others: func(s sample) bool { return s.server != "a" },
		value: func(s sample) float64 { return s.cpu }, most: true, limit: 1,
	}
	b.judge([]sample{
		{server: "a", cpu: 2},
		{server: "b", cpu: 1},
		{server: "c", cpu: 4},
		{server: "a", cpu: 3, round: 1},
		{server: "b", cpu: 6, round: 1},
		{server: "c", cpu: 5, round: 1},
		{server: "a", cpu: 4, round: 2},
		{server: "c", cpu: 5, round: 2},
		{server: "b", cpu: 5, round: 3},
	})
	if !b.seen || !b.kept || b.Ratio != (machine.Spread{Median: 0.8, Min: 0.6, Max: 2}) {
		t.Errorf("%+v", b.Ratio)
	}
	b.most, b.value = false, func(s sample) float64 { return s.qps }
	b.judge([]sample{{server: "a", qps: 90}, {server: "b", qps: 100}, {server: "c", qps: 50}})
	if b.kept || b.Ratio.Median != 0.9 {
		t.Errorf("%+v", b.Ratio)
	}
	b.limit = 0.9
	if b.judge([]sample{{server: "a", qps: 90}, {server: "b", qps: 100}}); !b.kept {
		t.Errorf("%+v", b.Ratio)
	}
	if b.judge([]sample{{server: "a", qps: 90}}); b.seen {
		t.Error("a bar without others")
	}
}

// What looks at answers tells right ones from wrong ones.
func TestLooks(t *testing.T) {
	q := question(7, "h17.example.test", workload{geo: true})
	if len(q) != 12+18+4+11+4+7 || q[11] != 1 {
		t.Fatalf("%d octets: %x", len(q), q)
	}
	plain := question(7, "h17.example.test", workload{})
	reply := append([]byte(nil), plain...)
	reply[2], reply[7] = 0x84, 1
	reply = append(reply, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 192, 0, 2, 18)
	if got, err := answerOf(reply, false); got != hostAddress || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for n := range reply {
		if got, err := answerOf(reply[:n], false); err == nil && got == hostAddress {
			t.Errorf("cut at %d: %q", n, got)
		}
	}
	if got, err := answerOf(reply, true); err != nil || got == hostAddress {
		t.Errorf("without a signature: %q, %v", got, err)
	}
	reply[7] = 2
	signed := append(slices.Clone(reply), 0xC0, 12, 0, 46, 0, 1, 0, 0, 0, 1, 0, 0)
	if got, err := answerOf(signed, true); got != hostAddress || err != nil {
		t.Errorf("signed: %q, %v", got, err)
	}
	signed[len(reply)+3] = 47
	if got, err := answerOf(signed, true); got == hostAddress || err != nil {
		t.Errorf("something else than a signature: %q, %v", got, err)
	}
	if q := question(7, "h17.example.test", workload{signed: true}); len(q) != 12+18+4+11 || q[len(q)-4] != 0x80 {
		t.Errorf("%x", q)
	}
	plain[3] = 3
	if got, err := answerOf(plain, false); got != "NXDOMAIN" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	plain[3] = 2
	if got, err := answerOf(plain, false); got != "code 2, 0 records" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Every peer gets a configuration that names its port, and the data that it needs is there.
func TestPrepare(t *testing.T) {
	work := t.TempDir()
	if err := writeData(work, few); err != nil {
		t.Fatal(err)
	}
	for _, w := range phases[0].workloads {
		if info, err := os.Stat(filepath.Join(work, w.file)); err != nil || info.Size() == 0 {
			t.Errorf("questions of %s: %v", w.name, err)
		}
	}
	for _, p := range append(peers("steer", "nameserver", phases[0]), peers("steer", "nameserver", phases[1])...) {
		dir := t.TempDir()
		args, err := p.prepare(dir, work, 4711, few)
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

// What cannot be measured has a row that says why, of each workload that it would have been asked.
func TestMissingRows(t *testing.T) {
	var r results
	r.miss(phases[0], peer{name: "x", geo: true}, "did not start: no port\nits log")
	want := 0
	for _, w := range phases[0].workloads {
		if !w.swap {
			want++
		}
	}
	if len(r.rows) != want || r.rows[0].Missing != "did not start: no port" || r.rows[0].Server != "x" {
		t.Errorf("%+v", r.rows)
	}
}
