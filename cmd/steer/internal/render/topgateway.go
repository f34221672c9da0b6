package render

import (
	"fmt"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// gatewaysAtAGlance is how many gateways serve by the newest snapshot, and how their origins are; "": nothing is served.
func gatewaysAtAGlance(g *api.EdgeStatus) (said string, well bool) {
	if g == nil || g.Version == 0 {
		return "", true
	}
	origins, healthy := 0, 0
	for i := range g.Groups {
		up, enabled := groupCounts(&g.Groups[i])
		origins, healthy = origins+enabled, healthy+up
	}
	return fmt.Sprintf("gateways: %d of %d serve by snapshot %d; %d of %s healthy", g.Current, g.Gateways, g.Version, healthy,
		count(origins, "origin is", "origins are")), g.Current == g.Gateways && healthy == origins
}

// groupCounts counts the origins of a group that may be asked, and those of them that every gateway finds healthy.
func groupCounts(g *api.GroupStatus) (healthy, enabled int) {
	for i := range g.Origins {
		if o := &g.Origins[i]; o.Enabled {
			enabled++
			if o.Healthy == len(o.Seen) {
				healthy++
			}
		}
	}
	return healthy, enabled
}

// topGateways are the gateways and their origins, below the rules; nothing where there is no gateway.
func topGateways(v *TopView) []topLine {
	s := &v.Status
	var out []topLine
	nodes := topTable{{{Text: "GATEWAY"}, {Text: "STATE"}, {Text: "CLIENTS"}, {Text: "SNAPSHOT"}}}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Gateway != nil {
			nodes = append(nodes, []text.Cell{{Text: n.Name}, nodeState(*n), {Text: fmt.Sprint(n.Gateway.Connections)}, nodeGateway(*n)})
		}
	}
	if len(nodes) > 1 {
		out = append(append(out, nil), nodes.lines()...)
	}
	if s.Gateway == nil || s.Gateway.Version == 0 || len(s.Gateway.Groups) == 0 {
		return out
	}
	groups := topTable{{{Text: "GROUP / ORIGIN"}, {Text: "STATE"}, {Text: "LATENCY"}, {Text: "WHY"}}}
	for i := range s.Gateway.Groups {
		g := &s.Gateway.Groups[i]
		healthy, enabled := groupCounts(g)
		well := text.Cell{Text: fmt.Sprintf("%d of %d up", healthy, enabled)}
		switch {
		case healthy == 0 && enabled > 0:
			well.Color = text.Bad
		case healthy < enabled:
			well.Color = text.Warn
		}
		groups = append(groups, []text.Cell{{Text: g.Service + "/" + g.Group}, well, {}, {}})
		for j := range g.Origins {
			o := &g.Origins[j]
			groups = append(groups, []text.Cell{{Text: "    " + o.Origin}, originState(o), {Text: latencies(o)}, {Text: o.Why, Color: text.Faint}})
		}
	}
	out = append(append(out, nil), groups.lines()...)
	if s.Gateway.Left > 0 {
		out = append(out, topLine{{Text: fmt.Sprintf("and %d more origin groups that are as they should be", s.Gateway.Left), Color: text.Faint}})
	}
	return out
}
