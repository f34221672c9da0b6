// Package archtest holds the rules the source tree is built by, and the checks that prove them from go list and from
// the syntax of the files: who may import whom, that the decision core is pure, sizes, names, words and documents.
//
// The table in layers.go is policy: it is changed when the design changes, never to make a build pass. Nothing in
// steer imports this package.
package archtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path of the module whose rules these are.
const module = "steerpoint"

// Finding is one broken rule.
type Finding struct {
	Rule  string // the rule's short name, as exceptions.tsv names it
	Where string // package, file or file and symbol, relative to the module's root
	What  string // what is wrong there
	Why   string // why there is such a rule
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s (%s)", f.Rule, f.Where, f.What, f.Why)
}

// Package is one package of the tree: go list's view of it and its parsed files.
type Package struct {
	ImportPath   string
	Name         string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string

	Files []*File `json:"-"`
}

// File is one parsed Go file.
type File struct {
	Path  string // relative to the module's root
	Test  bool
	Lines int
	AST   *ast.File
	Fset  *token.FileSet
}

// Rel is the package's path within the module; "" for the root.
func (p *Package) Rel() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// Load lists and parses every package of the module at root, tests included.
func Load(root string) ([]*Package, error) {
	cmd := exec.Command("go", "list", "-e",
		"-json=ImportPath,Name,Dir,Imports,TestImports,XTestImports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w: %s", root, err, bytes.TrimSpace(stderr.Bytes()))
	}
	var packages []*Package
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list output: %w", err)
		}
		if err := p.parse(root); err != nil {
			return nil, err
		}
		packages = append(packages, &p)
	}
	return packages, nil
}

func (p *Package) parse(root string) error {
	for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
		fset := token.NewFileSet()
		path := filepath.Join(p.Dir, name)
		parsed, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("source file: %w", err)
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return fmt.Errorf("source file: %w", err)
		}
		p.Files = append(p.Files, &File{
			Path:  filepath.ToSlash(rel),
			Test:  strings.HasSuffix(name, "_test.go"),
			Lines: fset.File(parsed.Pos()).LineCount(),
			AST:   parsed,
			Fset:  fset,
		})
	}
	return nil
}

// line is the line of a node in f.
func (f *File) line(n ast.Node) int { return f.Fset.Position(n.Pos()).Line }

// Check runs every rule on the source of the packages, sorted by rule and place.
func Check(packages []*Package) []Finding {
	found := slices.Concat(
		checkLayers(packages),
		checkPurity(packages),
		checkForm(packages),
		checkMetrics(packages),
		checkWords(packages),
	)
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Where, b.Where), cmp.Compare(a.What, b.What))
	})
	return slices.Compact(found)
}
