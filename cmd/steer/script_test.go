package main

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"steerpoint/cmd/steer/internal/locate"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"steer": main, "ask": ask, "site": site, "tlssite": tlsSite, "points": points, "shares": shares, "geofile": geofile,
		"hook": hook, "xfer": xfer, "fetch": fetch, "proxied": proxied, "collector": collector,
		"makecert": sessionProgram("makecert", makeCert), "shake": sessionProgram("shake", shake), "holdtls": sessionProgram("holdtls", holdTLS), "acme": sessionProgram("acme", acme), "acmecert": sessionProgram("acmecert", acmeCert),
		"callee": callee, "call": call,
	})
}

// TestScripts runs the sessions of testdata/script with the real program. Each has a data folder of its own. Besides
// the usual commands there are:
//
//	ready                        wait until the steer on the data folder answers; sets $DNS, $API and $NODES to its addresses
//	eventually WAIT RE CMD...    run CMD until its output (both streams) matches RE, for at most WAIT
//	never WAIT RE CMD...         run CMD over and over for WAIT: its output must never match RE
//	ask NAME TYPE [SUBNET]       a DNS query to $DNS; prints rcode, records, and the scope of the client-subnet option
//	exitcode N CMD...            run CMD, which must end with exit code N
//	breakedge EDGE[/ADDRESS]     break a demo edge
//	terminate WORD               SIGTERM to the background process that has WORD among its arguments
//	hangup WORD                  SIGHUP to it
//	geofile FORMAT FILE [moved]  (a program) writes a geo data file, see geofile_test.go
//	validjson                    the last output is one JSON value, or one a line
//	freeport NAME...             sets each variable to a port that is free for UDP and TCP
//	nodeready FOLDER NAME        wait until the steer on another data folder listens; sets $NAME_DNS and $NAME_HEALTH
//	apiport NAME                 sets a variable to the port of the API that $API names
//	now NAME                     sets a variable to the present time
//	fromfile NAME FILE           sets a variable to the content of a file, without the blanks around it
//	leaks FOLDER VALUE...        no file below FOLDER holds a value in any form, see leak_test.go
//	points RULE                  (a program) the probe points of a rule of the service shop, by name
//	shares NAME FILE [BEFORE]    (a program) how many networks are given each address, and who was moved
//	site ADDR:PORT...            (a program) an edge that answers 200 until it is killed
//	fetch URL HOST               (a program) asks for a URL under another name; prints status, Location and body
//	makecert PREFIX SERIAL NAME... (a program) writes a certificate with its key, and both as a Secret, see certificate_test.go
//	shake ADDR:PORT NAME         (a program) prints whose certificate a name gets; holdtls asks over one connection until a file is there
//	acme ADDR:PORT HTTP DNS FILE (a program) a certificate authority; acmecert prints a Certificate that is ordered from it
//	proxied ADDR CLIENT HOST     (a program) asks a gateway as a proxy that passes a connection on; prints status, Server-Timing, body
//	collector ADDR FILE          (a program) takes spans by OTLP and appends their names to a file
//	callee ADDR:PORT...          (a program) a gRPC server on each address, whose health is good, until it is killed
//	call ADDR:PORT HOST [FIELD]  (a program) asks for its health through a gateway, by HTTP/1.1; prints status, gRPC's, and who answered
//	tlssite ADDR:PORT DAYS       (a program) the same over TLS, with a certificate that ends in DAYS days
//	xfer ZONE [KEY SECRET [SERIAL]] (a program) copies a zone from $DNS as a secondary does, see xfer_test.go
//	hook ADDR:PORT KEY LOG STOP  (a program) a webhook's receiver, see hook_test.go
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		Setup:               setup,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"ready":      ready,
			"eventually": eventually,
			"never":      never,
			"exitcode":   exitCode,
			"breakedge":  breakEdge,
			"terminate":  terminate,
			"hangup":     hangup,
			"validjson":  validJSON,
			"freeport":   freePort,
			"nodeready":  nodeReady,
			"fromfile":   fromFile,
			"apiport":    apiPort,
			"now":        nowIs,
			"leaks":      leaks,
		},
	})
}

func setup(env *testscript.Env) error {
	env.Setenv("STEER_DATA", filepath.Join(env.WorkDir, "data"))
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("NO_COLOR", "1")
	env.Setenv("STEER_LONG", os.Getenv("STEER_LONG"))
	env.Setenv("GORACE", os.Getenv("GORACE")) // steer is this test binary, raced or not
	scenarios, err := filepath.Abs(filepath.Join("..", "..", "steering", "steertest", "testdata", "scenarios"))
	env.Setenv("SCENARIOS", scenarios)
	// What every session of `steer up` gives: ports that are free, and little to say.
	env.Setenv("PORTS", "--listen=dns=127.0.0.1:0")
	return err
}

// startWait bounds the start of a process: an embedded store on a machine that builds at the same time.
const startWait = 90 * time.Second

// poll is the pause between two tries. A real process has no other way to say that it got somewhere.
const poll = 50 * time.Millisecond

