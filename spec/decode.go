package spec

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"steerpoint/spec/internal/names"
)

// maxErrors of one document are shown: a person fixes those first, and a hostile file gets a short answer.
const maxErrors = 100

// decoder fills one resource from a tree, field table in hand. It goes on after every error.
type decoder struct {
	src    *source
	kind   Kind
	name   string
	errs   Errors
	failed map[string]bool // paths with an error at them
	above  []reflect.Type  // structs the present one lies in, outermost first
}

func (d *decoder) fail(n *yaml.Node, path string, e *valueError) {
	if len(d.errs) > maxErrors {
		return
	}
	d.failed[path] = true
	switch {
	case len(d.errs) == maxErrors:
		e = &valueError{code: CodeTooMany, problem: "there are more errors; these first"}
		path = ""
	}
	value := ""
	if d.quiet(path) {
		e = e.quiet()
	} else if n.Kind == yaml.ScalarNode && e.code != CodeUnknownField && e.code != CodeTooMany && e.code != CodeNoValue {
		value = shown(n.Value)
	}
	d.errs = append(d.errs, Error{Finding{
		Code: e.code, File: d.src.file, Line: n.Line, Column: n.Column, Kind: d.kind, Name: d.name, Path: path,
		Value: value, Problem: e.problem, Allowed: e.allowed, Suggest: e.suggest,
	}})
}

// value decodes a node into v. f is the field v belongs to; entries of a list belong to the list's field.
func (d *decoder) value(n *yaml.Node, v reflect.Value, f *field, path string) {
	d.src.pos[path] = position{n.Line, n.Column}
	t := v.Type()
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		d.fail(n, path, &valueError{CodeNoValue, "has no value", typeWords(t) + "; or leave the field out", ""})
	case isOneOrMany(t) && n.Kind != yaml.SequenceNode:
		e := reflect.New(t.Elem()).Elem()
		d.value(n, e, f, path)
		v.Set(reflect.Append(v, e))
	case t == reflect.TypeFor[Scope]() && n.Kind == yaml.ScalarNode:
		d.everybody(n, v, path)
	case isText(t):
		d.text(n, v, f, path)
	case t.Kind() == reflect.Struct:
		d.structure(n, v, path)
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		setDefaults(v.Elem())
		d.value(n, v.Elem(), f, path)
	case t.Kind() == reflect.Slice:
		d.list(n, v, f, path)
	case isHidden(t):
		d.hidden(n, v, path)
	case t.Kind() == reflect.Map:
		d.words(n, v, path)
	default:
		d.scalar(n, v, f, path)
	}
}

func (d *decoder) everybody(n *yaml.Node, v reflect.Value, path string) {
	if n.Value != "*" {
		d.fail(n, path, &valueError{CodeWrongType, "is no scope", typeWords(v.Type()), ""})
		return
	}
	v.Set(reflect.ValueOf(Scope{Any: true}))
}

// text decodes a value whose type reads its own text.
func (d *decoder) text(n *yaml.Node, v reflect.Value, f *field, path string) {
	if n.Kind != yaml.ScalarNode {
		d.wrongType(n, v.Type(), path)
		return
	}
	s := strings.TrimSpace(n.Value)
	if n.Tag == "!!bool" {
		d.wrongType(n, v.Type(), path)
		return
	}
	err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
	var bad *valueError
	switch {
	case errors.As(err, &bad):
		d.fail(n, path, bad)
	case err != nil:
		d.fail(n, path, &valueError{CodeBadValue, "is not a time", "RFC 3339, such as 2026-12-31T06:00:00Z", ""})
	case n.Tag == "!!int" || n.Tag == "!!float":
		if !isNumber(v.Type()) {
			e := &valueError{CodeWrongType, "is a number", typeWords(v.Type()), strconv.Quote(s)}
			if m, ok := v.Interface().(Duration); ok {
				e.suggest = m.String()
			}
			d.fail(n, path, e)
			return
		}
		d.bounds(n, v, f, path)
	default:
		d.bounds(n, v, f, path)
	}
}

// bounds checks the limits of integers and durations.
func (d *decoder) bounds(n *yaml.Node, v reflect.Value, f *field, path string) {
	if !v.CanInt() || f == nil {
		return
	}
	x := v.Int()
	if f.lo.set && x < f.lo.n || f.hi.set && x > f.hi.n {
		d.fail(n, path, &valueError{CodeOutOfRange, "is out of range", f.allowed(), ""})
	} else if f.step.set && x%f.step.n != 0 {
		d.fail(n, path, &valueError{CodeOutOfRange, "is not a whole number of seconds", f.allowed(), ""})
	}
}

