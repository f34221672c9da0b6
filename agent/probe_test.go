package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

// A point goes on probing after its own restart with control away, and then asks only for what is newer.
// Covers: A2, A7, issue3 control killed
func TestTasksOnDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleProbe)
		r.member(RoleProbe)
		first := tasks(3, task(1), task(2))
		r.control.set(func() {
			r.control.probe = standingProbe(wire.ProbeUpdate{Full: first}, wire.ProbeUpdate{Delta: snapshot.DiffProbe(first, tasks(4, task(2), task(3)))})
		})
		r.open()
		r.run()
		after(2 * time.Second)
		r.stop()

		r.probe.forget()
		r.control.set(func() { r.control.probe = nil })
		r.open()
		r.run()
		after(time.Second)
		version, list := r.probe.Tasks()
		if version != 4 || len(list) != 2 {
			t.Errorf("after the restart: version %d, tasks %+v", version, list)
		}
		var have atomic.Uint64
		r.control.set(func() {
			r.control.probe = func(ctx context.Context, h uint64, take func(wire.ProbeUpdate) error) error {
				have.Store(h)
				return standingProbe()(ctx, h, take)
			}
		})
		after(5 * time.Second)
		if have.Load() != 4 {
			t.Errorf("asked for tasks after version %d, want 4", have.Load())
		}
		r.stop()
	})
}

// Tasks on disk that are damaged are set aside and named; those of another point are not used. Either way the point
// starts, and asks for all.
// Covers: A2, issue3 disk
func TestBadTasksOnDisk(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, r *rig, path string){
		"torn": func(t *testing.T, _ *rig, path string) {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, b[:len(b)-3], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"of another point": func(_ *testing.T, r *rig, _ string) { r.probe.point = "osaka" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, RoleProbe)
				r.member(RoleProbe)
				r.control.set(func() { r.control.probe = standingProbe(wire.ProbeUpdate{Full: tasks(3, task(1))}) })
				r.open()
				r.run()
				after(time.Second)
				r.stop()
				path := filepath.Join(r.dir, tasksFile)
				damage(t, r, path)
				r.probe.forget()
				r.control.set(func() { r.control.probe = nil })
				r.open()
				r.run()
				after(time.Second)
				if version, list := r.probe.Tasks(); version != 0 || len(list) != 0 {
					t.Errorf("probing by version %d: %+v", version, list)
				}
				if r.logged("the probe tasks on disk") != 1 || r.logged(tasksFile) == 0 {
					t.Errorf("the log does not name the file:\n%s", r.log)
				}
				r.stop()
				aside, err := filepath.Glob(path + ".damaged-*")
				if err != nil || (len(aside) == 1) != (name == "torn") {
					t.Errorf("set aside %v, %v", aside, err)
				}
			})
		})
	}
}

// The file is written at the first change at once, then at most once a second, and at the end; a disk that is full
// loses nothing that comes later.
// Covers: A2, issue3 disk
func TestTasksSaved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleProbe)
		r.member(RoleProbe)
		r.control.probe = func(ctx context.Context, _ uint64, take func(wire.ProbeUpdate) error) error {
			for v := range uint64(100) {
				if err := take(wire.ProbeUpdate{Full: tasks(v+1, task(int(v+1)))}); err != nil {
					return err
				}
				wait(ctx, 50*ms, nil)
			}
			<-ctx.Done()
			return wire.ErrStreamEnded
		}
		r.open()
		var written []time.Duration
		var mu sync.Mutex // guards written and full
		full := false
		keep := r.agent.store.keep
		r.agent.store.keep = func(path, kind string, version int, payload []byte) error {
			if kind != tasksKind {
				return keep(path, kind, version, payload)
			}
			mu.Lock()
			defer mu.Unlock()
			written = append(written, time.Since(r.control.start))
			if full {
				return errDisk
			}
			return keep(path, kind, version, payload)
		}
		r.run()
		after(3500 * ms)
		mu.Lock()
		if want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(written, want) {
			t.Errorf("written at %v, want %v", written, want)
		}
		full = true
		mu.Unlock()
		after(10 * time.Second)
		if got := r.agent.Trouble(); len(got) != 1 || !strings.HasPrefix(got[0], "NODE_DISK: ") {
			t.Errorf("trouble %q", got)
		}
		mu.Lock()
		full = false
		mu.Unlock()
		r.stop() // the newest is written at the end
		r.probe.forget()
		r.control.set(func() { r.control.probe = nil })
		r.open()
		r.run()
		after(time.Second)
		if version, _ := r.probe.Tasks(); version != 100 {
			t.Errorf("version %d on disk, want 100", version)
		}
		r.stop()
	})
}

