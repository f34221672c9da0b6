package store

import (
	"context"
	"encoding/json"
	"time"
)

const (
	ordersPrefix   = Root + "acme/orders/"
	accountsPrefix = Root + "acme/accounts/"
)

// ACMERecord is what is kept of a certificate that is ordered by ACME, or of an account.
type ACMERecord struct {
	Name    string          `json:"name"`
	State   json.RawMessage `json:"state"` // may be shown
	Sealed  json.RawMessage `json:"sealed,omitempty"`
	Written time.Time       `json:"written"`

	Revision int64 `json:"-"` // of the store, when it was read or written; 0: it is not stored
}

func acmePrefix(account bool) string {
	if account {
		return accountsPrefix
	}
	return ordersPrefix
}

// ACMERecords reads those of all certificates, or of all accounts, by name.
func (s *Store) ACMERecords(ctx context.Context, account bool) ([]ACMERecord, error) {
	return readAll(ctx, s, acmePrefix(account), func(r *ACMERecord, rev int64) { r.Revision = rev })
}

// WriteACME writes a record in the place of the one with its revision, 0 for none, and sets the new one. ErrConflict: something
// else is stored.
func (s *Store) WriteACME(ctx context.Context, account bool, r *ACMERecord, audit ...Audit) error {
	w := enrolmentWrite{}
	w.put(acmePrefix(account)+r.Name, r, r.Revision)
	rev, err := s.writeAudited(ctx, "write what is kept of a certificate", &w, audit)
	if err == nil {
		r.Revision = rev
	}
	return err
}

// DropACME deletes a record with its revision. ErrConflict: something else is stored.
func (s *Store) DropACME(ctx context.Context, account bool, r *ACMERecord) error {
	key := acmePrefix(account) + r.Name
	w := enrolmentWrite{}
	w.compare(key, r.Revision)
	w.drop(key)
	_, err := s.writeAudited(ctx, "drop what is kept of a certificate", &w, nil)
	return err
}
