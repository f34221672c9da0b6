package spec

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"steerpoint/internal/ruletext"
	"steerpoint/spec/internal/names"
)

// The operators by what is looked at.
const (
	textOperators   = "equals any beginsWith endsWith contains regex lessThan lessOrEqual greaterThan greaterOrEqual"
	numberOperators = "equals any lessThan lessOrEqual greaterThan greaterOrEqual"
)

// subject says how a condition looks at one thing of a request.
type subject struct {
	operators string // divided by blanks
	named     bool   // it needs a name
	words     string // the only values there are, divided by blanks
	changes   bool   // transforms may be done to it
}

func subjectOf(on string) subject {
	switch on {
	case "header", "cookie", "queryParameter", "postParameter":
		return subject{operators: textOperators, named: true, changes: true}
	case "path":
		return subject{operators: textOperators + " wildcard", changes: true}
	case "host", "url", "fileName", "fileExtension", "query", "body":
		return subject{operators: textOperators, changes: true}
	case "method":
		return subject{operators: "equals", words: "GET HEAD POST PUT DELETE OPTIONS PATCH TRACE CONNECT"}
	case "scheme":
		return subject{operators: "equals", words: "http https"}
	case "httpVersion":
		return subject{operators: "equals", words: "1.0 1.1 2 3"}
	case "tlsVersion":
		return subject{operators: "equals any", words: "TLSv1.2 TLSv1.3"}
	case "device":
		return subject{operators: "equals", words: "mobile desktop"}
	case "country":
		return subject{operators: "equals any"}
	case "clientAddress":
		return subject{operators: "cidr geo"}
	case "socketAddress":
		return subject{operators: "cidr"}
	case "clientPort", "serverPort", "bodySize":
		return subject{operators: numberOperators}
	case "time":
		return subject{operators: "within"}
	}
	return subject{}
}

func (c *checker) ruleSet(s *RuleSet) {
	labels := make([]string, len(s.Rules))
	for i := range s.Rules {
		r, path := &s.Rules[i], at("rules[%d]", i)
		labels[i] = r.Name
		for j := range r.Conditions {
			c.condition(&r.Conditions[j], at("%s.conditions[%d]", path, j))
		}
		c.actions(r.Actions, path+".actions")
	}
	c.uniqueNames("rules", labels, "rule")
	for i := range s.Rules {
		for j := range s.Rules[i].Conditions {
			on := s.Rules[i].Conditions[j].On
			c.notYet(at("rules[%d]", i)+at(".conditions[%d].on", j), on == "body" || on == "postParameter")
		}
	}
}

func (c *checker) condition(d *Condition, path string) {
	sub := subjectOf(d.On)
	if sub.operators == "" || !c.sound(path+".on", path+".operator") {
		return
	}
	operators := strings.Fields(sub.operators)
	if !slices.Contains(operators, d.Operator) {
		c.fail(path+".operator", d.Operator, valueError{CodeContradiction, "cannot be asked of " + d.On, strings.Join(operators, ", "), ""})
		return
	}
	switch {
	case sub.named && d.Name == "":
		c.fail(path+".name", "", valueError{CodeMissing, "is missing", "the name of the " + d.On, ""})
	case !sub.named && d.Name != "":
		c.fail(path+".name", d.Name, valueError{CodeContradiction, "has no effect on " + d.On, "leave it out", ""})
	case (d.On == "header" || d.On == "cookie") && d.Name != "" && !patterns["token"].MatchString(d.Name):
		c.fail(path+".name", d.Name, valueError{CodeBadName, "is no name of a " + d.On, formatWords("token"), ""})
	}
	if len(d.Transforms) > 0 && !sub.changes {
		c.fail(path+".transforms", "", valueError{CodeContradiction, "cannot be done to " + d.On, "leave them out", ""})
	}
	switch {
	case d.Operator == "any" && len(d.Values) > 0:
		c.fail(path+".values", "", valueError{CodeContradiction, "have no effect: operator any holds for whatever is there", "leave them out", ""})
	case d.Operator != "any" && len(d.Values) == 0 && c.sound(path+".values"):
		c.fail(path+".values", "", valueError{CodeMissing, "is missing", "at least one value", ""})
	}
	for i, v := range d.Values {
		if e := conditionValue(d, sub, v); e != nil {
			c.fail(at("%s.values[%d]", path, i), v, *e)
		}
	}
	c.unique(path+".values", d.Values, "value")
}

