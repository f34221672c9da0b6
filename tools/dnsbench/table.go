package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// row is one workload of one server over all rounds.
type row struct {
	Workload string  `json:"workload"`
	Server   string  `json:"server"`
	Rounds   int     `json:"rounds"`
	CPU      spread  `json:"cpuSecondsPerMillion"`
	QPS      spread  `json:"qps"`
	Lost     float64 `json:"lost"` // share, of all rounds
}

type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(s []float64) spread {
	slices.Sort(s)
	return spread{(s[(len(s)-1)/2] + s[len(s)/2]) / 2, s[0], s[len(s)-1]}
}

func rows(samples []sample, all []*server) []row {
	var out []row
	for _, w := range workloads {
		for _, s := range all {
			r := row{Workload: w.name, Server: s.name}
			var cpu, qps []float64
			for _, x := range samples {
				if x.server == s.name && x.workload == w.name {
					cpu, qps, r.Lost = append(cpu, x.cpu), append(qps, x.qps), r.Lost+x.lost
				}
			}
			if r.Rounds = len(cpu); r.Rounds > 0 {
				r.CPU, r.QPS, r.Lost = spreadOf(cpu), spreadOf(qps), r.Lost/float64(r.Rounds)
				out = append(out, r)
			}
		}
	}
	return out
}

// cpuTimes is the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
func cpuTimes() (t [8]float64) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t
	}
	line, _, _ := strings.Cut(string(data), "\n")
	_, _ = fmt.Sscan(strings.TrimPrefix(line, "cpu"), &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) // zeros: not known
	return t
}

// steal is the share of the time that the host took since before.
func steal(before [8]float64) float64 {
	after := cpuTimes()
	var all float64
	for i := range after {
		all += after[i] - before[i]
	}
	if all == 0 {
		return 0
	}
	return (after[7] - before[7]) / all
}

func write(c config, samples []sample, all []*server, missing []string, before [8]float64) error {
	table := rows(samples, all)
	commit := "unknown"
	if out, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Name servers beside each other\n\nWritten by `make bench-dns`, %s, commit %s, %d cores, %s. The host took %.1f %% of the time.\n"+
		"%d interleaved rounds of %d s: server on core 0 with one worker, dnsperf on core 1, 8 sockets, 200 questions under way.\n"+
		"Loaded: a zone of %d A records (steer: domains of one service); for geo one name by country over a database of %d networks, client subnet %s in the question.\n"+
		"CPU is user and kernel time of all processes of the server; steer is the whole of `steer up`. Medians, smallest and largest.\n\n"+
		"| workload | server | CPU-s a million answers | queries a second | lost |\n| --- | --- | ---: | ---: | ---: |\n",
		time.Now().UTC().Format(time.DateOnly), commit, runtime.NumCPU(), runtime.GOOS+"/"+runtime.GOARCH, 100*steal(before), c.rounds, c.seconds, names, networks, subnet)
	for _, r := range table {
		fmt.Fprintf(&b, "| %s | %s | %.2f (%.2f to %.2f) | %.0f (%.0f to %.0f) | %.3f %% |\n",
			r.Workload, r.Server, r.CPU.Median, r.CPU.Min, r.CPU.Max, r.QPS.Median, r.QPS.Min, r.QPS.Max, 100*r.Lost)
	}
	if len(missing) > 0 {
		fmt.Fprintf(&b, "\nNot installed, not measured: %s.\n", strings.Join(missing, ", "))
	}
	data, err := json.MarshalIndent(map[string]any{"commit": commit, "rows": table, "missing": missing}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.out, "dns.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Print("\n", b.String())
	return os.WriteFile(filepath.Join(c.out, "dns.md"), []byte(b.String()), 0o644)
}
