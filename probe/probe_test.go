package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"steerpoint/report"
	"steerpoint/snapshot"
)

// TestMain: a prober leaves no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// sink keeps what a prober emits.
type sink struct {
	mu  sync.Mutex
	got []report.Observation
}

func (s *sink) take(o report.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, o)
}

func (s *sink) of(task string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.got {
		if o.Task == task {
			n++
		}
	}
	return n
}

func newProber(t *testing.T, cfg Config, emit func(report.Observation)) *Prober {
	t.Helper()
	if cfg.Point == "" {
		cfg.Point = "local"
	}
	p, err := New(cfg, emit, nil, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start runs a prober to the end of the test, or until the returned function is called.
func start(t *testing.T, p *Prober) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// eventually waits for something real sockets bring about, however slow the machine.
func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !reached(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// taskFor is an http task on a test server, quick enough for tests.
func taskFor(t *testing.T, server *httptest.Server, change func(*snapshot.ProbeTask)) snapshot.ProbeTask {
	t.Helper()
	addr := netip.MustParseAddrPort(server.Listener.Addr().String())
	task := snapshot.ProbeTask{
		Kind: "http", Address: addr.Addr().String(), Port: int(addr.Port()), URL: "http://www.example.com/", Method: "HEAD",
		Interval: 20 * time.Millisecond, Timeout: 20 * time.Millisecond, Fall: 3, Rise: 2,
	}
	if change != nil {
		change(&task)
	}
	task.ID = snapshot.TaskID(&task)
	return task
}

func snap(version uint64, tasks ...snapshot.ProbeTask) *snapshot.Probe {
	return &snapshot.Probe{Version: version, Point: "local", Tasks: tasks}
}

// TestTasksComeAndGo: tasks are probed from the moment they are applied; one that is gone is probed no more and
// emits nothing, whatever was under way.
//
// Covers: A6, field 13
func TestTasksComeAndGo(t *testing.T) {
	var hits [2]atomic.Int64
	var servers []*httptest.Server
	for i := range hits {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits[i].Add(1) }))
		t.Cleanup(s.Close)
		servers = append(servers, s)
	}
	long := func(t *snapshot.ProbeTask) { t.Timeout, t.Interval = 10*time.Second, 10*time.Second }
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hang.Close)
	a, b, c := taskFor(t, servers[0], nil), taskFor(t, servers[1], nil), taskFor(t, hang, long)
	var out sink
	p := newProber(t, Config{AllowLocal: true, StartWindow: time.Millisecond}, out.take)
	start(t, p)
	if err := p.Apply(snap(1, a, b, c)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are probed and the third hangs", func() bool {
		return out.of(a.ID) > 3 && out.of(b.ID) > 3 && p.sched.Stats().Running >= 1
	})
	if err := p.Apply(snap(2, b)); err != nil {
		t.Fatal(err)
	}
	// What was handed over before may still be on its way through emit; after one more of b nothing is.
	eventually(t, "what was handed over has arrived", func() bool { return len(p.out) == 0 })
	n := out.of(b.ID)
	eventually(t, "one more of the task that stays", func() bool { return out.of(b.ID) > n+1 })
	gone := out.of(a.ID)
	eventually(t, "many of the task that stays, and none of the one that is gone", func() bool {
		// Requests of before may come late to a server on a busy machine.
		n, probed := out.of(b.ID), hits[0].Load()
		eventually(t, "many more of the task that stays", func() bool { return out.of(b.ID) > n+20 })
		return hits[0].Load() == probed
	})
	if out.of(a.ID) != gone || out.of(c.ID) != 0 {
		t.Errorf("removed tasks emitted %d and %d more observations", out.of(a.ID)-gone, out.of(c.ID))
	}
	if v, tasks := p.Tasks(); v != 2 || len(tasks) != 1 || tasks[0].ID != b.ID {
		t.Errorf("version %d, tasks %+v", v, tasks)
	}
}

