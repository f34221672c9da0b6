// Package gdnsd reads the configuration of gdnsd 3: its config file with service types and plugins, and its zone files
// with DYNA and DYNC records.
package gdnsd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
)

// defaultTTL is gdnsd's own zones_default_ttl, in seconds.
const defaultTTL = 86400

// Import makes resources of a configuration folder, or of a config file with the folder zones beside it. An error that
// is no importer.ErrInvalid says what is wrong with a file.
func Import(path string, o importer.Options) (*importer.Result, error) {
	dir, name := path, "config"
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		dir, name = filepath.Split(path)
		dir = filepath.Clean(dir)
	}
	f, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	c := &converter{b: importer.New(o), files: f, checks: map[string]*check{}, nets: map[string]*tree.Node{}, used: map[string]bool{}}
	if err := c.config(name); err != nil {
		return nil, err
	}
	if err := c.zones(); err != nil {
		return nil, err
	}
	for i := range c.wanted {
		c.service(&c.wanted[i])
	}
	return c.b.Finish()
}

type converter struct {
	b      *importer.Builder
	files  *files
	budget tree.Budget
	root   *tree.Node
	ttl    int
	checks map[string]*check // by service type, nil for one that probes nothing
	wanted []wanted
	nets   map[string]*tree.Node
	used   map[string]bool // names that have a service
}

// wanted is a DYNA or DYNC record.
type wanted struct {
	node     *tree.Node
	zone     *importer.Zone
	name     string
	ttl, low int // seconds
	resource string
}

func (c *converter) config(name string) error {
	data, err := c.files.read(name, place{c.files.dir, 0})
	if err != nil {
		return err
	}
	if c.root, err = parseVSCF(c.files, name, data); err != nil {
		return err
	}
	if c.root.Kind != tree.Map {
		return &tree.Problem{File: c.files.shown(name), Line: 1, Text: "is a list, not gdnsd's configuration"}
	}
	c.b.Root(c.root)
	c.ttl = defaultTTL
	if v, ok := c.root.Get("options").Get("zones_default_ttl").Int(); ok {
		c.ttl = v
	}
	return nil
}

// file begins a zone file.
func (c *converter) file(name string) *tree.Node {
	n := &tree.Node{Kind: tree.List, File: c.files.shown(name), Line: 1}
	c.b.Root(n)
	return n
}

func (c *converter) zones() error {
	names, err := c.files.list("zones")
	if err != nil || len(names) == 0 {
		return &tree.Problem{File: c.files.shown("zones"), Text: "holds no zone files, and without them no name is known"}
	}
	for _, name := range names {
		data, err := c.files.read(name, place{c.files.shown("zones"), 0})
		if err != nil {
			return err
		}
		n := c.file(name)
		zone := strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(filepath.Base(name), "."), "@", "/")) // RFC 2317 names
		z, err := c.b.Zone(zone, n)
		if err != nil {
			c.b.Remark(n, "zone "+zone, "left out: the name "+err.Error(), "")
			continue
		}
		r := &zoneReader{c: c, zone: z, name: zone + "."}
		if err := r.read(data, &fileState{node: n, open: []string{name}, origin: r.name, first: r.name, ttl: c.ttl}); err != nil {
			return err
		}
	}
	return nil
}

// service makes the service of a DYNA or DYNC record, or says why not.
func (c *converter) service(w *wanted) {
	lost := func(why, todo string) { c.b.Lost(w.node, "record "+w.node.String(), "left out: "+why, todo) }
	plugin, resource, _ := strings.Cut(w.resource, "!")
	if !w.zone.Holds(w.name) {
		lost("its name lies outside the zone "+w.zone.Name(), "")
		return
	}
	if plugin == "static" {
		c.static(w, resource)
		return
	}
	s, err := c.resource(plugin, resource, 0)
	if err != nil {
		lost(err.Error(), "write the Service by hand")
		return
	}
	if c.used[w.name] {
		lost("the name has another such record", "")
		return
	}
	svc, err := c.b.Service(w.name, w.node)
	if err != nil {
		lost("the name "+err.Error(), "")
		return
	}
	c.used[w.name] = true
	w.node.Use()
	svc.SetTTL(w.ttl, w.low, w.node)
	if c.build(svc, s, w.node); !svc.HasCatchAll() {
		c.b.Drop(svc)
		lost("nothing is left to answer with", "write the Service by hand")
	}
}

// static makes a static record of a resource of the plugin static, which never changes.
func (c *converter) static(w *wanted, resource string) {
	n := c.plugin("static").Get(resource)
	if n == nil || n.Kind != tree.Scalar {
		c.b.Lost(w.node, "record "+w.node.String(), "left out: "+undefined("static", resource).Error(), "")
		return
	}
	if a, ok := addressOf(n.Text); ok {
		kind := "AAAA"
		if a.Is4() {
			kind = "A"
		}
		w.zone.Record(w.name, kind, w.ttl, a.String(), w.node)
	} else {
		w.zone.Record(w.name, "CNAME", w.ttl, n.Text, w.node)
	}
	n.Use()
}

func (c *converter) plugin(name string) *tree.Node { return c.root.Get("plugins").Get(name) }

func undefined(plugin, resource string) error {
	return fmt.Errorf("the resource %s!%s is not defined", plugin, resource)
}
