package sched_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steerpoint/probe/internal/sched"
	"steerpoint/report"
)

// bench is a scheduler in a bubble of fake time, with what it reported. Its own lock makes the race detector's view
// complete; the scheduler calls it from several goroutines.
type bench struct {
	s     *sched.Scheduler
	start time.Time

	mu     sync.Mutex
	starts map[string][]time.Duration
	done   []done
	late   []time.Duration
	panics []string
}

type done struct {
	at   time.Duration
	o    report.Observation
	soon bool
}

func newBench(cfg sched.Config) *bench {
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 256
	}
	if cfg.Waiting == 0 {
		cfg.Waiting = 1024
	}
	cfg.Seed, cfg.Patience = "local", 250*time.Millisecond
	if cfg.StartWindow == 0 {
		cfg.StartWindow = time.Second
	}
	b := &bench{start: time.Now(), starts: map[string][]time.Duration{}}
	b.s = sched.New(cfg, sched.Hooks{
		Done: func(o report.Observation, soon bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.done = append(b.done, done{time.Since(b.start), o, soon})
		},
		Late: func(by time.Duration, _ sched.Stats) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.late = append(b.late, by)
		},
		Panicked: func(id string, _ any, _ []byte) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.panics = append(b.panics, id)
		},
	})
	return b
}

// run runs the scheduler for d of fake time and stops it.
func (b *bench) run(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := b.s.Run(ctx); err != context.DeadlineExceeded {
		t.Fatalf("Run returned %v", err)
	}
}

// job is a check that takes as long and says what target tells at its start.
func (b *bench) job(id string, interval time.Duration, fall int, target func(at time.Duration) (took time.Duration, o report.Observation)) sched.Job {
	return sched.Job{
		ID: id, Interval: interval, Fall: fall, Rise: 2,
		Check: func(ctx context.Context) report.Observation {
			at := time.Since(b.start)
			b.mu.Lock()
			b.starts[id] = append(b.starts[id], at)
			b.mu.Unlock()
			took, o := target(at)
			o.Task = id
			wait(ctx, took)
			return o
		},
	}
}

func wait(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

var (
	ok      = report.Observation{OK: true, Latency: 10 * time.Millisecond}
	refused = report.Observation{Cause: report.CauseRefused}
	local   = report.Observation{Cause: report.CauseLocal}
)

func healthy(time.Duration) (time.Duration, report.Observation) { return 10 * time.Millisecond, ok }

// TestDetectionBound: whatever the target and the moment it fails, the fall-th failure is there after at most
// interval + timeout + (fall-1) x (1.1 s + timeout), and a second later the target is left in peace.
//
// Covers: decisions 1, field 16
func TestDetectionBound(t *testing.T) {
	for _, row := range []struct {
		interval, timeout time.Duration
		fall              int
	}{
		{30 * time.Second, 5 * time.Second, 3},
		{5 * time.Second, 2 * time.Second, 3},
		{time.Second, time.Second, 2},
		{time.Second, 200 * time.Millisecond, 10},
		{10 * time.Minute, 30 * time.Second, 1},
	} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bound := row.interval + row.timeout + time.Duration(row.fall-1)*(1100*time.Millisecond+row.timeout)
				b := newBench(sched.Config{})
				broke := make(map[string]time.Duration)
				var jobs []sched.Job
				for i := range 100 {
					id := fmt.Sprint(i)
					// It hangs from just after its fifth probe on: the worst moment, a whole gap passes first.
					jobs = append(jobs, b.job(id, row.interval, row.fall, func(at time.Duration) (time.Duration, report.Observation) {
						b.mu.Lock()
						defer b.mu.Unlock()
						if len(b.starts[id]) <= 5 {
							broke[id] = at
							return time.Millisecond, ok
						}
						return row.timeout, report.Observation{Cause: report.CauseTimeout}
					}))
				}
				b.s.Set(jobs)
				b.run(t, 12*row.interval+bound)
				fails := map[string]int{}
				var worst time.Duration
				for _, d := range b.done {
					if d.o.OK {
						continue
					}
					if fails[d.o.Task]++; fails[d.o.Task] == row.fall {
						worst = max(worst, d.at-broke[d.o.Task])
					}
					if want := fails[d.o.Task] < row.fall; d.soon != want {
						t.Fatalf("failure %d of fall %d: looked at again soon: %v", fails[d.o.Task], row.fall, d.soon)
					}
				}
				if len(fails) != len(jobs) || worst > bound {
					t.Fatalf("%d of %d seen failing, the slowest after %v; the bound is %v", len(fails), len(jobs), worst, bound)
				}
			})
		})
	}
}

