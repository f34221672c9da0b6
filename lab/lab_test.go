//go:build linux

package lab_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steerpoint/lab"
)

const ms = time.Millisecond

// patience bounds what must come: generous, since it is only waited for when something is broken.
const patience = 20 * time.Second

// start makes a lab for one test, or skips it where the machine has none.
func start(t *testing.T, hosts ...string) *lab.Lab {
	t.Helper()
	if err := lab.Missing(); err != nil {
		t.Skip(err)
	}
	l, err := lab.New(lab.Config{Hosts: hosts, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, l.Close()) })
	return l
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// families are the two addresses of a host, by name.
func families(l *lab.Lab, host string) map[string]netip.Addr {
	return map[string]netip.Addr{"IPv4": l.Addr4(host), "IPv6": l.Addr6(host)}
}

// echo answers every datagram that comes to port 7 of a host with itself.
func echo(t *testing.T, l *lab.Lab, host string) {
	t.Helper()
	for _, addr := range families(l, host) {
		pc, err := l.ListenPacket(host, "udp", netip.AddrPortFrom(addr, 7).String())
		check(t, err)
		t.Cleanup(func() { check(t, pc.Close()) })
		go func() {
			b := make([]byte, 2048)
			for {
				n, from, err := pc.ReadFrom(b)
				if err != nil {
					return
				}
				if _, err := pc.WriteTo(b[:n], from); err != nil {
					return
				}
			}
		}()
	}
}

func dial(t *testing.T, l *lab.Lab, host, network string, to netip.AddrPort) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := l.Dial(ctx, host, network, to.String())
	check(t, err)
	t.Cleanup(func() { _ = c.Close() }) // some tests close it themselves
	return c
}

// roundTrip sends one datagram and waits for its echo.
func roundTrip(c net.Conn, wait time.Duration) (time.Duration, error) {
	sent := time.Now()
	if _, err := c.Write([]byte("ping")); err != nil {
		return 0, err
	}
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil { // the write does not wait, however short it is
		return 0, err
	}
	_, err := c.Read(make([]byte, 16))
	return time.Since(sent), err
}

// TestDelayOfBothFamilies: a round trip takes the delay of each way and not much more, in IPv4 and IPv6. The upper bound
// is of the fastest of many, so that a busy machine does not matter.
//
// Covers: issue3 lab
func TestDelayOfBothFamilies(t *testing.T) {
	l := start(t, "a", "b", "c")
	echo(t, l, "b")
	check(t, l.LinkOneWay("a", "b", lab.Pair{Delay: 20 * ms}))
	check(t, l.LinkOneWay("b", "a", lab.Pair{Delay: 40 * ms, Jitter: 2 * ms}))
	for family, addr := range families(l, "b") {
		for host, least := range map[string]time.Duration{"a": 58 * ms, "c": 0} {
			c := dial(t, l, host, "udp", netip.AddrPortFrom(addr, 7))
			fastest, most := time.Hour, least+15*ms
			// Twenty, and more on a machine that is so busy that none of them was quick.
			for n, end := 0, time.Now().Add(patience); n < 20 || fastest > most && time.Now().Before(end); n++ {
				took, err := roundTrip(c, patience)
				check(t, err)
				if took < least {
					t.Errorf("%s from %s: a round trip of %v, less than %v", family, host, took, least)
				}
				fastest = min(fastest, took)
			}
			if fastest > most {
				t.Errorf("%s from %s: the fastest round trip took %v, more than %v", family, host, fastest, most)
			}
			t.Logf("%s from %s to b: fastest %v", family, host, fastest)
		}
	}
}

// TestLossCounts: a link loses what its seed says, and the counters tell.
//
// Covers: issue3 lab
func TestLossCounts(t *testing.T) {
	l := start(t, "a", "b")
	check(t, l.LinkOneWay("a", "b", lab.Pair{Loss: 0.1}))
	pc, err := l.ListenPacket("b", "udp", netip.AddrPortFrom(l.Addr4("b"), 7).String())
	check(t, err)
	c := dial(t, l, "a", "udp", netip.AddrPortFrom(l.Addr4("b"), 7))
	const count = 2000
	arrived := 0
	b := make([]byte, 16)
	for i := range count {
		_, err := c.Write([]byte("one"))
		check(t, err)
		if i%100 < 99 { // now and then take what came, so that no socket buffer overflows
			continue
		}
		// Wait until the emulator has seen what was sent, then for what it let through.
		sent := waitFor(t, l, "a", "b", func(c lab.Counts) bool { return c.Sent == uint64(i+1) && c.Arrived+c.Lost == c.Sent })
		for ; arrived < int(sent.Arrived); arrived++ {
			check(t, pc.SetReadDeadline(time.Now().Add(patience)))
			_, _, err := pc.ReadFrom(b)
			check(t, err)
		}
	}
	// Four standard deviations of a binomial distribution around 200: 4 * sqrt(2000 * 0.1 * 0.9).
	if lost := count - arrived; lost < 146 || lost > 254 {
		t.Errorf("%d of %d datagrams lost at 10 %%", lost, count)
	}
	if back, err := l.Counts("b", "a"); err != nil || back != (lab.Counts{}) {
		t.Errorf("nothing went back, and the counters say %+v, %v", back, err)
	}
	check(t, pc.Close())
}

