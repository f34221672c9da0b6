package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// Gateway writes how a gateway would decide about a request, a step a line.
func Gateway(w io.Writer, p text.Painter, a *api.RequestAnswer) {
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
	for i := range a.Origins {
		what := ""
		if i == 0 {
			what = "origins"
		}
		line(what, "%s", originNow(p, &a.Origins[i]))
	}
	if a.Session != "" {
		line("session", "%s", a.Session)
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

// originNow is what one gateway knows of an origin, in a line.
func originNow(p text.Painter, o *api.OriginStatus) string {
	if len(o.Seen) == 0 {
		return o.Origin
	}
	v := &o.Seen[0]
	c := originState(o)
	said := p.Paint(c.Color, c.Text)
	if v.Healthy && v.Seen > 0 { // else Why says it
		said += fmt.Sprintf(", %d of %d probes good", v.Good, v.Seen)
	}
	if v.LatencyMs > 0 {
		said += ", " + millis(v.LatencyMs)
	}
	if o.Why != "" {
		said += "; " + o.Why
	}
	return o.Origin + " " + said
}

// Requests writes what gateways would do with a request: the first in full, of the others what they choose.
func Requests(w io.Writer, p text.Painter, x api.RequestAnswers) {
	whole := -1
	for i := range x.Gateways {
		g := &x.Gateways[i]
		at := g.Time.Local().Format("15:04:05.000")
		switch {
		case g.Answer == nil:
			fmt.Fprintf(w, "%-10s %s at %s: %s\n", "gateway", g.Node, at, p.Paint(text.Bad, g.Error))
		case whole < 0:
			whole = i
			fmt.Fprintf(w, "%-10s %s at %s, by snapshot %d\n", "gateway", g.Node, at, g.Answer.Version)
			Gateway(w, p, g.Answer)
		default:
			said := chosen(g.Answer)
			if said != chosen(x.Gateways[whole].Answer) {
				said = p.Paint(text.Warn, said) + "; why: --node " + g.Node
			}
			fmt.Fprintf(w, "%-10s %s at %s, by snapshot %d: %s\n", "gateway", g.Node, at, g.Answer.Version, said)
		}
	}
	if x.Left > 0 {
		fmt.Fprintf(w, "%d more gateways were not asked: --node NAME\n", x.Left)
	}
}

// chosen is what becomes of a request, in a word.
func chosen(a *api.RequestAnswer) string {
	if a.Origin != "" {
		return "origin " + a.Group + "/" + a.Origin
	}
	return fmt.Sprintf("answer %d %s", a.Status, a.Reason)
}

// originsAtAGlance is how many origins the status of everything lists.
const originsAtAGlance = 40

// gatewaySection says how many gateways serve by the newest snapshot, and lists origins: of the status of everything those
// that are not as they should be, or all of a few.
func gatewaySection(w io.Writer, p text.Painter, s api.Status, all bool) {
	g := s.Gateway
	if g == nil || g.Version == 0 {
		return
	}
	fmt.Fprintln(w)
	origins := 0
	for i := range g.Groups {
		_, enabled := groupCounts(&g.Groups[i])
		origins += enabled
	}
	said, _ := gatewaysAtAGlance(g)
	fmt.Fprintln(w, said)
	all = all || origins <= originsAtAGlance
	var t text.Table
	t.Row("SERVICE", "GROUP", "ORIGIN", "STATE", "LATENCY", "WHY")
	listed := 0
	for i := range g.Groups {
		group := &g.Groups[i]
		for j := range group.Origins {
			o := &group.Origins[j]
			if !all && (o.Why == "" || listed == originsAtAGlance) {
				continue
			}
			listed++
			t.Row(group.Service, group.Group, o.Origin, originState(o), latencies(o), o.Why)
		}
	}
	if listed > 0 {
		t.Write(w, p, "  ")
	}
	if g.Left > 0 {
		fmt.Fprintf(w, "  and %d more origin groups that are as they should be\n", g.Left)
	}
}

// originState is how an origin stands at a glance.
func originState(o *api.OriginStatus) text.Cell {
	out := slices.ContainsFunc(o.Seen, func(v api.OriginView) bool { return v.OutSeconds > 0 })
	switch {
	case !o.Enabled:
		return text.Cell{Text: "disabled", Color: text.Faint}
	case len(o.Seen) == 0:
		return text.Cell{Text: "not known", Color: text.Warn}
	case o.Healthy == 0:
		return text.Cell{Text: "down", Color: text.Bad}
	case o.Healthy < len(o.Seen):
		return text.Cell{Text: fmt.Sprintf("up for %d of %d", o.Healthy, len(o.Seen)), Color: text.Warn}
	case out:
		return text.Cell{Text: "out", Color: text.Bad}
	case o.Draining:
		return text.Cell{Text: "draining", Color: text.Warn}
	}
	return text.Cell{Text: "up", Color: text.Good}
}

// latencies is the latency of an origin: the least and the most of what gateways measure.
func latencies(o *api.OriginStatus) string {
	least, most := 0.0, 0.0
	for i := range o.Seen {
		if l := o.Seen[i].LatencyMs; l > 0 {
			if least == 0 || l < least {
				least = l
			}
			most = max(most, l)
		}
	}
	switch {
	case most == 0:
		return "-"
	case least == most:
		return millis(most)
	}
	return millis(least) + " - " + millis(most)
}

// nodeGateway is the snapshot a gateway serves by, and how its origins are.
func nodeGateway(n api.NodeView) text.Cell {
	g := n.Gateway
	if g == nil {
		return text.Cell{Text: "-"}
	}
	words := fmt.Sprintf("%d, %d of %s up", g.Version, g.Healthy, count(g.Origins, "origin", "origins"))
	return inUse{g.Version, g.Refused, g.FromDisk, g.Behind, g.Error}.cell(words)
}
