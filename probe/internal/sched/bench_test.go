package sched_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/probe/internal/sched"
	"steerpoint/report"
)

// BenchmarkProbe is the scheduler's own cost of one probe among 100,000 tasks: all are always due and the check does
// nothing, so that the loop never sleeps.
func BenchmarkProbe(b *testing.B) {
	const tasks = 100_000
	ctx, cancel := context.WithCancel(b.Context())
	var n atomic.Int64
	s := sched.New(sched.Config{
		Seed: "local", Concurrency: 256, Waiting: 1024, Patience: 250 * time.Millisecond, StartWindow: time.Nanosecond,
	}, sched.Hooks{
		Done: func(report.Observation, bool) {
			if n.Add(1) == int64(b.N) {
				cancel()
			}
		},
		Late: func(time.Duration, sched.Stats) {},
	})
	check := func(context.Context) report.Observation { return report.Observation{OK: true} }
	jobs := make([]sched.Job, tasks)
	for i := range jobs {
		jobs[i] = sched.Job{ID: fmt.Sprint(i), Interval: time.Microsecond, Check: check}
	}
	s.Set(jobs)
	b.ReportAllocs()
	b.ResetTimer()
	if err := s.Run(ctx); err != context.Canceled {
		b.Fatal(err)
	}
}

// BenchmarkSet is the cost of a new snapshot of 100,000 tasks that all stay.
func BenchmarkSet(b *testing.B) {
	s := sched.New(sched.Config{Seed: "local", StartWindow: time.Second}, sched.Hooks{})
	jobs := make([]sched.Job, 100_000)
	for i := range jobs {
		jobs[i] = sched.Job{ID: fmt.Sprint(i), Interval: 30 * time.Second}
	}
	s.Set(jobs)
	for b.Loop() {
		s.Set(jobs)
	}
}
