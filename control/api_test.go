package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
)

// raw does one request and gives status and body.
func (r *rig) raw(method, path, contentType, body string, header ...string) (int, http.Header, []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.Token())
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, res.Header, b
}

// TestBadRequestsAreProblems proves that whatever is sent, the answer is a problem document with a stable code and
// never a 5xx.
// Covers: issue2 bad input, issue2 codes
func TestBadRequestsAreProblems(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	deep := strings.Repeat("[", 100_000)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code                     string
	}{
		{"no JSON", "POST", "/api/v1/apply", "{", 400, ""},
		{"empty body", "POST", "/api/v1/apply", "", 400, ""},
		{"null", "POST", "/api/v1/apply", "null", 422, ""},
		{"a list", "POST", "/api/v1/apply", "[1,2]", 422, ""},
		{"wrong type", "POST", "/api/v1/apply", `{"sources":"x"}`, 422, ""},
		{"unknown field", "POST", "/api/v1/apply", `{"sauces":[]}`, 422, ""},
		{"source without content", "POST", "/api/v1/apply", `{"sources":[{"file":"a"}]}`, 422, ""},
		{"source with binary", "POST", "/api/v1/apply", `{"sources":[{"file":"a","content":"\u0000\u0001"}]}`, 422, api.CodeInvalid},
		{"source that is no mapping", "POST", "/api/v1/apply", `{"sources":[{"file":"a","content":"- 1"}]}`, 422, api.CodeInvalid},
		{"resource that is a number", "POST", "/api/v1/apply", `{"resources":[1]}`, 422, api.CodeInvalid},
		{"deep nesting", "POST", "/api/v1/apply", `{"resources":[` + deep, 400, ""},
		{"deep YAML", "POST", "/api/v1/apply", `{"sources":[{"file":"a","content":"` + deep + `"}]}`, 422, api.CodeInvalid},
		{"a kind that is none", "GET", "/api/v1/resources/potato", "", 404, api.CodeNotFound},
		{"a name that is none", "GET", "/api/v1/resources/service/nope", "", 404, api.CodeNotFound},
		{"a path out of the tree", "GET", "/api/v1/resources/service/..%2f..%2fetc", "", 404, api.CodeNotFound},
		{"a control character", "GET", "/api/v1/resources/service/%00", "", 404, api.CodeNotFound},
		{"another name in the body", "PUT", "/api/v1/resources/zone/other", zoneYAML, 422, api.CodeBadRequest},
		{"a body that is none", "PUT", "/api/v1/resources/zone/gslb", "{{{", 422, api.CodeInvalid},
		{"an ETag that is none", "DELETE", "/api/v1/resources/zone/gslb", "", 422, api.CodeBadRequest},
		{"a write without a revision", "PUT", "/api/v1/resources/zone/gslb", zoneYAML, 428, api.CodePreconditionNeeded},
		{"an unknown service", "GET", "/api/v1/status?service=nope", "", 404, api.CodeNotFound},
		{"an unknown parameter", "GET", "/api/v1/status?servise=shop", "", 422, ""},
		{"no host", "GET", "/api/v1/explain", "", 422, ""},
		{"an unknown host", "GET", "/api/v1/explain?host=nope.example", "", 404, api.CodeNotFound},
		{"a client that is no address", "GET", "/api/v1/explain?host=shop.example.com&client=300.1.1.1", "", 422, api.CodeBadRequest},
		{"a time that is none", "GET", "/api/v1/switches?since=yesterday", "", 422, api.CodeBadRequest},
		{"a cursor that is none", "GET", "/api/v1/switches?cursor=../../x", "", 422, ""},
		{"a limit of 0", "GET", "/api/v1/switches?limit=0", "", 422, ""},
		{"a limit that overflows", "GET", "/api/v1/switches?limit=99999999999999999999", "", 422, ""},
		{"force without a reason", "POST", "/api/v1/force", `{"rule":"shop/default","edge":"west"}`, 422, ""},
		{"force of no rule", "POST", "/api/v1/force", `{"rule":"shop/nope","edge":"west","reason":"x"}`, 404, api.CodeNotFound},
		{"force of no service", "POST", "/api/v1/force", `{"rule":"nope/default","edge":"west","reason":"x"}`, 404, api.CodeNotFound},
		{"force to no edge", "POST", "/api/v1/force", `{"rule":"shop/default","edge":"nope","reason":"x"}`, 404, api.CodeNotFound},
		{"force for a negative time", "POST", "/api/v1/force", `{"rule":"shop/default","edge":"west","reason":"x","for":"-1h"}`, 422, api.CodeBadRequest},
		{"force until the past", "POST", "/api/v1/force", `{"rule":"shop/default","edge":"west","reason":"x","until":"2001-01-01T00:00:00Z"}`, 422, api.CodeBadRequest},
		{"unforce of what is not forced", "POST", "/api/v1/unforce", `{"target":"shop/default"}`, 404, api.CodeNotFound},
		{"drain of a node that is none", "POST", "/api/v1/drain", `{"node":"n1","reason":"x"}`, 404, api.CodeNotFound},
		{"drain of two things", "POST", "/api/v1/drain", `{"edge":"shop/east","point":"local","reason":"x"}`, 422, api.CodeBadRequest},
		{"drain of no point", "POST", "/api/v1/drain", `{"point":"mars","reason":"x"}`, 404, api.CodeNotFound},
		{"probe without a prober", "POST", "/api/v1/probe", `{"url":"http://192.0.2.1/"}`, 503, api.CodeProberUnavailable},
		{"an event that is none", "GET", "/api/v1/watch?last=x", "", 422, api.CodeBadRequest},
		{"nothing there", "GET", "/api/v1/nope", "", 404, api.CodeNotFound},
		{"nothing there at all", "GET", "/../../etc/passwd", "", 404, api.CodeNotFound},
		{"a method that is not taken", "PATCH", "/api/v1/status", "", 405, api.CodeMethodNotAllowed},
		{"POST to the page", "POST", "/", "", 405, api.CodeMethodNotAllowed},
	} {
		status, h, b := r.raw(c.method, c.path, "application/json", c.body, "If-Match", map[bool]string{true: "x"}[strings.Contains(c.name, "ETag")])
		var p api.Problem
		err := json.Unmarshal(b, &p)
		if status != c.status || err != nil || p.Code == "" || (c.code != "" && p.Code != c.code) || p.Status != status || p.Title == "" {
			t.Errorf("%s: %d %.300s, want %d %s", c.name, status, b, c.status, c.code)
		}
		if h.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: content type %q", c.name, h.Get("Content-Type"))
		}
	}
}

