package steertest

import (
	"fmt"
	"slices"
	"strings"
)

// Code is a stable word for a kind of mistake in a timeline.
type Code string

// The codes of timeline mistakes.
const (
	CodeSyntax  Code = "TIMELINE_SYNTAX"  // a line that is not in the language, or a value out of its range
	CodeUnknown Code = "TIMELINE_UNKNOWN" // a point, edge, rule or section nobody defined
	CodeLimit   Code = "TIMELINE_LIMIT"   // more events than MaxEvents
	CodeLoad    Code = "TIMELINE_LOAD"    // a resource section that does not load
)

// LineError is one mistake.
type LineError struct {
	File string
	Line int // 0: the file as a whole
	Code Code
	Text string
}

// Error gives "file:line: CODE: text".
func (e *LineError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s: %s", e.File, e.Code, e.Text)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Code, e.Text)
}

// Errors is every mistake of one timeline, in line order.
type Errors []*LineError

// Error gives one line a mistake.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b *LineError) int { return a.Line - b.Line })
	return e
}
