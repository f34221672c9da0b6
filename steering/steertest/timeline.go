package steertest

import (
	"strings"
	"time"

	"golang.org/x/tools/txtar"
)

// Limits of a timeline. They bound what a hostile or mistyped file can ask of the machine that reads it.
const (
	// MaxTime is the latest instant a timeline may name: ten years. The core adds intervals to instants, and
	// this stays far from where a 64-bit count of nanoseconds ends (292 years).
	MaxTime = 10 * 365 * 24 * time.Hour
	// MaxLatency bounds a latency. No probe waits an hour.
	MaxLatency = time.Hour
	// MaxEvents bounds the observations of one timeline after all its lines are expanded.
	MaxEvents = 10_000_000
)

// DefaultEpoch is the wall time of time 0 in a timeline that has no epoch line.
const DefaultEpoch = "2026-01-01T00:00:00Z"

// All is the word for every point or every edge.
const All = "*"

// Timeline is a parsed case.
type Timeline struct {
	Name       string   // the file's name, for messages
	Comment    []string // the comment lines at the top, without their "# "
	Epoch      time.Time
	Begin      time.Duration // nothing is evaluated before it; 0 unless a begin line says so
	Points     []string
	Statements []Statement // in file order
	Sections   []Section   // the first holds at the start
}

// Section is one resource file of a timeline.
type Section struct {
	Name string
	Data []byte
}

// Kind says what a Statement does.
type Kind uint8

// The kinds of statements.
const (
	KindObserve Kind = iota + 1
	KindForce
	KindFreeze
	KindApply
	KindRestart
	KindExpect
	KindExpectSwitches
	KindExpectVerdict
	KindUnforce
	KindUnfreeze
	KindDrain
	KindUndrain
	KindTick
	KindHalt
	KindState
)

// Statement is one line of a timeline. Which fields are set depends on Kind.
type Statement struct {
	Line int // 1-based; 0 in a timeline that was built, not parsed
	Kind Kind
	At   Span

	// KindObserve. Edges are "*", "edge", "service/edge", "service/*", or with "@address" one address of an edge.
	Points, Edges []string
	OK            bool
	Latency       time.Duration // of an ok
	Cause         string        // of a failure
	// Only, unless empty, are the rules (service/rule) that take the observations.
	Only []string

	// Rule is "service/rule", or for KindFreeze also a service alone.
	Rule string
	// Edge of KindForce, KindExpect and KindExpectVerdict. KindDrain and KindUndrain have "service/edge".
	Edge string
	// For bounds a force or a freeze; 0: to the end of the timeline.
	For time.Duration
	// File of KindApply and KindState names a section.
	File string
	// Want of KindExpect.
	Want Want
	// Count of KindExpectSwitches; At bounds the count when Windowed.
	Count    int
	Windowed bool
	// Verdict of KindExpectVerdict: up, down or unknown.
	Verdict string
}

// Span is one instant (Step 0), or the instants From, From+Step, ... up to and including To.
type Span struct {
	From, To, Step time.Duration
}

// times is how many instants the span has.
func (s Span) times() int64 {
	if s.Step <= 0 {
		return 1
	}
	return int64((s.To-s.From)/s.Step) + 1
}

// Want holds the keys of an expect line; nil means the line does not say.
type Want struct {
	Cause    *string
	Since    *time.Duration
	Degraded *bool
	Locked   *bool
}

// Parse reads a timeline. The error is an Errors that names every mistake of the file with its line.
func Parse(name string, data []byte) (*Timeline, error) {
	archive := txtar.Parse(data)
	p := &parser{tl: &Timeline{Name: name, Epoch: defaultEpoch()}, sections: map[string]bool{}}
	p.file(archive)
	for i, line := range strings.Split(string(archive.Comment), "\n") {
		p.line(i+1, strings.TrimSuffix(line, "\r"))
	}
	p.finish()
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return p.tl, nil
}

func defaultEpoch() time.Time {
	at, err := time.Parse(time.RFC3339, DefaultEpoch)
	if err != nil {
		panic(err) // the constant above is well formed
	}
	return at
}
