package edge

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A route whose rules look at bodies sees one that comes after its head, and no other route waits for one: from YAML to the
// origin.
//
// Covers: issue6 body rules
func TestBodyRulesOfRoutes(t *testing.T) {
	began := make(chan struct{}, 1)
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			began <- struct{}{} // before its body is here
		}
		all, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d", r.Header.Get("X-Kind"), len(all))
	})
	b, _ := served(t, service(fmt.Sprintf(`originGroups:
  - name: web
    health: {enabled: false}
    origins: [{name: one, address: "%s", scheme: http}]
routes:
  - {name: ruled, originGroup: web, paths: ["/ruled"], ruleSets: [kinds]}
  - {name: plain, originGroup: web, paths: ["/plain"]}
---
apiVersion: steerpoint/v1
kind: RuleSet
name: kinds
rules:
  - name: order
    conditions: [{on: body, operator: contains, values: ["<order>"]}]
    actions: [{requestHeader: {operation: set, name: X-Kind, value: order}}]
`, addr)))
	k := dial(t, b.addr)
	for text, want := range map[string]string{"<order>": "order 30007", "<other>": " 30007"} {
		k.send("POST /rul%65d HTTP/1.1", "Host: a.example", "Content-Length: 30007", "", "")
		k.send(strings.Repeat("x", 30_000))
		k.send(text)
		if _, body := k.get("POST"); body != want {
			t.Errorf("%s: the origin got %q, want %q", text, body, want)
		}
	}
	k.send("POST /plain HTTP/1.1", "Host: a.example", "Content-Length: 30000", "", "x")
	<-began
	k.send(strings.Repeat("x", 29_999))
	if _, body := k.get("POST"); body != " 30000" {
		t.Errorf("the origin got %q", body)
	}
}
