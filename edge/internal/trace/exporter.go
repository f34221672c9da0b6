package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// every is how long a span waits at most before it is sent; batch is how much is gathered to be sent sooner.
	every = time.Second
	batch = 128 << 10
	// most is what is gathered while the collector does not take it, some four thousand spans. More is lost.
	most = 2 << 20
	// try is how long a collector may take for one request; patience how long one batch is tried for.
	try      = 10 * time.Second
	patience = time.Minute
	// farewell is how long the last batch is tried for at a stop.
	farewell = 5 * time.Second
	// firstPause is the pause after a first failure; it doubles up to maxPause.
	firstPause = 500 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Config says where spans go.
type Config struct {
	// Endpoint is the URL that takes OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces.
	Endpoint string
	// Headers are fields of each request, such as a key of the collector's.
	Headers map[string]string
	// Resource says who makes the spans.
	Resource Resource
}

// Exporter sends spans to a collector. Its methods may be called by many goroutines.
type Exporter struct {
	cfg    Config
	client *http.Client
	log    *slog.Logger
	wake   chan struct{}

	sent, lost atomic.Uint64
	failing    bool // said in the log; of Run

	mu    sync.Mutex
	spans []byte
	count int
	spare []byte
}

// NewExporter makes one. It sends nothing before Run.
func NewExporter(cfg Config, log *slog.Logger) (*Exporter, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("trace endpoint %q is no URL of http or https", cfg.Endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces" // as the specification of exporters has it for a base URL
	}
	cfg.Endpoint = u.String()
	return &Exporter{cfg: cfg, log: log, wake: make(chan struct{}, 1), client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Sent and Lost are how many spans a collector took, and how many none did.
func (e *Exporter) Sent() uint64 { return e.sent.Load() }

// Lost is how many spans were lost, see Sent.
func (e *Exporter) Lost() uint64 { return e.lost.Load() }

// Add takes spans that AppendSpan has made, n of them. It never waits: what is too much is lost.
func (e *Exporter) Add(list []byte, n int) {
	e.mu.Lock()
	fits := len(e.spans)+len(list) <= most
	if fits {
		e.spans = append(e.spans, list...)
		e.count += n
	}
	full := len(e.spans) >= batch
	e.mu.Unlock()
	if !fits {
		e.lost.Add(uint64(n))
	}
	if full {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// Run sends until ctx ends, and then, for a short time, what is left.
func (e *Exporter) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	defer e.client.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			e.last(ctx)
			return
		case <-tick.C:
		case <-e.wake:
		}
		e.flush(ctx)
	}
}

// last sends what is left, unless the collector has just failed to take what was before it.
func (e *Exporter) last(ctx context.Context) {
	if e.failing {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.lost.Add(uint64(e.count))
		e.spans, e.count = nil, 0
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	e.flush(ctx)
}

// flush sends what was gathered as one request, again and again for a time.
func (e *Exporter) flush(ctx context.Context) {
	e.mu.Lock()
	list, n := e.spans, e.count
	e.spans, e.count = e.spare[:0], 0
	e.mu.Unlock()
	if n > 0 {
		rejected, err := e.deliver(ctx, e.cfg.Resource.Append(nil, list), n)
		e.lost.Add(rejected)
		e.sent.Add(uint64(n) - rejected)
		e.say(ctx, err)
	}
	e.mu.Lock()
	e.spare = list
	e.mu.Unlock()
}

// deliver sends a request until it is taken, refused, or too late. rejected is how many of its n spans were not taken.
func (e *Exporter) deliver(ctx context.Context, body []byte, n int) (rejected uint64, err error) {
	give, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var again time.Duration
		rejected, again, err = e.post(give, body)
		if err == nil {
			return min(rejected, uint64(n)), nil
		}
		if again < 0 {
			return uint64(n), err
		}
		// Many gateways lose a collector at the same moment, and should not all find it again at the same.
		wait := time.NewTimer(max(again, pause/2+rand.N(pause)))
		select {
		case <-give.Done():
			wait.Stop()
			if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return e.lastTry(ctx, body, n)
			}
			return uint64(n), err
		case <-wait.C:
		}
	}
}

// lastTry sends once more when the process stops while it waits for a collector.
func (e *Exporter) lastTry(ctx context.Context, body []byte, n int) (rejected uint64, err error) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if rejected, _, err = e.post(last, body); err != nil {
		return uint64(n), err
	}
	return min(rejected, uint64(n)), nil
}

// say tells the log when a collector is lost, and when it is back, once each.
func (e *Exporter) say(ctx context.Context, err error) {
	switch {
	case err != nil && !e.failing:
		e.log.WarnContext(ctx, "traces are lost: the collector does not take them", "endpoint", e.cfg.Endpoint, "error", err)
	case err == nil && e.failing:
		e.log.InfoContext(ctx, "the collector takes traces again", "endpoint", e.cfg.Endpoint)
	}
	e.failing = err != nil
}

// post sends a request once. again is after which time it may be tried again, 0 for any; below 0: never.
func (e *Exporter) post(ctx context.Context, body []byte) (rejected uint64, again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, -1, fmt.Errorf("send traces: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "steerpoint")
	for name, value := range e.cfg.Headers {
		r.Header.Set(name, value)
	}
	resp, err := e.client.Do(r)
	if err != nil {
		return 0, 0, fmt.Errorf("send traces: %w", err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case resp.StatusCode == http.StatusOK && err == nil:
		return rejectedIn(said), 0, nil
	case resp.StatusCode == http.StatusOK:
		return 0, -1, fmt.Errorf("send traces: %w", err) // they may have been taken
	case resp.StatusCode == 429, resp.StatusCode == 502, resp.StatusCode == 503, resp.StatusCode == 504: // as OTLP has it
		return 0, retryAfter(resp.Header), fmt.Errorf("send traces: %s", resp.Status)
	}
	return 0, -1, fmt.Errorf("send traces: %s", resp.Status)
}

// retryAfter is what a collector asks for, in seconds, within what a batch is tried for.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, patience)
}

// rejectedIn reads the number of rejected spans out of a response: partial_success (1), rejected_spans (1).
func rejectedIn(b []byte) uint64 {
	return number(within(b, 1), 1)
}

// within gives the content of a field of a message that is a message itself; nil: it has none.
func within(b []byte, field int) (found []byte) {
	eachField(b, func(f int, _ uint64, v []byte) {
		if f == field && v != nil {
			found = v
		}
	})
	return found
}

// number gives a field that is a varint; 0: it has none.
func number(b []byte, field int) (found uint64) {
	eachField(b, func(f int, n uint64, v []byte) {
		if f == field && v == nil {
			found = n
		}
	})
	return found
}

// eachField calls f for each field of a message that is a varint (v nil) or of octets, as far as it can be read.
func eachField(b []byte, f func(field int, n uint64, v []byte)) {
	for len(b) > 0 {
		tag, used := binary.Uvarint(b)
		if used <= 0 {
			return
		}
		b = b[used:]
		n, used := binary.Uvarint(b)
		switch {
		case used <= 0:
			return
		case tag&7 == wireVarint:
			b = b[used:]
			f(int(tag>>3), n, nil)
		case tag&7 == wireBytes && n <= uint64(len(b)-used):
			f(int(tag>>3), 0, b[used:used+int(n):used+int(n)])
			b = b[used+int(n):]
		default:
			return
		}
	}
}
