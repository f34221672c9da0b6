package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Log is one of the logs that are copied to the archive.
type Log int

// The logs.
const (
	SwitchLog Log = iota
	AuditLog
)

// Part says which part of a log an entry belongs to: of a switch the entry, its publication, or its end.
type Part int

// The parts; the audit trail has entries only.
const (
	PartEntry Part = iota
	PartPublication
	PartUndone
)

// LogEntry is one record of a log with the revision it was last written at.
type LogEntry struct {
	Part     Part
	ID       string
	Revision int64
	Value    []byte
}

// LogNews is what was written to a log, up to a revision. Err ends it: ErrCompacted, or that the watch was lost.
type LogNews struct {
	Entries  []LogEntry
	Revision int64
	Err      error
}

// prefixes of the log's parts, by Part.
func (l Log) prefixes() []string {
	if l == AuditLog {
		return []string{auditPrefix}
	}
	return []string{PartEntry: switchPrefix, PartPublication: publishPrefix, PartUndone: undonePrefix}
}

// watched is a prefix that all parts of the log have in common, and nothing else.
func (l Log) watched() string {
	if l == AuditLog {
		return auditPrefix
	}
	return Root + "switch"
}

// entryOf reads a key of the log; ok is false for one of none of its parts.
func (l Log) entryOf(kv *mvccpb.KeyValue) (e LogEntry, ok bool) {
	for part, prefix := range l.prefixes() {
		if id, found := strings.CutPrefix(string(kv.Key), prefix); found {
			return LogEntry{Part(part), id, kv.ModRevision, kv.Value}, true
		}
	}
	return LogEntry{}, false
}

// WatchLog sends what was written to a log after a revision, in order; deletions are left out. The channel is closed
// when ctx ends, or after an Err: then read LogPage again, or watch from elsewhere.
func (s *Store) WatchLog(ctx context.Context, l Log, after int64) <-chan LogNews {
	out := make(chan LogNews)
	go func() {
		defer close(out)
		w := s.client.Watch(ctx, l.watched(), clientv3.WithPrefix(), clientv3.WithRev(after+1), clientv3.WithFilterDelete())
		for {
			var news LogNews
			select {
			case res, ok := <-w:
				news = l.newsOf(res, ok)
			case <-s.failed:
				news.Err = s.failErr
			case <-ctx.Done():
				return
			}
			if news.Err == nil && len(news.Entries) == 0 {
				continue
			}
			select {
			case out <- news:
			case <-ctx.Done():
				return
			}
			if news.Err != nil {
				return
			}
		}
	}()
	return out
}

func (l Log) newsOf(res clientv3.WatchResponse, open bool) LogNews {
	switch {
	case res.CompactRevision != 0:
		return LogNews{Err: fmt.Errorf("follow a log: %w: %w", ErrCompacted, rpctypes.ErrCompacted)}
	case res.Err() != nil:
		return LogNews{Err: fmt.Errorf("follow a log: %w", translate(res.Err()))}
	case !open:
		return LogNews{Err: fmt.Errorf("follow a log: %w: the watch ended", ErrUnavailable)}
	}
	var n LogNews
	for _, ev := range res.Events {
		if e, ok := l.entryOf(ev.Kv); ok {
			n.Entries = append(n.Entries, e)
		}
		n.Revision = max(n.Revision, ev.Kv.ModRevision)
	}
	return n
}

// LogPage reads a part of a log forwards: at most limit entries after an ID ("": from the oldest). revision is the
// store's at that time; more says whether there are more.
func (s *Store) LogPage(ctx context.Context, l Log, part Part, after string, limit int64) (page []LogEntry, revision int64, more bool, err error) {
	prefix := l.prefixes()[part]
	begin := prefix
	if after != "" {
		begin += after + "\x00"
	}
	res, err := run(ctx, s, "read a log", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, begin, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(limit))
	})
	if err != nil {
		return nil, 0, false, err
	}
	for _, kv := range res.Kvs {
		if e, ok := l.entryOf(kv); ok {
			page = append(page, e)
		}
	}
	return page, res.Header.Revision, res.More, nil
}

// Newest is the revision at which a log was last written; 0: nothing is in it.
func (s *Store) Newest(ctx context.Context, l Log) (int64, error) {
	res, err := run(ctx, s, "newest log entry", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, l.watched(), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1),
			clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend))
	})
	if err != nil || len(res.Kvs) == 0 {
		return 0, err
	}
	return res.Kvs[0].ModRevision, nil
}

// prunedKey holds the ID before which entries of any log may have been deleted, because the archive had them.
const prunedKey = Root + "meta/logs-pruned"

// Pruned is the time before which log entries may be in the archive alone; zero: none are.
func (s *Store) Pruned(ctx context.Context) (time.Time, error) {
	return run(ctx, s, "read what was archived", func(ctx context.Context) (time.Time, error) {
		res, err := s.client.Get(ctx, prunedKey)
		if err != nil || len(res.Kvs) == 0 {
			return time.Time{}, err
		}
		id := string(res.Kvs[0].Value)
		n, err := parseID(id)
		return time.Unix(0, n).UTC(), err
	})
}

// PruneLog deletes the entries of a log that are older than before and were last written at a revision that is archived.
// The newest entry stays, whatever its age: the IDs of a process that starts go on from it.
func (s *Store) PruneLog(ctx context.Context, l Log, before time.Time, archived int64) error {
	cut := formatID(max(before.UnixNano(), 0))
	for _, prefix := range l.prefixes() {
		if err := s.prunePart(ctx, prefix, cut, archived); err != nil {
			return fmt.Errorf("older than %s: %w", cut, err)
		}
	}
	return nil
}

func (s *Store) prunePart(ctx context.Context, prefix, cut string, archived int64) error {
	newest, err := run(ctx, s, "prune a log", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
	})
	if err != nil || len(newest.Kvs) == 0 {
		return err
	}
	begin, end := prefix, min(prefix+cut, string(newest.Kvs[0].Key))
	for begin < end {
		res, err := run(ctx, s, "prune a log", func(ctx context.Context) (*clientv3.GetResponse, error) {
			return s.client.Get(ctx, begin, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(batchRules))
		})
		if err != nil {
			return err
		}
		// A record that is written again between the two is newer than what is archived, so it is compared.
		var cmps []clientv3.Cmp
		ops := []clientv3.Op{clientv3.OpPut(prunedKey, cut)}
		for _, kv := range res.Kvs {
			begin = string(kv.Key) + "\x00"
			if kv.ModRevision <= archived {
				cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision))
				ops = append(ops, clientv3.OpDelete(string(kv.Key)))
			}
		}
		if len(cmps) > 0 {
			if _, err := s.commit(ctx, "prune a log", cmps, ops); err != nil {
				return err
			}
		}
		if !res.More {
			return nil
		}
	}
	return nil
}
