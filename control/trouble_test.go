package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
)

// refusing is a store that refuses decisions while it is told to.
type refusing struct {
	*store.Store
	off atomic.Bool
}

var errDisk = errors.New("no space left on device")

func (s *refusing) CommitDecisions(ctx context.Context, c []store.Commit) (int, error) {
	if s.off.Load() {
		return 0, fmt.Errorf("%w: %w", store.ErrUnavailable, errDisk)
	}
	return s.Store.CommitDecisions(ctx, c)
}

func (r *rig) alarmed(code string) bool {
	r.t.Helper()
	s, err := r.client.Status(r.t.Context(), api.StatusParams{})
	return err == nil && slices.ContainsFunc(s.Alarms, func(a api.Alarm) bool { return a.Code == code })
}

// TestStoreRefuses proves that with a store that takes no writes nothing uncommitted is published, name servers keep
// the last answers, the operator is told, and everything follows in order once the store is back.
// Covers: field 33, issue2 disk full
func TestStoreRefuses(t *testing.T) {
	t.Parallel()
	var s refusing
	r := start(t, t.TempDir(), nil, func(_ *Config, d *Deps) {
		d.store = func(real *store.Store) committer { s.Store = real; return &s }
	})
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	s.off.Store(true)
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.await("the alarm", func() bool { return r.alarmed(api.AlarmStore) })
	st := r.rule("shop", "default")
	if st.Edge != "west" || !st.Pending {
		t.Errorf("evaluation stopped, or the decision does not show as pending: %+v", st)
	}
	if d, _, _ := r.out.latest(); answerOf(d, "shop", "default")[0].String() != "192.0.2.1" {
		t.Errorf("an uncommitted decision was published: %v", answerOf(d, "shop", "default"))
	}
	if n := len(r.switches()); n != 0 {
		t.Errorf("%d switches in the log", n)
	}
	r.down("192.0.2.2", "192.0.2.3", "192.0.2.4") // a second switch while the first one waits
	if st := r.rule("shop", "default"); st.Edge != "south" {
		t.Errorf("second switch: %+v", st)
	}
	s.off.Store(false)
	r.awaitAnswer("shop", "default", "192.0.2.3", "192.0.2.4")
	r.await("both switches in the log", func() bool {
		list := r.switches()
		return len(list) == 2 && list[0].To == "south" && list[1].To == "west" && list[1].Undone != nil && list[0].Publication != nil
	})
	r.await("the alarm over", func() bool { return !r.alarmed(api.AlarmStore) })
}

// TestPublisherRefuses proves that a map that is not taken is an alarm and is tried again, with its switches.
// Covers: field 33
func TestPublisherRefuses(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	r.out.fail(errors.New("no"))
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.await("the alarm", func() bool { return r.alarmed(api.AlarmPublish) })
	r.out.fail(nil)
	r.awaitAnswer("shop", "default", "192.0.2.2")
	r.await("publication", func() bool { l := r.switches(); return len(l) == 1 && l[0].Publication != nil })
}

// TestDiskFull proves on a really full disk that the process lives on, answers stay, writes are refused by name, and
// that nothing acknowledged is lost for the process that starts when there is room again.
// Covers: issue2 disk full
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=160m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	// The write-ahead log is laid out in advance: it takes some writes until it needs room.
	big := strings.Repeat("x", 200_000)
	var err error
	for i := 0; err == nil && i < 2000; i++ {
		_, err = r.store.CommitDecisions(t.Context(), []store.Commit{{Rule: fmt.Sprintf("z/r%d", i), Record: []byte(big)}})
	}
	if err == nil {
		t.Fatal("a full disk takes every write")
	}
	_, err = r.client.Apply(t.Context(), request(strings.Replace(shopYAML, "192.0.2.1]", "192.0.2.8]", 1)))
	p := wantCode(t, "apply on a full disk", err, 503, api.CodeStoreUnavailable)
	if !strings.Contains(p.Detail, "space") {
		t.Errorf("the problem does not say why: %s", p.Detail)
	}
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.await("the alarm", func() bool { return r.alarmed(api.AlarmStore) })
	if d, _, _ := r.out.latest(); answerOf(d, "shop", "default")[0].String() != "192.0.2.1" {
		t.Errorf("answers changed: %v", answerOf(d, "shop", "default"))
	}
	r.stop()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// The store that gave up keeps its locks until the process ends, so the next process is played on a copy.
	next := filepath.Join(t.TempDir(), "next")
	if out, err := exec.Command("cp", "-a", dir, next).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again := start(t, next, r.clocks)
	if st := again.rule("shop", "default"); st.Edge != "east" {
		t.Errorf("after there is room again: %+v", st)
	}
	again.apply(strings.Replace(shopYAML, "192.0.2.1]", "192.0.2.8]", 1))
}

