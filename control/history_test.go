package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"steerpoint/control/api"
	"steerpoint/control/internal/archive"
	"steerpoint/control/internal/store"
)

func ok[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// shopN is the shop with another number in a label, so that every n is a revision of its own.
func shopN(n int) string {
	return strings.Replace(shopYAML, "name: shop\n", fmt.Sprintf("name: shop\nlabels: {n: %q}\n", fmt.Sprint(n)), 1)
}

// caughtUp waits until the archive has everything that is stored.
func (r *rig) caughtUp() {
	r.t.Helper()
	r.await("the archive", func() bool {
		for l, name := range logNames {
			cursor, err := r.history.file.Cursor(r.t.Context(), name)
			if err != nil || r.Control.lastOf(r.t, store.Log(l)) > cursor {
				return false
			}
		}
		return true
	})
}

// lastOf is the revision of the newest record of a log in the store.
func (c *Control) lastOf(t *testing.T, l store.Log) (last int64) {
	t.Helper()
	parts := []store.Part{store.PartEntry, store.PartPublication, store.PartUndone}
	if l == store.AuditLog {
		parts = parts[:1]
	}
	for _, part := range parts {
		page, _, _, err := c.store.LogPage(t.Context(), l, part, "", 100_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			last = max(last, e.Revision)
		}
	}
	return last
}

// forget makes the store drop everything that is copied, as if it were old.
func (r *rig) forget() {
	r.t.Helper()
	r.caughtUp()
	r.clocks.pass(2 * storeKeeps)
	if err := r.forgetCopied(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) alarmText(code string) string {
	r.t.Helper()
	s := ok[api.Status](r.t)(r.client.Status(r.t.Context(), api.StatusParams{}))
	for _, a := range s.Alarms {
		if a.Code == code {
			return a.Message
		}
	}
	return ""
}

func (r *rig) revisions(kind, name string) []api.Revision {
	r.t.Helper()
	return ok[api.RevisionPage](r.t)(r.client.History(r.t.Context(), kind, name, api.HistoryParams{})).Revisions
}

// TestHistoryTellsWhatChanged proves that every write of a resource is a revision with its actor, its time and what it
// changed in the operator's words, readable as soon as it is written, page by page.
// Covers: issue4 history
func TestHistoryTellsWhatChanged(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	first := r.apply(zoneYAML, shopYAML)
	second := r.apply(zoneYAML, strings.Replace(shopYAML, "192.0.2.1]", "192.0.2.9]", 1))
	list := r.revisions("services", "shop")
	if len(list) != 2 || list[0].Revision != second.Revision || list[1].Revision != first.Revision {
		t.Fatalf("%+v, want revisions %d and %d", list, second.Revision, first.Revision)
	}
	if l := list[0]; l.Actor != "tester" || l.Action != api.ActionUpdate || !l.Current || len(l.Lines) != 1 || !strings.Contains(l.Lines[0], "[192.0.2.1] -> [192.0.2.9]") || l.Time.IsZero() {
		t.Errorf("the newest: %+v", l)
	}
	if l := list[1]; l.Action != api.ActionCreate || l.Current || fmt.Sprint(l.Lines) != "[created]" {
		t.Errorf("the first: %+v", l)
	}
	page := ok[api.RevisionPage](t)(r.client.History(t.Context(), "service", "shop", api.HistoryParams{Limit: 1}))
	if len(page.Revisions) != 1 || page.Revisions[0].Lines[0] != list[0].Lines[0] || page.Next == "" {
		t.Errorf("the first page of one: %+v", page)
	}
	page = ok[api.RevisionPage](t)(r.client.History(t.Context(), "service", "shop", api.HistoryParams{Cursor: page.Next, Limit: 1}))
	if len(page.Revisions) != 1 || page.Revisions[0].Revision != first.Revision || page.Next != "" {
		t.Errorf("the second: %+v", page)
	}
	one := ok[api.Revision](t)(r.client.HistoryRevision(t.Context(), "service", "shop", first.Revision))
	if !bytes.Contains(one.Document, []byte("192.0.2.1\"")) {
		t.Errorf("the document of the first revision: %s", one.Document)
	}
	_, err := r.client.HistoryRevision(t.Context(), "service", "shop", first.Revision-1)
	wantCode(t, "a revision that never was", err, 404, api.CodeNotFound)
	_, err = r.client.History(t.Context(), "service", "nobody", api.HistoryParams{})
	wantCode(t, "a resource that never was", err, 404, api.CodeNotFound)
	_, err = r.client.History(t.Context(), "thing", "shop", api.HistoryParams{})
	wantCode(t, "a kind that is none", err, 404, api.CodeNotFound)
}

// TestRollback proves that an earlier revision is written again as a new one, by plan and compare-and-set like any write;
// that a deleted resource comes back; and that what does not fit the rest any more is refused.
// Covers: issue4 rollback
func TestRollback(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	first := r.apply(zoneYAML, shopYAML)
	r.apply(zoneYAML, strings.Replace(shopYAML, "192.0.2.1]", "192.0.2.9]", 1))
	r.awaitAnswer("shop", "default", "192.0.2.9")
	back := api.RollbackRequest{Kind: "service", Name: "shop", Revision: first.Revision, DryRun: true}
	plan := ok[api.Plan](t)(r.client.Rollback(ctx, back))
	if len(plan.Changes) != 1 || plan.Applied || !strings.Contains(plan.Changes[0].Lines[0], "[192.0.2.9] -> [192.0.2.1]") {
		t.Fatalf("plan: %+v", plan)
	}
	if n := len(r.revisions("service", "shop")); n != 2 {
		t.Errorf("a dry run wrote: %d revisions", n)
	}
	back.DryRun, back.Base = false, plan.Base
	_, err := r.client.Rollback(ctx, back)
	wantCode(t, "without a reason", err, 422, api.CodeBadRequest)
	back.Reason = "it was better"
	r.apply(strings.Replace(shopYAML, "192.0.2.1]", "192.0.2.8]", 1))
	_, err = r.client.Rollback(ctx, back)
	wantCode(t, "after somebody wrote", err, 409, api.CodeConflict)
	back.Base = 0
	done := ok[api.Plan](t)(r.client.Rollback(ctx, back))
	r.awaitAnswer("shop", "default", "192.0.2.1")
	newest := r.revisions("service", "shop")[0]
	if newest.Revision != done.Revision || newest.Reason != fmt.Sprintf("back to revision %d: it was better", first.Revision) || !newest.Current {
		t.Errorf("the rollback's revision: %+v, want %d", newest, done.Revision)
	}
	// The set that owns it owns it still: prune without it deletes it.
	if s := ok[api.Resource](t)(r.client.Get(ctx, "service", "shop")); s.ApplySet != "default" {
		t.Errorf("apply set %q", s.ApplySet)
	}

	if err := r.client.Delete(ctx, "service", "shop", 0); err != nil {
		t.Fatal(err)
	}
	gone := r.revisions("service", "shop")[0]
	if gone.Action != api.ActionDelete || gone.Current || fmt.Sprint(gone.Lines) != "[deleted]" {
		t.Errorf("the deletion: %+v", gone)
	}
	_, err = r.client.Rollback(ctx, api.RollbackRequest{Kind: "service", Name: "shop", Revision: gone.Revision, Reason: "x"})
	wantCode(t, "to the deletion", err, 422, api.CodeBadRequest)
	ok[api.Plan](t)(r.client.Rollback(ctx, back))
	r.awaitAnswer("shop", "default", "192.0.2.1")

	// Another service took the domain meanwhile: the earlier revision is invalid now.
	if err := r.client.Delete(ctx, "service", "shop", 0); err != nil {
		t.Fatal(err)
	}
	r.apply(strings.Replace(shopYAML, "name: shop\n", "name: other\n", 1))
	_, err = r.client.Rollback(ctx, back)
	wantCode(t, "a domain that is taken", err, 422, api.CodeInvalid)
	_, err = r.client.Get(ctx, "service", "shop")
	wantCode(t, "nothing was written", err, 404, api.CodeNotFound)
}

// TestAuditTrail proves that the trail names every write, and is narrowed by time, kind, name and actor, page by page.
// Covers: issue4 audit
func TestAuditTrail(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	r.apply(zoneYAML, shopYAML)
	r.clocks.pass(time.Hour)
	if _, err := r.client.WithActor("anna").Freeze(ctx, api.FreezeRequest{Target: "shop", For: "1h", Reason: "night"}); err != nil {
		t.Fatal(err)
	}
	for q, want := range map[api.AuditParams]string{
		{}:                "[create Override create Service create Zone]",
		{Kind: "zones"}:   "[create Zone]",
		{Kind: "SERVICE"}: "[create Service]",
		{Name: "shop"}:    "[create Service]",
		{Actor: "anna"}:   "[create Override]",
		{Actor: "nobody"}: "[]",
		{Since: api.TimeParam(r.clock.Moment().Wall.Add(-time.Minute))}: "[create Override]",
	} {
		var got []string
		for q.Limit = 1; ; {
			page := ok[api.AuditPage](t)(r.client.Audit(ctx, q))
			for _, l := range page.Lines {
				got = append(got, l.Action+" "+l.Kind)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		slices.Sort(got)
		if fmt.Sprint(got) != want {
			t.Errorf("%+v: %v, want %s", q, got, want)
		}
	}
	_, err := r.client.Audit(ctx, api.AuditParams{Cursor: "x"})
	wantCode(t, "a cursor that is none", err, 422, api.CodeBadRequest)
}

// TestOneSwitchLog proves that the switch log reads the same whether the store has an entry, the archive, or each a part:
// same entries, same pages, and the end of an old switch known at once.
// Covers: B8, issue4 history
func TestOneSwitchLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	edges := []string{"west", "south", "east"}
	move := func(n int) {
		t.Helper()
		if _, err := r.client.Force(t.Context(), api.ForceRequest{Rule: "shop/default", Edge: edges[n%3], Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		r.clocks.pass(time.Minute)
		r.await("the switch", func() bool { l := r.switches(); return len(l) == n+1 && l[0].Publication != nil })
	}
	for n := range 6 {
		move(n)
	}
	before := r.switches()
	r.forget()
	if page, _, err := r.store.SwitchPage(t.Context(), "", time.Time{}, 100, func(json.RawMessage) bool { return true }); err != nil || len(page) != 1 {
		t.Fatalf("the store keeps %d switches, %v; want the newest alone", len(page), err)
	}
	if diff := cmp.Diff(before, r.switches()); diff != "" {
		t.Errorf("after the store forgot: %s", diff)
	}
	move(6)
	all := r.switches()
	if len(all) != 7 || all[1].Undone == nil || all[1].Undone.By != all[0].ID {
		t.Errorf("the newest two: %+v", all[:2])
	}
	var paged []api.Switch
	for q := (api.SwitchesParams{Limit: 2, Service: "shop"}); ; {
		p := ok[api.SwitchPage](t)(r.client.Switches(t.Context(), q))
		paged = append(paged, p.Switches...)
		if q.Cursor = p.Next; q.Cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(all, paged); diff != "" {
		t.Errorf("by pages it is not what it is at once: %s", diff)
	}
	r.caughtUp()
	r.stop()
	again := start(t, dir, r.clocks)
	if diff := cmp.Diff(all, again.switches()); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
}

// TestOlderFolderIsFilled proves that a folder without history.db gets one with all that the store has, and that resources
// no audit line tells of any more are in it.
// Covers: issue4 history
func TestOlderFolderIsFilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopN(1))
	r.apply(shopN(2))
	if _, err := r.client.Force(t.Context(), api.ForceRequest{Rule: "shop/default", Edge: "west", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	r.await("the switch", func() bool { l := r.switches(); return len(l) == 1 && l[0].Publication != nil })
	want := fmt.Sprint(r.revisions("service", "shop"), r.revisions("zone", "gslb"))
	r.caughtUp()
	r.stop()
	removeHistory(t, dir)
	again := start(t, dir, r.clocks)
	again.caughtUp()
	if got := fmt.Sprint(again.revisions("service", "shop"), again.revisions("zone", "gslb")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	rows := ok[[]archive.SwitchRow](t)(again.history.file.Switches(t.Context(), archive.SwitchQuery{Limit: 10}))
	if len(rows) != 1 || rows[0].Publication == nil {
		t.Errorf("switches in the archive: %v", rows)
	}
	if m := again.alarmText(api.AlarmHistoryLost); m != "" {
		t.Errorf("nothing is lost, and the alarm says %s", m)
	}

	again.forget()
	again.stop()
	removeHistory(t, dir)
	third := start(t, dir, r.clocks)
	third.caughtUp()
	list := third.revisions("service", "shop")
	if len(list) != 1 || !list[0].Current || fmt.Sprint(list[0].Lines) != "[in force when history began]" || list[0].Actor != "tester" {
		t.Errorf("of a resource whose writes are forgotten: %+v", list)
	}
	if m := third.alarmText(api.AlarmHistoryLost); !strings.Contains(m, "history.db was missing") {
		t.Errorf("the alarm says %q", m)
	}
}

func removeHistory(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "history.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no history: %v", err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedHistory proves that a damaged history stops nothing: the file is set aside and named, a new one begins with
// what the store has, at the start and while the process runs.
// Covers: issue2 state files, issue4 damage
func TestDamagedHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "history.db")
	r := start(t, dir, nil)
	for n := range 30 {
		r.apply(zoneYAML, shopN(n))
	}
	r.caughtUp()
	r.stop()
	if err := os.WriteFile(path, bytes.Repeat([]byte("garbage "), 1<<12), 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, dir, r.clocks)
	again.caughtUp()
	if n := len(again.revisions("service", "shop")); n != 30 {
		t.Errorf("%d revisions after a damaged file, want the 30 the store has", n)
	}
	m := again.alarmText(api.AlarmHistoryLost)
	_, name, _ := strings.Cut(m, "set aside as ")
	name, _, _ = strings.Cut(name, ";")
	if b, err := os.ReadFile(name); err != nil || !bytes.HasPrefix(b, []byte("garbage ")) {
		t.Errorf("the alarm says %q; file: %v", m, err)
	}

	// While it runs: everything but the header is overwritten, as a bad disk would, in file and log.
	if err := again.history.file.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, int(info.Size())-4096), 4096)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	again.apply(shopN(100))
	again.await("the second file set aside", func() bool { // by a reader that does not remember what was there
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { _, _ = again.client.History(t.Context(), "service", "shop", api.HistoryParams{}) })
		}
		wg.Wait()
		aside, err := filepath.Glob(path + ".damaged-*")
		return err == nil && len(aside) >= 2
	})
	again.await("a new history", func() bool {
		page, err := again.client.History(t.Context(), "service", "shop", api.HistoryParams{})
		return err == nil && len(page.Revisions) == 31
	})
	again.await("no alarm of writing", func() bool { return !again.alarmed(api.AlarmHistory) })
}

// TestHistoryRemovedWhileRunning proves that a history file that is removed under the process is begun anew.
// Covers: issue4 damage
func TestHistoryRemovedWhileRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopN(1))
	r.caughtUp()
	removeHistory(t, dir)
	if err := r.lookAtHistory(t.Context()); !errors.Is(err, errHistoryMoved) {
		t.Fatalf("%v, want that it was removed", err)
	}
	r.apply(shopN(2)) // the writer meets the closed file
	r.await("both revisions in a new file", func() bool {
		page, err := r.client.History(t.Context(), "service", "shop", api.HistoryParams{})
		return err == nil && len(page.Revisions) == 2
	})
	if _, err := os.Stat(filepath.Join(dir, "history.db")); err != nil {
		t.Error(err)
	}
}

