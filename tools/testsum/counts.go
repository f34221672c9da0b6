package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// counts is what one run came to. Every named test and subtest counts once; a package that failed without a failed
// test (it did not build, it panicked outside a test) counts as one failure.
type counts struct {
	Name    string `json:"name"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
	Skips   []skip `json:"skips,omitempty"`
	// Failures are told once more at the end: of a long run people, and pages that show a part of it, see the end.
	Failures []failure     `json:"failures,omitempty"`
	Took     time.Duration `json:"took"` // nanoseconds
}

// failure is one test that failed, and the end of what it said.
type failure struct {
	Package string `json:"package"`
	Test    string `json:"test"`
	End     string `json:"end"`
}

// failureLines is how much of each failure is told again.
const failureLines = 25

func newFailure(pkg, test, text string) failure {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return failure{pkg, test, strings.Join(lines[max(0, len(lines)-failureLines):], "\n")}
}

// skip is one test that did not run, and why.
type skip struct {
	Package string `json:"package"`
	Test    string `json:"test"`
	Reason  string `json:"reason"`
}

func (c *counts) add(d counts) {
	c.Passed += d.Passed
	c.Failed += d.Failed
	c.Skipped += d.Skipped
	c.Took += d.Took
	c.Skips = append(c.Skips, d.Skips...)
	c.Failures = append(c.Failures, d.Failures...)
}

func (c *counts) line() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
}

// verdict prints the skips and the counts, records them, and is errRed unless tests ran and none failed.
func (c *counts) finish(out io.Writer, record string) error {
	c.printSkips(out)
	c.printFailures(out)
	fmt.Fprintf(out, "%s: %s in %s\n", c.Name, c.line(), c.Took.Round(time.Second))
	if record != "" {
		data, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return fmt.Errorf("counts: %w", err)
		}
		if err := os.MkdirAll(filepath.Dir(record), 0o755); err != nil {
			return fmt.Errorf("counts: %w", err)
		}
		if err := os.WriteFile(record, append(data, '\n'), 0o644); err != nil {
			return fmt.Errorf("counts: %w", err)
		}
	}
	return c.colour(out)
}

func (c *counts) printSkips(out io.Writer) {
	for _, s := range c.Skips {
		fmt.Fprintf(out, "skipped %s %s: %s\n", s.Package, s.Test, s.Reason)
	}
}

func (c *counts) printFailures(out io.Writer) {
	for _, f := range c.Failures {
		fmt.Fprintf(out, "failed %s %s, which ended:\n%s", f.Package, f.Test, indent(f.End+"\n"))
	}
}

// colour is errRed unless tests ran and none failed.
func (c *counts) colour(out io.Writer) error {
	switch {
	case c.Failed > 0:
		return errRed
	case c.Passed == 0:
		fmt.Fprintf(out, "%s: no test ran\n", c.Name)
		return errRed
	}
	return nil
}

// total adds up recorded runs and ends on the plain line "N passed, N failed, N skipped".
func total(out io.Writer, files []string) error {
	if len(files) == 0 {
		return errors.New("total: no recorded run named")
	}
	sum := counts{Name: "total"}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return fmt.Errorf("recorded run: %w", err)
		}
		var c counts
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("recorded run %s: %w", f, err)
		}
		fmt.Fprintf(out, "%-44s %5d passed %3d failed %3d skipped %6s\n", c.Name, c.Passed, c.Failed, c.Skipped, c.Took.Round(time.Second))
		sum.add(c)
	}
	sum.printSkips(out)
	sum.printFailures(out)
	fmt.Fprintln(out, sum.line())
	return sum.colour(out)
}
