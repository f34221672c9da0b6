package rules

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"steerpoint/internal/ruletext"
	"steerpoint/snapshot"
)

// condition is one condition, compiled.
type condition struct {
	on         string
	name       string // of headers in lower case
	negate     bool
	transforms []string
	fits       func(v []byte) bool // texts
	number     func(n int64) bool  // numbers
	prefixes   []netip.Prefix
	countries  []string
	weeks      []*ruletext.Week
}

// newCondition compiles a condition. It refuses what spec refuses: a snapshot may come from another version.
func newCondition(c *snapshot.EdgeCondition) (condition, error) {
	out := condition{on: c.On, name: c.Name, negate: c.Negate, transforms: c.Transforms}
	if c.On == "header" {
		out.name = strings.ToLower(c.Name)
	}
	for _, t := range c.Transforms {
		if !slices.Contains([]string{"lowercase", "uppercase", "trim", "removeNulls", "urlEncode", "urlDecode"}, t) {
			return out, fmt.Errorf("condition on %s: transform %q is not known", c.On, t)
		}
	}
	var err error
	switch c.On {
	case "clientAddress", "socketAddress":
		err = out.address(c)
	case "clientPort", "serverPort", "bodySize":
		out.number, err = numberTest(c)
	case "time":
		err = out.time(c)
	case "method", "scheme", "httpVersion", "tlsVersion", "host", "url", "path", "fileName", "fileExtension", "query",
		"queryParameter", "header", "cookie", "country", "device", "body", "postParameter":
		out.fits, err = textTest(c)
	default:
		err = fmt.Errorf("nothing is known of it")
	}
	if err != nil {
		return out, fmt.Errorf("condition on %s: %w", c.On, err)
	}
	return out, nil
}

func (d *condition) address(c *snapshot.EdgeCondition) error {
	switch {
	case c.Operator == "geo" && c.On == "clientAddress":
		d.countries = c.Values
		return nil
	case c.Operator != "cidr":
		return fmt.Errorf("operator %q is not known", c.Operator)
	}
	for _, v := range c.Values {
		p, err := netip.ParsePrefix(v)
		if a, single := netip.ParseAddr(v); err != nil && single == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return fmt.Errorf("value: %w", err)
		}
		d.prefixes = append(d.prefixes, p)
	}
	return nil
}

func (d *condition) time(c *snapshot.EdgeCondition) error {
	if c.Operator != "within" {
		return fmt.Errorf("operator %q is not known", c.Operator)
	}
	for _, v := range c.Values {
		w, err := ruletext.ParseWeek(v)
		if err != nil {
			return fmt.Errorf("value: %w", err)
		}
		d.weeks = append(d.weeks, w)
	}
	return nil
}

// numberTest compares with numbers: one must fit.
func numberTest(c *snapshot.EdgeCondition) (func(int64) bool, error) {
	var values []int64
	for _, v := range c.Values {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
		values = append(values, n)
	}
	switch c.Operator {
	case "any":
		return func(int64) bool { return true }, nil
	case "equals":
		return func(n int64) bool { return slices.Contains(values, n) }, nil
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("operator %q has no value", c.Operator)
	}
	least, most := slices.Min(values), slices.Max(values)
	switch c.Operator {
	case "lessThan":
		return func(n int64) bool { return n < most }, nil
	case "lessOrEqual":
		return func(n int64) bool { return n <= most }, nil
	case "greaterThan":
		return func(n int64) bool { return n > least }, nil
	case "greaterOrEqual":
		return func(n int64) bool { return n >= least }, nil
	}
	return nil, fmt.Errorf("operator %q is not known", c.Operator)
}

// textTest compares with texts: one must fit. Comparisons of numbers compare the length in bytes.
func textTest(c *snapshot.EdgeCondition) (func([]byte) bool, error) {
	values := make([][]byte, len(c.Values))
	for i, v := range c.Values {
		values[i] = []byte(v)
	}
	oneOf := func(test func(v, want []byte) bool) func([]byte) bool {
		return func(v []byte) bool {
			for _, want := range values {
				if test(v, want) {
					return true
				}
			}
			return false
		}
	}
	switch c.Operator {
	case "any":
		return func([]byte) bool { return true }, nil
	case "equals":
		return oneOf(bytes.Equal), nil
	case "beginsWith":
		return oneOf(bytes.HasPrefix), nil
	case "endsWith":
		return oneOf(bytes.HasSuffix), nil
	case "contains":
		return oneOf(bytes.Contains), nil
	case "regex":
		return regexTest(c.Values)
	case "wildcard":
		return wildcardTest(values), nil
	}
	number, err := numberTest(c)
	if err != nil {
		return nil, err
	}
	return func(v []byte) bool { return number(int64(len(v))) }, nil
}

func regexTest(values []string) (func([]byte) bool, error) {
	var list []*regexp.Regexp
	for _, v := range values {
		re, err := regexp.Compile(v)
		if err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
		list = append(list, re)
	}
	return func(v []byte) bool {
		for _, re := range list {
			if re.Match(v) {
				return true
			}
		}
		return false
	}, nil
}

// wildcardTest: each star stands for any text, an empty one included.
func wildcardTest(values [][]byte) func([]byte) bool {
	list := make([][][]byte, len(values))
	for i, v := range values {
		list[i] = bytes.Split(v, []byte("*"))
	}
	return func(v []byte) bool {
		for _, parts := range list {
			if wildcard(parts, v) {
				return true
			}
		}
		return false
	}
}

