package spec

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// The tags of a field:
//
//	json      its name in files and in JSON
//	doc       what it means, one line
//	required  true: no default, and a list must not be empty
//	default   its fixed default; lists are separated by commas
//	dynamic   its default in words, when it depends on other fields; the zero value stands for it
//	min, max  bounds of a number or a duration, included
//	maxItems  the most entries a list may have
//	step      a duration must be a multiple of it
//	enum      allowed words
//	format    label, path, path2 (a/b), token (RFC 9110), word, key, fingerprint; text may hold line ends
//	item      what an entry of the list is called in differences; entries are matched by name
type field struct {
	name, doc, def, dynamic, format, item string
	index, maxItems                       int
	typ                                   reflect.Type
	required, hasDef                      bool
	enum                                  []string
	lo, hi, step                          bound
}

// bound is a limit of an integer type: its value and how it is written.
type bound struct {
	set  bool
	n    int64
	text string
}

// table holds the fields of one struct, in the order they are written.
type table struct {
	fields []field
	names  []string
}

func (t *table) find(name string) *field {
	if i := slices.Index(t.names, name); i >= 0 {
		return &t.fields[i]
	}
	return nil
}

// tables holds the fields of every struct that may occur in a resource. It is compiled once and not changed.
var tables = compileTables(
	reflect.TypeFor[envelope](), reflect.TypeFor[Service](), reflect.TypeFor[Zone](), reflect.TypeFor[Override](),
	reflect.TypeFor[Notifier](), reflect.TypeFor[Secret](), reflect.TypeFor[RuleSet](), reflect.TypeFor[Certificate](),
	reflect.TypeFor[DynamicRecords](),
)

func compileTables(roots ...reflect.Type) map[reflect.Type]*table {
	out := map[reflect.Type]*table{}
	for _, r := range roots {
		compile(r, out)
	}
	return out
}

// compile reads the tags of a struct and of all structs below it. A wrong tag is a mistake in this package: it panics,
// and any test of the package shows it.
func compile(t reflect.Type, out map[reflect.Type]*table) {
	if out[t] != nil {
		return
	}
	tab := &table{}
	out[t] = tab
	for i := range t.NumField() {
		sf := t.Field(i)
		name := sf.Tag.Get("json")
		if name == "-" || !sf.IsExported() {
			continue
		}
		f := field{
			name: name, index: i, typ: sf.Type, doc: sf.Tag.Get("doc"), dynamic: sf.Tag.Get("dynamic"),
			format: sf.Tag.Get("format"), item: sf.Tag.Get("item"), required: sf.Tag.Get("required") == "true",
		}
		f.def, f.hasDef = sf.Tag.Lookup("default")
		if e := sf.Tag.Get("enum"); e != "" {
			f.enum = strings.Split(e, ",")
		}
		if text := sf.Tag.Get("maxItems"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				panic(fmt.Sprintf("spec: field %s: tag maxItems: %v", sf.Name, err))
			}
			f.maxItems = n
		}
		f.lo, f.hi, f.step = newBound(sf, "min"), newBound(sf, "max"), newBound(sf, "step")
		tab.fields, tab.names = append(tab.fields, f), append(tab.names, name)
		if s := structOf(sf.Type); s != nil {
			compile(s, out)
		}
	}
}

func newBound(sf reflect.StructField, tag string) bound {
	text, ok := sf.Tag.Lookup(tag)
	if !ok {
		return bound{}
	}
	v := reflect.New(sf.Type).Elem()
	if err := setText(v, text); err != nil {
		panic(fmt.Sprintf("spec: field %s: tag %s: %v", sf.Name, tag, err))
	}
	return bound{set: true, n: v.Int(), text: text}
}

// structOf gives the struct a field holds, itself or in a list or behind a pointer; nil if it is a plain value.
func structOf(t reflect.Type) reflect.Type {
	if isText(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return t
	case reflect.Slice, reflect.Pointer:
		return structOf(t.Elem())
	}
	return nil
}

// isText is true for types written as one text.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// isNumber is true for text types that may be written as plain numbers too.
func isNumber(t reflect.Type) bool {
	return t == reflect.TypeFor[Milli]() || t == reflect.TypeFor[ASN]() || t == reflect.TypeFor[StatusRanges]()
}

// isOneOrMany is true for lists that may be written as one value.
func isOneOrMany(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[interface{ oneOrMany() }]())
}

// setText sets a plain value, or a list of texts, from the text of a default or a bound.
func setText(v reflect.Value, text string) error {
	if isText(v.Type()) {
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("value %q: %w", text, err)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("value %q: %w", text, err)
		}
		v.SetInt(n)
	case reflect.Slice:
		for part := range strings.SplitSeq(text, ",") {
			e := reflect.New(v.Type().Elem()).Elem()
			if err := setText(e, part); err != nil {
				return err
			}
			v.Set(reflect.Append(v, e))
		}
	default:
		return fmt.Errorf("value %q: a %s has no text", text, v.Type())
	}
	return nil
}

// setDefaults fills a struct that nothing was written to yet with its fixed defaults.
func setDefaults(v reflect.Value) {
	for _, f := range tables[v.Type()].fields {
		fv := v.Field(f.index)
		switch {
		case f.hasDef:
			if err := setText(fv, f.def); err != nil {
				panic(fmt.Sprintf("spec: field %s: tag default: %v", f.name, err))
			}
		case fv.Kind() == reflect.Struct && structOf(f.typ) != nil:
			setDefaults(fv)
		}
	}
}

// allowed says in words what may be written to a field of one value.
func (f *field) allowed() string {
	switch {
	case len(f.enum) > 0:
		return strings.Join(f.enum, ", ")
	case f.lo.set && f.hi.set:
		s := f.lo.text + " to " + f.hi.text
		if f.step.set {
			s += ", in whole seconds"
		}
		return s
	}
	return formatWords(f.format)
}

// typeWords says what kind of value a type is.
func typeWords(t reflect.Type) string {
	switch {
	case isOneOrMany(t):
		return typeWords(t.Elem()) + ", or a list of such"
	case t == reflect.TypeFor[Duration]():
		return "a duration such as 30s"
	case t == reflect.TypeFor[Milli]():
		return "a number"
	case t == reflect.TypeFor[Size]():
		return "a size such as 64KiB"
	case t == reflect.TypeFor[*SecretRef]():
		return "a map such as {secret: NAME, key: KEY}"
	case t == reflect.TypeFor[Scope]():
		return `"*", or fields such as {country: CN}`
	case isText(t) || t.Kind() == reflect.String:
		return "text"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct, reflect.Pointer:
		return "a map of fields"
	}
	return "a whole number"
}