// waitFor waits until the counters of a pair are as wanted.
func waitFor(t *testing.T, l *lab.Lab, from, to string, done func(lab.Counts) bool) lab.Counts {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(ms) {
		c, err := l.Counts(from, to)
		check(t, err)
		if done(c) {
			return c
		}
		if time.Now().After(end) {
			t.Fatalf("%s to %s: the counters stay at %+v", from, to, c)
		}
	}
}

// TestCutOneWay: with one direction cut, packets of the other still arrive; healed, all is as before.
//
// Covers: issue3 lab
func TestCutOneWay(t *testing.T) {
	l := start(t, "a", "b")
	echo(t, l, "b")
	c := dial(t, l, "a", "udp", netip.AddrPortFrom(l.Addr6("b"), 7))
	_, err := roundTrip(c, patience)
	check(t, err)

	check(t, l.CutOneWay("b", "a"))
	if _, err := roundTrip(c, 100*ms); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with the way back cut a round trip gave %v", err)
	}
	waitFor(t, l, "b", "a", func(c lab.Counts) bool { return c.Cut == 1 })
	if c, err := l.Counts("a", "b"); err != nil || c.Arrived != 2 || c.Cut != 0 {
		t.Errorf("the way there: %+v, %v", c, err)
	}

	check(t, l.HealOneWay("b", "a"))
	_, err = roundTrip(c, patience)
	check(t, err)

	check(t, l.Cut("a", "b"))
	if _, err := roundTrip(c, 100*ms); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with both ways cut a round trip gave %v", err)
	}
	check(t, l.Heal("b", "a"))
	_, err = roundTrip(c, patience)
	check(t, err)
}

// TestTCPOverABadLine: a stream arrives whole, in both families, over delay, jitter, loss and a rate; and no faster than
// the rate allows.
//
// Covers: issue3 lab
func TestTCPOverABadLine(t *testing.T) {
	l := start(t, "a", "b")
	check(t, l.Link("a", "b", lab.Pair{Delay: 5 * ms, Jitter: ms, Loss: 0.01, Rate: 8_000_000}))
	content := bytes.Repeat([]byte("a line of a certain length\n"), 8000) // 216 kB: 216 ms at 1 MB/s
	for family, addr := range families(l, "b") {
		ln, err := l.Listen("b", "tcp", netip.AddrPortFrom(addr, 80).String())
		check(t, err)
		c := dial(t, l, "a", "tcp", netip.AddrPortFrom(addr, 80))
		s, err := ln.Accept()
		check(t, err)
		began := time.Now()
		go func() {
			_, _ = c.Write(content) // what does not arrive is seen by the reader
			_ = c.Close()
		}()
		check(t, s.SetReadDeadline(began.Add(3*patience)))
		got, err := io.ReadAll(s)
		check(t, err)
		took := time.Since(began)
		if !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes arrived changed, of %d", family, len(got), len(content))
		}
		if took < 216*ms {
			t.Errorf("%s: %d bytes took %v: faster than the line", family, len(content), took)
		}
		t.Logf("%s: %d bytes in %v", family, len(content), took)
		check(t, errors.Join(s.Close(), ln.Close()))
	}
}

// TestStart: a program started on a host has that host's network and no other, and ends with the lab.
//
// Covers: issue3 lab
func TestStart(t *testing.T) {
	if err := lab.Missing(); err != nil {
		t.Skip(err)
	}
	l, err := lab.New(lab.Config{Hosts: []string{"a", "b"}})
	check(t, err)
	var out strings.Builder
	cmd := exec.Command("sh", "-c", "cat /proc/self/net/dev | grep -c wan0; readlink /proc/self/ns/net; sleep 600")
	pipe, err := cmd.StdoutPipe()
	check(t, err)
	check(t, l.Start("a", cmd))
	b := make([]byte, 256)
	for strings.Count(out.String(), "\n") < 2 {
		n, err := pipe.Read(b)
		check(t, err)
		out.Write(b[:n])
	}
	mine, err := os.Readlink("/proc/self/ns/net")
	check(t, err)
	if got := out.String(); !strings.HasPrefix(got, "1\nnet:[") || strings.Contains(got, mine) {
		t.Errorf("the program saw %q; this process is in %s", got, mine)
	}
	path, err := l.Namespace("a")
	check(t, err)
	if inside, err := os.Readlink(path); err != nil || !strings.Contains(out.String(), inside) {
		t.Errorf("%s leads to %s, %v; the program was in %q", path, inside, err, out.String())
	}
	check(t, l.Close())
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Errorf("after Close the program ended by itself: %v", cmd.ProcessState)
	}
	if err := l.Start("a", exec.Command("true")); !errors.Is(err, lab.ErrClosed) {
		t.Errorf("a closed lab started a program: %v", err)
	}
	if err := l.Do("b", func() error { return nil }); !errors.Is(err, lab.ErrClosed) {
		t.Errorf("a closed lab ran a function: %v", err)
	}
}

