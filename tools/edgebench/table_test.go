package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steerpoint/tools/machine"
)

// A row is the median over the rounds, and its ratio the median of the ratios in a round, not the ratio of the medians.
func TestRows(t *testing.T) {
	got := rows([]sample{
		{proxy: "steer", workload: "plain", round: 0, cpu: 2, rate: 10, resident: 5 << 20},
		{proxy: "steer", workload: "plain", round: 1, cpu: 3, rate: 30},
		{proxy: "steer", workload: "plain", round: 2, cpu: 8, rate: 20},
		{proxy: "haproxy", workload: "plain", round: 0, cpu: 4},
		{proxy: "haproxy", workload: "plain", round: 1, cpu: 2},
		{proxy: "haproxy", workload: "plain", round: 2, cpu: 2},
		{proxy: "steer", workload: "tls", cpu: 1},
	}, []string{"steer", "haproxy"})
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	if r := got[0]; r.Proxy != "steer" || r.Rounds != 3 || r.CPU != (machine.Spread{Median: 3, Min: 2, Max: 8}) || r.Ratio != (machine.Spread{Median: 1.5, Min: 0.5, Max: 4}) || r.MiB != 5 || r.Rate.Median != 20 {
		t.Errorf("%+v", r)
	}
	if r := got[2]; r.Workload != "tls" || r.Ratio.Median != 0 {
		t.Errorf("without HAProxy in the round: %+v", r)
	}
}

// What is added is over a client without a proxy in the same round.
func TestStreamRows(t *testing.T) {
	got := streamRows([]streamSample{
		{proxy: "direct", n: 1000, p99: 1},
		{proxy: "steer", n: 1000, p99: 3, memory: 10},
		{proxy: "direct", n: 5000, p99: 2},
		{proxy: "steer", n: 5000, p99: 9},
		{proxy: "direct", n: 1000, round: 1, p99: 5},
		{proxy: "steer", n: 1000, round: 1, p99: 6, memory: 12},
	}, []string{"steer"})
	if len(got) != 4 || got[1].Proxy != "steer" || got[1].Added != (machine.Spread{Median: 1.5, Min: 1, Max: 2}) || got[1].KiB.Median != 11 || got[3].Added.Median != 7 {
		t.Errorf("%+v", got)
	}
}

func TestBars(t *testing.T) {
	got := bars([]row{
		{Workload: "plain", Proxy: "steer", Ratio: machine.Spread{Median: 1.3}},
		{Workload: "tls", Proxy: "steer", Ratio: machine.Spread{Median: 1.31}},
		{Workload: "tls", Proxy: "nginx", Ratio: machine.Spread{Median: 9}},
		{Workload: "new", Proxy: "steer", Ratio: machine.Spread{Median: 9}},
	}, []streamRow{{Streams: 5000, Proxy: "steer", KiB: machine.Spread{Median: 17}, Added: machine.Spread{Median: 1}}})
	var said []string
	for _, b := range got {
		said = append(said, b.What+map[bool]string{true: " kept", false: " missed"}[b.Kept])
	}
	if want := "plain: CPU, to HAProxy's kept, tls: CPU, to HAProxy's missed, 5000 streams: KiB each missed, 5000 streams: added at p99, ms kept"; strings.Join(said, ", ") != want {
		t.Errorf("%q", said)
	}
}

// h2load is believed only when all of its answers were good.
func TestH2Answers(t *testing.T) {
	good := "requests: 500 total, 500 started, 490 done, 488 succeeded, 0 failed, 0 errored, 0 timeout\nstatus codes: 489 2xx, 0 3xx, 0 4xx, 0 5xx\n"
	if n, err := h2Answers([]byte(good)); n != 488 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", strings.Replace(good, "0 failed", "1 failed", 1), strings.Replace(good, "0 errored", "1 errored", 1), strings.Replace(good, "0 4xx", "3 4xx", 1)} {
		if n, err := h2Answers([]byte(bad)); err == nil {
			t.Errorf("%q: %d", bad, n)
		}
	}
}

// Every configuration is written without a place left open, and the table names who was left out.
func TestWrites(t *testing.T) {
	for _, x := range peers("steer", "gateway") {
		dir := t.TempDir()
		if err := x.write(dir, "/work", ports{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		for name := range x.files {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(text) == 0 || strings.Contains(string(text), "@") {
				t.Errorf("%s: %v\n%s", name, err, text)
			}
		}
		if args := x.args(x.program, dir, ports{1, 2, 3}); args[0] != x.program {
			t.Errorf("%v", args)
		}
	}
	r := results{
		samples: []sample{{proxy: "steer", workload: "plain", cpu: 1.5}, {proxy: "haproxy", workload: "plain", cpu: 1}},
		streams: []streamSample{{proxy: "direct", n: 10}, {proxy: "steer", n: 10, memory: 3}}, notes: []string{"a note"},
	}
	r.miss(peer{name: "caddy"}, errors.New("not installed\nlog"))
	out := t.TempDir()
	c := &config{Contest: machine.Contest{Out: out}}
	c.Round()
	if err := r.write(c); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(out, "edge.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| plain | steer | 1.50 (1.50 to 1.50) | 1.50 (1.50 to 1.50) |", "| plain: CPU, to HAProxy's | 1.50 (1.50 to 1.50) | at most 1.30 | 1.00 | missed |", "- a note\n- caddy: not installed\n", "| 10 | steer | 3.0 (3.0 to 3.0) |"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
}
