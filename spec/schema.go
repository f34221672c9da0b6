package spec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Schema gives the JSON Schema (draft 2020-12) of a kind, indented; nil for an unknown kind. It says what Parse says
// about single fields; what several fields or resources have to do with each other only Parse and Set.Check know.
func Schema(kind Kind) []byte {
	r := Resource{Kind: kind}
	body := r.setBody()
	if body == nil {
		return nil
	}
	s := &schemaNode{}
	s.put("$schema", textNode("https://json-schema.org/draft/2020-12/schema"))
	s.put("$id", textNode("urn:steerpoint:v1:"+strings.ToLower(string(kind))))
	s.put("title", textNode(string(kind)))
	object := objectSchema(reflect.TypeFor[envelope](), reflect.TypeOf(body).Elem())
	restrictKind(object, kind)
	s.node.Content = append(s.node.Content, object.Content...)
	var raw, out bytes.Buffer
	if writeJSON(&raw, &s.node) != nil || json.Indent(&out, raw.Bytes(), "", "  ") != nil {
		return nil // neither fails on a tree made here
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// schemaNode is a JSON object whose members stay in order.
type schemaNode struct{ node yaml.Node }

func (s *schemaNode) put(name string, v *yaml.Node) {
	s.node.Kind = yaml.MappingNode
	s.node.Content = append(s.node.Content, textNode(name), v)
}

func object(pairs ...any) *yaml.Node {
	s := &schemaNode{}
	s.node.Kind = yaml.MappingNode
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string) // all calls stand in this file
		switch v := pairs[i+1].(type) {
		case string:
			s.put(name, textNode(v))
		case int:
			s.put(name, number(strconv.Itoa(v)))
		case bool:
			s.put(name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)})
		case *yaml.Node:
			s.put(name, v)
		}
	}
	return &s.node
}

func number(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: text}
}

func array(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Content: items}
}

func textArray(items ...string) *yaml.Node {
	n := array()
	for _, s := range items {
		n.Content = append(n.Content, textNode(s))
	}
	return n
}

// objectSchema describes a map with the fields of all the structs, and no others.
func objectSchema(types ...reflect.Type) *yaml.Node {
	props, required := object(), array()
	for _, t := range types {
		for _, f := range tables[t].fields {
			props.Content = append(props.Content, textNode(f.name), fieldSchema(&f))
			if f.required {
				required.Content = append(required.Content, textNode(f.name))
			}
		}
	}
	s := object("type", "object", "properties", props)
	if len(required.Content) > 0 {
		s.Content = append(s.Content, textNode("required"), required)
	}
	s.Content = append(s.Content, textNode("additionalProperties"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "false"})
	return s
}

func restrictKind(schema *yaml.Node, kind Kind) {
	props := schema.Content[3]
	for i := 0; i < len(props.Content); i += 2 {
		if props.Content[i].Value == "kind" {
			props.Content[i+1] = object("const", string(kind), "description", "kind of resource")
		}
	}
}

