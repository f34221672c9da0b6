package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// commentsOf gives the comments of the exported structs of a package and of their fields, by Type and Type.field, where
// field is the name in JSON.
func commentsOf(dir string) ([]byte, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	words := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				structs(g, words)
			}
		}
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("%s: no struct has a comment", dir)
	}
	b, err := json.MarshalIndent(words, "", "  ")
	return append(b, '\n'), err
}

func structs(g *ast.GenDecl, words map[string]string) {
	for _, s := range g.Specs {
		t := s.(*ast.TypeSpec)
		st, ok := t.Type.(*ast.StructType)
		if !ok || !t.Name.IsExported() {
			continue
		}
		shown := false
		for _, f := range st.Fields.List {
			if name := jsonName(f); name != "" {
				shown = true
				note(words, t.Name.Name+"."+name, f.Doc, f.Comment)
			}
		}
		if shown { // others are no shapes of the API
			note(words, t.Name.Name, t.Doc, g.Doc)
		}
	}
}

// note keeps the first of some comments, on one line.
func note(words map[string]string, key string, groups ...*ast.CommentGroup) {
	for _, g := range groups {
		if text := strings.Join(strings.Fields(g.Text()), " "); text != "" {
			words[key] = text
			return
		}
	}
}

func jsonName(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name
}
