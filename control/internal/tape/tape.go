// Package tape keeps what the engine was told, in order: observations that were admitted, configuration, points,
// passing time and what was decided. The core is deterministic, so this and a checkpoint of its states is all there is
// to know of any moment.
//
// A tape is a folder of segments, <number>-<wall time>.tape while one is written and .tape.gz once it is closed. A segment
// begins with a magic line; frames follow: length and CRC-32C of the payload (4 bytes each, little endian), then the
// payload, which is one record or many. Times in a frame are differences; probe tasks are named once a segment. Each
// segment begins with a checkpoint, so that it can be read alone.
//
// The writer never makes its caller wait. What it cannot take is counted and stands on the tape as a gap, and a
// checkpoint follows it. What is read of a damaged or torn segment is its whole records up to the damage.
package tape

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"steerpoint/control/internal/engine"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

// Kind says what a Record is.
type Kind uint8

// The kinds of records. Numbers are on disk.
const (
	Observation Kind = iota + 1 // Source, At, OK, Latency or Cause
	Advance                     // time passed, and something was due
	Configured                  // Change
	Points                      // Points
	Decided                     // Decision
	Checkpoint                  // Checkpoint
	Gap                         // Missing
	source                      // names a Source in a segment; not handed out
)

// Record is one thing that the engine was told or decided.
type Record struct {
	Kind Kind
	Now  steering.Instant // of the core's clock; never less than the record's before, but after a Start

	Source  *Source
	At      steering.Instant // of an observation: its receipt less its age
	OK      bool
	Latency time.Duration // of an ok
	Cause   string        // of a failure

	Change     *Change
	Points     []steering.Point
	Decision   *Decision
	Checkpoint *State
	Missing    uint64 // records that are not there; 0: not known

	// Wall is the wall time of Now, as the process kept it. Set by the reader.
	Wall time.Time
}

// Source is a probe task of a point, with the rules' uses of its results at that time. It is not changed once it was put.
type Source struct {
	Point string             `json:"point"`
	Task  string             `json:"task"`
	Uses  []snapshot.TaskUse `json:"uses"`
}

// Document is one resource in use.
type Document struct {
	Kind     string          `json:"kind"`
	Name     string          `json:"name"`
	Revision int64           `json:"revision"`
	Document json.RawMessage `json:"document"`
}

// Key is "Kind/name".
func (d *Document) Key() string { return d.Kind + "/" + d.Name }

// Change is a change of the resources in use. Overrides are all there are then.
type Change struct {
	Put       []Document        `json:"put,omitempty"`
	Deleted   []string          `json:"deleted,omitempty"` // keys
	Overrides []engine.Override `json:"overrides,omitempty"`
}

// Decision is a change of a rule's decision, as the switch log has it.
type Decision struct {
	Rule  string           `json:"rule"` // service/rule
	At    steering.Instant `json:"at"`
	From  string           `json:"from"` // "": the initial one
	To    string           `json:"to"`
	Cause string           `json:"cause"`
}

// State is everything that the engine holds: a reader can begin here.
type State struct {
	Start     bool      // the first of a process: nobody listened right before
	Version   string    // of the program
	Wall      time.Time // of the record's instant
	Documents []Document
	Overrides []engine.Override
	Points    []steering.Point
	Rules     []steering.State
}

// ErrBefore is matched by the error of a reader that is asked for times before the tape begins.
var ErrBefore = errors.New("before the tape")

// BeforeError says how far back the tape goes.
type BeforeError struct {
	Asked  time.Time
	Oldest time.Time // zero: the tape is empty
}

func (e *BeforeError) Error() string {
	if e.Oldest.IsZero() {
		return "the tape is empty: nothing was recorded yet"
	}
	return fmt.Sprintf("%s is before the tape: it goes back to %s", e.Asked.UTC().Format(time.RFC3339), e.Oldest.UTC().Format(time.RFC3339))
}

// Is makes a BeforeError match ErrBefore.
func (e *BeforeError) Is(target error) bool { return target == ErrBefore }
