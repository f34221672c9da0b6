// Package doctor checks what a running steer needs from its machine and from the DNS around it. It changes nothing,
// asks nobody but the system's resolver, and no check waits longer than Timeout.
package doctor

import (
	"context"
	"time"
)

// Level is how a check came out.
type Level string

// The levels. Only Fail makes `steer doctor` exit 1.
const (
	OK      Level = "ok"
	Warn    Level = "warn"    // works, but will hurt
	Fail    Level = "fail"    // does not work
	Unknown Level = "unknown" // could not be found out: offline, another system, no right to look
)

// Result is what one check found.
type Result struct {
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Detail string `json:"detail"`       // what was found
	Do     string `json:"do,omitempty"` // what to do about it
}

// Timeout bounds each look-up: a resolver that is not there must not hold up the rest.
const Timeout = 3 * time.Second

// Check finds one thing out, or several of a kind.
type Check func(ctx context.Context) []Result

// Run runs the checks side by side and gives their results in the order of the checks.
func Run(ctx context.Context, checks []Check) []Result {
	parts := make([]chan []Result, len(checks))
	for i, c := range checks {
		parts[i] = make(chan []Result, 1)
		go func() { parts[i] <- c(ctx) }()
	}
	var out []Result
	for _, p := range parts {
		out = append(out, <-p...)
	}
	return out
}

// Worst is the gravest level among rs; Unknown is not grave.
func Worst(rs []Result) Level {
	worst := OK
	for _, r := range rs {
		if r.Level == Fail || r.Level == Warn && worst == OK {
			worst = r.Level
		}
	}
	return worst
}

func one(check string, l Level, detail, do string) []Result {
	return []Result{{Check: check, Level: l, Detail: detail, Do: do}}
}
