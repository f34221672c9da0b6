package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// Pair is one key as it is stored, with the revisions at which it was made and last written, and how often it was written.
type Pair struct {
	Key     string
	Value   []byte
	Created int64
	Written int64
	Version int64
}

// dumpPage is how many keys are read at once.
const dumpPage = 500

// Dump hands every key of the store to f, all as they are at one revision, which it returns. The store goes on taking
// writes meanwhile. ErrCompacted: it took so long that the revision is no longer kept.
func (s *Store) Dump(ctx context.Context, f func(Pair) error) (revision int64, err error) {
	begin, end := Root, clientv3.GetPrefixRangeEnd(Root)
	for {
		ops := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(dumpPage)}
		if revision != 0 {
			ops = append(ops, clientv3.WithRev(revision))
		}
		res, err := run(ctx, s, "read the whole store", func(ctx context.Context) (*clientv3.GetResponse, error) {
			return s.client.Get(ctx, begin, ops...)
		})
		if err != nil {
			return revision, err
		}
		if revision == 0 {
			revision = res.Header.Revision
		}
		for _, kv := range res.Kvs {
			begin = string(kv.Key) + "\x00"
			if err := f(Pair{string(kv.Key), kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version}); err != nil {
				return revision, err
			}
		}
		if !res.More {
			return revision, nil
		}
	}
}

// Restoration says how a dumped store is put back.
type Restoration struct {
	Revision int64 // of the dump
	// SkipRevisions and SkipVersions are how many revisions and map versions are left out after those of the dump: the
	// store that was lost may have given them since, and none may come twice with another meaning.
	SkipRevisions int64
	SkipVersions  uint64
}

// MapVersion is the key's map version, if the key holds the next one.
func (p *Pair) MapVersion() (version uint64, ok bool) {
	if p.Key != versionKey {
		return 0, false
	}
	v, err := strconv.ParseUint(string(p.Value), 10, 64)
	return v, err == nil
}

// ResourceName is kind and name of the resource that the key holds.
func (p *Pair) ResourceName() (kind, name string, ok bool) {
	rest, ok := strings.CutPrefix(p.Key, resourcePrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// NodeName is the name of the node whose record the key holds.
func (p *Pair) NodeName() (name string, ok bool) { return strings.CutPrefix(p.Key, nodePrefix) }

// APIToken is the record of a token of the API, if the key holds one that can be read.
func (p *Pair) APIToken() (APIToken, bool) { return recordOf[APIToken](p, apiTokenPrefix) }

// JoinToken is the record of a join token, if the key holds one that can be read.
func (p *Pair) JoinToken() (Token, bool) { return recordOf[Token](p, tokenPrefix) }

// Node is the record of a node, if the key holds one that can be read.
func (p *Pair) Node() (Node, bool) { return recordOf[Node](p, nodePrefix) }

func recordOf[T any](p *Pair, prefix string) (v T, ok bool) {
	return v, strings.HasPrefix(p.Key, prefix) && json.Unmarshal(p.Value, &v) == nil
}

// Restore makes a store in an absent or empty folder from the pairs that next gives, until io.EOF. Keys have the
// revisions they had, so that revisions people and files know stay what they are. The store is opened once before it
// returns: what it made is whole, and on disk. After an error the folder is worth nothing.
func Restore(ctx context.Context, cfg Config, r Restoration, next func() (Pair, error), log *slog.Logger) error {
	s := newStore(cfg, log)
	file := filepath.Join(cfg.Dir, "member", "member", "snap", "db")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("restore the store: %w", err)
	}
	n := 0
	if err := s.alone(func() (err error) { n, err = s.fill(file, r, next); return err }); err != nil {
		return fmt.Errorf("restore the store: %w", err)
	}
	open, err := openFiles(ctx, cfg, log)
	if err != nil {
		return fmt.Errorf("restore the store: %w", err)
	}
	got := 0
	revision, err := open.Dump(ctx, func(Pair) error { got++; return nil })
	if err == nil && (got != n || revision < r.Revision+r.SkipRevisions) {
		err = fmt.Errorf("%d of %d keys are read back, at revision %d", got, n, revision)
	}
	if err := errors.Join(err, open.Close(), syncFolders(cfg.Dir)); err != nil {
		return fmt.Errorf("restore the store: %w", err)
	}
	return nil
}

// alone runs f, which uses etcd's own packages: what they call fatal ends the goroutine that meets it.
func (s *Store) alone(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("it was broken off")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("it was broken off: %v", p)
			}
			done <- err
		}()
		err = f()
	}()
	select {
	case err := <-done:
		if s.isFailed() {
			return s.failErr
		}
		return err
	case <-s.failed:
		return s.failErr
	}
}

