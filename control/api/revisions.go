package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Revision is one write of a resource. Lines say what it changed, in the operator's words.
type Revision struct {
	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time"`
	Actor    string    `json:"actor,omitempty"`
	// Action is create, update or delete; absent: the revision was in force when history began.
	Action string `json:"action,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Current: the resource is stored as this revision says.
	Current bool     `json:"current"`
	Lines   []string `json:"lines"`
	// Document is the resource as it was; only where one revision is asked for. Absent: it was deleted.
	Document json.RawMessage `json:"document,omitempty"`
}

// RevisionPage is a part of a resource's history, newest first.
type RevisionPage struct {
	Revisions []Revision `json:"revisions"`
	Next      string     `json:"next,omitempty"` // cursor; absent: this was the last page
}

// RollbackRequest writes an earlier revision of a resource again, as a new revision. It is validated like any other write.
type RollbackRequest struct {
	Kind     string `json:"kind" minLength:"1" maxLength:"63"`
	Name     string `json:"name" minLength:"1" maxLength:"63"`
	Revision int64  `json:"revision" minimum:"1"`
	Reason   string `json:"reason,omitempty" maxLength:"500" doc:"for history and audit trail; needed unless dryRun"`
	// DryRun only says what would change.
	DryRun bool `json:"dryRun,omitempty"`
	// Base is Plan.Base of the plan that was shown: anything written since refuses the rollback. 0: not checked.
	Base int64 `json:"base,omitempty"`
}

// AuditLine says who wrote what. What a resource looked like is in its history, by Revision.
type AuditLine struct {
	ID       string    `json:"id"` // ordered by time
	Time     time.Time `json:"time"`
	Actor    string    `json:"actor"`
	Action   string    `json:"action"` // create, update, delete; for nodes also join, revoke and others
	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	Reason   string    `json:"reason,omitempty"`
	Revision int64     `json:"revision"` // of the store
}

// AuditPage is a part of the audit trail, newest first.
type AuditPage struct {
	Lines []AuditLine `json:"lines"`
	Next  string      `json:"next,omitempty"` // cursor; absent: this was the last page
}

// History reads one page of a resource's history, newest first. Cursor "" is the first page, limit 0 the server's default,
// 100.
func (c *Client) History(ctx context.Context, kind, name, cursor string, limit int) (RevisionPage, error) {
	q := url.Values{}
	setPage(q, cursor, limit)
	var p RevisionPage
	err := c.do(ctx, http.MethodGet, historyPath(kind, name), q, nil, &p)
	return p, err
}

// HistoryRevision reads one revision of a resource, with its document.
func (c *Client) HistoryRevision(ctx context.Context, kind, name string, revision int64) (Revision, error) {
	var r Revision
	err := c.do(ctx, http.MethodGet, historyPath(kind, name)+"/"+strconv.FormatInt(revision, 10), nil, nil, &r)
	return r, err
}

// Rollback writes an earlier revision again, or says what that would change.
func (c *Client) Rollback(ctx context.Context, r RollbackRequest) (Plan, error) {
	var p Plan
	err := c.do(ctx, http.MethodPost, "/rollback", nil, r, &p)
	return p, err
}

// AuditQuery selects part of the audit trail; zero fields do not narrow it. Limit 0: the server's default, 100.
type AuditQuery struct {
	Since             time.Time
	Kind, Name, Actor string
	Limit             int
	Cursor            string
}

// Audit reads one page of the audit trail, newest first.
func (c *Client) Audit(ctx context.Context, a AuditQuery) (AuditPage, error) {
	q := url.Values{}
	if !a.Since.IsZero() {
		q.Set("since", a.Since.UTC().Format(time.RFC3339Nano))
	}
	for k, v := range map[string]string{"kind": a.Kind, "name": a.Name, "actor": a.Actor} {
		if v != "" {
			q.Set(k, v)
		}
	}
	setPage(q, a.Cursor, a.Limit)
	var p AuditPage
	err := c.do(ctx, http.MethodGet, "/audit", q, nil, &p)
	return p, err
}

func setPage(q url.Values, cursor string, limit int) {
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
}

func historyPath(kind, name string) string {
	return "/history/" + url.PathEscape(kind) + "/" + url.PathEscape(name)
}
