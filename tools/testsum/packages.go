package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// testPackage is a package of this module that has test files.
type testPackage struct {
	path string
	dir  string
	deps []string // everything its test binary links
	test []string // its test files
	fuzz []string // names of its fuzz targets
}

// links reports whether the tests of the package link one with any of some prefixes, divided by commas.
func (p *testPackage) links(prefixes string) bool {
	return slices.ContainsFunc(strings.Split(prefixes, ","), func(prefix string) bool {
		return slices.ContainsFunc(p.deps, func(d string) bool { return strings.HasPrefix(d, prefix) })
	})
}

// mentions reports whether a word stands in a test file of the package.
func (p *testPackage) mentions(word string) (bool, error) {
	for _, f := range p.test {
		text, err := os.ReadFile(f)
		if err != nil {
			return false, fmt.Errorf("test file: %w", err)
		}
		if bytes.Contains(text, []byte(word)) {
			return true, nil
		}
	}
	return false, nil
}

// selection says which packages are tested; its fields are the flags of that name, and an empty one asks for nothing.
type selection struct{ linking, orMentioning, notLinking, except, only string }

// of returns the import paths of the packages it names.
func (s selection) of(all []*testPackage) ([]string, error) {
	var out []string
	for _, p := range all {
		switch {
		case s.only != "" && !slices.Contains(strings.Split(s.only, ","), p.path),
			slices.Contains(strings.Split(s.except, ","), p.path),
			s.notLinking != "" && p.links(s.notLinking):
			continue
		}
		if s.linking != "" && !p.links(s.linking) {
			if s.orMentioning == "" {
				continue
			}
			if yes, err := p.mentions(s.orMentioning); err != nil {
				return nil, err
			} else if !yes {
				continue
			}
		}
		out = append(out, p.path)
	}
	return out, nil
}

// listed is what is read of go list -json.
type listed struct {
	ImportPath   string
	ForTest      string
	Dir          string
	Deps         []string
	TestGoFiles  []string
	XTestGoFiles []string
}

// testPackages lists the packages with tests, in go list's order.
func testPackages(ctx context.Context) ([]*testPackage, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-test", "-json=ImportPath,ForTest,Dir,Deps,TestGoFiles,XTestGoFiles", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	byPath := map[string]*testPackage{}
	var order []*testPackage
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list output: %w", err)
		}
		// The test binary of package p is listed as "p.test"; its dependencies are what the tests link.
		if base, ok := strings.CutSuffix(l.ImportPath, ".test"); ok {
			if p := byPath[base]; p != nil {
				p.deps = l.Deps
			}
			continue
		}
		if l.ForTest != "" || len(l.TestGoFiles)+len(l.XTestGoFiles) == 0 {
			continue
		}
		p := &testPackage{path: l.ImportPath, dir: l.Dir}
		for _, f := range slices.Concat(l.TestGoFiles, l.XTestGoFiles) {
			file := filepath.Join(l.Dir, f)
			names, err := fuzzTargets(file)
			if err != nil {
				return nil, err
			}
			p.test, p.fuzz = append(p.test, file), append(p.fuzz, names...)
		}
		byPath[p.path] = p
		order = append(order, p)
	}
	return order, nil
}

// fuzzTargets lists the functions FuzzX(f *testing.F) of a test file.
func fuzzTargets(file string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("test file: %w", err)
	}
	var names []string
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") && fn.Type.Params.NumFields() == 1 {
			names = append(names, fn.Name.Name)
		}
	}
	return names, nil
}
