package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A ledger says how long each target was ever fuzzed: processor seconds, not those of the clock, since a machine with
// other work gives a run few of them. Its lines are divided by tabs: package, target, day, commit, processor seconds,
// executions. A run that is ended loses the slice it was in, no more.
const ledgerHead = "# package\ttarget\tday\tcommit\tprocessor seconds\texecutions\n"

// ledgerLock orders the lines of targets that run side by side.
var ledgerLock sync.Mutex

// due leaves out the targets whose runs on record took long enough.
func (p *fuzzPlan) due(targets []target) ([]target, error) {
	spent, err := readLedger(p.ledger)
	if err != nil {
		return nil, err
	}
	var left []target
	for _, t := range targets {
		if spent[t.pkg+" "+t.name] < p.until {
			left = append(left, t)
		}
	}
	return left, nil
}

// runTarget runs a target once or, with a ledger, slice after slice until all its runs took long enough.
func (p *fuzzPlan) runTarget(ctx context.Context, t target, corpus string) result {
	for {
		text, cpu, err := t.run(ctx, p.each, corpus)
		if p.ledger == "" || err != nil {
			return result{t, err, text}
		}
		if err := p.enter(ctx, t, cpu, executions(text)); err != nil {
			return result{t, err, text}
		}
		spent, err := readLedger(p.ledger)
		if err != nil || spent[t.pkg+" "+t.name] >= p.until {
			return result{t, err, text}
		}
	}
}

// readLedger adds up the processor time of each "package target". No file is an empty ledger.
func readLedger(file string) (map[string]time.Duration, error) {
	ledgerLock.Lock()
	defer ledgerLock.Unlock()
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	spent := map[string]time.Duration{}
	for l := range strings.Lines(string(data)) {
		if strings.HasPrefix(l, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(l), "\t")
		if len(f) != 6 {
			return nil, fmt.Errorf("ledger: %s: a line of %d fields, want 6: %q", file, len(f), l)
		}
		seconds, err := strconv.Atoi(f[4])
		if err != nil {
			return nil, fmt.Errorf("ledger: %s: processor seconds %q: %w", file, f[4], err)
		}
		spent[f[0]+" "+f[1]] += time.Duration(seconds) * time.Second
	}
	return spent, nil
}

// enter adds the line of one slice.
func (p *fuzzPlan) enter(ctx context.Context, t target, cpu time.Duration, execs uint64) error {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("ledger: commit: %w", err)
	}
	ledgerLock.Lock()
	defer ledgerLock.Unlock()
	f, err := os.OpenFile(p.ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	head := ""
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		head = ledgerHead
	}
	_, err = fmt.Fprintf(f, "%s%s\t%s\t%s\t%s\t%.0f\t%d\n",
		head, t.pkg, t.name, time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)), cpu.Seconds(), execs)
	return errors.Join(err, f.Close())
}

// executions is the count in the fuzzer's last line of progress; 0: it has none.
func executions(text string) uint64 {
	_, rest, ok := strings.Cut(lastProgress(text), "execs: ")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
