package filter

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// entry is something in a list.
type entry map[string][]string

func (e entry) values(field, key string) []string {
	if field == Label {
		field += "." + key
	}
	return e[field]
}

// TestMatch proves what a filter means, term by term.
// Covers: issue4 filter
func TestMatch(t *testing.T) {
	shop := entry{"name": {"shop"}, "kind": {"Service"}, "role": {"dns", "probe"}, "label.region": {"eu"}, "label.a.b/c": {"x y"}}
	for text, want := range map[string]bool{
		"":                                 true,
		"   ":                              true,
		"name=shop":                        true,
		"name=sho":                         false,
		"name=sho*":                        true,
		"name=*":                           true,
		"name!=shop":                       false,
		"name!=sho*":                       false,
		"name!=bank":                       true,
		"role=dns":                         true,
		"role=probe":                       true,
		"role!=dns":                        false,
		"role=edge":                        false,
		"label.region=eu":                  true,
		"label.region=us":                  false,
		"label.other=eu":                   false,
		"label.other!=eu":                  true,
		"label.other=*":                    false,
		`label.a.b/c="x y"`:                true,
		`label.a.b/c=x*`:                   true,
		`name="sho*"`:                      false,
		`name="shop"`:                      true,
		`name=""`:                          false,
		"name=shop kind=Service":           true,
		"  name=shop   kind=Service  ":     true,
		"name=shop kind=Zone":              false,
		"kind=Zone name=shop":              false,
		"name=shop label.region=eu role=*": true,
	} {
		f, err := Parse(text, "name", "kind", "role", Label)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := f.Match(shop.values); got != want {
			t.Errorf("%q fits: %v, want %v", text, got, want)
		}
		if f.Empty() != (strings.TrimSpace(text) == "") {
			t.Errorf("%q empty: %v", text, f.Empty())
		}
	}
	odd := entry{"name": {`a"b\c`}}
	if f, err := Parse(`name="a\"b\\c"`, "name"); err != nil || !f.Match(odd.values) {
		t.Errorf("a value with a quote and a backslash: %v", err)
	}
}

// TestExact proves which terms narrow what is asked of a store.
func TestExact(t *testing.T) {
	for text, want := range map[string]string{"": "", "name=a": "a", "name!=a": "", "name=a*": "", "kind=b": "", "kind=b name=c": "c"} {
		f, err := Parse(text, "name", "kind")
		if err != nil || f.Exact("name") != want {
			t.Errorf("%q: %q, %v; want %q", text, f.Exact("name"), err, want)
		}
	}
}

// TestMistakes proves that a bad filter is refused at its place.
// Covers: issue4 filter
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		text   string
		column int
		say    string
	}{
		{"name", 5, "field=value"},
		{"name shop", 5, "field=value"},
		{"name=", 6, "no value"},
		{"name= kind=x", 6, "no value"},
		{"=x", 1, "no field"},
		{"nme=x", 1, "no field"},
		{"name=x kind=y nme=z", 15, "name, kind, label.KEY"},
		{"label=x", 1, "no field"},
		{"label.=x", 1, "no field"},
		{"名=x", 1, "no field"},
		{"name=名 nme=x", 8, "no field"},
		{"name=a*b", 7, "at the end"},
		{"name=**", 6, "at the end"},
		{`name="x`, 6, "does not end"},
		{`name="x"y`, 9, "blank is missing"},
		{`name="x\y"`, 8, `stands before`},
		{`name="x\`, 8, `stands before`},
		{`name=x"y`, 7, "whole value"},
		{`"name"=x`, 1, "field=value"},
		{"name!x", 5, "field=value"},
		{strings.Repeat("name=x ", 21), 141, "more than 20"},
		{strings.Repeat("x", 1001), 1001, "longer"},
	} {
		_, err := Parse(c.text, "name", "kind", Label)
		var e *Error
		if !errors.As(err, &e) || e.Column != c.column || !strings.Contains(e.Error(), c.say) {
			t.Errorf("%.40q: %v, want column %d and %q", c.text, err, c.column, c.say)
		}
	}
	if _, err := Parse("label.a=b", "name"); err == nil {
		t.Error("a label of a list without labels is taken")
	}
}

// FuzzParse proves that any text is a filter or a mistake within it, and that fields asked for are those of the list.
// Covers: issue4 filter
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "name=a", `label.x="a b" kind!=c*`, `name="`, "名=\xff", `name="\\\""`} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		fields := []string{"name", "kind", Label}
		got, err := Parse(text, fields...)
		var e *Error
		if errors.As(err, &e) {
			if e.Column < 1 || e.Column > utf8.RuneCountInString(text)+1 && len(text) <= maxText || e.Message == "" {
				t.Fatalf("%q: %+v", text, e)
			}
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got.Match(func(field, key string) []string {
			if !slices.Contains(fields, field) || (field == Label) != (key != "") {
				t.Fatalf("%q asks for %q %q", text, field, key)
			}
			return []string{value}
		})
		quoted := `name="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
		if len(quoted) > maxText {
			return
		}
		exact, err := Parse(quoted, fields...)
		if err != nil || exact.Exact("name") != value || !exact.Match(func(string, string) []string { return []string{value} }) {
			t.Fatalf("%q: %v", quoted, err)
		}
	})
}
