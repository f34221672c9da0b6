// Package packaging_test installs what this folder makes on machines made for it.
package packaging_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"steerpoint/packaging/dnsload"
)

// What the machines of the story answer; see testdata/site.yaml.
const (
	loadServer, loadName, loadAddress = "127.0.0.1:53", "web.gslb.example.net", "192.0.2.80"
	loadPatience                      = time.Minute // a program starts in between, on a machine that is busy
)

// TestMain is the tests, or the program /out/load of the story.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "load" {
		os.Exit(m.Run())
	}
	if err := load(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// load asks once, or from start until SIGTERM; then it fails if a query was lost. /tmp/loaded says that it is under way.
func load(how string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	patience, enough := loadPatience, int64(1000)
	if how == "once" {
		patience, enough = 5*time.Second, 1
	}
	l, err := dnsload.Start(loadServer, loadName, loadAddress, patience)
	if err != nil {
		return err
	}
	for l.Answered() < enough && l.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if how == "start" && l.Err() == nil {
		if err := os.WriteFile("/tmp/loaded", nil, 0o600); err != nil {
			return err
		}
		<-ctx.Done()
	}
	result, err := l.Stop()
	fmt.Printf("load: %+v\n", result)
	return err
}

// TestLifeOfThePackage builds the package, installs it on a machine of its own, starts control and a node that joins it,
// upgrades both with 2,000 queries a second going on of which none is lost, breaks the program, removes, installs again
// and purges: nothing is left. Once with systemd as process 1 and its sandbox, once with init scripts.
// Covers: A2, E4, issue3 package, issue3 upgrade
func TestLifeOfThePackage(t *testing.T) {
	if os.Getenv("STEER_LONG") == "" {
		t.Skip("installs packages for minutes: STEER_LONG=1 runs it")
	}
	need(t, "dpkg", "dpkg-deb", "unshare", "go", "bash", "ip", "hostname")
	if os.Getuid() != 0 {
		t.Skip("makes machines of its own, which only root can")
	}
	dir := t.TempDir()
	old := buildProgram(t, filepath.Join(dir, "steer"))
	next := filepath.Join(dir, "next")
	copyFile(t, next, old, "\n") // another file that is the same program
	packages := map[string]string{"old.deb": buildPackage(t, dir, old, "0.0.1"), "new.deb": buildPackage(t, dir, next, "0.0.2")}
	again := buildPackage(t, filepath.Join(dir, "again"), old, "0.0.1")
	if sum(t, again) != sum(t, packages["old.deb"]) {
		t.Error("the same files made two packages that differ")
	}
	for _, manager := range []string{"systemd", "initscripts"} {
		t.Run(manager, func(t *testing.T) {
			out := t.TempDir()
			for name, from := range packages {
				copyFile(t, filepath.Join(out, name), from, "")
			}
			for _, name := range []string{"story.sh", "site.yaml"} {
				copyFile(t, filepath.Join(out, name), filepath.Join("testdata", name), "")
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			copyFile(t, filepath.Join(out, "load"), self, "")
			story(t, manager, out)
		})
	}
}

// story tells testdata/story.sh on a machine of its own.
func story(t *testing.T, manager, out string) {
	t.Helper()
	// 8 minutes: the story takes one on a quiet machine.
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join("testdata", "machine.sh"), manager, out)
	cmd.WaitDelay = 10 * time.Second
	printed, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skipf("this machine cannot make another one: %s", readFile(t, filepath.Join(out, "cannot")))
	}
	if _, done := os.Stat(filepath.Join(out, "done")); done != nil { // process 1 has no exit code worth a look
		log, readErr := os.ReadFile(filepath.Join(out, "log"))
		t.Fatalf("the story was not told to its end (%v): %s\n%s\n%v", err, printed, log, readErr)
	}
	t.Log(regexp.MustCompile(`(?m)^(== |load: ).*$`).FindAllString(readFile(t, filepath.Join(out, "log")), -1))
}

