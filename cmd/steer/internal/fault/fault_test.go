package fault

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Every failure ends in the exit code of its kind, also when wrapped, and is told in at most what, why and do.
// Covers: issue2 exit codes
func TestPrintAndExit(t *testing.T) {
	cause := errors.New("connection refused")
	full := &Error{Exit: ExitNoServer, Code: "SERVER_UNREACHABLE", What: "no server at x", Why: "connection refused", Do: "start one", Err: cause}
	for _, tt := range []struct {
		name string
		err  error
		exit int
		want string
	}{
		{"none", nil, 0, ""},
		{"full", full, 4, "steer: no server at x [SERVER_UNREACHABLE]\n  why: connection refused\n  do:  start one\n"},
		{"wrapped", fmt.Errorf("status: %w", full), 4, "steer: no server at x [SERVER_UNREACHABLE]\n  why: connection refused\n  do:  start one\n"},
		{"several", BadInput("SPEC_INVALID", "2 mistakes", "a.yaml:1: x\na.yaml:2: y\n", ""), 2, "steer: 2 mistakes [SPEC_INVALID]\n  why: a.yaml:1: x\n  why: a.yaml:2: y\n"},
		{"not so", NotSo(), 1, ""},
		{"foreign", cause, 1, "steer: connection refused\n"},
		{"usage", Usage("no FILE", "give one"), 2, "steer: no FILE [USAGE]\n  do:  give one\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			Print(&b, tt.err)
			if b.String() != tt.want || Exit(tt.err) != tt.exit {
				t.Errorf("printed %q, exit %d; want %q, exit %d", b.String(), Exit(tt.err), tt.want, tt.exit)
			}
		})
	}
	if !errors.Is(full, cause) {
		t.Error("the cause is not found by errors.Is")
	}
}