// wildcard takes the earliest place for each part: what fits at all fits so, and time grows with the text alone.
func wildcard(parts [][]byte, v []byte) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return bytes.Equal(v, first)
	}
	if len(v) < len(first)+len(last) || !bytes.HasPrefix(v, first) || !bytes.HasSuffix(v, last) {
		return false
	}
	v = v[len(first) : len(v)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := bytes.Index(v, part)
		if i < 0 {
			return false
		}
		v = v[i+len(part):]
	}
	return true
}

// holds reports whether the condition holds for a request.
func (d *condition) holds(r *Request, s *scratch) bool {
	return d.found(r, s) != d.negate
}

func (d *condition) found(r *Request, s *scratch) bool {
	switch d.on {
	case "clientAddress":
		if d.countries != nil {
			return slices.Contains(d.countries, r.Country)
		}
		return contains(d.prefixes, r.Client.Addr())
	case "socketAddress":
		return contains(d.prefixes, r.Socket.Addr())
	case "clientPort":
		return d.number(int64(r.Client.Port()))
	case "serverPort":
		return d.number(int64(r.ServerPort))
	case "bodySize":
		return r.BodySize >= 0 && d.number(r.BodySize)
	case "time":
		return slices.ContainsFunc(d.weeks, func(w *ruletext.Week) bool { return w.Holds(r.Now) })
	case "header":
		return d.header(r, s)
	case "cookie":
		return d.cookie(r, s)
	case "queryParameter":
		return d.parameter(r.Query, s)
	case "postParameter":
		return isForm(r) && d.parameter(r.Body, s)
	}
	v, there := d.text(r, s)
	return there && d.test(v, s)
}

// text gives what the condition looks at, and whether it is there at all.
func (d *condition) text(r *Request, s *scratch) (v []byte, there bool) {
	switch d.on {
	case "method":
		return r.Method, len(r.Method) > 0
	case "scheme":
		return s.of(r.Scheme), true
	case "httpVersion":
		return s.of(r.Version), true
	case "tlsVersion":
		return s.of(r.TLS), r.TLS != ""
	case "country":
		return s.of(r.Country), r.Country != ""
	case "device":
		return s.of(device(r)), true
	case "host":
		return r.Host, len(r.Host) > 0
	case "path":
		return r.Path, true
	case "query":
		return r.Query, r.HasQuery
	case "body":
		return r.Body, len(r.Body) > 0
	case "url":
		s.value = appendURL(s.value[:0], r)
		return s.value, true
	}
	name := r.Path[bytes.LastIndexByte(r.Path, '/')+1:]
	if d.on == "fileName" {
		return name, len(name) > 0
	}
	dot := bytes.LastIndexByte(name, '.')
	return name[dot+1:], dot >= 0
}

// test transforms a value and compares it.
func (d *condition) test(v []byte, s *scratch) bool {
	if len(d.transforms) > 0 {
		s.changed = append(s.changed[:0], v...)
		for _, t := range d.transforms {
			s.changed = transform(s, t)
		}
		v = s.changed
	}
	return d.fits(v)
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap()
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// header tests each field of the name: one must fit.
func (d *condition) header(r *Request, s *scratch) bool {
	if r.Header == nil {
		return false
	}
	for n := 0; ; n++ {
		v, ok := r.Header.Field(d.name, n)
		if !ok {
			return false
		}
		if d.test(v, s) {
			return true
		}
	}
}

func (d *condition) cookie(r *Request, s *scratch) bool {
	if r.Header == nil {
		return false
	}
	for n := 0; ; n++ {
		line, ok := r.Header.Field("cookie", n)
		if !ok {
			return false
		}
		if d.pairs(line, ';', s) {
			return true
		}
	}
}

// parameter tests each parameter of the name, as it stands: transform urlDecode reads the escapes.
func (d *condition) parameter(query []byte, s *scratch) bool { return d.pairs(query, '&', s) }

func (d *condition) pairs(list []byte, between byte, s *scratch) bool {
	for len(list) > 0 {
		pair := list
		if i := bytes.IndexByte(list, between); i >= 0 {
			pair, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		if between == ';' {
			pair = bytes.Trim(pair, " \t")
		}
		name, v, _ := bytes.Cut(pair, []byte("="))
		if string(name) == d.name && d.test(v, s) {
			return true
		}
	}
	return false
}

// isForm reports whether the body holds parameters.
func isForm(r *Request) bool {
	if r.Header == nil {
		return false
	}
	v, _ := r.Header.Field("content-type", 0)
	kind, _, _ := bytes.Cut(v, []byte(";"))
	return bytes.EqualFold(bytes.Trim(kind, " \t"), []byte("application/x-www-form-urlencoded"))
}

// device guesses by what browsers of phones and tablets say of themselves.
func device(r *Request) string {
	if r.Header != nil {
		agent, _ := r.Header.Field("user-agent", 0)
		for _, word := range [...]string{"Mobi", "Android", "iPhone", "iPad", "iPod"} {
			if bytes.Contains(agent, []byte(word)) {
				return "mobile"
			}
		}
	}
	return "desktop"
}