// need skips a test on a machine without a tool it cannot do without.
func need(t *testing.T, tools ...string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("packages are for Linux")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not on this machine", tool)
		}
	}
}

func buildProgram(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/steer")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func buildPackage(t *testing.T, dir, program, version string) string {
	t.Helper()
	cmd := exec.Command("./build_deb.sh", program, version, dir)
	cmd.Env = append(os.Environ(), "COMPRESSION=none", "SOURCE_DATE_EPOCH=1700000000")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("build_deb.sh: %v\n%s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out))
}

func copyFile(t *testing.T, to, from, more string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err == nil {
		_, err = io.WriteString(out, more)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

func sum(t *testing.T, path string) [sha256.Size]byte {
	t.Helper()
	return sha256.Sum256([]byte(readFile(t, path)))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestUnitsAreSound: systemd finds no mistake in the units, and rates what they may do below 2 of 10.
// Covers: issue3 package
func TestUnitsAreSound(t *testing.T) {
	need(t, "systemd-analyze")
	version, err := exec.Command("systemd-analyze", "--version").Output()
	var n int
	if _, scanErr := fmt.Sscanf(string(version), "systemd %d", &n); err != nil || scanErr != nil || n < 250 {
		t.Skipf("systemd-analyze is older than 250, which rates units of no running system: %.40q %v %v", version, err, scanErr)
	}
	for _, name := range []string{"steer-control.service", "steer-node.service"} {
		// The program is not installed here, and verify looks for it.
		unit := filepath.Join(t.TempDir(), name)
		text := strings.ReplaceAll(readFile(t, filepath.Join("systemd", name)), "/usr/bin/steer", "/bin/true")
		if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), name) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", unit).CombinedOutput(); err != nil {
			t.Errorf("%s may do too much: %v\n%s", name, err, out)
		}
	}
}

// TestScriptsParse: each script is one to its own shell.
// Covers: issue3 package
func TestScriptsParse(t *testing.T) {
	need(t, "bash")
	scripts, err := filepath.Glob("*.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"sysv/*", "debian/p*", "testdata/*.sh"} {
		more, err := filepath.Glob(pattern)
		if err != nil || len(more) == 0 {
			t.Fatalf("%s: %v, %v", pattern, more, err)
		}
		scripts = append(scripts, more...)
	}
	for _, script := range scripts {
		shell := "sh"
		if strings.Contains(strings.SplitN(readFile(t, script), "\n", 2)[0], "bash") {
			shell = "bash"
		}
		if out, err := exec.Command(shell, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s -n %s: %v\n%s", shell, script, err, out)
		}
	}
}

// TestOperationsPage: every alarm that the program has stands in the table with what to do, and no other; the ports of
// the container file are those of the table.
// Covers: issue3 package, issue3 operations page
func TestOperationsPage(t *testing.T) {
	page := readFile(t, "../docs/operations.md")
	alarms := func(text, pattern string) []string {
		var all []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		slices.Sort(all)
		return all
	}
	have := alarms(page, "(?m)^\\| `(ALARM_[A-Z_]+)` \\|")
	want := alarms(readFile(t, "../cmd/steer/internal/codes/pages.txt"), "(?m)^(ALARM_[A-Z_]+) ")
	if len(want) == 0 || !slices.Equal(have, want) {
		t.Errorf("the page has the alarms %v, the program %v", have, want)
	}
	container := readFile(t, "Containerfile")
	exposed := regexp.MustCompile(`(?m)^EXPOSE (.*)$`).FindStringSubmatch(container)
	if exposed == nil {
		t.Fatal("the container file exposes nothing")
	}
	for _, port := range strings.Fields(exposed[1]) {
		number, _, _ := strings.Cut(port, "/")
		if !regexp.MustCompile(`(?m)^\|[^|]*\b` + number + `\b`).MatchString(page) {
			t.Errorf("port %s of the container file is not in the table", port)
		}
	}
	if m := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(container); m == nil || m[1] == "0" || m[2] == "0" {
		t.Error("the container runs as root, or as a name that an image without passwd does not know")
	}
}
