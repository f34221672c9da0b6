package spec

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Action is what happens to a resource.
type Action string

// The actions.
const (
	Added   Action = "added"
	Changed Action = "changed"
	Removed Action = "removed"
)

// Change is what differs about one resource.
type Change struct {
	Action Action        `json:"action"`
	Kind   Kind          `json:"kind"`
	Name   string        `json:"name"`
	Fields []FieldChange `json:"fields,omitempty"` // of a changed resource, in the order of its fields
}

// FieldChange is one field that differs.
type FieldChange struct {
	Where string `json:"where,omitempty"` // the entry it belongs to, such as "rule default"
	Field string `json:"field,omitempty"` // such as edges or probe.interval; "" for a whole entry
	Old   string `json:"old,omitempty"`   // "" for an added entry
	New   string `json:"new,omitempty"`   // "" for a removed entry
}

// String is one line: "rule default: edges [a, b] -> [b, a]".
func (f FieldChange) String() string {
	switch {
	case f.Field != "" && f.Where != "":
		return fmt.Sprintf("%s: %s %s -> %s", f.Where, f.Field, f.Old, f.New)
	case f.Field != "":
		return fmt.Sprintf("%s %s -> %s", f.Field, f.Old, f.New)
	case f.Old == "":
		return fmt.Sprintf("%s: added %s", f.Where, f.New)
	}
	return fmt.Sprintf("%s: removed", f.Where)
}

// String is one line a field, or one line for a whole resource: "service shop: added".
func (c Change) String() string {
	head := strings.ToLower(string(c.Kind)) + " " + c.Name + ": "
	if c.Action != Changed {
		return head + string(c.Action)
	}
	lines := make([]string, len(c.Fields))
	for i, f := range c.Fields {
		lines[i] = head + f.String()
	}
	return strings.Join(lines, "\n")
}

// Diff says what changes from one set to the other, in the order of kinds and names. Revisions do not count, nor does
// the order of edges and rules in a service, which means nothing.
func Diff(from, to *Set) []Change {
	var out []Change
	keys := map[string]bool{}
	var all []Resource
	for _, s := range []*Set{from, to} {
		for _, r := range s.Resources() {
			if !keys[r.Key()] {
				keys[r.Key()] = true
				all = append(all, r)
			}
		}
	}
	for _, r := range NewSet(all).Resources() {
		a, inOld := from.Get(r.Kind, r.Name)
		b, inNew := to.Get(r.Kind, r.Name)
		c := Change{Kind: r.Kind, Name: r.Name}
		switch {
		case !inOld:
			c.Action = Added
		case !inNew:
			c.Action = Removed
		default:
			c.Action, c.Fields = Changed, DiffResource(a, b)
			if len(c.Fields) == 0 {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// DiffResource says which fields differ between two resources of one kind.
func DiffResource(from, to Resource) []FieldChange {
	d := &differ{}
	d.plain("labels", reflect.ValueOf(from.Labels), reflect.ValueOf(to.Labels), &field{})
	a, b := from.body(), to.body()
	if a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) {
		d.structs("", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
	}
	return d.out
}

type differ struct {
	where []string
	out   []FieldChange
}

func (d *differ) add(fieldName, from, to string) {
	d.out = append(d.out, FieldChange{Where: strings.Join(d.where, ": "), Field: fieldName, Old: from, New: to})
}

// structs compares field by field; prefix is the dotted way from the entry to the struct.
func (d *differ) structs(prefix string, a, b reflect.Value) {
	for _, f := range tables[a.Type()].fields {
		av, bv := a.Field(f.index), b.Field(f.index)
		name := join(prefix, f.name)
		switch {
		case f.item != "":
			d.entries(f.item, av, bv)
		case f.typ == reflect.TypeFor[Scope]():
			from, to := av.Interface().(Scope), bv.Interface().(Scope)
			if from.String() != to.String() {
				d.add(name, from.String(), to.String())
			}
		case structOf(f.typ) == f.typ:
			d.structs(name, av, bv)
		default:
			d.plain(name, av, bv, &f)
		}
	}
}

func (d *differ) plain(name string, a, b reflect.Value, f *field) {
	if !sameValue(a, b) {
		d.add(name, f.words(a), f.words(b))
	}
}

// words writes a value for people; the zero value of a field with a dependent default is that default.
func (f *field) words(v reflect.Value) string {
	if v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 {
		switch {
		case f.dynamic != "":
			return "(default: " + f.dynamic + ")"
		case v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map || v.Kind() == reflect.String:
			return "(none)"
		}
	}
	return flow(valueNode(v, Minimal))
}

// entries compares two lists whose entries have names, or else places.
func (d *differ) entries(noun string, a, b reflect.Value) {
	oldKeys, newKeys := entryKeys(a), entryKeys(b)
	oldAt, newAt := places(oldKeys), places(newKeys)
	in := func(k string) func() {
		d.where = append(d.where, noun+" "+k)
		return func() { d.where = d.where[:len(d.where)-1] }
	}
	for i, k := range oldKeys {
		out := in(k)
		if j, ok := newAt[k]; ok {
			d.structs("", a.Index(i), b.Index(j))
		} else {
			d.add("", flow(valueNode(a.Index(i), Minimal)), "")
		}
		out()
	}
	for j, k := range newKeys {
		if _, ok := oldAt[k]; !ok {
			out := in(k)
			d.add("", "", flow(valueNode(b.Index(j), Minimal)))
			out()
		}
	}
}

// places gives the first place of each key.
func places(keys []string) map[string]int {
	out := make(map[string]int, len(keys))
	for i, k := range keys {
		if _, ok := out[k]; !ok {
			out[k] = i
		}
	}
	return out
}

func entryKeys(list reflect.Value) []string {
	out := make([]string, list.Len())
	for i := range out {
		e := list.Index(i)
		if keyed, ok := e.Interface().(interface{ Key() string }); ok {
			out[i] = keyed.Key()
		} else if name := e.FieldByName("Name"); name.IsValid() {
			out[i] = fmt.Sprint(name.Interface())
		} else {
			out[i] = fmt.Sprint(i + 1)
		}
	}
	return out
}

// flow writes a tree on one line, as YAML without needless quotes.
func flow(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		parts := make([]string, len(n.Content))
		for i, c := range n.Content {
			parts[i] = flow(c)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case yaml.MappingNode:
		var parts []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			parts = append(parts, flow(n.Content[i])+": "+flow(n.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return shown(n.Value)
}
