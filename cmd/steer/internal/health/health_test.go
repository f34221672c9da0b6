package health

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

// A node says that it lives, whether it should get queries, and its metrics; it stops without leaving anything.
// Covers: A2
func TestEndpoints(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "steer_test_things_total", Help: "Things."})
	reg.MustRegister(c)
	var notReady error
	s, err := Listen(net.Listen, "127.0.0.1:0", func() error { return notReady }, reg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	}()
	get := func(path string) (int, string) {
		t.Helper()
		res, err := http.Get("http://" + s.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/metrics": "steer_test_things_total 0"} {
		if status, body := get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %q, want %q", path, status, body, want)
		}
	}
	notReady = errors.New("no map")
	if status, body := get("/readyz"); status != 503 || !strings.Contains(body, "no map") {
		t.Errorf("not ready: %d %q", status, body)
	}
	if _, err := Listen(net.Listen, s.Addr(), nil, reg); err == nil {
		t.Error("a taken port gives no error")
	}
}
