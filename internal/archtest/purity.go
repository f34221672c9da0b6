package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

const whyPure = "the core is replayed: equal inputs must give equal decisions, so time and chance are handed in as values"

// clock is what package time has that reads a clock, waits, or reads the machine's zone or its zone files.
var clock = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation",
}

// seeded is what package math/rand/v2 has that draws from a source handed in, not from the global one.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Zipf", "Source"}

// pure says whether a package belongs to the decision core.
func pure(rel string) bool {
	return within(rel, "steering/...") && !within(rel, "steering/steertest/...")
}

// checkPurity refuses the clock, global randomness, goroutines and channels in the core. Aliases of imports are
// followed; a dot import of these packages is refused, since it hides what is used.
func checkPurity(packages []*Package) []Finding {
	var found []Finding
	for _, p := range packages {
		if !pure(p.Rel()) {
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, what := range impurities(f) {
				found = append(found, Finding{"pure", f.Path, what, whyPure})
			}
		}
	}
	return found
}

func impurities(f *File) []string {
	var found []string
	add := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("line %d: ", f.line(n))+fmt.Sprintf(format, args...))
	}
	names := importNames(f.AST)
	for local, path := range names {
		if local == "." && (path == "time" || strings.HasPrefix(path, "math/rand")) {
			add(f.AST, "dot import of %s", path)
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "starts a goroutine")
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			add(n, "uses a channel")
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			path := names[pkg.Name]
			switch {
			case path == "time" && slices.Contains(clock, n.Sel.Name):
				add(n, "reads the clock or the machine's zone: time.%s", n.Sel.Name)
			case strings.HasPrefix(path, "math/rand") && !slices.Contains(seeded, n.Sel.Name):
				add(n, "draws from the global source: %s.%s", path, n.Sel.Name)
			}
		}
		return true
	})
	return found
}

// importNames maps the local name of each import of a file to its path.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, imp := range f.Imports {
		path, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			continue // the parser has accepted it, so it is a quoted string
		}
		local := path[strings.LastIndexByte(path, '/')+1:]
		if path == "math/rand/v2" {
			local = "rand"
		}
		if imp.Name != nil {
			local = imp.Name.Name
		}
		names[local] = path
	}
	return names
}
