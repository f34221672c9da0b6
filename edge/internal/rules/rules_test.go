package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/edge/internal/headtest"
	"steerpoint/snapshot"
)

// head is a head as a test writes it.
type head = headtest.Lines

// request is the request of the tests: everything has a value.
func request() *Request {
	return &Request{
		Method: []byte("GET"), Scheme: "https", Version: "1.1", Host: []byte("www.contoso.com"), Port: 8443, Path: []byte("/files/Secure/file1.tar.PDF"),
		Query: []byte("a=1&b=%7e&a=2&flag"), HasQuery: true,
		Header: head{
			"X-Test: one", "x-test: two", "Cookie: s=abc; t=", "Cookie: u=x=y", "User-Agent: Mozilla/5.0 (Linux; Android 14) Mobile",
			"Content-Type: application/x-www-form-urlencoded; charset=utf-8",
		},
		Socket: netip.MustParseAddrPort("192.0.2.1:5000"), Client: netip.MustParseAddrPort("[2001:db8::7]:6000"), ServerPort: 443, TLS: "TLSv1.3",
		Country: "DE", BodySize: 1000, Body: []byte("p=v&q=%20z"), Now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC),
	}
}

func cond(on, name, operator string, values ...string) snapshot.EdgeCondition {
	return snapshot.EdgeCondition{On: on, Name: name, Operator: operator, Values: values}
}

