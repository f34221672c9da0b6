package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tourStep is one command of the README's tour and what it is said to print.
type tourStep struct {
	command string
	output  []string // each must be contained in a line of the output
}

// tour reads the steps of every fenced console block: a line that begins with "$ " is a command, what follows up to
// the next one is output.
func tour(readme string) []tourStep {
	var steps []tourStep
	inside := false
	for line := range strings.Lines(readme) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside || strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, tourStep{command: line[2:]})
		case len(steps) > 0:
			last := &steps[len(steps)-1]
			last.output = append(last.output, strings.TrimSpace(line))
		}
	}
	return steps
}

// TestTour walks the README's ten-minute tour, command by command, against a demo that runs as `make up` runs it.
// Output is matched loosely: each line shown must be contained in the real output, with any run of blanks equal to
// any other. A command is repeated until it is so, as a reader would look again.
// Covers: issue2 tour, issue2 demo, issue6 demo, C2, C4, C5, C6
func TestTour(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps := tour(string(b))
	if len(steps) < 5 {
		t.Fatalf("the README has %d steps: the tour is not found", len(steps))
	}
	dir := t.TempDir()
	t.Setenv("STEER_DATA", dir)
	t.Setenv("NO_COLOR", "1")
	// Nothing of whoever runs the test.
	for _, name := range []string{"STEER_SERVER", "STEER_TOKEN", "STEER_CA"} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	startDemo(t)
	gateway := gatewayPort(t)
	_, noCurl := exec.LookPath("curl")
	for _, s := range steps {
		if strings.Contains(s.command, "curl ") && noCurl != nil {
			t.Logf("left out, since there is no curl here: %s", s.command)
			continue
		}
		// The README has the usual port, which another demo on this machine may have.
		s.command = strings.ReplaceAll(s.command, "localhost:8080/", "localhost:"+gateway+"/")
		// 60s: a switch needs three probes a second apart, a return ten seconds more, on a machine that is busy.
		if out, ok := shows(t.Context(), s, time.Minute); !ok {
			t.Fatalf("$ %s\ngave\n%s\nthe README shows\n%s", s.command, out, strings.Join(s.output, "\n"))
		}
	}
}

// startDemo runs `steer up --demo` on free ports until the test ends, and asserts that it stops cleanly.
func startDemo(t *testing.T) {
	t.Helper()
	launch(t, "steer", "up", "--demo", "--listen", "dns=127.0.0.1:0", "--listen", "api=127.0.0.1:0").by = syscall.SIGINT // as of Ctrl-C
	if out, ok := shows(t.Context(), tourStep{command: "steer status", output: []string{"shop.gslb.example.net"}}, startWait); !ok {
		t.Fatalf("the demo did not start:\n%s", out)
	}
}

// gatewayPort is the port that the demo's gateway took.
func gatewayPort(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "steer", "status", "-o", "json").Output()
	var s struct{ Listeners map[string]string }
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(s.Listeners["http"])
	if err != nil {
		t.Fatalf("the demo's gateway: %v, in %v", err, s.Listeners)
	}
	return port
}

// shows runs a step until it succeeds and prints what it should, for at most d.
func shows(ctx context.Context, s tourStep, d time.Duration) (out string, ok bool) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(poll) {
		b, err := exec.CommandContext(ctx, "sh", "-c", s.command).CombinedOutput()
		if out = string(b); err == nil && contains(out, s.output) {
			return out, true
		}
	}
	return out, false
}

func contains(out string, lines []string) bool {
	flat := strings.Join(strings.Fields(out), " ")
	for _, l := range lines {
		if !strings.Contains(flat, strings.Join(strings.Fields(l), " ")) {
			return false
		}
	}
	return true
}

func TestTourIsRead(t *testing.T) {
	steps := tour("text\n```console\n$ one\nout  1\n\n$ two\n```\n$ no\n```yaml\n$ no\n```\n")
	if len(steps) != 2 || steps[0].command != "one" || len(steps[0].output) != 1 || steps[1].command != "two" {
		t.Errorf("steps: %+v", steps)
	}
	if !contains("a   b\nc", []string{"a b"}) || contains("a b", []string{"b a"}) {
		t.Error("lines are compared wrongly")
	}
}
