package gdnsd

import (
	"fmt"
	"slices"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// maxWeight is the largest weight of an edge.
const maxWeight = 1000

// weighted translates the plugin weighted: an edge an address, a name or a group, with its weight.
func (c *converter) weighted(name string, n *tree.Node, around []*tree.Node) (*steering, error) {
	s := &steering{mode: spec.Weighted, allDown: "all", check: c.health(n, around)}
	for i, f := range families(n) {
		list := c.family(name, f)
		if i == 0 {
			s.order = list
			continue
		}
		c.pair(name, s, list, f)
	}
	if len(s.order) == 0 {
		return nil, fmt.Errorf("weighted!%s has nothing to answer with", name)
	}
	c.threshold(n, around)
	for _, f := range append(append(families(n), n), around...) {
		if m := f.Get("multi"); m.Is("true") {
			c.b.Changed(m, "multi true of weighted!"+name, "one edge at a time by weight, not several", "")
		} else {
			m.Use()
		}
	}
	c.scale(name, n, s.order)
	return s, nil
}

// family reads the choices of one address family.
func (c *converter) family(name string, f *tree.Node) []choice {
	var out []choice
	for _, v := range f.EachKey() {
		if slices.Contains(settings(), v.Key) {
			continue
		}
		ch, ok := c.weight(name, v)
		if v.Kind == tree.Map {
			ch, ok = c.group(name, v)
		}
		if ok {
			out = append(out, ch)
		}
	}
	return out
}

// weight reads [ DESTINATION, WEIGHT ].
func (c *converter) weight(name string, v *tree.Node) (choice, bool) {
	if v.Kind == tree.List && len(v.Items) == 2 {
		ch, err := c.direct(v.Items[0], v.Key)
		w, ok := v.Items[1].Int()
		if ch.weight = w; err == nil && ok && w > 0 && w < 1<<20 {
			return ch, true
		}
	}
	if v.Kind != tree.Map {
		c.b.Lost(v, v.Key+" "+v.String()+" of weighted!"+name, "left out: it is no [ destination, weight ]", "")
	}
	return choice{}, false
}

// group joins a group to one edge whose weight is the sum.
func (c *converter) group(name string, v *tree.Node) (choice, bool) {
	out := choice{name: v.Key, at: v}
	first, differ := 0, false
	for _, m := range v.EachKey() {
		ch, ok := c.weight(name, m)
		if !ok {
			continue
		}
		if ch.target != "" {
			c.b.Lost(m, m.Key+" "+m.String()+" of the group "+v.Key, "left out: groups hold addresses", "")
			continue
		}
		if first == 0 {
			first = ch.weight
		}
		differ = differ || ch.weight != first
		out.weight += ch.weight
		out.addresses = append(out.addresses, ch.addresses...)
	}
	if differ {
		c.b.Remark(v, "weights inside the group "+v.Key+" of weighted!"+name, "its addresses are answered together, the group has the sum of the weights", "")
	}
	return out, len(out.addresses) > 0
}

// pair joins the choices of addrs_v6 to those of addrs_v4 with the same label.
func (c *converter) pair(name string, s *steering, list []choice, f *tree.Node) {
	for _, ch := range list {
		i := slices.IndexFunc(s.order, func(o choice) bool { return o.name == ch.name })
		if i < 0 {
			c.b.Lost(f.Get(ch.name), ch.name+" of "+f.Key+" of weighted!"+name, "left out: addrs_v4 has no such label, and an edge has both families", "add its addresses to an edge")
			continue
		}
		if ch.weight != s.order[i].weight {
			c.b.Remark(ch.at, fmt.Sprintf("weight %d of %s in %s of weighted!%s", ch.weight, ch.name, f.Key, name), fmt.Sprintf("weight %d for both families", s.order[i].weight), "")
		}
		s.order[i].addresses = append(s.order[i].addresses, ch.addresses...)
	}
}

// scale brings weights below the limit.
func (c *converter) scale(name string, n *tree.Node, list []choice) {
	top := 0
	for _, ch := range list {
		top = max(top, ch.weight)
	}
	if top <= maxWeight {
		return
	}
	for i := range list {
		list[i].weight = max(1, list[i].weight*maxWeight/top)
	}
	c.b.Remark(n, fmt.Sprintf("weights up to %d of weighted!%s", top, name), fmt.Sprintf("weights in proportion, up to %d", maxWeight), "")
}

// joined makes one choice of the choices of a destination that has several, for an order of destinations.
func (c *converter) joined(dc string, s *steering) []choice {
	if len(s.order) < 2 || s.mode == spec.Failover {
		return s.order
	}
	out := choice{name: dc, at: s.order[0].at}
	for _, ch := range s.order {
		if ch.target != "" {
			c.b.Remark(ch.at, "weights inside the destination "+dc, "its names go by order", "")
			return s.order
		}
		out.addresses = append(out.addresses, ch.addresses...)
	}
	c.b.Remark(out.at, "weights inside the destination "+dc, "its addresses are answered together", "")
	out.addresses = importer.Distinct(out.addresses)
	return []choice{out}
}
