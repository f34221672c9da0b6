package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/locate"
)

// command is a steer command that runs on, in this process.
type command struct {
	t    *testing.T
	log  *processLog
	stop func() // idempotent; it must end with exit code 0
}

func startCommand(t *testing.T, in string, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &command{t: t, log: &processLog{}}
	done := make(chan int, 1)
	go func() { done <- run(ctx, args, strings.NewReader(in), c.log, c.log) }()
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if code := <-done; code != fault.ExitDone {
			t.Errorf("steer %s: exit code %d:\n%s", strings.Join(args, " "), code, c.log)
		}
	}
	t.Cleanup(c.stop)
	return c
}

// mustRun runs a command to its end, which must be good, and gives what it prints.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != fault.ExitDone {
		t.Fatalf("steer %s: exit code %d: %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}

// listener waits until the process on a data folder listens for a role.
func listener(t *testing.T, dir, role string) string {
	t.Helper()
	var addr string
	eventuallySo(t, "a process on "+dir+" with the role "+role, func() bool {
		r, err := locate.ReadRunning(dir)
		if err != nil || r.PID == 0 {
			return false
		}
		addr = r.Listeners[role]
		return addr != ""
	})
	return addr
}

func eventuallySo(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(startWait); time.Now().Before(end); time.Sleep(poll) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", startWait, what)
}

// page is the status and the text of a page of a node's health listener.
func page(t *testing.T, addr, path string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(b))
}

// silence is for how long the name server has not heard of control, in seconds.
func silence(t *testing.T, health string) float64 {
	t.Helper()
	_, text := page(t, health, "/metrics")
	_, after, ok := strings.Cut(text, "\nsteer_authdns_control_silence_seconds ")
	value, _, _ := strings.Cut(after, "\n")
	seconds, err := strconv.ParseFloat(value, 64)
	if !ok || err != nil {
		t.Fatalf("no silence in the metrics: %q, %v", value, err)
	}
	return seconds
}

// rcode asks a name server for the SOA of a zone.
func rcode(t *testing.T, addr, zone string) string {
	t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(zone, dns.TypeSOA)
	c := dns.Client{Timeout: startWait} // of a machine that does ten things, not of the server
	res, _, err := c.Exchange(q, addr)
	if err != nil {
		t.Fatal(err)
	}
	return dns.RcodeToString[res.Rcode]
}

const nodeTestZone = `apiVersion: steerpoint/v1
kind: Zone
name: gslb
zone: gslb.example.net
steering: true
ns: [{name: ns1.gslb.example.net, addresses: [127.0.0.1]}]
`

