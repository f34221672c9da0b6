package render

import (
	"fmt"
	"io"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// NotifyTest writes what came of a test message.
func NotifyTest(w io.Writer, p text.Painter, t api.NotifyTest) {
	if !t.OK {
		fmt.Fprintf(w, "%s: %s after %s: %s\n", t.Name, p.Paint(text.Bad, "not delivered"), millis(t.Seconds*1000), t.Error)
		return
	}
	fmt.Fprintf(w, "%s: %s in %s as %s: HTTP %d", t.Name, p.Paint(text.Good, "delivered"), millis(t.Seconds*1000), t.ID, t.Status)
	if t.Answer != "" {
		fmt.Fprint(w, ", ", t.Answer)
	}
	fmt.Fprintln(w)
}

// notifiersSection writes one line a notifier.
func notifiersSection(w io.Writer, p text.Painter, s api.Status) {
	if len(s.Notifiers) == 0 {
		return
	}
	fmt.Fprintln(w)
	var t text.Table
	t.Row("NOTIFIER", "TYPE", "WAITING", "DELIVERED", "LAST SUCCESS", "STATE")
	for _, n := range s.Notifiers {
		last, state := "none yet", text.Cell{Text: "ok", Color: text.Good}
		if n.LastSuccess != nil {
			last = text.Ago(s.Now, *n.LastSuccess)
		}
		switch {
		case n.LastError != "":
			state = text.Cell{Text: n.LastError, Color: text.Bad}
		case n.Lost > 0:
			state = text.Cell{Text: fmt.Sprintf("%d events were given up", n.Lost), Color: text.Warn}
		}
		t.Row(n.Name, n.Type, n.Queue, n.Sent, last, state)
	}
	t.Write(w, p, "  ")
}