// conditionValue says what is wrong with one value of a condition; nil: nothing.
func conditionValue(d *Condition, sub subject, v string) *valueError {
	if slices.Contains([]string{"equals", "beginsWith", "endsWith", "contains", "wildcard"}, d.Operator) {
		e := caseValue(d.Transforms, v)
		if e == nil && d.On == "path" {
			e = pathValue(d, v)
		}
		if e != nil {
			return e
		}
	}
	switch d.Operator {
	case "regex":
		if _, err := regexp.Compile(v); err != nil {
			return &valueError{CodeBadValue, "is no regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "), "RE2 syntax: no back references and no looking around", ""}
		}
		return nil
	case "wildcard":
		if !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "*") {
			return &valueError{CodeBadValue, "fits no path", "a path that starts with /, each * standing for any text", "/" + v}
		}
		return nil
	case "cidr":
		var p Prefix
		if err := p.UnmarshalText([]byte(v)); err != nil {
			return &valueError{CodeBadPrefix, "is not an address range", "an address range such as 192.0.2.0/24 or 2001:db8::/32", ""}
		}
		return nil
	case "geo":
		return countryValue(v)
	case "within":
		if _, err := ruletext.ParseWeek(v); err != nil {
			return &valueError{CodeBadWindow, strings.TrimPrefix(err.Error(), ruletext.ErrWeek.Error()+": "), "days, times and a time zone such as mon,tue 09:00-17:00 Asia/Shanghai", ""}
		}
		return nil
	case "lessThan", "lessOrEqual", "greaterThan", "greaterOrEqual":
		return numberValue(v)
	}
	return equalValue(d, sub, v)
}

func numberValue(v string) *valueError {
	if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < 0 || v[0] == '+' {
		return &valueError{CodeBadValue, "is not a whole number", "a number of bytes, or a port", ""}
	}
	return nil
}

func countryValue(v string) *valueError {
	var country Country
	if err := country.UnmarshalText([]byte(v)); err != nil || string(country) != v {
		return &valueError{CodeUnknownPlace, "is no country", "a two-letter code of ISO 3166-1 in upper case, such as CN, DE or US", string(country)}
	}
	return nil
}

// equalValue checks what a text is compared with.
func equalValue(d *Condition, sub subject, v string) *valueError {
	switch {
	case sub.words != "":
		if words := strings.Fields(sub.words); !slices.Contains(words, v) {
			return &valueError{CodeBadValue, "is no " + d.On, strings.Join(words, ", "), names.Nearest(v, words)}
		}
	case d.On == "country":
		return countryValue(v)
	case sub.operators == numberOperators:
		return numberValue(v)
	case d.On == "host" && d.Operator == "equals" && strings.ToLower(v) != v:
		return &valueError{CodeBadValue, "fits nothing: names are in lower case", "lower case", strings.ToLower(v)}
	case d.On == "path" && (d.Operator == "equals" || d.Operator == "beginsWith") && !strings.HasPrefix(v, "/"):
		return &valueError{CodeBadValue, "fits no path: paths start with /", "a path that starts with /", "/" + v}
	case d.On == "fileName" && strings.Contains(v, "/"):
		return &valueError{CodeBadValue, "fits no file name: they hold no /", "what follows the last / of a path", path.Base(v)}
	case d.On == "fileExtension" && strings.HasPrefix(v, "."):
		return &valueError{CodeBadValue, "fits no extension: they stand without the dot", "an extension such as jpg", strings.TrimPrefix(v, ".")}
	case len(v) > maxHeaderValue:
		return &valueError{CodeOutOfRange, fmt.Sprintf("has %d bytes", len(v)), fmt.Sprintf("at most %d", maxHeaderValue), ""}
	}
	return nil
}

// actions checks what a rule does.
func (c *checker) actions(list []RuleAction, path string) {
	overrides := 0
	for i := range list {
		a, here := &list[i], at("%s[%d]", path, i)
		set, last := c.action(a, here)
		if len(set) != 1 && c.sound(here) {
			problem := "is none of them"
			if len(set) > 1 {
				problem = "has " + strings.Join(set, " and ")
			}
			c.fail(here, "", valueError{CodeOneOf, problem, "exactly one of requestHeader, responseHeader, redirect, rewrite, route, respond", ""})
		}
		if a.Route != nil {
			if overrides++; overrides == 2 {
				c.fail(here, "", valueError{CodeRepeated, "overrides the route a second time", "one route action in a rule", ""})
			}
		}
		if last && i < len(list)-1 {
			c.fail(at("%s[%d]", path, i+1), "", valueError{CodeContradiction, "is never done: the action before it answers the request", "a redirect or respond as the last action", ""})
		}
	}
}

