package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

const (
	maxFileLines = 800
	maxFuncLines = 100
)

// emptyWords say nothing about what is inside, so everything ends up inside.
var emptyWords = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "types", "shared", "lib"}

// checkForm holds the rules on size, names and package-level things.
func checkForm(packages []*Package) []Finding {
	var found []Finding
	for _, p := range packages {
		if slices.Contains(emptyWords, p.Name) || slices.Contains(emptyWords, path.Base(p.ImportPath)) {
			found = append(found, Finding{"package-name", p.Rel(), "is named " + p.Name, "the name says nothing, so everything ends up inside"})
		}
		found = append(found, packageComment(p)...)
		for _, f := range p.Files {
			found = append(found, fileForm(f)...)
		}
	}
	return found
}

func packageComment(p *Package) []Finding {
	var with []string
	for _, f := range p.Files {
		if !f.Test && f.AST.Doc != nil {
			with = append(with, path.Base(f.Path))
		}
	}
	if len(with) == 1 || len(p.GoFiles) == 0 {
		return nil
	}
	what := "has no package comment"
	if len(with) > 1 {
		what = "has several package comments: " + strings.Join(with, ", ")
	}
	return []Finding{{"package-comment", p.Rel(), what, "one place says what a package is for and what it never does"}}
}

func fileForm(f *File) []Finding {
	var found []Finding
	if f.Lines > maxFileLines {
		found = append(found, Finding{"file-size", f.Path, fmt.Sprintf("has %d lines, more than %d", f.Lines, maxFileLines), "a file is read in one sitting"})
	}
	if strings.Contains(path.Base(f.Path), "-") {
		found = append(found, Finding{"file-name", f.Path, "has a hyphen in its name", "one way of writing names makes them guessable"})
	}
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			found = append(found, funcForm(f, d)...)
		case *ast.GenDecl:
			if d.Tok == token.VAR && !f.Test {
				found = append(found, globals(f, d)...)
			}
		}
	}
	return found
}

func funcForm(f *File, d *ast.FuncDecl) []Finding {
	where := f.Path + " " + funcName(d)
	if d.Name.Name == "init" && d.Recv == nil {
		return []Finding{{"init", where, "runs before main", "what runs by import cannot be left out, ordered or tested"}}
	}
	lines := f.Fset.Position(d.End()).Line - f.Fset.Position(d.Pos()).Line + 1
	if lines > maxFuncLines {
		return []Finding{{"func-size", where, fmt.Sprintf("has %d lines, more than %d", lines, maxFuncLines), "a function does one thing"}}
	}
	return nil
}

// funcName is "Func" or "Type.Method".
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch x := t.(type) {
	case *ast.IndexExpr:
		t = x.X
	case *ast.IndexListExpr:
		t = x.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

// compiled are the functions whose result is a constant in all but name.
var compiled = []string{
	"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer", "netip.MustParseAddr", "netip.MustParsePrefix",
	"template.Must", "big.NewInt", "big.NewRat", "time.FixedZone", "reflect.TypeFor", "netip.AddrFrom4", "netip.AddrFrom16",
	"sync.OnceValue", "sync.OnceValues", "unix.CmsgSpace",
}

// globals refuses package variables that are neither sentinel errors nor compiled tables: what can change is state,
// and state has an owner.
func globals(f *File, d *ast.GenDecl) []Finding {
	var found []Finding
	for _, s := range d.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range v.Names {
			if name.Name == "_" || embedded(d, v) || (i < len(v.Values) && constantLike(v.Values[i])) {
				continue
			}
			found = append(found, Finding{
				"global", f.Path + " " + name.Name, "is a package variable that can change",
				"only sentinel errors and compiled tables are package variables; state has an owner",
			})
		}
	}
	return found
}

// embedded reports whether a variable is filled by the compiler from a file.
func embedded(d *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, g := range []*ast.CommentGroup{d.Doc, v.Doc} {
		if g == nil {
			continue
		}
		for _, c := range g.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

func constantLike(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit, *ast.FuncLit:
		return true
	case *ast.UnaryExpr:
		return constantLike(e.X)
	case *ast.SelectorExpr: // a sentinel error of another package under a second name
		return strings.HasPrefix(e.Sel.Name, "Err")
	case *ast.CallExpr:
		// A function of the same package named compile... is a table's compiler.
		own, ok := e.Fun.(*ast.Ident)
		return slices.Contains(compiled, callee(e.Fun)) || ok && strings.HasPrefix(own.Name, "compile")
	}
	return false
}

// callee is "pkg.Func" of a call, "" if it is not of that form. Type arguments are left out.
func callee(e ast.Expr) string {
	if ix, ok := e.(*ast.IndexExpr); ok {
		e = ix.X
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := sel.X.(*ast.Ident); ok {
		return x.Name + "." + sel.Sel.Name
	}
	return ""
}
