package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// TopSort is the order of the rules in `steer top`.
type TopSort uint8

// The orders, in the order of the key s.
const (
	ByName TopSort = iota
	ByAvailability
	ByLatency
	BySwitch
	topSorts
)

// Next is the order after this one.
func (s TopSort) Next() TopSort { return (s + 1) % topSorts }

func (s TopSort) String() string {
	return [...]string{ByName: "name", ByAvailability: "availability", ByLatency: "latency", BySwitch: "last switch"}[s]
}

// TopView is one frame of `steer top`: what is known, and how it is looked at.
type TopView struct {
	Status   api.Status
	Switches []api.Switch  // newest first
	Trouble  string        // why Status is not of now; "": it is, or nothing is known of why it is not
	Stale    time.Duration // how old Status is; 0: of now
	Sort     TopSort
	Scroll   int // lines of rules above the first that is shown
	// Width and Height are those of the terminal; 0: everything is written, and nothing is cut.
	Width, Height int
	Keys          bool // say which keys there are
}

// topSwitches is how many switches are shown where there is room for rules beside them.
const topSwitches = 5

// Top gives the lines of a frame, and how far it can be scrolled.
func Top(p text.Painter, v *TopView) (lines []string, most int) {
	head := topHead(v)
	body := append(topRules(v), topGateways(v)...)
	foot := topFoot(v)
	if v.Height > 0 {
		room := max(v.Height-len(head)-len(foot), 1)
		// The names of the columns stay.
		most = max(len(body)-room, 0)
		from := min(max(v.Scroll, 0), most)
		if len(body) > 0 {
			shown := append([]topLine{body[0]}, body[min(1+from, len(body)):]...)
			body = shown[:min(room, len(shown))]
		}
		for len(body) < room {
			body = append(body, nil)
		}
	}
	for _, l := range slices.Concat(head, body, foot) {
		lines = append(lines, l.paint(p, v.Width))
	}
	if v.Height > 0 && len(lines) > v.Height {
		lines = lines[:v.Height]
	}
	return lines, most
}

// topLine is one line: pieces with their colours.
type topLine []text.Cell

// paint cuts a line to a width, 0: not at all, and colours it.
func (l topLine) paint(p text.Painter, width int) string {
	var b strings.Builder
	left := width
	for _, c := range l {
		s := printable(c.Text)
		if width > 0 {
			s = text.Cut(s, left)
			left -= text.Width(s)
		}
		b.WriteString(p.Paint(c.Color, s))
	}
	return strings.TrimRight(b.String(), " ")
}

// printable takes out what would move the cursor: names and messages come from elsewhere.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}

func plainLine(s string) topLine { return topLine{{Text: s}} }

func topHead(v *TopView) []topLine {
	s := &v.Status
	rules, down := 0, 0
	for i := range s.Services {
		for j := range s.Services[i].Rules {
			rules++
			if r := &s.Services[i].Rules[j]; r.Degraded || r.AllDown {
				down++
			}
		}
	}
	first := topLine{{Text: fmt.Sprintf("steer %s on %s, up %s   %s   %s, ", s.Version, s.Node, text.Span(s.Now.Sub(s.Started)),
		s.Now.Local().Format(time.TimeOnly), count(rules, "rule", "rules"))}}
	first = append(first, text.Cell{Text: fmt.Sprintf("%d without a well edge", down), Color: map[bool]text.Color{true: text.Bad}[down > 0]},
		text.Cell{Text: fmt.Sprintf("   map %d on %d of %d", s.Map.Version, s.Map.Current, s.Map.Nodes)})
	out := []topLine{first}
	if said, well := gatewaysAtAGlance(s.Gateway); said != "" {
		out = append(out, topLine{{Text: said, Color: map[bool]text.Color{false: text.Bad}[well]}})
	}
	if said := noNews(v); said != "" {
		out = append(out, topLine{{Text: said, Color: text.Bad}})
	}
	const most = 3
	for i, a := range s.Alarms {
		if i == most && v.Height > 0 {
			out = append(out, topLine{{Text: fmt.Sprintf("and %s", count(len(s.Alarms)-most, "more alarm", "more alarms")), Color: text.Bad}})
			break
		}
		out = append(out, topLine{{Text: a.Code + " ", Color: text.Bad}, {Text: Alarm(a)}})
	}
	return append(out, nil)
}

// noNews says that, for how long and why what is shown is not of now; "": it is.
func noNews(v *TopView) string {
	out := "no news"
	switch {
	case v.Stale > 0:
		out += " for " + text.Span(max(v.Stale.Truncate(time.Second), time.Second))
	case v.Trouble == "":
		return ""
	}
	if v.Trouble != "" {
		out += ": " + v.Trouble
	}
	return out
}

