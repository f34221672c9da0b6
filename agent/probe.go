package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

const (
	tasksKind    = "probe-tasks"
	tasksVersion = 1
	// askTime bounds a probe outside of the schedule of which control does not say how long it waits.
	askTime = 30 * time.Second
)

// probeFollower brings tasks to the prober, and the questions of people.
type probeFollower struct {
	a     *Agent
	plane ProbePlane
	base  *snapshot.Probe // what deltas are applied to: the tasks in use
	whole bool            // ask for all tasks, whatever base is
	told  bool            // control has said on this stream what it set for the node
	saver *saver[*snapshot.Probe]
	asker *asker[report.Observation]
}

func tasksDisk() diskFile {
	return diskFile{
		file: tasksFile, kind: tasksKind, version: tasksVersion, holds: "tasks", about: "tasksDisk",
		unkept:   "the probe tasks cannot be kept on disk: a restart would begin with older ones",
		damaged:  "the probe tasks on disk are damaged: they are set aside, and control is asked for them",
		unusable: "the probe tasks on disk cannot be used: control is asked for them",
	}
}

func newProbeFollower(a *Agent, plane ProbePlane, base *snapshot.Probe) *probeFollower {
	return &probeFollower{
		a: a, plane: plane, base: base, saver: newSaver[*snapshot.Probe](a, tasksDisk()),
		asker: &asker[report.Observation]{
			a: a, places: make(chan struct{}, maxAsks), node: "point", busy: fmt.Sprintf("does %d probes for people", maxAsks), one: "probe",
			send: func(s session) sendAnswer[report.Observation] { return s.result.Result },
		},
	}
}

func (f *probeFollower) run(ctx context.Context) error {
	defer f.asker.wg.Wait()
	return f.a.follow(ctx, report.SnapshotProbe, func(ctx context.Context, s session) error {
		have := f.version()
		if f.whole {
			have, f.whole = 0, false
		}
		f.told = false
		return s.down.FollowProbe(ctx, have, func(u wire.ProbeUpdate) error { return f.take(ctx, u) })
	})
}

func (f *probeFollower) version() uint64 {
	if f.base == nil {
		return 0
	}
	return f.base.Version
}

func (f *probeFollower) take(ctx context.Context, u wire.ProbeUpdate) error {
	f.a.streamUp(report.SnapshotProbe)
	f.told = f.a.hearState(u.State, f.told)
	switch {
	case u.Ask != nil:
		f.ask(ctx, *u.Ask)
	case u.Full != nil:
		f.apply(u.Full, u.Arrived)
	case u.Delta != nil:
		var s *snapshot.Probe
		err := f.a.guarded(func() (err error) { s, err = u.Delta.Apply(f.base); return err })
		if err != nil {
			f.whole = true
			f.refuse(u.Delta.To, u.Arrived, err)
			return errResync
		}
		if !f.apply(s, u.Arrived) {
			f.whole = true // the prober may refuse what a wrong base made of the delta
			return errResync
		}
	}
	return nil
}

// apply hands tasks on and answers for them. Tasks that this point refuses do not keep it from the others: the answer
// then is yes, and names them.
func (f *probeFollower) apply(s *snapshot.Probe, arrived time.Time) bool {
	err := f.a.applyTasks(f.plane, s)
	if version, _ := f.plane.Tasks(); version != s.Version {
		f.refuse(s.Version, arrived, err)
		return false
	}
	f.base = s
	f.saver.box.put(s)
	ack := report.Ack{Snapshot: report.SnapshotProbe, Version: s.Version, OK: true, Using: s.Version, Took: time.Since(arrived)}
	if err != nil {
		ack.Reason = coded("TASKS_REFUSED", err)
		f.a.complain("tasks", "TASKS_REFUSED", "this point does not probe some of its tasks", err)
	} else {
		f.a.settle("tasks")
	}
	f.a.ack(ack)
	return true
}

func (f *probeFollower) refuse(version uint64, arrived time.Time, err error) {
	f.a.complain("tasks", "TASKS_REFUSED", "the probe tasks of control cannot be used; those before go on", err)
	f.a.ack(report.Ack{
		Snapshot: report.SnapshotProbe, Version: version, Reason: coded("TASKS_REFUSED", err), Using: f.version(), Took: time.Since(arrived),
	})
}

// applyTasks hands a snapshot for all points on as this point's.
func (a *Agent) applyTasks(plane ProbePlane, s *snapshot.Probe) error {
	own := *s
	if own.Point == "" {
		own.Point = a.Name()
	}
	return a.guarded(func() error { return plane.Apply(&own) })
}

// ask has a probe done now, outside of the schedule.
func (f *probeFollower) ask(ctx context.Context, q wire.Ask) {
	f.asker.ask(ctx, question[report.Observation]{
		id: q.ID, about: slog.String("task", q.Task.ID), sendIn: callTime,
		answer: func(ctx context.Context) (report.Observation, error) {
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(max(q.Timeout, 0), askTime))
			defer cancel()
			return f.plane.Once(ctx, q.Task), nil
		},
	})
}

// loadTasks makes the prober start with the tasks on disk. Whatever is wrong with them, the point starts without and
// control sends them again.
func (a *Agent) loadTasks(plane ProbePlane) *snapshot.Probe {
	if plane == nil {
		return nil
	}
	d, tasks := tasksDisk(), new(snapshot.Probe)
	if !d.load(a, tasks, nil) {
		return nil
	}
	err := a.applyTasks(plane, tasks)
	if version, _ := plane.Tasks(); version != tasks.Version {
		a.log.Error("the probe tasks on disk do not fit this point: control is asked for others", "file", a.store.path(d.file), "error", err)
		return nil
	}
	a.log.Info("probing by the tasks on disk until control sends newer ones", "version", tasks.Version, "tasks", len(tasks.Tasks))
	return tasks
}
