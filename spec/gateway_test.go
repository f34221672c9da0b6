package spec

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// gateway is a service with an origin group of two and whatever is added.
func gateway(fields map[string]string) string {
	all := map[string]string{
		"originGroups": `[{name: web, origins: [{name: a, address: "192.0.2.1:443"}, {name: b, address: "192.0.2.2:443"}]}]`,
		"routes":       `[{name: all, originGroup: web}]`,
	}
	for k, v := range fields {
		all[k] = v
	}
	return service(all)
}

func originGroup(fields, origin string) string {
	return gateway(map[string]string{"originGroups": `[{name: web, ` + fields + ` origins: [{name: a, address: "192.0.2.1:443"` + origin + `}, {name: b, address: "192.0.2.2:443"}]}]`})
}

// Bounds of origin groups are Azure's, both ends included; what is not written has the default.
//
// Covers: C3, C4, C5, gateway T10, gateway T11, gateway T13, issue6 gateway yaml
func TestOriginBounds(t *testing.T) {
	for _, tt := range []struct{ fields, origin, code string }{
		{"", ", weight: 1", ""},
		{"", ", weight: 1000", ""},
		{"", ", weight: 0", CodeOutOfRange},
		{"", ", weight: 1001", CodeOutOfRange},
		{"", ", priority: 5", ""},
		{"", ", priority: 0", CodeOutOfRange},
		{"", ", priority: 6", CodeOutOfRange},
		{"latencySensitivity: 1s,", "", ""},
		{"latencySensitivity: 1001ms,", "", CodeOutOfRange},
		{"latencySensitivity: -1ms,", "", CodeOutOfRange},
		{"health: {enabled: false},", "", CodeContradiction},
		{"health: {enabled: false},", ", enabled: false", ""},
	} {
		_, errs := Parse("", []byte(originGroup(tt.fields, tt.origin)))
		if got := strings.Join(codes(errs), " "); got != tt.code {
			t.Errorf("%s %s: %s, want %s", tt.fields, tt.origin, got, tt.code)
		}
	}
	g := must(t, gateway(nil))[0].Service.OriginGroups[0]
	if o := g.Origins[0]; o.Weight != 50 || o.Priority != 1 || !o.Enabled || !o.TLS.Verify {
		t.Errorf("T10: %+v", o)
	}
	if h := g.Health; h.SampleSize != 4 || h.SuccessfulSamples != 3 || h.Method != "HEAD" || h.Path != "/" || g.LatencySensitivity != 0 || g.AllDown != "roundRobin" {
		t.Errorf("%+v", g)
	}
}

// Ports and names of an origin follow from its address where they are not written.
//
// Covers: issue6 gateway yaml
func TestOriginDefaults(t *testing.T) {
	for _, tt := range []struct {
		origin      string
		http, https int
		name        string
	}{
		{`{name: a, address: "192.0.2.1:8443"}`, 80, 8443, "192.0.2.1"},
		{`{name: a, address: "o.example.com:8080", scheme: http}`, 8080, 443, "o.example.com"},
		{`{name: a, address: "o.example.com:443", httpPort: 81, hostHeader: h.example.com}`, 81, 443, "h.example.com"},
		{`{name: a, address: "[2001:db8::1]:443", hostHeader: h.example.com, tls: {serverName: s.example.com}}`, 80, 443, "s.example.com"},
	} {
		r := must(t, gateway(map[string]string{"originGroups": "[{name: web, origins: [" + tt.origin + "]}]"}))[0]
		o := &r.Service.OriginGroups[0].Origins[0]
		if o.Port("http") != tt.http || o.Port("https") != tt.https || o.ServerName() != tt.name {
			t.Errorf("%s: %d, %d, %s", tt.origin, o.Port("http"), o.Port("https"), o.ServerName())
		}
	}
}

// A certificate of a private authority is read, and it must be one.
//
// Covers: issue6 gateway yaml
func TestOriginRoots(t *testing.T) {
	pem := strings.TrimSpace(testRoot)
	quoted := `"` + strings.ReplaceAll(pem, "\n", `\n`) + `"`
	if _, errs := Parse("", []byte(originGroup("", `, tls: {roots: `+quoted+`}`))); len(errs) > 0 {
		t.Error(errs)
	}
	if _, errs := Parse("", []byte(originGroup("", `, tls: {roots: `+strings.Replace(quoted, "MII", "MIX", 1)+`}`))); !slices.Equal(codes(errs), []string{CodeBadValue}) {
		t.Error(errs)
	}
}

