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
// Its methods are made from the API's own description, openapi.json, by make api; what is written by hand here joins them.
// Errors of the server are *Problem, with a code; what did not change since the ETag in IfNoneMatch is ErrNotModified; no
// server at all wraps ErrUnreachable. Codes that every call can meet: BAD_REQUEST, FORBIDDEN_HOST, INTERNAL, NOT_READY,
// STORE_UNAVAILABLE, TOO_MANY_REQUESTS and UNAUTHORIZED.
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

// call is one request as the generated methods put it together.
type call struct {
	method, path string
	params       url.Values
	header       http.Header
	body         io.Reader
	err          error // of the body
}

func newCall(method, path string) *call {
	return &call{method: method, path: path, params: url.Values{}, header: http.Header{}}
}

// setQuery sets a parameter; a zero value is left out.
func (r *call) setQuery(name string, value any) {
	switch v := value.(type) {
	case string:
		if v != "" {
			r.params.Set(name, v)
		}
	case int:
		if v != 0 {
			r.params.Set(name, strconv.Itoa(v))
		}
	case bool:
		if v {
			r.params.Set(name, "true")
		}
	case time.Time:
		if !v.IsZero() {
			r.params.Set(name, TimeParam(v))
		}
	}
}

// setHeader sets a header; an empty value is left out.
func (r *call) setHeader(name, value string) {
	if value != "" {
		r.header.Set(name, value)
	}
}

// setBody sets the body: what is to be read, JSON as it stands, or a value that becomes JSON.
func (r *call) setBody(mediaType string, value any) {
	r.header.Set("Content-Type", mediaType)
	switch v := value.(type) {
	case io.Reader:
		r.body = v
	case json.RawMessage:
		r.body = bytes.NewReader(v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			r.err = fmt.Errorf("request %s: %w", r.path, err)
		}
		r.body = bytes.NewReader(b)
	}
}

// TimeParam writes a time as parameters take it; "" for the zero time, which is left out.
func TimeParam(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// call sends a request and decodes the answer into out, unless that is nil. It gives the answer's ETag.
func (c *Client) call(ctx context.Context, r *call, out any) (etag string, err error) {
	res, err := c.send(ctx, r, "application/json")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if out == nil {
		return res.Header.Get("ETag"), nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return "", fmt.Errorf("answer of %s %s: %w", r.method, r.path, err)
	}
	return res.Header.Get("ETag"), nil
}

// copy sends a request and writes the answer to w as it comes.
func (c *Client) copy(ctx context.Context, r *call, mediaType string, w io.Writer) error {
	res, err := c.send(ctx, r, mediaType)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		return fmt.Errorf("%s %s: the answer was cut off: %w", r.method, r.path, err)
	}
	return nil
}

// send sends a request and gives an answer of success, whose body the caller closes.
func (c *Client) send(ctx context.Context, r *call, accept string) (*http.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	u := c.base + Prefix + r.path
	if len(r.params) > 0 {
		u += "?" + r.params.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u, r.body)
	if err != nil {
		return nil, fmt.Errorf("server address %q: %w", c.base, err)
	}
	req.Header = r.header
	req.Header.Set("Accept", accept)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.actor != "" {
		req.Header.Set(ActorHeader, c.actor)
	}
	res, err := c.http.Do(req)
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	case err != nil:
		return nil, unreachable(c.base, err)
	case res.StatusCode == http.StatusNotModified:
		err = ErrNotModified
	case res.StatusCode >= 300:
		err = problemOf(res, io.LimitReader(res.Body, maxAnswer))
	}
	if err != nil {
		res.Body.Close()
		return nil, err
	}
	return res, nil
}

// every reads all pages of a list; page gives one and the cursor of the next.
func every[T any](page func(cursor string) ([]T, string, error)) ([]T, error) {
	var all []T
	for cursor := ""; ; {
		part, next, err := page(cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
		if cursor = next; next == "" {
			return all, nil
		}
	}
}

// pageLimit is how much is asked for at a time where everything is wanted: the most that there is.
const pageLimit = 1000

// List gives every resource of a kind, by name.
func (c *Client) List(ctx context.Context, kind string) ([]Resource, error) {
	return every(func(cursor string) ([]Resource, string, error) {
		page, _, err := c.ListResources(ctx, kind, ListResourcesParams{Cursor: cursor, Limit: pageLimit})
		return page.Resources, page.Next, err
	})
}

// AllNodes gives every node, by name.
func (c *Client) AllNodes(ctx context.Context) ([]NodeView, error) {
	return every(func(cursor string) ([]NodeView, string, error) {
		page, err := c.Nodes(ctx, NodesParams{Cursor: cursor, Limit: pageLimit})
		return page.Nodes, page.Next, err
	})
}

// AllTokens gives every join token, the newest first.
func (c *Client) AllTokens(ctx context.Context) ([]TokenView, error) {
	return every(func(cursor string) ([]TokenView, string, error) {
		page, err := c.Tokens(ctx, TokensParams{Cursor: cursor, Limit: pageLimit})
		return page.Tokens, page.Next, err
	})
}

// Get gives one resource, whose revision is its ETag.
func (c *Client) Get(ctx context.Context, kind, name string) (Resource, error) {
	r, _, err := c.GetResource(ctx, kind, name, GetResourceParams{})
	return r, err
}

// Put writes one resource. Revision is the one that was read, 0 for a resource that must not exist yet.
func (c *Client) Put(ctx context.Context, kind, name string, revision int64, document json.RawMessage) (Resource, error) {
	p := PutResourceParams{IfMatch: ETag(revision)}
	if revision == 0 {
		p = PutResourceParams{IfNoneMatch: "*"}
	}
	r, _, err := c.PutResource(ctx, kind, name, p, document)
	return r, err
}

// Delete removes one resource if its revision is the given one; 0: whatever it is.
func (c *Client) Delete(ctx context.Context, kind, name string, revision int64) error {
	p := DeleteResourceParams{}
	if revision != 0 {
		p.IfMatch = ETag(revision)
	}
	return c.DeleteResource(ctx, kind, name, p)
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
