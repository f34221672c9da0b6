package spec

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every code that can be given is explained, once, and every explanation belongs to a code.
//
// Covers: issue2 codes
func TestCodesExplained(t *testing.T) {
	var defined []string
	for _, file := range []string{"codes.go", "internal/doctree/doctree.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
				if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
					code, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					defined = append(defined, code)
				}
			}
			return true
		})
	}
	var explained []string
	for _, c := range Codes() {
		explained = append(explained, c.Code)
		if !strings.HasSuffix(c.Text, ".") || len(c.Text) < 20 {
			t.Errorf("%s: %q explains nothing", c.Code, c.Text)
		}
	}
	slices.Sort(defined)
	slices.Sort(explained)
	if !slices.Equal(defined, explained) {
		t.Errorf("defined %v\nexplained %v", defined, explained)
	}
	if len(slices.Compact(defined)) != len(explained) {
		t.Error("a code is defined twice")
	}
}

// Every code that a file alone can give stands in a golden file, so each kind of mistake is tested.
func TestCodesHaveGoldenFiles(t *testing.T) {
	elsewhere := map[string]string{
		CodeTooLarge:       "parse_test.go, as the file would be large",
		CodePoints:         "compile_test.go, as it needs points",
		CodeOverrideTarget: "set_test.go, as Check only warns of it",
		CodeNotKept:        "secret_test.go, as it needs what is stored",
	}
	files, err := filepath.Glob("testdata/bad/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	for _, c := range Codes() {
		if !strings.Contains(all.String(), "["+c.Code+"]") && elsewhere[c.Code] == "" {
			t.Errorf("no golden file shows %s", c.Code)
		}
	}
}
