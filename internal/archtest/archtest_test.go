package archtest

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"steerpoint/spec"
)

var update = flag.Bool("update", false, "rewrite docs/cases.md")

const root = "../.."

// tree is the module's source and text, read once for all tests.
func tree(t *testing.T) ([]*Package, []Text) {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := Load(abs)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := Tree(abs)
	if err != nil {
		t.Fatal(err)
	}
	return packages, texts
}

func report(t *testing.T, found []Finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}

// Covers: issue2 layers
func TestSourceKeepsTheRules(t *testing.T) {
	packages, texts := tree(t)
	if len(packages) < 10 {
		t.Fatalf("only %d packages found: go list looked in the wrong place", len(packages))
	}
	goproxy, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	list, err := ReadExceptions(read(t, "exceptions.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	found := append(Check(packages), CheckTree(texts, strings.TrimSpace(string(goproxy)))...)
	report(t, Except(found, list))
}

// Covers: issue2 layers
func TestEveryLayerStillExists(t *testing.T) {
	packages, _ := tree(t)
	for _, path := range staleLayers(packages) {
		t.Errorf("the table has a layer for %s, and no package lies there: the rule is stale", path)
	}
}

// Examples of pages for people are whole documents that spec accepts; sessions are run by the tour of cmd/steer.
//
// Covers: issue2 docs
func TestPagesForPeopleHold(t *testing.T) {
	_, texts := tree(t)
	report(t, CheckDocs(texts, parseExample, []string{"README.md"}))
	for _, text := range texts {
		if strings.HasPrefix(text.Path, "docs/") && filepath.Ext(text.Path) == ".yaml" {
			if err := parseExample(text.Path, text.Data); err != nil {
				t.Errorf("%s: %v", text.Path, err)
			}
		}
	}
	// The tour names the page it runs; a tour that ran another would leave this one unproved.
	if tour := read(t, filepath.Join(root, "cmd/steer/tour_test.go")); !strings.Contains(tour, "README.md") {
		t.Error("cmd/steer/tour_test.go does not run README.md")
	}
}

func parseExample(where, text string) error {
	docs, parse := spec.Parse(where, []byte(text))
	if err := parse.Err(); err != nil {
		return err
	}
	if len(docs) == 0 {
		return errors.New("holds no document")
	}
	errs, _ := spec.NewSet(docs).Check(spec.Partial)
	return errs.Err()
}

// Covers: issue2 docs
func TestGlossaryIsWhole(t *testing.T) {
	terms := Glossary(read(t, filepath.Join(root, "GLOSSARY.md")))
	have := map[string]bool{}
	for _, term := range terms {
		if term.Chinese == "" || term.Meaning == "" {
			t.Errorf("%s: a term has a Chinese word and a meaning", term.Word)
		}
		if have[term.Word] {
			t.Errorf("%s: stands twice", term.Word)
		}
		have[term.Word] = true
	}
	for _, word := range []string{
		"service", "service CNAME", "edge", "edge provider", "managed", "steer", "scope", "rule", "mode", "probe point",
		"observation", "verdict", "decision", "switch", "lock", "cool-down", "origin", "origin group", "region", "node",
		"snapshot", "relay", "parent", "pool", "path", "backup path",
	} {
		if !have[word] {
			t.Errorf("%s: not in GLOSSARY.md", word)
		}
	}
}

// Covers: issue2 cases
func TestEveryCaseHasATestOrAReason(t *testing.T) {
	packages, texts := tree(t)
	cases, err := ReadCases(read(t, filepath.Join(root, "docs/cases.tsv")))
	if err != nil {
		t.Fatal(err)
	}
	report(t, CheckCases(cases, Covers(packages, texts)))
}

// Covers: issue2 cases
func TestCasesPageIsCurrent(t *testing.T) {
	packages, texts := tree(t)
	cases, err := ReadCases(read(t, filepath.Join(root, "docs/cases.tsv")))
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(root, "docs/cases.md")
	want := RenderCases(cases, Covers(packages, texts))
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if read(t, page) != want {
		t.Error("docs/cases.md is not what the tests' Covers lines say: run make cases")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