func fieldSchema(f *field) *yaml.Node {
	s := typeSchema(f.typ, f)
	text := f.doc
	if f.lo.set && !intField(f.typ) {
		text += " (" + f.allowed() + ")"
	}
	if f.dynamic != "" {
		text += "; default: " + f.dynamic
	}
	s.Content = append(s.Content, textNode("description"), textNode(text))
	if f.hasDef {
		v := reflect.New(f.typ).Elem()
		if setText(v, f.def) == nil {
			s.Content = append(s.Content, textNode("default"), valueNode(v, Full))
		}
	}
	if f.name == "revision" {
		s.Content = append(s.Content, textNode("readOnly"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
	if isHidden(f.typ) {
		s.Content = append(s.Content, textNode("writeOnly"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
	if f.typ.Kind() == reflect.Slice && !isText(f.typ) && !isOneOrMany(f.typ) {
		s.Content = append(s.Content, textNode("maxItems"), number(strconv.Itoa(f.most())))
		if f.required {
			s.Content = append(s.Content, textNode("minItems"), number("1"))
		}
	}
	return s
}

func intField(t reflect.Type) bool { return t.Kind() == reflect.Int && !isText(t) }

// typeSchema describes the values of a type; f adds its words, bounds and format.
func typeSchema(t reflect.Type, f *field) *yaml.Node {
	switch {
	case isOneOrMany(t):
		one := typeSchema(t.Elem(), f)
		return object("anyOf", array(one, object("type", "array", "items", one, "minItems", 1, "maxItems", f.most())))
	case t == reflect.TypeFor[Scope]():
		return object("anyOf", array(object("const", "*"), objectSchema(t)))
	case t == reflect.TypeFor[time.Time]():
		return object("type", "string", "format", "date-time")
	case isText(t):
		return textSchema(t)
	}
	switch t.Kind() {
	case reflect.Struct:
		return objectSchema(t)
	case reflect.Pointer:
		return typeSchema(t.Elem(), f)
	case reflect.Slice:
		return object("type", "array", "items", typeSchema(t.Elem(), f))
	case reflect.Map:
		return object("type", "object", "additionalProperties", typeSchema(t.Elem(), &field{}))
	case reflect.Bool:
		return object("type", "boolean")
	case reflect.String:
		return stringSchema(f)
	case reflect.Uint64:
		return object("type", "integer", "minimum", 0)
	}
	s := object("type", "integer")
	if f.lo.set {
		s.Content = append(s.Content, textNode("minimum"), number(f.lo.text))
	}
	if f.hi.set {
		s.Content = append(s.Content, textNode("maximum"), number(f.hi.text))
	}
	return s
}

func stringSchema(f *field) *yaml.Node {
	s := object("type", "string")
	if len(f.enum) > 0 {
		s.Content = append(s.Content, textNode("enum"), textArray(f.enum...))
	} else if re := patterns[f.format]; re != nil {
		s.Content = append(s.Content, textNode("pattern"), textNode(re.String()))
	}
	return s
}

// textSchema describes the types that read their own text. The patterns are no stricter than the readers.
func textSchema(t reflect.Type) *yaml.Node {
	pattern := func(p string) *yaml.Node { return object("type", "string", "pattern", p) }
	switch t {
	case reflect.TypeFor[Duration]():
		return pattern(`^([0-9]+(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+$`)
	case reflect.TypeFor[Size]():
		return pattern(`^[0-9]+(B|KiB|MiB|GiB)?$`)
	case reflect.TypeFor[Milli]():
		return object("type", "number", "minimum", 0, "maximum", 1000)
	case reflect.TypeFor[ASN]():
		return object("anyOf", array(object("type", "integer", "minimum", 1, "maximum", 4294967295), pattern(`^([Aa][Ss])?[0-9]+$`)))
	case reflect.TypeFor[StatusRanges]():
		return object("anyOf", array(object("type", "integer", "minimum", 100, "maximum", 599), pattern(`^[0-9]{3}(-[0-9]{3})?( *, *[0-9]{3}(-[0-9]{3})?)*$`)))
	case reflect.TypeFor[Clock]():
		return pattern(`^([01][0-9]|2[0-4]):[0-5][0-9]$`)
	case reflect.TypeFor[Day]():
		return object("type", "string", "enum", textArray("mon", "tue", "wed", "thu", "fri", "sat", "sun"))
	case reflect.TypeFor[AllDown]():
		return pattern(`^(hold|all|first|empty|fallback:.+)$`)
	case reflect.TypeFor[Country]():
		return pattern(`^[A-Za-z]{2}$`)
	case reflect.TypeFor[Continent]():
		return pattern(`^([Aa][FfNnSs]|[Ee][Uu]|[Nn][Aa]|[Oo][Cc]|[Ss][Aa])$`)
	case reflect.TypeFor[Prefix]():
		return pattern(`^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$`)
	case reflect.TypeFor[Address]():
		return pattern(`^[0-9A-Fa-f:.]+$`)
	case reflect.TypeFor[ProbeURL]():
		return pattern(`^(https?|tcp|udp16|dns|icmp|grpcs?|HTTPS?|TCP|UDP16|DNS|ICMP|GRPCS?)://.+`)
	case reflect.TypeFor[Domain]():
		return pattern(`^(\*[.。])?[^*/: ]+[.。．｡][^*/: ]+$`)
	case reflect.TypeFor[HostName]():
		return pattern(`^[^*/: ]+[.。．｡][^*/: ]+$`)
	case reflect.TypeFor[HostPort]():
		return pattern(`^.+:[0-9]{1,5}$`)
	}
	return object("type", "string")
}
