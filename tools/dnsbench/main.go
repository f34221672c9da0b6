// Command dnsbench measures name servers beside each other: ours and those installed from Debian, each pinned to the
// first core, asked by dnsperf on the second, in rounds that interleave them. It writes one JSON file and a table.
//
// Usage: dnsbench -steer FILE [-rounds N] [-seconds N] [-out DIR] [-only NAME,NAME], on Linux with two cores and dnsperf.
// A peer that is not installed is left out, and the table says so. Every server answers the same zone (1,000 A records)
// and, where it can, one name by the country of the client; before and after each round its answers are looked at.
//
// CPU is what the server's processes used in user and kernel mode; what the kernel does for them in interrupts falls on
// whoever runs then, the same for all.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

type config struct {
	steer, out, only string
	rounds, seconds  int
}

func main() {
	var c config
	flag.StringVar(&c.steer, "steer", "bin/steer", "our `program`")
	flag.StringVar(&c.out, "out", "bench/results", "`folder` for the results")
	flag.StringVar(&c.only, "only", "", "`names` of servers, divided by commas; empty: all")
	flag.IntVar(&c.rounds, "rounds", 10, "rounds; each asks every server every workload")
	flag.IntVar(&c.seconds, "seconds", 3, "of asking, each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := bench(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dnsbench:", err)
		os.Exit(1)
	}
}

// sample is one workload of one server in one round.
type sample struct {
	server, workload string
	cpu              float64 // seconds for a million answers
	qps, lost        float64 // lost: share of what was asked
}

func bench(ctx context.Context, c config) error {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("one core: the client would take from the server")
	}
	if _, err := exec.LookPath("dnsperf"); err != nil {
		return fmt.Errorf("dnsperf is not installed: apt-get install dnsperf")
	}
	work, err := os.MkdirTemp("", "dnsbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := writeData(work); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	all, missing, err := start(ctx, c, work)
	defer func() {
		for _, s := range all {
			s.stop()
		}
	}()
	if err != nil {
		return err
	}
	before := cpuTimes()
	var samples []sample
	for round := range c.rounds {
		order := slices.Clone(all)
		if round%2 == 1 {
			slices.Reverse(order) // whoever comes first may find the machine cooler
		}
		for _, s := range order {
			for _, w := range workloads {
				if w.geo && !s.geo {
					continue
				}
				got, err := s.measure(ctx, c, w, work)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, w.name, err)
				}
				samples = append(samples, got)
				fmt.Printf("%2d %-10s %-8s %6.2f CPU-s/M %8.0f qps %6.3f %% lost\n", round+1, got.server, got.workload, got.cpu, got.qps, 100*got.lost)
			}
		}
	}
	return write(c, samples, all, missing, before)
}

// start starts the servers that are there, all at once: an idle one costs the others nothing.
func start(ctx context.Context, c config, work string) (all []*server, missing []string, err error) {
	for i, p := range peers(c.steer) {
		if c.only != "" && !slices.Contains(strings.Split(c.only, ","), p.name) {
			continue
		}
		if _, err := exec.LookPath(p.program); err != nil {
			missing = append(missing, fmt.Sprintf("%s (apt-get install %s)", p.name, p.packages))
			continue
		}
		s := &server{peer: p, port: firstPort + i, dir: filepath.Join(work, p.name)}
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return all, missing, err
		}
		all = append(all, s)
		if err := s.run(ctx, work); err != nil {
			return all, missing, fmt.Errorf("start %s: %w", p.name, err)
		}
	}
	return all, missing, nil
}

// firstPort is where the first server listens; the others follow.
const firstPort = 15300

// startWait is for a server to give its first answer.
const startWait = 60 * time.Second
