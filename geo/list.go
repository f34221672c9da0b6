package geo

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// maxListErrors bounds what is shown of a file that is something else altogether.
const maxListErrors = 50

// ParseList reads a prefix list: one prefix a line with what is known of it.
//
//	# offices
//	192.0.2.0/24   country=CN province=GD city=shenzhen isp=chinatelecom asn=4134
//	2001:db8::/32, country=JP, city=New York
//
// A line with a comma is split at commas, others at white space; # starts a comment. What a line does not say it takes
// from the next wider prefix of the list, location only as far as both agree. The error holds an *Error per bad line (the first
// 50), joined; nothing of a bad list is used.
func ParseList(name string, data []byte) (*Source, error) {
	p := &listParser{name: name, lines: make(map[netip.Prefix]int)}
	number := 0
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) {
		number++
		p.line(number, string(line))
	}
	if len(p.errs) == 0 && len(p.lines) == 0 {
		p.errs = append(p.errs, &Error{Code: CodeEmpty, File: name, Msg: "the list has no prefix; take it out of the configuration if that is meant"})
	}
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return p.source(data), nil
}

// Errors is everything wrong with a source; never empty when used as an error.
type Errors []*Error

// Error writes one error a line.
func (e Errors) Error() string {
	all := make([]string, len(e))
	for i, x := range e {
		all[i] = x.Error()
	}
	return strings.Join(all, "\n")
}

// Unwrap gives the single errors to errors.As and errors.Is.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, x := range e {
		all[i] = x
	}
	return all
}

type listParser struct {
	name   string
	errs   Errors
	hidden int
	lines  map[netip.Prefix]int // where a prefix was named
	v4     []ranges.Block[ranges.V4, scope.Place]
	v6     []ranges.Block[ranges.V6, scope.Place]
}

func (p *listParser) fail(code string, line int, format string, args ...any) {
	switch {
	case len(p.errs) < maxListErrors:
		p.errs = append(p.errs, &Error{Code: code, File: p.name, Line: line, Msg: fmt.Sprintf(format, args...)})
	case p.hidden == 0:
		p.hidden = 1
		p.errs = append(p.errs, &Error{Code: code, File: p.name, Line: line, Msg: "more errors follow; they are not shown"})
	}
}

func (p *listParser) line(number int, text string) {
	text, _, _ = strings.Cut(text, "#")
	var fields []string
	if strings.Contains(text, ",") {
		for f := range strings.SplitSeq(text, ",") {
			fields = append(fields, strings.TrimSpace(f))
		}
	} else {
		fields = strings.Fields(text)
	}
	if len(fields) == 0 {
		return
	}
	prefix, ok := p.prefix(number, fields[0])
	place, fine := p.place(number, fields[1:])
	if !ok || !fine {
		return
	}
	if before := p.lines[prefix]; before != 0 {
		p.fail(CodeListTwice, number, "%s is named on line %d already; keep one of the two", prefix, before)
		return
	}
	p.lines[prefix] = number
	if prefix.Addr().Is4() {
		p.v4 = append(p.v4, block(ranges.FromV4(prefix.Addr()), prefix, place))
	} else {
		p.v6 = append(p.v6, block(ranges.FromV6(prefix.Addr()), prefix, place))
	}
}

func (p *listParser) prefix(number int, text string) (netip.Prefix, bool) {
	prefix, bad := scope.ParseCIDR(text)
	if bad == nil {
		s := scope.Scope{CIDR: []netip.Prefix{prefix}}
		err := s.Validate()
		if err == nil {
			return prefix, true
		}
		p.fail(CodeListLine, number, "%v", err)
		return prefix, false
	}
	p.fail(CodeListLine, number, "%q is %s", text, bad.Msg)
	return prefix, false
}

// place reads key=value fields.
func (p *listParser) place(number int, fields []string) (place scope.Place, ok bool) {
	before := len(p.errs) + p.hidden
	var seen []string
	for _, f := range fields {
		key, value, found := strings.Cut(f, "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		switch {
		case !found || value == "":
			p.fail(CodeListLine, number, "%q: write key=value, for example country=CN", f)
			continue
		case slices.Contains(seen, key):
			p.fail(CodeListLine, number, "%s is named twice; an address has one", key)
			continue
		}
		seen = append(seen, key)
		p.set(number, &place, key, value)
	}
	switch {
	case len(fields) == 0:
		p.fail(CodeListLine, number, "says nothing of the prefix; add for example country=CN")
	case place.Country == "" && (place.Province != "" || place.City != ""):
		p.fail(CodeListLine, number, "a province or city needs its country too")
	}
	return place.Canonical(), len(p.errs)+p.hidden == before
}

func (p *listParser) set(number int, place *scope.Place, key, value string) {
	one := scope.Scope{}
	var into *string
	list := []string{value}
	switch key {
	case "continent":
		one.Continent, into = list, &place.Continent
	case "country":
		one.Country, into = list, &place.Country
	case "province":
		one.Country, one.Province, into = []string{"CN"}, list, &place.Province
	case "city":
		one.Country, one.City, into = []string{"CN"}, list, &place.City
	case "isp":
		one.ISP, into = list, &place.ISP
	case "asn":
		n, err := scope.ParseASN(value)
		if err != nil {
			p.fail(CodeListLine, number, "%v", err)
		}
		place.ASN = n
		return
	default:
		p.fail(CodeListLine, number, "%q names no field we know; allowed are continent, country, province, city, isp, asn", key+"="+value)
		return
	}
	if err := one.Validate(); err != nil {
		p.fail(CodeListLine, number, "%v", err)
		return
	}
	*into = value
}

// source lays the prefixes out, the inner over the outer, field by field.
func (p *listParser) source(data []byte) *Source {
	m := newMerger()
	s := &Source{info: Info{Name: p.name, Kind: KindList, SHA256: digest(data)}}
	s.v4 = ranges.Map(ranges.Flatten(p.v4, fill), m.id)
	s.v6 = ranges.Map(ranges.Flatten(p.v6, fill), m.id)
	s.places = m.places
	s.info.Runs4, s.info.Runs6 = s.v4.Len(), s.v6.Len()
	return s
}
