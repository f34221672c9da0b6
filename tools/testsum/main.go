// Command testsum runs go test for make and CI and says in a few lines what a person needs: one line a package,
// every failing test's output in full, and how many tests passed, failed and were skipped, with the reasons.
//
// A run that executed no test is a failure: a green light over nothing is worse than a red one.
//
//	testsum run -name N [-record FILE] [SELECTION] -- ARGS...
//	        go test -json ARGS on every package with tests that SELECTION does not leave out, read and counted;
//	        SELECTION is any of -linking PREFIX,... [-or-mentioning WORD], -not-linking PREFIX,..., -only PACKAGE,...,
//	        -except PACKAGE,...
//	testsum fuzz -name N [-record FILE] -time 10s [-jobs 2] [-blind] [-not-linking PREFIX,...] [-in PREFIX,...] [-keep N]
//	             [-corpus FOLDER] [-ledger FILE -until 30m]
//	        every fuzz target of the module, found by itself; with -keep, the N smallest inputs of each that reached
//	        something new go to testdata, where every test runs them
//	testsum total FILE...
//	        the counts of recorded runs, added up
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// errRed says that the report already printed says what is wrong.
var errRed = errors.New("not all green")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, errRed):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(2)
	}
}

func dispatch(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("which of run, fuzz, total?")
	}
	command, args := args[0], args[1:]
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	switch command {
	case "run":
		name, record := flags.String("name", "tests", "what the run is called"), flags.String("record", "", "`file` for the counts")
		var sel selection
		flags.StringVar(&sel.linking, "linking", "", "only packages whose tests link a package with one of these `prefixes`, divided by commas")
		flags.StringVar(&sel.orMentioning, "or-mentioning", "", "with -linking: and those in whose test files this `word` stands")
		flags.StringVar(&sel.notLinking, "not-linking", "", "only packages whose tests link none with these `prefixes`")
		flags.StringVar(&sel.except, "except", "", "leave out these `packages`, divided by commas")
		flags.StringVar(&sel.only, "only", "", "these `packages` alone, divided by commas")
		if err := flags.Parse(args); err != nil {
			return err
		}
		all, err := testPackages(ctx)
		if err != nil {
			return err
		}
		selected, err := sel.of(all)
		if err != nil {
			return err
		}
		args := append(flags.Args(), selected...)
		if len(selected) == 0 {
			return fmt.Errorf("%s: no package to test", *name)
		}
		return runTests(ctx, out, *name, *record, args)
	case "fuzz":
		name, record := flags.String("name", "fuzz", "what the run is called"), flags.String("record", "", "`file` for the counts")
		each, jobs := flags.Duration("time", 0, "how long each target runs"), flags.Int("jobs", 2, "targets at a time")
		notLinking := flags.String("not-linking", "", "leave out packages whose tests link one with these `prefixes`")
		in := flags.String("in", "", "only packages with these `prefixes`")
		blind := flags.Bool("blind", false, "build no binary apart for it: nothing guides the inputs")
		keep := flags.Int("keep", 0, "new `inputs` of each target to put into testdata")
		corpus := flags.String("corpus", "", "`folder` in which new inputs gather from run to run")
		ledger := flags.String("ledger", "", "`file` with what was ever run; -time is then a slice")
		until := flags.Duration("until", 0, "with -ledger: processor time of all runs of a target after which it is done")
		if err := flags.Parse(args); err != nil {
			return err
		}
		if *each <= 0 || *jobs <= 0 {
			return errors.New("fuzz: -time and -jobs must be positive")
		}
		return runFuzz(ctx, out, fuzzPlan{
			name: *name, record: *record, each: *each, jobs: *jobs, blind: *blind, notLinking: *notLinking, in: *in, keep: *keep,
			corpus: *corpus, ledger: *ledger, until: *until,
		})
	case "total":
		return total(out, args)
	default:
		return fmt.Errorf("no command %q: run, fuzz or total", strings.TrimSpace(command))
	}
}
