package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// logged writes a switch log of n entries, a second apart from time 1000 on; each but the last is undone by the next.
func logged(t *testing.T, s *Store, n int) {
	t.Helper()
	for i := range n {
		id := func(i int) string { return formatID(time.Unix(1000+int64(i), 0).UnixNano()) }
		c := Commit{Rule: "a/b", Record: []byte("1"), Switches: []Entry{{ID: id(i), Value: []byte(fmt.Sprint(i))}}}
		if i > 0 {
			c.Undone = []Entry{{ID: id(i - 1), Value: []byte(fmt.Sprintf("%q", fmt.Sprint("by ", i)))}}
		}
		if _, err := s.CommitDecisions(t.Context(), []Commit{c}); err != nil {
			t.Fatal(err)
		}
	}
}

func revisionNow(t *testing.T, s *Store) int64 {
	t.Helper()
	_, rev, _, err := s.LogPage(t.Context(), SwitchLog, PartEntry, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// TestLogIsFollowed proves that a watch of a log gives each part in order, from any revision on, and nothing of other keys.
// Covers: B8
func TestLogIsFollowed(t *testing.T) {
	s := open(t, t.TempDir())
	logged(t, s, 3)
	if err := s.WritePublications(t.Context(), []Entry{{ID: formatID(7), Value: []byte(`"p"`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteResources(t.Context(), 0, []Write{put("Service", "x", 0, `{}`)}, []Audit{{Name: "x", Time: time.Unix(5, 0)}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	var last int64
	for news := range s.WatchLog(t.Context(), SwitchLog, 0) {
		if news.Err != nil {
			t.Fatal(news.Err)
		}
		for _, e := range news.Entries {
			got = append(got, fmt.Sprint(e.Part, string(e.Value)))
			if e.Revision < last {
				t.Errorf("revision %d after %d", e.Revision, last)
			}
			last = e.Revision
		}
		if len(got) >= 6 {
			break
		}
	}
	// Within one transaction the order is that of the keys' writes.
	if want := `[00 01 2"by 1" 02 2"by 2" 1"p"]`; fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	news := <-s.WatchLog(t.Context(), AuditLog, 0)
	if news.Err != nil || len(news.Entries) != 1 || news.Entries[0].Part != PartEntry || news.Revision != last+1 {
		t.Errorf("audit trail: %+v, want one line at revision %d", news, last+1)
	}
	if newest, err := s.Newest(t.Context(), AuditLog); err != nil || newest != last+1 {
		t.Errorf("newest audit line at %d, %v; want %d", newest, err, last+1)
	}
}

// TestCompactedLogIsSaid proves that a watch from a revision that is no longer kept ends with that reason, so that the
// reader copies the whole log instead of missing a part.
// Covers: B8
func TestCompactedLogIsSaid(t *testing.T) {
	s := open(t, t.TempDir())
	logged(t, s, 5)
	if _, err := s.client.Compact(t.Context(), revisionNow(t, s)); err != nil {
		t.Fatal(err)
	}
	w := s.WatchLog(t.Context(), SwitchLog, 1)
	if news := <-w; !errors.Is(news.Err, ErrCompacted) {
		t.Errorf("%+v, want that it is compacted", news)
	}
	if _, open := <-w; open {
		t.Error("the watch goes on after its error")
	}
}

// TestOnlyCopiedEntriesArePruned proves that pruning takes what is old and copied, and nothing else: not what is young,
// not a record written after the copy under an old ID, and never the newest entry, from which IDs go on.
// Covers: B8
func TestOnlyCopiedEntriesArePruned(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	logged(t, s, 10)
	copied := revisionNow(t, s)
	if err := s.WritePublications(t.Context(), []Entry{{ID: formatID(time.Unix(1001, 0).UnixNano()), Value: []byte(`"late"`)}}); err != nil {
		t.Fatal(err)
	}
	count := func(part Part) int {
		page, _, _, err := s.LogPage(t.Context(), SwitchLog, part, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(page)
	}
	if at, err := s.Pruned(t.Context()); err != nil || !at.IsZero() {
		t.Errorf("pruned before %v, %v; nothing was", at, err)
	}
	must(t, s.PruneLog(t.Context(), SwitchLog, time.Unix(2000, 0), 0))
	if n := count(PartEntry); n != 10 {
		t.Errorf("%d entries after pruning what nobody copied, want 10", n)
	}
	must(t, s.PruneLog(t.Context(), SwitchLog, time.Unix(1004, 0), copied))
	if n := count(PartEntry); n != 6 {
		t.Errorf("%d entries, want the 6 of second 1004 and later", n)
	}
	if n := count(PartPublication); n != 1 {
		t.Errorf("the publication that came after the copy is gone")
	}
	if at, err := s.Pruned(t.Context()); err != nil || !at.Equal(time.Unix(1004, 0)) {
		t.Errorf("pruned before %v, %v; want 1004", at, err)
	}
	must(t, s.PruneLog(t.Context(), SwitchLog, time.Unix(3000, 0), revisionNow(t, s)))
	if n := count(PartEntry); n != 1 {
		t.Errorf("%d entries, want the newest alone", n)
	}
	must(t, s.Close())
	if next := open(t, dir).NextID(time.Unix(0, 0)); next <= formatID(time.Unix(1009, 0).UnixNano()) {
		t.Errorf("ID %s comes again after a restart", next)
	}
}

// TestSwitchLogGivesWay proves that a store filled by a switch log that nobody could copy takes writes again: steering
// matters more than its history.
// Covers: issue2 disk full
func TestSwitchLogGivesWay(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir(), Quota: 8 << 20, Timeout: 30 * time.Second}, open(t, t.TempDir()).log)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	value, err := json.Marshal(string(make([]byte, 64<<10)))
	must(t, err)
	i := 0
	for err = nil; err == nil && i < 1000; i++ {
		_, err = s.CommitDecisions(t.Context(), []Commit{{Rule: "a/b", Record: []byte("1"), Switches: []Entry{{ID: formatID(int64(i)), Value: value}}}})
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("%v, want that it is full", err)
	}
	must(t, s.Relieve(t.Context()))
	if _, err := s.CommitDecisions(t.Context(), []Commit{{Rule: "a/b", Record: []byte("2")}}); err != nil {
		t.Errorf("after relief: %v", err)
	}
	newest, err := s.client.Get(t.Context(), switchPrefix+formatID(int64(i-2)), clientv3.WithCountOnly())
	if err != nil || newest.Count != 1 {
		t.Errorf("the newest switch is gone: %v", err)
	}
}
