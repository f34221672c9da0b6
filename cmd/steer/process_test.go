package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steerpoint/control/api"
)

// started is a process that runs until the test ends.
type started struct {
	cmd  *exec.Cmd
	log  *processLog
	stop func()    // idempotent: a second signal would not let it end in order
	by   os.Signal // what it is stopped by
	dns  string    // where its name server answers, of startProcess
}

// launch runs a program until the test ends, and asserts that it stops cleanly.
func launch(t *testing.T, program string, args ...string) *started {
	t.Helper()
	n := &started{cmd: exec.Command(program, args...), log: &processLog{}, by: syscall.SIGTERM}
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.stop = sync.OnceFunc(func() {
		if err := n.cmd.Process.Signal(n.by); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		n.stop()
		if err := n.cmd.Wait(); err != nil {
			t.Errorf("%s did not stop cleanly: %v", args[0], err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", args[0], n.log)
		}
	})
	return n
}

// serving is what a process prints when its name server answers.
const serving = "name server on"

// startProcess launches a program with a name server, and waits until that answers.
func startProcess(t *testing.T, program string, args ...string) *started {
	t.Helper()
	n := launch(t, program, args...)
	n.log.await(t, serving, 1)
	n.dns = regexp.MustCompile(serving + ` (\S+),`).FindStringSubmatch(n.log.String())[1]
	return n
}

func (n *started) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// operator is a client of the control on a data folder, once that listens.
func operator(t *testing.T, data string) *api.Client {
	t.Helper()
	address := listener(t, data, "api")
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return api.NewClient("http://"+address, strings.TrimSpace(string(token)))
}

// applySite applies what is configured.
func applySite(t *testing.T, control *api.Client, yaml string) {
	t.Helper()
	if _, err := control.Apply(t.Context(), api.ApplyRequest{Sources: []api.Source{{File: "site.yaml", Content: yaml}}}); err != nil {
		t.Fatal(err)
	}
}

// processLog collects what a process prints.
type processLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *processLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *processLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *processLog) count(text string) int { return strings.Count(l.String(), text) }

// await waits until text was printed n times.
func (l *processLog) await(t *testing.T, text string, n int) {
	t.Helper()
	for end := time.Now().Add(startWait); l.count(text) < n; time.Sleep(poll) {
		if time.Now().After(end) {
			t.Fatalf("%q was not printed %d times:\n%s", text, n, l)
		}
	}
}