// TestHistoryDiskFull proves that a history that cannot be written is an alarm and nothing else: switches are decided,
// published and listed, resources are written, the store keeps what is missing and forgets none of it, and all of it is in
// the history once there is room.
// Covers: issue2 disk full, issue4 disk full
func TestHistoryDiskFull(t *testing.T) {
	t.Parallel()
	dir, small := t.TempDir(), t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	if err := os.Symlink(filepath.Join(small, "history.db"), filepath.Join(dir, "history.db")); err != nil {
		t.Fatal(err)
	}
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	r.caughtUp()
	filler := filepath.Join(small, "filler")
	fill(t, filler)
	n := 0
	r.await("the alarm", func() bool { // what is open has some room left
		n++
		r.apply(shopN(n))
		return r.alarmed(api.AlarmHistory)
	})
	if m := r.alarmText(api.AlarmHistory); !strings.Contains(m, "full") {
		t.Errorf("the alarm says %q", m)
	}
	raised := r.feed.Last()
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.awaitAnswer("shop", "default", "192.0.2.2")
	r.await("the switch in the log", func() bool { return len(r.switches()) == 1 })
	late := strings.Replace(shopYAML, "name: shop\n", "name: late\n", 1)
	r.apply(strings.Replace(late, "shop.example.com]", "late.example.com]", 1))
	_, err := r.client.History(t.Context(), "service", "late", api.HistoryParams{Limit: 10})
	wantCode(t, "a resource that is written and not copied", err, 503, api.CodeNoHistory)
	r.clocks.pass(2 * storeKeeps)
	_ = r.forgetCopied(t.Context()) // fails, or forgets what is copied; the count below says that no more is gone
	if behind, err := r.historyBehind(t.Context()); err != nil || !behind {
		t.Errorf("the next try would take the alarm away: %v, %v", behind, err)
	}
	if err := r.historyKept(t.Context()); err != nil { // as after a small line of the other log that did fit
		t.Error(err)
	}
	events, _, _ := r.feed.After(raised, 10_000)
	for _, e := range events {
		if e.Code == api.AlarmHistory {
			t.Errorf("the disk is full all the time, and the alarm went or came: %+v", e)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r.await("the alarm over", func() bool { r.apply(shopN(n)); return !r.alarmed(api.AlarmHistory) })
	r.caughtUp()
	r.await("nothing behind", func() bool {
		behind, err := r.historyBehind(t.Context())
		return err == nil && !behind
	})
	if list := r.revisions("service", "shop"); len(list) != n+1 {
		t.Errorf("%d revisions, want %d", len(list), n+1)
	}
	rows := ok[[]archive.SwitchRow](t)(r.history.file.Switches(t.Context(), archive.SwitchQuery{Limit: 10}))
	if len(rows) != 1 {
		t.Errorf("%d switches in the history, want 1", len(rows))
	}
}

// TestNewerHistory proves that a history of a newer program is left alone, named, and holds nothing else up.
// Covers: issue4 migration
func TestNewerHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	r.caughtUp()
	r.stop()
	path := filepath.Join(dir, "history.db")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{0, 0, 0, 99}, 60) // the version in an SQLite header
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	before := ok[[]byte](t)(os.ReadFile(path))
	again := start(t, dir, r.clocks)
	again.apply(shopN(1))
	again.awaitAnswer("shop", "default", "192.0.2.1")
	again.await("the alarm", func() bool { return strings.Contains(again.alarmText(api.AlarmHistory), "newer") })
	_, err = again.client.History(t.Context(), "service", "shop", api.HistoryParams{})
	wantCode(t, "history", err, 503, api.CodeNoHistory)
	again.stop()
	if after := ok[[]byte](t)(os.ReadFile(path)); !bytes.Equal(before, after) {
		t.Error("the file was changed")
	}
}

