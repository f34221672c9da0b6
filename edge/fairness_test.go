package edge

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h2"
	"steerpoint/edge/internal/h2test"
)

// A client that sends a body which is none, or too long a one, while the response comes already, is at fault, and not the
// origin that was cut off for it.
//
// Covers: issue6 proxy limits
func TestFaultsOfClientsAreNotTheirOrigins(t *testing.T) {
	for _, c := range []struct {
		name, rest string
		status     float64
	}{
		{"chunk_size", "zz\r\n", 400},
		{"length_big", "c8\r\n" + strings.Repeat("x", 200) + "\r\n", 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script(t, func(_ int, k *talk) {
				k.readHead()
				k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "5", "early", "")
				_, _ = io.Copy(io.Discard, k.r)
			})
			d, g := one(s.addr())
			d["*"].route.MaxBody = 100
			b := start(t, Config{}, d)
			k := dial(t, b.addr)
			k.send("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "1", "x", "")
			r := k.head("POST")
			if _, err := io.ReadFull(r.Body, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			k.send(c.rest)
			if rest, err := io.ReadAll(r.Body); !isReset(err) {
				t.Errorf("%q, then %v", rest, err)
			}
			if line := b.log.wait(t, 1); line["status"] != c.status || line["sent"] != 200.0 || line["reason"] != c.name {
				t.Errorf("log: %v", line)
			}
			if g.said() != "o0 0" {
				t.Errorf("reports: %s", g.said())
			}
		})
	}
}

// A trailer that comes by HTTP/2 and is more than one of HTTP/1.1 may be is refused, at once and as the client's fault.
//
// Covers: issue6 http2, gateway fault 46
func TestTrailersThatAreTooMany(t *testing.T) {
	heads := make(chan string, 1)
	s := script(t, func(_ int, k *talk) {
		heads <- k.readHead()
		_, _ = io.Copy(io.Discard, k.r)
	})
	d, g := one(s.addr())
	b := start(t, Config{}, d)
	k := b.two(t)
	k.Headers(1, false, h2test.Post("/")...)
	k.Must(k.WriteData(1, false, []byte("x")))
	<-heads
	var trailer []string
	for i := range 150 {
		trailer = append(trailer, fmt.Sprintf("x-%d", i), "1")
	}
	k.Headers(1, true, trailer...)
	if a := k.Answer(1); a.Status != "400" || string(a.Body) != "400 Bad Request: trailer\n" {
		t.Errorf("%v", a)
	}
	if g.said() != "" {
		t.Errorf("reports: %s", g.said())
	}
}

// A client that is still sending when the time of the whole request is over has used it up itself.
//
// Covers: gateway fault 46
func TestSlowClientsAreNotTheirOriginsFault(t *testing.T) {
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		_, _ = io.Copy(io.Discard, k.r)
	})
	d, g := one(s.addr())
	d["*"].route.TotalTimeout = 5 * time.Second
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 10", "", "x")
	if r, body := k.get("POST"); r.StatusCode != 504 || body != "504 Gateway Timeout: deadline\n" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	if g.said() != "" {
		t.Errorf("reports: %s", g.said())
	}
}

// An origin is blamed for the end of the time of a whole request if it had half of it.
//
// Covers: issue6 proxy limits
func TestRushed(t *testing.T) {
	x := &client{g: &Gateway{clock: conn.NewClock()}}
	x.x.begun = x.g.clock.Now().Add(-time.Hour)
	for _, c := range []struct {
		total, after time.Duration
		want         bool
	}{
		{0, 50 * time.Minute, false}, // there is no end
		{2 * time.Hour, 50 * time.Minute, false},
		{time.Hour, 29 * time.Minute, false},
		{time.Hour, 31 * time.Minute, true},
	} {
		x.plan.Route = &Route{TotalTimeout: c.total}
		x.x.waits = x.x.begun.Add(c.after)
		if got := x.rushed(); got != c.want {
			t.Errorf("%v of %v: %t", c.after, c.total, got)
		}
	}
}

