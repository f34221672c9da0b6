package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steerpoint/edge/internal/direct"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/pool"
)

const (
	// spread is between the first probes of two new endpoints: a gateway that starts does not ask all origins at once.
	spread = 20 * time.Millisecond
	// eager is the longest time to the next probe of an endpoint that has fewer results than are looked at: of one that was
	// applied just now it is known soon whether it is healthy.
	eager = time.Second
	// maxProbes is how many run at once; the others are late.
	maxProbes = 64
	// probeBody is how much of a response is read, in octets: what is longer is no health page.
	probeBody = 1 << 20
)

// prober asks the endpoints of a site how they are.
type prober struct {
	g    *Gateway
	wake chan struct{} // 1 deep: the tasks are others
	busy chan struct{}

	done atomic.Uint64 // probes

	mu    sync.Mutex
	tasks map[direct.Target]*task
}

// task is an endpoint with its turn. The lock of the prober guards it.
type task struct {
	endpoint *direct.Endpoint
	next     time.Time
	running  bool // its probe is under way: a second one would only say the same
}

func newProber(g *Gateway) *prober {
	return &prober{g: g, wake: make(chan struct{}, 1), busy: make(chan struct{}, maxProbes), tasks: map[direct.Target]*task{}}
}

// set puts other endpoints in the place of those until now. What did not change keeps its turn; what is gone is not asked
// again.
func (p *prober) set(endpoints []*direct.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.tasks
	p.tasks = map[direct.Target]*task{}
	now, fresh, count := time.Now(), 0, newcomers(endpoints, old)
	for _, e := range endpoints {
		t := old[e.Target]
		if t == nil {
			t = &task{next: now.Add(firstProbe(fresh, count, e.Interval))}
			fresh++
		}
		if latest := now.Add(e.Interval); t.next.After(latest) {
			t.next = latest // the interval became shorter
		}
		t.endpoint = e
		p.tasks[e.Target] = t
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// newcomers counts the endpoints that have no turn yet.
func newcomers(endpoints []*direct.Endpoint, old map[direct.Target]*task) (n int) {
	for _, e := range endpoints {
		if old[e.Target] == nil {
			n++
		}
	}
	return n
}

// firstProbe is when the i-th of n new endpoints is probed first: spread after the one before it, and closer where so many
// would not fit into the interval; those that are left would all come at its end.
func firstProbe(i, n int, interval time.Duration) time.Duration {
	return min(time.Duration(i)*spread, interval*time.Duration(i)/time.Duration(n))
}

// due gives the endpoints whose turn has come, and when the next one comes.
func (p *prober) due(now time.Time) (due []*task, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next = now.Add(time.Hour)
	for _, t := range p.tasks {
		if !t.next.After(now) {
			if !t.running {
				due = append(due, t)
				t.running = true
			}
			// A little less than the interval, by chance: gateways that were started together do not stay together.
			pause := t.endpoint.Interval - rand.N(t.endpoint.Interval/20+1)
			if !t.endpoint.Settled() {
				pause = min(pause, eager)
			}
			t.next = now.Add(pause)
		}
		if t.next.Before(next) {
			next = t.next
		}
	}
	return due, next
}

// Run probes the origins, and reads files of certificates again when they changed, until ctx ends and the last probe has.
func (s *Snapshots) Run(ctx context.Context) error {
	p := s.probes
	follow, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.keys.follow(follow, s.g.log) })
	defer running.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-p.wake:
		}
		due, next := p.due(time.Now())
		for _, t := range due {
			select {
			case p.busy <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			running.Go(func() {
				defer func() { <-p.busy }()
				p.mu.Lock()
				e := t.endpoint
				p.mu.Unlock()
				s.probe(ctx, e)
				p.mu.Lock()
				t.running = false
				p.mu.Unlock()
			})
		}
		timer.Reset(time.Until(next))
	}
}

// probe asks an endpoint once and records what came.
func (s *Snapshots) probe(ctx context.Context, e *direct.Endpoint) {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	status, took, err := s.ask(ctx, e)
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the gateway ends: that says nothing of the origin
	}
	s.probes.done.Add(1)
	e.Said(probeFailure(status, err))
	if e.Record(err == nil && status == 200, took, time.Duration(s.g.clock.Now())) == 0 {
		return
	}
	s.sayFailOpen(ctx, e)
	said := []any{"endpoint", e.Scheme + "://" + net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) + e.Path, "host", e.HostHeader}
	switch {
	case err != nil:
		s.g.log.WarnContext(ctx, "origins are no longer healthy", append(said, "error", err)...)
	case status != 200:
		s.g.log.WarnContext(ctx, "origins are no longer healthy", append(said, "status", status)...)
	default:
		s.g.log.InfoContext(ctx, "origins became healthy", said...)
	}
}

// ask asks an endpoint on a new connection. took is from the sending of the request to the last octet of the response.
func (s *Snapshots) ask(ctx context.Context, e *direct.Endpoint) (status int, took time.Duration, err error) {
	cfg := pool.Config{Address: net.JoinHostPort(e.Host, strconv.Itoa(e.Port)), MaxIdle: -1, Limits: h1.Limits{Head: 16 << 10}}
	if e.Scheme == "https" {
		s.mu.Lock()
		cfg.TLS = s.tls[tlsKey{orText(e.ServerName, e.Host), e.Roots, e.Verify}]
		s.mu.Unlock()
		if cfg.TLS == nil {
			return 0, 0, errors.New("origin was removed")
		}
	}
	if cfg.HTTP2 = e.HTTP2; cfg.HTTP2 {
		cfg.TLS = speaking(cfg.TLS, "h2")
	}
	p := pool.New(cfg, s.g.clock, s.g.buffers)
	defer p.Wait()
	defer p.Close()
	up, err := p.Dial(ctx, true, e.Timeout)
	if err != nil {
		return 0, 0, err
	}
	defer p.Drop(up)
	defer context.AfterFunc(ctx, up.Cutter)()
	begun := s.g.clock.Now()
	if e.GRPC {
		if status, err = askHealth(up, e); err != nil {
			return 0, 0, err
		}
		return status, s.g.clock.Now().Sub(begun), nil
	}
	request := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: Steerpoint (health probe)\r\nX-FD-HealthProbe: 1\r\nConnection: close\r\n\r\n", e.Method, e.Path, probeHost(e))
	if err := sendProbe(up, request); err != nil {
		return 0, 0, fmt.Errorf("send probe: %w", err)
	}
	var r h1.Response
	for r.Status < 200 {
		if err := up.Response(&r, e.Method == "HEAD"); err != nil {
			return 0, 0, fmt.Errorf("read response: %w", err)
		}
	}
	for read := 0; read < probeBody; {
		part, err := up.Next()
		if errors.Is(err, io.EOF) {
			return r.Status, s.g.clock.Now().Sub(begun), nil
		}
		if err != nil {
			return 0, 0, fmt.Errorf("read body: %w", err)
		}
		read += len(part)
	}
	return 0, 0, errors.New("the body does not end")
}

func sendProbe(up *pool.Conn, request []byte) (err error) {
	if up.Stream != nil {
		_, err = up.Stream.Send(request, nil, true)
		return err
	}
	_, err = up.Write(request)
	return err
}

// probeHost is the Host that a probe sends.
func probeHost(e *direct.Endpoint) string {
	if e.HostHeader == "" && strings.Contains(e.Host, ":") {
		return "[" + e.Host + "]"
	}
	return orText(e.HostHeader, e.Host)
}

func orText(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}
