// Package store keeps control's state in an embedded etcd: resources, decisions with their switch-log entries, and the
// audit trail. It never decides and never publishes. Invariants: an acknowledged write has been synced to disk; a
// decision and its switch-log entry are one transaction; no network listener is opened.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Root is the key prefix of this format version. A change of format takes the next number and a migration.
const Root = "/steer/1/"

// Errors a caller branches on.
var (
	// ErrConflict: a compared revision is not the stored one; nothing was written.
	ErrConflict = errors.New("written by someone else in between")
	// ErrUnavailable: the store does not take the operation now (hung, failed, closed, timed out).
	ErrUnavailable = errors.New("store unavailable")
	// ErrNotWritten goes with ErrUnavailable where it is known that nothing was written.
	ErrNotWritten = errors.New("nothing was written")
	// ErrFull: the quota is reached; reads go on.
	ErrFull = errors.New("store is full")
	// ErrCompacted: the revision asked for is no longer kept.
	ErrCompacted = errors.New("revision compacted")
	// ErrTooLarge: one write is above what a transaction may hold.
	ErrTooLarge = errors.New("write too large")
)

// Limits. One transaction carries a whole apply, hence far above etcd's defaults (128 operations, 1.5 MiB), which are
// set for many writers over a network; here there is one.
const (
	maxOps          = 200_000
	maxRequestBytes = 64 << 20
	// snapshotEvery bounds the log replayed at start, and with it memory: entries between snapshots stay in memory.
	snapshotEvery = 2000
	// electionTicks: a single member elects itself after one election time-out; the default of 1 s would be a second of
	// every start, and there is no network whose jitter it must outlast.
	heartbeatMS, electionMS = 20, 100
	defragAboveMiB          = 32
)

// Config says where and how.
type Config struct {
	Dir     string        // folder of the store, made if absent
	Quota   int64         // bytes; 0: 2 GiB
	Timeout time.Duration // of one operation; 0: 10 s
}

// Store is an open store. Methods may run at the same time.
type Store struct {
	etcd    *embed.Etcd
	client  *clientv3.Client
	log     *slog.Logger
	timeout time.Duration
	quota   int64

	failOnce sync.Once
	failed   chan struct{} // closed when etcd gave up; failErr is set before
	failErr  error

	closeOnce sync.Once
	closeErr  error

	ids idSource
}

// Open starts the store and waits until it serves. The error names the folder and says what to do.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("store folder: %w", err)
	}
	if err := checkFiles(cfg.Dir); err != nil {
		return nil, err
	}
	s, err := openFiles(ctx, cfg, log)
	if err != nil {
		return nil, fmt.Errorf("store in %s does not start: %w. Nothing in it was changed: check disk space and "+
			"permissions; if the files are damaged, move the folder away and restore a backup, or start empty and apply "+
			"your resources again", cfg.Dir, err)
	}
	return s, nil
}

func newStore(cfg Config, log *slog.Logger) *Store {
	s := &Store{log: log, timeout: cfg.Timeout, quota: cfg.Quota, failed: make(chan struct{})}
	if s.timeout == 0 {
		s.timeout = 10 * time.Second
	}
	if s.quota == 0 {
		s.quota = 2 << 30
	}
	return s
}

// openFiles is Open without a look at the files.
func openFiles(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
	s := newStore(cfg, log)
	e, err := s.start(ctx, cfg.Dir)
	if err != nil {
		return nil, err
	}
	s.etcd, s.client = e, v3client.New(e.Server)
	if err := s.Relieve(ctx); err != nil {
		log.Warn("store is full of what must be kept: it is read, and takes no writes", "error", err)
	}
	if err := s.loadIDs(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// start runs etcd in a goroutine of its own, because a fatal of etcd ends the goroutine that meets it.
func (s *Store) start(ctx context.Context, dir string) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errors.New("start was broken off")}
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fmt.Errorf("damaged store: %v", p)}
			}
			done <- r
		}()
		e, err := embed.StartEtcd(s.config(dir))
		r = result{e, err}
	}()
	select {
	case r := <-done:
		if s.isFailed() {
			return nil, s.failErr
		}
		if r.err != nil {
			return nil, r.err
		}
		return r.etcd, s.awaitReady(ctx, r.etcd)
	case <-s.failed: // in another goroutine of etcd's: the one that starts it may wait for ever
		return nil, s.failErr
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Store) awaitReady(ctx context.Context, e *embed.Etcd) error {
	select {
	case <-e.Server.ReadyNotify():
		return nil
	case <-s.failed:
		return s.failErr
	case <-ctx.Done():
		e.Close()
		return ctx.Err()
	case <-time.After(60 * time.Second):
		e.Close()
		return errors.New("not ready within 60 s")
	}
}

