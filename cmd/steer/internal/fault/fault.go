// Package fault is how steer says that something went wrong: what, why and what to do, one short line each, with a
// stable code, and the exit code of the process.
package fault

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes of every steer command.
const (
	ExitDone     = 0 // done
	ExitNotSo    = 1 // the thing asked about is not so: a failed expectation, a plan with changes under --detailed
	ExitBadInput = 2 // bad usage or bad input
	ExitRefused  = 3 // the server refused
	ExitNoServer = 4 // no server reached
)

// Error is a failure as a person reads it.
type Error struct {
	Exit int
	Code string // stable, upper case: `steer help CODE` explains it
	What string // what went wrong
	Why  string // may hold several lines, one a mistake; empty when What says it all
	Do   string // what to do now; empty when nothing can be done
	Err  error  // the cause, for errors.Is; not printed
}

// Error is the failure on one line.
func (e *Error) Error() string {
	s := e.What
	if e.Why != "" {
		s += ": " + e.Why
	}
	return s
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// BadInput is bad usage, or input that cannot be used as it is.
func BadInput(code, what, why, do string) *Error {
	return &Error{Exit: ExitBadInput, Code: code, What: what, Why: why, Do: do}
}

// Usage is a wrong command line.
func Usage(what, do string) *Error {
	return BadInput("USAGE", what, "", do)
}

// errNotSo ends a command that has already shown its answer, and the answer is no.
var errNotSo = &Error{Exit: ExitNotSo}

// NotSo ends a command with exit code 1 and no further words: what is not so has been shown.
func NotSo() error { return errNotSo }

// Exit is the exit code for err; nil is 0.
func Exit(err error) int {
	var e *Error
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &e):
		return e.Exit
	}
	return ExitNotSo
}

// Print writes err for people. Errors that are not an *Error are printed as they are.
func Print(w io.Writer, err error) {
	var e *Error
	switch {
	case err == nil || errors.Is(err, errNotSo):
		return
	case !errors.As(err, &e):
		fmt.Fprintf(w, "steer: %v\n", err)
		return
	}
	fmt.Fprintf(w, "steer: %s [%s]\n", e.What, e.Code)
	for line := range strings.Lines(e.Why) {
		fmt.Fprintf(w, "  why: %s\n", strings.TrimRight(line, "\n"))
	}
	if e.Do != "" {
		fmt.Fprintf(w, "  do:  %s\n", e.Do)
	}
}