// TestGaps: a steady target is probed every 0.95 to 1 of its interval, for ever: neither the time a check takes nor
// lateness adds up. The first probe comes within the start window, the second spreads the tasks over the interval.
func TestGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, jobs = 30 * time.Second, 200
		b := newBench(sched.Config{})
		var js []sched.Job
		for i := range jobs {
			js = append(js, b.job(fmt.Sprint(i), interval, 3, healthy))
		}
		b.s.Set(js)
		b.run(t, time.Hour)
		if len(b.starts) != jobs || len(b.late) != 0 {
			t.Fatalf("%d of %d jobs started, %d late", len(b.starts), jobs, len(b.late))
		}
		var second [10]int
		total := 0
		for id, at := range b.starts {
			total += len(at)
			if at[0] >= time.Second {
				t.Fatalf("%s: first start at %v", id, at[0])
			}
			second[(at[1]-at[0])*10/interval]++
			for i := 2; i < len(at); i++ {
				if gap := at[i] - at[i-1]; gap < interval*95/100-time.Millisecond || gap > interval {
					t.Fatalf("%s: gap %d is %v", id, i, gap)
				}
			}
		}
		for tenth, n := range second {
			if n < jobs/10/4 || n > jobs/10*2 {
				t.Errorf("tenth %d of the interval has %d second probes of %d", tenth, n, jobs)
			}
		}
		// The mean gap is 0.975 of the interval: 123 probes an hour.
		if mean := float64(total) / jobs; mean < 122 || mean > 125 {
			t.Errorf("%.1f probes a job in an hour", mean)
		}
	})
}

// TestFailingTasksSpread: tasks that fail from the first probe on do not stay crowded in the window they began in.
func TestFailingTasksSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, jobs = 30 * time.Second, 200
		b := newBench(sched.Config{})
		var js []sched.Job
		for i := range jobs {
			js = append(js, b.job(fmt.Sprint(i), interval, 3, func(time.Duration) (time.Duration, report.Observation) { return time.Second, refused }))
		}
		b.s.Set(js)
		b.run(t, 10*time.Minute)
		var tenths [10]int
		for _, at := range b.starts {
			tenths[at[10]%interval*10/interval]++
		}
		for tenth, n := range tenths {
			if n < jobs/10/4 || n > jobs/10*2 {
				t.Errorf("tenth %d of the interval has %d of %d probes", tenth, n, jobs)
			}
		}
	})
}

// TestSameScheduleEveryTime: a schedule is fixed by point and task, and differs between points.
func TestSameScheduleEveryTime(t *testing.T) {
	starts := func(id string) (at []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(sched.Config{})
			b.s.Set([]sched.Job{b.job(id, time.Second, 3, healthy)})
			b.run(t, time.Minute)
			at = b.starts[id]
		})
		return at
	}
	a, again, other := starts("a"), starts("a"), starts("b")
	if fmt.Sprint(a) != fmt.Sprint(again) {
		t.Errorf("two runs differ:\n%v\n%v", a, again)
	}
	if fmt.Sprint(a) == fmt.Sprint(other) {
		t.Error("two tasks have one schedule")
	}
}

