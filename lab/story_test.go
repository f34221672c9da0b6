//go:build linux

package lab_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"steerpoint/lab"
	"steerpoint/lab/internal/wallclock"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"on": on, "node": node, "ask": ask, "get": get, "labowner": labOwner, "inthewrongtime": inTheWrongTime,
	})
}

// TestStories runs the stories of testdata: real steer processes on hosts of their own, with a wide-area network
// between them. Besides the usual commands of a script there are:
//
//	hosts NAME...                   make the hosts; $NAME and $NAMEv6 are their addresses
//	link A B WORD...                both ways between A and B: delay=20ms jitter=2ms loss=10% rate=10mbit queue=50ms
//	link A -> B WORD...             one way
//	cut A B, cut A -> B, cut A      drop everything: both ways, one way, between A and every other host
//	heal A B, heal A -> B, heal A   end that; heal alone ends every cut
//	on HOST COMMAND...              run a program on a host; its STEER_DATA is $WORK/HOST; may end in & or &name&
//	node HOST ROLES [OPTION]...     on HOST: steer node, joined to the control on the host ctl with a token made for it
//	ask @SERVER NAME TYPE [SUBNET]  a DNS query (on HOST ask ...): prints rcode, records, and the client-subnet scope
//	get URL                         an HTTP request (on HOST get ...): prints the body
//	site HOST up|down|hang          a web server on port 80 of HOST: answers 200, refuses, or never answers
//	site HOST slow DURATION         answers after that time
//	site HOST status CODE           answers with that status
//	eventually WAIT RE COMMAND...   run COMMAND until its output (both streams) matches RE, for at most WAIT
//	never WAIT RE COMMAND...        run COMMAND over and over for WAIT: its output must never match RE
//	expand FILE...                  put the values of $NAME into files
//	counts A B [C D ...]            print the packet counts from A to B, and from C to D, added up
//	clock HOST DURATION             programs started on HOST from then on take the wall clock for that much more than it is;
//	                                said again, it steps for those that run
//	clock HOST HH:MM:SS             the same, so that it is that time now, in UTC
//
// The condition [long] is STEER_LONG=1; [clocks] says that this machine can give a program a wall clock of its own.
//
//	go test ./lab -run 'TestStories/NAME$' -v
func TestStories(t *testing.T) {
	if err := lab.Missing(); err != nil {
		t.Skip(err)
	}
	bin := buildSteer(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("NO_COLOR", "1")
			env.Values[storyKey{}] = &story{sites: map[string]*site{}, env: slices.Clone(env.Vars)}
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "long":
				return os.Getenv("STEER_LONG") == "1", nil
			case "clocks":
				return wallclock.Supported() == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		RequireUniqueNames: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"hosts": hosts, "link": link, "cut": cut, "heal": heal, "site": setSite, "counts": counts,
			"eventually": eventually, "never": never, "expand": expand, "clock": setClock,
		},
	})
}

// buildSteer builds the real program once, as it is shipped: without cgo and without the race detector, whatever this
// test is built with. $STEER_BIN names a folder whose steer is used instead: one that is packaged, or of another version.
func buildSteer(t *testing.T) (bin string) {
	t.Helper()
	if given := os.Getenv("STEER_BIN"); given != "" {
		abs, err := filepath.Abs(given)
		check(t, err)
		return abs
	}
	bin = t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "steer"), "steerpoint/cmd/steer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("steer does not build: %v\n%s", err, out)
	}
	return bin
}

// story is what one story has besides its files and processes.
type story struct {
	lab   *lab.Lab
	sites map[string]*site
	env   []string // for what eventually and never run: as the script began, and where the hosts are
}

type storyKey struct{}

// theLab is the lab of a story that has named its hosts.
func theLab(ts *testscript.TestScript) *lab.Lab {
	l := theStory(ts).lab
	if l == nil {
		ts.Fatalf("name the hosts first: hosts NAME...")
	}
	return l
}

func theStory(ts *testscript.TestScript) *story {
	s, ok := ts.Value(storyKey{}).(*story)
	if !ok {
		ts.Fatalf("the story was not set up")
	}
	return s
}

// positive refuses "! command" where it means nothing.
func positive(ts *testscript.TestScript, neg bool, command string) {
	if neg {
		ts.Fatalf("unsupported: ! %s", command)
	}
}

func hosts(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, "hosts")
	s := theStory(ts)
	if s.lab != nil {
		ts.Fatalf("a story names its hosts once")
	}
	l, err := lab.New(lab.Config{Hosts: args, Seed: 1})
	ts.Check(err)
	s.lab = l
	ts.Defer(func() {
		for _, site := range s.sites {
			site.close()
		}
		if err := l.Close(); err != nil {
			ts.Fatalf("%v", err)
		}
	})
	for _, name := range args {
		path, err := l.Namespace(name)
		ts.Check(err)
		ts.Setenv(spaceVariable(name), path)
		s.env = append(s.env, spaceVariable(name)+"="+path)
		ts.Setenv(name, l.Addr4(name).String())
		ts.Setenv(name+"v6", l.Addr6(name).String())
		ts.Check(os.MkdirAll(ts.MkAbs(filepath.Join(ts.Getenv("WORK"), name)), 0o700))
	}
}

