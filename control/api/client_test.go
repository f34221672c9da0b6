package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// served gives a client of a server that answers with h, and the newest request it saw with its body.
func served(t *testing.T, h http.HandlerFunc) (*Client, *http.Request, *string) {
	t.Helper()
	last, body := new(http.Request), new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*last, *body = *r, string(b)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return NewClient(s.URL+"/", "secret").WithActor("anna"), last, body
}

func says(status int, etag, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if etag != "" {
			w.Header().Set("ETag", etag)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
}

// TestCalls proves what calls look like on the wire: path, parameters, headers, body; and how ETags go both ways.
// Covers: issue4 client, issue4 etag
func TestCalls(t *testing.T) {
	c, req, body := served(t, says(200, `"43"`, `{"kind":"Zone","name":"a/b","revision":43,"document":{"x":1}}`))
	r, etag, err := c.PutResource(t.Context(), "zone", "a/b", PutResourceParams{IfMatch: ETag(42)}, json.RawMessage(`{"x":1}`))
	if err != nil || r.Revision != 43 || etag != `"43"` || string(r.Document) != `{"x":1}` {
		t.Errorf("%+v %s %v", r, etag, err)
	}
	if req.Method != "PUT" || req.RequestURI != "/api/v1/resources/zone/a%2Fb" || *body != `{"x":1}` {
		t.Errorf("%s %s %s", req.Method, req.RequestURI, *body)
	}
	for name, want := range map[string]string{
		"If-Match": `"42"`, "If-None-Match": "", "Authorization": "Bearer secret", "Steer-Actor": "anna", "Accept": "application/json", "Content-Type": "application/json",
	} {
		if got := req.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, err := c.Put(t.Context(), "zone", "new", 0, json.RawMessage(`{}`)); err != nil || req.Header.Get("If-None-Match") != "*" || req.Header.Get("If-Match") != "" {
		t.Errorf("a new resource: %v %v", req.Header, err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	if _, err := c.Explain(t.Context(), "a b", ExplainParams{At: at}); err != nil || req.RequestURI != "/api/v1/explain?at=2026-01-02T02%3A04%3A05.000000006Z&host=a+b" {
		t.Errorf("%s %v", req.RequestURI, err)
	}
	if _, err := c.Switches(t.Context(), SwitchesParams{Limit: 5}); err != nil || req.RequestURI != "/api/v1/switches?limit=5" {
		t.Errorf("%s %v", req.RequestURI, err)
	}
	if err := c.Delete(t.Context(), "zone", "x", 7); err != nil || req.Method != "DELETE" || req.Header.Get("If-Match") != `"7"` || *body != "" {
		t.Errorf("%s %v %v", req.Method, req.Header, err)
	}
	if TimeParam(time.Time{}) != "" {
		t.Error("the zero time is sent")
	}
}

// TestNotModified proves that an answer without a body for what the caller has is an error of its own, and no problem.
// Covers: issue4 client, issue4 etag
func TestNotModified(t *testing.T) {
	c, req, _ := served(t, says(304, `"42"`, ""))
	_, _, err := c.GetResource(t.Context(), "zone", "a", GetResourceParams{IfNoneMatch: ETag(42)})
	if !errors.Is(err, ErrNotModified) || CodeOf(err) != "" || req.Header.Get("If-None-Match") != `"42"` {
		t.Errorf("%v %v", err, req.Header)
	}
}

// TestPagesAreRead proves that everything is read to its last page, and that an error in the middle loses nothing silently.
// Covers: issue4 client, issue4 cursors
func TestPagesAreRead(t *testing.T) {
	fail := false
	c, _, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.FormValue("cursor") {
		case "":
			fmt.Fprint(w, `{"nodes":[{"name":"a"},{"name":"b"}],"tokens":[{"id":"a"}],"resources":[{"name":"a"}],"next":"2"}`)
		default:
			if fail {
				says(503, "", `{"title":"x","status":503,"code":"NOT_READY"}`)(w, r)
				return
			}
			fmt.Fprint(w, `{"nodes":[{"name":"c"}],"tokens":[{"id":"b"}],"resources":[{"name":"b"}]}`)
		}
	})
	nodes, err := c.AllNodes(t.Context())
	if err != nil || len(nodes) != 3 || nodes[2].Name != "c" {
		t.Errorf("%+v %v", nodes, err)
	}
	if tokens, err := c.AllTokens(t.Context()); err != nil || len(tokens) != 2 {
		t.Errorf("%+v %v", tokens, err)
	}
	if list, err := c.List(t.Context(), "zone"); err != nil || len(list) != 2 {
		t.Errorf("%+v %v", list, err)
	}
	fail = true
	if nodes, err := c.AllNodes(t.Context()); CodeOf(err) != CodeNotReady || nodes != nil {
		t.Errorf("%+v %v", nodes, err)
	}
}

// TestErrors proves what each kind of trouble is to a caller: a problem, no server, a server that is none, an answer that is
// cut off, an end that the caller wanted.
// Covers: issue4 client
func TestErrors(t *testing.T) {
	ctx := t.Context()
	c, _, _ := served(t, says(409, "", `{"title":"Written in between","status":409,"code":"CONFLICT","errors":[{"message":"m","location":"l"}]}`))
	var p *Problem
	if _, err := c.Apply(ctx, ApplyRequest{}); !errors.As(err, &p) || p.Code != CodeConflict || p.Status != 409 || !strings.Contains(err.Error(), "l: m") {
		t.Errorf("a problem: %v", err)
	}
	c, _, _ = served(t, says(502, "", `<html>`))
	if _, err := c.Version(ctx); !errors.As(err, &p) || p.Status != 502 || !strings.Contains(err.Error(), "check the server address") {
		t.Errorf("a proxy: %v", err)
	}
	c, _, _ = served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(302)
	})
	if _, err := c.Version(ctx); !errors.As(err, &p) || p.Status != 302 {
		t.Errorf("a redirection, which would carry the token away: %v", err)
	}
	c, _, _ = served(t, says(200, "", `{"version":`))
	if _, err := c.Version(ctx); err == nil || !strings.Contains(err.Error(), "answer of GET /version") {
		t.Errorf("half an answer: %v", err)
	}
	c, _, _ = served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
	})
	var b strings.Builder
	if err := c.Tape(ctx, "shop", TapeParams{}, &b); err == nil || !strings.Contains(err.Error(), "cut off") || b.String() != "half" {
		t.Errorf("half a tape: %v %q", err, b.String())
	}
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	if _, err := NewClient(s.URL, "").Version(ctx); !errors.Is(err, ErrUnreachable) {
		t.Errorf("no server: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Version(ended); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("ended by the caller: %v", err)
	}
	if _, err := NewClient(":bad", "").Version(ctx); err == nil {
		t.Error("an address that is none is taken")
	}
}
