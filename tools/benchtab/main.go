// Command benchtab runs the benchmarks under bench/ and writes what they measured: one JSON file a benchmark and a
// table for people, with the bar each figure is held against.
//
// Usage: benchtab [-bars FILE] [-out DIR] [-count N] [-time D] [-run REGEXP]
// [-gate FACTOR], from the root of the repository. It
// reports; it does not fail on a missed bar, since a shared machine may be slow today, but for one that is missed by a
// factor (-gate). Counts of bytes and allocations are gated by tests.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	var c config
	flag.StringVar(&c.bars, "bars", "bench/bars.tsv", "`file` of bars: benchmark, unit, at most, where it comes from")
	flag.StringVar(&c.out, "out", "bench/results", "`folder` for the results")
	flag.IntVar(&c.count, "count", 6, "rounds of every benchmark; all run once before any runs again")
	flag.StringVar(&c.time, "time", "1s", "go test's -benchtime")
	flag.StringVar(&c.run, "run", ".", "`regexp` of the benchmarks to run")
	flag.Float64Var(&c.gate, "gate", 0, "fail when a median is above this many times its bar; 0: report only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := measure(ctx, c, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchtab:", err)
		os.Exit(1)
	}
}

type config struct {
	bars, out, time, run string
	count                int
	gate                 float64
}

// machine is what a figure means little without.
type machine struct {
	CPU    string  `json:"cpu"`
	Cores  int     `json:"cores"`
	Go     string  `json:"go"`
	OS     string  `json:"os"`
	Steal  float64 `json:"steal"`  // share of the CPU time that the host took during the run, 0..1
	Others float64 `json:"others"` // share that other programs on the machine took, 0..1
	Date   string  `json:"date"`
	Commit string  `json:"commit"`
}

func measure(ctx context.Context, c config, out io.Writer) error {
	bars, err := readBars(c.bars)
	if err != nil {
		return err
	}
	before := cpuTimes()
	results, err := rounds(ctx, c, out)
	if err != nil {
		return err
	}
	m := thisMachine(before)
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	for _, r := range results {
		r.judge(bars)
		data, err := json.MarshalIndent(struct {
			*result
			Machine machine `json:"machine"`
		}{r, m}, "", "  ")
		if err != nil {
			return fmt.Errorf("result %s: %w", r.Name, err)
		}
		if err := os.WriteFile(filepath.Join(c.out, r.fileName()), append(data, '\n'), 0o644); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	page := table(results, m)
	if err := os.WriteFile(filepath.Join(c.out, "README.md"), []byte(page), 0o644); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	fmt.Fprint(out, "\n", page)
	return missed(results, c.gate)
}

// missed is an error that names every figure above factor times its bar. A bar of 0 (allocations) is not stretched.
func missed(results []*result, factor float64) error {
	var errs []error
	for _, r := range results {
		for unit, f := range r.Figures {
			if factor > 0 && f.Bar != nil && f.Median > *f.Bar*factor {
				errs = append(errs, fmt.Errorf("%s: %s %s, want at most %s (%g x %s)", r.Name, number(f.Median), unit,
					number(*f.Bar*factor), factor, number(*f.Bar)))
			}
		}
	}
	return errors.Join(errs...)
}

// rounds runs every benchmark c.count times, all of them in each round, so that a slow minute of the machine falls on
// all alike.
func rounds(ctx context.Context, c config, out io.Writer) ([]*result, error) {
	byName := map[string]*result{}
	var order []*result
	for range c.count {
		cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench="+c.run, "-benchmem", "-benchtime="+c.time, "-timeout=20m", "./bench/...")
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go test -bench: %w\n%s", err, text)
		}
		for s := bufio.NewScanner(strings.NewReader(string(text))); s.Scan(); {
			name, values, ok := parseLine(s.Text())
			if !ok {
				continue
			}
			fmt.Fprintln(out, s.Text())
			r := byName[name]
			if r == nil {
				r = &result{Name: name, samples: map[string][]float64{}}
				byName[name] = r
				order = append(order, r)
			}
			for unit, v := range values {
				r.samples[unit] = append(r.samples[unit], v)
			}
		}
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("no benchmark matches %q", c.run)
	}
	return order, nil
}

// parseLine reads a line of go test -bench: name-procs, iterations, then pairs of value and unit.
func parseLine(line string) (name string, values map[string]float64, ok bool) {
	f := strings.Fields(line)
	if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
		return "", nil, false
	}
	name = strings.TrimPrefix(f[0], "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			name = name[:i]
		}
	}
	values = map[string]float64{}
	for i := 2; i+1 < len(f); i += 2 {
		v, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			return "", nil, false
		}
		values[f[i+1]] = v
	}
	return name, values, true
}

func thisMachine(before []float64) machine {
	m := machine{
		CPU: "unknown", Cores: runtime.NumCPU(), Go: goVersion(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Date: time.Now().UTC().Format(time.DateOnly),
	}
	m.Steal, m.Others = shares(before, cpuTimes(), ownSeconds())
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				m.CPU = strings.Trim(name, " \t:\n")
				break
			}
		}
	}
	if data, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(data))
	}
	return m
}

// goVersion is that of the go command that builds the benchmarks, which may be another than built this program.
func goVersion() string {
	data, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		return runtime.Version()
	}
	return strings.TrimSpace(string(data))
}

// cpuTimes is the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, in ticks.
func cpuTimes() []float64 {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil
	}
	line, _, _ := strings.Cut(string(data), "\n")
	var times []float64
	for _, f := range strings.Fields(line)[1:] {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil
		}
		times = append(times, v)
	}
	return times
}

// ownSeconds is the CPU time of this program's children so far: of go test, its compilers and the benchmarks.
func ownSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// ticks is how often a second /proc/stat counts (USER_HZ, which Linux fixes at 100 for programs).
const ticks = 100

// shares are the parts of all CPU time between two readings that the host took, and that other programs took; 0 where
// the system does not tell.
func shares(before, after []float64, own float64) (steal, others float64) {
	if len(before) < 8 || len(after) < 8 {
		return 0, 0
	}
	var all float64
	for i := range 8 {
		all += after[i] - before[i]
	}
	if all == 0 {
		return 0, 0
	}
	steal = after[7] - before[7]
	idle := after[3] - before[3] + after[4] - before[4]
	return steal / all, max(0, all-idle-steal-own*ticks) / all
}
