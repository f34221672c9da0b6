//go:build linux && amd64

package wallclock_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"steerpoint/lab/internal/wallclock"
)

// part is what this program is when the test starts it anew: the tracer, or the program whose clock is wrong. The file is
// where the tracer reads by how much.
const (
	part = "WALLCLOCK_TEST_PART"
	file = "WALLCLOCK_TEST_FILE"
)

func TestMain(m *testing.M) {
	switch os.Getenv(part) {
	case "tracer":
		env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, part+"=") })
		code, err := wallclock.Run(os.Args[:1], append(env, part+"=program"), os.Getenv(file))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 99
		}
		os.Exit(code)
	case "program":
		program()
	}
	os.Exit(m.Run())
}

// program says what it takes the time for, waits to be asked again, and says so once more, with how long was between;
// then it waits for a signal.
func program() {
	first := time.Now()
	fmt.Println(first.Unix())
	asked := make(chan error)
	go func() { // on another thread
		_, err := fmt.Scanln()
		asked <- err
	}()
	<-asked
	second := time.Now()
	fmt.Println(second.Unix(), second.Sub(first).Nanoseconds())
	select {}
}

// Covers: issue3 clock
// A program is given a wrong wall clock that steps, and its monotonic clock, its threads, its streams and the signals it
// gets stay as they are.
func TestRun(t *testing.T) {
	if err := wallclock.Supported(); err != nil {
		t.Skip(err)
	}
	skew := filepath.Join(t.TempDir(), "skew")
	set := func(d time.Duration) {
		t.Helper()
		if err := wallclock.Set(skew, d); err != nil {
			t.Fatal(err)
		}
	}
	set(-time.Hour)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), part+"=tracer", file+"="+skew)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, if all is well
	read := func(values ...any) {
		t.Helper()
		if _, err := fmt.Fscan(out, values...); err != nil {
			t.Fatal(err)
		}
	}
	near := func(got int64, d time.Duration) {
		t.Helper()
		if off := time.Unix(got, 0).Sub(began.Add(d)); off < -time.Second || off > time.Since(began)+time.Second {
			t.Errorf("the program took the time for %v, which is %v from what it was to be", time.Unix(got, 0), off)
		}
	}
	var first, second, between int64
	read(&first)
	near(first, -time.Hour)
	set(26 * time.Hour)
	if _, err := fmt.Fprintln(in); err != nil {
		t.Fatal(err)
	}
	read(&second, &between)
	near(second, 26*time.Hour)
	if d := time.Duration(between); d <= 0 || d > time.Since(began) {
		t.Errorf("its monotonic clock says that %v passed", d)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("ended with %v, not with the code of a program that SIGINT ended", err)
	}
}