// Tasks that this point may not probe do not keep it from the others: the answer is yes and names them. A snapshot that
// is for another point is refused as a whole.
// Covers: A7, issue3 nack
func TestRefusedTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleProbe)
		r.member(RoleProbe)
		bad := task(2)
		bad.Kind = "bad"
		other := tasks(3, task(1))
		other.Point = "osaka"
		r.control.probe = func(ctx context.Context, have uint64, take func(wire.ProbeUpdate) error) error {
			if err := take(wire.ProbeUpdate{Full: tasks(2, task(1), bad)}); err != nil {
				return err
			}
			wait(ctx, time.Second, nil)
			return standingProbe(wire.ProbeUpdate{Full: other})(ctx, have, take)
		}
		r.open()
		r.run()
		after(500 * ms)
		if k := r.control.heard().acks[0]; !k.OK || k.Using != 2 || !strings.HasPrefix(k.Reason, "PROBE_TASK_REFUSED: ") {
			t.Errorf("ack %+v, want a yes that names the task", k)
		}
		if got := r.agent.Trouble(); len(got) != 1 {
			t.Errorf("trouble %q", got)
		}
		after(time.Second)
		if k := r.control.heard().acks[1]; k.OK || k.Version != 3 || k.Using != 2 || k.Reason == "" {
			t.Errorf("ack %+v, want a refusal of version 3", k)
		}
		if version, list := r.probe.Tasks(); version != 2 || len(list) != 1 {
			t.Errorf("version %d, %d tasks", version, len(list))
		}
		r.stop()
	})
}

// A probe that somebody asks for is done at once beside the schedule, and its result goes up; beyond 16 at a time the
// answer is that there are too many; one that hangs is given up after its time.
// Covers: A7, issue3 probe now
func TestAsk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleProbe)
		r.member(RoleProbe)
		var updates []wire.ProbeUpdate
		for _, id := range strings.Split("abcdefghijklmnopq", "") {
			updates = append(updates, wire.ProbeUpdate{Ask: &wire.Ask{ID: id, Task: task(1), Timeout: 3 * time.Second}})
		}
		r.probe.once = func(ctx context.Context, t snapshot.ProbeTask) report.Observation {
			<-ctx.Done()
			return report.Observation{Task: "gave up"}
		}
		r.control.set(func() { r.control.probe = standingProbe(updates...) })
		r.open()
		r.run()
		after(time.Second)
		if got := r.control.heard().results; len(got) != 1 || !strings.HasPrefix(got[0], "q  point tokyo does 16 probes") {
			t.Errorf("results %q", got)
		}
		after(2 * time.Second)
		if got := r.control.heard().results; len(got) != 17 || !strings.HasSuffix(got[16], " gave up ") {
			t.Errorf("results %q", got)
		}
		r.stop()
	})
}

// A fault inside of a probe that was asked for is its answer.
// Covers: A7, issue3 probe now
func TestAskPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleProbe)
		r.member(RoleProbe)
		r.probe.once = func(context.Context, snapshot.ProbeTask) report.Observation { panic("oh") }
		r.control.set(func() { r.control.probe = standingProbe(wire.ProbeUpdate{Ask: &wire.Ask{ID: "a", Task: task(1)}}) })
		r.open()
		r.run()
		after(time.Second)
		if got := r.control.heard().results; len(got) != 1 || got[0] != "a  the probe failed inside of point tokyo; its log says more" {
			t.Errorf("results %q", got)
		}
		r.stop()
	})
}
