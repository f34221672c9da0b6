package steertest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"golang.org/x/tools/txtar"
)

// Format writes the timeline as text that Parse reads back to an equal timeline, line numbers aside. Comments
// between statements are not kept; those at the top are.
func (tl *Timeline) Format() []byte {
	var b bytes.Buffer
	for _, c := range tl.Comment {
		fmt.Fprintf(&b, "# %s\n", c)
	}
	fmt.Fprintf(&b, "points %s\n", strings.Join(tl.Points, " "))
	if !tl.Epoch.Equal(defaultEpoch()) {
		fmt.Fprintf(&b, "epoch %s\n", tl.Epoch.Format(time.RFC3339Nano))
	}
	if tl.Begin != 0 {
		fmt.Fprintf(&b, "begin %s\n", seconds(tl.Begin))
	}
	for _, st := range tl.Statements {
		b.WriteString(st.String())
		b.WriteByte('\n')
	}
	archive := txtar.Archive{Comment: b.Bytes()}
	for _, s := range tl.Sections {
		archive.Files = append(archive.Files, txtar.File{Name: s.Name, Data: s.Data})
	}
	return txtar.Format(&archive)
}

// String is the statement's line.
func (st Statement) String() string {
	at := seconds(st.At.From)
	switch st.Kind {
	case KindObserve:
		outcome := "fail " + st.Cause
		if st.OK {
			outcome = "ok " + st.Latency.String()
		}
		if len(st.Only) > 0 {
			outcome += " only " + strings.Join(st.Only, ",")
		}
		return fmt.Sprintf("%s %s %s %s", st.At, strings.Join(st.Points, ","), strings.Join(st.Edges, ","), outcome)
	case KindForce:
		return fmt.Sprintf("force %s %s %s%s", at, st.Rule, st.Edge, st.bound())
	case KindFreeze:
		return fmt.Sprintf("freeze %s %s%s", at, st.Rule, st.bound())
	case KindApply:
		return fmt.Sprintf("apply %s %s", at, st.File)
	case KindUnforce:
		return fmt.Sprintf("unforce %s %s", at, st.Rule)
	case KindUnfreeze:
		return fmt.Sprintf("unfreeze %s %s", at, st.Rule)
	case KindDrain:
		return fmt.Sprintf("drain %s %s", at, st.Edge)
	case KindUndrain:
		return fmt.Sprintf("undrain %s %s", at, st.Edge)
	case KindTick:
		return fmt.Sprintf("tick %s %s", at, st.Rule)
	case KindHalt:
		return "halt " + at
	case KindState:
		return fmt.Sprintf("state %s %s", at, st.File)
	case KindRestart:
		return "restart " + at
	case KindExpect:
		return fmt.Sprintf("expect %s %s %s%s", at, st.Rule, st.Edge, st.Want)
	case KindExpectSwitches:
		window := ""
		if st.Windowed {
			window = fmt.Sprintf(" %s..%s", at, seconds(st.At.To))
		}
		return fmt.Sprintf("expect-switches %s %d%s", st.Rule, st.Count, window)
	case KindExpectVerdict:
		return fmt.Sprintf("expect-verdict %s %s %s %s", at, st.Rule, st.Edge, st.Verdict)
	}
	return fmt.Sprintf("# statement of unknown kind %d", st.Kind)
}

func (st Statement) bound() string {
	if st.For == 0 {
		return ""
	}
	return " for " + seconds(st.For)
}

// String is " key=value ..." of the keys that are set, in the order the language lists them.
func (w Want) String() string {
	var b strings.Builder
	if w.Cause != nil {
		fmt.Fprintf(&b, " cause=%s", *w.Cause)
	}
	if w.Since != nil {
		fmt.Fprintf(&b, " since=%s", seconds(*w.Since))
	}
	if w.Degraded != nil {
		fmt.Fprintf(&b, " degraded=%t", *w.Degraded)
	}
	if w.Locked != nil {
		fmt.Fprintf(&b, " locked=%t", *w.Locked)
	}
	return b.String()
}

// String is "90s" or "FROM..TO/STEP".
func (s Span) String() string {
	if s.Step == 0 {
		return seconds(s.From)
	}
	return fmt.Sprintf("%s..%s/%s", seconds(s.From), seconds(s.To), seconds(s.Step))
}

// seconds writes a time as the timelines do: 90s rather than 1m30s, since lines are compared by eye.
func seconds(d time.Duration) string {
	return number(d) + "s"
}

// number is d in seconds as an exact decimal, without a fraction when whole.
func number(d time.Duration) string {
	sign := ""
	u := uint64(d)
	if d < 0 {
		sign, u = "-", -u
	}
	whole, frac := u/1e9, u%1e9
	if frac == 0 {
		return fmt.Sprintf("%s%d", sign, whole)
	}
	return fmt.Sprintf("%s%d.%s", sign, whole, strings.TrimRight(fmt.Sprintf("%09d", frac), "0"))
}
