package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/spec"
	"steerpoint/steering"
	"steerpoint/steering/steertest"
)

func (a *app) replayCommand() *cobra.Command {
	var with string
	var x exportOptions
	c := &cobra.Command{
		Use:   "replay {FILE | --export SERVICE}",
		Short: "Run a timeline of probe results through the decision core, or export a recorded one",
		Long: `Run a timeline through the decision core, as fast as it goes.

One JSON line a decision goes to standard output. Each expectation of the file that does not hold is a line on
standard error, and the exit code is then 1. With --with the resources of another file hold from the start, and the
expectations are left out: what would have happened under these rules? The differences go to standard error.

With --export the server gives what it recorded of a service, as such a timeline: what probe points saw, what operators
did, and what was decided. Replayed, it gives the same decisions.`,
		Example: "  steer replay --export shop --since 24h -o day.txtar\n" +
			"  steer replay day.txtar --with new.yaml",
		Args: x.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if x.service != "" {
				return a.exportTape(cmd, &x)
			}
			data, err := a.readFile(args[0])
			if err != nil {
				return err
			}
			tl, err := steertest.Parse(args[0], data)
			if err != nil {
				return badTimeline(err)
			}
			if with != "" {
				return a.replayWith(tl, with)
			}
			r, err := tl.Run(loadRules, steertest.Options{})
			if err != nil {
				return badTimeline(err)
			}
			if err := errors.Join(r.WriteSwitches(a.out), r.WriteFailures(a.errs)); err != nil {
				return err
			}
			if len(r.Failures) > 0 {
				return fault.NotSo()
			}
			return nil
		},
	}
	c.Flags().StringVar(&with, "with", "", "resources that hold instead of the timeline's own")
	x.flags(c)
	return c
}

func (a *app) replayWith(tl *steertest.Timeline, with string) error {
	data, err := a.readFile(with)
	if err != nil {
		return err
	}
	d, err := tl.Compare(loadRules, steertest.Section{Name: with, Data: data})
	if err != nil {
		return badTimeline(err)
	}
	for _, n := range d.After.Notes {
		a.progress("note: %s", n)
	}
	if d.Same() {
		a.progress("the same would have happened")
	}
	for _, l := range d.Lines() {
		a.progress("%s", l)
	}
	return d.After.WriteSwitches(a.out)
}

func badTimeline(err error) error {
	e := fault.BadInput("TIMELINE_INVALID", "the timeline cannot be run", err.Error(), "")
	e.Err = err
	return e
}

// readFile reads a file named on the command line; - is standard input.
func (a *app) readFile(path string) ([]byte, error) {
	var b []byte
	var err error
	if path == "-" {
		b, err = io.ReadAll(a.in)
	} else {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		e := fault.BadInput("FILE_UNREADABLE", "cannot read "+path, err.Error(), "")
		e.Err = err
		return nil, e
	}
	return b, nil
}

// loadRules compiles the Service resources of one section of a timeline, as control does it for live ones.
func loadRules(name string, data []byte, points []string) ([]steering.RuleConfig, error) {
	docs, errs := spec.Parse(filepath.Base(name), data)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	all := make([]steering.Point, len(points))
	for i, p := range points {
		all[i] = steering.Point{Name: p}
	}
	var rules []steering.RuleConfig
	for i := range docs {
		if docs[i].Service == nil {
			continue
		}
		rs, _ := docs[i].Service.RuleConfigs(all) // warnings are about points, which a timeline has as it has them
		rules = append(rules, rs...)
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("%s holds no Service", strings.TrimPrefix(name, "./"))
	}
	return rules, nil
}
