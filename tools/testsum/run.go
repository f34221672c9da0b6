package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json (see go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output
	Test        string
	Output      string
	FailedBuild string
}

// reader turns the events of a run into a report. The zero value is not usable: see newReader.
type reader struct {
	out    io.Writer
	counts counts
	output map[[2]string]*strings.Builder // by package and test; "" is the package itself
	failed map[string]bool                // packages with a failed test
	built  map[string]*strings.Builder    // compiler output by import path
}

func newReader(out io.Writer, name string) *reader {
	return &reader{
		out:    out,
		counts: counts{Name: name},
		output: map[[2]string]*strings.Builder{},
		failed: map[string]bool{},
		built:  map[string]*strings.Builder{},
	}
}

// runTests runs go test -json with args and reports on it.
func runTests(ctx context.Context, out io.Writer, name, record string, args []string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second // long enough for go test to end the test binaries and say so
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	r := newReader(out, name)
	readErr := r.read(pipe)
	waitErr := cmd.Wait()
	r.counts.Took = time.Since(start)
	if readErr != nil {
		return readErr
	}
	if waitErr != nil && r.counts.Failed == 0 {
		// Bad flags, no such package, killed: go test failed, and no test did.
		fmt.Fprintf(out, "%s: go test: %v\n", name, waitErr)
		r.counts.Failed = 1
	}
	return r.counts.finish(out, record)
}

// read takes events until the stream ends. A line that is no event is passed on as it is.
func (r *reader) read(in io.Reader) error {
	buf := bufio.NewReader(in)
	for {
		line, err := buf.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(r.out, "%s", line)
			} else {
				r.take(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("go test output: %w", err)
		}
	}
}

func (r *reader) take(e event) {
	switch e.Action {
	case "build-output":
		buffer(r.built, e.ImportPath).WriteString(e.Output)
	case "output":
		buffer(r.output, [2]string{e.Package, e.Test}).WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageDone(e)
		} else {
			r.testDone(e)
		}
	}
}

func buffer[K comparable](m map[K]*strings.Builder, k K) *strings.Builder {
	b := m[k]
	if b == nil {
		b = &strings.Builder{}
		m[k] = b
	}
	return b
}

func (r *reader) testDone(e event) {
	key := [2]string{e.Package, e.Test}
	text := buffer(r.output, key).String()
	delete(r.output, key)
	switch e.Action {
	case "pass":
		r.counts.Passed++
	case "skip":
		r.counts.Skipped++
		r.counts.Skips = append(r.counts.Skips, skip{e.Package, e.Test, reason(text)})
	case "fail":
		r.counts.Failed++
		r.failed[e.Package] = true
		fmt.Fprintf(r.out, "FAIL: %s %s\n%s", e.Package, e.Test, indent(text))
		if !r.parent(e) {
			r.counts.Failures = append(r.counts.Failures, newFailure(e.Package, e.Test, text))
		}
	}
}

// parent reports whether a failed test failed by a subtest, which was told before it.
func (r *reader) parent(e event) bool {
	return slices.ContainsFunc(r.counts.Failures, func(f failure) bool {
		return f.Package == e.Package && strings.HasPrefix(f.Test, e.Test+"/")
	})
}

// packageDone prints go test's own closing line for the package, and all it said when the package failed by itself.
func (r *reader) packageDone(e event) {
	text := buffer(r.output, [2]string{e.Package, ""}).String()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if e.Action == "fail" && !r.failed[e.Package] {
		r.counts.Failed++
		said := ""
		if b := r.built[e.FailedBuild]; b != nil {
			said = b.String()
			fmt.Fprint(r.out, indent(said))
		}
		for key, b := range r.output {
			if key[0] == e.Package && key[1] != "" { // a test that never ended: its panic is among its output
				fmt.Fprintf(r.out, "FAIL: %s %s did not end\n%s", e.Package, key[1], indent(b.String()))
				said += b.String()
			}
		}
		fmt.Fprint(r.out, indent(text))
		r.counts.Failures = append(r.counts.Failures, newFailure(e.Package, "as a whole", said+text))
	}
	for _, l := range lines {
		if closing(l) {
			fmt.Fprintln(r.out, l)
		}
	}
	for key := range r.output {
		if key[0] == e.Package {
			delete(r.output, key)
		}
	}
}

// closing reports whether l is the line go test ends a package with.
func closing(l string) bool {
	return strings.HasPrefix(l, "ok  \t") || strings.HasPrefix(l, "FAIL\t") || strings.HasPrefix(l, "?   \t") ||
		strings.HasPrefix(l, "-test.shuffle")
}

// maxReason bounds a reason: a script that is skipped says its whole session behind it.
const maxReason = 200

// reason is what a skipped test said: its output less the frame around it.
func reason(text string) string {
	var said []string
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "=== ") || strings.HasPrefix(l, "--- ") {
			continue
		}
		said = append(said, l)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	r := []rune(strings.Join(said, " "))
	if len(r) > maxReason {
		return string(r[:maxReason]) + " [...]"
	}
	return string(r)
}

func indent(text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		b.WriteString("    ")
		b.WriteString(l)
	}
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}
