package render

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// nodesAtAGlance is how many nodes the status of everything lists: those that need a person first. `steer node list`
// lists all.
const nodesAtAGlance = 20

// nodesSection says how many nodes there are and answer by the newest map, and lists them, what needs a person first.
func nodesSection(w io.Writer, p text.Painter, s api.Status) {
	if len(s.Nodes) == 0 {
		return
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, nodesLine(s))
	list := slices.Clone(s.Nodes)
	slices.SortStableFunc(list, func(a, b api.NodeView) int { return cmp.Compare(trouble(b, s.Map), trouble(a, s.Map)) })
	more := max(0, len(list)-nodesAtAGlance)
	list = list[:len(list)-more]
	var t text.Table
	gateways := anyGateway(list)
	t.Row(withGateway(gateways, "GATEWAY", "NODE", "ROLES", "STATE", "MAP", "TASKS", "SEEN", "CERTIFICATE ENDS")...)
	for _, n := range list {
		t.Row(withGateway(gateways, nodeGateway(n), n.Name, roles(n), nodeState(n), nodeMap(n, s.Map.Version), nodeTasks(n), seen(s.Now, n), certificate(s.Now, n))...)
	}
	t.Write(w, p, "  ")
	if more > 0 {
		fmt.Fprintf(w, "  and %d more: `steer node list`\n", more)
	}
	nodeTroubles(w, p, "  ", list)
}

func nodesLine(s api.Status) string {
	connected := 0
	for _, n := range s.Nodes {
		if n.Connected {
			connected++
		}
	}
	line := fmt.Sprintf("nodes: %d of %d connected", connected, len(s.Nodes))
	if s.Map.Nodes > 0 {
		line += fmt.Sprintf("; %d of %s by map %d", s.Map.Current, count(s.Map.Nodes, "name server answers", "name servers answer"), s.Map.Version)
	}
	return line
}

// trouble ranks nodes: the higher, the sooner a person should look.
func trouble(n api.NodeView, m api.MapStatus) int {
	switch {
	case n.State == api.NodeAway:
		return 4
	case n.Map != nil && n.Map.Error != "", n.Gateway != nil && n.Gateway.Error != "", n.Tasks != nil && n.Tasks.Error != "", len(n.Trouble) > 0:
		return 3
	case n.State == api.NodeDrained:
		return 2
	case n.Map != nil && n.State != api.NodeRevoked && n.Map.Version < m.Version,
		n.Gateway != nil && n.State != api.NodeRevoked && n.Gateway.Behind:
		return 1
	case n.State == api.NodeRevoked:
		return -1
	}
	return 0
}

// anyGateway reports whether a node is a gateway: without one there is no column for it.
func anyGateway(list []api.NodeView) bool {
	return slices.ContainsFunc(list, func(n api.NodeView) bool { return n.Gateway != nil })
}

// withGateway puts the column of gateways behind the others.
func withGateway(there bool, cell any, row ...any) []any {
	if there {
		row = append(row, cell)
	}
	return row
}

func roles(n api.NodeView) string { return strings.Join(n.Roles, ",") }

func nodeState(n api.NodeView) text.Cell {
	c := text.Cell{Text: n.State, Color: text.Plain}
	switch n.State {
	case api.NodeConnected:
		c.Color = text.Good
	case api.NodeAway:
		c.Color = text.Bad
	case api.NodeDrained:
		c.Color = text.Warn
		if !n.Connected {
			c.Text += ", away"
		}
	case api.NodeRevoked:
		c.Color = text.Faint
	}
	return c
}

// nodeMap is the map a node answers by, and whether it is the newest; newest 0 is not known.
func nodeMap(n api.NodeView, newest uint64) text.Cell {
	m := n.Map
	if m == nil {
		return text.Cell{Text: "-"}
	}
	words := fmt.Sprintf("%d, %s old", m.Version, seconds(m.AgeSeconds))
	return inUse{m.Version, m.Refused, m.FromDisk, newest > m.Version, m.Error}.cell(words)
}

// inUse is how a node stands with the snapshot that it goes on by.
type inUse struct {
	version, refused uint64
	fromDisk, behind bool
	err              string // of the one it refused
}

// cell says so; words are for the snapshot, if there is one.
func (s inUse) cell(words string) text.Cell {
	c := text.Cell{Text: "none", Color: text.Bad}
	if s.version > 0 {
		c = text.Cell{Text: words}
	}
	if s.fromDisk {
		c.Text += ", from its disk"
	}
	switch {
	case s.err != "":
		c.Text += fmt.Sprintf(", refused %d", s.refused)
		c.Color = text.Bad
	case s.behind && s.version > 0:
		c.Text += ", behind"
		c.Color = text.Warn
	}
	return c
}

func nodeTasks(n api.NodeView) text.Cell {
	t := n.Tasks
	if t == nil {
		return text.Cell{Text: "-"}
	}
	c := text.Cell{Text: strconv.Itoa(t.Tasks)}
	add := func(color text.Color, s string) { c.Text, c.Color = c.Text+", "+s, color }
	if t.Spooled > 0 {
		add(text.Warn, strconv.Itoa(t.Spooled)+" spooled")
	}
	if t.Dropped > 0 {
		add(text.Warn, strconv.FormatUint(t.Dropped, 10)+" dropped")
	}
	if t.Silent {
		add(text.Bad, "silent")
	}
	if t.Error != "" {
		add(text.Bad, "refused")
	}
	return c
}

func seen(now time.Time, n api.NodeView) string {
	if n.LastSeen == nil {
		return "not yet"
	}
	return text.Ago(now, *n.LastSeen)
}

