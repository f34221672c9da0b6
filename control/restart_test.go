package control

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steerpoint/control/api"
)

// sameRule compares what a restart must keep.
func sameRule(t *testing.T, what string, before, after api.RuleStatus, learnt bool) {
	t.Helper()
	ignore := cmp.Options{
		cmpopts.IgnoreFields(api.RuleStatus{}, "Next", "Pending"),
		// Silence and cool-down do not run while nobody listens: their clocks are moved on by the gap.
		cmpopts.IgnoreFields(api.EdgeView{}, "UpSince"),
		cmpopts.IgnoreFields(api.VoteView{}, "Last", "AgeSeconds"),
		cmpopts.EquateApprox(0.002, 0), // a penalty falls by the second
	}
	if !learnt { // results after the newest verdict are only in the snapshot on disk
		ignore = append(ignore, cmpopts.IgnoreFields(api.EdgeView{}, "Observations", "Availability"), cmpopts.IgnoreFields(api.VoteView{}, "Oks"))
	}
	if d := cmp.Diff(before, after, ignore); d != "" {
		t.Errorf("%s: the rule differs after the restart:\n%s", what, d)
	}
}

// TestRestartRightAfterASwitch proves that a restart one second after a switch keeps decision, lock, verdicts and
// counts, moves nothing and answers as before; also when the snapshot on disk is missing or damaged, as after a kill.
// Covers: field 12, issue2 restart, issue2 state files
func TestRestartRightAfterASwitch(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(path string) error{
		"clean":            func(string) error { return nil },
		"no snapshot":      os.Remove,
		"damaged snapshot": func(p string) error { return os.WriteFile(p, []byte("torn"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := start(t, dir, nil)
			r.apply(zoneYAML, shopYAML)
			r.awaitAnswer("shop", "default", "192.0.2.1")
			r.all()
			r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
			r.awaitAnswer("shop", "default", "192.0.2.2")
			before := r.rule("shop", "default")
			old, _, _ := r.out.latest()
			r.stop()
			r.clocks.pass(time.Second)
			path := filepath.Join(dir, "core.state")
			if err := harm(path); err != nil {
				t.Fatal(err)
			}

			again := start(t, dir, r.clocks)
			again.awaitAnswer("shop", "default", "192.0.2.2")
			sameRule(t, name, before, again.rule("shop", "default"), name == "clean")
			if d, _, _ := again.out.latest(); d.Version <= old.Version {
				t.Errorf("map version %d after %d", d.Version, old.Version)
			}
			if n := len(again.switches()); n != 1 {
				t.Errorf("%d switches after the restart, want the one before it", n)
			}
			if name == "damaged snapshot" {
				if m, _ := filepath.Glob(path + ".damaged-*"); len(m) != 1 {
					t.Errorf("the damaged file was not set aside: %v", m)
				}
			}
		})
	}
}

// TestRestartWithAWrongWallClock proves that a wall clock that was set by an hour, while the process runs and between
// two processes of one boot, moves no decision and shortens no lock or override.
// Covers: issue2 clock step
func TestRestartWithAWrongWallClock(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			dir := t.TempDir()
			r := start(t, dir, nil)
			r.apply(zoneYAML, shopYAML)
			r.awaitAnswer("shop", "default", "192.0.2.1")
			r.all()
			if _, err := r.client.Force(t.Context(), api.ForceRequest{Rule: "shop/default", Edge: "south", For: "30m", Reason: "test"}); err != nil {
				t.Fatal(err)
			}
			r.awaitAnswer("shop", "default", "192.0.2.3", "192.0.2.4")
			r.clocks.mu.Lock()
			r.clocks.m.Wall = r.clocks.m.Wall.Add(step)
			r.clocks.mu.Unlock()
			r.pass(time.Minute)
			r.await("an alarm about the clock", func() bool {
				s, err := r.client.Status(t.Context(), api.StatusParams{})
				return err == nil && slices.ContainsFunc(s.Alarms, func(a api.Alarm) bool { return a.Code == api.AlarmClock })
			})
			if st := r.rule("shop", "default"); !st.Forced {
				t.Errorf("while running: %+v", st)
			}
			r.stop()
			again := start(t, dir, r.clocks)
			again.pass(28 * time.Minute)
			if st := again.rule("shop", "default"); !st.Forced || st.Edge != "south" {
				t.Errorf("one minute before its end the force is gone: %+v", st)
			}
			again.pass(2 * time.Minute)
			if st := again.rule("shop", "default"); st.Forced {
				t.Errorf("one minute after its end the force holds: %+v", st)
			}
		})
	}
}

// TestOverridesOutliveRestarts proves that force, freeze and drain hold on after a restart.
// Covers: issue2 restart, issue2 overrides
func TestOverridesOutliveRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	r.all()
	ctx := t.Context()
	if _, err := r.client.Freeze(ctx, api.FreezeRequest{Target: "shop", Reason: "change night"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Drain(ctx, api.DrainRequest{Edge: "shop/west", For: "1h", Reason: "works"}); err != nil {
		t.Fatal(err)
	}
	r.stop()
	again := start(t, dir, r.clocks)
	st := again.rule("shop", "default")
	if !st.Frozen || !st.Edges[1].Drained || st.Edges[1].DrainedUntil == nil {
		t.Errorf("after the restart: %+v", st)
	}
	again.all()
	again.down("192.0.2.1", "192.0.2.3")
	if st := again.rule("shop", "default"); st.Edge != "east" || st.Held == "" {
		t.Errorf("a frozen rule moved, or does not say what it would do: %+v", st)
	}
	if _, err := again.client.Unfreeze(ctx, api.UndoRequest{Target: "shop"}); err != nil {
		t.Fatal(err)
	}
	again.awaitAnswer("shop", "default", "192.0.2.3", "192.0.2.4") // west is drained
}

// TestTwoProcesses proves that a second control on one folder is refused and the first goes on.
// Covers: issue2 two processes
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	_, err := New(t.Context(), Config{Data: dir, Listen: "127.0.0.1:0"}, Deps{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
	r.apply(zoneYAML, shopYAML)
}
