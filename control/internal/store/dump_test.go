package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// dumped gives every pair of a store.
func dumped(t *testing.T, s *Store) (pairs []Pair, revision int64) {
	t.Helper()
	revision, err := s.Dump(t.Context(), func(p Pair) error { pairs = append(pairs, p); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return pairs, revision
}

func nextOf(pairs []Pair) func() (Pair, error) {
	return func() (Pair, error) {
		if len(pairs) == 0 {
			return Pair{}, io.EOF
		}
		p := pairs[0]
		pairs = pairs[1:]
		return p, nil
	}
}

// TestRestoredStoreIsTheSame proves that a restored store has every key with its revisions, goes on above all of them, has
// skipped the map versions it was told to, and tells a follower from before that it has to read anew.
// Covers: issue4 backup
func TestRestoredStoreIsTheSame(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	for i := range 1200 { // more than a page; several of one transaction
		ops := []clientv3.Op{
			clientv3.OpPut(fmt.Sprintf("%sresources/Service/s%04d", Root, i/2), fmt.Sprint("v", i)), clientv3.OpPut(Root+"decisions/a/b", string([]byte{0xff, byte(i)})),
		}
		if _, err := s.commit(ctx, "test", nil, ops); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.ReserveVersions(ctx, 41); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Delete(ctx, Root+"resources/Service/s0001"); err != nil { // the newest revision is one of no key
		t.Fatal(err)
	}
	want, revision := dumped(t, s)
	dir := filepath.Join(t.TempDir(), "etcd")
	r := Restoration{Revision: revision, SkipRevisions: 1000, SkipVersions: 500}
	if err := Restore(ctx, Config{Dir: dir, Timeout: time.Minute}, r, nextOf(slices.Clone(want)), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also after a restart
		again := open(t, dir)
		got, now := dumped(t, again)
		if now != revision+1000 || len(got) != len(want) {
			t.Fatalf("%d keys at revision %d, want %d at %d", len(got), now, len(want), revision+1000)
		}
		for i := range got {
			w := want[i]
			if v, ok := w.MapVersion(); ok {
				w.Value = []byte(fmt.Sprint(v + 500))
			}
			if got[i].Key != w.Key || string(got[i].Value) != string(w.Value) || got[i].Written != w.Written || got[i].Created != w.Created || got[i].Version != w.Version {
				t.Errorf("%+v, want %+v", got[i], w)
			}
		}
		if news := <-again.WatchLog(ctx, SwitchLog, revision-5); !errors.Is(news.Err, ErrCompacted) {
			t.Errorf("a follower from before: %+v", news)
		}
		must(t, again.Close())
	}
	again := open(t, dir)
	if first, err := again.ReserveVersions(ctx, 10); err != nil || first != 42+500 {
		t.Errorf("map versions go on with %d, %v; want 542", first, err)
	}
	rev, err := again.commit(ctx, "test", nil, []clientv3.Op{clientv3.OpPut(Root+"resources/Service/s0001", "again")})
	if err != nil || rev != revision+1000+2 {
		t.Errorf("revision %d, %v; want %d", rev, err, revision+1002)
	}
	if _, err := again.client.Compact(ctx, rev); err != nil {
		t.Errorf("compaction: %v", err)
	}
	if got, _ := dumped(t, again); len(got) != len(want)+1 {
		t.Errorf("%d keys after compaction, want %d", len(got), len(want)+1)
	}
}

// TestRestoreOfNonsense proves that pairs which no store can hold are refused.
// Covers: issue4 backup
func TestRestoreOfNonsense(t *testing.T) {
	for _, p := range []Pair{
		{Key: "elsewhere", Created: 1, Written: 1, Version: 1},
		{Key: Root + "a", Created: 0, Written: 1, Version: 1},
		{Key: Root + "a", Created: 2, Written: 1, Version: 1},
		{Key: Root + "a", Created: 1, Written: 11, Version: 1},
		{Key: Root + "a", Created: 1, Written: 1},
	} {
		err := Restore(t.Context(), Config{Dir: t.TempDir()}, Restoration{Revision: 10}, nextOf([]Pair{p}), slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}