// TestProgramsOutliveThreads: programs that this process starts are not killed because a thread of it did something in a
// lab. (They are told to die with the thread that started them, which only the end of the process may end.)
//
// Covers: issue3 lab
func TestProgramsOutliveThreads(t *testing.T) {
	l := start(t, "a", "b")
	path, err := l.Namespace("a")
	check(t, err)
	var programs []*exec.Cmd
	var wg sync.WaitGroup
	for range 8 {
		entered := exec.Command("on", "a", "sleep", "600")
		entered.Env = append(os.Environ(), spaceVariable("a")+"="+path)
		check(t, entered.Start())
		started := exec.Command("sleep", "600")
		check(t, l.Start("b", started))
		programs = append(programs, entered, started)
		for range 8 { // as many threads as it takes
			wg.Go(func() { _ = l.Do("b", func() error { time.Sleep(ms); return nil }) })
		}
		other, err := lab.New(lab.Config{Hosts: []string{"x"}})
		check(t, err)
		check(t, other.Close())
	}
	wg.Wait()
	for _, p := range programs {
		if err := p.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("%v: %v", p.Args, err)
		}
		if err := p.Process.Kill(); err != nil {
			t.Errorf("%v: %v", p.Args, err)
		}
		if err := p.Wait(); err == nil {
			t.Errorf("%v ended well", p.Args)
		}
	}
}

// TestNothingStaysAfterAKill: the process that owns a lab is killed with kill -9; what it started in the lab, in both
// ways, is gone with it, and so is the namespace.
//
// Covers: issue3 lab
func TestNothingStaysAfterAKill(t *testing.T) {
	if err := lab.Missing(); err != nil {
		t.Skip(err)
	}
	owner := exec.Command("labowner")
	pipe, err := owner.StdoutPipe()
	check(t, err)
	check(t, owner.Start())
	var space string
	var started, entered int
	if _, err := fmt.Fscan(pipe, &space, &started, &entered); err != nil {
		t.Fatalf("the owner of the other lab said nothing: %v", err)
	}
	if users := inside(t, space); len(users) < 2 {
		t.Fatalf("the programs are not in %s: %v", space, users)
	}
	check(t, owner.Process.Kill())
	_ = owner.Wait() // it was killed
	for end := time.Now().Add(patience); ; time.Sleep(10 * ms) {
		left := inside(t, space)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still in %s: processes %v; started were %d and %d", space, left, started, entered)
		}
	}
}

// inside lists the processes in a namespace, by the text of its link in /proc.
func inside(t *testing.T, space string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	check(t, err)
	var users []string
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == space { // a process that ended meanwhile is not inside
			users = append(users, link)
		}
	}
	return users
}

// labOwner is the program that TestNothingStaysAfterAKill kills: it makes a lab and starts a program in each way.
func labOwner() {
	err := func() error {
		l, err := lab.New(lab.Config{Hosts: []string{"a"}})
		if err != nil {
			return err
		}
		path, err := l.Namespace("a")
		if err != nil {
			return err
		}
		space, err := os.Readlink(path)
		if err != nil {
			return err
		}
		first := exec.Command("sleep", "600")
		if err := l.Start("a", first); err != nil {
			return err
		}
		second := exec.Command("on", "a", "sh", "-c", "echo in; exec sleep 600")
		second.Env = append(os.Environ(), spaceVariable("a")+"="+path)
		in, err := second.StdoutPipe()
		if err != nil {
			return err
		}
		if err := second.Start(); err != nil {
			return err
		}
		if _, err := in.Read(make([]byte, 8)); err != nil {
			return err
		}
		fmt.Println(space, first.Process.Pid, second.Process.Pid)
		return second.Wait()
	}()
	fmt.Fprintln(os.Stderr, "labowner:", err)
	os.Exit(1)
}

// TestRefuses: what is asked wrongly is named.
//
// Covers: issue3 lab
func TestRefuses(t *testing.T) {
	for _, cfg := range []lab.Config{{}, {Hosts: []string{"a", ""}}, {Hosts: []string{"a", "b", "a"}}, {Hosts: []string{"a"}, MTU: 600}} {
		if l, err := lab.New(cfg); err == nil {
			t.Errorf("%+v made a lab", cfg)
			check(t, l.Close())
		}
	}
	l := start(t, "a", "b")
	for what, err := range map[string]error{
		"unknown host":   l.Link("a", "z", lab.Pair{}),
		"from unknown":   l.Cut("z", "a"),
		"to itself":      l.Link("a", "a", lab.Pair{}),
		"bad pair":       l.Link("a", "b", lab.Pair{Loss: 2}),
		"start nowhere":  l.Start("z", exec.Command("true")),
		"no such binary": l.Start("a", exec.Command("/no/such/program")),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if p, err := l.Pair("a", "b"); err != nil || p != (lab.Pair{}) {
		t.Errorf("a refused change left %+v, %v", p, err)
	}
	if l.Addr4("z").IsValid() || l.Addr6("z").IsValid() {
		t.Error("an unknown host has an address")
	}
}
