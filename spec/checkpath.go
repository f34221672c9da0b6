package spec

import (
	"slices"
	"strings"

	"steerpoint/internal/ruletext"
)

// The gateway compares the paths of requests in one form, without the query. What is written in another form would fit none of
// them, and nobody would be told: an access policy for /a%2fb would let everybody pass.

// paths checks the paths of a route or a policy: exact ones, and prefixes that end in /*.
func (c *checker) paths(field string, list []string) {
	for i, p := range list {
		prefix, wild := strings.CutSuffix(p, "*")
		if e := comparedPath(prefix, wild); e != nil {
			if wild && strings.HasSuffix(e.suggest, "/") {
				e.suggest += "*"
			}
			c.fail(at("%s[%d]", field, i), p, *e)
		}
	}
}

// askedPath refuses a path that an origin cannot be asked for. The query of a request is put behind it, unless it may have its own.
func (c *checker) askedPath(field, path string, query bool) {
	never, allowed := "?#", "a path without ? and #, such as /assets/"
	if query {
		never, allowed = "#", "a path without #, such as /healthz?full=1"
	}
	if i := strings.IndexAny(path, never); i >= 0 {
		c.fail(field, path, valueError{CodeBadValue, "is no path that can be asked for", allowed, path[:i]})
	}
}

// comparedPath says what is wrong with a path that those of requests are compared with; open: with the start of them. nil: nothing.
func comparedPath(path string, open bool) *valueError {
	if !strings.HasPrefix(path, "/") {
		return nil // that it is no path is told elsewhere
	}
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		return &valueError{CodeBadValue, "fits no request: paths are compared without the query", "a path without ? and #", path[:i]}
	}
	more := ""
	if open {
		more = "x" // what follows in a request: "/." is the start of "/.x" too
	}
	clean, err := ruletext.CleanPath(nil, []byte(path+more))
	switch {
	case err != nil:
		return &valueError{CodeBadValue, "fits no request: it has a broken escape, or %00", "two hexadecimal digits behind each %; %25 is the sign itself", ""}
	case string(clean) != path+more:
		return &valueError{
			CodeBadValue, "fits no request: paths are compared in another form",
			"without dot segments and without escapes of letters, digits and -._~, others in upper case", strings.TrimSuffix(string(clean), more),
		}
	}
	return nil
}

// pathValue checks what a condition compares paths with.
func pathValue(d *Condition, v string) *valueError {
	decoded := slices.Contains(d.Transforms, "urlDecode")
	switch {
	case !decoded && strings.ContainsAny(v, "?#"):
		return &valueError{CodeBadValue, "fits no path: what follows the ? is looked at by on: query", "a text without ? and #", ""}
	case len(d.Transforms) > 0:
		return nil
	case d.Operator == "equals" || d.Operator == "beginsWith":
		return comparedPath(v, d.Operator == "beginsWith")
	}
	return nil
}

// caseValue refuses a text that a value in one case is compared with and that holds letters of the other.
func caseValue(transforms []string, v string) *valueError {
	last, other := "", v
	for _, t := range transforms {
		switch t {
		case "lowercase":
			last, other = t, mapASCII(v, 'A', 'Z', 'a'-'A')
		case "uppercase":
			last, other = t, mapASCII(v, 'a', 'z', 'A'-'a')
		case "urlEncode", "urlDecode":
			last, other = "", v // an escape brings letters of either case
		}
	}
	if other == v {
		return nil
	}
	return &valueError{CodeBadValue, "fits nothing: " + last + " is done before it is compared", "a text in that case", other}
}

// mapASCII moves the letters from first to last by so much: the gateway changes no others.
func mapASCII(s string, first, last, by rune) string {
	return strings.Map(func(r rune) rune {
		if r >= first && r <= last {
			return r + by
		}
		return r
	}, s)
}
