package steertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// implementations are what every timeline of the tests is run on.
func implementations() map[string]Factory {
	return map[string]Factory{"core": Core, "oracle": newOracle}
}

func parseFile(t *testing.T, file string) *Timeline {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func replayFolder(t *testing.T, pattern string, least int) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < least {
		t.Fatalf("%d files match %s, want at least %d (%v)", len(files), pattern, least, err)
	}
	for _, file := range files {
		tl := parseFile(t, file)
		for name, machine := range implementations() {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+name, func(t *testing.T) {
				result, err := tl.Run(loadYAML, Options{Machine: machine})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range result.Failures {
					t.Error(f)
				}
				if t.Failed() {
					for _, s := range result.Switches {
						t.Log(s)
					}
				}
			})
		}
	}
}

// TestScenarios replays the cases every build of Steerpoint must pass, on the core and on the second implementation.
//
// Covers: A7, A8, B4, B5, field 17, field 18, field 28, field 29
func TestScenarios(t *testing.T) {
	replayFolder(t, "testdata/scenarios/*.txtar", 25)
}

// TestCases replays this package's own cases: the extensions of the language, and small timelines on which the two
// implementations once parted.
//
// Covers: decisions 2, decisions 3, decisions 8, field 18
func TestCases(t *testing.T) {
	replayFolder(t, "testdata/cases/*.txtar", 5)
}
