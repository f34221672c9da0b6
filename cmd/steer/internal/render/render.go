// Package render turns what the API answers into what a person reads at a glance. It writes and decides nothing.
package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// verdict colours a verdict, with the mark that it is held (too few points to change it).
func verdict(v string, held bool) text.Cell {
	c := text.Cell{Text: v}
	switch v {
	case "up":
		c.Color = text.Good
	case "down":
		c.Color = text.Bad
	default:
		c.Color = text.Warn
	}
	if held {
		c.Text += " (held)"
		c.Color = text.Warn
	}
	return c
}

// scope shows the empty scope of old entries as a dash.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func seconds(s float64) string {
	return text.Span(time.Duration(s * float64(time.Second)))
}

// millis is a latency in milliseconds at the precision that matters: "0.4ms", "12.3ms", "250ms".
func millis(ms float64) string {
	if ms >= 100 {
		return strconv.FormatFloat(ms, 'f', 0, 64) + "ms"
	}
	return strconv.FormatFloat(ms, 'f', 1, 64) + "ms"
}

// until says when something ends: " until 14:03:05 (in 5m0s)", or that it must be ended by hand.
func until(now time.Time, t *time.Time) string {
	if t == nil {
		return "until it is ended"
	}
	return "until " + t.Local().Format(time.TimeOnly) + " (" + text.Ago(now, *t) + ")"
}

// Plan writes what an apply would do, or did.
func Plan(w io.Writer, p text.Painter, plan api.Plan) {
	for _, c := range plan.Changes {
		sign, color := "~", text.Warn
		switch c.Action {
		case api.ActionCreate:
			sign, color = "+", text.Good
		case api.ActionDelete:
			sign, color = "-", text.Bad
		}
		fmt.Fprintln(w, p.Paint(color, fmt.Sprintf("%s %s %s", sign, strings.ToLower(c.Kind), c.Name)))
		for _, l := range c.Lines {
			fmt.Fprintln(w, "    "+l)
		}
	}
	Answers(w, p, plan.Answers, plan.Applied)
	for _, x := range plan.Warnings {
		where := ""
		if x.Where != "" {
			where = x.Where + ": "
		}
		fmt.Fprintln(w, p.Paint(text.Warn, "warning: ")+where+x.Message+" ["+x.Code+"]")
	}
	summary(w, plan)
}

func summary(w io.Writer, plan api.Plan) {
	if len(plan.Changes) == 0 {
		fmt.Fprintf(w, "nothing to do: %s already so\n", count(plan.Unchanged, "resource is", "resources are"))
		return
	}
	n := map[string]int{}
	for _, c := range plan.Changes {
		n[c.Action]++
	}
	fmt.Fprintf(w, "%d to create, %d to update, %d to delete, %d unchanged\n", n[api.ActionCreate], n[api.ActionUpdate], n[api.ActionDelete], plan.Unchanged)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Answers writes the rules whose answer differs at once; did is the tense.
func Answers(w io.Writer, p text.Painter, as []api.AnswerChange, did bool) {
	if len(as) == 0 {
		return
	}
	fmt.Fprintln(w, map[bool]string{true: "rules that answer differently now:", false: "rules that would answer differently at once:"}[did])
	var t text.Table
	for _, a := range as {
		t.Row(a.Service+"/"+a.Rule, dash(a.Scope), answerMove(a), a.Cause, a.Reason)
	}
	t.Write(w, p, "    ")
}

func answerMove(a api.AnswerChange) string {
	switch {
	case a.From == "":
		return "new: " + dash(a.To)
	case a.To == "":
		return a.From + " -> ends"
	}
	return a.From + " -> " + a.To
}

// Resources writes one line a resource.
func Resources(w io.Writer, p text.Painter, now time.Time, rs []api.Resource) {
	if len(rs) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	var t text.Table
	t.Row("NAME", "REVISION", "CHANGED", "BY", "SET")
	for _, r := range rs {
		t.Row(r.Name, r.Revision, text.Ago(now, r.Modified), dash(r.Actor), dash(r.ApplySet))
	}
	t.Write(w, p, "")
}

// Probes writes one line a probe, with its phases.
func Probes(w io.Writer, p text.Painter, r api.ProbeResults) {
	var t text.Table
	t.Row("POINT", "EDGE", "ADDRESS", "RESULT", "LATENCY", "DNS", "CONNECT", "TLS", "FIRST BYTE", "TOTAL", "DETAIL")
	for _, x := range r.Results {
		result := text.Cell{Text: "ok", Color: text.Good}
		if !x.OK {
			result = text.Cell{Text: "fail " + x.Cause, Color: text.Bad}
		}
		if x.Status != 0 {
			result.Text += " " + strconv.Itoa(x.Status)
		}
		t.Row(x.Point, dash(x.Edge), dash(x.Address), result, millis(x.LatencyMs), millis(x.Phases.DNSMs),
			millis(x.Phases.ConnectMs), millis(x.Phases.TLSMs), millis(x.Phases.FirstByteMs), millis(x.Phases.TotalMs), probeDetail(&x))
	}
	t.Write(w, p, "")
}

// probeDetail says what else there is to know; of a certificate the day is enough.
func probeDetail(x *api.ProbeResult) string {
	var parts []string
	if x.Detail != "" {
		parts = append(parts, x.Detail)
	}
	if x.CertificateExpires != nil {
		parts = append(parts, "certificate until "+x.CertificateExpires.UTC().Format(time.DateOnly))
	}
	return strings.Join(parts, "; ")
}

// Override writes what an override did.
func Override(w io.Writer, p text.Painter, r api.OverrideResult) {
	fmt.Fprintln(w, r.Message)
	Answers(w, p, r.Answers, true)
}

// Explanation writes the story line by line.
func Explanation(w io.Writer, x api.Explanation) {
	for _, l := range x.Text {
		fmt.Fprintln(w, l)
	}
}
