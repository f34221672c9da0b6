package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// read runs a stream of go test -json lines through a reader.
func read(t *testing.T, lines ...string) (*reader, string) {
	t.Helper()
	var out strings.Builder
	r := newReader(&out, "run")
	if err := r.read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

func TestReasonIsShort(t *testing.T) {
	got := reason("=== RUN   TestX\n    x.go:1: 要等一分钟\n" + strings.Repeat("    more\n", 100) + "--- SKIP: TestX (0.00s)\n")
	if !strings.HasPrefix(got, "x.go:1: 要等一分钟 more") || !strings.HasSuffix(got, " [...]") || len(got) > 300 {
		t.Errorf("have %q", got)
	}
}

func TestReaderCountsAndQuotes(t *testing.T) {
	r, out := read(
		t,
		`{"Action":"run","Package":"m/a","Test":"TestGood"}`,
		`{"Action":"pass","Package":"m/a","Test":"TestGood"}`,
		`{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:3: want 1, have 2\n"}`,
		`{"Action":"fail","Package":"m/a","Test":"TestBad"}`,
		`{"Action":"output","Package":"m/a","Test":"TestLater","Output":"=== RUN   TestLater\n"}`,
		`{"Action":"output","Package":"m/a","Test":"TestLater","Output":"    a_test.go:9: needs a network namespace\n"}`,
		`{"Action":"output","Package":"m/a","Test":"TestLater","Output":"--- SKIP: TestLater (0.00s)\n"}`,
		`{"Action":"skip","Package":"m/a","Test":"TestLater"}`,
		`{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.01s\n"}`,
		`{"Action":"fail","Package":"m/a"}`,
		`{"Action":"output","Package":"m/b","Output":"ok  \tm/b\t0.02s\n"}`,
		`{"Action":"pass","Package":"m/b"}`,
	)
	if got, want := r.counts.line(), "1 passed, 1 failed, 1 skipped"; got != want {
		t.Errorf("counts: have %q, want %q", got, want)
	}
	if got, want := r.counts.Skips[0].Reason, "a_test.go:9: needs a network namespace"; got != want {
		t.Errorf("reason: have %q, want %q", got, want)
	}
	for _, want := range []string{"FAIL: m/a TestBad\n", "want 1, have 2", "FAIL\tm/a", "ok  \tm/b\t0.02s"} {
		if !strings.Contains(out, want) {
			t.Errorf("report lacks %q:\n%s", want, out)
		}
	}
}

func TestPackageThatDoesNotBuildIsOneFailure(t *testing.T) {
	r, out := read(
		t,
		`{"ImportPath":"m/a [m/a.test]","Action":"build-output","Output":"./a.go:3:1: undefined: x\n"}`,
		`{"ImportPath":"m/a [m/a.test]","Action":"build-fail"}`,
		`{"Action":"output","Package":"m/a","Output":"FAIL\tm/a [build failed]\n"}`,
		`{"Action":"fail","Package":"m/a","FailedBuild":"m/a [m/a.test]"}`,
	)
	if r.counts.Failed != 1 || !strings.Contains(out, "undefined: x") {
		t.Errorf("have %d failures and report:\n%s", r.counts.Failed, out)
	}
}

func TestPanicOfATestThatNeverEndsIsShown(t *testing.T) {
	r, out := read(
		t,
		`{"Action":"output","Package":"m/a","Test":"TestHangs","Output":"panic: test timed out\n"}`,
		`{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t480s\n"}`,
		`{"Action":"fail","Package":"m/a"}`,
	)
	if r.counts.Failed != 1 || !strings.Contains(out, "TestHangs did not end\n    panic: test timed out") {
		t.Errorf("have %d failures and report:\n%s", r.counts.Failed, out)
	}
}

// The end of each failure comes once more after everything else, of a failed subtest and not of its parents.
func TestFailuresAreToldAtTheEnd(t *testing.T) {
	r, _ := read(
		t,
		`{"Action":"output","Package":"m/a","Test":"TestAll/one","Output":"    a_test.go:3: want 1, have 2\n"}`,
		`{"Action":"fail","Package":"m/a","Test":"TestAll/one"}`,
		`{"Action":"fail","Package":"m/a","Test":"TestAll"}`,
		`{"Action":"output","Package":"m/b","Output":"panic: no map\n"}`,
		`{"Action":"fail","Package":"m/b"}`,
	)
	var out strings.Builder
	if err := r.counts.finish(&out, ""); err == nil {
		t.Error("a run with failures is green")
	}
	want := "failed m/a TestAll/one, which ended:\n        a_test.go:3: want 1, have 2\n" +
		"failed m/b as a whole, which ended:\n    panic: no map\nrun: 0 passed, 3 failed, 0 skipped in 0s\n"
	if out.String() != want {
		t.Errorf("have\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTotalIsRedWhenNothingRanOrSomethingFailed(t *testing.T) {
	tests := []struct {
		name     string
		runs     []counts
		wantLine string
		wantErr  error
	}{
		{"green", []counts{{Passed: 2}, {Passed: 3, Skipped: 1}}, "5 passed, 0 failed, 1 skipped\n", nil},
		{"one failed", []counts{{Passed: 2}, {Failed: 1}}, "2 passed, 1 failed, 0 skipped\n", errRed},
		{"nothing ran", []counts{{Skipped: 4}}, "0 passed, 0 failed, 4 skipped\n", errRed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var files []string
			for i, c := range tt.runs {
				f := filepath.Join(t.TempDir(), string(rune('a'+i))+".json")
				var quiet strings.Builder
				_ = c.finish(&quiet, f) // its colour is that of the total, tested below
				files = append(files, f)
			}
			var out strings.Builder
			if err := total(&out, files); err != tt.wantErr {
				t.Errorf("error: have %v, want %v", err, tt.wantErr)
			}
			if !strings.Contains(out.String(), tt.wantLine) {
				t.Errorf("no line %q in:\n%s", tt.wantLine, out.String())
			}
		})
	}
}

func TestSelection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x_test.go")
	if err := os.WriteFile(file, []byte("package x // reads SOME_LONG\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []*testPackage{
		{path: "m/plain", deps: []string{"fmt"}},
		{path: "m/stored", deps: []string{"fmt", "store/wal"}},
		{path: "m/long", deps: []string{"fmt"}, test: []string{file}},
		{path: "m/apart", deps: []string{"store/wal"}, test: []string{file}},
	}
	for _, tc := range []struct {
		sel  selection
		want string
	}{
		{selection{}, "m/plain m/stored m/long m/apart"},
		{selection{linking: "store/"}, "m/stored m/apart"},
		{selection{linking: "other/,store/", except: "m/none,m/apart"}, "m/stored"},
		{selection{notLinking: "store/"}, "m/plain m/long"},
		{selection{linking: "store/", orMentioning: "SOME_LONG", except: "m/apart"}, "m/stored m/long"},
		{selection{only: "m/long"}, "m/long"},
		{selection{only: "m/long,m/plain"}, "m/plain m/long"},
		{selection{only: "m/none"}, ""},
	} {
		got, err := tc.sel.of(all)
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%+v: %v, %v; want %s", tc.sel, got, err, tc.want)
		}
	}
	gone := []*testPackage{{path: "m/gone", test: []string{file + ".gone"}}}
	if _, err := (selection{linking: "store/", orMentioning: "x"}).of(gone); err == nil {
		t.Error("a test file that cannot be read is no mistake")
	}
}

func TestFuzzTargetsAreFound(t *testing.T) {
	f := filepath.Join(t.TempDir(), "x_test.go")
	src := "package x\nimport \"testing\"\nfunc FuzzOne(f *testing.F) {}\nfunc TestOne(t *testing.T) {}\nfunc (s S) FuzzNo(f *testing.F) {}\n"
	if err := os.WriteFile(f, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := fuzzTargets(f)
	if err != nil || len(got) != 1 || got[0] != "FuzzOne" {
		t.Errorf("have %v, %v; want [FuzzOne]", got, err)
	}
}

// What a target found new is kept, the smallest first, where go test looks for it; a plan takes packages by whole names.
func TestFuzzKeeps(t *testing.T) {
	corpus, dir := t.TempDir(), t.TempDir()
	x := target{pkg: "steerpoint/x", dir: dir, name: "FuzzOne"}
	if n, err := x.keep(corpus, 5); n != 0 || err != nil {
		t.Errorf("nothing new: %d, %v", n, err)
	}
	from := filepath.Join(corpus, x.pkg, x.name)
	if err := os.MkdirAll(from, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a": "long input", "b": "short", "c": "longest input"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, err := x.keep(corpus, 2)
	kept, _ := filepath.Glob(filepath.Join(dir, "testdata", "fuzz", "FuzzOne", "*"))
	if n != 2 || err != nil || len(kept) != 2 || filepath.Base(kept[0]) != "a" || filepath.Base(kept[1]) != "b" {
		t.Errorf("kept %d %v, %v", n, kept, err)
	}
	plan := fuzzPlan{in: "steerpoint/authdns,steerpoint/snapshot"}
	for path, want := range map[string]bool{"steerpoint/authdns/internal/answer": true, "steerpoint/snapshot": true, "steerpoint/snapshots": false, "steerpoint/geo": false} {
		if plan.takes(path) != want {
			t.Errorf("%s: taken: %t", path, !want)
		}
	}
}

// Runs of a target add up over lines of its own, and one with enough of them is not due.
func TestLedger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fuzz.tsv")
	plan := fuzzPlan{ledger: file, until: time.Minute}
	one, two := target{pkg: "steerpoint/x", name: "FuzzOne"}, target{pkg: "steerpoint/x", name: "FuzzTwo"}
	if due, err := plan.due([]target{one, two}); err != nil || len(due) != 2 {
		t.Errorf("no ledger: due %v, %v", due, err)
	}
	for _, cpu := range []time.Duration{31 * time.Second, 29 * time.Second} {
		if err := plan.enter(t.Context(), one, cpu, executions("fuzz: elapsed: 3s, execs: 41 (9/sec), new interesting: 2\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := plan.enter(t.Context(), two, 59*time.Second, 0); err != nil {
		t.Fatal(err)
	}
	due, err := plan.due([]target{one, two})
	if err != nil || len(due) != 1 || due[0].name != "FuzzTwo" {
		t.Errorf("due %v, %v", due, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\t41\n") != 2 || strings.Count(string(text), ledgerHead) != 1 {
		t.Errorf("%s%v", text, err)
	}
	if err := os.WriteFile(file, []byte("steerpoint/x\tFuzzOne\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.due([]target{one}); err == nil {
		t.Error("half a line was read as a line")
	}
}
