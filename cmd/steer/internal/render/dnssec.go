package render

import (
	"fmt"
	"io"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// DNSSEC writes signed zones with their keys, what comes next, and the DS for the parent.
func DNSSEC(w io.Writer, p text.Painter, now time.Time, zones []api.SignedZone) {
	if len(zones) == 0 {
		fmt.Fprintln(w, "no zone is signed: set dnssec.enabled: true in a Zone")
		return
	}
	for i := range zones {
		z := &zones[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "zone %s: %s\n", z.Zone, zoneState(z.State))
		var t text.Table
		for _, k := range z.Keys {
			wait := ""
			if k.WaitSeconds > 0 {
				wait = "next in " + (time.Duration(k.WaitSeconds) * time.Second).String()
			}
			stage := text.Cell{Text: k.Stage}
			if k.Stage == "active" {
				stage.Color = text.Good
			}
			t.Row(k.Role, fmt.Sprint(k.Tag), stage, text.Ago(now, k.Since), wait)
		}
		t.Write(w, p, "  ")
		for _, line := range []struct{ what, text string }{{"next", z.Next}, {"holds", z.Holds}} {
			if line.text != "" {
				fmt.Fprintf(w, "  %s: %s\n", line.what, line.text)
			}
		}
		for _, ds := range z.DS {
			fmt.Fprintf(w, "  DS for the parent: %s\n", ds)
		}
	}
}

// zoneState is a state in words.
func zoneState(state string) string {
	switch state {
	case api.ZoneSigned:
		return "signed, and its DS was seen at the parent"
	case api.ZoneIsland:
		return "signed; its DS is not at the parent yet"
	case api.ZoneLeaving:
		return "signed until its DS is gone from the parent"
	default:
		return "not signed"
	}
}