// TestBadTasksAreRefusedByName: a task that cannot be right is named with its field; the others are probed; what was
// refused is shown, and gone when it is put right. A kind that a later version has is such a task.
//
// Covers: field 26, field 38, issue4 version skew of kinds
func TestBadTasksAreRefusedByName(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	good := taskFor(t, server, nil)
	quic := taskFor(t, server, func(t *snapshot.ProbeTask) { t.Kind = "quic" }) // of a later version
	slow := taskFor(t, server, func(t *snapshot.ProbeTask) { t.Timeout, t.Body, t.Method = time.Hour, "x", "GET" })
	forged := good
	forged.Port++
	var out sink
	p := newProber(t, Config{AllowLocal: true}, out.take)
	start(t, p)
	err := p.Apply(snap(1, quic, slow, forged, good, good))
	for _, want := range []string{
		`PROBE_TASK_REFUSED: task ` + quic.ID + ` (quic http://www.example.com/ at 127.0.0.1 port `,
		`kind: "quic" is not one this point can probe`,
		`timeout: 1h0m0s is not above 0 and at most the interval, 20ms`,
		`id: "` + forged.ID + `" is not that of its fields`,
		`id: it is there twice`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error %v", want, err)
		}
	}
	var te *TaskError
	if !errors.As(err, &te) || te.ID != quic.ID {
		t.Errorf("the first task error is %+v", te)
	}
	eventually(t, "the good task is probed", func() bool { return out.of(good.ID) > 0 })
	if err := p.Apply(snap(2, good)); err != nil {
		t.Error(err)
	}
}

// TestOtherPointsSnapshot: a snapshot that is for another point changes nothing.
func TestOtherPointsSnapshot(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	p := newProber(t, Config{AllowLocal: true}, func(report.Observation) {})
	if err := p.Apply(snap(1, taskFor(t, server, nil))); err != nil {
		t.Fatal(err)
	}
	err := p.Apply(&snapshot.Probe{Version: 2, Point: "elsewhere"})
	if !errors.Is(err, ErrOtherPoint) || !strings.Contains(err.Error(), `PROBE_OTHER_POINT: the snapshot is for "elsewhere", this is "local"`) {
		t.Errorf("got %v", err)
	}
	if v, tasks := p.Tasks(); v != 1 || len(tasks) != 1 {
		t.Errorf("version %d, %d tasks", v, len(tasks))
	}
}

// TestGuard: addresses of the point itself, its link and its cloud are refused unless the configuration allows them.
func TestGuard(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	p := newProber(t, Config{}, func(report.Observation) {})
	for _, address := range []string{"127.0.0.1", "::ffff:127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254", "fe80::1", "224.0.0.1", "0.0.0.0", "::"} {
		task := taskFor(t, server, func(t *snapshot.ProbeTask) { t.Address = address })
		if err := p.Apply(snap(1, task)); err == nil || !strings.Contains(err.Error(), "address: ") {
			t.Errorf("%s: got %v", address, err)
		}
		if o := p.Once(t.Context(), task); o.OK || o.Counts() || !strings.Contains(o.Detail, "does not probe") {
			t.Errorf("%s: probed at once: %+v", address, o)
		}
	}
}

// TestOnce: a probe now needs no Run, is not emitted, and says why a task cannot be probed.
func TestOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	p := newProber(t, Config{AllowLocal: true, Version: "1.2.3"}, func(o report.Observation) { t.Errorf("emitted: %+v", o) })
	task := taskFor(t, server, func(t *snapshot.ProbeTask) { t.Timeout, t.Interval = 20*time.Second, 20*time.Second })
	if o := p.Once(t.Context(), task); !o.OK || o.Status != 200 || o.Point != "local" || o.Phases.Connect <= 0 {
		t.Errorf("got %+v", o)
	}
	task.Kind = "quic"
	if o := p.Once(t.Context(), task); o.OK || o.Counts() || !strings.Contains(o.Detail, `kind: "quic" is not one this point can probe`) {
		t.Errorf("got %+v", o)
	}
}

// TestStuckReceiver: a receiver that does not take observations loses the oldest of them, counted and said; it delays
// no probe. When it goes on, each observation tells its age.
func TestStuckReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		release := make(chan struct{})
		var got []report.Observation
		p, err := New(Config{Point: "local", QueueSize: 3}, func(o report.Observation) {
			<-release
			got = append(got, o)
		}, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, p)
		for i := range 10 {
			p.done(report.Observation{Task: fmt.Sprint(i), OK: true}, false)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		close(release)
		synctest.Wait()
		// 0 was being handed over, with the age it had then; 1 to 6 were dropped.
		want := []report.Observation{
			{Task: "0", Point: "local", OK: true},
			{Task: "7", Point: "local", OK: true, Age: 3 * time.Second},
			{Task: "8", Point: "local", OK: true, Age: 2 * time.Second},
			{Task: "9", Point: "local", OK: true, Age: time.Second},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %+v", got)
		}
		if n := counter(t, p.metrics.dropped); n != 6 {
			t.Errorf("%v dropped", n)
		}
		if n := strings.Count(log.String(), "observations dropped"); n != 1 {
			t.Errorf("said %d times in ten seconds:\n%s", n, log.String())
		}
		stop()
	})
}

