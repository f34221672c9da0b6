package inherit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"steerpoint/internal/inherit"
)

// actor names the variable that makes the test binary one of the programs below.
const actor = "INHERIT_TEST_ACTOR"

// patience is for real processes on a machine that is busy; nothing is asserted about how long they take.
const patience = time.Minute

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(actor) {
	case "":
		os.Exit(m.Run())
	case "first":
		err = first()
	case "second":
		err = serve(os.Stdout, "second")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// first opens sockets on any free port, says where, and becomes the second program when a line comes.
func first() error {
	s, err := inherit.FromEnvironment(os.Getenv, os.Unsetenv)
	if err != nil {
		return err
	}
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	if err := s.Keep("dns", udp); err != nil {
		return err
	}
	tcp, err := s.Listen(context.Background(), "api", "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	other, err := s.Listen(context.Background(), "gone", "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(os.Getpid(), udp.LocalAddr(), tcp.Addr(), other.Addr())
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	// What the parts of a program do as they stop.
	if err := errors.Join(udp.Close(), tcp.Close(), other.Close()); err != nil {
		return err
	}
	if err := s.Exec("/nonexistent/steer", os.Args, os.Environ()); err == nil {
		return errors.New("a program that is not there was executed")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv(actor, "second"); err != nil {
		return err
	}
	return s.Exec(self, os.Args, os.Environ())
}

// serve takes the sockets over, says what it got, and sends back one packet and one connection's line.
func serve(out io.Writer, name string) error {
	s, err := inherit.FromEnvironment(os.Getenv, os.Unsetenv)
	if err != nil {
		return err
	}
	udp, err := s.UDP("dns", netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil || len(udp) != 1 {
		return fmt.Errorf("%d UDP sockets: %w", len(udp), err)
	}
	tcp, err := s.Listen(context.Background(), "api", "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, name, os.Getpid(), udp[0].LocalAddr(), tcp.Addr(), s.Has("gone"), os.Getenv(inherit.Variable) == "", s.Finish())
	buf := make([]byte, 100)
	n, from, err := udp[0].ReadFromUDPAddrPort(buf)
	if err != nil {
		return err
	}
	if _, err := udp[0].WriteToUDPAddrPort(append([]byte(name+" "), buf[:n]...), from); err != nil {
		return err
	}
	c, err := tcp.Accept()
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(c, name, " ", line)
	return errors.Join(err, c.Close())
}

// program starts the test binary as an actor and gives what it reads and prints.
func program(t *testing.T, cmd *exec.Cmd, env ...string) (io.Writer, *bufio.Reader) {
	t.Helper()
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer stop.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program ended with %v: %s", err, stderr.String())
		}
	})
	return in, bufio.NewReader(out)
}

func readLine(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("the program says nothing more: %v", err)
	}
	return strings.TrimSpace(line)
}

func dial(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func say(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func hears(t *testing.T, c net.Conn, want string) {
	t.Helper()
	buf := make([]byte, 100)
	if n, err := c.Read(buf); err != nil || strings.TrimSpace(string(buf[:n])) != want {
		t.Errorf("%s: heard %q, %v; want %q", c.RemoteAddr(), buf[:n], err, want)
	}
}

// TestHandOver: a program executes another over itself. It is the same process; the ports stay as they were, port 0
// included; what was sent before is answered after; what the new program has no use for is closed; a program that
// cannot be executed changes nothing.
// Covers: issue3 upgrade
func TestHandOver(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, out := program(t, exec.Command(self), actor+"=first")
	was := strings.Fields(readLine(t, out))
	udp, tcp := dial(t, "udp", was[1]), dial(t, "tcp", was[2])
	say(t, udp, "packet")
	say(t, tcp, "line\n")
	say(t, in, "go\n")
	if got, want := readLine(t, out), fmt.Sprintf("second %s %s %s true true [gone tcp %s]", was[0], was[1], was[2], was[3]); got != want {
		t.Errorf("the second program says %q, want %q", got, want)
	}
	hears(t, udp, "second packet")
	hears(t, tcp, "second line")
}

// TestActivation: sockets that a process manager passes by LISTEN_FDS are served, whatever they are called.
// Covers: issue3 upgrade
func TestActivation(t *testing.T) {
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	uf, errU := udp.File()
	tf, errT := tcp.(*net.TCPListener).File()
	if err := errors.Join(errU, errT); err != nil {
		t.Fatal(err)
	}
	defer uf.Close()
	defer tf.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// LISTEN_PID is the number of the process that the program becomes.
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0"`, self)
	cmd.ExtraFiles = []*os.File{uf, tf}
	_, out := program(t, cmd, actor+"=second", "LISTEN_FDS=2", "LISTEN_FDNAMES=dns:api")
	if got, want := readLine(t, out), fmt.Sprintf("second %d %s %s false true []", cmd.Process.Pid, udp.LocalAddr(), tcp.Addr()); got != want {
		t.Errorf("the program says %q, want %q", got, want)
	}
	u, c := dial(t, "udp", udp.LocalAddr().String()), dial(t, "tcp", tcp.Addr().String())
	say(t, u, "packet")
	say(t, c, "line\n")
	hears(t, u, "second packet")
	hears(t, c, "second line")
}

// environment is os.Getenv and os.Unsetenv of a map.
func environment(vars map[string]string) (func(string) string, func(string) error) {
	return func(k string) string { return vars[k] }, func(k string) error { delete(vars, k); return nil }
}

// TestWhatCannotBeUsed: each descriptor that is no listening socket is named, and the rest are used; a list meant for
// another process is nothing.
// Covers: issue3 upgrade
func TestWhatCannotBeUsed(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connected := dial(t, "tcp", l.Addr().String())
	f, err := connected.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unix, err := net.Listen("unix", t.TempDir()+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	uf, err := unix.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer uf.Close()
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, row := range []struct{ vars, value, want string }{
		{inherit.Variable, "", ""},
		{inherit.Variable, "1:3=dns", ""},
		{inherit.Variable, pid + ":", ""},
		{inherit.Variable, pid + ":x=dns", `STEER_SOCKETS: "x=dns" is not FD=NAME`},
		{inherit.Variable, pid + ":3", `STEER_SOCKETS: "3" is not FD=NAME`},
		{inherit.Variable, pid + ":3=%zz", `STEER_SOCKETS: "3=%zz" is not FD=NAME`},
		{inherit.Variable, pid + ":60000=dns", "descriptor 60000 (dns) was handed over as a listening socket: it is not a socket"},
		{inherit.Variable, pid + fmt.Sprintf(":%d=dns", plain.Fd()), "it is not a socket"},
		{inherit.Variable, pid + fmt.Sprintf(":%d=api", f.Fd()), "it is a connection, and not a listener"},
		{inherit.Variable, pid + fmt.Sprintf(":%d=api", uf.Fd()), "it is neither of IPv4 nor of IPv6"},
		{"LISTEN_FDS", "many", `LISTEN_FDS is "many": want a number`},
	} {
		vars := map[string]string{row.vars: row.value, "LISTEN_PID": pid}
		if row.vars == inherit.Variable {
			delete(vars, "LISTEN_PID")
		}
		env, unset := environment(vars)
		s, err := inherit.FromEnvironment(env, unset)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s=%s: %v, want %q", row.vars, row.value, err, row.want)
		}
		if s == nil || s.Has("dns") || vars[row.vars] != "" {
			t.Errorf("%s=%s: %v is left over", row.vars, row.value, vars)
		}
	}
}

// TestNothingInherited: without a program before, sockets are opened as ever, also by a nil *Sockets; a kept one stays
// bound until Close.
// Covers: issue3 upgrade
func TestNothingInherited(t *testing.T) {
	var none *inherit.Sockets
	// An address of this machine that nobody else uses: nobody is given the port when it is free.
	l, err := none.Listen(t.Context(), "api", "tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := errors.Join(l.Close(), none.Keep("api", l.(*net.TCPListener)), none.Close()); err != nil || none.Has("api") || none.Finish() != nil {
		t.Fatal(err)
	}
	env, unset := environment(map[string]string{})
	s, err := inherit.FromEnvironment(env, unset)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = s.Listen(t.Context(), "api", "tcp4", addr); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := net.Listen("tcp4", addr); err == nil {
		t.Errorf("%s is free although it is kept", again.Addr())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = net.Listen("tcp4", addr); err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(t.Context(), "api", "tcp", "127.0.0.1"); err == nil {
		t.Error("an address without a port was listened on")
	}
}