// testRoot is a certificate of a made-up authority.
const testRoot = `
-----BEGIN CERTIFICATE-----
MIIBhDCCASugAwIBAgIUeaExtEwwRXORTMjeaVx4L+0CIbQwCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMRXhhbXBsZSBSb290MCAXDTI2MTEzMDIxMjU0NVoYDzIxMjYx
MTA2MjEyNTQ1WjAXMRUwEwYDVQQDDAxFeGFtcGxlIFJvb3QwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAASZlIvQmbQIRPNDMyNJnVkw13eUCnK9RQUSurg6hJBVxQd9
8fTzAQ3ruP0MvWkaSjHRTp3N40Xz2NsMN5YmkxtJo1MwUTAdBgNVHQ4EFgQUZUFi
ut4FDMDXmSfLz9bmkhMmPKwwHwYDVR0jBBgwFoAUZUFiut4FDMDXmSfLz9bmkhMm
PKwwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiAaAm2FBxnImbNF
XkRBxgicsB9VX2MZoJ4AZHvDy6AIYgIgGYFfXF4b30pXK1NNWY4dWPKf/gsc+mdD
xj+94wOISRY=
-----END CERTIFICATE-----
`

// What changes of the gateway is told in the operator's words.
//
// Covers: issue6 gateway yaml
func TestGatewayDiff(t *testing.T) {
	rules := `apiVersion: steerpoint/v1
kind: RuleSet
name: front
rules:
  - {name: a, conditions: [{on: path, values: [/a]}], actions: [{route: {originGroup: web}}]}
`
	base := gateway(nil) + "---\n" + rules
	for _, tt := range []struct{ old, new, want string }{
		{`{name: a, address: "192.0.2.1:443"}`, `{name: a, address: "192.0.2.1:443", weight: 70, drain: true}`, "service shop: origin group web: origin a: weight 50 -> 70\nservice shop: origin group web: origin a: drain false -> true"},
		{`originGroup: web}]`, `originGroup: web, timeouts: {idle: 10m}, maxBody: 1MiB}]`, "service shop: route all: maxBody 2GiB -> 1MiB\nservice shop: route all: timeouts.idle 30s -> 10m"},
		{`values: [/a]`, `values: [/b]`, "ruleset front: rule a: conditions [{on: path, values: [/a]}] -> [{on: path, values: [/b]}]"},
		{`{originGroup: web}}]`, `{originGroup: web}}], stop: true`, "ruleset front: rule a: stop false -> true"},
	} {
		if !strings.Contains(base, tt.old) {
			t.Fatalf("%s is not in\n%s", tt.old, base)
		}
		var lines []string
		for _, c := range Diff(set(t, base), set(t, strings.Replace(base, tt.old, tt.new, 1))) {
			lines = append(lines, c.String())
		}
		if got := strings.Join(lines, "\n"); got != tt.want {
			t.Errorf("got\n%s\nwant\n%s", got, tt.want)
		}
	}
}

// Covers: issue6 gateway yaml
func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int64
		back string
	}{
		{"0B", 0, "0B"},
		{"0", 0, "0B"},
		{"1", 1, "1B"},
		{"64KiB", 64 << 10, "64KiB"},
		{"65536", 64 << 10, "64KiB"},
		{"2048MiB", 2 << 30, "2GiB"},
		{"1025B", 1025, "1025B"},
	} {
		var s Size
		if err := s.UnmarshalText([]byte(tt.text)); err != nil || int64(s) != tt.n || s.String() != tt.back {
			t.Errorf("%s: %d, %s, %v", tt.text, s, s, err)
		}
	}
	for text, suggest := range map[string]string{"": "", "x": "", "-1B": "", "1.5MiB": "", "+1B": "", "64KB": "64KiB", "2g": "2GiB", "1TiB": "", "99999999999GiB": "", "1 KiB": ""} {
		var s Size
		err := s.UnmarshalText([]byte(text))
		bad, ok := err.(*valueError)
		if !ok || bad.suggest != suggest {
			t.Errorf("%q: %v, suggests %+v", text, err, bad)
		}
	}
}

// A certificate covers its names, and by a wildcard those one label below.
//
// Covers: issue6 gateway yaml
func TestCertificateCovers(t *testing.T) {
	c := Certificate{Names: []Domain{"example.com", "*.example.com"}}
	for d, want := range map[Domain]bool{"example.com": true, "www.example.com": true, "a.b.example.com": false, "*.example.com": true, "*.b.example.com": false, "example.org": false, "xexample.com": false} {
		if got := c.Covers(d); got != want {
			t.Errorf("%s: %v", d, got)
		}
	}
}

// Every operator that can be asked of something is read there, and the default of a condition works where it is allowed.
//
// Covers: C7, issue6 gateway yaml
func TestEverySubjectIsKnown(t *testing.T) {
	f := tables[reflect.TypeFor[Condition]()].find("on")
	if len(f.enum) != 23 {
		t.Errorf("%d things can be looked at", len(f.enum))
	}
	operators := tables[reflect.TypeFor[Condition]()].find("operator").enum
	used := map[string]bool{}
	for _, on := range f.enum {
		sub := subjectOf(on)
		if sub.operators == "" {
			t.Errorf("nothing is known of %s", on)
		}
		for _, o := range strings.Fields(sub.operators) {
			used[o] = true
			if !slices.Contains(operators, o) {
				t.Errorf("operator %s of %s is not one", o, on)
			}
		}
	}
	for _, o := range operators {
		if !used[o] {
			t.Errorf("operator %s is used by nothing", o)
		}
	}
}
