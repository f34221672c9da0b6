package spec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Form says how much of a resource is written.
type Form uint8

// The forms. Both read back to an equal resource; Full fixes defaults that depend on other fields (see Effective).
const (
	Minimal Form = iota // only what differs from the defaults
	Full                // every field that has a value, defaults included
)

// YAML writes the resource as one document, fields in their fixed order.
func (r *Resource) YAML(form Form) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(r.node(form)); err != nil {
		return nil, fmt.Errorf("resource %s: %w", r.Key(), err)
	}
	return b.Bytes(), nil
}

// JSON writes the resource on one line, fields in their fixed order.
func (r *Resource) JSON(form Form) ([]byte, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, r.node(form)); err != nil {
		return nil, fmt.Errorf("resource %s: %w", r.Key(), err)
	}
	return b.Bytes(), nil
}

// MarshalJSON writes the minimal form.
func (r Resource) MarshalJSON() ([]byte, error) { return r.JSON(Minimal) }

// MarshalYAML writes the minimal form.
func (r Resource) MarshalYAML() (any, error) { return r.node(Minimal), nil }

// Equal reports whether two resources say the same, revisions and places apart.
func (r Resource) Equal(o Resource) bool {
	r.Revision, o.Revision = 0, 0
	if r.Secret != nil && o.Secret != nil && !reflect.DeepEqual(r.Secret.Data, o.Secret.Data) {
		return false // they are written as if they were equal
	}
	a, errA := r.JSON(Minimal)
	b, errB := o.JSON(Minimal)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func (r *Resource) node(form Form) *yaml.Node {
	if form == Full {
		e := r.Effective()
		r = &e
	}
	env := envelope{APIVersion, string(r.Kind), r.Name, r.Labels, r.Revision}
	n := structNode(reflect.ValueOf(env), form)
	if b := r.body(); b != nil {
		n.Content = append(n.Content, structNode(reflect.ValueOf(b).Elem(), form).Content...)
	}
	return n
}

// structNode writes the fields of a struct in the order of its table.
func structNode(v reflect.Value, form Form) *yaml.Node {
	if s, ok := v.Interface().(Scope); ok && s.Any {
		return textNode("*")
	}
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	plain := reflect.New(v.Type()).Elem()
	setDefaults(plain)
	for _, f := range tables[v.Type()].fields {
		fv := v.Field(f.index)
		if !f.required && f.omitted(fv, plain.Field(f.index), form) {
			continue
		}
		c := valueNode(fv, form)
		if !f.required && c.Kind == yaml.MappingNode && len(c.Content) == 0 {
			if fv.Kind() != reflect.Pointer {
				continue
			}
		}
		n.Content = append(n.Content, textNode(f.name), c)
	}
	return n
}

// omitted is true for a field the form leaves out: one at its default, or one without a value.
func (f *field) omitted(v, def reflect.Value, form Form) bool {
	if structOf(f.typ) == f.typ {
		return false // judged by what is in it
	}
	if form == Minimal {
		return sameValue(v, def)
	}
	return !f.hasDef && v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// sameValue is DeepEqual that takes an empty list or map for none.
func sameValue(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func valueNode(v reflect.Value, form Form) *yaml.Node {
	t := v.Type()
	switch {
	case t == reflect.TypeFor[time.Time]():
		return quoted(v.Interface().(time.Time).Format(time.RFC3339Nano))
	case isText(t):
		return textValue(v)
	case t.Kind() == reflect.Struct:
		return structNode(v, form)
	case t.Kind() == reflect.Pointer:
		return valueNode(v.Elem(), form)
	case t.Kind() == reflect.Slice:
		return listNode(v, form)
	case t.Kind() == reflect.Map:
		return mapNode(v)
	case t.Kind() == reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}
	case t.Kind() == reflect.String:
		return textNode(v.String())
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(v.Interface())}
}

func textValue(v reflect.Value) *yaml.Node {
	text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return textNode("") // no type of ours fails to write itself
	}
	if v.CanInt() && isNumber(v.Type()) || v.Type() == reflect.TypeFor[ASN]() {
		tag := "!!int"
		if bytes.IndexByte(text, '.') >= 0 {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: string(text)}
	}
	return textNode(string(text))
}

// listNode writes a list; plain values stand on one line, and a single one alone where that is allowed.
func listNode(v reflect.Value, form Form) *yaml.Node {
	if isOneOrMany(v.Type()) && v.Len() == 1 {
		return valueNode(v.Index(0), form)
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if structOf(v.Type()) == nil {
		n.Style = yaml.FlowStyle
	}
	for i := range v.Len() {
		n.Content = append(n.Content, valueNode(v.Index(i), form))
	}
	return n
}

func mapNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	keys := make([]string, 0, v.Len())
	for _, k := range v.MapKeys() {
		keys = append(keys, k.String())
	}
	slices.Sort(keys)
	for _, k := range keys { // texts, or those that do not show
		n.Content = append(n.Content, textNode(k), valueNode(v.MapIndex(reflect.ValueOf(k)), Minimal))
	}
	return n
}

// oldWords are read as booleans by YAML 1.1 readers: the country NO would become false there.
const oldWords = " y n yes no on off true false null ~ "

// textNode writes a text so that every YAML reader takes it for one.
func textNode(s string) *yaml.Node {
	safe := s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_/") == ""
	if safe && !strings.Contains(oldWords, " "+strings.ToLower(s)+" ") && strings.Trim(s[:1], "0123456789.-_/") != "" {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	}
	if safe && durationLike(s) || s != "" && s[0] == '/' && safe {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	}
	return quoted(s)
}

// durationLike is true for texts such as 30s: a digit first, a unit last, nothing a number could hold.
func durationLike(s string) bool {
	_, err := time.ParseDuration(s)
	return err == nil && strings.Trim(s[len(s)-1:], "smh") == ""
}

func quoted(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

// writeJSON writes a tree made by this package as JSON.
func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		brackets, step := "{}", 2
		if n.Kind == yaml.SequenceNode {
			brackets, step = "[]", 1
		}
		b.WriteByte(brackets[0])
		for i, c := range n.Content {
			if i > 0 {
				b.WriteByte(map[bool]byte{true: ',', false: ':'}[i%step == 0])
			}
			if err := writeJSON(b, c); err != nil {
				return err
			}
		}
		b.WriteByte(brackets[1])
		return nil
	}
	if n.Tag != "!!str" {
		b.WriteString(n.Value)
		return nil
	}
	text, err := json.Marshal(n.Value)
	if err != nil {
		return fmt.Errorf("text %q: %w", n.Value, err)
	}
	b.Write(text)
	return nil
}
