package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// Switches writes the switch log, newest first.
func Switches(w io.Writer, p text.Painter, now time.Time, list []api.Switch) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no switch in that time")
		return
	}
	var t text.Table
	t.Row("TIME", "AGO", "RULE", "SCOPE", "MOVE", "CAUSE", "DETECTED IN", "PUBLISHED IN", "STOOD", "WHY")
	for _, s := range list {
		t.Row(s.Time.Local().Format("01-02 15:04:05"), text.Ago(now, s.Time), s.Service+"/"+s.Rule, dash(s.Scope), move(s.From, s.To), s.Cause,
			optional(s.DetectionSeconds), published(s.Publication), stood(s.Undone), s.Reason)
	}
	t.Write(w, p, "")
}

func move(from, to string) string {
	if from == "" {
		return "starts with " + dash(to)
	}
	return from + " -> " + dash(to)
}

func optional(s float64) string {
	if s == 0 {
		return "-"
	}
	return seconds(s)
}

func published(p *api.Publication) string {
	switch {
	case p == nil:
		return "not yet"
	case len(p.Missing) > 0:
		s := "not by " + strings.Join(p.Missing, " ")
		if more := p.MissingCount - len(p.Missing); more > 0 {
			s += fmt.Sprintf(" and %d more", more)
		}
		if p.Acked == 0 && p.Seconds == 0 {
			return s
		}
		return seconds(p.Seconds) + onNodes(p) + ", " + s
	}
	return seconds(p.Seconds) + onNodes(p)
}

// onNodes says on how many name servers, and which was the last; nothing for one alone.
func onNodes(p *api.Publication) string {
	if p.Acked < 2 {
		return ""
	}
	s := fmt.Sprintf(" on %d", p.Acked)
	if len(p.Nodes) > 0 {
		s += ", last " + p.Nodes[0].Node
	}
	return s
}

func stood(u *api.Undone) string {
	if u == nil {
		return "still"
	}
	return seconds(u.Seconds)
}

// Event is one line of `steer watch`: time, kind, subject, and one sentence.
func Event(w io.Writer, p text.Painter, e api.Event) {
	color := text.Plain
	switch e.Kind {
	case api.EventSwitch:
		color = text.Warn
	case api.EventAlarm, api.EventDegraded, api.EventAllDown:
		color = text.Bad
		if !e.On {
			color = text.Good
		}
	case api.EventNode, api.EventPoint:
		if e.On == (e.Kind == api.EventPoint) { // a node that went, a point that fell silent
			color = text.Warn
		}
	case api.EventAck, api.EventConfig:
		color = text.Faint
	}
	kind := e.Kind + strings.Repeat(" ", max(0, len(api.EventSuspended)-len(e.Kind)))
	fmt.Fprintf(w, "%s  %s  %s%s\n", e.Time.Local().Format("15:04:05.000"), p.Paint(color, kind), subject(e), e.Message)
}

// subject names what an event is about; the sentence alone need not.
func subject(e api.Event) string {
	switch {
	case e.Rule != "" && strings.Contains(e.Rule, "/"):
		return e.Rule + "  "
	case e.Rule != "":
		return e.Service + "/" + e.Rule + "  "
	case e.Service != "":
		return e.Service + "  "
	}
	return ""
}