func certificate(now time.Time, n api.NodeView) text.Cell {
	c := text.Cell{Text: text.Ago(now, n.CertificateExpires)}
	if n.State != api.NodeRevoked && !n.CertificateExpires.IsZero() && n.CertificateExpires.Before(now) {
		c.Color = text.Bad
	}
	return c
}

// nodeTroubles writes what the nodes themselves complain of, a line each.
func nodeTroubles(w io.Writer, p text.Painter, prefix string, list []api.NodeView) {
	for _, n := range list {
		for _, line := range complaints(n) {
			line = strings.ReplaceAll(line, "\n", "\n"+prefix+"  ") // an error of several parts has them a line each
			fmt.Fprintf(w, "%s%s %s\n", prefix, p.Paint(text.Bad, n.Name+":"), line)
		}
	}
}

func complaints(n api.NodeView) []string {
	var lines []string
	if n.Map != nil && n.Map.Error != "" {
		lines = append(lines, fmt.Sprintf("map %d was refused: %s", n.Map.Refused, n.Map.Error))
	}
	if n.Tasks != nil && n.Tasks.Error != "" {
		lines = append(lines, "tasks were refused: "+n.Tasks.Error)
	}
	if n.Gateway != nil && n.Gateway.Error != "" {
		lines = append(lines, fmt.Sprintf("snapshot %d was refused: %s", n.Gateway.Refused, n.Gateway.Error))
	}
	if n.Revoked != nil {
		lines = append(lines, fmt.Sprintf("revoked by %s: %s", dash(n.RevokedBy), dash(n.RevokedWhy)))
	}
	return append(lines, n.Trouble...)
}

// labels is "city=Tokyo isp=NTT", in the order of the keys.
func labels(m map[string]string) string {
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return dash(strings.Join(parts, " "))
}

// Nodes writes one line a node with everything that control knows of it. newest is the version of the newest map.
func Nodes(w io.Writer, p text.Painter, now time.Time, newest uint64, list []api.NodeView) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no node yet: make a token with `steer token create --role dns,probe`")
		return
	}
	var t text.Table
	gateways := anyGateway(list)
	t.Row(withGateway(gateways, "GATEWAY", "NODE", "ROLES", "STATE", "LABELS", "MAP", "TASKS", "SEEN", "CERTIFICATE ENDS", "CLOCK", "ADDRESS", "VERSION", "JOINED")...)
	for _, n := range list {
		t.Row(withGateway(gateways, nodeGateway(n), n.Name, roles(n), nodeState(n), labels(n.Labels), nodeMap(n, newest), nodeTasks(n), seen(now, n), certificate(now, n),
			offset(n), dash(n.Address), dash(n.Version), text.Ago(now, n.Joined))...)
	}
	t.Write(w, p, "")
	nodeTroubles(w, p, "", list)
}

// offset is how far a node's wall clock is off. Less than the clocks of two good machines differ is nothing.
func offset(n api.NodeView) text.Cell {
	if n.LastSeen == nil {
		return text.Cell{Text: "-"}
	}
	if math.Abs(n.ClockOffsetSeconds) < 1 {
		return text.Cell{Text: "right"}
	}
	c := text.Cell{Text: fmt.Sprintf("%+.0fs", n.ClockOffsetSeconds)}
	if math.Abs(n.ClockOffsetSeconds) > 60 {
		c.Text, c.Color = map[bool]string{true: "+", false: "-"}[n.ClockOffsetSeconds > 0]+seconds(math.Abs(n.ClockOffsetSeconds)), text.Warn
	}
	return c
}

// Node writes one line about what was done to a node.
func Node(w io.Writer, n api.NodeView) {
	fmt.Fprintf(w, "%s  %s  %s  %s\n", n.Name, n.State, roles(n), labels(n.Labels))
}

// Tokens writes one line a join token; none has its secret.
func Tokens(w io.Writer, p text.Painter, now time.Time, list []api.TokenView) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no token: make one with `steer token create --role dns,probe`")
		return
	}
	var t text.Table
	t.Row("ID", "ROLES", "NAME", "STATE", "ENDS", "MADE", "BY", "NODE")
	for _, k := range list {
		state := text.Cell{Text: k.State}
		if k.State == api.TokenOpen {
			state.Color = text.Good
		}
		t.Row(k.ID, strings.Join(k.Roles, ","), dash(k.Name), state, text.Ago(now, k.Expires), text.Ago(now, k.Created), dash(k.Actor), dash(k.Node))
	}
	t.Write(w, p, "")
}

// pointsSection lists the probe points with their labels, unless there is only one that nobody labelled.
func pointsSection(w io.Writer, p text.Painter, s api.Status) {
	if len(s.Points) == 0 || len(s.Points) == 1 && len(s.Points[0].Labels) == 0 && len(s.Nodes) == 0 {
		return
	}
	more := max(0, len(s.Points)-nodesAtAGlance)
	fmt.Fprintln(w)
	var t text.Table
	t.Row("POINT", "STATE", "LABELS", "TASKS", "NEWEST RESULT")
	for _, pt := range s.Points[:len(s.Points)-more] {
		last := "never"
		if pt.LastSeen != nil {
			last = text.Ago(s.Now, *pt.LastSeen)
		}
		t.Row(pt.Name, pointState(pt), labels(pt.Labels), pt.Tasks, last)
	}
	t.Write(w, p, "  ")
	if more > 0 {
		fmt.Fprintf(w, "  and %d more: `steer node list`\n", more)
	}
}

func pointState(pt api.PointStatus) text.Cell {
	c := text.Cell{Text: dash(pt.State)}
	switch pt.State {
	case api.PointAway, api.PointSilent:
		c.Color = text.Bad
	case api.PointLocal, api.PointConnected:
		c.Color = text.Good
	}
	if pt.Drained {
		c.Text, c.Color = c.Text+", drained", text.Warn
	}
	return c
}