func (d *decoder) wrongType(n *yaml.Node, t reflect.Type, path string) {
	e := &valueError{CodeWrongType, "is " + nodeWords(n), typeWords(t), ""}
	switch {
	case n.Kind != yaml.ScalarNode:
	case t == reflect.TypeFor[Country]() && n.Tag == "!!bool" && strings.EqualFold(n.Value, "false"):
		e.suggest = `"NO"`
	case t.Kind() == reflect.String && !isText(t):
		e.suggest = strconv.Quote(n.Value)
	}
	d.fail(n, path, e)
}

func nodeWords(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map of fields"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!bool":
		return "true or false, not text"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "a number"
	case n.Tag == "!!timestamp":
		return "a date"
	}
	return "text"
}

// scalar decodes booleans, whole numbers and plain text.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, f *field, path string) {
	if n.Kind != yaml.ScalarNode {
		d.wrongType(n, v.Type(), path)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		d.boolean(n, v, path)
	case reflect.String:
		d.str(n, v, f, path)
	default:
		d.integer(n, v, f, path)
	}
}

func (d *decoder) boolean(n *yaml.Node, v reflect.Value, path string) {
	if n.Tag == "!!bool" {
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return
	}
	e := &valueError{CodeWrongType, "is " + nodeWords(n), "true or false", ""}
	switch strings.ToLower(n.Value) {
	case "yes", "y", "on", "true", "1":
		e.suggest = "true"
	case "no", "n", "off", "false", "0":
		e.suggest = "false"
	}
	d.fail(n, path, e)
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, f *field, path string) {
	e := &valueError{CodeWrongType, "is " + nodeWords(n), "a whole number", ""}
	if a := f.allowed(); a != "" {
		e.allowed = "a whole number from " + a
	}
	digits := strings.TrimPrefix(n.Value, "-")
	decimal := digits != "" && strings.Trim(digits, "0123456789") == "" && (digits == "0" || digits[0] != '0')
	switch {
	case n.Tag == "!!str" && decimal:
		e.suggest = n.Value
		d.fail(n, path, e)
		return
	case n.Tag != "!!int":
		d.fail(n, path, e)
		return
	case !decimal:
		e.code, e.problem = CodeBadValue, "is not a plain decimal number"
		d.fail(n, path, e)
		return
	}
	if v.CanUint() {
		x, err := strconv.ParseUint(n.Value, 10, 64)
		if err != nil {
			d.fail(n, path, &valueError{CodeOutOfRange, "is out of range", "a whole number of 0 or more", ""})
		}
		v.SetUint(x)
		return
	}
	x, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		d.fail(n, path, &valueError{CodeOutOfRange, "is out of range", f.allowed(), ""})
		return
	}
	v.SetInt(x)
	d.bounds(n, v, f, path)
}

func (d *decoder) str(n *yaml.Node, v reflect.Value, f *field, path string) {
	if n.Tag != "!!str" {
		d.wrongType(n, v.Type(), path)
		return
	}
	v.SetString(n.Value)
	if f == nil {
		return
	}
	if len(f.enum) > 0 && !slices.Contains(f.enum, n.Value) {
		e := &valueError{CodeBadValue, "is not one of the words", f.allowed(), names.Nearest(n.Value, f.enum)}
		if f.format == "version" {
			e.code, e.problem = CodeAPIVersion, "is not a version this program reads"
		}
		d.fail(n, path, e)
		return
	}
	if e := checkFormat(f.format, n.Value); e != nil {
		d.fail(n, path, e)
	}
}

// defaultMost is the most entries of a list that does not say so itself.
const defaultMost = 100

func (f *field) most() int {
	if f.maxItems > 0 {
		return f.maxItems
	}
	return defaultMost
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, f *field, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, &valueError{CodeWrongType, "is " + nodeWords(n), "a list, such as [a, b]", ""})
		return
	}
	if limit := f.most(); len(n.Content) > limit {
		d.fail(n, path, &valueError{CodeOutOfRange, fmt.Sprintf("has %d entries", len(n.Content)), fmt.Sprintf("at most %d", limit), ""})
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		e := out.Index(i)
		if e.Kind() == reflect.Struct && structOf(e.Type()) != nil {
			setDefaults(e)
		}
		d.value(c, e, f, fmt.Sprintf("%s[%d]", path, i))
	}
	v.Set(out)
}