// TestLateIsCountedAndSaid: overload is visible without looking for it, and said once a minute.
func TestLateIsCountedAndSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		resolver := slowResolver(4 * time.Second)
		p, err := New(Config{Point: "local", Concurrency: 1, Waiting: 1, Resolver: resolver}, func(report.Observation) {}, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		var tasks []snapshot.ProbeTask
		for i := range 10 {
			task := snapshot.ProbeTask{Kind: "tcp", Address: fmt.Sprintf("a%d.example", i), Port: 80, Interval: 5 * time.Second, Timeout: 4 * time.Second}
			task.ID = snapshot.TaskID(&task)
			tasks = append(tasks, task)
		}
		if err := p.Apply(snap(1, tasks...)); err != nil {
			t.Fatal(err)
		}
		stop := start(t, p)
		time.Sleep(10 * time.Minute)
		stop()
		if n := counter(t, p.metrics.late); n < 100 {
			t.Errorf("%v late", n)
		}
		if n := strings.Count(log.String(), "probes start late"); n < 9 || n > 11 {
			t.Errorf("said %d times in ten minutes", n)
		}
		if !strings.Contains(log.String(), "concurrency=1 ") || !strings.Contains(log.String(), "worst=") {
			t.Errorf("the log does not say what to do: %s", log.String())
		}
	})
}

type slowResolver time.Duration

func (r slowResolver) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	select {
	case <-time.After(time.Duration(r)):
	case <-ctx.Done():
	}
	return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}
}

// TestMetrics: every metric is of this plane and has a help text; registering twice is an error, not a panic.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	p, err := New(Config{Point: "local"}, func(report.Observation) {}, reg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	p.done(report.Observation{OK: true}, false)
	p.done(report.Observation{Cause: report.CauseTLS}, true)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 11 {
		t.Errorf("%d metrics", len(families))
	}
	results := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "steer_probe_") || f.GetHelp() == "" {
			t.Errorf("metric %s: %q", f.GetName(), f.GetHelp())
		}
		if f.GetName() == "steer_probe_results_total" {
			for _, m := range f.GetMetric() {
				results[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if results["ok"] != 1 || results["tls"] != 1 || counter(t, p.metrics.rechecks) != 1 {
		t.Errorf("results %v", results)
	}
	if _, err := New(Config{Point: "local"}, func(report.Observation) {}, reg, quiet()); err == nil {
		t.Error("the same registerer twice: no error")
	}
}

// counter reads a counter without the package's test helpers, which are another module's.
func counter(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// TestConfig: what cannot work is refused by name.
func TestConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Point":       {},
		"Concurrency": {Point: "local", Concurrency: -1},
		"Version":     {Point: "local", Version: "1\r\nX: y"},
	} {
		if _, err := New(cfg, nil, nil, quiet()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

// TestPanicIsLogged: a fault of ours is logged with its stack and counted.
func TestPanicIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var out sink
		p, err := New(Config{Point: "local", Resolver: panicResolver{}}, out.take, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		task := snapshot.ProbeTask{Kind: "tcp", Address: "a.example", Port: 80, Interval: 5 * time.Second, Timeout: 4 * time.Second}
		task.ID = snapshot.TaskID(&task)
		if err := p.Apply(snap(1, task)); err != nil {
			t.Fatal(err)
		}
		stop := start(t, p)
		time.Sleep(time.Minute)
		stop()
		if n := out.of(task.ID); n < 12 || out.got[0].Counts() || out.got[0].Point != "local" || counter(t, p.metrics.panics) != float64(n) {
			t.Errorf("%d observations: %+v", n, out.got)
		}
		if !strings.Contains(log.String(), "LookupNetIP") || !strings.Contains(log.String(), io.ErrClosedPipe.Error()) {
			t.Errorf("the log holds no stack: %s", log.String())
		}
	})
}

type panicResolver struct{}

func (panicResolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	panic(io.ErrClosedPipe)
}
