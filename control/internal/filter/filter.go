// Package filter reads the filter of a list, and says which entries fit. It knows the words of a filter, and nothing of
// what the lists hold.
//
// A filter is terms with blanks between them, and all of them must hold:
//
//	term  = field ("=" | "!=") value
//	field = letters of the list's own, such as name or kind; label.KEY for a label
//	value = text without blanks, or text in double quotes, in which \" and \\ stand for " and \
//
// A value that ends in * and is not in quotes is a prefix. A field of several values (the roles of a node) has a value if
// one of them is it. The empty filter fits everything.
package filter

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Label among the fields of a list says that its entries have labels: label.KEY is a field then.
const Label = "label"

const (
	// maxText is the longest filter in bytes: far above what a person writes, and an answer cannot come to cost more than
	// a list is long.
	maxText  = 1000
	maxTerms = 20
)

// Filter is what an entry must be like. The zero value fits everything.
type Filter struct{ terms []term }

type term struct {
	field, key string // key: of a label
	value      string
	not        bool
	prefix     bool
}

// Error says what is wrong with a filter, and where.
type Error struct {
	Column  int    // in characters, from 1
	Value   string // what stands there
	Message string // what is wrong, for people
	Allowed string // what could stand there; "": not a matter of choice
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("filter, column %d: %s", e.Column, e.Message)
	if e.Allowed != "" {
		s += "; allowed: " + e.Allowed
	}
	return s
}

// Parse reads a filter on a list that has these fields. Its errors are *Error.
func Parse(text string, fields ...string) (Filter, error) {
	if len(text) > maxText {
		return Filter{}, &Error{Column: maxText + 1, Message: fmt.Sprintf("the filter is longer than %d bytes", maxText)}
	}
	p := parser{text: text, fields: fields}
	var f Filter
	for p.blanks(); !p.end(); p.blanks() {
		if len(f.terms) == maxTerms {
			return Filter{}, p.wrong(p.at, "", fmt.Sprintf("there are more than %d terms", maxTerms), "")
		}
		t, err := p.term()
		if err != nil {
			return Filter{}, err
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

// Empty reports whether everything fits.
func (f Filter) Empty() bool { return len(f.terms) == 0 }

// Exact gives the value that a field must have, "" if several or any would do: with it a store can be asked for less.
func (f Filter) Exact(field string) string {
	for _, t := range f.terms {
		if t.field == field && !t.not && !t.prefix {
			return t.value
		}
	}
	return ""
}

// Folded gives the filter with each value of a field put through fold, for a list that compares that field without case: what
// Match is given for it must come through fold too.
func (f Filter) Folded(field string, fold func(value string) string) Filter {
	terms := slices.Clone(f.terms)
	for i := range terms {
		if terms[i].field == field {
			terms[i].value = fold(terms[i].value)
		}
	}
	return Filter{terms}
}

// Match reports whether an entry fits. Values gives the values of one of its fields; of Label with the label's key.
func (f Filter) Match(values func(field, key string) []string) bool {
	for _, t := range f.terms {
		if slices.ContainsFunc(values(t.field, t.key), t.fits) == t.not {
			return false
		}
	}
	return true
}

func (t *term) fits(v string) bool {
	if t.prefix {
		return strings.HasPrefix(v, t.value)
	}
	return v == t.value
}

type parser struct {
	text   string
	at     int // byte
	fields []string
}

func (p *parser) end() bool { return p.at == len(p.text) }

func (p *parser) blanks() {
	for !p.end() && p.text[p.at] == ' ' {
		p.at++
	}
}

func (p *parser) wrong(at int, value, message, allowed string) *Error {
	return &Error{Column: utf8.RuneCountInString(p.text[:at]) + 1, Value: value, Message: message, Allowed: allowed}
}

func (p *parser) term() (term, error) {
	begin := p.at
	stop := strings.IndexAny(p.text[begin:], "=! \"")
	if stop < 0 {
		stop = len(p.text) - begin
	}
	p.at += stop
	name := p.text[begin:p.at]
	var t term
	switch {
	case strings.HasPrefix(p.text[p.at:], "!="):
		t.not = true
		p.at += 2
	case strings.HasPrefix(p.text[p.at:], "="):
		p.at++
	default:
		return t, p.wrong(p.at, word(p.text[begin:]), fmt.Sprintf("a term is field=value or field!=value, and %q is neither", word(p.text[begin:])), "")
	}
	label, isLabel := strings.CutPrefix(name, Label+".")
	switch {
	case isLabel && label != "" && slices.Contains(p.fields, Label):
		t.field, t.key = Label, label
	case name != Label && slices.Contains(p.fields, name):
		t.field = name
	default:
		return t, p.wrong(begin, name, fmt.Sprintf("this list has no field %q", name), p.allowed())
	}
	return t, p.value(&t)
}

// word is the text up to the first blank.
func word(s string) string {
	w, _, _ := strings.Cut(s, " ")
	return w
}

func (p *parser) allowed() string {
	names := slices.Clone(p.fields)
	for i, f := range names {
		if f == Label {
			names[i] = Label + ".KEY"
		}
	}
	return strings.Join(names, ", ")
}

func (p *parser) value(t *term) error {
	if !p.end() && p.text[p.at] == '"' {
		return p.quoted(t)
	}
	begin := p.at
	t.value = word(p.text[begin:])
	p.at += len(t.value)
	if i := strings.IndexByte(t.value, '"'); i >= 0 {
		return p.wrong(begin+i, t.value, "a quote stands only around a whole value", "")
	}
	t.value, t.prefix = strings.CutSuffix(t.value, "*")
	if i := strings.IndexByte(t.value, '*'); i >= 0 {
		return p.wrong(begin+i, "*", "* stands only at the end of a value, for what begins with it; a * itself goes in quotes", "")
	}
	if t.value == "" && !t.prefix {
		return p.wrong(begin, "", `there is no value; "" is the empty one`, "")
	}
	return nil
}

func (p *parser) quoted(t *term) error {
	begin := p.at
	var b strings.Builder
	for i := begin + 1; i < len(p.text); i++ {
		switch c := p.text[i]; c {
		case '\\':
			if i++; i == len(p.text) || p.text[i] != '"' && p.text[i] != '\\' {
				return p.wrong(i-1, `\`, `a \ in quotes stands before " or \`, "")
			}
			b.WriteByte(p.text[i])
		case '"':
			t.value, p.at = b.String(), i+1
			if !p.end() && p.text[p.at] != ' ' {
				return p.wrong(p.at, word(p.text[p.at:]), "a blank is missing after the quote", "")
			}
			return nil
		default:
			b.WriteByte(c)
		}
	}
	return p.wrong(begin, `"`, "the quote does not end", "")
}
