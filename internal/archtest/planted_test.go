package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Each file of testdata/planted is a small module with faults, and the findings they must give: the section "want"
// holds one line a finding, "rule: place: words of it". A checker that finds nothing proves nothing.
//
// Covers: issue2 layers
func TestPlantedFaultsAreFound(t *testing.T) {
	files, err := filepath.Glob("testdata/planted/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no planted faults: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			dir, want := plant(t, file)
			packages, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			texts, err := Tree(dir)
			if err != nil {
				t.Fatal(err)
			}
			found := Check(packages)
			found = append(found, CheckTree(texts, "https://modules.corp.example/go,direct")...)
			found = append(found, CheckDocs(texts, parsePlanted, []string{"README.md"})...)
			compare(t, found, want)
		})
	}
}

// parsePlanted stands for spec's parser.
func parsePlanted(_, text string) error {
	if strings.Contains(text, "bad") {
		return os.ErrInvalid
	}
	return nil
}

// plant writes the module of file out and returns where, and the findings wanted.
func plant(t *testing.T, file string) (dir string, want []string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write := func(name string, data []byte) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", []byte("module "+module+"\n\ngo 1.26.0\n"))
	for _, f := range archive.Files {
		if f.Name == "want" {
			want = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
			continue
		}
		// The faults of text are written with a mark in them, so that the archive itself passes the check of the tree.
		write(f.Name, []byte(strings.ReplaceAll(string(f.Data), "~", "")))
	}
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	return dir, want
}

// compare matches findings and wanted lines one to one.
func compare(t *testing.T, found []Finding, want []string) {
	t.Helper()
	left := append([]string(nil), want...)
next:
	for _, f := range found {
		for i, w := range left {
			rule, rest, _ := strings.Cut(w, ": ")
			place, words, _ := strings.Cut(rest, ": ")
			if f.Rule == rule && f.Where == place && strings.Contains(f.What, words) {
				left = append(left[:i], left[i+1:]...)
				continue next
			}
		}
		t.Errorf("not planted, but found: %v", f)
	}
	for _, w := range left {
		t.Errorf("planted, but not found: %s", w)
	}
}

// Covers: issue2 layers
func TestExceptionsNeedAReasonAndAUse(t *testing.T) {
	if _, err := ReadExceptions("file-size\ta.go\tbecause\n"); err == nil {
		t.Error("a one-word reason was accepted")
	}
	list, err := ReadExceptions("# rule, place, reason\nfile-size\ta.go\tone table of the RFC, no logic\n")
	if err != nil {
		t.Fatal(err)
	}
	found := []Finding{{Rule: "file-size", Where: "a.go"}, {Rule: "file-size", Where: "b.go"}}
	if left := Except(found, list); len(left) != 1 || left[0].Where != "b.go" {
		t.Errorf("have %v, want b.go alone", left)
	}
	if left := Except(nil, list); len(left) != 1 || left[0].Rule != "exception" {
		t.Errorf("have %v, want the unused exception named", left)
	}
}

// Covers: issue2 cases
func TestCasesAreTestedOrReasoned(t *testing.T) {
	cases, err := ReadCases("A1\tone unit\nfield 9\tgeo\tissue 5\nfield 8\tcaches\n")
	if err != nil {
		t.Fatal(err)
	}
	covers := []Cover{{"A1 words", "spec", "TestUnit"}, {"field 99", "geo", "TestGeo"}}
	var got []string
	for _, f := range CheckCases(cases, covers) {
		got = append(got, f.What)
	}
	want := `covers "field 99", which docs/cases.tsv does not list|field 8 (caches) has no test and no reason`
	if strings.Join(got, "|") != want {
		t.Errorf("have %q\nwant %q", strings.Join(got, "|"), want)
	}
	page := RenderCases(cases, covers)
	for _, row := range []string{"| A1 | one unit | spec: TestUnit |", "| field 9 | geo | *issue 5* |"} {
		if !strings.Contains(page, row) {
			t.Errorf("page lacks %q:\n%s", row, page)
		}
	}
	if _, err := ReadCases("A1\tone\nA1\ttwo\n"); err == nil {
		t.Error("an id that stands twice was accepted")
	}
}

// Covers: issue2 layers
func TestCamelWords(t *testing.T) {
	for name, want := range map[string]string{
		"ECSScope":    "ecs scope ecsscope",
		"HealthCheck": "health check healthcheck",
		"Rule":        "rule",
		"NewTCPProbe": "new tcp probe newtcp tcpprobe",
	} {
		if got := strings.Join(camelWords(name), " "); got != want {
			t.Errorf("%s: have %q, want %q", name, got, want)
		}
	}
}
