package render

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// Status writes one line a rule, after alarms and overrides: what needs a person comes first.
func Status(w io.Writer, p text.Painter, s api.Status) {
	head(w, p, s)
	nodesSection(w, p, s)
	pointsSection(w, p, s)
	gatewaySection(w, p, s, false)
	notifiersSection(w, p, s)
	certificatesSection(w, p, s)
	for _, sv := range s.Services {
		fmt.Fprintln(w)
		serviceHead(w, p, sv)
		var t text.Table
		t.Row("RULE", "SCOPE", "MODE", "ANSWERS", "SINCE", "CAUSE", "EDGES", "STATE")
		for _, r := range sv.Rules {
			t.Row(r.Rule, r.Scope, r.Mode, answers(r), text.Ago(s.Now, r.Since), dash(r.Cause), edgesAtAGlance(r), state(s.Now, r))
		}
		t.Write(w, p, "  ")
	}
	if len(s.Services) == 0 {
		fmt.Fprintln(w, "\nno service yet: write one with `steer apply -f FILE`")
	}
}

// Service writes everything a service's rules rest on: every edge, address and point.
func Service(w io.Writer, p text.Painter, s api.Status) {
	head(w, p, s)
	for _, sv := range s.Services {
		fmt.Fprintln(w)
		serviceHead(w, p, sv)
		for _, r := range sv.Rules {
			rule(w, p, s.Now, r)
		}
	}
	gatewaySection(w, p, s, true)
}

func head(w io.Writer, p text.Painter, s api.Status) {
	fmt.Fprintf(w, "steer %s on %s, up %s; map %d, published %s\n", s.Version, s.Node, text.Span(s.Now.Sub(s.Started)), s.Map.Version, text.Ago(s.Now, s.Map.Published))
	roles := make([]string, 0, len(s.Listeners))
	for role, addr := range s.Listeners {
		roles = append(roles, role+" "+addr)
	}
	sort.Strings(roles)
	fmt.Fprintln(w, p.Paint(text.Faint, "listens: "+dash(strings.Join(roles, ", "))))
	if s.Map.Error != "" {
		fmt.Fprintln(w, p.Paint(text.Bad, "the newest map was refused: "+s.Map.Error))
	}
	if s.Store.Error != "" {
		fmt.Fprintln(w, p.Paint(text.Bad, fmt.Sprintf("the store takes no writes, %d decisions wait: %s", s.Store.Pending, s.Store.Error)))
	}
	for _, a := range s.Alarms {
		fmt.Fprintf(w, "%s %s, since %s\n", p.Paint(text.Bad, a.Code), Alarm(a), text.Ago(s.Now, a.Since))
	}
	for _, o := range s.Overrides {
		if o.Active {
			fmt.Fprintf(w, "%s %s: %s, by %s\n", p.Paint(text.Warn, o.Kind), overrideTarget(o), until(s.Now, o.Until)+": "+o.Reason, dash(o.Actor))
		}
	}
	points(w, p, s)
}

// Alarm is an alarm's sentence, after its subject if the sentence does not name it.
func Alarm(a api.Alarm) string {
	if strings.Contains(a.Message, a.Subject) {
		return a.Message
	}
	return a.Subject + " " + a.Message
}

func overrideTarget(o api.OverrideStatus) string {
	if o.Kind == "force" && o.Edge != "" {
		return o.Target + " -> " + o.Edge
	}
	return o.Target
}

// silentAfter is when a point is worth a line of its own: the default interval's three, after which it has no say.
const silentAfter = 90 * time.Second

func points(w io.Writer, p text.Painter, s api.Status) {
	for _, pt := range s.Points {
		switch {
		case pt.Drained:
			fmt.Fprintf(w, "%s %s: its votes do not count\n", p.Paint(text.Warn, "drained point"), pt.Name)
		case pt.Tasks > 0 && (pt.LastSeen == nil || s.Now.Sub(*pt.LastSeen) > silentAfter):
			last := "never"
			if pt.LastSeen != nil {
				last = text.Ago(s.Now, *pt.LastSeen)
			}
			fmt.Fprintf(w, "%s %s: last result %s\n", p.Paint(text.Warn, "silent point"), pt.Name, last)
		}
	}
}

func serviceHead(w io.Writer, p text.Painter, sv api.ServiceStatus) {
	fmt.Fprintf(w, "%s  %s  %s\n", sv.Name, dash(sv.CNAME), p.Paint(text.Faint, strings.Join(sv.Domains, " ")))
}

