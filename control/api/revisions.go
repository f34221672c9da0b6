package api

import (
	"encoding/json"
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
	Action string `json:"action,omitempty" enum:"create,update,delete"`
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
