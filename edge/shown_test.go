package edge

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// Every field of the access log and every metric of the gateway stands on the page for people.
//
// Covers: issue6 access log
func TestWhatIsShownIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/gateway-http.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	addr := origin(t, func(http.ResponseWriter, *http.Request) {})
	d, _ := one(refusing(t), addr)
	d["none"] = way{plan: func(_ *Asked, p *Plan) { p.Status, p.Reason = 403, "access_denied" }}
	c := collect(t)
	g := start(t, Config{Trusted: loopback, Tracing: &Tracing{Endpoint: c.url, Ratio: 1}}, d)
	k := dial(t, g.addr)
	for _, path := range []string{"/", "/none"} {
		k.send("POST "+path+" HTTP/1.1", "Host: a", "User-Agent: x", "Referer: y", "X-Forwarded-For: 192.0.2.1", "Content-Length: 1", "", "x")
		k.get("POST")
	}
	k = dial(t, g.addr)
	k.send("bad", "", "")
	k.get("GET")
	seen := map[string]bool{}
	for i := range 3 {
		for field := range g.log.wait(t, i+1) {
			seen[field] = true
			if !strings.Contains(page, "`"+field+"`") {
				t.Errorf("the field %s of the log is not on the page", field)
			}
		}
	}
	if len(seen) < 24 {
		t.Errorf("only %d fields were seen: %v", len(seen), seen)
	}
	families, err := g.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.Contains(page, "`"+f.GetName()+"`") {
			t.Errorf("the metric %s is not on the page", f.GetName())
		}
	}
	if len(families) < 15 {
		t.Errorf("only %d metrics were seen", len(families))
	}
}
