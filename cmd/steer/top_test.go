package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/control/api"
)

// pty is a pseudo terminal: what a program writes to it comes out here, and what is written here it reads as keys.
type pty struct {
	master, slave *os.File
	mu            sync.Mutex
	out           bytes.Buffer
}

func openPTY(t *testing.T) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("the other end of a pseudo terminal cannot be opened here: %v", err)
	}
	p := &pty{master: master, slave: slave}
	t.Cleanup(func() { _ = slave.Close(); _ = master.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			p.mu.Lock()
			p.out.Write(buf[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *pty) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
}

func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *pty) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// frame is the newest whole frame.
func (p *pty) frame() string {
	frames := strings.Split(p.text(), "\x1b[H")
	for _, f := range slices.Backward(frames) {
		if whole, _, ok := strings.Cut(f, "\x1b[J"); ok {
			return whole
		}
	}
	return ""
}

// await polls the newest frame: a process draws when it does.
func (p *pty) await(t *testing.T, what string, ok func(frame string) bool) {
	t.Helper()
	for end := time.Now().Add(startWait); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok(p.frame()) {
			return
		}
	}
	t.Fatalf("waited in vain: %s; the newest frame is\n%s", what, p.frame())
}

func (p *pty) settings(t *testing.T) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// topServer answers as control does, with so many rules, in the first of which the edge changes with down.
func topServer(t *testing.T, rules int, down *atomic.Bool) {
	t.Helper()
	topServerThatHangs(t, rules, down, new(atomic.Bool))
}

// topServerThatHangs takes questions and says nothing while hung is set.
func topServerThatHangs(t *testing.T, rules int, down, hung *atomic.Bool) {
	t.Helper()
	status := func(w http.ResponseWriter, r *http.Request) {
		if hung.Load() {
			<-r.Context().Done()
			return
		}
		now := time.Now()
		s := api.Status{Version: "0.1.0", Node: "n1", Now: now, Started: now.Add(-time.Hour)}
		sv := api.ServiceStatus{Name: "shop"}
		for i := range rules {
			sv.Rules = append(sv.Rules, api.RuleStatus{Rule: fmt.Sprintf("r%02d", i), Edge: "east", Since: now.Add(-time.Duration(i) * time.Minute)})
		}
		if down.Load() {
			sv.Rules[0].Edge = "west"
		}
		s.Services = []api.ServiceStatus{sv}
		answer(s)(w, r)
	}
	server(t, map[string]http.HandlerFunc{
		"/api/v1/status":   status,
		"/api/v1/switches": answer(api.SwitchPage{Switches: []api.Switch{{ID: "1", Time: time.Now(), Service: "shop", Rule: "r00", From: "east", To: "west", Cause: "down"}}}),
		"/api/v1/watch": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	})
}

// TestTopInATerminal runs the program in a pseudo terminal: it draws on the other screen, follows the server, scrolls, sorts
// and resizes; and however it ends, by its key, by Ctrl-C, by SIGTERM or SIGHUP, the
// terminal is as it was.
// Covers: A12, issue4 top terminal
func TestTopInATerminal(t *testing.T) {
	program := filepath.Join(t.TempDir(), "steer")
	install(t, program, self(t))
	for name, end := range map[string]func(*testing.T, *pty, *exec.Cmd){
		"q":      func(t *testing.T, p *pty, _ *exec.Cmd) { p.press(t, "q") },
		"ctrl-c": func(t *testing.T, p *pty, _ *exec.Cmd) { p.press(t, "\x03") },
		"sigterm": func(t *testing.T, _ *pty, c *exec.Cmd) {
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		},
		"sighup": func(t *testing.T, _ *pty, c *exec.Cmd) {
			if err := c.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			topServer(t, 60, &down)
			p := openPTY(t)
			p.resize(t, 100, 30)
			before := p.settings(t)
			c, ended := startTop(t, program, p)
			p.await(t, "the first frame", func(f string) bool { return strings.Contains(f, "shop/r00") && strings.Contains(f, "east -> west") })
			if raw := p.settings(t); raw.Lflag&unix.ICANON != 0 {
				t.Error("keys are not read one by one")
			}
			if name == "q" {
				walk(t, p, c, &down)
			}
			end(t, p, c)
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(startWait):
				t.Fatal("it does not end")
			}
			if after := p.settings(t); after != before {
				t.Errorf("the terminal is %+v, was %+v", after, before)
			}
			for end := time.Now().Add(startWait); !strings.Contains(p.text(), "\x1b[?1049l"); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the other screen stays")
				}
			}
			if all := p.text(); !strings.Contains(all, "\x1b[?1049h") || strings.LastIndex(all, "\x1b[?25h") < strings.LastIndex(all, "\x1b[?25l") {
				t.Error("screen and cursor were not taken and given back")
			}
		})
	}
}