// TestLoneFailure: one failure brings one recheck; the ok that follows ends it.
//
// Covers: field 17
func TestLoneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(sched.Config{})
		b.s.Set([]sched.Job{b.job("a", 30*time.Second, 3, func(time.Duration) (time.Duration, report.Observation) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.starts["a"]) == 3 {
				return 0, refused
			}
			return 0, ok
		})})
		b.run(t, 5*time.Minute)
		at := b.starts["a"]
		if gap := at[3] - at[2]; gap < 900*time.Millisecond || gap > 1100*time.Millisecond {
			t.Errorf("the recheck came after %v", gap)
		}
		if gap := at[4] - at[3]; gap < 28500*time.Millisecond || gap > 30*time.Second {
			t.Errorf("the probe after the recheck came after %v", gap)
		}
	})
}

// TestSlowIsRechecked: an ok slower than SlowAbove is looked at again like a failure, until it is known to be slow; a
// true failure of that target is still looked at again, for the rules that do not care for slowness.
//
// Covers: decisions 1
func TestSlowIsRechecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(sched.Config{})
		slow := report.Observation{OK: true, Latency: 100 * time.Millisecond}
		seq := []report.Observation{ok, slow, slow, slow, slow, refused, refused, refused, refused}
		j := b.job("a", 30*time.Second, 3, func(time.Duration) (time.Duration, report.Observation) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return 0, seq[min(len(b.starts["a"]), len(seq))-1]
		})
		j.SlowAbove = 50 * time.Millisecond
		b.s.Set([]sched.Job{j})
		b.run(t, 10*time.Minute)
		want := []bool{false, true, true, false, false, true, true, false, false}
		for i, w := range want {
			if b.done[i].soon != w {
				t.Errorf("result %d: looked at again soon: %v", i+1, b.done[i].soon)
			}
		}
	})
}

// TestLocalTroubleIsNoFailure: a probe the point itself could not send neither counts nor is repeated at once, but
// does not end the rechecks of a run that is open.
func TestLocalTroubleIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(sched.Config{})
		seq := []report.Observation{ok, local, local, refused, local, refused, refused, refused}
		b.s.Set([]sched.Job{b.job("a", 30*time.Second, 3, func(time.Duration) (time.Duration, report.Observation) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return 0, seq[min(len(b.starts["a"]), len(seq))-1]
		})})
		b.run(t, 10*time.Minute)
		want := []bool{false, false, false, true, true, true, false, false}
		for i, w := range want {
			if b.done[i].soon != w {
				t.Errorf("result %d: looked at again soon: %v", i+1, b.done[i].soon)
			}
		}
	})
}

// TestHangingTargetsDelayNobody: a thousand targets that begin to hang at one moment hold no other probe up beyond
// its interval, neither while that is news nor afterwards.
//
// Covers: field 16
func TestHangingTargetsDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(sched.Config{})
		const breaks = 30 * time.Second
		var jobs []sched.Job
		for i := range 1000 {
			jobs = append(jobs, b.job(fmt.Sprint("hang", i), 5*time.Second, 3, func(at time.Duration) (time.Duration, report.Observation) {
				if at < breaks {
					return 30 * time.Millisecond, ok
				}
				return 5 * time.Second, report.Observation{Cause: report.CauseTimeout}
			}))
		}
		intervals := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}
		for i := range 600 {
			jobs = append(jobs, b.job(fmt.Sprint("well", i), intervals[i%3], 3, healthy))
		}
		b.s.Set(jobs)
		b.run(t, 2*breaks)
		for i := range 600 {
			at := b.starts[fmt.Sprint("well", i)]
			for k := 2; k < len(at); k++ {
				if gap := at[k] - at[k-1]; gap > 2*intervals[i%3] {
					t.Fatalf("a probe of interval %v came %v after the one before, at %v", intervals[i%3], gap, at[k])
				}
			}
		}
		// After the first minute of it nobody is late at all, the hanging ones included.
		if n := len(b.late); n > 0 {
			t.Logf("%d late starts, the worst by %v", n, slowest(b.late))
		}
	})
}

func slowest(ds []time.Duration) (worst time.Duration) {
	for _, d := range ds {
		worst = max(worst, d)
	}
	return worst
}

