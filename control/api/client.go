package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds what the client reads of one answer: a status of 10,000 rules is some 20 MiB.
const maxAnswer = 256 << 20

// Client calls the API. The zero value is unusable; NewClient makes one. Methods may run at the same time.
//
// Errors of the server are *Problem; no server at all wraps ErrUnreachable.
type Client struct {
	base, token, actor string
	http               *http.Client
}

// NewClient returns a client of the server at url (such as http://127.0.0.1:7070) with a bearer token, which may be
// empty for endpoints that need none.
func NewClient(url, token string) *Client {
	return &Client{base: strings.TrimRight(url, "/"), token: token, http: &http.Client{
		// A redirect would carry the token to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// WithActor returns a client whose writes are recorded as done by actor.
func (c *Client) WithActor(actor string) *Client {
	d := *c
	d.actor = actor
	return &d
}

// WithHTTP returns a client that uses h, for other transports and timeouts.
func (c *Client) WithHTTP(h *http.Client) *Client {
	d := *c
	d.http = h
	return &d
}

// List gives every resource of a kind, by name.
func (c *Client) List(ctx context.Context, kind string) ([]Resource, error) {
	var all []Resource
	q := url.Values{}
	for {
		var page ResourceList
		if err := c.do(ctx, http.MethodGet, "/resources/"+url.PathEscape(kind), q, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Resources...)
		if page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// Get gives one resource.
func (c *Client) Get(ctx context.Context, kind, name string) (Resource, error) {
	var r Resource
	err := c.do(ctx, http.MethodGet, resourcePath(kind, name), nil, nil, &r)
	return r, err
}

// Put writes one resource. Revision is the one that was read, 0 for a new resource.
func (c *Client) Put(ctx context.Context, kind, name string, revision int64, document json.RawMessage) (Resource, error) {
	var r Resource
	err := c.do(ctx, http.MethodPut, resourcePath(kind, name), nil, request{body: document, revision: &revision}, &r)
	return r, err
}

// Delete removes one resource if its revision is the given one; 0: whatever it is.
func (c *Client) Delete(ctx context.Context, kind, name string, revision int64) error {
	req := request{}
	if revision != 0 {
		req.revision = &revision
	}
	return c.do(ctx, http.MethodDelete, resourcePath(kind, name), nil, req, nil)
}

// Plan says what Apply would do.
func (c *Client) Plan(ctx context.Context, r ApplyRequest) (Plan, error) {
	var p Plan
	err := c.do(ctx, http.MethodPost, "/plan", nil, r, &p)
	return p, err
}

// Apply does all of r, or nothing.
func (c *Client) Apply(ctx context.Context, r ApplyRequest) (Plan, error) {
	var p Plan
	err := c.do(ctx, http.MethodPost, "/apply", nil, r, &p)
	return p, err
}

// Status gives the state of one service, or of all when service is "".
func (c *Client) Status(ctx context.Context, service string) (Status, error) {
	var s Status
	q := url.Values{}
	if service != "" {
		q.Set("service", service)
	}
	err := c.do(ctx, http.MethodGet, "/status", q, nil, &s)
	return s, err
}

// ExplainQuery asks why Host is answered as it is. Client, Resolver and Type may be empty.
// At is a time in the past, of which the tape tells; zero: now.
type ExplainQuery struct {
	Host, Client, Resolver, Type string
	At                           time.Time
}

// Explain says why.
func (c *Client) Explain(ctx context.Context, e ExplainQuery) (Explanation, error) {
	q := url.Values{"host": {e.Host}}
	for k, v := range map[string]string{"client": e.Client, "resolver": e.Resolver, "type": e.Type} {
		if v != "" {
			q.Set(k, v)
		}
	}
	if !e.At.IsZero() {
		q.Set("at", e.At.UTC().Format(time.RFC3339Nano))
	}
	var x Explanation
	err := c.do(ctx, http.MethodGet, "/explain", q, nil, &x)
	return x, err
}

// SwitchQuery selects part of the switch log; zero fields do not narrow it. Limit 0: the server's default, 100.
type SwitchQuery struct {
	Since   time.Time
	Service string
	Limit   int
	Cursor  string
}

// Switches reads one page of the switch log, newest first.
func (c *Client) Switches(ctx context.Context, s SwitchQuery) (SwitchPage, error) {
	q := url.Values{}
	if !s.Since.IsZero() {
		q.Set("since", s.Since.UTC().Format(time.RFC3339Nano))
	}
	if s.Service != "" {
		q.Set("service", s.Service)
	}
	if s.Limit > 0 {
		q.Set("limit", strconv.Itoa(s.Limit))
	}
	if s.Cursor != "" {
		q.Set("cursor", s.Cursor)
	}
	var p SwitchPage
	err := c.do(ctx, http.MethodGet, "/switches", q, nil, &p)
	return p, err
}

// Force makes a rule answer with one edge.
func (c *Client) Force(ctx context.Context, r ForceRequest) (OverrideResult, error) {
	return c.override(ctx, "/force", r)
}

// Unforce ends a force; Target is service/rule.
func (c *Client) Unforce(ctx context.Context, r UndoRequest) (OverrideResult, error) {
	return c.override(ctx, "/unforce", r)
}

// Freeze stops automatic moves of a service or rule.
func (c *Client) Freeze(ctx context.Context, r FreezeRequest) (OverrideResult, error) {
	return c.override(ctx, "/freeze", r)
}

// Unfreeze ends a freeze; Target is as it was given to Freeze.
func (c *Client) Unfreeze(ctx context.Context, r UndoRequest) (OverrideResult, error) {
	return c.override(ctx, "/unfreeze", r)
}

// Drain takes an edge or a point out.
func (c *Client) Drain(ctx context.Context, r DrainRequest) (OverrideResult, error) {
	return c.override(ctx, "/drain", r)
}

// Undrain ends a drain.
func (c *Client) Undrain(ctx context.Context, r UndoRequest) (OverrideResult, error) {
	return c.override(ctx, "/undrain", r)
}

func (c *Client) override(ctx context.Context, path string, body any) (OverrideResult, error) {
	var r OverrideResult
	err := c.do(ctx, http.MethodPost, path, nil, body, &r)
	return r, err
}

// Probe probes now.
func (c *Client) Probe(ctx context.Context, r ProbeRequest) (ProbeResults, error) {
	var p ProbeResults
	err := c.do(ctx, http.MethodPost, "/probe", nil, r, &p)
	return p, err
}

// Version names the server, and proves that it takes the token.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	err := c.do(ctx, http.MethodGet, "/version", nil, nil, &v)
	return v, err
}

// Tape writes the timeline of a service between two times, as it was recorded, to w. A zero from means since the tape
// begins, a zero to means now.
func (c *Client) Tape(ctx context.Context, service string, from, to time.Time, w io.Writer) error {
	q := url.Values{}
	for k, t := range map[string]time.Time{"from": from, "to": to} {
		if !t.IsZero() {
			q.Set(k, t.UTC().Format(time.RFC3339Nano))
		}
	}
	req, err := c.newRequest(ctx, http.MethodGet, "/tape/"+url.PathEscape(service), q, nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return unreachable(c.base, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return problemOf(res, res.Body)
	}
	if _, err := io.Copy(w, res.Body); err != nil {
		return fmt.Errorf("tape of %s: it was cut off: %w", service, err)
	}
	return nil
}

// request is a body with a revision for If-Match: 0 becomes If-None-Match: * (must not exist).
type request struct {
	body     json.RawMessage
	revision *int64
}

func resourcePath(kind, name string) string {
	return "/resources/" + url.PathEscape(kind) + "/" + url.PathEscape(name)
}

func (c *Client) do(ctx context.Context, method, path string, q url.Values, in, out any) error {
	req, err := c.newRequest(ctx, method, path, q, in)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		return unreachable(c.base, err)
	}
	defer res.Body.Close()
	body := io.LimitReader(res.Body, maxAnswer)
	if res.StatusCode >= 300 {
		return problemOf(res, body)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("answer of %s %s: %w", method, path, err)
	}
	return nil
}

func (c *Client) newRequest(ctx context.Context, method, path string, q url.Values, in any) (*http.Request, error) {
	u := c.base + Prefix + path
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	var body io.Reader
	var revision *int64
	switch v := in.(type) {
	case nil:
	case request:
		revision = v.revision
		if v.body != nil {
			body = bytes.NewReader(v.body)
		}
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, fmt.Errorf("server address %q: %w", c.base, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if revision != nil && *revision == 0 {
		req.Header.Set("If-None-Match", "*")
	} else if revision != nil {
		req.Header.Set("If-Match", ETag(*revision))
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.actor != "" {
		req.Header.Set(ActorHeader, c.actor)
	}
	return req, nil
}

// ETag gives the entity tag of a revision.
func ETag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// problemOf reads a problem; an answer that is none (a proxy in between) becomes one with its status.
func problemOf(res *http.Response, body io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(body, 4<<20))
	var p Problem
	if err == nil && json.Unmarshal(b, &p) == nil && p.Code != "" {
		return &p
	}
	return &Problem{
		Title: "Not an answer of steer", Status: res.StatusCode, Code: CodeBadRequest,
		Detail: fmt.Sprintf("%s answered %s without a problem document; check the server address", res.Request.URL.Host, res.Status),
	}
}
