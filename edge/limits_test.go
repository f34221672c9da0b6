package edge

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A client that does not read what it asked for is ended with RST, so that what waits for it is thrown away, and its origin is
// let go.
//
// Covers: issue6 proxy limits, gateway fault 46
func TestClientsThatDoNotReadAreEnded(t *testing.T) {
	let := make(chan error, 1)
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 200 OK", "Content-Length: 1000000000", "", "")
		var err error
		for part := make([]byte, 1<<20); err == nil; {
			_, err = k.TCPConn.Write(part)
		}
		let <- err
	})
	d, _ := one(s.addr())
	b := start(t, Config{WriteTimeout: 50 * time.Millisecond}, d)
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "", "")
	if line := b.log.wait(t, 1); line["status"] != 499.0 || line["reason"] != "client_stalled" || line["sent"] != 200.0 {
		t.Errorf("log: %v", line)
	}
	if err := <-let; err == nil {
		t.Error("the origin could write all of it")
	}
	if _, err := io.Copy(io.Discard, k.r); !isReset(err) {
		t.Errorf("the end: %v, want a cut", err)
	}
	b.wants(t, `steer_edge_failures_total{reason="client_stalled"} 1`, `steer_edge_requests_total{route="all",service="shop",status="left"} 1`)
}

// Who holds a body back is ended, and who sends ten thousand octets a second all the time is not, however long that takes.
//
// Covers: issue6 proxy limits, gateway fault 46
func TestHonestSlowBodiesAreNotEnded(t *testing.T) {
	d, _ := one("127.0.0.1:9")
	b := start(t, Config{}, d)
	x := &client{g: b.Gateway}
	late := func(sent time.Duration, in int64) time.Duration { // how long it may go on without another octet
		now := b.clock.Now()
		return x.bodyLimit(now.Add(-max(sent, 1)), in).Sub(now)
	}
	for sent := time.Second; sent < 500*time.Second; sent += time.Second {
		if left := late(sent, int64(sent/time.Second)*10_000); left < 25*time.Second {
			t.Fatalf("5 MB at 10 KB/s are ended after %v, unless more comes in %v", sent, left)
		}
	}
	// An octet every ten seconds is neither silent nor fast enough.
	for sent := time.Duration(0); ; sent += 10 * time.Second {
		if late(sent, int64(sent/(10*time.Second))) < 10*time.Second {
			break
		}
		if sent > 60*time.Second {
			t.Fatal("a trickle is held for more than 60 s")
		}
	}
	if got := late(0, 0); got > 60*time.Second {
		t.Errorf("silence is held for %v", got)
	}
}

// abort is a way in which a client leaves, and how far it gets before.
type abort struct {
	name string
	do   func(t *testing.T, b *bench)
}

