package archtest

import (
	"fmt"
	"go/ast"
	"strings"
	"unicode"
)

// otherWords are words other systems use for what GLOSSARY.md has one word for; left theirs, right ours.
var otherWords = map[string]string{
	"vantage":     "point",
	"backend":     "edge or origin",
	"upstream":    "origin, or the system's own name for it",
	"datacenter":  "region",
	"failback":    "recovery",
	"switchover":  "switch",
	"cutover":     "switch",
	"holddown":    "lock",
	"stickiness":  "lock",
	"healthcheck": "probe",
	"policyroute": "rule",
}

// checkWords looks for another word than the glossary's in exported names.
func checkWords(packages []*Package) []Finding {
	var found []Finding
	for _, p := range packages {
		if within(p.Rel(), "internal/archtest") {
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, id := range exported(f.AST) {
				for _, w := range camelWords(id.Name) {
					if ours, ok := otherWords[w]; ok {
						found = append(found, Finding{
							"word", f.Path + " " + id.Name, fmt.Sprintf("line %d: says %s, GLOSSARY.md says %s", f.line(id), w, ours),
							"one word for one thing, so that what is read in the log is found in the code",
						})
					}
				}
			}
		}
	}
	return found
}

// exported lists the exported names a file declares: types, functions, methods, constants, variables and fields.
func exported(f *ast.File) []*ast.Ident {
	var names []*ast.Ident
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names = append(names, id)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
			return false
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		}
		return true
	})
	return names
}

// camelWords splits a Go name into lower-case words: "ECSScope" is "ecs", "scope". Two neighbours are also given
// joined, since HealthCheck and Healthcheck are one word written twice.
func camelWords(name string) []string {
	var words []string
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			words = append(words, strings.ToLower(string(runes[start:i])))
			start = i
		}
	}
	single := len(words)
	for i := 1; i < single; i++ {
		words = append(words, words[i-1]+words[i])
	}
	return words
}