// shares is the edges that share a weighted rule's clients, each with its part.
func shares(r api.RuleStatus) string {
	parts := slices.Clone(r.Set)
	for i, name := range parts {
		for _, e := range r.Edges {
			if e.Edge == name && e.Share > 0 {
				parts[i] = fmt.Sprintf("%s %.0f%%", name, 100*e.Share)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// answers is what a rule answers: the edge, or the set of a weighted rule.
func answers(r api.RuleStatus) text.Cell {
	c := text.Cell{Text: dash(r.Edge)}
	if len(r.Set) > 0 {
		c.Text = shares(r)
	}
	switch r.WhenAllDown {
	case "empty":
		c.Text = "nothing"
	case "all":
		c.Text = "every edge"
	case "first":
		c.Text = "the first edge"
	}
	if r.Degraded || r.AllDown {
		c.Color = text.Bad
	}
	return c
}

func edgesAtAGlance(r api.RuleStatus) string {
	parts := make([]string, len(r.Edges))
	for i, e := range r.Edges {
		parts[i] = e.Edge + " " + e.Verdict
		switch {
		case !e.Enabled:
			parts[i] = e.Edge + " off"
		case e.Drained:
			parts[i] = e.Edge + " drained"
		case !r.Probed:
			parts[i] = e.Edge + " not probed"
		case e.Held:
			parts[i] += " (held)"
		}
	}
	return strings.Join(parts, ", ")
}

// state is what holds a rule where it is, the gravest first; red when automatic moves are off or nothing is left.
func state(now time.Time, r api.RuleStatus) text.Cell {
	var words []string
	color := text.Plain
	add := func(c text.Color, s string) {
		words = append(words, s)
		if color == text.Plain || c == text.Bad {
			color = c
		}
	}
	if r.AllDown {
		add(text.Bad, "every edge is down")
	} else if r.Degraded {
		add(text.Bad, "degraded")
	}
	if r.Frozen {
		s := "frozen"
		if r.Held != "" {
			s += ", " + r.Held
		}
		add(text.Bad, s)
	}
	if r.Forced {
		add(text.Warn, "forced")
	}
	if r.Locked && r.LockedUntil != nil {
		add(text.Faint, "locked for "+text.Span(r.LockedUntil.Sub(now).Round(time.Second)))
	}
	if r.ScheduleNext != nil {
		add(text.Faint, "schedule changes in "+text.Span(r.ScheduleNext.Sub(now).Round(time.Second)))
	}
	if r.Pending {
		add(text.Warn, "waits for the store")
	}
	if r.Warning != "" {
		add(text.Warn, r.Warning)
	}
	return text.Cell{Text: strings.Join(words, "; "), Color: color}
}

func rule(w io.Writer, p text.Painter, now time.Time, r api.RuleStatus) {
	a, st := answers(r), state(now, r)
	fmt.Fprintf(w, "  %s  scope %s  %s -> %s since %s (%s)", r.Rule, r.Scope, r.Mode, p.Paint(a.Color, a.Text), text.Ago(now, r.Since), dash(r.Cause))
	if st.Text != "" {
		fmt.Fprint(w, "  ", p.Paint(st.Color, st.Text))
	}
	fmt.Fprintln(w)
	var t text.Table
	t.Row("", "EDGE", "VERDICT", "SINCE", "SCORE", "AVAILABLE", "WHY")
	for _, e := range r.Edges {
		mark := " "
		if e.Current || slices.Contains(r.Set, e.Edge) {
			mark = "*"
		}
		since := "-"
		if e.Since != nil {
			since = text.Ago(now, *e.Since)
		}
		score := "-"
		if e.ScoreMs > 0 {
			score = millis(e.ScoreMs)
		}
		avail := "-"
		if e.Observations > 0 {
			avail = fmt.Sprintf("%.1f%% of %d", 100*e.Availability, e.Observations)
		}
		t.Row(mark, e.Edge, verdict(e.Verdict, e.Held), since, score, avail, e.Why)
	}
	t.Write(w, p, "    ")
	votes(w, p, r)
}

// votes writes what each point holds of each address, with the age of its newest result.
func votes(w io.Writer, p text.Painter, r api.RuleStatus) {
	var t text.Table
	t.Row("EDGE", "ADDRESS", "VERDICT", "POINT", "HOLDS", "RUN", "NEWEST")
	for _, e := range r.Edges {
		for _, a := range e.Addresses {
			for _, v := range a.Points {
				t.Row(e.Edge, a.Address, verdict(a.Verdict, a.Held), v.Point, verdict(v.State, false), run(v), newest(v))
			}
		}
	}
	if t.Len() > 1 {
		t.Write(w, p, "      ")
	}
}

func run(v api.VoteView) string {
	switch {
	case v.Suspended:
		return "suspended: it cannot be told apart from its own fault"
	case v.Fails > 0:
		return fmt.Sprintf("%d failed in a row, %s", v.Fails, dash(v.Cause))
	}
	return fmt.Sprintf("%d ok in a row", v.Oks)
}

func newest(v api.VoteView) string {
	if v.Last == nil {
		return "never"
	}
	return seconds(v.AgeSeconds) + " ago"
}