// A name server that joins while control is away is up at once, not ready, keeps trying and says so once. Joined, it is
// ready; drained, it is not, and answers on; control away and itself started anew, it answers before anything else.
// Covers: A2, issue3 join, issue3 drain, issue3 control killed
func TestNodeThroughItsLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	controlDir, nodeDir := filepath.Join(dir, "control"), filepath.Join(dir, "node")
	zone := filepath.Join(dir, "zone.yaml")
	if err := os.WriteFile(zone, []byte(nodeTestZone), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freeTCP(t)
	startControl := func() *command {
		c := startCommand(t, "", "control", "--data", controlDir, "--listen", "api=127.0.0.1:0", "--listen", "nodes="+port)
		eventuallySo(t, "control answers", func() bool {
			return run(t.Context(), []string{"status", "--data", controlDir}, nil, io.Discard, io.Discard) == fault.ExitDone
		})
		return c
	}
	control := startControl()
	mustRun(t, "apply", "--data", controlDir, "-f", zone)
	token := mustRun(t, "token", "create", "--role", "dns,probe", "--data", controlDir)
	control.stop()

	args := []string{"node", "--data", nodeDir, "--listen", "dns=127.0.0.1:0", "--listen", "health=127.0.0.1:0"}
	join := append(args, "--roles", "dns,probe", "--join", port, "--name", "tokyo", "--token", "-")
	began := time.Now()
	node := startCommand(t, token, join...)
	health, answers := listener(t, nodeDir, "health"), listener(t, nodeDir, "dns")
	node.log.await(t, "this node keeps trying", 1)
	if code, text := page(t, health, "/readyz"); code != http.StatusServiceUnavailable || text != "no map" {
		t.Errorf("before it joined: readyz %d %q", code, text)
	}
	if got := rcode(t, answers, "gslb.example.net."); got != "SERVFAIL" {
		t.Errorf("before it joined: %s", got)
	}
	var errs bytes.Buffer
	if code := run(t.Context(), join, strings.NewReader(token), io.Discard, &errs); code != fault.ExitBadInput || !strings.Contains(errs.String(), "[DATA_IN_USE]") {
		t.Errorf("a second process on the folder: exit code %d: %s", code, errs.String())
	}

	control = startControl()
	eventuallySo(t, "ready", func() bool { code, _ := page(t, health, "/readyz"); return code == http.StatusOK })
	if got := rcode(t, answers, "gslb.example.net."); got != "NOERROR" {
		t.Errorf("joined: %s", got)
	}
	if n, most := node.log.count("this node keeps trying"), 1+int(time.Since(began)/time.Minute); n < 1 || n > most { // once a minute
		t.Errorf("said %d times that control is away", n)
	}
	eventuallySo(t, "both streams in the metrics", func() bool {
		_, text := page(t, health, "/metrics")
		return strings.Contains(text, `steer_agent_connected{snapshot="dns"} 1`) && strings.Contains(text, `steer_agent_connected{snapshot="probe"} 1`) &&
			strings.Contains(text, "steer_agent_map_age_seconds 0")
	})
	last := silence(t, health)
	eventuallySo(t, "the name server is told that control is heard", func() bool { // nothing else makes the silence shorter
		before := last
		last = silence(t, health)
		return last < before
	})
	mustRun(t, "drain", "tokyo", "--for", "1h", "--reason", "new kernel", "--data", controlDir)
	eventuallySo(t, "drained", func() bool {
		code, text := page(t, health, "/readyz")
		return code == http.StatusServiceUnavailable && text == "drained"
	})
	if got := rcode(t, answers, "gslb.example.net."); got != "NOERROR" {
		t.Errorf("drained: %s", got)
	}
	control.stop()
	node.stop()

	again := startCommand(t, "", args...) // neither token nor control
	health, answers = listener(t, nodeDir, "health"), listener(t, nodeDir, "dns")
	if got := rcode(t, answers, "gslb.example.net."); got != "NOERROR" {
		t.Errorf("started with control away: %s", got)
	}
	if code, text := page(t, health, "/readyz"); text != "drained" {
		t.Errorf("started with control away: readyz %d %q, want that it is drained still", code, text)
	}
	startControl()
	mustRun(t, "undrain", "tokyo", "--data", controlDir, "--reason", "done")
	eventuallySo(t, "ready again", func() bool { code, _ := page(t, health, "/readyz"); return code == http.StatusOK })
	again.stop()
}

