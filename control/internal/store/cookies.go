package store

import (
	"context"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	cookieKey = Root + "meta/cookie-master"
	// openCookieKey is where versions before kept it so that it could be read. What lay there is not used any more.
	openCookieKey = Root + "meta/cookies"
	sharedKey     = Root + "shared"
)

// CookieMaster is what the secrets of DNS cookies are made of, sealed.
type CookieMaster struct {
	Sealed json.RawMessage `json:"sealed"`

	Revision int64 `json:"-"` // of the store, when it was read or written; 0: there is none
}

// CookieMaster reads it; its Revision is 0 when there is none.
func (s *Store) CookieMaster(ctx context.Context) (CookieMaster, error) {
	return readOne(ctx, s, "read the master of DNS cookies", cookieKey, func(m *CookieMaster, rev int64) { m.Revision = rev })
}

// WriteCookieMaster writes it in the place of the one with its revision, and sets the new one. ErrConflict: something else is
// stored.
func (s *Store) WriteCookieMaster(ctx context.Context, m *CookieMaster, audit ...Audit) error {
	w := enrolmentWrite{}
	w.put(cookieKey, m, m.Revision)
	w.ops = append(w.ops, clientv3.OpDelete(openCookieKey))
	rev, err := s.writeAudited(ctx, "write the master of DNS cookies", &w, audit)
	if err == nil {
		m.Revision = rev
	}
	return err
}

// Shared is what name servers share as secrets, as it was handed out last, so that a control which cannot open what it is
// made of hands out the same after a restart.
type Shared struct {
	Envelope []byte          `json:"envelope"`
	Sealed   json.RawMessage `json:"sealed,omitempty"` // the same for control itself, sealed by the sealing key
}

// Shared reads it; without an Envelope there is none.
func (s *Store) Shared(ctx context.Context) (Shared, error) {
	return readOne(ctx, s, "read what name servers share", sharedKey, func(*Shared, int64) {})
}

// WriteShared writes it, whatever was there.
func (s *Store) WriteShared(ctx context.Context, v *Shared) error {
	w := enrolmentWrite{}
	w.set(sharedKey, v)
	_, err := s.writeAudited(ctx, "write what name servers share", &w, nil)
	return err
}

// readOne reads a record; without one it is the zero value.
func readOne[T any](ctx context.Context, s *Store, what, key string, revision func(*T, int64)) (v T, err error) {
	res, err := run(ctx, s, what, func(ctx context.Context) (*clientv3.GetResponse, error) { return s.client.Get(ctx, key) })
	if err != nil || len(res.Kvs) == 0 {
		return v, err
	}
	revision(&v, res.Kvs[0].ModRevision)
	if err := json.Unmarshal(res.Kvs[0].Value, &v); err != nil {
		return v, fmt.Errorf("%s: record %s: %w", what, key, err)
	}
	return v, nil
}