// ready waits for the API and sets the bound addresses.
func ready(ts *testscript.TestScript, _ bool, _ []string) {
	var last string
	for end := time.Now().Add(startWait); time.Now().Before(end); time.Sleep(poll) {
		out, err := output(ts, "steer", "status", "-o", "json")
		if err != nil {
			last = out
			continue
		}
		var s struct{ Listeners map[string]string }
		ts.Check(json.Unmarshal([]byte(out), &s))
		ts.Setenv("DNS", s.Listeners["dns"])
		ts.Setenv("API", s.Listeners["api"])
		ts.Setenv("NODES", s.Listeners["nodes"])
		return
	}
	ts.Fatalf("steer is not ready after %v:\n%s", startWait, last)
}

// output runs a program in the session's environment and gives both its streams.
func output(ts *testscript.TestScript, name string, args ...string) (string, error) {
	err := ts.Exec(name, args...)
	return ts.ReadFile("stdout") + ts.ReadFile("stderr"), err
}

// timed splits the arguments of eventually and never.
func timed(ts *testscript.TestScript, args []string) (time.Duration, *regexp.Regexp, []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: eventually|never WAIT RE COMMAND...")
	}
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	return d, re, args[2:]
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! eventually")
	}
	d, re, cmd := timed(ts, args)
	var last string
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(poll) {
		if last, _ = output(ts, cmd[0], cmd[1:]...); re.MatchString(last) { // an exit code is asserted by exec, not here
			return
		}
	}
	ts.Fatalf("after %v the output of %s still does not match %q:\n%s", d, strings.Join(cmd, " "), re, last)
}

func never(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! never")
	}
	d, re, cmd := timed(ts, args)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(poll) {
		if out, _ := output(ts, cmd[0], cmd[1:]...); re.MatchString(out) {
			ts.Fatalf("the output of %s matches %q:\n%s", strings.Join(cmd, " "), re, out)
		}
	}
}

func exitCode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exitcode N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func breakEdge(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: breakedge EDGE[/ADDRESS]")
	}
	ts.Check(ts.Exec("steer", "demo", "break", args[0]))
}

func terminate(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: terminate WORD")
	}
	for _, c := range ts.BackgroundCmds() {
		if slices.Contains(c.Args, args[0]) {
			ts.Check(c.Process.Signal(syscall.SIGTERM))
			return
		}
	}
	ts.Fatalf("no background process has %q among its arguments", args[0])
}

func validJSON(ts *testscript.TestScript, _ bool, _ []string) {
	out := ts.ReadFile("stdout")
	d := json.NewDecoder(strings.NewReader(out))
	n := 0
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			ts.Fatalf("value %d is not JSON: %v\n%s", n+1, err, out)
		}
		n++
	}
	if n == 0 {
		ts.Fatalf("there is no output")
	}
}

func freePort(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		port, tries := 0, 0
		for !isFree(port) {
			if tries++; tries > 1000 {
				ts.Fatalf("no port is free")
			}
			// Below those that the kernel gives to whoever asks for any (32768 on, unless it is told otherwise): until
			// the program of the session takes it, none of the many others that start meanwhile does.
			port = 12_000 + rand.IntN(20_000)
		}
		ts.Setenv(name, strconv.Itoa(port))
	}
}

// isFree reports whether a port can be had for TCP and UDP, on every address.
func isFree(port int) bool {
	if port == 0 {
		return false
	}
	addr := net.JoinHostPort("", strconv.Itoa(port))
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	pc, err := net.ListenPacket("udp", addr)
	if err == nil {
		err = pc.Close()
	}
	return errors.Join(err, l.Close()) == nil
}

func fromFile(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: fromfile NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

func apiPort(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: apiport NAME")
	}
	_, port, err := net.SplitHostPort(ts.Getenv("API"))
	ts.Check(err)
	ts.Setenv(args[0], port)
}

func nodeReady(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: nodeready FOLDER NAME")
	}
	dir := ts.MkAbs(args[0])
	for end := time.Now().Add(startWait); time.Now().Before(end); time.Sleep(poll) {
		r, err := locate.ReadRunning(dir)
		// Not yet, or of a process that was killed: it counts as alive until it is waited for.
		if err != nil || !r.Alive() || strconv.Itoa(r.PID) == ts.Getenv(args[1]+"_PID") {
			continue
		}
		ts.Setenv(args[1]+"_PID", strconv.Itoa(r.PID))
		ts.Setenv(args[1]+"_DNS", r.Listeners["dns"])
		ts.Setenv(args[1]+"_HEALTH", r.Listeners["health"])
		return
	}
	ts.Fatalf("no steer listens for %s after %v", dir, startWait)
}

// TestScriptsSayWhatTheyCover keeps docs/cases.md complete: every session names what it proves.
func TestScriptsSayWhatTheyCover(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^# Covers: \S`).Match(b) {
			t.Errorf("%s has no line `# Covers: ...`", f)
		}
	}
}

func nowIs(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: now NAME")
	}
	ts.Setenv(args[0], time.Now().UTC().Format(time.RFC3339Nano))
}
