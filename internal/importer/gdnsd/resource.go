package gdnsd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// maxNested is how deep meta plugins refer to one another.
const maxNested = 8

// choice is what becomes an edge.
type choice struct {
	name      string
	addresses []spec.Address
	target    spec.HostName
	weight    int
	unprobed  bool // gdnsd takes it for up, always
	at        *tree.Node
}

// steering is a resource while it is translated.
type steering struct {
	mode    spec.Mode
	order   []choice // for everybody
	places  []placed // for some, from the plugin geoip
	check   *check   // nil: nothing is probed
	allDown string
}

// placed is the order for one place.
type placed struct {
	scope spec.Scope
	mode  spec.Mode
	order []choice
	at    *tree.Node
}

// inherited finds a setting in a map or in those around it, the innermost first.
func inherited(key string, maps ...*tree.Node) *tree.Node {
	for _, m := range maps {
		if n := m.Get(key); n != nil {
			return n
		}
	}
	return nil
}

// resource translates PLUGIN!NAME.
func (c *converter) resource(plugin, name string, depth int) (*steering, error) {
	p := c.plugin(plugin)
	if depth > maxNested {
		return nil, errors.New("its resources refer to one another in a circle, or too deep")
	}
	name, only, _ := strings.Cut(name, "/")
	n := p.Get(name)
	if plugin == "metafo" || plugin == "geoip" {
		n = p.Get("resources").Get(name)
	}
	switch plugin {
	case "reflect", "null":
		return nil, fmt.Errorf("the plugin %s has no counterpart", plugin)
	}
	if n == nil {
		return nil, undefined(plugin, name)
	}
	if only != "" {
		return c.one(plugin, name, only, n, p, depth)
	}
	return c.synthesized(plugin, name, n, []*tree.Node{p}, depth)
}

// synthesized translates the settings of a resource, wherever they stand. around are the maps it inherits from.
func (c *converter) synthesized(plugin, name string, n *tree.Node, around []*tree.Node, depth int) (*steering, error) {
	switch plugin {
	case "simplefo":
		return c.simplefo(name, n, around)
	case "multifo":
		return c.multifo(name, n, around)
	case "weighted":
		return c.weighted(name, n, around)
	case "metafo":
		return c.metafo(name, n, around, depth)
	case "geoip":
		return c.geoip(name, n, around, depth)
	case "static":
		ch, err := c.direct(n, name)
		return &steering{mode: spec.Fixed, order: []choice{ch}}, err
	}
	return nil, fmt.Errorf("the plugin %s is not known", plugin)
}

func addressOf(text string) (spec.Address, bool) {
	var a spec.Address
	err := a.UnmarshalText([]byte(text))
	return a, err == nil
}

// direct reads an address or a name that stands alone.
func (c *converter) direct(n *tree.Node, name string) (choice, error) {
	ch := choice{name: name, at: n}
	if n.Kind != tree.Scalar {
		return ch, fmt.Errorf("%s is no address and no name", n.Path())
	}
	if a, ok := addressOf(n.Text); ok {
		n.Use()
		ch.addresses = []spec.Address{a}
		return ch, nil
	}
	if err := ch.target.UnmarshalText([]byte(n.Text)); err != nil {
		return ch, fmt.Errorf("%s %q is no address, and as a name it %w", n.Path(), n.Text, err)
	}
	n.Use()
	return ch, nil
}

