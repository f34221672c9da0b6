package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// idSource makes identifiers of log entries: 16 hexadecimal digits of wall-clock nanoseconds, each greater than every
// one before, also when the wall clock went back or a restart lies between.
type idSource struct {
	mu   sync.Mutex
	last int64
}

func (s *idSource) next(wall time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last+1, wall.UnixNano())
	return formatID(s.last)
}

// atLeast makes every later ID greater than id.
func (s *idSource) atLeast(id string) error {
	n, err := parseID(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, n)
	return nil
}

func formatID(n int64) string { return fmt.Sprintf("%016x", n) }

func parseID(id string) (int64, error) {
	n, err := strconv.ParseInt(id, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("entry id %q: %w", id, err)
	}
	return n, nil
}

// NextID gives the ID of a new log entry made at the given wall time.
func (s *Store) NextID(wall time.Time) string { return s.ids.next(wall) }

// loadIDs goes on after the newest entry of each log.
func (s *Store) loadIDs(ctx context.Context) error {
	for _, prefix := range []string{switchPrefix, auditPrefix} {
		keys, err := run(ctx, s, "newest log entry", func(ctx context.Context) (*clientv3.GetResponse, error) {
			return s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1),
				clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
		})
		if err != nil {
			return err
		}
		for _, kv := range keys.Kvs {
			if err := s.ids.atLeast(strings.TrimPrefix(string(kv.Key), prefix)); err != nil {
				return err
			}
		}
	}
	return nil
}
