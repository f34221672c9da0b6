package gdnsd

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// geoMap is a map of the plugin geoip while one resource uses it.
type geoMap struct {
	c       *converter
	name    string
	n       *tree.Node
	all     []string // names of its destinations, in order
	auto    []string // those with coordinates, where it chooses by distance
	choices map[string][]choice
	skip    bool
	out     *steering
}

// geoip translates a choice by place.
func (c *converter) geoip(name string, n *tree.Node, around []*tree.Node, depth int) (*steering, error) {
	m := &geoMap{c: c, name: name, choices: map[string][]choice{}, out: &steering{mode: spec.Failover, allDown: "first"}}
	which := n.Get("map").Str()
	if m.n = c.plugin("geoip").Get("maps").Get(which); m.n == nil {
		return nil, fmt.Errorf("geoip!%s uses the map %q, which is not defined", name, which)
	}
	list, err := c.destinations(n, m.n.Get("datacenters").Each(), append([]*tree.Node{n}, around...), depth)
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		if len(d.places) > 0 {
			c.b.Remark(n, "the places of the destination "+d.name+" of "+n.Path(), "its order for everybody: a service has one set of places", "")
		}
		m.choices[d.name] = c.joined(d.name, d.steering)
	}
	for _, d := range m.n.Get("datacenters").Each() {
		m.all = append(m.all, d.Text)
	}
	m.out.check = c.sameCheck(n, list)
	m.skip = n.Get("skip_first").Is("true")
	n.Get("skip_first").Use()
	m.settings()
	m.everybody()
	m.continents()
	if err := m.nets(); err != nil {
		return nil, err
	}
	if len(m.out.order) == 0 {
		return nil, errors.New("its map has no destination for everybody")
	}
	return m.out, nil
}

// settings lists what the map says beside its places.
func (m *geoMap) settings() {
	b := m.c.b
	if db := m.n.Get("geoip2_db"); db != nil {
		b.Changed(db, "geoip2_db "+db.String(), "places come from our own geo data", "compare with `steer geo lookup`, or give this file with --db")
	}
	if e := m.n.Get("ignore_ecs"); e.Is("true") {
		b.Changed(e, "ignore_ecs true", "the client subnet is used where a resolver sends it", "")
	} else {
		e.Use()
	}
	coords := m.n.Get("auto_dc_coords")
	if coords == nil {
		return
	}
	for _, d := range coords.EachKey() {
		m.auto = append(m.auto, d.Key)
	}
	b.Changed(coords, "auto_dc_coords: the nearest by distance", "quality rules: what our probe points measure decides", "put probe points where your visitors are")
	if l := m.n.Get("auto_dc_limit"); l != nil {
		b.Changed(l, "auto_dc_limit "+l.String(), "every destination takes part", "")
	}
}

// everybody is the order for who is nowhere else: default, the nearest, or the destinations as they are written.
func (m *geoMap) everybody() {
	d := m.n.Get("map").Get("default")
	switch {
	case d == nil && m.auto != nil:
		m.out.mode, m.out.order = spec.Quality, m.expand(m.auto, nil)
	case d == nil:
		m.out.order = m.expand(m.all, nil)
	default:
		m.out.mode, m.out.order = m.value(d)
	}
	if d != nil && len(m.out.order) == 0 {
		m.c.b.Lost(d, "the default of "+m.n.Path()+" is no answer at all", "the destinations in their order", "")
		m.out.mode, m.out.order = spec.Failover, m.expand(m.all, nil)
	}
}

// expand gives the choices of destinations by name.
func (m *geoMap) expand(names []string, at *tree.Node) []choice {
	if m.skip && len(names) > 1 {
		names = names[1:]
	}
	var out []choice
	for _, name := range names {
		if list, ok := m.choices[name]; ok {
			out = append(out, list...)
		} else if !slices.Contains(m.all, name) {
			m.c.b.Remark(at, "destination "+name+", which the map does not list", "left out", "")
		}
	}
	return out
}

// value reads a list of destinations, one alone, or the word auto.
func (m *geoMap) value(v *tree.Node) (spec.Mode, []choice) {
	if m.auto != nil && v.Kind == tree.Scalar && v.Text == "auto" {
		v.Use()
		return spec.Quality, m.expand(m.auto, v)
	}
	var names []string
	for _, d := range v.Each() {
		names = append(names, d.Text)
	}
	out := m.expand(names, v)
	if len(out) > 0 {
		v.Use()
	}
	return spec.Failover, out
}

// add makes a rule for a place.
func (m *geoMap) add(sc spec.Scope, err error, v *tree.Node) {
	if err != nil {
		m.c.b.Lost(v, "place "+v.Path(), "left out: "+err.Error(), "write a rule with the places you mean")
		return
	}
	mode, order := m.value(v)
	if len(order) == 0 {
		m.c.b.Lost(v, "place "+v.Path()+" gets no answer", "left out: it gets the answer of the place around it", "")
		return
	}
	m.out.places = append(m.out.places, placed{scope: sc, mode: mode, order: order, at: v})
}

func (m *geoMap) continents() {
	for _, v := range m.n.Get("map").EachKey() {
		switch {
		case v.Key == "default":
		case v.Kind == tree.Map:
			m.countries(v)
		default:
			sc, err := importer.Continent(v.Key)
			m.add(sc, err, v)
		}
	}
}

func (m *geoMap) countries(continent *tree.Node) {
	for _, v := range continent.EachKey() {
		switch {
		case v.Key == "default":
			sc, err := importer.Continent(continent.Key)
			m.add(sc, err, v)
		case v.Kind == tree.Map:
			m.inside(v, v.Key, "", "")
		default:
			sc, err := importer.Place(v.Key, "", "")
			m.add(sc, err, v)
		}
	}
}

// inside goes through the parts of a country: subdivisions, which have codes, and cities, which have names.
func (m *geoMap) inside(n *tree.Node, country, province, city string) {
	code := regexp.MustCompile(`^[A-Z0-9]{1,3}$`)
	for _, v := range n.EachKey() {
		p, t := province, city
		switch {
		case v.Key == "default":
		case code.MatchString(v.Key):
			p = v.Key
		default:
			t = v.Key
		}
		if v.Kind == tree.Map {
			m.inside(v, country, p, t)
			continue
		}
		sc, err := importer.Place(country, p, t)
		m.add(sc, err, v)
	}
}

// nets reads the ranges of addresses, which may stand in a file of their own.
func (m *geoMap) nets() error {
	n := m.n.Get("nets")
	if n == nil {
		return nil
	}
	if n.Kind == tree.Scalar {
		file := n.Str()
		if !path.IsAbs(file) {
			file = path.Join("geoip", file)
		}
		var err error
		if n, err = m.c.netsFile(file, place{n.File, n.Line}); err != nil {
			return err
		}
	}
	for _, v := range n.EachKey() {
		sc, changed, err := importer.CIDR(v.Key)
		if changed && err == nil && !strings.Contains(v.Key, ":") {
			m.c.b.Remark(v, "net "+v.Key+" with address bits beyond its length", sc.String(), "")
		}
		m.add(sc, err, v)
	}
	return nil
}

// netsFile reads a file of ranges, once for all resources that use its map.
func (c *converter) netsFile(file string, at place) (*tree.Node, error) {
	if n := c.nets[file]; n != nil {
		return n, nil
	}
	data, err := c.files.read(file, at)
	if err != nil {
		return nil, err
	}
	n, err := parseVSCF(c.files, file, data)
	if err != nil {
		return nil, err
	}
	c.nets[file] = n
	c.b.Root(n)
	return n, nil
}