// families gives the maps that hold the addresses of a resource: addrs_v4 and addrs_v6, or the resource itself.
func families(n *tree.Node) []*tree.Node {
	var out []*tree.Node
	for _, key := range []string{"addrs_v4", "addrs_v6"} {
		if f := n.Get(key); f != nil {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return []*tree.Node{n}
	}
	return out
}

// settings are the keys that are no labels of addresses.
func settings() []string {
	return []string{"service_types", "up_thresh", "ignore_health", "multi", "plugin", "addrs_v4", "addrs_v6"}
}

// health finds the check of a resource in its families, and in what it inherits.
func (c *converter) health(n *tree.Node, around []*tree.Node) *check {
	var out *check
	for i, f := range families(n) {
		ch := c.serviceTypes(inherited("service_types", append([]*tree.Node{f, n}, around...)...))
		if i == 0 {
			out = ch
		} else if ch != out {
			c.b.Remark(f, "service_types of "+f.Path()+", other than those of addrs_v4", "both families are probed like addrs_v4", "")
			if out == nil {
				out = ch
			}
		}
	}
	return out
}

// threshold lists up_thresh where it is written: the share of addresses below which all are answered.
func (c *converter) threshold(n *tree.Node, around []*tree.Node) {
	for _, f := range append(append(families(n), n), around...) {
		if t := f.Get("up_thresh"); t != nil {
			c.b.Changed(t, "up_thresh "+t.String(), "an edge is down when all of its addresses are; those that are up are answered until then", "")
		}
	}
}

func (c *converter) simplefo(name string, n *tree.Node, around []*tree.Node) (*steering, error) {
	s := &steering{mode: spec.Failover, allDown: "first", check: c.health(n, around)}
	for _, key := range []string{"primary", "secondary"} {
		ch := choice{name: key}
		for _, f := range families(n) {
			v := f.Get(key)
			a, ok := addressOf(v.String())
			if v == nil || !ok {
				return nil, fmt.Errorf("simplefo!%s has no usable %s address", name, key)
			}
			v.Use()
			ch.at, ch.addresses = v, append(ch.addresses, a)
		}
		s.order = append(s.order, ch)
	}
	return s, nil
}

// multifo answers with all addresses that are up: one edge here.
func (c *converter) multifo(name string, n *tree.Node, around []*tree.Node) (*steering, error) {
	s := &steering{mode: spec.Failover, allDown: "all", check: c.health(n, around)}
	ch := choice{name: name, at: n}
	for _, f := range families(n) {
		items := f.EachKey()
		if f.Kind != tree.Map {
			items = f.Each()
		}
		for _, v := range items {
			if f.Kind == tree.Map && slices.Contains(settings(), v.Key) {
				continue
			}
			a, ok := addressOf(v.String())
			if !ok {
				c.b.Lost(v, "address "+v.Key+" "+v.String()+" of multifo!"+name, "left out: it is no usable address", "")
				continue
			}
			v.Use()
			ch.addresses = append(ch.addresses, a)
		}
	}
	if len(ch.addresses) == 0 {
		return nil, fmt.Errorf("multifo!%s has no address", name)
	}
	s.order = []choice{ch}
	c.threshold(n, around)
	if i := inherited("ignore_health", append(append(families(n), n), around...)...); i.Is("true") {
		c.b.Changed(i, "ignore_health true", "addresses that are down are left out of the answer", "")
	} else {
		i.Use()
	}
	return s, nil
}

// one translates PLUGIN!NAME/DC: one of the destinations of a meta plugin alone.
func (c *converter) one(plugin, name, dc string, n, p *tree.Node, depth int) (*steering, error) {
	if plugin != "metafo" && plugin != "geoip" {
		return nil, undefined(plugin, name+"/"+dc)
	}
	v := n.Get("dcmap").Get(dc)
	if v == nil {
		return nil, undefined(plugin, name+"/"+dc)
	}
	return c.destination(dc, v, []*tree.Node{n, p}, depth)
}

// build makes edges and rules of what was translated.
func (c *converter) build(svc *importer.Service, s *steering, at *tree.Node) {
	probe := importer.Probe{Off: true}
	if s.check != nil {
		probe = s.check.probe(svc.Host(), c)
	} else if s.measures() {
		probe = importer.Probe{URL: "https://" + svc.Host() + "/"}
		c.b.Remark(at, "the nearest destination of "+svc.Host()+", with nothing that says how to probe it", "a probe of "+probe.URL+" at every edge", "set probe.url of its rules to what tells that an edge works")
	}
	for i := range s.places {
		p := &s.places[i]
		order, allDown := c.unprobedLast(s, p.mode, p.order)
		r := importer.Rule{Scope: p.scope, Mode: p.mode, Edges: c.edges(svc, order, false), Probe: probe, AllDown: allDown, At: p.at}
		if !svc.AddRule(r) {
			c.b.Remark(p.at, "the place "+p.scope.String()+" of "+svc.Host(), "left out: another entry has it, or nothing is left to answer with", "")
		}
	}
	mode := s.mode
	if mode == "" {
		mode = spec.Failover
	}
	order, allDown := c.unprobedLast(s, mode, s.order)
	svc.AddRule(importer.Rule{Scope: importer.Everybody(), Mode: mode, Edges: c.edges(svc, order, mode == spec.Weighted), Probe: probe, AllDown: allDown, At: at})
}

// measures reports whether a rule chooses by what is measured.
func (s *steering) measures() bool {
	return s.mode == spec.Quality || slices.ContainsFunc(s.places, func(p placed) bool { return p.mode == spec.Quality })
}

// unprobedLast makes the last destination of an order the answer when all others are down, where gdnsd takes it for up
// without a look. It gives the rest of the order, and whenAllDown.
func (c *converter) unprobedLast(s *steering, mode spec.Mode, order []choice) ([]choice, string) {
	allDown := s.lastResort(mode)
	if mode != spec.Failover || s.check == nil {
		return order, allDown
	}
	if n := len(order) - 1; n > 0 && order[n].unprobed && len(order[n].addresses) < 2 {
		if allDown = fallback + string(order[n].target); len(order[n].addresses) == 1 {
			allDown = fallback + order[n].addresses[0].String()
		}
		order = order[:n]
	}
	for _, ch := range order {
		if ch.unprobed {
			c.b.Remark(ch.at, "destination "+ch.name+", which gdnsd takes for up without a look", "it is probed like the others: a rule probes its edges alike", "")
		}
	}
	return order, allDown
}

// lastResort is whenAllDown of a rule. Where the order of edges means nothing, the first of them means nothing either.
func (s *steering) lastResort(mode spec.Mode) string {
	if mode == spec.Quality && !strings.HasPrefix(s.allDown, fallback) {
		return ""
	}
	return s.allDown
}

// fallback is how whenAllDown names a destination.
const fallback = "fallback:"

func (c *converter) edges(svc *importer.Service, order []choice, weighted bool) []string {
	var out []string
	for _, ch := range order {
		e := importer.Edge{Name: ch.name, Addresses: importer.Distinct(ch.addresses), Target: ch.target, At: ch.at}
		if weighted {
			e.Weight = ch.weight
		}
		name := svc.AddEdge(e)
		switch {
		case name == "":
			c.b.Remark(ch.at, "destination "+ch.name+" of "+svc.Host(), "left out: it leads nowhere, or back to the name itself", "")
			continue
		case weighted && slices.Contains(out, name):
			c.b.Remark(ch.at, "destination "+ch.name+", which stands there already with the same weight", "one edge, whose weight counts once", "give that edge the sum of the weights")
		}
		out = append(out, name)
	}
	return out
}