// topRule is a rule with its service.
type topRule struct {
	service string
	*api.RuleStatus
}

func topRules(v *TopView) []topLine {
	var rules []topRule
	for i := range v.Status.Services {
		s := &v.Status.Services[i]
		for j := range s.Rules {
			rules = append(rules, topRule{s.Name, &s.Rules[j]})
		}
	}
	slices.SortStableFunc(rules, func(a, b topRule) int { return topOrder(v.Sort, a, b) })
	t := topTable{{
		{Text: "RULE / EDGE"}, {Text: "ANSWERS"}, {Text: "SINCE"}, {Text: "LATENCY"}, {Text: "10 MIN"}, {Text: "24 H"}, {Text: "24 H LATENCY"}, {Text: "STATE"},
	}}
	for _, r := range rules {
		t = append(t, []text.Cell{
			{Text: r.service + "/" + r.Rule},
			answers(*r.RuleStatus),
			{Text: text.Ago(v.Status.Now, r.Since)},
			{Text: ""},
			{Text: ""},
			available(r.Availability24h),
			{Text: optionalMillis(r.Latency24hMs)},
			state(v.Status.Now, *r.RuleStatus),
		})
		for k := range r.Edges {
			t = append(t, topEdge(v.Status.Now, &r.Edges[k]))
		}
	}
	return t.lines()
}

func topEdge(now time.Time, e *api.EdgeView) []text.Cell {
	mark := "    "
	if e.Current {
		mark = "  * "
	}
	since, ten, score := "", text.Cell{Text: "-"}, "-"
	if e.Since != nil {
		since = text.Ago(now, *e.Since)
	}
	if e.Observations > 0 {
		ten = available(&e.Availability)
	}
	if e.ScoreMs > 0 {
		score = millis(e.ScoreMs)
	}
	return []text.Cell{
		{Text: mark + e.Edge},
		verdict(e.Verdict, e.Held),
		{Text: since},
		{Text: score},
		ten,
		available(e.Availability24h),
		{Text: optionalMillis(e.Latency24hMs)},
		{Text: e.Why, Color: text.Faint},
	}
}

// topOrder puts what needs a look first.
func topOrder(by TopSort, a, b topRule) int {
	// What is not known comes last.
	value := func(v *float64, unknown float64) float64 {
		if v == nil {
			return unknown
		}
		return *v
	}
	c := 0
	switch by {
	case ByAvailability:
		c = cmp.Compare(value(a.Availability24h, 2), value(b.Availability24h, 2))
	case ByLatency:
		c = cmp.Compare(value(b.Latency24hMs, -1), value(a.Latency24hMs, -1))
	case BySwitch:
		c = b.Since.Compare(a.Since)
	}
	return cmp.Or(c, cmp.Compare(a.service, b.service), cmp.Compare(a.Rule, b.Rule))
}

// topTable is rows of cells.
type topTable [][]text.Cell

// lines aligns the columns.
func (t topTable) lines() []topLine {
	var widths []int
	for _, row := range t {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], text.Width(c.Text))
		}
	}
	out := make([]topLine, len(t))
	for n, row := range t {
		for i, c := range row {
			out[n] = append(out[n], c)
			if i < len(row)-1 {
				out[n] = append(out[n], text.Cell{Text: strings.Repeat(" ", widths[i]-text.Width(c.Text)+2)})
			}
		}
	}
	return out
}

func topFoot(v *TopView) []topLine {
	out := []topLine{nil, plainLine("LAST SWITCHES")}
	shown := v.Switches
	if v.Height > 0 {
		shown = shown[:min(len(shown), topSwitches, max(v.Height/4-2, 1))]
	}
	t := topTable{}
	for i := range shown {
		s := &shown[i]
		t = append(t, []text.Cell{
			{Text: "  " + s.Time.Local().Format("01-02 15:04:05")},
			{Text: text.Ago(v.Status.Now, s.Time)},
			{Text: s.Service + "/" + s.Rule},
			{Text: move(s.From, s.To)},
			{Text: s.Cause},
			{Text: s.Reason, Color: text.Faint},
		})
	}
	if len(shown) == 0 {
		out = append(out, topLine{{Text: "  none in the last 24 hours", Color: text.Faint}})
	}
	out = append(out, t.lines()...)
	if v.Keys {
		out = append(out, topLine{{Text: fmt.Sprintf("q quit   s sort: %s   up, down, page up, page down: scroll", v.Sort), Color: text.Faint}})
	}
	return out
}
