package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// start runs a demo on a free port and stops it with the test.
func start(t *testing.T) *Demo {
	t.Helper()
	d, err := bind(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return d
}

// visit asks one address for its page, over a connection of its own.
func visit(d *Demo, addr string) (status int, body string, err error) {
	c := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%s:%d/", addr, d.Port()), nil)
	if err != nil {
		return 0, "", err
	}
	req.Host = "shop.example.com"
	res, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// A broken edge refuses connections, as a crashed server does, and a healed one serves again on the same address.
// Covers: issue2 demo
func TestBreakAndHeal(t *testing.T) {
	d := start(t)
	const east = "127.0.0.11"
	if _, body, err := visit(d, east); err != nil || !strings.Contains(body, "shop.example.com from edge east ("+east+")") {
		t.Fatalf("healthy: %q, %v", body, err)
	}
	if err := d.Set("east", netip.Addr{}, Behaviour{Down: true}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := visit(d, east); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("down: %v, want connection refused", err)
	}
	if _, _, err := visit(d, "127.0.0.12"); err != nil {
		t.Fatalf("another edge while east is down: %v", err)
	}
	if err := d.Set("east", netip.Addr{}, Behaviour{}); err != nil {
		t.Fatal(err)
	}
	if status, _, err := visit(d, east); err != nil || status != 200 {
		t.Fatalf("healed: %d, %v", status, err)
	}
}

// One address of an edge can be broken alone.
// Covers: issue2 demo
func TestOneAddress(t *testing.T) {
	d := start(t)
	if err := d.Set("south", netip.MustParseAddr("127.0.0.14"), Behaviour{Down: true}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := visit(d, "127.0.0.13"); err != nil {
		t.Errorf("the other address: %v", err)
	}
	if _, _, err := visit(d, "127.0.0.14"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the broken address: %v, want connection refused", err)
	}
}

// A breaking edge cuts the connections it has, and a lost request ends when the edge stops: nothing hangs.
// Covers: issue2 demo
func TestLostRequestEndsWithTheEdge(t *testing.T) {
	d := start(t)
	if err := d.Set("east", netip.Addr{}, Behaviour{Lose: 100}); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, _, err := visit(d, "127.0.0.11")
		failed <- err
	}()
	for d.State()[0].Addresses[0].Requests == 0 {
		time.Sleep(time.Millisecond) // a real socket: nothing signals that the request has arrived
	}
	if err := d.Set("east", netip.Addr{}, Behaviour{Down: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("a lost request got a response")
	}
}

// Slow and status change the response and nothing else.
// Covers: issue2 demo
func TestSlowAndStatus(t *testing.T) {
	d := start(t)
	if err := d.Set("west", netip.Addr{}, Behaviour{Delay: 30 * time.Millisecond, Status: 503}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	status, _, err := visit(d, "127.0.0.12")
	if took := time.Since(began); err != nil || status != 503 || took < 30*time.Millisecond {
		t.Errorf("got status %d after %v, %v; want 503 after at least 30ms", status, took, err)
	}
	if got := d.State()[1].Addresses[0].Text; got != "30ms slower, answers 503" {
		t.Errorf("in words: %q", got)
	}
}

// Losses are spread evenly, so that "loses 30%" is true of every hundred requests and the same on every run.
func TestLostIsEven(t *testing.T) {
	for _, percent := range []int{0, 1, 30, 50, 99, 100} {
		for from := uint64(1); from < 300; from += 37 {
			n := 0
			for i := from; i < from+100; i++ {
				if lost(i, percent) {
					n++
				}
			}
			if n != percent {
				t.Errorf("lost(%d%%) from request %d: %d of 100", percent, from, n)
			}
		}
	}
}

// What does not exist, or is out of range, is named, with what there is; nothing changes.
func TestSetErrors(t *testing.T) {
	d := start(t)
	for _, tt := range []struct {
		edge, addr string
		b          Behaviour
		want       string
	}{
		{"north", "", Behaviour{Down: true}, `no such demo edge: "north"; there are [east west south near middle far]`},
		{"south", "127.0.0.11", Behaviour{Down: true}, "no such demo edge: south has [127.0.0.13 127.0.0.14], not 127.0.0.11"},
		{"east", "", Behaviour{Delay: -1}, "delay -1ns is not between 0s and 1m0s"},
		{"east", "", Behaviour{Lose: 101}, "lose 101 is not a percentage"},
		{"east", "", Behaviour{Status: 99}, "status 99 is not an HTTP status"},
	} {
		var addr netip.Addr
		if tt.addr != "" {
			addr = netip.MustParseAddr(tt.addr)
		}
		err := d.Set(tt.edge, addr, tt.b)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Set(%s, %s, %+v) = %v, want %q", tt.edge, tt.addr, tt.b, err, tt.want)
		}
	}
	for _, e := range d.State() {
		for _, a := range e.Addresses {
			if a.Text != "healthy" {
				t.Errorf("%s is %s after refused changes", a.Address, a.Text)
			}
		}
	}
}

// A port asked for and taken is an error that names it; the default port gives way to a free one.
// Covers: issue2 ports
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.12:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := New(Config{Port: port}); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("New on a taken port: %v", err)
	}
	d, err := New(Config{})
	if err != nil {
		t.Fatalf("New with the default port: %v", err)
	}
	d.stop()
	if d, err = New(Config{}); err != nil {
		t.Fatalf("the ports were not given back: %v", err)
	}
	d.stop()
}

// The desk takes orders only with its token, and says why it refuses one.
// Covers: issue2 demo
func TestDesk(t *testing.T) {
	d := start(t)
	k, err := NewDesk(d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	}()

	r := k.Remote()
	state, err := r.Set(ctx, "east", netip.Addr{}, Behaviour{Delay: time.Millisecond})
	if err != nil || state[0].Addresses[0].Text != "1ms slower" {
		t.Fatalf("Set: %+v, %v", state, err)
	}
	if _, err := r.Set(ctx, "north", netip.Addr{}, Behaviour{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no such demo edge") {
		t.Errorf("an unknown edge: %v", err)
	}
	if state, err = r.State(ctx); err != nil || len(state) != 6 || !state[3].Origin {
		t.Errorf("State: %+v, %v", state, err)
	}
	r.Token = "wrong"
	if _, err := r.State(ctx); !errors.Is(err, ErrRefused) {
		t.Errorf("a wrong token: %v", err)
	}
}

// Malformed orders and other methods are refused.
func TestDeskBadRequests(t *testing.T) {
	k := &Desk{demo: &Demo{}, remote: Remote{Token: "t"}}
	for _, tt := range []struct {
		method, body string
		want         int
	}{
		{http.MethodPost, "{", http.StatusBadRequest},
		{http.MethodPost, `{"edge": "` + strings.Repeat("x", 5000) + `"}`, http.StatusBadRequest},
		{http.MethodDelete, "", http.StatusMethodNotAllowed},
	} {
		r := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body))
		r.Header.Set("Authorization", "Bearer t")
		w := httptest.NewRecorder()
		k.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s %.20q: %d, want %d", tt.method, tt.body, w.Code, tt.want)
		}
	}
}

// The resources name the port the edges really listen on.
func TestResourcesNameThePort(t *testing.T) {
	d := &Demo{port: 4711}
	got := string(d.Resources())
	if strings.Contains(got, "PORT") || strings.Count(got, ":4711/") != 3 {
		t.Errorf("resources:\n%s", got)
	}
}

// An origin of the gateway says its name, is as far away as it is said to be, and lets sessions begin.
// Covers: issue6 demo
func TestOrigin(t *testing.T) {
	d := start(t)
	for addr, want := range map[string]string{"127.0.0.15": "from origin near (127.0.0.15)\n", "127.0.0.17": "from origin far (127.0.0.17)\n"} {
		began := time.Now()
		status, body, err := visit(d, addr)
		if err != nil || status != http.StatusOK || body != want {
			t.Errorf("%s: %d %q, %v", addr, status, body, err)
		}
		if took := time.Since(began); strings.Contains(want, "far") && took < distance("far") {
			t.Errorf("far answers after %s", took)
		}
	}
	r := httptest.NewRecorder()
	d.sites[0].serve(r, httptest.NewRequest(http.MethodGet, "/", nil))
	if got := r.Header().Get("Cache-Control"); got != "private" {
		t.Errorf("Cache-Control: %q", got)
	}
}