// fill writes until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4096, 1} {
		for {
			if _, err := io.WriteString(f, strings.Repeat("x", size)); err != nil {
				break
			}
		}
	}
}

// TestReadOnlyFolder proves that a folder that cannot be written is refused by name, and nothing is left behind.
// Covers: issue2 data folder
func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=1m"); err != nil {
		t.Skipf("a read-only file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	for _, data := range []string{dir, filepath.Join(dir, "below")} {
		_, err := New(t.Context(), Config{Data: data, Listen: "127.0.0.1:0"}, Deps{})
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// TestFullStoreStarts proves that a process starts on a store that is full of what must be kept, and says so: the name
// server in it answers on by the map on disk.
// Covers: issue2 disk full
func TestFullStoreStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small := func(c *Config, _ *Deps) { c.StoreQuota = 8 << 20 }
	r := start(t, dir, nil, small)
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	value := []byte(strings.Repeat("x", 200_000))
	full := false // also after its history is dropped
	for i := 0; !full && i < 500; i++ {
		err := r.store.WritePublications(t.Context(), []store.Entry{{ID: fmt.Sprintf("%016x", i), Value: value}})
		if err != nil && !errors.Is(err, store.ErrFull) {
			t.Fatal(err)
		}
		full = err != nil && r.store.Relieve(t.Context()) != nil
	}
	last, _, _ := r.out.latest()
	r.stop()
	again := start(t, dir, r.clocks, small)
	again.await("the alarm", func() bool { return again.alarmed(api.AlarmStore) })
	if next := again.answers.newest() + 1; next <= last.Version {
		t.Errorf("the next map is %d, and there was a map %d", next, last.Version)
	}
	if st := again.rule("shop", "default"); st.Edge != "east" {
		t.Errorf("after the restart: %+v", st)
	}
}

// TestDeadlinesPublishNoVerdict proves that a deadline that comes up to date publishes nothing of what waits for the
// store: here that every edge is down, which a rule with whenAllDown: empty answers with nothing, without a switch.
// Covers: field 33, issue2 disk full
func TestDeadlinesPublishNoVerdict(t *testing.T) {
	t.Parallel()
	var s refusing
	r := start(t, t.TempDir(), nil, func(_ *Config, d *Deps) {
		d.store = func(real *store.Store) committer { s.Store = real; return &s }
	})
	r.apply(zoneYAML, strings.Replace(shopYAML, "mode: failover", "mode: failover\n    whenAllDown: empty", 1))
	r.all()
	r.awaitAnswer("shop", "default", "192.0.2.1")
	if _, err := r.client.Freeze(t.Context(), api.FreezeRequest{Target: "shop/default", For: "10s", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	s.off.Store(true)
	for range 3 {
		r.pass(time.Second)
		for _, address := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"} {
			r.see(address, false)
		}
	}
	if st := r.rule("shop", "default"); !st.AllDown || !st.Frozen {
		t.Fatalf("every edge is down and the rule frozen: %+v", st)
	}
	r.pass(8 * time.Second) // the freeze ends: the answer could change soon
	_, _, n := r.out.latest()
	r.answers.mark()
	r.await("a publication", func() bool { _, _, m := r.out.latest(); return m > n })
	if d, _, _ := r.out.latest(); len(answerOf(d, "shop", "default")) == 0 {
		t.Error("an answer that is not written is published")
	}
	s.off.Store(false)
	r.await("the empty answer", func() bool { d, _, _ := r.out.latest(); return len(answerOf(d, "shop", "default")) == 0 })
}

// TestVersionsCatchUp proves that versions used beyond what was reserved are reserved as soon as the store takes writes:
// the process after this one must not give them out again.
// Covers: issue2 disk full
func TestVersionsCatchUp(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	c := &Control{store: r.store, log: r.log}
	used, err := c.store.NextVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	used += 5 * versionBlock
	c.answers.start(used, 0, nil)
	for tries := 0; c.answers.needVersions() > 0; tries++ {
		if tries > 2 {
			t.Fatalf("%d versions are missing still", c.answers.needVersions())
		}
		c.reserve(t.Context(), c.answers.needVersions())
	}
	if next, err := c.store.NextVersion(t.Context()); err != nil || next <= used {
		t.Errorf("the next process begins with %d, and %d was used: %v", next, used, err)
	}
}
