package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Case is one thing that must have a test: a requirement, a rule of the design, a field case, a promise of an issue.
type Case struct {
	ID    string   // "A7", "decisions 2", "field 17", "issue2 kill9"
	Also  []string // other names that tests use for it
	Title string
	// Elsewhere says why the case, or the rest of it, is not tested here; "" means a test must name it.
	Elsewhere string
}

// ReadCases reads docs/cases.tsv: id, title and, if any, why not here, divided by tabs.
func ReadCases(text string) ([]Case, error) {
	var cases []Case
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) < 2 || len(cells) > 3 {
			return nil, fmt.Errorf("cases line %d: want id, title and perhaps a reason, divided by tabs", n)
		}
		names := strings.Split(cells[0], "|")
		c := Case{ID: names[0], Also: names[1:], Title: cells[1]}
		if len(cells) == 3 {
			c.Elsewhere = cells[2]
		}
		for _, name := range names {
			if seen[name] {
				return nil, fmt.Errorf("cases line %d: %q stands twice", n, name)
			}
			seen[name] = true
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// Cover is one test that says which cases it proves.
type Cover struct {
	ID    string
	Place string // directory of the test, or the script's file
	Test  string // function, or the script's name
}

var scriptLine = regexp.MustCompile(`(?m)^# Covers: *(.+)$`)

// Covers collects the "Covers:" lines: of the doc comments of tests, fuzz targets and benchmarks, and of the scripts
// and timelines (.txtar, .txt) under testdata folders.
func Covers(packages []*Package, texts []Text) []Cover {
	var covers []Cover
	for _, p := range packages {
		for _, f := range p.Files {
			if f.Test {
				covers = append(covers, fileCovers(f)...)
			}
		}
	}
	for _, t := range texts {
		if !strings.Contains(t.Path, "testdata/") || strings.HasPrefix(t.Path, "internal/archtest/") {
			continue
		}
		if ext := path.Ext(t.Path); ext != ".txtar" && ext != ".txt" {
			continue
		}
		for _, m := range scriptLine.FindAllStringSubmatch(t.Data, -1) {
			for _, id := range splitIDs(m[1]) {
				covers = append(covers, Cover{id, t.Path, path.Base(t.Path)})
			}
		}
	}
	slices.SortFunc(covers, compareCovers)
	return slices.Compact(covers)
}

func fileCovers(f *File) []Cover {
	var covers []Cover
	for _, d := range f.AST.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Doc == nil || fn.Recv != nil || !testName(fn.Name.Name) {
			continue
		}
		for line := range strings.Lines(fn.Doc.Text()) {
			if ids, ok := strings.CutPrefix(strings.TrimSpace(line), "Covers:"); ok {
				for _, id := range splitIDs(ids) {
					covers = append(covers, Cover{id, path.Dir(f.Path), fn.Name.Name})
				}
			}
		}
	}
	return covers
}

func testName(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Benchmark")
}

func splitIDs(list string) []string {
	var ids []string
	for id := range strings.SplitSeq(list, ",") {
		if id = strings.Trim(strings.TrimSpace(id), "."); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// Resolve gives every cover the id of the listed case it means: hyphens of a name count as spaces, and a test may name
// a part of a case by adding words ("issue2 speed evaluation" is a part of "issue2 speed"). What fits no case stays.
func Resolve(cases []Case, covers []Cover) []Cover {
	listed := map[string]string{} // the id by each of its names
	for _, c := range cases {
		listed[c.ID] = c.ID
		for _, name := range c.Also {
			listed[name] = c.ID
		}
	}
	resolved := slices.Clone(covers)
	for i, c := range resolved {
		words := strings.Fields(c.ID)
		if len(words) > 1 && listed[c.ID] == "" {
			words = strings.Fields(strings.ReplaceAll(c.ID, "-", " "))
		}
		for n := len(words); n > 0; n-- {
			if id := listed[strings.Join(words[:n], " ")]; id != "" {
				resolved[i].ID = id
				break
			}
		}
	}
	slices.SortFunc(resolved, compareCovers)
	return slices.Compact(resolved)
}

func compareCovers(a, b Cover) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Place, b.Place), cmp.Compare(a.Test, b.Test))
}

// CheckCases says which cases have neither test nor reason, and which tests name a case that is not listed.
func CheckCases(cases []Case, covers []Cover) []Finding {
	const why = "docs/cases.md is the promise: every case has a test, or says why not here"
	listed, tested := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		listed[c.ID] = true
	}
	var found []Finding
	for _, c := range Resolve(cases, covers) {
		tested[c.ID] = true
		if !listed[c.ID] {
			found = append(found, Finding{"case", c.Place + " " + c.Test, fmt.Sprintf("covers %q, which docs/cases.tsv does not list", c.ID), why})
		}
	}
	for _, c := range cases {
		if c.Elsewhere == "" && !tested[c.ID] {
			found = append(found, Finding{"case", "docs/cases.tsv", fmt.Sprintf("%s (%s) has no test and no reason", c.ID, c.Title), why})
		}
	}
	return found
}

// sections are the parts of docs/cases.md: the first word of a case's id, and the heading.
var sections = []struct{ prefix, heading string }{
	{"issue2 ", "Promises of the first version"},
	{"decisions ", "Rules of decision"},
	{"field ", "What users of other systems hit"},
	{"", "Requirements"},
}

// RenderCases is docs/cases.md.
func RenderCases(cases []Case, covers []Cover) string {
	tests := map[string][]Cover{}
	for _, c := range Resolve(cases, covers) {
		tests[c.ID] = append(tests[c.ID], c)
	}
	rows := map[string][]string{}
	for _, c := range cases {
		for _, s := range sections {
			if strings.HasPrefix(c.ID, s.prefix) {
				rows[s.heading] = append(rows[s.heading], caseRow(c, tests[c.ID]))
				break
			}
		}
	}
	var b strings.Builder
	b.WriteString("# Cases\n\nEvery requirement, rule and field case, with the tests that prove it, or why none stands here.\n" +
		"Generated by `make cases` from the `Covers:` lines of tests and from cases.tsv; not edited by hand.\n")
	for _, s := range slices.Backward(sections) {
		if len(rows[s.heading]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| case | what | proved by |\n| --- | --- | --- |\n%s", s.heading, strings.Join(rows[s.heading], ""))
	}
	return b.String()
}

func caseRow(c Case, covers []Cover) string {
	byPlace := map[string][]string{}
	var places, proofs []string
	for _, cv := range covers {
		if byPlace[cv.Place] == nil {
			places = append(places, cv.Place)
		}
		byPlace[cv.Place] = append(byPlace[cv.Place], cv.Test)
	}
	for _, p := range places {
		if tests := byPlace[p]; path.Base(p) == tests[0] {
			proofs = append(proofs, p)
		} else {
			proofs = append(proofs, p+": "+strings.Join(tests, ", "))
		}
	}
	if c.Elsewhere != "" {
		proofs = append(proofs, "*"+c.Elsewhere+"*")
	}
	return fmt.Sprintf("| %s | %s | %s |\n", c.ID, strings.ReplaceAll(c.Title, "|", "\\|"), strings.ReplaceAll(strings.Join(proofs, "; "), "|", "\\|"))
}