// TestRestoredStoreIsCopiedAnew proves that a store which is behind the archive, put back from a backup, is copied whole:
// waiting for its old revision would miss everything written until then.
// Covers: issue4 history
func TestRestoredStoreIsCopiedAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopN(1))
	r.caughtUp()
	for _, err := range []error{r.history.file.WriteAudit(t.Context(), nil, 1<<40), r.history.file.WriteSwitches(t.Context(), nil, 1<<40)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
	again := start(t, dir, r.clocks)
	again.apply(shopN(2))
	if n := len(again.revisions("service", "shop")); n != 2 {
		t.Errorf("%d revisions, want 2", n)
	}
}

// TestRedact proves that only documents of kinds known to be open are kept, and of others no more than their envelope.
// Covers: issue4 history
func TestRedact(t *testing.T) {
	doc := json.RawMessage(`{"kind":"Service","name":"x","edges":[]}`)
	if got := redact("Service", doc); !bytes.Equal(got, doc) {
		t.Errorf("a service became %s", got)
	}
	got := redact("Secret", json.RawMessage(`{"kind":"Secret","name":"x","data":{"key":"hidden"}}`))
	if string(got) != `{"kind":"Secret","name":"x"}` {
		t.Errorf("a secret became %s", got)
	}
	if got := redact("Secret", json.RawMessage(`"hidden"`)); string(got) != `{}` {
		t.Errorf("what cannot be read became %s", got)
	}
	if redact("Secret", nil) != nil {
		t.Error("a deletion became a document")
	}
}

