package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func guarded(h http.HandlerFunc) http.Handler {
	g := &Guard{
		Token: "secret-token", Hosts: []string{"steer.example.net"}, Open: []string{"/healthz"}, Local: []string{"/"},
		Limit: NewLimiter(1000), Done: func(string, int) {}, Log: slog.New(slog.DiscardHandler),
	}
	return g.Wrap(h)
}

// TestGuard proves who comes in: host names, tokens, open and local paths.
func TestGuard(t *testing.T) {
	h := guarded(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "in") })
	for _, c := range []struct {
		name, host, remote, path, auth string
		want                           int
	}{
		{"token", "127.0.0.1:7070", "192.0.2.1:5", "/api", "Bearer secret-token", 200},
		{"scheme in any case", "127.0.0.1:7070", "192.0.2.1:5", "/api", "bearer secret-token", 200},
		{"no token", "127.0.0.1:7070", "127.0.0.1:5", "/api", "", 401},
		{"wrong token", "127.0.0.1:7070", "127.0.0.1:5", "/api", "Bearer secret-tokem", 401},
		{"token as password", "127.0.0.1:7070", "127.0.0.1:5", "/api", "Basic secret-token", 401},
		{"prefix of the token", "127.0.0.1:7070", "127.0.0.1:5", "/api", "Bearer secret", 401},
		{"open", "localhost", "192.0.2.1:5", "/healthz", "", 200},
		{"local from loopback", "[::1]:7070", "[::1]:5", "/", "", 200},
		{"local from elsewhere", "192.0.2.9", "192.0.2.1:5", "/", "", 401},
		{"told name", "STEER.example.net:7070", "192.0.2.1:5", "/api", "Bearer secret-token", 200},
		{"rebound name", "evil.example.com:7070", "127.0.0.1:5", "/", "", 403},
		{"rebound name with the token", "evil.example.com", "127.0.0.1:5", "/api", "Bearer secret-token", 403},
		{"no host", "", "127.0.0.1:5", "/healthz", "", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Host, r.RemoteAddr = c.host, c.remote
		if c.auth != "" {
			r.Header.Set("Authorization", c.auth)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, w.Code, c.want, w.Body)
		}
		if c.want >= 400 && (w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), `"code"`)) {
			t.Errorf("%s: not a problem: %s", c.name, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: no secure headers", c.name)
		}
	}
}

// TestPanicIsAProblem proves that a handler's mistake is a 500 with a code, and that the server goes on.
func TestPanicIsAProblem(t *testing.T) {
	h := guarded(func(http.ResponseWriter, *http.Request) { panic("x") })
	r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 500 || !strings.Contains(w.Body.String(), "INTERNAL") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestLimiter proves rate, burst, that guessing tokens costs, and that memory is bounded.
func TestLimiter(t *testing.T) {
	l := NewLimiter(10)
	now := time.Unix(1000, 0)
	a := netip.MustParseAddr("192.0.2.1")
	n := 0
	for range 100 {
		if l.Allow(a, now, 1) {
			n++
		}
	}
	if n != 20 {
		t.Errorf("%d requests at once, want the burst of 20", n)
	}
	now = now.Add(time.Second)
	for n = 0; l.Allow(a, now, 1); n++ {
	}
	if n != 10 {
		t.Errorf("%d requests a second later, want 10", n)
	}
	b1, b2 := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	for l.Allow(b1, now, 1) {
	}
	if l.Allow(b2, now, 1) {
		t.Error("another address of the same /64 has a bucket of its own")
	}
	for i := range 3 * maxBuckets {
		l.Allow(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now, 1)
	}
	if len(l.buckets) > maxBuckets {
		t.Errorf("%d buckets", len(l.buckets))
	}
}
