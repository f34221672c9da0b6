package spec

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Finding is one thing to say about what was written, and where. Errors and warnings are findings.
type Finding struct {
	Code   string `json:"code"`             // stable, such as SPEC_UNKNOWN_FIELD; Codes lists them
	File   string `json:"file,omitempty"`   // as given to Parse
	Line   int    `json:"line,omitempty"`   // 1 is the first; 0: no place in a file
	Column int    `json:"column,omitempty"` // in characters
	Kind   Kind   `json:"kind,omitempty"`   // of the resource, as far as known
	Name   string `json:"name,omitempty"`   // of the resource
	Path   string `json:"path,omitempty"`   // field path, such as rules[0].probe.timeout
	Value  string `json:"value,omitempty"`  // what was written, shortened
	// Problem is what is wrong, in words that follow the value: "is above the interval 30s".
	Problem string `json:"problem"`
	Allowed string `json:"allowed,omitempty"` // what may be written
	Suggest string `json:"suggest,omitempty"` // what may be meant
}

// String is one line: FILE:LINE:COLUMN: Service shop: PATH: VALUE PROBLEM; allowed: ALLOWED; did you mean SUGGEST? [CODE].
func (f Finding) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File + ":")
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", f.Line, f.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if f.Kind != "" || f.Name != "" {
		b.WriteString(strings.TrimSpace(string(f.Kind)+" "+f.Name) + ": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	if f.Value != "" {
		b.WriteString(f.Value + " ")
	}
	b.WriteString(f.Problem)
	if f.Allowed != "" {
		b.WriteString("; allowed: " + f.Allowed)
	}
	if f.Suggest != "" {
		b.WriteString("; did you mean " + f.Suggest + "?")
	}
	return b.String() + " [" + f.Code + "]"
}

// Error is a finding that keeps a resource from being used.
type Error struct{ Finding }

// Error is the finding's line.
func (e Error) Error() string { return e.String() }

// Warning is a finding the operator should know of; the resource works.
type Warning struct{ Finding }

// Errors is everything wrong, in the order of files and lines. An empty one is no error: use Err to get an error.
type Errors []Error

// Error is one line an error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Err is nil when there is no error, else e.
func (e Errors) Err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// sort puts findings in the order a reader goes through the files.
func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b Error) int { return byPlace(a.Finding, b.Finding) })
}

func sortWarnings(w []Warning) {
	slices.SortStableFunc(w, func(a, b Warning) int { return byPlace(a.Finding, b.Finding) })
}

func byPlace(a, b Finding) int {
	if c := strings.Compare(a.File, b.File); c != 0 {
		return c
	}
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	if a.Column != b.Column {
		return a.Column - b.Column
	}
	return strings.Compare(string(a.Kind)+"/"+a.Name+"/"+a.Path, string(b.Kind)+"/"+b.Name+"/"+b.Path)
}

// shown is a value as findings show it: short, on one line, quoted when it could be misread.
func shown(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:57]) + "..."
	}
	plain := s != "" && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '"' }) < 0
	if plain {
		return s
	}
	return fmt.Sprintf("%q", s)
}
