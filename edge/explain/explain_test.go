package explain

import (
	"errors"
	"testing"
	"time"

	"steerpoint/snapshot"
	"steerpoint/spec"
)

// What a gateway answers with 501 is explained as that, and a name is looked for as a browser asks for it.
//
// Covers: E1, issue6 explain
func TestExplainsAsGatewaysAnswer(t *testing.T) {
	docs, errs := spec.Parse("", []byte(`apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [bücher.example]
edges: [{name: a, target: a.example.net}]
rules: [{name: default, scope: "*", mode: fixed, edges: [a]}]
originGroups:
  - {name: two, health: {enabled: false}, origins: [{name: a, address: "192.0.2.1:443", protocol: http2}]}
  - {name: one, health: {enabled: false}, origins: [{name: b, address: "192.0.2.2:443"}]}
routes:
  - {name: all, originGroup: two}
  - {name: llm, originGroup: two, paths: [/llm], protocol: llm}
  - {name: calls, originGroup: two, paths: ["/calls/*"], protocol: grpc, ruleSets: [elsewhere]}
---
apiVersion: steerpoint/v1
kind: RuleSet
name: elsewhere
rules: [{name: a, conditions: [{on: path, values: [/calls/old]}], actions: [{route: {originGroup: one}}]}]
`))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	e := snapshot.CompileEdge(1, time.Time{}, spec.NewSet(docs))
	for _, tt := range []struct {
		url            string
		status         int
		reason, origin string
	}{
		{"https://bücher.example/x", 0, "", "a"},
		{"https://BÜCHER.example./x", 0, "", "a"},
		{"https://xn--bcher-kva.example/x", 0, "", "a"},
		{"https://xn--bcher-kva.example/llm", 501, "protocol", ""},
		{"https://xn--bcher-kva.example/calls/new", 0, "", "a"},
		{"https://xn--bcher-kva.example/calls/old", 501, "origin_http1", ""},
	} {
		got, err := Explain(e, &Question{URL: tt.url})
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if got.Status != tt.status || got.Reason != tt.reason || got.Origin != tt.origin {
			t.Errorf("%s: %d %s, origin %s; want %d %s, %s", tt.url, got.Status, got.Reason, got.Origin, tt.status, tt.reason, tt.origin)
		}
	}
	for _, q := range []Question{
		{URL: "https://⒈bücher.example/"},
		{URL: "ftp://a.example/"},
		{URL: "https://u@a.example/"},
		{URL: "https://a.example:99999/"},
		{URL: "https://a.example:0/"},
		{URL: "https://a.example/%00"},
		{URL: "https://a.example/", Method: "GE\x1bT"},
		{URL: "https://a.example/", Method: "GE T"},
		{URL: "https://a.example/", Headers: []string{"X"}},
		{URL: "https://a.example/", Headers: []string{"X Y: 1"}},
		{URL: "https://a.example/", Headers: []string{"X: a\r\nY: b"}},
	} {
		if err := q.Check(); !errors.Is(err, ErrQuestion) {
			t.Errorf("%+v can be asked: %v", q, err)
		}
	}
	good := Question{URL: "https://a.example:8443/a%20b?c=%zz", Method: "M-SEARCH", Headers: []string{"X-Y:\tz ", "Empty:"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}
