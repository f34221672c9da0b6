package gdnsd

import (
	"fmt"
	"slices"
	"strings"

	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// destination translates one value of a dcmap (gdnsd-plugin-metafo(8), "PER-DATACENTER RESOLUTION").
func (c *converter) destination(name string, v *tree.Node, around []*tree.Node, depth int) (*steering, error) {
	plugin := "multifo"
	if p := inherited("plugin", append([]*tree.Node{v}, around...)...); p != nil {
		plugin = p.Str()
	}
	switch {
	case v.Kind == tree.Scalar && strings.HasPrefix(v.Text, "%"), v.Kind == tree.Scalar && strings.HasPrefix(v.Text, "!"):
		other, resource, ok := strings.Cut(strings.TrimPrefix(v.Text, "%"), "!")
		if !ok {
			return nil, fmt.Errorf("%s %q names no resource", v.Path(), v.Text)
		}
		if other == "" {
			other = plugin
		}
		s, err := c.resource(other, resource, depth+1)
		if err == nil {
			v.Use()
		}
		return s, err
	case v.Kind == tree.Scalar:
		ch, err := c.direct(v, name)
		s := &steering{mode: spec.Fixed, order: []choice{ch}}
		if len(ch.addresses) > 0 {
			s.check = c.health(v, around)
		}
		return s, err
	case v.Kind == tree.List:
		return c.multifo(name, v, around)
	}
	return c.synthesized(plugin, name, v, around, depth+1)
}

// named is a destination of a meta plugin with its name there.
type named struct {
	name string
	*steering
}

// destinations translates the values of a dcmap in an order of names.
func (c *converter) destinations(n *tree.Node, order []*tree.Node, around []*tree.Node, depth int) ([]named, error) {
	var out []named
	for _, d := range order {
		v := n.Get("dcmap").Get(d.Text)
		if v == nil {
			if ok := inherited("undefined_datacenters_ok", around...); ok.Is("true") {
				ok.Use()
				c.b.Remark(n, "destination "+d.Text+", which "+n.Path()+" does not define", "left out of its lists", "")
				continue
			}
			return nil, fmt.Errorf("%s does not define %s", n.Path()+".dcmap", d.Text)
		}
		s, err := c.destination(d.Text, v, around, depth)
		if err != nil {
			return nil, err
		}
		for i := range s.order {
			if len(s.order) == 1 {
				s.order[i].name = d.Text
			}
			s.order[i].unprobed = s.order[i].unprobed || s.check == nil
		}
		d.Use()
		out = append(out, named{d.Text, s})
	}
	return out, nil
}

// sameCheck gives the check of the first destination that has one. A rule probes all its edges alike.
func (c *converter) sameCheck(n *tree.Node, list []named) *check {
	var out *check
	for _, d := range list {
		switch {
		case d.check == nil:
		case out == nil:
			out = d.check
		case out != d.check:
			c.b.Remark(n, "service_types of the destination "+d.name+" of "+n.Path()+", other than those before it", "all are probed like the first: a rule probes its edges alike", "")
		}
	}
	return out
}

// metafo translates an order of destinations.
func (c *converter) metafo(name string, n *tree.Node, around []*tree.Node, depth int) (*steering, error) {
	order := n.Get("datacenters").Each()
	if skip := n.Get("skip_first"); skip.Is("true") && len(order) > 1 {
		c.b.Lost(n.Get("dcmap").Get(order[0].Text), "destination "+order[0].Text+" of metafo!"+name+", which skip_first leaves out", "left out", "")
		skip.Use()
		order[0].Use()
		order = order[1:]
	} else {
		skip.Use()
	}
	list, err := c.destinations(n, order, append([]*tree.Node{n}, around...), depth)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("metafo!%s has no destination", name)
	}
	s := &steering{mode: spec.Failover, allDown: "first", check: c.sameCheck(n, list)}
	for i, d := range list {
		if len(d.places) > 0 || d.mode == spec.Quality {
			return c.nested(n, list, i, s)
		}
		s.order = append(s.order, c.joined(d.name, d.steering)...)
	}
	return s, nil
}

// nested translates an order of destinations of which one is a choice by place: each place gets the whole order.
func (c *converter) nested(n *tree.Node, list []named, at int, s *steering) (*steering, error) {
	var before, after []choice
	for i, d := range list {
		if i != at && (len(d.places) > 0 || d.mode == spec.Quality) {
			c.b.Remark(n, "the places of the destination "+d.name+" of "+n.Path(), "its order for everybody: a service has one set of places", "")
		}
		if i < at {
			before = append(before, c.joined(d.name, d.steering)...)
		} else if i > at {
			after = append(after, c.joined(d.name, d.steering)...)
		}
	}
	around := func(mode spec.Mode, order []choice) (spec.Mode, []choice) {
		if mode == spec.Quality && len(before) == 0 {
			if len(after) > 1 {
				c.b.Remark(n, "the destinations of "+n.Path()+" behind the first of them", "left out: a quality rule has one fallback", "")
			}
			return mode, order
		}
		if mode == spec.Quality {
			c.b.Remark(n, "the nearest of "+list[at].name+" behind another destination", "their order as it is written", "")
		}
		return spec.Failover, slices.Concat(before, order, after)
	}
	in := list[at].steering
	for _, p := range in.places {
		p.mode, p.order = around(p.mode, p.order)
		s.places = append(s.places, p)
	}
	s.mode, s.order = around(in.mode, in.order)
	quality := s.mode == spec.Quality || slices.ContainsFunc(s.places, func(p placed) bool { return p.mode == spec.Quality })
	if quality && len(after) > 0 {
		switch to := after[0]; {
		case to.target != "":
			s.allDown = fallback + string(to.target)
		case len(to.addresses) > 0:
			s.allDown = fallback + to.addresses[0].String()
			if len(to.addresses) > 1 {
				c.b.Remark(to.at, "the addresses of the destination "+to.name, "the first of them, when all others are down", "")
			}
		}
	}
	return s, nil
}