// words decodes a map of texts.
func (d *decoder) words(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, v.Type(), path)
		return
	}
	out := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		at := path + "." + shorten(key.Value)
		d.src.pos[at] = position{val.Line, val.Column}
		if e := checkFormat("", key.Value); e != nil {
			d.fail(key, at, e)
			continue
		}
		if _, twice := out[key.Value]; twice {
			d.fail(key, at, &valueError{CodeDuplicate, "is written twice", "each name once", ""})
		}
		s := reflect.New(reflect.TypeFor[string]()).Elem()
		if val.Kind != yaml.ScalarNode || val.Tag != "!!str" {
			d.wrongType(val, s.Type(), at)
			continue
		}
		if e := checkFormat("", val.Value); e != nil {
			d.fail(val, at, e)
		}
		out[key.Value] = val.Value
	}
	if len(out) > 0 {
		v.Set(reflect.ValueOf(out))
	}
}

// structure decodes the fields of one struct.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, v.Type(), path)
		return
	}
	d.fields(n, path, v)
}

// fields decodes a map into one or more structs that share its fields: the envelope and the kind's.
func (d *decoder) fields(n *yaml.Node, path string, into ...reflect.Value) {
	for _, v := range into {
		d.above = append(d.above, v.Type())
	}
	defer func() { d.above = d.above[:len(d.above)-len(into)] }()
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		f, v := findField(into, key.Value)
		switch {
		case f == nil:
			d.unknown(key, path, into)
		case seen[key.Value]:
			d.fail(key, at, &valueError{CodeDuplicate, "is written twice", "each field once", ""})
		default:
			seen[key.Value] = true
			d.value(val, v.Field(f.index), f, at)
		}
	}
	for _, v := range into {
		for _, f := range tables[v.Type()].fields {
			d.required(n, &f, v.Field(f.index), join(path, f.name), seen[f.name])
		}
	}
}

func (d *decoder) required(n *yaml.Node, f *field, v reflect.Value, path string, written bool) {
	switch {
	case !f.required:
	case !written:
		allowed := f.allowed()
		if allowed == "" {
			allowed = typeWords(f.typ)
		}
		d.fail(&yaml.Node{Line: n.Line, Column: n.Column}, path, &valueError{CodeMissing, "is missing", allowed, ""})
	case v.Kind() == reflect.Slice && v.Len() == 0 && !d.failed[path]:
		p := d.src.pos[path]
		d.fail(&yaml.Node{Line: p.Line, Column: p.Column}, path, &valueError{CodeMissing, "is empty", "at least one entry", ""})
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func findField(into []reflect.Value, name string) (*field, reflect.Value) {
	for _, v := range into {
		if f := tables[v.Type()].find(name); f != nil {
			return f, v
		}
	}
	return nil, reflect.Value{}
}

// unknown names what may be meant: a field of nearly that name here, or one of exactly that name a level down or up,
// which is how a wrong indentation shows.
func (d *decoder) unknown(key *yaml.Node, path string, into []reflect.Value) {
	if len(d.errs) > maxErrors {
		return
	}
	name := key.Value
	e := &valueError{CodeUnknownField, "is no field here", "", ""}
	var known []string
	for _, v := range into {
		known = append(known, tables[v.Type()].names...)
	}
	e.suggest = d.elsewhere(name, path, into)
	if e.suggest == "" {
		e.suggest = names.Nearest(name, known)
	}
	if e.suggest == "" {
		e.allowed = strings.Join(known, ", ")
	}
	at := join(path, shorten(name))
	if d.kind == KindSecret {
		at = path // what is indented wrongly may be a value
	}
	d.fail(key, at, e)
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		s = string(r[:40]) + "..."
	}
	return strings.Trim(strconv.Quote(s), `"`)
}

func (d *decoder) elsewhere(name, path string, into []reflect.Value) string {
	for _, v := range into {
		for _, f := range tables[v.Type()].fields {
			if t := tables[f.typ]; t != nil && t.find(name) != nil {
				return join(path, f.name) + "." + name + " (one level down)"
			}
		}
	}
	up := d.above[:len(d.above)-len(into)]
	for i := len(up) - 1; i >= 0; i-- {
		if tables[up[i]].find(name) != nil && name != "name" {
			return name + " further out (indented less)"
		}
	}
	return ""
}