// spaceVariable is the environment variable that tells the program `on` where a host is.
func spaceVariable(host string) string { return "LAB_HOST_" + host }

// on is the program `on HOST COMMAND...`: it becomes COMMAND, on the host, with a data folder of the host's own.
func on() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: on HOST COMMAND...")
		os.Exit(2)
	}
	host, argv := os.Args[1], os.Args[2:]
	space := os.Getenv(spaceVariable(host))
	if space == "" {
		fmt.Fprintf(os.Stderr, "on: there is no host %q\n", host)
		os.Exit(2)
	}
	folder := filepath.Join(os.Getenv("WORK"), host)
	env := append(os.Environ(), "STEER_DATA="+folder, "HOME="+folder)
	if _, err := os.Stat(clockFile(os.Getenv("WORK"), host)); err == nil {
		argv = append([]string{"inthewrongtime", clockFile(os.Getenv("WORK"), host)}, argv...)
	}
	fmt.Fprintln(os.Stderr, "on:", lab.Enter(space, argv, env))
	os.Exit(2)
}

// clockFile says by how much the wall clock of a host is wrong, if it is.
func clockFile(work, host string) string { return filepath.Join(work, host+".clock") }

func setClock(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, "clock")
	if len(args) != 2 {
		ts.Fatalf("usage: clock HOST DURATION|HH:MM:SS")
	}
	_, err := theLab(ts).Namespace(args[0]) // is there such a host?
	ts.Check(err)
	ahead, err := time.ParseDuration(args[1])
	if at, notTime := time.Parse(time.TimeOnly, args[1]); notTime == nil {
		now := time.Now().UTC()
		ahead, err = at.Sub(time.Date(at.Year(), at.Month(), at.Day(), now.Hour(), now.Minute(), now.Second(), 0, time.UTC)), nil
	}
	ts.Check(err)
	ts.Check(wallclock.Set(clockFile(ts.Getenv("WORK"), args[0]), ahead))
}

// inTheWrongTime is the program `inthewrongtime FILE COMMAND...`: COMMAND, with the wall clock that FILE says.
func inTheWrongTime() {
	path, err := exec.LookPath(os.Args[2])
	if err == nil {
		var code int
		code, err = wallclock.Run(append([]string{path}, os.Args[3:]...), os.Environ(), os.Args[1])
		if err == nil {
			os.Exit(code)
		}
	}
	fmt.Fprintln(os.Stderr, "inthewrongtime:", err)
	os.Exit(2)
}

// node is the program `node HOST ROLES [OPTION]...`: it becomes a node that joins the control on the host ctl, named as
// its host. A story that starts the node again says `on HOST steer node`.
func node() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: node HOST ROLES [OPTION]...")
		os.Exit(2)
	}
	host, roles, options := os.Args[1], os.Args[2], os.Args[3:]
	token, err := exec.Command("on", "ctl", "steer", "token", "create", "--role", roles, "--name", host).Output()
	file := filepath.Join(os.Getenv("WORK"), host+".token")
	if err == nil {
		err = os.WriteFile(file, token, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node: token:", err)
		os.Exit(2)
	}
	os.Args = append([]string{
		"on", host, "steer", "node", "--roles", roles, "--join", "https://" + os.Getenv("ctl"), "--token", file, "--name", host,
		"--listen", "dns=:53",
	}, options...)
	on()
}

// ways reads "A B" as both directions, "A -> B" as one, and "A" alone as all that touch A; rest is what follows.
func ways(ts *testscript.TestScript, args []string) (ways [][2]string, rest []string) {
	switch {
	case len(args) >= 3 && args[1] == "->":
		return [][2]string{{args[0], args[2]}}, args[3:]
	case len(args) >= 2:
		return [][2]string{{args[0], args[1]}, {args[1], args[0]}}, args[2:]
	case len(args) == 1:
		for _, other := range theLab(ts).Hosts() {
			if other != args[0] {
				ways = append(ways, [2]string{args[0], other}, [2]string{other, args[0]})
			}
		}
		return ways, nil
	}
	ts.Fatalf("name the hosts: A B, A -> B, or A")
	return nil, nil
}

func link(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, "link")
	pairs, words := ways(ts, args)
	change(ts, pairs, words...)
}

func cut(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, "cut")
	pairs, rest := ways(ts, args)
	if len(rest) > 0 {
		ts.Fatalf("usage: cut A B, cut A -> B or cut A")
	}
	change(ts, pairs, "cut")
}

func heal(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, "heal")
	if len(args) == 0 {
		args = theLab(ts).Hosts()
		for _, a := range args {
			pairs, _ := ways(ts, []string{a})
			change(ts, pairs, "heal")
		}
		return
	}
	pairs, rest := ways(ts, args)
	if len(rest) > 0 {
		ts.Fatalf("usage: heal, heal A B, heal A -> B or heal A")
	}
	change(ts, pairs, "heal")
}