func aborts() []abort {
	reset := func(k *talk) { _ = k.SetLinger(0); _ = k.Close() }
	return []abort{
		{"before a request", func(t *testing.T, b *bench) { reset(dial(t, b.addr)) }},
		{"in a head", func(t *testing.T, b *bench) {
			k := dial(t, b.addr)
			k.send("GET / HTTP/1.1", "Host: a", "X-")
			reset(k)
		}},
		{"in a body", func(t *testing.T, b *bench) {
			k := dial(t, b.addr)
			k.send("POST /quiet HTTP/1.1", "Host: a", "Content-Length: 100000", "", "some")
			reset(k)
		}},
		{"before a response", func(t *testing.T, b *bench) {
			k := dial(t, b.addr)
			k.send("GET /quiet HTTP/1.1", "Host: a", "", "")
			reset(k)
		}},
		{"in a response", func(t *testing.T, b *bench) {
			k := dial(t, b.addr)
			k.send("GET /part HTTP/1.1", "Host: a", "", "")
			if _, err := io.ReadFull(k.head("GET").Body, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			reset(k)
		}},
		{"half closed in a response", func(t *testing.T, b *bench) {
			k := dial(t, b.addr)
			k.send("GET /part HTTP/1.1", "Host: a", "", "")
			if _, err := io.ReadFull(k.head("GET").Body, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			_ = k.CloseWrite()
			_, _ = io.Copy(io.Discard, k.r)
			_ = k.Close()
		}},
		{"in a WebSocket", func(t *testing.T, b *bench) {
			k := b.socket(t, "/socket")
			k.send("\x82\x05abc")
			reset(k)
		}},
		{"between requests", func(t *testing.T, b *bench) {
			k := dial(t, b.addr)
			k.send("GET /whole HTTP/1.1", "Host: a", "", "")
			k.get("GET")
			reset(k)
		}},
	}
}

// In whatever phase clients leave, and however many do, nothing is left of them: goroutines, memory and connections to origins
// are what they were.
//
// Covers: issue6 proxy, gateway fault 22
func TestAbortsInEveryPhaseLeaveNothing(t *testing.T) {
	rounds := 25
	if os.Getenv("STEER_LONG") != "" {
		rounds = 10_000 / len(aborts())
	}
	s := script(t, func(_ int, k *talk) {
		for {
			head := k.readHead()
			switch {
			case head == "":
				return
			case strings.HasPrefix(head, "GET /whole"):
				k.say("HTTP/1.1 200 OK", "Content-Length: 1", "", "x")
				continue
			case strings.HasPrefix(head, "GET /part"):
				k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "x", "")
			case strings.HasPrefix(head, "GET /socket"):
				k.say("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: upgrade", "", "")
			}
			_, _ = io.Copy(io.Discard, k.r)
			return
		}
	})
	d, g := one(s.addr())
	g.origins[0].IdleTimeout = 100 * time.Millisecond
	b := start(t, Config{AccessLog: io.Discard}, d)
	settled := func() (goroutines int, heap uint64) {
		b.wants(t, `steer_edge_connections 0`, `steer_edge_websockets 0`, `steer_edge_origin_connections{group="web",origin="o0",service="shop",state="active"} 0`)
		eventually(t, "idle connections closed", func() bool {
			return strings.Contains(metricsText(t, b.reg), `steer_edge_origin_connections{group="web",origin="o0",service="shop",state="idle"} 0`)
		})
		s.mu.Lock()
		s.conns = nil // those of the test itself
		s.mu.Unlock()
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // pools give back what was not used between two
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapInuse + m.StackInuse
	}
	round := func(t *testing.T) {
		for _, a := range aborts() {
			a.do(t, b)
		}
	}
	t.Run("first", round) // each in a test of its own, whose clean-up lets go of its connections
	goroutines, heap := settled()
	for i := range rounds {
		t.Run(fmt.Sprint(i), round)
	}
	eventually(t, "goroutines back", func() bool { return runtime.NumGoroutine() <= goroutines+2 })
	after, grown := settled()
	t.Logf("%d aborts: goroutines %d, then %d; heap and stacks %d KiB, then %d KiB", rounds*len(aborts()), goroutines, after, heap>>10, grown>>10)
	if grown > heap+4<<20 {
		t.Errorf("memory grew from %d to %d octets", heap, grown)
	}
}

// What a client could take for the end of a response that was cut is RST, by every kind of end there is.
//
// Covers: issue6 drain, gateway T41
func TestStopsAreCuts(t *testing.T) {
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 200 OK", "", "x") // up to the end of the connection
		_, _ = io.Copy(io.Discard, k.r)
	})
	for _, version := range []string{"1.0", "1.1"} {
		d, _ := one(s.addr())
		b := start(t, Config{Drain: time.Millisecond}, d)
		k := dial(t, b.addr)
		k.send("GET / HTTP/"+version, "Host: a", "", "")
		r := k.head("GET")
		if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		if rest, err := io.ReadAll(k.r); err == nil || !strings.Contains(err.Error(), "reset") {
			t.Errorf("HTTP/%s: the end: %q, %v: want RST", version, rest, err)
		}
	}
}

// A body that does not come with its head is awaited where it may be needed again, and is whole for the next origin when the
// first one breaks; a longer one, and one of a method that is not repeated, goes on as it comes.
//
// Covers: issue6 proxy retries, gateway fault 24, gateway R11
func TestBodiesAreKeptForRetries(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	second := origin(t, func(w http.ResponseWriter, r *http.Request) {
		all, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "second got %t %v", bytes.Equal(all, body), err)
	})
	for _, c := range []struct {
		name, method string
		keep         int64
		memory       int64
		status       int
	}{
		{"kept", "PUT", 64 << 10, 0, 200},
		{"longer than what is kept", "PUT", 100, 0, 502},
		{"not to be repeated", "POST", 64 << 10, 0, 502},
		{"no room", "PUT", 64 << 10, 1, 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := script(t, func(_ int, k *talk) {
				k.readHead()
				_, _ = io.ReadFull(k.r, make([]byte, 10)) // and then it closes
			})
			d, _ := one(first.addr(), second)
			w := d["*"]
			w.plan = func(_ *Asked, p *Plan) { p.BufferBody = c.keep }
			d["*"] = w
			b := start(t, Config{BodyMemory: c.memory}, d)
			k := dial(t, b.addr)
			k.send(c.method+" / HTTP/1.1", "Host: a", fmt.Sprintf("Content-Length: %d", len(body)), "", "")
			for rest := body; len(rest) > 0; rest = rest[4000:] {
				k.send(string(rest[:4000]))
			}
			r, said := k.get(c.method)
			if r.StatusCode != c.status || c.status == 200 && said != "second got true <nil>" {
				t.Errorf("%d %q", r.StatusCode, said)
			}
			b.wants(t, `steer_edge_body_memory_bytes 0`)
		})
	}
}

