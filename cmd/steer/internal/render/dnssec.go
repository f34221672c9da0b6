package render

import (
	"fmt"
	"io"
	"strings"
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
		parent(w, p, now, z.Parent)
	}
}

// parent writes what the parent of a zone said when it was asked last.
func parent(w io.Writer, p text.Painter, now time.Time, look *api.ParentLook) {
	switch {
	case look == nil:
		return
	case look.Error != "":
		fmt.Fprintf(w, "  parent: asked %s: %s\n", text.Ago(now, look.Asked), look.Error)
		return
	}
	fmt.Fprintf(w, "  parent %s, asked %s:\n", look.Zone, text.Ago(now, look.Asked))
	var t text.Table
	for i := range look.Servers {
		s := &look.Servers[i]
		has := text.Cell{Text: "has not what is wanted", Color: text.Bad}
		switch {
		case s.Error != "":
			has = text.Cell{Text: "no answer: " + s.Error, Color: text.Warn}
		case s.Wanted:
			has = text.Cell{Text: "has what is wanted", Color: text.Good}
		}
		list := "no DS"
		if len(s.DS) > 0 {
			list = "DS of keys " + tagsOf(s.DS) + ", TTL " + (time.Duration(s.TTLSeconds) * time.Second).String()
		}
		if s.Error != "" {
			list = ""
		}
		t.Row(s.Name, s.Address, has, list)
	}
	t.Write(w, p, "    ")
}

// tagsOf are the key tags of DS records.
func tagsOf(list []string) string {
	tags := make([]string, len(list))
	for i, ds := range list {
		tags[i], _, _ = strings.Cut(ds, " ")
	}
	return strings.Join(tags, ", ")
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