// TestOverloadIsSaid: what cannot be started in time is counted, nothing else suffers, and when the load is gone
// probes are on time again instead of making up for what was missed.
func TestOverloadIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(sched.Config{Concurrency: 4, Waiting: 4})
		const relief = 5 * time.Minute
		var jobs []sched.Job
		for i := range 100 {
			jobs = append(jobs, b.job(fmt.Sprint(i), 10*time.Second, 1, func(at time.Duration) (time.Duration, report.Observation) {
				if at < relief {
					return 2 * time.Second, ok // 20 places are needed, there are 8
				}
				return 10 * time.Millisecond, ok
			}))
		}
		b.s.Set(jobs)
		b.run(t, relief)
		late := len(b.late)
		if late == 0 {
			t.Fatal("no late start counted")
		}
		b.run(t, time.Minute) // backlog goes
		b.late = nil
		before := len(b.done)
		b.run(t, 10*time.Minute)
		if len(b.late) != 0 {
			t.Errorf("%d late starts after the load was gone", len(b.late))
		}
		if n := len(b.done) - before; n < 6000 || n > 6400 {
			t.Errorf("%d probes in ten minutes; 100 jobs at 10 s make 6,150", n)
		}
	})
}

// TestRemovedJobStopsAtOnce: a job that is no longer wanted is cancelled in flight, its result is dropped, and it
// never starts again.
//
// Covers: field 13
func TestRemovedJobStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(sched.Config{})
		hang := func(time.Duration) (time.Duration, report.Observation) { return 20 * time.Second, ok }
		keep := b.job("keep", 30*time.Second, 3, healthy)
		b.s.Set([]sched.Job{keep, b.job("gone", 30*time.Second, 3, hang), b.job("idle", time.Hour, 3, healthy)})
		go func() {
			time.Sleep(2 * time.Second)
			if st := b.s.Stats(); st.Jobs != 3 || st.Running != 1 {
				t.Errorf("before: %+v", st)
			}
			b.s.Set([]sched.Job{keep})
			synctest.Wait()
			if st := b.s.Stats(); st.Jobs != 1 || st.Running != 0 || st.Waiting != 0 {
				t.Errorf("after: %+v", st)
			}
		}()
		b.run(t, 10*time.Minute)
		if n := len(b.starts["gone"]); n != 1 {
			t.Errorf("the removed job started %d times", n)
		}
		for _, d := range b.done {
			if d.o.Task == "gone" || d.o.Task == "idle" && d.at > 2*time.Second {
				t.Errorf("%s: a result at %v after the job was removed", d.o.Task, d.at)
			}
		}
	})
}

// TestUnchangedJobsKeepTheirSchedule: a new set of jobs moves only what changed; a shorter interval takes effect
// within itself.
func TestUnchangedJobsKeepTheirSchedule(t *testing.T) {
	const interval = 30 * time.Second
	schedule := func(set bool) (kept, shorter []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(sched.Config{})
			a, c := b.job("a", interval, 3, healthy), b.job("c", time.Hour, 3, healthy)
			b.s.Set([]sched.Job{a, c})
			if set {
				go func() {
					for range 100 {
						time.Sleep(3 * time.Second)
						c.Interval = 5 * time.Second
						b.s.Set([]sched.Job{a, c, b.job("new", interval, 3, healthy)})
					}
				}()
			}
			b.run(t, 10*time.Minute)
			kept, shorter = b.starts["a"], b.starts["c"]
		})
		return kept, shorter
	}
	alone, _ := schedule(false)
	kept, shorter := schedule(true)
	if fmt.Sprint(alone) != fmt.Sprint(kept) {
		t.Errorf("the schedule of an unchanged job moved:\n%v\n%v", alone, kept)
	}
	if shorter[1] < 3*time.Second || shorter[1] > 8*time.Second {
		t.Errorf("a new interval of 5s at 3s took effect at %v", shorter[1])
	}
}

// TestStop: Run returns only when every check has; no result of a cancelled check is reported; a second Run goes on.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(sched.Config{})
		ended := false
		b.s.Set([]sched.Job{{
			ID: "a", Interval: time.Minute, Check: func(ctx context.Context) report.Observation {
				<-ctx.Done()
				time.Sleep(time.Second) // it is slow to stop
				ended = true
				return ok
			},
		}})
		b.run(t, 10*time.Second)
		if !ended || len(b.done) != 0 {
			t.Fatalf("check ended: %v, results: %v", ended, b.done)
		}
		ended = false
		b.run(t, 10*time.Second)
		if !ended {
			t.Fatal("the job did not start again in a second Run")
		}
	})
}

