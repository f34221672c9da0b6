package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// clock is when something was, to the second.
const clock = "01-02 15:04:05"

// History writes the revisions of a resource, newest first, one line for each thing a revision changed.
func History(w io.Writer, p text.Painter, now time.Time, list []api.Revision) {
	var t text.Table
	t.Row("REVISION", "TIME", "AGO", "BY", "WHAT")
	for _, r := range list {
		lines := r.Lines
		if r.Reason != "" {
			lines = append([]string{"(" + oneLine(r.Reason) + ")"}, lines...)
		}
		number := text.Cell{Text: fmt.Sprint(r.Revision)}
		if r.Current {
			number = text.Cell{Text: number.Text + " *", Color: text.Good}
		}
		for i, l := range lines {
			if i == 0 {
				t.Row(number, r.Time.Local().Format(clock), text.Ago(now, r.Time), dash(r.Actor), l)
			} else {
				t.Row("", "", "", "", l)
			}
		}
	}
	t.Write(w, p, "")
}

// Audit writes the audit trail, newest first.
func Audit(w io.Writer, p text.Painter, now time.Time, list []api.AuditLine) {
	if len(list) == 0 {
		fmt.Fprintln(w, "nothing was written in that time")
		return
	}
	var t text.Table
	t.Row("TIME", "AGO", "BY", "DID", "KIND", "NAME", "REVISION", "WHY")
	for _, l := range list {
		t.Row(l.Time.Local().Format(clock), text.Ago(now, l.Time), dash(l.Actor), l.Action, strings.ToLower(l.Kind), l.Name, l.Revision, oneLine(l.Reason))
	}
	t.Write(w, p, "")
}

// oneLine keeps a text that somebody typed within its row.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
