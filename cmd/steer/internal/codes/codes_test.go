package codes

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"steerpoint/spec"
)

// Every page says something in both languages, once, under a code of the usual form.
func TestPagesAreWhole(t *testing.T) {
	form := regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	seen := map[string]bool{}
	for _, p := range All() {
		if !form.MatchString(p.Code) || seen[p.Code] {
			t.Errorf("code %q is malformed, or there twice", p.Code)
		}
		seen[p.Code] = true
		if !slices.Contains([]string{"error", "warning", "alarm"}, p.Kind) {
			t.Errorf("%s: kind %q", p.Code, p.Kind)
		}
		if len(p.English) < 10 || strings.ContainsFunc(p.English, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s: English %q", p.Code, p.English)
		}
		if !strings.ContainsFunc(p.Chinese, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s: Chinese %q", p.Code, p.Chinese)
		}
	}
	for _, d := range spec.Codes() {
		if !seen[d.Code] {
			t.Errorf("%s of a resource has no page", d.Code)
		}
	}
}

// TestEveryCodeHasAPage looks for codes in the source of the whole module: string literals that are a code, or begin
// with one and a colon.
// Covers: issue2 codes
func TestEveryCodeHasAPage(t *testing.T) {
	literal := regexp.MustCompile("[\"`]([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:[\"`]|: )")
	// Names that have the form of a code and are none.
	foreign := regexp.MustCompile(`^(STEER_|XDG_|GO|NO_COLOR$|SO_|TCP_|IPV6_|LISTEN_(PID|FDS|FDNAMES)$|NOTIFY_SOCKET$|WATCHDOG_)`)
	found := 0
	root := filepath.Join("..", "..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path != root && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "tools" || d.Name() == "bench"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range literal.FindAllSubmatch(b, -1) {
			code := string(m[1])
			if foreign.MatchString(code) {
				continue
			}
			found++
			if _, ok := Find(code); !ok {
				t.Errorf("%s: %s has no page in pages.txt", strings.TrimPrefix(path, root+"/"), code)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 50 {
		t.Errorf("only %d codes found: the search is broken", found)
	}
}

func TestFind(t *testing.T) {
	if p, ok := Find("port_taken"); !ok || p.Code != "PORT_TAKEN" || p.Kind != "error" {
		t.Errorf("Find: %+v, %v", p, ok)
	}
	if _, ok := Find("nothing"); ok {
		t.Error("Find finds what is not there")
	}
}