// TestPanicIsNotTheTargetsFault: a check that panics is reported without a vote, and everything goes on.
func TestPanicIsNotTheTargetsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(sched.Config{})
		b.s.Set([]sched.Job{
			{ID: "bad", Interval: 10 * time.Second, Check: func(context.Context) report.Observation { panic("no such thing") }},
			b.job("good", 10*time.Second, 3, healthy),
		})
		b.run(t, time.Minute)
		if len(b.panics) < 6 || len(b.starts["good"]) < 6 {
			t.Fatalf("%d panics, %d good checks", len(b.panics), len(b.starts["good"]))
		}
		for _, d := range b.done {
			if d.o.Task == "bad" && d.o.Counts() {
				t.Fatalf("a panic votes: %+v", d.o)
			}
		}
	})
}

// TestRandomChanges: whatever jobs come and go and however long they take, limits hold, every job that stays is
// probed at its interval, and none that is gone.
func TestRandomChanges(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			b := newBench(sched.Config{Concurrency: 8, Waiting: 200})
			gone := map[string]time.Duration{}
			running := map[string]int{}
			since := map[string]time.Duration{}
			job := func(i int) sched.Job {
				id := fmt.Sprint(i)
				j := b.job(id, time.Duration(1+rnd.IntN(20))*time.Second, 1+rnd.IntN(4), nil)
				took, fails := time.Duration(rnd.IntN(900))*time.Millisecond, rnd.IntN(3) == 0
				j.Check = func(ctx context.Context) report.Observation {
					b.mu.Lock()
					b.starts[id] = append(b.starts[id], time.Since(b.start))
					if running[id]++; running[id] > 1 {
						t.Errorf("job %s runs twice at once", id)
					}
					b.mu.Unlock()
					wait(ctx, took)
					b.mu.Lock()
					running[id]--
					b.mu.Unlock()
					return report.Observation{Task: id, OK: !fails, Cause: report.CauseRefused}
				}
				return j
			}
			ctx, cancel := context.WithCancel(t.Context())
			stopped := make(chan error)
			go func() { stopped <- b.s.Run(ctx) }()
			jobs := map[int]sched.Job{}
			for range 200 {
				for range rnd.IntN(10) {
					i := rnd.IntN(60)
					b.mu.Lock()
					if _, there := jobs[i]; there && rnd.IntN(2) == 0 {
						delete(jobs, i)
						gone[fmt.Sprint(i)] = time.Since(b.start)
					} else if !there {
						jobs[i] = job(i)
						delete(gone, fmt.Sprint(i))
						since[fmt.Sprint(i)] = time.Since(b.start)
					}
					b.mu.Unlock()
				}
				var set []sched.Job
				for _, j := range jobs {
					set = append(set, j)
				}
				b.s.Set(set)
				time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
				synctest.Wait()
				if st := b.s.Stats(); st.Running-st.Waiting > 8 || st.Waiting > 200 || st.Jobs != len(jobs) {
					t.Fatalf("limits broken: %+v", st)
				}
				b.mu.Lock()
				now := time.Since(b.start)
				for id, at := range gone {
					if n := len(b.starts[id]); n > 0 && b.starts[id][n-1] > at {
						t.Fatalf("job %s, gone since %v, started at %v", id, at, b.starts[id][n-1])
					}
				}
				for i, j := range jobs {
					last := since[fmt.Sprint(i)]
					if at := b.starts[fmt.Sprint(i)]; len(at) > 0 {
						last = max(last, at[len(at)-1])
					}
					if now-last > 2*j.Interval+time.Second {
						t.Fatalf("job %d of interval %v last started at %v, now is %v", i, j.Interval, last, now)
					}
				}
				b.mu.Unlock()
			}
			cancel()
			<-stopped
		})
	}
}
