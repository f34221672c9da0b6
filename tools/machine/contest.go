package machine

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Contest is a measurement of programs beside each other, as the command line asks for it: they are on the first core, this
// program and all who ask them on the second.
type Contest struct {
	Name    string // of the command
	Steer   string // our program
	Out     string // folder for the results
	Only    string // names of those that take part, divided by commas; empty: see Flags
	Rounds  int
	Seconds int // of load, each
	Alone   bool

	began  time.Time
	before Times
	loads  []float64 // of the machine, at each round
}

// Flags are the flags of a contest; its fields are what they are by default. Who takes part is such as "servers", and all is who
// does if none are named.
func (c *Contest) Flags(who, all string) {
	flag.StringVar(&c.Steer, "steer", "bin/steer", "our `program`")
	flag.StringVar(&c.Out, "out", "bench/results", "`folder` for the results")
	flag.StringVar(&c.Only, "only", "", "`names` of "+who+", divided by commas; empty: "+all)
	flag.BoolVar(&c.Alone, "alone", false, "run in a cpu cgroup that goes before everything else on the machine")
	flag.IntVar(&c.Rounds, "rounds", c.Rounds, "rounds; each has all "+who+" do every workload")
	flag.IntVar(&c.Seconds, "seconds", c.Seconds, "of load, each")
}

// Main runs a command until it is interrupted, and ends the process if it fails.
func (c *Contest) Main(run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
		os.Exit(1)
	}
}

// Begin sees that there is what a contest needs, puts this process on the second core, and looks at the machine. Needs are
// programs, with the package of Debian that has each. The function it returns takes back what Alone did.
func (c *Contest) Begin(needs map[string]string) (end func(), err error) {
	if runtime.NumCPU() < 2 {
		return nil, errors.New("one core: who asks would take from who answers")
	}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("%s is not installed: apt-get install %s", name, needs[name])
		}
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil { // before time is spent on what cannot be kept
		return nil, err
	}
	// What looks at answers is a client, too: it stays off the core of who answers.
	if err := Pin(1); err != nil {
		return nil, err
	}
	end = func() {}
	if c.Alone {
		if end, err = Aside(c.Name); err != nil {
			return nil, fmt.Errorf("-alone: %w", err)
		}
	}
	c.began, c.before = time.Now(), TimesNow()
	return end, nil
}

// Wants reports whether a name is among those of a flag; empty are all.
func Wants(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// Round notes what the machine does as a round begins.
func (c *Contest) Round() { c.loads = append(c.loads, Load()) }

// Turn is the order of a round: whoever comes first may find the machine cooler.
func Turn[T any](all []T, round int) []T {
	order := slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// Written is how a page of results begins: when, of which commit, on which machine, and what else that did. Target is the one of
// make that wrote it.
func (c *Contest) Written(target string) string {
	var load Spread
	if len(c.loads) > 0 {
		load = SpreadOf(c.loads)
	}
	return fmt.Sprintf("Written by `make %s`, %s, commit %s, %d cores, %s, in %.0f minutes. The host took %.1f %% of the time; the load average was %s at the rounds; the run itself is about 2.",
		target, time.Now().UTC().Format(time.DateOnly), Commit(), runtime.NumCPU(), runtime.GOOS+"/"+runtime.GOARCH, time.Since(c.began).Minutes(), 100*Steal(c.before), load.Text(1))
}

// Write writes results as name.json, with the commit, and name.md, and prints the page. Without a round it is an error: results of
// before are not written over with nothing.
func (c *Contest) Write(name string, values map[string]any, page string) error {
	if len(c.loads) == 0 {
		return errors.New("nothing was measured: no round has taken place")
	}
	values = maps.Clone(values)
	values["commit"] = Commit()
	data, err := json.MarshalIndent(values, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.Out, name+".json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Print("\n", page)
	return os.WriteFile(filepath.Join(c.Out, name+".md"), []byte(page), 0o644)
}
