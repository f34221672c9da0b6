// Package probe is the probing plane: it runs the tasks of one probe point and emits what each came to.
//
// It decides nothing: whether a target is up is judged from many points, elsewhere. It never resolves the host of a
// task's URL, follows no redirect, uses no proxy, and hands on nothing of what a target says but its status code.
// What it emits is bounded, as is what it takes: a hanging target, a stuck receiver or too many tasks delay or lose
// observations, counted and said, and nothing else.
package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/internal/supervise"
	"steerpoint/probe/internal/check"
	"steerpoint/probe/internal/sched"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// Prober runs the tasks of one probe point. Make one with New; its methods may be called at any time, before, while
// and after Run, from any goroutine.
type Prober struct {
	cfg     Config
	log     *slog.Logger
	emit    func(report.Observation)
	metrics *metrics
	checker *check.Checker
	sched   *sched.Scheduler
	out     chan finished
	late    throttle // each throttle is used under the scheduler's lock only
	lost    throttle

	apply   sync.Mutex // one Apply at a time
	version uint64
	tasks   map[string]*task // the accepted ones by ID; guarded by apply
}

// task is an accepted task.
type task struct {
	spec   snapshot.ProbeTask
	target *check.Target
}

// finished is an observation on its way out.
type finished struct {
	o   report.Observation
	end time.Time
}

// New makes a prober without tasks. Run calls emit with each observation, one at a time and from a goroutine of its
// own: emit may take its time, but while it does observations wait, and beyond Config.QueueSize the oldest are dropped.
// reg may be nil: then nothing is registered.
func New(cfg Config, emit func(report.Observation), reg prometheus.Registerer, log *slog.Logger) (*Prober, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Prober{
		cfg: cfg, log: log, emit: emit, tasks: map[string]*task{},
		out: make(chan finished, cfg.QueueSize),
		checker: check.New(check.Config{
			Point: cfg.Point, UserAgent: "steerpoint-probe/" + cfg.Version,
			Resolver: cfg.Resolver, Roots: cfg.RootCAs, AllowLocal: cfg.AllowLocal,
		}),
	}
	p.sched = sched.New(sched.Config{
		Seed: cfg.Point, Concurrency: cfg.Concurrency, Waiting: cfg.Waiting,
		Patience: patience, StartWindow: cfg.StartWindow,
	}, sched.Hooks{Done: p.done, Late: p.startedLate, Panicked: p.panicked})
	if p.metrics, err = newMetrics(reg, p.sched.Stats); err != nil {
		return nil, fmt.Errorf("probe metrics: %w", err)
	}
	return p, nil
}

// Run probes until ctx ends, and returns nil when everything it started has stopped. It runs once at a time.
func (p *Prober) Run(ctx context.Context) error {
	g := supervise.New(ctx)
	g.Go("schedule of probes", p.sched.Run)
	g.Go("hand-over of observations", p.handOver)
	return g.Wait()
}

// Once probes a task now, outside the schedule, and returns what came of it; the observation is not emitted. A task
// that cannot be probed gives an observation with cause local whose detail says why.
func (p *Prober) Once(ctx context.Context, t snapshot.ProbeTask) report.Observation {
	target, err := check.NewTarget(&t)
	if err != nil {
		return report.Observation{Task: t.ID, Point: p.cfg.Point, Cause: report.CauseLocal, Detail: "the task cannot be probed: " + err.Error()}
	}
	return p.checker.Run(ctx, target)
}

// Apply replaces the tasks. Those that stay keep their schedule, new ones start within Config.StartWindow, and the
// others stop at once; what comes of a probe still under way for them is dropped.
//
// A task that cannot be right is refused and the others are taken: the error then joins one *TaskError a task. A
// snapshot for another point is refused as a whole, with ErrOtherPoint, and nothing changes.
func (p *Prober) Apply(s *snapshot.Probe) error {
	if s.Point != p.cfg.Point {
		return fmt.Errorf("%w: the snapshot is for %q, this is %q", ErrOtherPoint, s.Point, p.cfg.Point)
	}
	p.apply.Lock()
	defer p.apply.Unlock()
	tasks := make(map[string]*task, len(s.Tasks))
	jobs := make([]sched.Job, 0, len(s.Tasks))
	var refused []error
	for i := range s.Tasks {
		spec := &s.Tasks[i]
		t, err := p.accept(spec, tasks)
		if err != nil {
			refused = append(refused, &TaskError{ID: spec.ID, Name: taskName(spec), Err: err})
			continue
		}
		tasks[spec.ID] = t
		jobs = append(jobs, p.job(t))
	}
	p.sched.Set(jobs)
	p.metrics.refused.Set(float64(len(refused)))
	p.log.Info("probe tasks applied", "version", s.Version, "tasks", len(jobs), "new", p.newIn(tasks), "before", len(p.tasks), "refused", len(refused))
	p.tasks, p.version = tasks, s.Version
	return errors.Join(refused...)
}

func (p *Prober) newIn(tasks map[string]*task) (n int) {
	for id := range tasks {
		if p.tasks[id] == nil {
			n++
		}
	}
	return n
}

// accept makes a task ready, or takes the target it already has. Equal IDs are equal keys only if the IDs are what
// they claim to be, so that is checked.
func (p *Prober) accept(spec *snapshot.ProbeTask, taken map[string]*task) (*task, error) {
	if want := snapshot.TaskID(spec); spec.ID != want {
		return nil, fmt.Errorf("id: %q is not that of its fields, %q", spec.ID, want)
	}
	if taken[spec.ID] != nil {
		return nil, errors.New("id: it is there twice")
	}
	if old := p.tasks[spec.ID]; old != nil && old.spec.Interval == spec.Interval && old.spec.Timeout == spec.Timeout {
		return &task{*spec, old.target}, nil
	}
	target, err := check.NewTarget(spec)
	if err != nil {
		return nil, err
	}
	if a := target.Literal(); a.IsValid() {
		if why := p.checker.Refuses(a); why != "" {
			return nil, fmt.Errorf("address: %s is %s; this point probes such only when its configuration allows local addresses", a, why)
		}
	}
	return &task{*spec, target}, nil
}

func (p *Prober) job(t *task) sched.Job {
	return sched.Job{
		ID: t.spec.ID, Interval: t.spec.Interval, SlowAbove: t.spec.SlowAbove, Fall: t.spec.Fall, Rise: t.spec.Rise,
		Check: func(ctx context.Context) report.Observation { return p.checker.Run(ctx, t.target) },
	}
}

// Tasks returns the version of the snapshot in use and its accepted tasks, in no order.
func (p *Prober) Tasks() (version uint64, tasks []snapshot.ProbeTask) {
	p.apply.Lock()
	defer p.apply.Unlock()
	for _, t := range p.tasks {
		tasks = append(tasks, t.spec)
	}
	return p.version, tasks
}