// action checks one action: which of its fields are set, and whether nothing is run after it.
func (c *checker) action(a *RuleAction, path string) (set []string, last bool) {
	if a.RequestHeader != nil {
		set = append(set, "requestHeader")
		c.headerAction(a.RequestHeader, path+".requestHeader")
		if strings.EqualFold(a.RequestHeader.Name, "host") {
			c.fail(path+".requestHeader.name", a.RequestHeader.Name, valueError{CodeBadName, "is a header the gateway writes itself", "hostHeader of the origin", ""})
		}
	}
	if a.ResponseHeader != nil {
		set = append(set, "responseHeader")
		c.headerAction(a.ResponseHeader, path+".responseHeader")
	}
	if a.Redirect != nil {
		set, last = append(set, "redirect"), true
		c.redirect(a.Redirect, path+".redirect")
	}
	if a.Rewrite != nil {
		set = append(set, "rewrite")
		c.rewrite(a.Rewrite, path+".rewrite")
	}
	if a.Route != nil {
		set = append(set, "route")
	}
	if r := a.Respond; r != nil {
		set, last = append(set, "respond"), true
		if r.Body != "" && (r.Status == 204 || r.Status == 205 || r.Status == 304) {
			c.fail(path+".respond.body", "", valueError{CodeContradiction, fmt.Sprintf("cannot be: an answer with status %d has none", r.Status), "another status, or no body", ""})
		}
		c.headerValue(path+".respond.contentType", r.ContentType)
	}
	return set, last
}

func (c *checker) headerAction(h *HeaderAction, path string) {
	if h.Name != "" && c.sound(path+".name") {
		c.headerName(path+".name", h.Name)
	}
	switch {
	case h.Operation == "delete" && h.Value != "":
		c.fail(path+".value", h.Value, valueError{CodeContradiction, "has no effect: the header is deleted", "leave it out", ""})
	case h.Operation != "delete" && h.Value == "":
		c.fail(path+".value", "", valueError{CodeMissing, "is missing", "what the header is to hold", ""})
	}
	c.headerValue(path+".value", h.Value)
	c.template(path+".value", h.Value)
}

func (c *checker) template(path, text string) {
	if _, err := ruletext.Parse(text); err != nil {
		c.fail(path, text, valueError{CodeBadVariable, strings.TrimPrefix(err.Error(), ruletext.ErrTemplate.Error()+": "), "variables such as {client_ip} or {url_path:0:5}", ""})
	}
}

func (c *checker) redirect(r *RedirectAction, path string) {
	if !slices.Contains([]int{301, 302, 303, 307, 308}, r.Status) {
		c.fail(path+".status", fmt.Sprint(r.Status), valueError{CodeBadValue, "is no redirect", "301, 302, 303, 307, 308", ""})
	}
	if r.Scheme == "match" && r.Host == "" && r.Path == "" && r.Query == "" && !r.DropQuery {
		c.fail(path, "", valueError{CodeContradiction, "leads to the same URL again", "at least one of scheme, host, path, query, dropQuery", ""})
	}
	if r.Query != "" && r.DropQuery {
		c.fail(path+".dropQuery", "true", valueError{CodeContradiction, "contradicts query", "one of them", ""})
	}
	c.pathStart(path+".path", r.Path)
	for _, f := range []struct{ name, text string }{{"host", r.Host}, {"path", r.Path}, {"query", r.Query}, {"fragment", r.Fragment}} {
		c.template(path+"."+f.name, f.text)
		c.headerValue(path+"."+f.name, f.text) // all of it goes into the Location header
	}
	if host := strings.SplitN(r.Host, "{", 2)[0]; strings.ContainsAny(host, "/@?# ") {
		c.fail(path+".host", r.Host, valueError{CodeBadName, "is no host", "a name or an address, with a port if need be", ""})
	} else if a, err := netip.ParseAddr(r.Host); err == nil && a.Is6() {
		c.fail(path+".host", r.Host, valueError{CodeBadName, "is an IPv6 address without brackets", "[2001:db8::1]", "[" + r.Host + "]"})
	}
}

// pathStart refuses a new path that cannot be one.
func (c *checker) pathStart(path, text string) {
	if text != "" && text[0] != '/' && text[0] != '{' {
		c.fail(path, text, valueError{CodeBadValue, "is no path", "a path that starts with /, or with a server variable", "/" + text})
	}
}

func (c *checker) rewrite(r *RewriteAction, path string) {
	if !strings.HasPrefix(r.Source, "/") || strings.Contains(r.Source, "*") {
		c.fail(path+".source", r.Source, valueError{CodeBadValue, "is no start of a path", "a text that starts with / and has no star, such as /old/", ""})
	}
	if e := comparedPath(r.Source, true); e != nil {
		c.fail(path+".source", r.Source, *e)
	}
	if _, err := ruletext.CleanPath(nil, []byte(r.Destination)); err != nil && strings.HasPrefix(r.Destination, "/") && !strings.Contains(r.Destination, "{") {
		c.fail(path+".destination", r.Destination, valueError{CodeBadValue, "has a broken escape, or %00", "two hexadecimal digits behind each %; %25 is the sign itself", ""})
	}
	if strings.ContainsAny(r.Destination, "?# ") {
		c.fail(path+".destination", r.Destination, valueError{CodeBadValue, "is no path", "a path without ?, # and blanks", ""})
	}
	c.pathStart(path+".destination", r.Destination)
	c.template(path+".destination", r.Destination)
	c.headerValue(path+".destination", r.Destination)
}