// TestKillLosesNoHistory kills a process while it writes, again and again: whatever the store acknowledged is in the history
// of the next one, each write once. STEER_LONG=1 makes it 10 times.
// Covers: issue2 kill9, issue4 history
func TestKillLosesNoHistory(t *testing.T) {
	t.Parallel()
	rounds := 3
	if os.Getenv("STEER_LONG") != "" {
		rounds = 10
	}
	self := ok[string](t)(os.Executable())
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range rounds {
		a := killOne(t, self, dir, time.Duration(rnd.IntN(300))*time.Millisecond)
		c, err := New(t.Context(), Config{Data: dir, Listen: "127.0.0.1:0"}, Deps{
			Publisher: &takes{}, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatalf("round %d: start after a kill: %v", round, err)
		}
		for l := range logNames {
			ok[int64](t)(c.catchUp(t.Context(), store.Log(l)))
		}
		checkArchive(t, c, a.revision)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkArchive follows both logs to their end and compares the archive with the store, which forgot nothing yet.
func checkArchive(t *testing.T, c *Control, acknowledged int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for l := range logNames {
		last := c.lastOf(t, store.Log(l))
		after := ok[int64](t)(c.history.file.Cursor(ctx, logNames[l]))
		w := c.store.WatchLog(ctx, store.Log(l), after)
		for after < last {
			n, open := <-w
			if err := c.archiveNews(ctx, store.Log(l), n, open); err != nil {
				t.Fatal(err)
			}
			after = n.Revision
		}
	}
	stored, _, _, err := c.store.LogPage(ctx, store.AuditLog, store.PartEntry, "", 100_000)
	if err != nil {
		t.Fatal(err)
	}
	kept := ok[[]archive.Line](t)(c.history.file.Audit(ctx, archive.AuditQuery{Limit: 100_000}))
	slices.Reverse(kept)
	newest := int64(0)
	for i := range max(len(stored), len(kept)) {
		if i >= len(stored) || i >= len(kept) || stored[i].ID != kept[i].ID || stored[i].Revision != kept[i].Revision {
			t.Fatalf("audit line %d of %d differs from the archive's, of %d", i, len(stored), len(kept))
		}
		newest = kept[i].Revision
	}
	if newest < acknowledged {
		t.Errorf("revision %d was acknowledged, the archive ends with %d", acknowledged, newest)
	}
	for part := store.PartEntry; part <= store.PartUndone; part++ {
		entries, _, _, err := c.store.LogPage(ctx, store.SwitchLog, part, "", 100_000)
		if err != nil {
			t.Fatal(err)
		}
		rows := ok[[]archive.SwitchRow](t)(c.history.file.Switches(ctx, archive.SwitchQuery{Limit: 100_000}))
		byID := map[string][]byte{}
		for _, r := range rows {
			byID[r.ID] = [][]byte{r.Entry, r.Publication, r.Undone}[part]
		}
		for _, e := range entries {
			if !bytes.Equal(byID[e.ID], e.Value) {
				t.Fatalf("part %d of switch %s is %q in the archive, %q in the store", part, e.ID, byID[e.ID], e.Value)
			}
		}
	}
}

// TestTimesAndCursorsOutOfBounds proves that a time or a cursor that no entry can have is no entry's, and not a fault of the
// history.
//
// Covers: issue4 history
func TestTimesAndCursorsOutOfBounds(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	for since, want := range map[string]int{"1500-01-01T00:00:00Z": 2, "0001-01-02T00:00:00Z": 2, "2562047h": 2, "9999-01-01T00:00:00Z": 0} {
		page, err := r.auditTrail(t.Context(), &auditInput{Since: since, PageInput: PageInput{Limit: 10}})
		if err != nil || len(page.Body.Lines) != want {
			t.Errorf("since %s: %v, %v; want %d lines", since, page, err, want)
		}
	}
	const none = "ffffffffffffffff"
	_, err := r.client.Audit(t.Context(), api.AuditParams{Cursor: none})
	wantCode(t, "audit trail", err, 422, api.CodeBadRequest)
	_, err = r.client.History(t.Context(), "service", "shop", api.HistoryParams{Cursor: none, Limit: 10})
	wantCode(t, "history", err, 422, api.CodeBadRequest)
	_, err = r.client.Switches(t.Context(), api.SwitchesParams{Cursor: none})
	wantCode(t, "switch log", err, 422, api.CodeBadRequest)
}
