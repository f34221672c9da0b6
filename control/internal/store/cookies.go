package store

import (
	"context"
	"crypto/rand"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	cookieKey = Root + "meta/cookies"
	// cookieBytes is the length of what cookie secrets are made of.
	cookieBytes = 32
)

// CookieMaster is what the secrets of DNS cookies are made of, for as long as the cluster lives; the first call makes it.
func (s *Store) CookieMaster(ctx context.Context) ([]byte, error) {
	return run(ctx, s, "read the master of DNS cookies", func(ctx context.Context) ([]byte, error) {
		fresh := make([]byte, cookieBytes)
		_, _ = rand.Read(fresh) // it never fails
		for {
			res, err := s.client.Get(ctx, cookieKey)
			if err != nil {
				return nil, err
			}
			if len(res.Kvs) > 0 {
				return res.Kvs[0].Value, nil
			}
			_, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(cookieKey), "=", 0)).
				Then(clientv3.OpPut(cookieKey, string(fresh))).Commit()
			if err != nil {
				return nil, err
			}
		}
	})
}
