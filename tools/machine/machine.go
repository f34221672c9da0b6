// Package machine is what benchmarks of programs beside each other need of Linux: what the processes of a program took of the
// processor and of memory, what the rest of the machine did meanwhile, and numbers over several rounds.
package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Spread is a number over several rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf sorts numbers, of which there is one at least, and sums them up.
func SpreadOf(s []float64) Spread {
	slices.Sort(s)
	return Spread{(s[(len(s)-1)/2] + s[len(s)/2]) / 2, s[0], s[len(s)-1]}
}

// Text is the median with the smallest and the largest.
func (s Spread) Text(decimals int) string {
	return fmt.Sprintf("%.*f (%.*f to %.*f)", decimals, s.Median, decimals, s.Min, decimals, s.Max)
}

// Load is the machine's load average of the last minute; 0: not known.
func Load() (one float64) {
	data, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, _ = fmt.Sscan(string(data), &one)
	}
	return one
}

// Times is the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
type Times [8]float64

// TimesNow reads it; zeros: not known.
func TimesNow() (t Times) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t
	}
	line, _, _ := strings.Cut(string(data), "\n")
	_, _ = fmt.Sscan(strings.TrimPrefix(line, "cpu"), &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) // zeros: not known
	return t
}

// Steal is the share of the time that the host took since before.
func Steal(before Times) float64 {
	after := TimesNow()
	var all float64
	for i := range after {
		all += after[i] - before[i]
	}
	if all == 0 {
		return 0
	}
	return (after[7] - before[7]) / all
}

// Commit is the commit of the working folder; "unknown" outside of a repository.
func Commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// Pin keeps this process on one core; what it starts is there, too, unless it is put elsewhere.
func Pin(core int) error {
	out, err := exec.Command("taskset", "-acp", strconv.Itoa(core), strconv.Itoa(os.Getpid())).CombinedOutput()
	if err != nil {
		return fmt.Errorf("taskset: %w: %s", err, out)
	}
	return nil
}

// Aside moves this process, and with it all that it starts, to a cpu cgroup of its own with the greatest share. The
// function it returns takes the group away.
func Aside(name string) (leave func(), err error) {
	dir := filepath.Join("/sys/fs/cgroup/cpu", fmt.Sprintf("%s.%d", name, os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	write := func(dir, file, text string) error { return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644) }
	pid := strconv.Itoa(os.Getpid())
	if err := errors.Join(write(dir, "cpu.shares", "262144"), write(dir, "cgroup.procs", pid)); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return func() {
		if err := errors.Join(write(filepath.Dir(dir), "cgroup.procs", pid), os.Remove(dir)); err != nil {
			fmt.Fprintln(os.Stderr, name+": a cpu cgroup stays behind:", err)
		}
	}, nil
}

// Session is a program in a session of its own, on one core, with all processes that it starts.
type Session struct {
	cmd *exec.Cmd
	log string // file of what it says
}

// Start starts a program. What it says goes to a file.
func Start(core int, args, env []string, log string) (*Session, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the program has its own
	cmd := exec.Command("taskset", append([]string{"-c", strconv.Itoa(core)}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Session{cmd, log}, nil
}

// PID is the process that was started, which leads the session.
func (s *Session) PID() int { return s.cmd.Process.Pid }

// Ready waits until check has nothing to say against the program, for at most a time. Apply, unless it is empty, is the command that
// configures a program of ours: it is tried until it goes well. With the error comes the end of what the program said.
func (s *Session) Ready(ctx context.Context, long time.Duration, apply []string, check func() error) error {
	for end := time.Now().Add(long); ; time.Sleep(readyPause) {
		if len(apply) > 0 {
			out, err := exec.CommandContext(ctx, apply[0], apply[1:]...).CombinedOutput()
			var exit *exec.ExitError
			switch {
			case err == nil:
				apply = nil
			case errors.As(err, &exit) && exit.ExitCode() == badInput:
				return fmt.Errorf("apply: %s", out)
			}
		}
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			text, _ := os.ReadFile(s.log) // what it said is better than nothing
			return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-2000):])
		}
	}
}

const (
	// readyPause is between two looks at a program that starts.
	readyPause = 100 * time.Millisecond
	// badInput is the exit code of steer for what does not get better when it is tried again.
	badInput = 2
)

// Used is the processor time, user and kernel mode, of every process of the session that lives, and their memory in octets.
func (s *Session) Used() (cpu time.Duration, resident int64, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, 0, err
	}
	var ticks int64
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(f) < 22 || f[3] != strconv.Itoa(s.PID()) {
			continue
		}
		var n [3]int64
		for i, at := range [...]int{11, 12, 21} { // user time, system time, resident pages
			if n[i], err = strconv.ParseInt(f[at], 10, 64); err != nil {
				return 0, 0, fmt.Errorf("%s: %w", file, err)
			}
		}
		ticks, resident = ticks+n[0]+n[1], resident+n[2]*int64(os.Getpagesize())
	}
	if resident == 0 {
		return 0, 0, errors.New("the program has ended")
	}
	return time.Duration(ticks) * time.Second / userHZ, resident, nil
}

// userHZ is how often a second /proc/PID/stat counts.
const userHZ = 100

// stopWait is for a program to end by itself.
const stopWait = 10 * time.Second

// Stop ends the processes of the session; a process that stays is killed. nil is none.
func (s *Session) Stop() {
	if s == nil {
		return
	}
	_ = syscall.Kill(-s.PID(), syscall.SIGTERM) // it may have ended already
	done := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(stopWait):
		_ = syscall.Kill(-s.PID(), syscall.SIGKILL)
		<-done
	}
}