// The longest bodies have the longest time.
//
// Covers: issue6 proxy limits, gateway fault 46
func TestTimeOfBodies(t *testing.T) {
	for _, c := range []struct {
		in, rate int64
		want     time.Duration
	}{
		{0, 500, 0},
		{250, 500, 500 * time.Millisecond},
		{10_000_000_000, 500, 20_000_000 * time.Second},
		{math.MaxInt64, 1, maxPaid},
		{math.MaxInt64, math.MaxInt64, time.Second},
	} {
		if got := paid(c.in, c.rate); got != c.want {
			t.Errorf("%d at %d a second: %v, want %v", c.in, c.rate, got, c.want)
		}
	}
}

// An origin that refuses a large body by its head, and takes none of it, is heard at once, when the whole body was here before too.
//
// Covers: issue6 proxy
func TestEarlyAnswersToBodiesThatAreHere(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	s := script(t, func(_ int, k *talk) {
		_ = k.SetReadBuffer(4 << 10)
		k.readHead()
		k.say("HTTP/1.1 413 Content Too Large", "Content-Length: 2", "", "no")
		<-done
	})
	d, g := one(s.addr())
	const size = 16 << 20
	w := d["*"]
	w.plan = func(_ *Asked, p *Plan) { p.BufferBody = size }
	d["*"] = w
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("PUT / HTTP/1.1", "Host: a", fmt.Sprintf("Content-Length: %d", size), "", strings.Repeat("x", size))
	if r, body := k.get("PUT"); r.StatusCode != 413 || body != "no" || r.Close {
		t.Errorf("%d %q, close %t", r.StatusCode, body, r.Close)
	}
	if line := b.log.wait(t, 1); line["in"] != float64(size) || line["tries"] != 1.0 || g.said() != "o0 0" {
		t.Errorf("log: %v, reports: %s", line, g.said())
	}
}

// A stream that is given no room is told of in the log as a connection that is not read is.
//
// Covers: issue6 http2 limits, gateway fault 46
func TestStreamsWithoutRoomAreStalled(t *testing.T) {
	x := &client{s: new(h2.Stream)}
	x.x.fail(499, "client_left")
	if x.settle(); x.x.answer.reason != "client_left" {
		t.Errorf("one that left: %s", x.x.answer.reason)
	}
	x.stalls(h2.ErrStalled)
	if x.settle(); x.x.answer.reason != "client_stalled" {
		t.Errorf("one that gives no room: %s", x.x.answer.reason)
	}
}

// Bodies whose last octet is a record of TLS by itself are whole when it is there, on both sides.
//
// Covers: issue6 tls
func TestLastOctetsOverTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Length", "1")
		w.(http.Flusher).Flush()
		_, _ = w.Write(body[len(body)-1:])
	}))
	t.Cleanup(s.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	d, g := one(s.Listener.Addr().String())
	g.origins[0].TLS = &tls.Config{ServerName: "example.com", RootCAs: trusted}
	b, roots := secure(t, Config{}, d)
	k, err := dialTLS(t, b.addr, &tls.Config{ServerName: "example.com", RootCAs: roots, NextProtos: []string{"http/1.1"}, DynamicRecordSizingDisabled: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"x", strings.Repeat("-", 16<<10) + "y"} { // a record has 16 KiB at most
		k.send("POST / HTTP/1.1", "Host: example.com", fmt.Sprintf("Content-Length: %d", len(body)), "", "")
		k.send(body)
		if r, got := k.get("POST"); r.StatusCode != 200 || got != body[len(body)-1:] {
			t.Errorf("%d %q", r.StatusCode, got)
		}
	}
}

// An origin that is asked by http and by https is one in the metrics, whichever was asked, each time they are read.
//
// Covers: issue6 proxy
func TestOriginsAreCountedWhole(t *testing.T) {
	addr := origin(t, func(http.ResponseWriter, *http.Request) {})
	d, g := one(addr)
	twin := *g.origins[0]
	twin.TLS = &tls.Config{ServerName: "example.com"}
	b := start(t, Config{}, d)
	s := siteOf(paths{"*": {route: &Route{Service: "shop", Name: "all"}, group: group(addr)}})
	s.Origins = append(s.Origins, &twin)
	if err := b.Swap(s); err != nil {
		t.Fatal(err)
	}
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "", "")
	k.get("GET")
	b.log.wait(t, 1)
	for range 20 {
		if text, want := metricsText(t, b.reg), `steer_edge_origin_requests_total{group="web",origin="o0",result="answers",service="shop"} 1`; !strings.Contains(text, "\n"+want+"\n") {
			t.Fatalf("no %s in %s", want, text)
		}
	}
}
