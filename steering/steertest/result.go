package steertest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Seconds is a time that JSON shows as an exact number of seconds, an integer when whole.
type Seconds time.Duration

// MarshalJSON gives 35 or 35.25.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return []byte(number(time.Duration(s))), nil
}

// Switch is one change of a rule's decision; the initial one has From "".
type Switch struct {
	At      Seconds `json:"at"`
	Service string  `json:"service"`
	Rule    string  `json:"rule"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Cause   string  `json:"cause"`
}

func (s Switch) initial() bool { return s.From == "" }

// Key is "service/rule".
func (s Switch) Key() string { return s.Service + "/" + s.Rule }

// String is the switch as one line for people.
func (s Switch) String() string {
	if s.initial() {
		return fmt.Sprintf("%s %s: starts at %s", seconds(time.Duration(s.At)), s.Key(), s.To)
	}
	return fmt.Sprintf("%s %s: %s -> %s (%s)", seconds(time.Duration(s.At)), s.Key(), s.From, s.To, s.Cause)
}

// Failure is one expectation that did not hold, or a statement that could not be carried out.
type Failure struct {
	File string
	Line int
	Text string // what was expected, what is so, and why
}

// String is "file:line: text", on one line.
func (f Failure) String() string {
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, oneLine(f.Text))
}

func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

// Result is what a run gave.
type Result struct {
	Switches []Switch // in time order
	Failures []Failure
	Events   int // observations that were applied
	// Notes say what could not be carried over when other resources were put in; never errors.
	Notes []string
}

// WriteSwitches writes one JSON line a switch.
func (r *Result) WriteSwitches(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, s := range r.Switches {
		if err := enc.Encode(s); err != nil {
			return fmt.Errorf("write switch: %w", err)
		}
	}
	return nil
}

// WriteFailures writes one line a failure.
func (r *Result) WriteFailures(w io.Writer) error {
	for _, f := range r.Failures {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return fmt.Errorf("write failed expectation: %w", err)
		}
	}
	return nil
}

// Difference is what other resources would have changed.
type Difference struct {
	Before, After *Result
}

// Same reports whether both runs switched alike.
func (d *Difference) Same() bool {
	return len(d.Before.Switches) == len(d.After.Switches) && len(d.Lines()) == 0
}

// Lines lists the switches only the old resources make, "-", and only the new ones, "+", in time order.
func (d *Difference) Lines() []string {
	var out []string
	before, after := d.Before.Switches, d.After.Switches
	common := map[Switch]int{}
	for _, s := range after {
		common[s]++
	}
	removed := make([]bool, len(before))
	for i, s := range before {
		removed[i] = common[s] == 0
		if !removed[i] {
			common[s]--
		}
	}
	kept := map[Switch]int{}
	for i, s := range before {
		if !removed[i] {
			kept[s]++
		}
	}
	i := 0
	for _, s := range after {
		if kept[s] > 0 {
			kept[s]--
			continue
		}
		for ; i < len(before) && before[i].At <= s.At; i++ {
			if removed[i] {
				out = append(out, "- "+before[i].String())
			}
		}
		out = append(out, "+ "+s.String())
	}
	for ; i < len(before); i++ {
		if removed[i] {
			out = append(out, "- "+before[i].String())
		}
	}
	return out
}
