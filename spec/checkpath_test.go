package spec

import (
	"maps"
	"strings"
	"testing"
)

// What paths of requests are compared with is in their one form, or it would fit none and nobody would be told: a policy that
// refuses would let everybody pass.
//
// Covers: C2, C7, issue6 gateway yaml
func TestPathsFitRequests(t *testing.T) {
	for path, want := range map[string]string{ // what is meant; "": it is right; "-": nobody knows
		"/": "", "/*": "", "/a%2Fb": "", "/a%2Fb/*": "", "/.well-known/*": "", "/a.b/..c": "", "//a//*": "", "/a;b=c/@:+,$!'()": "",
		"/%7Euser/*": "/~user/*", "/a%2fb": "/a%2Fb", "/a/../b": "/b", "/a/./*": "/a/*", "/%2e%2e/x": "/x", `/a\b`: "/a%5Cb",
		"/a?x=1": "/a", "/a#b": "/a", "/a?x=1/*": "/a", "/100%/*": "-", "/a%0": "-", "/a%00b": "-",
	} {
		for _, field := range []string{
			"routes", "policies.access", "policies.rateLimit", "policies.responseHeaders", "policies.cache",
		} {
			quoted := "'" + strings.ReplaceAll(path, "'", "''") + "'"
			fields := map[string]string{"routes": "[{name: all, originGroup: web, paths: [" + quoted + "]}]"}
			if kind, policy := strings.CutPrefix(field, "policies."); policy {
				more := map[string]string{"access": "action: deny", "rateLimit": "requests: 1", "responseHeaders": "remove: [X]", "cache": "ttl: 1s"}
				fields = map[string]string{"policies": "{" + kind + ": [{" + more[kind] + ", paths: [" + quoted + "]}]}"}
			}
			_, errs := Parse("", []byte(gateway(fields)))
			wrong(t, field+" "+path, errs, want, field+"[0].paths[0]")
		}
	}
}

// wrong checks the one error at a path, and what it suggests.
func wrong(t *testing.T, what string, errs Errors, want, path string) {
	t.Helper()
	switch {
	case want == "" && len(errs) == 0:
	case want == "" || len(errs) != 1 || errs[0].Path != path:
		t.Errorf("%s: %v", what, errs)
	case want != "-" && errs[0].Suggest != want || want == "-" && errs[0].Suggest != "":
		t.Errorf("%s: suggests %q, want %q", what, errs[0].Suggest, want)
	}
}

