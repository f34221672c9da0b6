package render

import (
	"fmt"
	"io"
	"strings"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/edge/explain"
)

// Gateway writes how a gateway would decide about a request, a step a line.
func Gateway(w io.Writer, p text.Painter, a *explain.Answer) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%-10s %s\n", what, fmt.Sprintf(format, args...))
	}
	if a.Route == "" {
		line("route", "none: %s", a.Reason)
	} else {
		line("route", "%s/%s: domain %s, path %s", a.Service, a.Route, a.Domain, a.Path)
	}
	for _, r := range a.Rules {
		if r.Fired {
			line("rule", "%s/%s fires", r.Set, r.Rule)
		} else {
			line("rule", "%s/%s does not: %s", r.Set, r.Rule, r.Why)
		}
	}
	if a.Access != "" {
		line("access", "%s", a.Access)
	}
	for _, h := range a.Request {
		line("request", "%s", h)
	}
	for _, h := range a.Response {
		line("response", "%s", h)
	}
	if a.Group != "" {
		line("group", "%s", a.Group)
	}
	for _, s := range a.Steps {
		line("  "+s.Name, "%s", strings.Join(s.Kept, ", "))
		if s.Note != "" {
			line("", "%s", s.Note)
		}
		for _, o := range s.Without {
			line("", "without %s: %s", o.Origin, o.Why)
		}
	}
	switch {
	case a.Origin != "":
		line("origin", "%s", a.Origin)
		line("asks", "%s, Host: %s", a.Asks, a.Host)
	case a.Location != "":
		line("answer", "%d %s: %s", a.Status, a.Reason, a.Location)
	default:
		line("answer", "%d %s", a.Status, a.Reason)
	}
	if len(a.Assumed) > 0 {
		line("assumed", "%s", strings.Join(a.Assumed, "; "))
	}
}