// TestBodyLimits proves that bodies above the limit are refused before they are read whole.
func TestBodyLimits(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	for path, size := range map[string]int{"/api/v1/apply": maxApplyBytes + 1, "/api/v1/force": 2 << 20} {
		status, _, b := r.raw("POST", path, "application/json", `{"x":"`+strings.Repeat("x", size)+`"}`)
		if status != 413 || !bytes.Contains(b, []byte(api.CodeTooLarge)) {
			t.Errorf("%s: %d %.200s", path, status, b)
		}
	}
}

// TestAccess proves which endpoints need the token.
// Covers: issue2 tokens
func TestAccess(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	base := "http://" + r.Addr().String()
	for path, want := range map[string]int{
		"/healthz": 200, "/metrics": 200, "/": 200, "/api/v1/openapi.json": 200, "/api/v1/status": 401, "/api/v1/version": 401,
		"/api/v1/watch": 401, "/api/v1/resources/service": 401, "/nothing": 401,
	} {
		res, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("GET %s without a token: %d, want %d", path, res.StatusCode, want)
		}
	}
	if v, err := r.client.Version(t.Context()); err != nil || v.Version != "test" || v.Actor != "tester" {
		t.Errorf("version %+v, %v", v, err)
	}
	_, err := api.NewClient(base, "wrong").Status(t.Context(), api.StatusParams{})
	wantCode(t, "a wrong token", err, 401, api.CodeUnauthorized)
}

// TestReadiness proves that readyz says no until the first map is acknowledged.
func TestReadiness(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, func(_ *Config, d *Deps) { d.Publisher.(*takes).fail(fmt.Errorf("not yet")) })
	if status, _, b := r.raw("GET", "/readyz", "", ""); status != 503 || !bytes.Contains(b, []byte(api.CodeNotReady)) {
		t.Errorf("before the first map: %d %s", status, b)
	}
	r.await("the alarm", func() bool {
		s, err := r.client.Status(t.Context(), api.StatusParams{})
		return err == nil && len(s.Alarms) == 1 && s.Alarms[0].Code == api.AlarmPublish && s.Map.Error != ""
	})
	r.out.fail(nil)
	r.await("ready", func() bool { status, _, _ := r.raw("GET", "/readyz", "", ""); return status == 200 })
}

