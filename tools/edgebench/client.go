package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// clientConfig is for this program as a client of its own, in a process of its own: wrk and h2load keep connections, and know
// no events.
type clientConfig struct {
	mode, to, roots string
	size, streams   int
	long            time.Duration
	every           time.Duration
}

func (c *clientConfig) flags() {
	flag.StringVar(&c.mode, "client", "", "be a client: `fresh` (a connection a request) or events")
	flag.StringVar(&c.to, "to", "", "`address` that the client asks")
	flag.StringVar(&c.roots, "roots", "", "`file` of certificates; empty: the client speaks plain HTTP")
	flag.IntVar(&c.size, "size", 1024, "octets that the client asks for")
	flag.IntVar(&c.streams, "n", 1000, "streams of the client")
	flag.DurationVar(&c.every, "every", time.Second, "between two events of a stream")
	flag.DurationVar(&c.long, "for", 5*time.Second, "how long the client asks")
}

func (c *clientConfig) run(ctx context.Context) error {
	switch c.mode {
	case "fresh":
		return c.fresh(ctx)
	case "events":
		return c.events(ctx)
	}
	return fmt.Errorf("-client %s: want fresh or events", c.mode)
}

// workers is how many connections the client of new connections has at once.
const workers = 16

// fresh asks on a new connection each time, and says how often that went well.
func (c *clientConfig) fresh(ctx context.Context) error {
	var config *tls.Config
	if c.roots != "" {
		data, err := os.ReadFile(c.roots)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return fmt.Errorf("%s holds no certificate", c.roots)
		}
		// The curve that all proxies have: Go would choose a hybrid one with those that know it.
		config = &tls.Config{ServerName: hostName, RootCAs: pool, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}}
	}
	ctx, cancel := context.WithTimeout(ctx, c.long)
	defer cancel()
	var n atomic.Int64
	var failed sync.Map
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := c.once(config); err != nil {
					failed.Store(err.Error(), true)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	var errs []error
	failed.Range(func(k, _ any) bool { errs = append(errs, fmt.Errorf("%v", k)); return true })
	fmt.Printf("%d requests\n", n.Load())
	return errors.Join(errs...)
}

// limit is how long one request may take.
const limit = 20 * time.Second

func (c *clientConfig) once(config *tls.Config) error {
	k, err := net.Dial("tcp", c.to)
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if config != nil {
		k = tls.Client(k, config)
	}
	if _, err := fmt.Fprintf(k, "GET /%d HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", c.size, hostName); err != nil {
		return err
	}
	all, err := io.ReadAll(k)
	if err != nil {
		return err
	}
	_, body, _ := bytes.Cut(all, []byte("\r\n\r\n"))
	if !bytes.HasPrefix(all, []byte("HTTP/1.1 200 ")) || len(body) != c.size {
		return fmt.Errorf("%.30q with %d octets", all, len(body))
	}
	return nil
}

// opening bounds the streams that are opened at once.
const opening = 64

// events opens streams, says "open", and after a while how late events were, in microseconds, of those sent after the last
// stream was open.
func (c *clientConfig) events(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lates := make([][]int64, c.streams)
	errs := make([]error, c.streams)
	var from atomic.Int64 // Unix nanoseconds from which events count; 0: not yet
	var wg, opened sync.WaitGroup
	turns := make(chan struct{}, opening)
	opened.Add(c.streams)
	for i := range c.streams {
		turns <- struct{}{}
		wg.Go(func() {
			done := sync.OnceFunc(func() { <-turns; opened.Done() })
			defer done()
			lates[i], errs[i] = c.stream(ctx, &from, done)
		})
	}
	opened.Wait()
	from.Store(time.Now().UnixNano())
	fmt.Println("open")
	select {
	case <-ctx.Done():
	case <-time.After(c.long):
	}
	cancel()
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	all := slices.Concat(lates...)
	if len(all) == 0 {
		return errors.New("no event came")
	}
	slices.Sort(all)
	for i := range lates {
		if len(lates[i]) == 0 {
			return fmt.Errorf("no event came on stream %d", i)
		}
	}
	fmt.Printf("events %d p50 %d p99 %d max %d\n", len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	return nil
}

// stream reads one stream until ctx ends. It calls open after the first event.
func (c *clientConfig) stream(ctx context.Context, from *atomic.Int64, open func()) (late []int64, err error) {
	k, err := net.Dial("tcp", c.to)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = k.Close() })()
	if _, err := fmt.Fprintf(k, "GET /sse/%d HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", c.every.Milliseconds(), hostName); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(k, 512)
	for {
		line, err := r.ReadSlice('\n')
		now := time.Now().UnixNano()
		switch {
		case ctx.Err() != nil:
			return late, nil
		case err != nil:
			return late, err
		}
		stamp, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		stamp, _, _ = bytes.Cut(stamp, []byte(" "))
		sent, err := strconv.ParseInt(string(stamp), 10, 64)
		if err != nil {
			return late, fmt.Errorf("event %q: %w", line, err)
		}
		open()
		if since := from.Load(); since != 0 && sent >= since {
			late = append(late, (now-sent)/1000)
		}
	}
}