// Conditions and rewrites likewise; what transforms change is compared as they leave it.
//
// Covers: C7, issue6 gateway yaml
func TestConditionsCanHold(t *testing.T) {
	set := func(rule string) Errors {
		_, errs := Parse("", []byte("apiVersion: steerpoint/v1\nkind: RuleSet\nname: r\nrules: [{name: a, "+rule+"}]\n"))
		return errs
	}
	for _, tt := range []struct{ on, operator, value, transforms, want string }{
		{"path", "equals", "/a%2Fb", "", ""},
		{"path", "equals", "/a%2fb", "", "/a%2Fb"},
		{"path", "equals", "/a%2fb", "lowercase", ""},
		{"path", "equals", "/a?b", "", "-"},
		{"path", "equals", "/a?b", "urlDecode", ""},
		{"path", "beginsWith", "/.", "", ""},
		{"path", "beginsWith", "/a/..", "", ""},
		{"path", "beginsWith", "/a/../", "", "/"},
		{"path", "beginsWith", "/%7E", "", "/~"},
		{"path", "beginsWith", "/a%", "", "-"},
		{"path", "contains", "?", "", "-"},
		{"path", "contains", "%2f", "", ""}, // it fits nothing, but may be a part of something longer
		{"path", "endsWith", "#x", "", "-"},
		{"path", "wildcard", "/a?c*", "", "-"},
		{"path", "regex", "^/a?$", "", ""},
		{"url", "contains", "?a=1", "", ""},
		{"path", "equals", "/Admin", "lowercase", "/admin"},
		{"path", "equals", "/admin", "uppercase", "/ADMIN"},
		{"path", "equals", "/admin", "uppercase, lowercase", ""},
		{"path", "equals", "/ADMIN", "uppercase, lowercase", "/admin"},
		{"path", "regex", "/Admin", "lowercase", ""},
		{"query", "contains", "Admin", "lowercase, trim", "admin"},
		{"query", "contains", "%2F", "lowercase, urlEncode", ""},
		{"query", "contains", "A", "lowercase, urlDecode", ""},
		{"query", "lessThan", "5", "lowercase", ""},
	} {
		rule := "conditions: [{on: " + tt.on + ", operator: " + tt.operator + ", values: ['" + tt.value + "'], transforms: [" + tt.transforms + "]}], actions: [{respond: {}}]"
		wrong(t, tt.on+" "+tt.operator+" "+tt.value+" "+tt.transforms, set(rule), tt.want, "rules[0].conditions[0].values[0]")
	}
	for source, want := range map[string]string{"/old/": "", "/.": "", "/a%2fb": "/a%2Fb", "/a?": "/a", "/a/../b": "/b"} {
		wrong(t, source, set("actions: [{rewrite: {source: '"+source+"', destination: /new/}}]"), want, "rules[0].actions[0].rewrite.source")
	}
	for destination, want := range map[string]string{"/new/../x": "", "/%7e": "", "/100%/": "-", "/{url_path:0:1}%": "", "/%00": "-"} {
		wrong(t, destination, set("actions: [{rewrite: {destination: '"+destination+"'}}]"), want, "rules[0].actions[0].rewrite.destination")
	}
}

// What an origin is asked for is a path; that of a probe may have a query. A route with no path, or no protocol, would be for no
// request.
//
// Covers: C2, issue6 gateway yaml
func TestRoutesAreForSomething(t *testing.T) {
	for _, tt := range []struct{ fields, want, path string }{
		{"originPath: /x/", "", ""},
		{"originPath: '/x?y'", "/x", "routes[0].originPath"},
		{"originPath: '/x#y'", "/x", "routes[0].originPath"},
		{"paths: []", "-", "routes[0].paths"},
		{"protocols: []", "-", "routes[0].protocols"},
		{"domains: []", "", ""},
	} {
		_, errs := Parse("", []byte(gateway(map[string]string{"routes": "[{name: all, originGroup: web, " + tt.fields + "}]"})))
		wrong(t, tt.fields, errs, tt.want, tt.path)
	}
	for path, want := range map[string]string{"/healthz": "", "/healthz?full=1": "", "/healthz#x": "/healthz", "/healthz?a#x": "/healthz?a"} {
		_, errs := Parse("", []byte(originGroup("health: {path: '"+path+"'},", "")))
		wrong(t, path, errs, want, "originGroups[0].health.path")
	}
}

// A domain has the certificate that is written for it however its name is written there.
//
// Covers: issue6 gateway yaml, issue6 acme
func TestCertificatesOfDomainsInAnyForm(t *testing.T) {
	text := func(certificates string) string {
		return gateway(map[string]string{"domains": "[Bücher.example, www.example.com]", "certificates": certificates})
	}
	got := must(t, text("{BÜCHER.example: auto, WWW.example.com.: front}"))[0].Service.Certificates
	if want := map[string]string{"xn--bcher-kva.example": "auto", "www.example.com": "front"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if list := set(t, text("{Bücher.example: auto}")).AutoCertificates(DefaultACME()); len(list) != 1 || list[0].Names[0] != "xn--bcher-kva.example" {
		t.Errorf("ordered: %v", list)
	}
	_, errs := Parse("", []byte(text("{www.example.com: auto, WWW.example.com: front}")))
	if len(errs) != 1 || errs[0].Code != CodeDuplicate {
		t.Errorf("%v", errs)
	}
}
