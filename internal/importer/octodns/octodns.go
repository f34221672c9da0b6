// Package octodns reads a zone file of octoDNS: YAML with a record, or a list of records, a name.
package octodns

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/internal/rrdata"
)

// defaultTTL is octoDNS's own default for records without one, in seconds.
const defaultTTL = 3600

// Import makes resources of a zone file; "-" is standard input. The zone is o.Zone, or the name of the file without
// .yaml. An error that is no importer.ErrInvalid says what is wrong with the file.
func Import(path string, in io.Reader, o importer.Options) (*importer.Result, error) {
	file, data, err := importer.ReadFile(path, in)
	if err != nil {
		return nil, err
	}
	root, err := tree.YAML(file, data)
	if err != nil {
		return nil, err
	}
	if root.Kind != tree.Map {
		return nil, &tree.Problem{File: file, Line: root.Line, Text: "is no map of names: it is no zone file of octoDNS"}
	}
	name := o.Zone
	if name == "" {
		name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".yml"), ".yaml")
	}
	c := &converter{b: importer.New(o)}
	c.b.Root(root)
	if c.zone, err = c.b.Zone(strings.TrimSuffix(name, "."), root); err != nil {
		return nil, &tree.Problem{File: file, Line: 1, Text: fmt.Sprintf("is of the zone %q, which %v: give --zone NAME", name, err)}
	}
	for _, n := range root.Items {
		c.name(n)
	}
	for _, a := range c.aliases {
		c.alias(a)
	}
	return c.b.Finish()
}

type converter struct {
	b       *importer.Builder
	zone    *importer.Zone
	aliases []*record
}

// record is one record of the file.
type record struct {
	n    *tree.Node
	name string // the full name
	kind string
}

// name reads the records of one name.
func (c *converter) name(n *tree.Node) {
	name := c.zone.Name()
	if n.Key != "" && n.Key != "@" {
		name = strings.ToLower(n.Key) + "." + name
	}
	var steered, rest []*record
	for _, r := range n.Each() {
		kind := r.Get("type")
		if kind == nil {
			c.b.Lost(r, "a record of "+name+" without a type", "left out", "")
			continue
		}
		rec := &record{r, name, strings.ToUpper(kind.Str())}
		switch {
		case r.Get("octodns").Get("ignored").Is("true"):
			c.b.Lost(r, rec.kind+" record of "+name, "left out: octoDNS ignores it (octodns.ignored)", "")
		case r.Get("dynamic") != nil || r.Get("geo") != nil:
			steered = append(steered, rec)
		default:
			rest = append(rest, rec)
		}
	}
	rest = c.steer(steered, rest)
	for _, r := range rest {
		c.static(r)
	}
}

// values gives the values of a record, written as value or as values.
func (r *record) values() []*tree.Node {
	if v := r.n.Get("values"); v != nil {
		return v.Each()
	}
	return r.n.Get("value").Each()
}

func (c *converter) ttl(r *record) int {
	n := r.n.Get("ttl")
	if v, ok := n.Int(); ok {
		return v
	}
	if n != nil {
		c.b.Changed(n, "ttl "+n.String(), fmt.Sprintf("octoDNS's default of %ds", defaultTTL), "")
	}
	return defaultTTL
}

func (c *converter) static(r *record) {
	ttl := c.ttl(r)
	if r.kind == "ALIAS" {
		c.aliases = append(c.aliases, r)
		return
	}
	write := writers()[r.kind]
	if write == nil {
		c.b.Lost(r.n, r.kind+" record of "+r.name, "left out: this import does not read its values", "write it into the Zone by hand, as in a zone file")
		return
	}
	list := r.values()
	if len(list) == 0 {
		c.b.Lost(r.n, r.kind+" record of "+r.name+" without values", "left out", "")
	}
	for _, v := range list {
		text, ok := write(v)
		if !ok {
			c.b.Lost(v, r.kind+" record of "+r.name+": "+v.String(), "left out: it lacks a field", "")
			continue
		}
		c.zone.Record(r.name, r.kind, ttl, text, v)
	}
}