// change applies words to ordered pairs of hosts.
func change(ts *testscript.TestScript, pairs [][2]string, words ...string) {
	l := theLab(ts)
	for _, w := range pairs {
		old, err := l.Pair(w[0], w[1])
		ts.Check(err)
		p, err := old.Change(words...)
		ts.Check(err)
		ts.Check(l.LinkOneWay(w[0], w[1], p))
	}
}

func counts(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, "counts")
	if len(args) == 0 || len(args)%2 != 0 {
		ts.Fatalf("usage: counts FROM TO [FROM TO ...]")
	}
	var c lab.Counts
	for ; len(args) > 0; args = args[2:] {
		one, err := theLab(ts).Counts(args[0], args[1])
		ts.Check(err)
		c.Sent, c.Arrived, c.Lost, c.Full, c.Cut = c.Sent+one.Sent, c.Arrived+one.Arrived, c.Lost+one.Lost, c.Full+one.Full, c.Cut+one.Cut
	}
	_, err := fmt.Fprintf(ts.Stdout(), "sent %d arrived %d lost %d full %d cut %d\n", c.Sent, c.Arrived, c.Lost, c.Full, c.Cut)
	ts.Check(err)
}

func expand(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, "expand")
	for _, f := range args {
		text := os.Expand(ts.ReadFile(f), func(name string) string {
			value := ts.Getenv(name)
			if value == "" {
				ts.Fatalf("%s: $%s has no value", f, name)
			}
			return value
		})
		ts.Check(os.WriteFile(ts.MkAbs(f), []byte(text), 0o600))
	}
}

// poll is the pause between two tries. A real process has no other way to say that it got somewhere.
const poll = 100 * time.Millisecond

// timed splits the arguments of eventually and never.
func timed(ts *testscript.TestScript, neg bool, args []string) (time.Duration, *regexp.Regexp, []string) {
	positive(ts, neg, "eventually and never")
	if len(args) < 3 {
		ts.Fatalf("usage: eventually|never WAIT RE COMMAND...")
	}
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	return d, re, args[2:]
}

// try runs a program as a script would, and gives both its streams. Its exit code is for the script to assert, by a line
// of its own. What it says is not logged: it is run hundreds of times.
func try(ts *testscript.TestScript, argv []string) string {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = theStory(ts).env
	cmd.Dir = ts.MkAbs(".")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	return string(out)
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	d, re, cmd := timed(ts, neg, args)
	var last string
	for began := time.Now(); time.Since(began) < d; time.Sleep(poll) {
		if last = try(ts, cmd); re.MatchString(last) {
			_, err := fmt.Fprint(ts.Stdout(), last)
			ts.Check(err)
			ts.Logf("came after %v", time.Since(began).Round(time.Millisecond))
			return
		}
	}
	ts.Fatalf("after %v the output of %s still does not match %q:\n%s", d, strings.Join(cmd, " "), re, last)
}

func never(ts *testscript.TestScript, neg bool, args []string) {
	d, re, cmd := timed(ts, neg, args)
	tries, pause := 0, max(poll, d/200) // what is looked for over minutes lasts for seconds
	for began := time.Now(); time.Since(began) < d; time.Sleep(pause) {
		tries++
		if out := try(ts, cmd); re.MatchString(out) {
			ts.Fatalf("after %v the output of %s matches %q:\n%s", time.Since(began), strings.Join(cmd, " "), re, out)
		}
	}
	ts.Logf("asked %d times", tries)
}

func setSite(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, "site")
	if len(args) < 2 {
		ts.Fatalf("usage: site HOST up|down|hang|slow DURATION|status CODE")
	}
	s := theStory(ts)
	host := args[0]
	if s.sites[host] == nil {
		s.sites[host] = &site{name: host, lab: theLab(ts)}
	}
	b := behaviour{}
	switch how := args[1]; {
	case how == "up" && len(args) == 2:
	case how == "down" && len(args) == 2:
		b.down = true
	case how == "hang" && len(args) == 2:
		b.hang = true
	case how == "slow" && len(args) == 3:
		d, err := time.ParseDuration(args[2])
		ts.Check(err)
		b.delay = d
	case how == "status" && len(args) == 3:
		code, err := strconv.Atoi(args[2])
		ts.Check(err)
		b.status = code
	default:
		ts.Fatalf("site %s: %q is none of up, down, hang, slow DURATION, status CODE", host, args[1:])
	}
	ts.Check(s.sites[host].set(b))
}

// TestStoriesSayWhatTheyCover keeps docs/cases.md complete: every story names what it proves.
func TestStoriesSayWhatTheyCover(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		check(t, err)
		if !slices.ContainsFunc(strings.Split(string(b), "\n"), func(l string) bool { return strings.HasPrefix(l, "# Covers: ") }) {
			t.Errorf("%s has no line `# Covers: ...`", f)
		}
	}
}