// looks is a director whose rules look at bodies.
type looks struct {
	paths
	want int64
	saw  chan string
}

func (d looks) BodyWanted(*Asked) int64 { return d.want }

func (d looks) Direct(a *Asked, p *Plan) {
	d.saw <- string(a.Body)
	d.paths.Direct(a, p)
}

// Rules see the body up to what they look at, whenever it comes, and the origin gets all of it. Who holds it back is ended, and
// who waits for 100 Continue is told to go on.
//
// Covers: issue6 body rules
func TestRulesSeeBodies(t *testing.T) {
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		all, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %q", len(all), err, r.Header.Get("Expect"))
	})
	d, _ := one(addr)
	rules := looks{paths: d, want: 20_000, saw: make(chan string, 10)}
	b := start(t, Config{}, paths{})
	site := siteOf(d)
	site.Director = rules
	if err := b.Swap(site); err != nil {
		t.Fatal(err)
	}
	const size = 50_000
	k := dial(t, b.addr)
	k.send("POST / HTTP/1.1", "Host: a", fmt.Sprintf("Content-Length: %d", size), "", "")
	for range size / 1000 {
		k.send(strings.Repeat("x", 1000))
	}
	if _, body := k.get("POST"); body != `50000 <nil> ""` {
		t.Errorf("the origin got %s", body)
	}
	if saw := <-rules.saw; len(saw) < int(rules.want) {
		t.Errorf("rules saw %d octets", len(saw))
	}
	k.send("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "3", "abc", "")
	k.send("2", "de", "0", "", "")
	if _, body := k.get("POST"); body != `5 <nil> ""` {
		t.Errorf("the origin got %s", body)
	}
	if saw := <-rules.saw; saw != "abcde" {
		t.Errorf("rules saw %q", saw)
	}
	k.send("POST / HTTP/1.1", "Host: a", "Expect: 100-continue", "Content-Length: 4", "", "")
	k.expect("HTTP/1.1 100 Continue||")
	k.send("body")
	if _, body := k.get("POST"); body != `4 <nil> ""` {
		t.Errorf("the origin got %s", body)
	}
	if saw := <-rules.saw; saw != "body" {
		t.Errorf("rules saw %q", saw)
	}
	b.wants(t, `steer_edge_body_memory_bytes 0`)

	site = siteOf(paths{"*": {route: &Route{Service: "shop", Name: "all"}, group: group(addr)}})
	site.Director = rules
	held := start(t, Config{BodyTimeout: 50 * time.Millisecond}, paths{})
	if err := held.Swap(site); err != nil {
		t.Fatal(err)
	}
	k = dial(t, held.addr)
	k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 4", "", "b")
	if r, body := k.get("POST"); r.StatusCode != 408 || body != "408 Request Timeout: body_timeout\n" {
		t.Errorf("held back: %d %q", r.StatusCode, body)
	}
	site = siteOf(paths{"*": {route: &Route{Service: "shop", Name: "all"}, group: group(addr)}})
	site.Director = rules
	full := start(t, Config{BodyMemory: 1}, paths{})
	if err := full.Swap(site); err != nil {
		t.Fatal(err)
	}
	k = dial(t, full.addr)
	k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 4", "", "b")
	if r, body := k.get("POST"); r.StatusCode != 503 || body != "503 Service Unavailable: body_memory\n" {
		t.Errorf("without room: %d %q", r.StatusCode, body)
	}
	full.wants(t, `steer_edge_body_memory_bytes 0`)
}

// Every limit says what it refused, in the answer and in the metrics.
//
// Covers: issue6 proxy limits
func TestLimitsAreCounted(t *testing.T) {
	addr := origin(t, func(http.ResponseWriter, *http.Request) {})
	d, _ := one(addr)
	d["*"].route.MaxBody = 10
	b := start(t, Config{MaxHead: 1000, MaxTarget: 100, MaxField: 200, MaxFields: 20}, d)
	for reason, request := range map[string]string{
		"target_long": "GET /" + strings.Repeat("x", 200) + " HTTP/1.1\r\nHost: a\r\n\r\n",
		"field_long":  "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 300) + "\r\n\r\n",
		"fields_many": "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 30) + "\r\n",
		"head_long":   "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: "+strings.Repeat("x", 190)+"\r\n", 6) + "\r\n",
		"length_big":  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n",
	} {
		k := dial(t, b.addr)
		k.send(request)
		r, body := k.get("GET")
		if !strings.HasSuffix(body, ": "+reason+"\n") {
			t.Errorf("%s: %d %q", reason, r.StatusCode, body)
		}
		b.wants(t, fmt.Sprintf(`steer_edge_failures_total{reason=%q} 1`, reason))
	}
}