// freeTCP is an address on loopback that nobody listens on, of which nobody else is given a port while it is free.
func freeTCP(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// What is wrong on the command line is said before anything is opened, with what to do.
// Covers: A8, issue3 join refused, issue3 exit codes
func TestNodeCommandLine(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	join := []string{"--join", "127.0.0.1:1", "--name", "tokyo", "--listen", "health=127.0.0.1:0"}
	for name, tt := range map[string]struct {
		args []string
		code string
	}{
		"no control":       {[]string{"--roles", "probe"}, "USAGE"},
		"token only":       {[]string{"--token", empty}, "USAGE"},
		"join and from":    {append(join, "--roles", "dns", "--from", dir), "USAGE"},
		"unknown role":     {append(join, "--roles", "dns,edge"), "USAGE"},
		"no roles":         {join, "USAGE"},
		"http":             {[]string{"--roles", "probe", "--join", "http://control.example.net"}, "SERVER_URL"},
		"a path":           {[]string{"--roles", "probe", "--join", "https://control.example.net/api"}, "SERVER_URL"},
		"label":            {append(join, "--roles", "probe", "--label", "JP"), "USAGE"},
		"no token":         {append(join, "--roles", "probe"), "NODE_NOT_JOINED"},
		"empty token file": {append(join, "--roles", "probe", "--token", empty), "TOKEN_EMPTY"},
		"no token file":    {append(join, "--roles", "probe", "--token", empty+"x"), "TOKEN_UNREADABLE"},
		"bad name":         {[]string{"--roles", "probe", "--join", "127.0.0.1:1", "--name", "Tokyo 1", "--listen", "health=127.0.0.1:0"}, "BAD_REQUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			var errs bytes.Buffer
			args := append([]string{"node", "--data", filepath.Join(t.TempDir(), "data")}, tt.args...)
			code := run(t.Context(), args, strings.NewReader(""), io.Discard, &errs)
			if code == fault.ExitDone || !strings.Contains(errs.String(), "["+tt.code+"]") {
				t.Errorf("exit code %d, want %s: %s", code, tt.code, errs.String())
			}
			if !strings.Contains(errs.String(), "do: ") {
				t.Errorf("it does not say what to do: %s", errs.String())
			}
		})
	}
}

// The join token may be in a variable of its own: the token of commands is for the API, and no node joins by it.
// Covers: issue3 join refused
func TestJoinTokenOfTheEnvironment(t *testing.T) {
	for variable, code := range map[string]string{"STEER_TOKEN": "NODE_NOT_JOINED", "STEER_JOIN_TOKEN": "TOKEN_MALFORMED"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "not-a-join-token")
			var errs bytes.Buffer
			args := []string{"node", "--data", filepath.Join(t.TempDir(), "data"), "--join", "127.0.0.1:1", "--name", "tokyo", "--roles", "probe", "--listen", "health=127.0.0.1:0"}
			if exit := run(t.Context(), args, strings.NewReader(""), io.Discard, &errs); exit == fault.ExitDone || !strings.Contains(errs.String(), "["+code+"]") {
				t.Errorf("exit code %d, want %s: %s", exit, code, errs.String())
			}
		})
	}
}

// A node that cannot write where it listens, as on a full disk, works all the same.
// Covers: A2, issue3 disk
func TestNodeWithoutARunFile(t *testing.T) {
	t.Parallel()
	dir, health := t.TempDir(), freeTCP(t)
	if err := os.MkdirAll(filepath.Join(dir, "run.state", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	token := "0123456789." + strings.Repeat("A", 43) + "." + strings.Repeat("0", 64)
	node := startCommand(t, token, "node", "--data", dir, "--roles", "dns", "--join", "127.0.0.1:1", "--name", "tokyo", "--token", "-",
		"--listen", "dns=127.0.0.1:0", "--listen", "health="+health)
	node.log.await(t, "where this process listens cannot be written", 1)
	node.stop()
}

// What people leave out of control's address is filled in.
func TestJoinURL(t *testing.T) {
	for in, want := range map[string]string{
		"control.example.net":            "https://control.example.net:7072",
		"https://control.example.net":    "https://control.example.net:7072",
		"https://control.example.net:1/": "https://control.example.net:1",
		"[2001:db8::1]":                  "https://[2001:db8::1]:7072",
		"https://[2001:db8::1]:7":        "https://[2001:db8::1]:7",
		"192.0.2.1:9":                    "https://192.0.2.1:9",
		"https://[fe80::1%25eth0]:7":     "https://[fe80::1%25eth0]:7",
	} {
		if got, err := joinURL(in); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "https://", "ftp://x", "https://u:p@x", "https://x?y"} {
		if got, err := joinURL(in); err == nil {
			t.Errorf("%q: %s, want an error", in, got)
		}
	}
}
