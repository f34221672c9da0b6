package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// reloadSite is a service whose responses say which version of it they are by. GONE is a route that a later version lacks.
const reloadSite = `
apiVersion: steerpoint/v1
kind: Zone
name: hosted
zone: example.com
ns: [{name: ns.example.net}]
---
apiVersion: steerpoint/v1
kind: Service
name: web
domains: [www.example.com]
edges: [{name: only, addresses: [192.0.2.80]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [only], probe: {enabled: false}}]
originGroups:
  - {name: a, health: {enabled: false}, latencySensitivity: 1s, origins: [{name: one, address: "ORIGIN", scheme: http, weight: WEIGHT}]}
  - {name: b, health: {enabled: false}, drainDeadline: 3s, origins: [{name: one, address: "ORIGIN", scheme: http}]}
routes:
  - {name: all, originGroup: a, timeouts: {idle: 10m, webSocketIdle: 10m}}
GONE
policies:
  responseHeaders: [{set: {X-Version: "VERSION"}}]
`

const goneRoute = "  - {name: stream, paths: [/stream], originGroup: b, timeouts: {idle: 10m}}"

// TestReloads applies change after change to a gateway under load, through the real program: no request fails, no WebSocket is lost,
// and a stream of a route that was removed ends, no sooner than at its drain deadline.
// Covers: issue6 reloads, gateway T45, gateway fault 45
func TestReloads(t *testing.T) {
	t.Parallel()
	reloads, sockets, workers := 8, 25, 2
	if os.Getenv("STEER_LONG") != "" {
		reloads, sockets, workers = 100, 1000, 8
	}
	origin := reloadOrigin(t)
	data := t.TempDir()
	settings := fmt.Sprintf("edge: {connections: %d, connectionsPerClient: %d}\n", 2*sockets+1000, 2*sockets+1000)
	if err := os.WriteFile(filepath.Join(data, "steer.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	startProcess(t, "steer", "up", "--data", data, "--listen", "dns=127.0.0.1:0", "--listen", "api=127.0.0.1:0", "--listen", "http=127.0.0.1:0")
	gateway, control := listener(t, data, "http"), operator(t, data)
	apply := func(version int, gone string) {
		t.Helper()
		applySite(t, control, strings.NewReplacer("ORIGIN", origin, "VERSION", strconv.Itoa(version), "WEIGHT", strconv.Itoa(1+version), "GONE", gone).Replace(reloadSite))
		for end := time.Now().Add(startWait); ; time.Sleep(poll) {
			res, err := reloadGet(t.Context(), http.DefaultClient, gateway)
			if err == nil && res.Header.Get("X-Version") == strconv.Itoa(version) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("version %d is not served: %v", version, err)
			}
		}
	}
	apply(0, goneRoute)

	var open []*socket
	for i := range sockets {
		open = append(open, openSocket(t, gateway, "/ws"))
		open[i].echo(t, "before")
	}
	stream := openStream(t, gateway)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var requests, failures atomic.Int64
	var first atomic.Value // text of an error
	for range workers {
		load.Go(func() {
			c := &http.Client{Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			for n := 0; ctx.Err() == nil; n++ {
				if n%50 == 49 { // and new connections in between
					c.CloseIdleConnections()
				}
				_, err := reloadGet(context.WithoutCancel(ctx), c, gateway)
				if requests.Add(1); err != nil {
					failures.Add(1)
					first.CompareAndSwap(nil, err.Error())
				}
			}
		})
	}
	for n := 1; n <= reloads; n++ {
		apply(n, goneRoute)
	}
	removed := time.Now()
	apply(reloads+1, "")
	if err := <-stream.ended; err == nil {
		t.Error("a stream of a removed route ended as if it were whole")
	}
	if lasted := time.Since(removed); lasted < 3*time.Second {
		t.Errorf("a stream of a removed route ended after %s: its drain deadline is 3s", lasted)
	}
	stop()
	load.Wait()
	for _, s := range open {
		s.echo(t, "after")
	}
	if n := failures.Load(); n > 0 || requests.Load() < int64(reloads) {
		t.Errorf("%d of %d requests failed over %d reloads; the first: %v", n, requests.Load(), reloads, first.Load())
	}
	t.Logf("%d reloads, %d requests, %d WebSockets", reloads, requests.Load(), len(open))
}

// reloadOrigin answers requests, echoes what comes on WebSockets, and streams on /stream without end.
func reloadOrigin(t *testing.T) (address string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ws":
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
			_, _ = io.Copy(c, rw) // until the client leaves
		case "/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "data: x\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(poll):
				}
			}
		default:
			_, _ = io.WriteString(w, "ok")
		}
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.CloseClientConnections) // hijacked ones are not waited for
	return strings.TrimPrefix(s.URL, "http://")
}

// reloadGet asks once, and reads all of the answer.
func reloadGet(ctx context.Context, c *http.Client, gateway string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gateway+"/", nil)
	if err != nil {
		return nil, err
	}
	req.Host = "www.example.com"
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK || string(body) != "ok":
		return nil, fmt.Errorf("%s %q", res.Status, body)
	}
	return res, nil
}

// socket is a WebSocket through the gateway. What is in its frames nobody looks at.
type socket struct {
	net.Conn
	r *bufio.Reader
}

func openSocket(t *testing.T, gateway, path string) *socket {
	t.Helper()
	c, err := net.Dial("tcp", gateway)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := &socket{c, bufio.NewReaderSize(c, 256)}
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: www.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n", path)
	res, err := http.ReadResponse(s.r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("no WebSocket: %v, %v", res, err)
	}
	return s
}

// echo says something and wants it back.
func (s *socket) echo(t *testing.T, text string) {
	t.Helper()
	_ = s.SetDeadline(time.Now().Add(startWait))
	if _, err := io.WriteString(s, text); err != nil {
		t.Errorf("a WebSocket is lost: %v", err)
		return
	}
	back := make([]byte, len(text))
	if _, err := io.ReadFull(s.r, back); err != nil || string(back) != text {
		t.Errorf("a WebSocket is lost: %q, %v", back, err)
	}
}

// events is a stream that is read until it ends; a clean end is nil.
type events struct{ ended chan error }

func openStream(t *testing.T, gateway string) *events {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+gateway+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "www.example.com"
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("no stream: %v, %v", res, err)
	}
	e := &events{ended: make(chan error, 1)}
	go func() {
		defer res.Body.Close()
		_, err := io.Copy(io.Discard, res.Body)
		if errors.Is(err, context.Canceled) {
			err = nil // the test ended first
		}
		e.ended <- err
	}()
	return e
}