// TestOpenAPI proves that the description is 3.1, names every endpoint, and describes errors as they are.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	status, _, b := r.raw("GET", "/api/v1/openapi.json", "", "")
	var doc struct {
		OpenAPI    string                    `json:"openapi"`
		Paths      map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(b, &doc); status != 200 || err != nil || !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Fatalf("%d %v %q", status, err, doc.OpenAPI)
	}
	for _, p := range []string{
		"GET /resources/{kind}", "GET /resources/{kind}/{name}", "PUT /resources/{kind}/{name}", "DELETE /resources/{kind}/{name}",
		"POST /plan", "POST /apply", "GET /status", "GET /explain", "GET /switches", "GET /watch", "POST /force", "POST /unforce",
		"POST /freeze", "POST /unfreeze", "POST /drain", "POST /undrain", "POST /probe", "GET /version",
	} {
		method, path, _ := strings.Cut(p, " ")
		if doc.Paths[api.Prefix+path][strings.ToLower(method)] == nil {
			t.Errorf("%s is not described", p)
		}
	}
	if doc.Components.Schemas["Problem"].Properties["code"] == nil {
		t.Error("errors are not described with their code")
	}
}

// TestWatch proves that a watcher sees what happens, goes on where it was, and is told of a gap.
func TestWatch(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	r.all()
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	kinds := map[string]api.Event{}
	stop := fmt.Errorf("enough")
	last, err := r.client.Watch(t.Context(), "", 1, func(e api.Event) error {
		kinds[e.Kind] = e
		if e.Kind == api.EventAck && kinds[api.EventSwitch].Switch != "" && e.Switch == kinds[api.EventSwitch].Switch {
			return stop
		}
		return nil
	})
	if err != stop {
		t.Fatalf("watch: %v, saw %v", err, kinds)
	}
	for _, k := range []string{api.EventConfig, api.EventInitial, api.EventVerdict, api.EventSwitch, api.EventAck} {
		if kinds[k].Message == "" {
			t.Errorf("no event of kind %s, or without a message: %+v", k, kinds[k])
		}
	}
	if e := kinds[api.EventSwitch]; e.From != "east" || e.To != "west" || e.Service != "shop" || e.Rule != "default" {
		t.Errorf("switch %+v", e)
	}
	go func() {
		_, _ = r.client.Freeze(t.Context(), api.FreezeRequest{Target: "shop", Reason: "x"})
	}()
	if _, err := r.client.Watch(t.Context(), "shop", last, func(e api.Event) error {
		if e.ID <= last {
			return fmt.Errorf("event %d again", e.ID)
		}
		if e.Kind == api.EventOverride && strings.Contains(e.Message, "freeze shop") && e.Actor == "tester" {
			return stop
		}
		return nil
	}); err != stop {
		t.Errorf("resumed watch: %v", err)
	}
	if _, err := r.client.Watch(t.Context(), "", last+1_000_000, func(e api.Event) error {
		if e.Kind != api.EventGap {
			return fmt.Errorf("first event %+v", e)
		}
		return stop
	}); err != stop {
		t.Errorf("watch from another process's event: %v", err)
	}
}

// TestSlowWatcherIsDropped proves that a watcher that does not read is cut off and holds nothing up.
func TestSlowWatcherIsDropped(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, func(_ *Config, d *Deps) { d.watchWrite = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /api/v1/watch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", r.Token())
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 32<<10)
	r.await("the watcher is dropped", func() bool {
		for range 100 {
			r.feed.Add(api.Event{Kind: api.EventVerdict, Message: big})
		}
		_, _, b := r.raw("GET", "/metrics", "", "")
		return bytes.Contains(b, []byte("steer_control_watchers 0"))
	})
}

// TestStatusPage proves that the page shows what is so, escapes what operators write, and carries no token.
func TestStatusPage(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	if _, err := r.client.Freeze(t.Context(), api.FreezeRequest{Target: "shop", Reason: "<script>alert(1)</script>"}); err != nil {
		t.Fatal(err)
	}
	res, err := http.Get("http://" + r.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	page := string(b)
	if !strings.Contains(page, "shop.gslb.example.net") || !strings.Contains(page, "frozen") {
		t.Errorf("page: %s", page)
	}
	if strings.Contains(page, "<script") || strings.Contains(page, r.Token()) {
		t.Error("the page has a script or the token")
	}
	if csp := res.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("content security policy %q", csp)
	}
}

// TestSlowRequestsEnd proves that a client that sends its header a byte at a time is cut off.
func TestSlowRequestsEnd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the header time-out of 5 s")
	}
	r := start(t, t.TempDir(), nil)
	conn, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost:")
	if err := conn.SetReadDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("not cut off: %v", err)
	}
}
