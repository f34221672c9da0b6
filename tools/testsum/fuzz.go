package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// target is one fuzz target, in a test binary built for fuzzing.
type target struct {
	pkg, dir, name, binary string
}

// result is what a target's run came to.
type result struct {
	target
	err  error
	text string
}

// fuzzPlan says what to fuzz, and for how long.
type fuzzPlan struct {
	name, record string
	each         time.Duration
	jobs         int
	blind        bool   // binaries as go test builds them, which say nothing of what an input reached
	notLinking   string // packages whose tests link one with this prefix are left out; "": none is
	in           string // only packages with one of these prefixes, divided by commas; "": all
	keep         int    // how many of the new inputs of each target go to its testdata
	corpus       string // where new inputs gather from run to run; "": for this run only
	ledger       string // a file with a line for each run of a target; "": none
	until        time.Duration
}

// takes reports whether a package is to be fuzzed.
func (p *fuzzPlan) takes(path string) bool {
	return p.in == "" || slices.ContainsFunc(strings.Split(p.in, ","), func(prefix string) bool {
		return path == prefix || strings.HasPrefix(path, prefix+"/")
	})
}

// runFuzz builds every package that has fuzz targets once, instrumented unless blind, and runs each target for the time given.
// Each target runs on one worker and jobs of them side by side: on two cores that is faster than one at a time.
func runFuzz(ctx context.Context, out io.Writer, plan fuzzPlan) error {
	c := counts{Name: plan.name}
	start := time.Now()
	scratch, err := os.MkdirTemp("", "steer-fuzz-")
	if err != nil {
		return fmt.Errorf("fuzz: %w", err)
	}
	defer os.RemoveAll(scratch)
	targets, broken, err := buildTargets(ctx, out, scratch, &plan)
	if err != nil {
		return err
	}
	c.Failed += broken

	corpus := plan.corpus
	if corpus == "" {
		corpus = filepath.Join(scratch, "corpus")
	}
	if plan.ledger != "" {
		if targets, err = plan.due(targets); err != nil {
			return err
		}
	}
	work, results := make(chan target), make(chan result)
	var wg sync.WaitGroup
	for range plan.jobs {
		wg.Go(func() {
			for t := range work {
				results <- plan.runTarget(ctx, t, corpus)
			}
		})
	}
	go func() {
		for _, t := range targets {
			work <- t
		}
		close(work)
		wg.Wait()
		close(results)
	}()
	for r := range results {
		if r.err != nil {
			c.Failed++
			fmt.Fprintf(out, "FAIL: %s %s: %v\n%s", r.pkg, r.name, r.err, indent(r.text))
			continue
		}
		c.Passed++
		fmt.Fprintf(out, "fuzzed %s %s: %s\n", r.pkg, r.name, lastProgress(r.text))
		kept, err := r.keep(corpus, plan.keep)
		if err != nil {
			return err
		}
		if kept > 0 {
			fmt.Fprintf(out, "kept %d inputs of %s in testdata\n", kept, r.name)
		}
	}
	c.Took = time.Since(start)
	return c.finish(out, plan.record)
}

// buildTargets builds the fuzz binaries; broken counts the packages that did not build.
func buildTargets(ctx context.Context, out io.Writer, scratch string, plan *fuzzPlan) (targets []target, broken int, err error) {
	packages, err := testPackages(ctx)
	if err != nil {
		return nil, 0, err
	}
	for i, p := range packages {
		if len(p.fuzz) == 0 || !plan.takes(p.path) {
			continue
		}
		if plan.notLinking != "" && p.links(plan.notLinking) {
			fmt.Fprintf(out, "not fuzzed here: %s links %s\n", p.path, plan.notLinking)
			continue
		}
		binary := filepath.Join(scratch, fmt.Sprintf("%d.test", i))
		// Vet has its own step, and nobody debugs these: -w leaves out what a debugger reads, most of the linker's work.
		args := []string{"test", "-vet=off", "-ldflags=-w", "-c", "-o", binary}
		if !plan.blind {
			args = append(args, "-fuzz=.")
		}
		cmd := exec.CommandContext(ctx, "go", append(args, p.path)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			broken++
			fmt.Fprintf(out, "FAIL: %s does not build for fuzzing: %v\n%s", p.path, err, indent(string(text)))
			continue
		}
		for _, name := range p.fuzz {
			targets = append(targets, target{p.path, p.dir, name, binary})
		}
	}
	return targets, broken, nil
}

// run fuzzes one target. New inputs of the run go to a scratch corpus; a failing input is written to the package's
// testdata/fuzz, where go test finds it again.
func (t target) run(ctx context.Context, each time.Duration, corpus string) (text string, cpu time.Duration, err error) {
	cmd := exec.CommandContext(
		ctx, t.binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+each.String(),
		"-test.fuzzminimizetime=5s", "-test.parallel=1", "-test.timeout="+(each+5*time.Minute).String(),
		"-test.fuzzcachedir="+filepath.Join(corpus, t.pkg),
	)
	cmd.Dir = t.dir
	out, err := cmd.CombinedOutput()
	if p := cmd.ProcessState; p != nil {
		cpu = p.UserTime() + p.SystemTime() // of its workers too: it has waited for them
	}
	return string(out), cpu, err
}

// keep copies the n smallest of the new inputs to the package's testdata.
func (t target) keep(corpus string, n int) (kept int, err error) {
	type input struct {
		path string
		size int64
	}
	var all []input
	entries, err := os.ReadDir(filepath.Join(corpus, t.pkg, t.name))
	if err != nil || n == 0 {
		return 0, nil // it found nothing new
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		all = append(all, input{filepath.Join(corpus, t.pkg, t.name, e.Name()), info.Size()})
	}
	slices.SortFunc(all, func(a, b input) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.path, b.path)) })
	to := filepath.Join(t.dir, "testdata", "fuzz", t.name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return 0, err
	}
	for _, in := range all[:min(n, len(all))] {
		data, err := os.ReadFile(in.path)
		if err != nil {
			return kept, err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(in.path)), data, 0o644); err != nil {
			return kept, err
		}
		kept++
	}
	return kept, nil
}

// lastProgress is the fuzzer's last word on how far it came.
func lastProgress(text string) string {
	last := "no progress line"
	for l := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(l), "fuzz: elapsed: "); ok {
			last = rest
		}
	}
	return last
}
