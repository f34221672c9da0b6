package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	zoneKeysPrefix = Root + "zone-keys/"
	signingKey     = Root + "signing"
)

// ZoneKeys is the record of the keys of a signed zone. It stays when the Zone is deleted, so that a roll-back brings the
// keys back that the parent knows.
type ZoneKeys struct {
	Zone    string          `json:"zone"`  // FQDN
	State   json.RawMessage `json:"state"` // may be shown
	Sealed  json.RawMessage `json:"sealed,omitempty"`
	Written time.Time       `json:"written"`

	Revision int64 `json:"-"` // of the store, when it was read or written
}

// ZoneKeys reads the keys of every zone, by zone. One that is unreadable is an error: a zone must not be signed by new keys
// as if it had none.
func (s *Store) ZoneKeys(ctx context.Context) ([]ZoneKeys, error) {
	return readAll(ctx, s, zoneKeysPrefix, func(z *ZoneKeys, rev int64) { z.Revision = rev })
}

// WriteZoneKeys writes the keys of a zone in the place of those with their revision, 0 for none, and sets the new one.
// ErrConflict: something else is stored.
func (s *Store) WriteZoneKeys(ctx context.Context, z *ZoneKeys, audit ...Audit) error {
	w := enrolmentWrite{}
	w.put(zoneKeysPrefix+z.Zone, z, z.Revision)
	rev, err := s.writeAudited(ctx, "write zone keys", &w, audit)
	if err == nil {
		z.Revision = rev
	}
	return err
}

// Signing reads what zones are signed by as it was written last; nil: nothing was.
func (s *Store) Signing(ctx context.Context) (json.RawMessage, error) {
	res, err := run(ctx, s, "read signing", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, signingKey)
	})
	if err != nil || len(res.Kvs) == 0 {
		return nil, err
	}
	return res.Kvs[0].Value, nil
}

// WriteSigning writes it, whatever was there.
func (s *Store) WriteSigning(ctx context.Context, signing json.RawMessage) error {
	if _, err := s.commit(ctx, "write signing", nil, []clientv3.Op{clientv3.OpPut(signingKey, string(signing))}); err != nil {
		return fmt.Errorf("write signing: %w", err)
	}
	return nil
}
