package control

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"steerpoint/control/api"
)

// plain does one request without following anything.
func (r *rig) plain(method, target, body string, header ...string) *http.Response {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\n", method, target, r.Token())
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(conn, "%s: %s\r\n", header[i], header[i+1])
	}
	fmt.Fprintf(conn, "\r\n%s", body)
	req := &http.Request{Method: method}
	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, target, err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, target, err)
	}
	res.Body = io.NopCloser(strings.NewReader(string(b)))
	return res
}

// TestFrontIsProblemsToo proves that what never comes as far as an operation is refused with a problem document as well:
// paths, methods, types of answers and bodies, bodies that break off.
// Covers: issue4 problems
func TestFrontIsProblemsToo(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML)
	const status, plan = "/api/v1/status", "/api/v1/plan"
	for _, c := range []struct {
		name, method, target, body string
		header                     []string
		status                     int
		code                       string
	}{
		{"a path twice parted", "GET", "//api/v1/status", "", nil, 404, api.CodeNotFound},
		{"a path out of the tree", "GET", "/api/v1/../../etc/passwd", "", nil, 404, api.CodeNotFound},
		{"a path with a dot", "GET", "/api/./v1/status", "", nil, 404, api.CodeNotFound},
		{"a path that goes on", "GET", "/api/v1/status/", "", nil, 404, api.CodeNotFound},
		{"no path", "OPTIONS", "*", "", nil, 404, api.CodeNotFound},
		{"an unknown method", "POTATO", status, "", nil, 405, api.CodeMethodNotAllowed},
		{"OPTIONS", "OPTIONS", status, "", nil, 405, api.CodeMethodNotAllowed},
		{"TRACE", "TRACE", plan, "", nil, 405, api.CodeMethodNotAllowed},
		{"a write to the description", "PUT", "/api/v1/openapi.json", "", nil, 405, api.CodeMethodNotAllowed},
		{"a write to the health", "DELETE", "/healthz", "", nil, 405, api.CodeMethodNotAllowed},
		{"only HTML", "GET", status, "", []string{"Accept", "text/html"}, 406, api.CodeNotAcceptable},
		{"anything but JSON", "GET", status, "", []string{"Accept", "*/*, application/json;q=0"}, 406, api.CodeNotAcceptable},
		{"a stream of JSON", "GET", "/api/v1/watch", "", []string{"Accept", "application/json"}, 406, api.CodeNotAcceptable},
		{"a timeline of JSON", "GET", "/api/v1/tape/shop", "", []string{"Accept", "application/json"}, 406, api.CodeNotAcceptable},
		{"a form", "POST", plan, "a=b", []string{"Content-Type", "application/x-www-form-urlencoded", "Content-Length", "3"}, 415, api.CodeMediaType},
		{"YAML", "PUT", "/api/v1/resources/zone/gslb", "a: b", []string{"Content-Type", "application/yaml", "Content-Length", "4"}, 415, api.CodeMediaType},
		{"a type that is none", "POST", plan, "{}", []string{"Content-Type", ";;", "Content-Length", "2"}, 415, api.CodeMediaType},
		{"chunks that are none", "POST", plan, "potato\r\n", []string{"Content-Type", "application/json", "Transfer-Encoding", "chunked"}, 400, api.CodeBadRequest},
		{"a body above the limit", "POST", "/api/v1/freeze", strings.Repeat(" ", 1<<20), []string{"Content-Length", "1048576"}, 413, api.CodeTooLarge},
		{"half a JSON", "POST", plan, `{"a"`, []string{"Content-Length", "4"}, 400, api.CodeBadRequest},
	} {
		res := r.plain(c.method, c.target, c.body, c.header...)
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode != c.status || problemCode(b) != c.code || res.Header.Get("Content-Type") != problemType {
			t.Errorf("%s: %d %s %.300s, want %d %s", c.name, res.StatusCode, res.Header.Get("Content-Type"), b, c.status, c.code)
		}
		if allow := res.Header.Get("Allow"); (c.status == 405) != (allow != "") {
			t.Errorf("%s: Allow %q", c.name, allow)
		}
	}
	if res := r.plain("HEAD", status, ""); res.StatusCode != 200 || res.Header.Get("Content-Type") != jsonType {
		t.Errorf("HEAD: %d %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	for _, accept := range []string{"", "*/*", "text/html, application/json;q=0.1", "application/*"} {
		if res := r.plain("GET", status, "", "Accept", accept); res.StatusCode != 200 || res.Header.Get("Content-Type") != jsonType {
			t.Errorf("Accept %q: %d %s", accept, res.StatusCode, res.Header.Get("Content-Type"))
		}
	}
	for _, contentType := range []string{"", "application/json; charset=utf-8", "Application/JSON"} {
		res := r.plain("POST", plan, `{"sources":[]}`, "Content-Type", contentType, "Content-Length", "14")
		if b, _ := io.ReadAll(res.Body); res.StatusCode != 200 {
			t.Errorf("Content-Type %q: %d %s", contentType, res.StatusCode, b)
		}
	}
	tag := r.plain("GET", "/api/v1/resources/zone/gslb", "").Header.Get("ETag")
	if res := r.plain("GET", "/api/v1/resources/zone/gslb", "", "If-None-Match", `"1"`, "If-None-Match", tag); res.StatusCode != 304 {
		t.Errorf("two headers are one list: %d", res.StatusCode)
	}
}

// TestTooManyRequests proves that a flood of requests is refused with a problem that says when to come again.
// Covers: issue4 problems
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, func(cfg *Config, _ *Deps) { cfg.Rate = 1e-9 })
	var res *http.Response
	r.await("a refusal", func() bool { res = r.plain("GET", "/api/v1/version", ""); return res.StatusCode != 200 })
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != 429 || problemCode(b) != api.CodeTooMany || res.Header.Get("Retry-After") == "" {
		t.Errorf("%d, Retry-After %q: %s", res.StatusCode, res.Header.Get("Retry-After"), b)
	}
}

// TestWorkMayTakeLong proves that an operation that works for longer than its body may take to arrive, and for longer than
// its answer may take to be written, is not cancelled and does answer.
// Covers: issue4 problems
func TestWorkMayTakeLong(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	mux := http.NewServeMux()
	a := humago.New(mux, huma.DefaultConfig("test", "1"))
	a.UseMiddleware(enter)
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		op := operation(method, "/work", "work"+method, "work", 100)
		op.BodyReadTimeout = limit
		work := func(ctx context.Context) (*body[string], error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(5 * limit):
				return &body[string]{"done"}, nil
			}
		}
		if method == http.MethodGet {
			register(a, op, func(ctx context.Context, _ *struct{}) (*body[string], error) { return work(ctx) })
		} else {
			register(a, op, func(ctx context.Context, _ *struct{ Body string }) (*body[string], error) { return work(ctx) })
		}
	}
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = limit, limit
	srv.Start()
	defer srv.Close()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		var in io.Reader
		if method == http.MethodPost {
			in = strings.NewReader(`"x"`)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+api.Prefix+"/work", in)
		if err != nil {
			t.Fatal(err)
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Errorf("%s: %v", method, err)
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || strings.TrimSpace(string(b)) != `"done"` {
			t.Errorf("%s: %d %s, %v", method, res.StatusCode, b, err)
		}
	}
}