// config describes one member without any listener: the client is in the process, and there are no peers. The
// advertised URL is a name in the member list only; nothing listens there.
func (s *Store) config(dir string) *embed.Config {
	c := embed.NewConfig()
	c.Name = "steer"
	c.Dir = filepath.Join(dir, "member")
	here := url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	c.ListenPeerUrls, c.ListenClientUrls = nil, nil
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = []url.URL{here}, []url.URL{here}
	c.InitialCluster = c.Name + "=" + here.String()
	c.InitialClusterToken = "steer"
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(bridge(s.log, s.fail))
	c.TickMs, c.ElectionMs = heartbeatMS, electionMS
	c.QuotaBackendBytes = s.quota
	c.MaxTxnOps, c.MaxRequestBytes = maxOps, maxRequestBytes
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotEvery, 100
	c.MaxSnapFiles, c.MaxWalFiles = 3, 3
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, "10m"
	c.BootstrapDefragThresholdMegabytes = defragAboveMiB
	c.EnableGRPCGateway = false
	c.CORS, c.HostWhitelist = map[string]struct{}{}, map[string]struct{}{}
	return c
}

// Relieve lets a store write again that was full, by dropping its history and, where that is not enough, the older half
// of the audit trail and then of the switch log, as often as it takes, archived or not: a store that takes no writes
// keeps every switch from being answered, and nothing an operator could delete would be taken either. A store that is
// not full is left as it is.
func (s *Store) Relieve(ctx context.Context) error {
	_, err := run(ctx, s, "relieve a full store", func(ctx context.Context) (struct{}, error) {
		alarms, err := s.client.AlarmList(ctx)
		if err != nil || len(alarms.Alarms) == 0 {
			return struct{}{}, err
		}
		size, err := s.shrink(ctx)
		for err == nil && size > s.quota*9/10 {
			var dropped int
			what := "audit trail"
			if dropped, err = s.dropOldHalf(ctx, auditPrefix); err == nil && dropped == 0 {
				what = "switch log"
				dropped, err = s.dropOldHalf(ctx, switchPrefix)
			}
			if err != nil {
				break
			}
			if dropped == 0 {
				return struct{}{}, fmt.Errorf("%d of %d bytes are in use after compaction", size, s.quota)
			}
			s.log.Warn("store full: the older half of a log is dropped from it", "log", what, "entries", dropped)
			size, err = s.shrink(ctx)
		}
		if err != nil {
			return struct{}{}, err
		}
		_, err = s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		return struct{}{}, err
	})
	return err
}

// shrink drops the history and gives the size that is left.
func (s *Store) shrink(ctx context.Context) (int64, error) {
	now, err := s.client.Get(ctx, Root, clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	if _, err := s.client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return 0, err
	}
	if err := s.etcd.Server.Backend().Defrag(); err != nil {
		return 0, err
	}
	return s.etcd.Server.Backend().Size(), nil
}

// dropOldHalf deletes the older half of a log and says how many entries that were. A deletion is taken by a full store
// too.
func (s *Store) dropOldHalf(ctx context.Context, prefix string) (int, error) {
	res, err := s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil || len(res.Kvs) == 0 {
		return 0, err
	}
	n := (len(res.Kvs) + 1) / 2
	_, err = s.client.Delete(ctx, prefix, clientv3.WithRange(string(res.Kvs[n-1].Key)+"\x00"))
	return n, err
}

// fail is called once etcd has given up: it would have ended the process, which answers DNS as well.
func (s *Store) fail(err error) {
	s.failOnce.Do(func() {
		s.failErr = fmt.Errorf("%w: %w", ErrUnavailable, err)
		close(s.failed)
	})
}

func (s *Store) isFailed() bool {
	select {
	case <-s.failed:
		return true
	default:
		return false
	}
}

// Failed is closed when the store has given up for good; only a new Open helps.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err says why the store has given up, or nil.
func (s *Store) Err() error {
	if s.isFailed() {
		return s.failErr
	}
	return nil
}

// Close stops the store; a second call does nothing. A store that gave up is left as it is: its locks may be held by
// goroutines that ended.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.stop() })
	return s.closeErr
}

func (s *Store) stop() error {
	if s.isFailed() {
		return s.failErr
	}
	_ = s.client.Close() // the in-process client holds no connection
	done := make(chan struct{})
	go func() { defer close(done); s.etcd.Close() }()
	select {
	case <-done:
		return nil
	case <-s.failed:
		return s.failErr
	case <-time.After(15 * time.Second):
		return fmt.Errorf("%w: does not stop", ErrUnavailable)
	}
}

// Size gives the bytes on disk and the quota.
func (s *Store) Size() (size, quota int64) {
	if s.isFailed() {
		return 0, s.quota
	}
	return s.etcd.Server.Backend().Size(), s.quota
}

// run does one operation with the time-out, in a goroutine of its own: a store that gave up may hold a lock for ever.
func run[T any](ctx context.Context, s *Store, what string, f func(context.Context) (T, error)) (T, error) {
	var zero T
	if s.isFailed() {
		return zero, fmt.Errorf("%s: %w: %w", what, ErrNotWritten, s.failErr)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f(ctx)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return zero, fmt.Errorf("%s: %w", what, translate(r.err))
		}
		return r.v, nil
	case <-s.failed:
		return zero, fmt.Errorf("%s: %w", what, s.failErr)
	case <-ctx.Done():
		return zero, fmt.Errorf("%s: %w: %w", what, ErrUnavailable, ctx.Err())
	}
}

// translate turns etcd's errors into ours.
func translate(err error) error {
	switch {
	case errors.Is(err, ErrConflict):
		return err
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%w: %w", ErrCompacted, err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