// writers write a value as in a zone file, by type. They mark what they read; ok is false where a field is missing.
func writers() map[string]func(v *tree.Node) (text string, ok bool) {
	plain := func(v *tree.Node) (string, bool) { return v.Str(), v.Kind == tree.Scalar && !v.Null }
	return map[string]func(v *tree.Node) (string, bool){
		"A": plain, "AAAA": plain, "CNAME": plain, "NS": plain, "PTR": plain,
		"TXT": func(v *tree.Node) (string, bool) {
			return rrdata.Quote(strings.ReplaceAll(v.Str(), `\;`, ";")), v.Kind == tree.Scalar && !v.Null
		},
		"MX": func(v *tree.Node) (string, bool) {
			return fields(v, []string{"preference", "priority"}, []string{"exchange", "value"})
		},
		"SRV": func(v *tree.Node) (string, bool) {
			return fields(v, []string{"priority"}, []string{"weight"}, []string{"port"}, []string{"target"})
		},
		"DS": func(v *tree.Node) (string, bool) {
			return fields(v, []string{"key_tag"}, []string{"algorithm"}, []string{"digest_type"}, []string{"digest"})
		},
		"SSHFP": func(v *tree.Node) (string, bool) {
			return fields(v, []string{"algorithm"}, []string{"fingerprint_type"}, []string{"fingerprint"})
		},
		"TLSA": func(v *tree.Node) (string, bool) {
			return fields(v, []string{"certificate_usage"}, []string{"selector"}, []string{"matching_type"}, []string{"certificate_association_data"})
		},
		"NAPTR": func(v *tree.Node) (string, bool) {
			first, ok := fields(v, []string{"order"}, []string{"preference"})
			parts := []string{first}
			for _, name := range []string{"flags", "service", "regexp"} {
				parts = append(parts, rrdata.Quote(v.Get(name).Str()))
			}
			last, also := fields(v, []string{"replacement"})
			return strings.Join(append(parts, last), " "), ok && also
		},
		"CAA": func(v *tree.Node) (string, bool) {
			flags := "0"
			if f := v.Get("flags"); f != nil {
				flags = f.Str()
			}
			text, ok := fields(v, []string{"tag"})
			value := v.Get("value")
			return flags + " " + text + " " + rrdata.Quote(value.Str()), ok && value != nil
		},
	}
}

// fields joins the fields of a value, each under the first of its names that is there.
func fields(v *tree.Node, names ...[]string) (string, bool) {
	var parts []string
	for _, alternatives := range names {
		for _, name := range alternatives {
			if f := v.Get(name); f != nil {
				parts = append(parts, f.Str())
				break
			}
		}
	}
	return strings.Join(parts, " "), len(parts) == len(names)
}

// alias settles an ALIAS record, once it is known which names are steered.
func (c *converter) alias(r *record) {
	list := r.values()
	if len(list) != 1 {
		c.b.Lost(r.n, "ALIAS record of "+r.name, "left out: it has no single value", "")
		return
	}
	to := strings.ToLower(strings.TrimSuffix(list[0].Str(), "."))
	what := "ALIAS record of " + r.name + " to " + to
	apex := r.name == c.zone.Name()
	if t := c.b.Find(to); t != nil && t.AddDomain(r.name, apex) {
		c.b.Remark(r.n, what, "the name is one more domain of that service", "")
		return
	}
	found := false
	for _, kind := range []string{"A", "AAAA"} {
		if s := c.zone.Lookup(to, kind); s != nil {
			found = true
			for _, v := range s.Values {
				c.zone.Record(r.name, kind, s.TTL, v, list[0])
			}
		}
	}
	switch {
	case found:
		c.b.Remark(r.n, what, "a copy of the addresses of that name: a change there must be made here too", "")
	case apex:
		c.zone.Record(r.name, "ALIAS", c.ttl(r), to+".", list[0])
	default:
		c.zone.Record(r.name, "CNAME", c.ttl(r), to+".", list[0])
		c.b.Remark(r.n, what, "a CNAME record", "")
	}
}