func holds(t testing.TB, c snapshot.EdgeCondition, r *Request) bool {
	t.Helper()
	d, err := newCondition(&c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	var s scratch
	got := d.holds(r, &s)
	d.negate = !d.negate
	if d.holds(r, &s) == got {
		t.Errorf("%+v: negated it is the same", c)
	}
	return got
}

// Every condition with every operator: what it sees and how it compares.
//
// Covers: C7, C1-C10
func TestConditions(t *testing.T) {
	changed := func(c snapshot.EdgeCondition, transforms ...string) snapshot.EdgeCondition {
		c.Transforms = transforms
		return c
	}
	for _, tt := range []struct {
		c    snapshot.EdgeCondition
		want bool
	}{
		{cond("method", "", "equals", "GET", "HEAD"), true},
		{cond("method", "", "equals", "POST"), false},
		{cond("scheme", "", "equals", "https"), true},
		{cond("httpVersion", "", "equals", "2"), false},
		{cond("tlsVersion", "", "equals", "TLSv1.3"), true},
		{cond("tlsVersion", "", "any"), true},
		{cond("host", "", "endsWith", "contoso.com"), true},
		{cond("serverPort", "", "equals", "443"), true},
		{cond("clientPort", "", "greaterThan", "5999"), true},
		{cond("clientPort", "", "greaterThan", "6000"), false},
		{cond("clientPort", "", "lessThan", "1", "7000"), true},
		{cond("clientPort", "", "any"), true},
		{cond("url", "", "equals", "https://www.contoso.com:8443/files/Secure/file1.tar.PDF?a=1&b=%7e&a=2&flag"), true},
		{cond("url", "", "beginsWith", "https://www.contoso.com"), true},
		{cond("path", "", "beginsWith", "/files/secure/"), false},
		{changed(cond("path", "", "beginsWith", "/files/secure/"), "lowercase"), true},
		{changed(cond("path", "", "equals", "/FILES/SECURE/FILE1.TAR.PDF"), "uppercase"), true},
		{cond("path", "", "contains", "Secure"), true},
		{cond("path", "", "regex", `^/files/.*\d\.tar`), true},
		{cond("path", "", "regex", `^/$`, `PDF$`), true},
		{cond("path", "", "wildcard", "/files/*/file*.PDF"), true},
		{cond("path", "", "wildcard", "/files/*.pdf"), false},
		{cond("path", "", "wildcard", "/files/Secure/file1.tar.PDF"), true},
		{cond("path", "", "wildcard", "/files/Secure/file1.tar.PDF*file1.tar.PDF"), false}, // the ends must not overlap
		{cond("path", "", "greaterOrEqual", "27"), true},                                   // its length
		{cond("path", "", "lessOrEqual", "26"), false},
		{cond("fileName", "", "equals", "file1.tar.PDF"), true},
		{cond("fileExtension", "", "equals", "PDF"), true},
		{cond("query", "", "contains", "b=%7e"), true},
		{changed(cond("query", "", "contains", "b=~"), "urlDecode"), true},
		{changed(cond("query", "", "contains", "b%3D%257e"), "urlEncode"), true},
		{cond("queryParameter", "a", "equals", "2"), true},
		{cond("queryParameter", "A", "any"), false},
		{cond("queryParameter", "flag", "any"), true},
		{cond("queryParameter", "flag", "equals", ""), true},
		{changed(cond("queryParameter", "b", "equals", "~"), "urlDecode"), true},
		{cond("header", "X-TEST", "equals", "two"), true},
		{cond("header", "x-other", "any"), false},
		{changed(cond("header", "x-test", "equals", "ONE"), "trim", "uppercase"), true},
		{cond("cookie", "s", "equals", "abc"), true},
		{cond("cookie", "u", "equals", "x=y"), true},
		{cond("cookie", "t", "any"), true},
		{cond("cookie", "S", "any"), false},
		{cond("clientAddress", "", "cidr", "2001:db8::/32"), true},
		{cond("clientAddress", "", "cidr", "192.0.2.1"), false},
		{cond("socketAddress", "", "cidr", "192.0.2.1"), true},
		{cond("clientAddress", "", "geo", "DE", "FR"), true},
		{cond("country", "", "equals", "FR"), false},
		{cond("country", "", "any"), true},
		{cond("device", "", "equals", "mobile"), true},
		{cond("bodySize", "", "greaterThan", "999"), true},
		{cond("bodySize", "", "equals", "1000"), true},
		{cond("body", "", "contains", "q=%20"), true},
		{cond("postParameter", "p", "equals", "v"), true},
		{changed(cond("postParameter", "q", "equals", "z"), "urlDecode", "trim"), true},
		{cond("time", "", "within", "mon 09:00-17:00"), true},
		{cond("time", "", "within", "tue 09:00-17:00"), false},
	} {
		if got := holds(t, tt.c, request()); got != tt.want {
			t.Errorf("%+v: %v", tt.c, got)
		}
	}
	// A request of which nothing is known has no value to compare, and nothing panics.
	for _, on := range []string{"header", "cookie", "queryParameter", "postParameter", "tlsVersion", "country", "query", "body", "host"} {
		if holds(t, cond(on, "x", "any"), &Request{Path: []byte("/")}) {
			t.Errorf("%s is there in an empty request", on)
		}
	}
	if holds(t, cond("bodySize", "", "lessThan", "5"), &Request{Path: []byte("/"), BodySize: -1}) {
		t.Error("a body of unknown size is small")
	}
	if holds(t, cond("fileExtension", "", "any"), &Request{Path: []byte("/a.b/c")}) || holds(t, cond("fileName", "", "any"), &Request{Path: []byte("/a/")}) {
		t.Error("a folder has a file name or an extension")
	}
}

// What a snapshot says and this version does not know fails as a whole: no request is served by half of its rules.
func TestCompileRefuses(t *testing.T) {
	set := func(c snapshot.EdgeCondition, a snapshot.EdgeAction) *snapshot.EdgeRuleSet {
		return &snapshot.EdgeRuleSet{Name: "s", Rules: []snapshot.EdgeRule{{Name: "r", Conditions: []snapshot.EdgeCondition{c}, Actions: []snapshot.EdgeAction{a}}}}
	}
	fine, ok := cond("method", "", "equals", "GET"), snapshot.EdgeAction{Route: &snapshot.EdgeOverride{}}
	if _, err := Compile(set(fine, ok)); err != nil {
		t.Fatal(err)
	}
	withTransform := fine
	withTransform.Transforms = []string{"rot13"}
	for _, c := range []snapshot.EdgeCondition{
		{},
		cond("moon", "", "equals", "full"), cond("path", "", "near", "x"), cond("path", "", "regex", "("), cond("path", "", "lessThan"), cond("path", "", "lessThan", "x"),
		cond("clientAddress", "", "equals", "x"), cond("clientAddress", "", "cidr", "x"), cond("socketAddress", "", "geo", "DE"), cond("time", "", "equals", "x"),
		cond("time", "", "within", "x"), cond("bodySize", "", "contains", "1"), withTransform,
	} {
		if _, err := Compile(set(c, ok)); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	for _, a := range []snapshot.EdgeAction{
		{},
		{RequestHeader: &snapshot.EdgeHeaderAction{Operation: "move", Name: "x"}},
		{ResponseHeader: &snapshot.EdgeHeaderAction{Operation: "set", Name: "x", Value: "{moon}"}},
		{Redirect: &snapshot.EdgeRedirect{Host: "{moon}"}},
		{Rewrite: &snapshot.EdgeRewrite{Destination: "{hostname"}},
	} {
		if _, err := Compile(set(fine, a)); err == nil {
			t.Errorf("%+v is accepted", a)
		}
	}
}

// ruleSet compiles rules that each have one condition, or none, and some actions.
func ruleSet(t testing.TB, name string, rules ...snapshot.EdgeRule) *Set {
	t.Helper()
	for i := range rules {
		if rules[i].Name == "" {
			rules[i].Name = fmt.Sprint("r", i+1)
		}
	}
	s, err := Compile(&snapshot.EdgeRuleSet{Name: name, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func setHeader(name, value string) snapshot.EdgeAction {
	return snapshot.EdgeAction{RequestHeader: &snapshot.EdgeHeaderAction{Operation: "set", Name: name, Value: value}}
}

// Every server variable has the value that Azure says, and so have slices of it.
//
// Covers: C7, gateway T48
func TestVariables(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{socket_ip}", "192.0.2.1"},
		{"{client_ip}", "2001:db8::7"},
		{"{client_port}", "6000"},
		{"{hostname}", "www.contoso.com"},
		{"{geo_country}", "DE"},
		{"{http_method}", "GET"},
		{"{http_version}", "HTTP/1.1"},
		{"{query_string}", "a=1&b=%7e&a=2&flag"},
		{"{request_scheme}", "https"},
		{"{request_uri}", "https://www.contoso.com:8443/files/Secure/file1.tar.PDF?a=1&b=%7e&a=2&flag"},
		{"{ssl_protocol}", "TLSv1.3"},
		{"{server_port}", "443"},
		{"{url_path}", "files/Secure/file1.tar.PDF"},
		{"a{hostname:-3}b{hostname:0:3}c{hostname:99}d", "acombwwwcd"},
	} {
		s := ruleSet(t, "s", snapshot.EdgeRule{Actions: []snapshot.EdgeAction{setHeader("x", tt.text)}})
		var o Outcome
		Run([]*Set{s}, request(), &o)
		if len(o.Request) != 1 || string(o.Request[0].Value) != tt.want {
			t.Errorf("%s: %+v, want %s", tt.text, o.Request, tt.want)
		}
	}
	r := request()
	r.Version, r.Query = "2", []byte("a\r\nb\x00c")
	s := ruleSet(t, "s", snapshot.EdgeRule{Actions: []snapshot.EdgeAction{setHeader("x", "{http_version} {query_string}")}})
	var o Outcome
	Run([]*Set{s}, r, &o)
	if got := string(o.Request[0].Value); got != "HTTP/2.0 abc" {
		t.Errorf("%q", got)
	}
}

// Covers: C7, C1-C10
func TestRedirects(t *testing.T) {
	for _, tt := range []struct {
		to   snapshot.EdgeRedirect
		want string
	}{
		{snapshot.EdgeRedirect{Scheme: "http"}, "http://www.contoso.com/files/Secure/file1.tar.PDF?a=1&b=%7e&a=2&flag"},
		{snapshot.EdgeRedirect{Scheme: "match", DropQuery: true}, "https://www.contoso.com:8443/files/Secure/file1.tar.PDF"},
		{snapshot.EdgeRedirect{Scheme: "https", Host: "new.{hostname:4}", Path: "/x/{url_path:6:6}", Query: "from={client_ip}", Fragment: "top"}, "https://new.contoso.com/x/Secure?from=2001:db8::7#top"},
		{snapshot.EdgeRedirect{Scheme: "match", Host: "h", Path: "{query_string}"}, "https://h/a=1&b=%7e&a=2&flag?a=1&b=%7e&a=2&flag"},
	} {
		tt.to.Status = 308
		s := ruleSet(t, "s", snapshot.EdgeRule{Actions: []snapshot.EdgeAction{{Redirect: &tt.to}}}, snapshot.EdgeRule{Actions: []snapshot.EdgeAction{setHeader("x", "y")}})
		var o Outcome
		Run([]*Set{s}, request(), &o)
		if o.Status != 308 || string(o.Location) != tt.want || len(o.Request) != 0 {
			t.Errorf("%+v: %d %s, want %s", tt.to, o.Status, o.Location, tt.want)
		}
	}
}

// Rewrites work on what rewrites before them made, and what they make is a path again, whatever variables bring.
//
// Covers: C7, C1-C10
func TestRewrites(t *testing.T) {
	to := func(source, destination string, preserve bool) snapshot.EdgeAction {
		return snapshot.EdgeAction{Rewrite: &snapshot.EdgeRewrite{Source: source, Destination: destination, Preserve: preserve}}
	}
	for _, tt := range []struct {
		actions []snapshot.EdgeAction
		want    string
	}{
		{[]snapshot.EdgeAction{to("/files/", "/f/", true)}, "/f/Secure/file1.tar.PDF"},
		{[]snapshot.EdgeAction{to("/files/", "/f/", false)}, "/f/"},
		{[]snapshot.EdgeAction{to("/", "/app/", true)}, "/app/files/Secure/file1.tar.PDF"},
		{[]snapshot.EdgeAction{to("/other/", "/f/", true)}, ""},
		{[]snapshot.EdgeAction{to("/files/", "/a/", true), to("/a/", "/b/", true), to("/b/Secure", "/c", true)}, "/c/file1.tar.PDF"},
		{[]snapshot.EdgeAction{to("/files/", "/x/../y/", true)}, "/y/Secure/file1.tar.PDF"},
		{[]snapshot.EdgeAction{to("/", "{request_uri:-8}", false)}, "/a=2&flag"},
		{[]snapshot.EdgeAction{to("/", "/{request_uri}", false)}, "/https://www.contoso.com:8443/files/Secure/file1.tar.PDF%3Fa=1&b=~&a=2&flag"},
		{[]snapshot.EdgeAction{to("/files/", "/f/", false), to("/", "/%2e%2e/x/{query_string:4:4}", false)}, "/f/"},
		{[]snapshot.EdgeAction{to("/", "/{query_string:4:4}", false)}, ""}, // b=%7 is no path: it stays as it was
	} {
		s := ruleSet(t, "s", snapshot.EdgeRule{Actions: tt.actions})
		var o Outcome
		for range 2 { // a used outcome gives the same
			Run([]*Set{s}, request(), &o)
			if string(o.Path) != tt.want {
				t.Errorf("%+v: %s, want %s", tt.actions[0].Rewrite, o.Path, tt.want)
			}
		}
	}
}

// Rules run in order; stop leaves out the rest of the set and the sets after it; an override without cache turns it off.
//
// Covers: C7, gateway T42, gateway T49
func TestOrderAndStop(t *testing.T) {
	isGet, isPost := []snapshot.EdgeCondition{cond("method", "", "equals", "GET")}, []snapshot.EdgeCondition{cond("method", "", "equals", "POST")}
	override := snapshot.EdgeAction{Route: &snapshot.EdgeOverride{Group: "canary"}}
	first := ruleSet(t, "first",
		snapshot.EdgeRule{Conditions: isPost, Actions: []snapshot.EdgeAction{setHeader("a", "post")}, Stop: true},
		snapshot.EdgeRule{Conditions: isGet, Actions: []snapshot.EdgeAction{setHeader("a", "get"), override}},
		snapshot.EdgeRule{Conditions: append(slices.Clone(isGet), cond("host", "", "equals", "nobody")), Actions: []snapshot.EdgeAction{setHeader("a", "never")}},
	)
	second := ruleSet(t, "second",
		snapshot.EdgeRule{Actions: []snapshot.EdgeAction{setHeader("b", "1")}, Stop: true},
		snapshot.EdgeRule{Actions: []snapshot.EdgeAction{setHeader("b", "2")}},
	)
	third := ruleSet(t, "third", snapshot.EdgeRule{Actions: []snapshot.EdgeAction{setHeader("c", "1")}})
	var o Outcome
	trace := Explain([]*Set{first, second, third}, request(), &o)
	var got []string
	for _, c := range o.Request {
		got = append(got, c.Name+"="+string(c.Value))
	}
	if want := []string{"a=get", "b=1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !o.Override || o.Group != "canary" || o.Cache {
		t.Errorf("T42: %+v", o)
	}
	if want := []Fired{{"first", "r2"}, {"second", "r1"}}; !slices.Equal(o.Fired, want) {
		t.Errorf("%v", o.Fired)
	}
	want := []Trace{{"first", "r1", false, 1}, {"first", "r2", true, 0}, {"first", "r3", false, 2}, {"second", "r1", true, 0}}
	if !slices.Equal(trace, want) {
		t.Errorf("%v", trace)
	}
	if first.Body() || !ruleSet(t, "s", snapshot.EdgeRule{Conditions: []snapshot.EdgeCondition{cond("body", "", "any")}}).Body() {
		t.Error("who needs the body")
	}
}

// Covers: C7
func TestRespond(t *testing.T) {
	s := ruleSet(t, "s",
		snapshot.EdgeRule{Actions: []snapshot.EdgeAction{
			{ResponseHeader: &snapshot.EdgeHeaderAction{Operation: "append", Name: "X", Value: "1"}},
			{ResponseHeader: &snapshot.EdgeHeaderAction{Operation: "delete", Name: "Server"}},
			{Respond: &snapshot.EdgeRespond{Status: 503, ContentType: "text/plain", Body: "closed"}},
		}},
		snapshot.EdgeRule{Actions: []snapshot.EdgeAction{{Respond: &snapshot.EdgeRespond{Status: 200}}}},
	)
	var o Outcome
	Run([]*Set{s}, request(), &o)
	if o.Status != 503 || o.Respond.Body != "closed" || len(o.Response) != 2 || o.Response[1].Operation != Delete || o.Response[0].Operation != Append {
		t.Errorf("%+v", o)
	}
	o.Reset()
	if o.Status != 0 || o.Respond != nil || len(o.Response) != 0 || o.Path != nil {
		t.Errorf("%+v", o)
	}
}

// A run allocates nothing once its outcome has grown.
//
// Covers: C1-C10
func TestRunAllocatesNothing(t *testing.T) {
	s := []*Set{ruleSet(t, "s", snapshot.EdgeRule{
		Conditions: []snapshot.EdgeCondition{
			{On: "path", Operator: "beginsWith", Values: []string{"/files/"}, Transforms: []string{"lowercase", "urlEncode", "urlDecode"}},
			cond("url", "", "contains", "contoso"), cond("clientAddress", "", "cidr", "2001:db8::/32"), cond("queryParameter", "a", "equals", "2"),
			cond("device", "", "equals", "desktop"), cond("path", "", "regex", "files"), cond("time", "", "within", "00:00-24:00"),
		},
		Actions: []snapshot.EdgeAction{
			setHeader("x", "{request_uri:4}"), {Rewrite: &snapshot.EdgeRewrite{Source: "/files/", Destination: "/{hostname}/../f/", Preserve: true}},
		},
	})}
	r := request()
	r.Header = nil
	var o Outcome
	Run(s, r, &o)
	if len(o.Fired) != 1 {
		t.Fatalf("%+v", o)
	}
	if n := testing.AllocsPerRun(100, func() { Run(s, r, &o) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRun: whatever the rule and the request, nothing breaks: values hold no control characters, paths begin with a slash
// and hold no query, and a second run gives the same.
//
// Covers: C7, C1-C10
func FuzzRun(f *testing.F) {
	f.Add("path", "", "regex", "^/(a|b)", "lowercase", "{client_ip:-3}/{url_path}", "/a/b", "x=1", "v")
	f.Add("cookie", "s", "wildcard", "/*a*", "urlDecode", "/{query_string}", "/%61/..", "?a\r\n", "s=1; t")
	f.Add("queryParameter", "x", "lessThan", "5", "urlEncode", "{request_uri:5:-5}", "/", "x=%41&x", "")
	f.Fuzz(func(t *testing.T, on, name, operator, value, transform, text, path, query, cookie string) {
		if !strings.HasPrefix(path, "/") {
			return
		}
		c := snapshot.EdgeCondition{On: on, Name: name, Operator: operator, Values: []string{value}, Negate: len(value)%2 == 0}
		if transform != "" {
			c.Transforms = []string{transform}
		}
		s, err := Compile(&snapshot.EdgeRuleSet{Name: "s", Rules: []snapshot.EdgeRule{{
			Name: "r", Conditions: []snapshot.EdgeCondition{c}, Actions: []snapshot.EdgeAction{
				setHeader("x", text),
				{Rewrite: &snapshot.EdgeRewrite{Source: "/", Destination: text, Preserve: len(text)%2 == 0}},
				{Redirect: &snapshot.EdgeRedirect{Status: 302, Scheme: "https", Host: "h", Path: text, Query: text}},
			},
		}}})
		if err != nil {
			return
		}
		r := request()
		r.Path, r.Query, r.Header = []byte(path), []byte(query), head{"Cookie: " + cookie}
		var o, again Outcome
		Run([]*Set{s}, r, &o)
		Run([]*Set{s}, r, &again)
		Run([]*Set{s}, r, &again)
		if fmt.Sprint(o.Fired, o.Request, string(o.Path), string(o.Location)) != fmt.Sprint(again.Fired, again.Request, string(again.Path), string(again.Location)) {
			t.Fatalf("%+v and then %+v", o, again)
		}
		if len(o.Fired) == 0 {
			return
		}
		for _, v := range [][]byte{o.Request[0].Value} {
			if strings.ContainsFunc(string(v), func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Fatalf("%q goes into a header", v)
			}
		}
		if o.Path != nil && (o.Path[0] != '/' || strings.ContainsAny(string(o.Path), "?#\r\n") && !strings.ContainsAny(path, "?#\r\n")) {
			t.Fatalf("%q is no path", o.Path)
		}
		if !strings.HasPrefix(string(o.Location), "https://h/") {
			t.Fatalf("%q", o.Location)
		}
	})
}