// TestTopWhileTheServerHangs says how old a frame is while the server is stopped and says nothing, not even that it is gone,
// and goes on when it does.
func TestTopWhileTheServerHangs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "steer")
	install(t, program, self(t))
	var down, hung atomic.Bool
	topServerThatHangs(t, 3, &down, &hung)
	p := openPTY(t)
	p.resize(t, 100, 30)
	_, ended := startTop(t, program, p)
	p.await(t, "the first frame", func(f string) bool { return strings.Contains(f, "shop/r00") })
	hung.Store(true)
	p.await(t, "the age of the frame", func(f string) bool {
		return strings.Contains(f, "no news for ") && strings.Contains(f, "shop/r00")
	})
	p.await(t, "why there is no news", func(f string) bool { return strings.Contains(f, "no news for ") && strings.Contains(f, "deadline") })
	hung.Store(false)
	p.await(t, "news again", func(f string) bool { return strings.Contains(f, "shop/r00") && !strings.Contains(f, "no news") })
	p.press(t, "q")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(startWait):
		t.Fatal("it does not end")
	}
}

// walk uses every key, and changes what the server says and how large the terminal is.
func walk(t *testing.T, p *pty, c *exec.Cmd, down *atomic.Bool) {
	down.Store(true)
	p.await(t, "what changed", func(f string) bool { return strings.Contains(f, "west   ") })
	p.press(t, "\x1b[B\x1b[B")
	p.await(t, "two lines down", func(f string) bool { return !strings.Contains(f, "shop/r01") && strings.Contains(f, "shop/r02") })
	p.press(t, "\x1b[A")
	p.await(t, "one line up", func(f string) bool { return strings.Contains(f, "shop/r01") })
	p.press(t, "\x1b[F")
	p.await(t, "the end", func(f string) bool { return strings.Contains(f, "shop/r59") })
	p.press(t, "s")
	p.await(t, "another order", func(f string) bool {
		return strings.Contains(f, "sort: availability") && strings.Contains(f, "shop/r00")
	})
	p.resize(t, 60, 12)
	if err := c.Process.Signal(syscall.SIGWINCH); err != nil { // the kernel tells the foreground group of a controlling terminal
		t.Fatal(err)
	}
	p.await(t, "the new size", func(f string) bool { return strings.Count(f, "\r\n") == 11 })
}

// TestTopPanics gives the terminal back before it says what went wrong.
// Covers: issue4 top terminal
func TestTopPanics(t *testing.T) {
	p := openPTY(t)
	before := p.settings(t)
	screen := &topScreen{in: p.slave, out: p.slave}
	if err := screen.enter(); err != nil {
		t.Fatal(err)
	}
	var parts sync.WaitGroup
	failed := make(chan error, 1)
	screen.start(&parts, failed, func() error { panic("no such edge") })
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "no such edge") || !strings.Contains(err.Error(), "top_test.go") {
		t.Errorf("failed with %v", err)
	}
	parts.Wait()
	if after := p.settings(t); after != before {
		t.Errorf("the terminal is %+v, was %+v", after, before)
	}
}

// TestTopWithoutATerminal prints one frame, or JSON.
// Covers: A12, issue4 top
func TestTopWithoutATerminal(t *testing.T) {
	var down atomic.Bool
	topServer(t, 60, &down)
	code, out, errs := steer(t, "top")
	if code != 0 || !strings.Contains(out, "shop/r59") || strings.Contains(out, "\x1b") || errs != "" {
		t.Errorf("exit %d:\n%s%s", code, out, errs)
	}
	if code, out, _ := steer(t, "top", "-o", "json"); code != 0 || !strings.HasPrefix(out, "{") || !strings.Contains(out, `"switches"`) {
		t.Errorf("json: exit %d: %.200s", code, out)
	}
}

// TestKeys splits what terminals send.
// Covers: issue4 top
func TestKeys(t *testing.T) {
	got := parseKeys("s\x1b[A\x1bOB\x1b[5~\x1b[6~x\x1b[Hq\x1b")
	want := []topKey{keySort, keyUp, keyDown, keyPageUp, keyPageDown, keyHome, keyQuit}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, other := range map[string]string{
		"F2": "\x1bOQ", "F3 with Shift": "\x1b[1;2R", "F4": "\x1bOS", "F2 of the console": "\x1b[[B", "Ctrl-Up": "\x1b[1;5A", "Alt-q": "\x1bq", "Alt-F2": "\x1b\x1bOQ",
		"Alt-s": "\x1bs", "Insert": "\x1b[2~", "one that is cut off": "\x1b[1;", "a mouse": "\x1b[<0;1;1M", "Escape": "\x1b",
	} {
		if got := parseKeys(other); len(got) != 0 {
			t.Errorf("%s does %v", name, got)
		}
		if got := parseKeys(other + "\x1b[Aq"); !slices.Equal(got, []topKey{keyUp, keyQuit}) {
			t.Errorf("what follows %s is %v", name, got)
		}
	}
}

// startTop starts top in a terminal; ended gets its end.
func startTop(t *testing.T, program string, p *pty) (c *exec.Cmd, ended <-chan error) {
	t.Helper()
	c = exec.Command(program, "top")
	c.Stdin, c.Stdout, c.Stderr = p.slave, p.slave, p.slave
	c.Env = append(os.Environ(), "TERM=xterm")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- c.Wait() }()
	t.Cleanup(func() { _ = c.Process.Kill() }) // it has ended, if all is well
	return c, end
}
