package spec

import (
	"slices"
	"strings"
	"testing"
)

// must parses text that has no mistake.
func must(t *testing.T, text string) []Resource {
	t.Helper()
	docs, errs := Parse("test.yaml", []byte(text))
	if len(errs) > 0 {
		t.Fatalf("%v\nin\n%s", errs, text)
	}
	return docs
}

// service builds a service; fields replaces or adds top-level fields ("" takes one out).
func service(fields map[string]string) string {
	all := map[string]string{
		"apiVersion": "steerpoint/v1", "kind": "Service", "name": "shop", "domains": "[www.example.com]",
		"edges": "[{name: a, target: a.example.net}, {name: b, target: b.example.net}]",
		"rules": `[{name: default, scope: "*", mode: failover, edges: [a, b]}]`,
	}
	for k, v := range fields {
		all[k] = v
	}
	var lines []string
	for k, v := range all {
		if v != "" {
			lines = append(lines, k+": "+v)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// rule is a service with one rule that has these fields besides the needed ones.
func rule(fields string) string {
	return service(map[string]string{"rules": `[{name: default, scope: "*", mode: failover, edges: [a, b], ` + fields + `}]`})
}

const testZone = `apiVersion: steerpoint/v1
kind: Zone
name: main
zone: gslb.example.net
ns: [{name: ns1.example.org}]
`

func codes(errs Errors) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Code)
	}
	return out
}

func warningCodes(warns []Warning) []string {
	var out []string
	for _, w := range warns {
		out = append(out, w.Code)
	}
	return out
}
