package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// streamSample is one proxy with so many event streams, in one round.
type streamSample struct {
	proxy         string
	round, n      int
	memory        float64 // KiB a stream: what the memory grew by
	p50, p99, max float64 // ms from the origin's stamp to the client
	cpu           float64 // share of a core while events came
	events        int
}

// String is the sample for who waits.
func (s streamSample) String() string {
	return fmt.Sprintf("%2d %-8s %5d streams: %5.1f KiB each, late by %.2f ms, p99 %.2f, most %.1f; %.0f %% of a core", s.round+1, s.proxy, s.n, s.memory, s.p50, s.p99, s.max, 100*s.cpu)
}

const (
	// eventRate is how many events come a second, of all streams together, so that more streams are not more work.
	eventRate = 5000
	// streamTime is how long events are looked at once all streams are open.
	streamTime = 6 * time.Second
	// settle is before the memory of a proxy without streams is looked at.
	settle = time.Second
)

// direct measures streams without a proxy.
func (b *run) direct(ctx context.Context, n int) (streamSample, error) {
	s := streamSample{proxy: "direct", n: n}
	err := b.listen(ctx, originAddr, &s, func() error { return nil }, func() error { return nil })
	return s, err
}

// through measures streams through a proxy that is started for it.
func (b *run) through(ctx context.Context, x peer, port, n int) (streamSample, error) {
	s := streamSample{proxy: x.name, n: n}
	p, err := b.start(ctx, x, port)
	if err != nil {
		return s, err
	}
	defer p.session.Stop()
	for range 20 { // what it needs for any request is there then
		if err := b.check(ctx, p, false, 1024); err != nil {
			return s, err
		}
	}
	time.Sleep(settle)
	_, empty, err := p.session.Used()
	if err != nil {
		return s, err
	}
	var cpu time.Duration
	var at time.Time
	open := func() (err error) {
		cpu, _, err = p.session.Used()
		at = time.Now()
		return err
	}
	end := func() error {
		after, full, err := p.session.Used()
		s.cpu, s.memory = (after-cpu).Seconds()/time.Since(at).Seconds(), float64(full-empty)/1024/float64(n)
		return err
	}
	err = b.listen(ctx, fmt.Sprintf("127.0.0.1:%d", p.plain), &s, open, end)
	return s, err
}

// listen has a client of its own process open streams. open is called when all are, end a little before they end.
func (b *run) listen(ctx context.Context, to string, s *streamSample, open, end func() error) error {
	every := time.Duration(s.n) * time.Second / eventRate
	long := max(streamTime, 4*every)
	cmd := exec.CommandContext(ctx, os.Args[0], "-client", "events", "-to", to, "-n", strconv.Itoa(s.n), "-every", every.String(), "-for", long.String())
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "open" {
			if err = open(); err == nil {
				time.Sleep(long - long/4)
				err = end()
			}
			continue
		}
		if _, scanned := fmt.Sscanf(lines.Text(), "events %d p50 %f p99 %f max %f", &s.events, &s.p50, &s.p99, &s.max); scanned == nil {
			s.p50, s.p99, s.max = s.p50/1000, s.p99/1000, s.max/1000
		}
	}
	if waited := cmd.Wait(); waited != nil {
		return fmt.Errorf("client: %w", waited)
	}
	if err == nil && s.events == 0 {
		return fmt.Errorf("the client said nothing of events: %s", strings.TrimSpace(lines.Text()))
	}
	return err
}
