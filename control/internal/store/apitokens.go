package store

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const apiTokenPrefix = Root + "api-tokens/"

// APIToken is the record of a token that lets a program or a person use the API.
type APIToken struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Role     string   `json:"role"`
	Services []string `json:"services,omitempty"` // all it is for; none: it is for every one
	Hash     string   `json:"hash"`               // hex SHA-256 of the secret, which is not kept
	// Created, Boot and BootTime are when it was made, so that its life does not depend on a wall clock set since.
	Created  time.Time     `json:"created"`
	Boot     string        `json:"boot,omitempty"`
	BootTime time.Duration `json:"bootTime,omitempty"`
	Expires  time.Time     `json:"expires,omitzero"` // zero: it does not end by itself
	Actor    string        `json:"actor,omitempty"`
	Used     time.Time     `json:"used,omitzero"` // last, at most an hour behind

	Revision int64 `json:"-"` // of the store, when it was read or written
}

// APITokens reads every token of the API, by ID. One that is unreadable is an error: it may be one that is limited.
func (s *Store) APITokens(ctx context.Context) ([]APIToken, error) {
	return readAll(ctx, s, apiTokenPrefix, func(t *APIToken, rev int64) { t.Revision = rev })
}

// WriteAPIToken writes a token in the place of the one with its revision, 0 for none, and sets the new one. ErrConflict:
// something else is stored.
func (s *Store) WriteAPIToken(ctx context.Context, t *APIToken, audit ...Audit) error {
	w := enrolmentWrite{}
	w.put(apiTokenPrefix+t.ID, t, t.Revision)
	rev, err := s.writeAudited(ctx, "write API token", &w, audit)
	if err == nil {
		t.Revision = rev
	}
	return err
}

// DropAPIToken deletes a token. ErrConflict: it is not there, or something else is.
func (s *Store) DropAPIToken(ctx context.Context, t *APIToken, audit ...Audit) error {
	w := enrolmentWrite{}
	w.compare(apiTokenPrefix+t.ID, t.Revision)
	w.ops = append(w.ops, clientv3.OpDelete(apiTokenPrefix+t.ID))
	_, err := s.writeAudited(ctx, "delete API token", &w, audit)
	return err
}

// WriteAudit adds lines to the audit trail that go with no other write.
func (s *Store) WriteAudit(ctx context.Context, audit ...Audit) error {
	_, err := s.writeAudited(ctx, "write audit trail", &enrolmentWrite{}, audit)
	return err
}

func (s *Store) writeAudited(ctx context.Context, what string, w *enrolmentWrite, audit []Audit) (int64, error) {
	for i := range audit {
		w.set(auditPrefix+s.NextID(audit[i].Time), &audit[i])
	}
	if w.err != nil {
		return 0, fmt.Errorf("%s: %w", what, w.err)
	}
	return s.commit(ctx, what, w.cmps, w.ops)
}