// syncFolders makes the names of what was made in a tree survive a power cut.
func syncFolders(root string) error {
	return filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// fill writes the pairs into a database of its own, as a store that was just compacted has them.
func (s *Store) fill(file string, r Restoration, next func() (Pair, error)) (n int, err error) {
	b := backend.NewDefaultBackend(bridge(s.log, s.fail), file)
	err = writePairs(b, r, next, &n)
	b.ForceCommit()
	return n, errors.Join(err, b.Close())
}

// fillBatch is how many keys are written under one lock of the database, which commits between two of them.
const fillBatch = 500

func writePairs(b backend.Backend, r Restoration, next func() (Pair, error), n *int) error {
	tx := b.BatchTx()
	locked := func(f func() error) error {
		tx.LockOutsideApply()
		defer tx.Unlock()
		return f()
	}
	err := locked(func() error {
		for _, bucket := range schema.AllBuckets {
			tx.UnsafeCreateBucket(bucket)
		}
		// Whoever followed the lost store from a revision before this one is told that it is gone, and reads anew.
		mvcc.UnsafeSetScheduledCompact(tx, r.Revision+r.SkipRevisions)
		mvcc.UnsafeSetFinishedCompact(tx, r.Revision+r.SkipRevisions)
		return nil
	})
	// Keys of one transaction have one revision; in it each has a number of its own. Which it was does not matter.
	sub := map[int64]int64{}
	for err == nil {
		err = locked(func() error {
			for range fillBatch {
				p, err := next()
				if err != nil {
					return err
				}
				if err := p.check(r.Revision); err != nil {
					return err
				}
				if v, ok := p.MapVersion(); ok {
					p.Value = strconv.AppendUint(nil, v+r.SkipVersions, 10)
				}
				at := mvcc.Revision{Main: p.Written, Sub: sub[p.Written]}
				sub[p.Written]++
				tx.UnsafePut(schema.Key, mvcc.RevToBytes(at, mvcc.NewRevBytes()), p.encode())
				*n++
			}
			return nil
		})
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (p *Pair) check(newest int64) error {
	if !strings.HasPrefix(p.Key, Root) || p.Created < 1 || p.Written < p.Created || p.Written > newest || p.Version < 1 {
		return fmt.Errorf("key %.100q with revisions %d and %d of %d is none of a store", p.Key, p.Created, p.Written, newest)
	}
	return nil
}

// encode is the pair as etcd keeps it: message KeyValue of its mvccpb/kv.proto, fields 1 to 5.
func (p *Pair) encode() []byte {
	const number, bytes = 0, 2
	b := make([]byte, 0, len(p.Key)+len(p.Value)+40)
	b = append(binary.AppendUvarint(append(b, 1<<3|bytes), uint64(len(p.Key))), p.Key...)
	b = binary.AppendUvarint(append(b, 2<<3|number), uint64(p.Created))
	b = binary.AppendUvarint(append(b, 3<<3|number), uint64(p.Written))
	b = binary.AppendUvarint(append(b, 4<<3|number), uint64(p.Version))
	if len(p.Value) > 0 {
		b = append(binary.AppendUvarint(append(b, 5<<3|bytes), uint64(len(p.Value))), p.Value...)
	}
	return b
}
