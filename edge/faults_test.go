package edge

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// An origin that refuses the connection is passed over whatever the method: nothing was sent. The next one gets all of the
// body, though it was never kept.
//
// Covers: issue6 proxy retries, gateway T39, gateway fault 24, gateway fault 25
func TestRefusedConnectionsAreRetried(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%d %x %v", n, h.Sum(nil), err)
	})
	d, g := one(refusing(t), refusing(t), addr)
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("POST / HTTP/1.1", "Host: a", fmt.Sprintf("Content-Length: %d", len(body)), "", "")
	go func() { _, _ = k.Write(body) }() // the response is what is judged
	r, got := k.get("POST")
	if want := fmt.Sprintf("%d %x <nil>", len(body), sha256.Sum256(body)); r.StatusCode != 200 || got != want {
		t.Errorf("%d %s, want %s", r.StatusCode, got, want)
	}
	if g.said() != "o0 2 o1 2 o2 0" {
		t.Errorf("reports: %s", g.said())
	}
	if line := b.log.wait(t, 1); line["tries"] != 3.0 || line["origin"] != "o2" {
		t.Errorf("log: %v", line)
	}
	b.wants(t, `steer_edge_retries_total{route="all",service="shop"} 2`)

	d, _ = one(refusing(t))
	b = start(t, Config{}, d)
	k = dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "", "")
	if r, body := k.get("GET"); r.StatusCode != 502 || body != "502 Bad Gateway: connect_failed\n" || r.Close {
		t.Errorf("with nobody left: %d %q, close %t", r.StatusCode, body, r.Close)
	}
}

// A request that may have been received goes to another origin only when its method allows it and its body is still there.
//
// Covers: issue6 proxy retries, gateway T40, gateway fault 25
func TestBrokenRequestsAreRetriedOnlyWhenSafe(t *testing.T) {
	second := origin(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "second got %q", body)
	})
	for _, c := range []struct {
		name, method, field, body string
		length                    int
		key                       bool
		status                    int
	}{
		{"GET", "GET", "", "", 0, false, 200},
		{"PUT with its body here", "PUT", "", "abc", 3, false, 200},
		{"PUT with a body that is still to come", "PUT", "", "abc", 30_000, false, 502},
		{"POST", "POST", "", "abc", 3, false, 502},
		{"POST with a key", "POST", "Idempotency-Key: 1", "abc", 3, false, 502},
		{"POST with a key, where that counts", "POST", "Idempotency-Key: 1", "abc", 3, true, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := script(t, func(_ int, k *talk) { k.readHead() }) // and then it closes
			d, _ := one(first.addr(), second)
			if w := d["*"]; c.key {
				w.plan = func(_ *Asked, p *Plan) { p.IdempotencyField = "idempotency-key" }
				d["*"] = w
			}
			b := start(t, Config{}, d)
			k := dial(t, b.addr)
			head := []string{c.method + " / HTTP/1.1", "Host: a", fmt.Sprintf("Content-Length: %d", c.length)}
			if c.field != "" {
				head = append(head, c.field)
			}
			k.send(append(head, "", c.body)...)
			if r, body := k.get(c.method); r.StatusCode != c.status {
				t.Errorf("%d %q, want %d", r.StatusCode, body, c.status)
			}
		})
	}
}

// A connection that the origin closed while it was idle costs a request nothing that can be sent again; one on which
// something came unasked is not used again.
//
// Covers: issue6 proxy retries, gateway fault 26
func TestStaleConnectionsAreReplaced(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
	s := script(t, func(n int, k *talk) {
		k.readHead()
		k.say(ok + fmt.Sprint(n))
		if n == 0 {
			k.readHead() // the second request is read, and the connection closed without a word
			return
		}
		k.readHead()
		k.say(ok + "n")
		k.readHead()
	})
	d, g := one(s.addr())
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	for i, want := range []string{"0", "1", "n"} {
		k.send("GET / HTTP/1.1", "Host: a", "", "")
		if _, body := k.get("GET"); body != want {
			t.Errorf("request %d: %q, want %q", i, body, want)
		}
	}
	if g.said() != "o0 0 o0 0 o0 0" {
		t.Errorf("reports: %s: an idle connection that was closed is no fault", g.said())
	}
	b.wants(t, `steer_edge_origin_stale_total{group="web",origin="o0",service="shop"} 1`)

	unasked := script(t, func(n int, k *talk) {
		k.readHead()
		k.say(ok + fmt.Sprint(n) + "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad")
		k.readHead()
	})
	d, _ = one(unasked.addr())
	b = start(t, Config{}, d)
	k = dial(t, b.addr)
	for i := range 3 {
		k.send("GET / HTTP/1.1", "Host: a", "", "")
		if _, body := k.get("GET"); body != fmt.Sprint(i) {
			t.Errorf("request %d: %q", i, body)
		}
	}
}

// A response that is cut is passed on as cut, however its length is told, and is never tried again.
//
// Covers: issue6 proxy, gateway T41
func TestCutResponsesStayCut(t *testing.T) {
	for name, head := range map[string]string{
		"sized":      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789",
		"chunked":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n",
		"in a chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n0123456789",
		"reset":      "HTTP/1.1 200 OK\r\n\r\n0123456789",
	} {
		for _, version := range []string{"1.0", "1.1"} {
			t.Run(name+" to "+version, func(t *testing.T) {
				go1 := make(chan struct{})
				s := script(t, func(_ int, k *talk) {
					k.readHead()
					k.say(head)
					<-go1
					if name == "reset" {
						_ = k.SetLinger(0)
					}
				})
				d, g := one(s.addr())
				b := start(t, Config{}, d)
				k := dial(t, b.addr)
				k.send("GET / HTTP/"+version, "Host: a", "", "")
				r := k.head("GET")
				p := make([]byte, 10)
				if _, err := io.ReadFull(r.Body, p); err != nil || string(p) != "0123456789" {
					t.Fatalf("the beginning: %q, %v", p, err)
				}
				close(go1)
				if rest, err := io.ReadAll(r.Body); !isReset(err) {
					t.Errorf("the end: %q, %v: want a cut", rest, err)
				}
				line := b.log.wait(t, 1)
				if line["status"] != 502.0 || line["sent"] != 200.0 || line["reason"] != "origin_cut" || line["tries"] != 1.0 {
					t.Errorf("log: %v", line)
				}
				if g.said() != "o0 0 o0 3" {
					t.Errorf("reports: %s", g.said())
				}
			})
		}
	}
}

// A client that leaves lets its origin go, in every phase, and that is nobody's fault: the status is 499.
//
// Covers: issue6 proxy, gateway fault 20, gateway fault 21, gateway fault 23
func TestOriginsAreLetGoWithTheClient(t *testing.T) {
	for _, reset := range []bool{false, true} {
		for phase, lines := range map[string][]string{
			"before the response": nil,
			"in the response":     {"HTTP/1.1 200 OK", "Content-Type: text/event-stream", "", "data: 1\n\n"},
			"in the request":      nil,
		} {
			t.Run(fmt.Sprintf("%s, reset %t", phase, reset), func(t *testing.T) {
				asked, let := make(chan struct{}), make(chan time.Time, 1)
				s := script(t, func(_ int, k *talk) {
					k.readHead()
					k.say(lines...)
					close(asked)
					_, _ = io.Copy(io.Discard, k.r)
					let <- time.Now()
				})
				d, g := one(s.addr())
				b := start(t, Config{}, d)
				k := dial(t, b.addr)
				if phase == "in the request" {
					k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 100000", "", "some")
				} else {
					k.send("GET / HTTP/1.1", "Host: a", "", "")
				}
				<-asked
				if lines != nil {
					r := k.head("GET")
					if _, err := io.ReadFull(r.Body, make([]byte, 9)); err != nil {
						t.Fatal(err)
					}
				}
				left := time.Now()
				if reset {
					_ = k.SetLinger(0)
				}
				_ = k.Close()
				t.Logf("let go after %v", (<-let).Sub(left))
				if line := b.log.wait(t, 1); line["status"] != 499.0 || line["reason"] != "client_left" {
					t.Errorf("log: %v", line)
				}
				if said := g.said(); said != "" && said != "o0 0" {
					t.Errorf("reports: %s", said)
				}
				b.wants(t, `steer_edge_requests_total{route="all",service="shop",status="left"} 1`,
					`steer_edge_origin_connections{group="web",origin="o0",service="shop",state="active"} 0`)
			})
		}
	}
}

// However many clients leave in the middle, nothing is left of them.
//
// Covers: issue6 proxy, gateway fault 22
func TestAbortsLeaveNothing(t *testing.T) {
	n := 200
	if os.Getenv("STEER_LONG") != "" {
		n = 10_000
	}
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "x", "")
		_, _ = io.Copy(io.Discard, k.r)
	})
	d, _ := one(s.addr())
	b := start(t, Config{}, d)
	abort := func() {
		k := dial(t, b.addr)
		k.send("GET / HTTP/1.1", "Host: a", "", "")
		r := k.head("GET")
		if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = k.SetLinger(0)
		_ = k.Close()
	}
	abort()
	b.wants(t, `steer_edge_connections 0`)
	before := runtime.NumGoroutine()
	for range n {
		abort()
	}
	b.wants(t, `steer_edge_connections 0`, `steer_edge_origin_connections{group="web",origin="o0",service="shop",state="active"} 0`,
		`steer_edge_origin_connections{group="web",origin="o0",service="shop",state="idle"} 0`)
	eventually(t, "goroutines back", func() bool { return runtime.NumGoroutine() <= before+2 }) // of the origin, which ends when it may
}

// The head of a stream goes at once, and every part of it as it comes, whatever its type.
//
// Covers: issue6 proxy streams, gateway fault 1, gateway fault 2, gateway fault 3, gateway fault 4, gateway fault 5
func TestStreamsAreNotHeldBack(t *testing.T) {
	for _, kind := range []string{
		"text/event-stream", "Text/Event-Stream; charset=utf-8", "TEXT/EVENT-STREAM", "text/event-stream;charset=\"UTF-8\"", "text/event-stream ;", "application/json", "",
	} {
		t.Run(kind, func(t *testing.T) {
			more := make(chan string)
			s := script(t, func(_ int, k *talk) {
				k.readHead()
				k.say("HTTP/1.1 200 OK", "Content-Type: "+kind, "Transfer-Encoding: chunked", "", "")
				for m := range more {
					k.say(m)
				}
				k.say("0", "", "")
			})
			d, _ := one(s.addr())
			b := start(t, Config{}, d)
			k := dial(t, b.addr)
			k.send("GET / HTTP/1.1", "Host: a", "Accept-Encoding: gzip, br", "", "")
			r := k.head("GET") // which comes before the origin says anything else: it waits for more
			for _, part := range []string{"data: 1\n\n", "data: ", "2", strings.Repeat("x", 4000), "\n\n"} {
				more <- fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
				p := make([]byte, len(part))
				if _, err := io.ReadFull(r.Body, p); err != nil || string(p) != part {
					t.Fatalf("part %q: got %q, %v", part, p, err)
				}
			}
			// A chunk that is half here goes on as far as it is.
			more <- "8\r\nhalf"
			p := make([]byte, 4)
			if _, err := io.ReadFull(r.Body, p); err != nil || string(p) != "half" {
				t.Fatalf("half a chunk: %q, %v", p, err)
			}
			more <- "rest\r\n"
			close(more)
			if rest, err := io.ReadAll(r.Body); err != nil || string(rest) != "rest" {
				t.Errorf("the end: %q, %v", rest, err)
			}
		})
	}
}

// A client that waits for 100 Continue gets it from the origin; or the origin's refusal, without its body being asked for;
// or, when the origin says nothing, it is told to go on.
//
// Covers: issue6 proxy, gateway fault 42
func TestExpectContinue(t *testing.T) {
	post := []string{"POST / HTTP/1.1", "Host: a", "Expect: 100-continue", "Content-Length: 4", "", ""}
	s := script(t, func(_ int, k *talk) {
		head := k.readHead()
		if !strings.Contains(head, "Expect: 100-continue\r\n") {
			t.Errorf("the origin got %q", head)
		}
		k.say("HTTP/1.1 100 Continue", "", "")
		body := make([]byte, 4)
		_, _ = io.ReadFull(k.r, body)
		k.say("HTTP/1.1 200 OK", "Content-Length: 4", "", string(body))
	})
	d, _ := one(s.addr())
	k := dial(t, start(t, Config{}, d).addr)
	k.send(post...)
	k.expect("HTTP/1.1 100 Continue||")
	k.send("body")
	k.expect("HTTP/1.1 200 OK|Content-Length: 4||body")

	s = script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 413 Too Large", "Content-Length: 2", "", "no")
		if p, _ := io.ReadAll(k.r); len(p) > 0 {
			t.Errorf("after its refusal the origin got %q", p)
		}
	})
	d, _ = one(s.addr())
	k = dial(t, start(t, Config{}, d).addr)
	k.send(post...)
	k.expect("HTTP/1.1 413 Too Large|Content-Length: 2|Connection: close||no")

	s = script(t, func(_ int, k *talk) {
		k.readHead()
		body := make([]byte, 4)
		_, _ = io.ReadFull(k.r, body)
		k.say("HTTP/1.1 200 OK", "Content-Length: 4", "", string(body))
	})
	d, _ = one(s.addr())
	k = dial(t, start(t, Config{}, d).addr)
	k.send(post...)
	k.expect("HTTP/1.1 100 Continue||")
	k.send("body")
	k.expect("HTTP/1.1 200 OK|Content-Length: 4||body")
}

// An origin may answer before it has the whole request; the client gets the answer, and the connection ends.
//
// Covers: issue6 proxy
func TestEarlyAnswers(t *testing.T) {
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 403 Forbidden", "Content-Length: 2", "", "no")
		_, _ = io.Copy(io.Discard, k.r)
	})
	d, _ := one(s.addr())
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 100000", "", "some")
	k.expect("HTTP/1.1 403 Forbidden|Content-Length: 2|Connection: close||no")
	if err := k.ended(); err != nil {
		t.Error(err)
	}
}

// An origin that accepts and says nothing holds up its own requests, up to their limit, and nobody else's.
//
// Covers: issue6 proxy, gateway fault 28
func TestHungOriginsHangAlone(t *testing.T) {
	hung := script(t, func(_ int, k *talk) { _, _ = io.Copy(io.Discard, k.r) })
	good := origin(t, func(http.ResponseWriter, *http.Request) {})
	slow, fast := group(hung.addr()), group(good)
	d := paths{
		"slow":    {route: &Route{Service: "shop", Name: "slow", ResponseTimeout: time.Hour}, group: slow},
		"limited": {route: &Route{Service: "shop", Name: "limited", ResponseTimeout: 50 * time.Millisecond}, group: slow},
		"total":   {route: &Route{Service: "shop", Name: "total", TotalTimeout: 50 * time.Millisecond}, group: slow},
		"fast":    {route: &Route{Service: "shop", Name: "fast"}, group: fast},
	}
	b := start(t, Config{}, d)
	for range 20 {
		dial(t, b.addr).send("GET /slow HTTP/1.1", "Host: a", "", "")
	}
	k := dial(t, b.addr)
	k.send("GET /fast HTTP/1.1", "Host: a", "", "")
	if r, _ := k.get("GET"); r.StatusCode != 200 {
		t.Errorf("beside hung requests: %d", r.StatusCode)
	}
	for _, path := range []string{"limited", "total"} {
		k.send("GET /"+path+" HTTP/1.1", "Host: a", "", "")
		r, body := k.get("GET")
		// On a machine that is held up the time passes before.
		late := path == "total" && (body == "504 Gateway Timeout: connect_timeout\n" || body == "504 Gateway Timeout: deadline\n")
		if r.StatusCode != 504 || body != "504 Gateway Timeout: origin_timeout\n" && !late {
			t.Errorf("%s: %d %q", path, r.StatusCode, body)
		}
	}
	if !strings.Contains(slow.said(), "o0 4") {
		t.Errorf("reports: %s", slow.said())
	}
}

// What an origin says that two programs could read differently is not passed on.
//
// Covers: issue6 proxy, issue6 smuggling
func TestBadResponsesAreNotPassedOn(t *testing.T) {
	for data, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": "origin_length_coding",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab":                 "origin_length_many",
		"HTTP/1.1 200 OK\r\nX : y\r\nContent-Length: 0\r\n\r\n":                               "origin_field_name",
		"HTTP/1.1 200 OK\r\nX: a\x00\r\nContent-Length: 0\r\n\r\n":                            "origin_field_value",
		"HTTP/1.1 200 OK\nContent-Length: 0\n\n":                                              "origin_bare_lf",
		"ICY 200 OK\r\nContent-Length: 0\r\n\r\n":                                             "origin_status_line",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n":                              "origin_status_line",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n":                         "origin_chunk_size",
		strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20):                                 "origin_information",
	} {
		s := script(t, func(_ int, k *talk) { k.readHead(); k.say(data); k.readHead() })
		d, _ := one(s.addr())
		k := dial(t, start(t, Config{}, d).addr)
		k.send("GET / HTTP/1.1", "Host: a", "", "")
		var r *http.Response
		var body string
		for r, body = k.get("GET"); r.StatusCode == 102; r, body = k.get("GET") {
		}
		if r.StatusCode != 502 || body != "502 Bad Gateway: "+want+"\n" {
			t.Errorf("%q: %d %q, want %s", data, r.StatusCode, body, want)
		}
	}
}

// A WebSocket is octets in both directions until one side ends it.
//
// Covers: issue6 websocket, gateway T43
func TestWebSockets(t *testing.T) {
	s := script(t, func(_ int, k *talk) {
		head := k.readHead()
		if !strings.Contains(head, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n") || !strings.Contains(head, "Sec-WebSocket-Key: x\r\n") {
			k.say("HTTP/1.1 400 Bad Request", "Content-Length: 0", "", "")
			return
		}
		k.say("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Accept: y", "", "hello ")
		_, _ = io.Copy(k.TCPConn, k.r) // an echo
		k.say("bye")
	})
	d, _ := one(s.addr())
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("GET /chat HTTP/1.1", "Host: a", "Connection: keep-alive, Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Key: x", "", "early ")
	k.expect("HTTP/1.1 101 Switching Protocols|Sec-WebSocket-Accept: y|Connection: Upgrade|Upgrade: websocket||hello early ")
	for i := range 10 {
		p := bytes.Repeat([]byte{byte(i)}, i*10_000+1)
		go func() { _, _ = k.Write(p) }() // what comes back is judged
		got := make([]byte, len(p))
		if _, err := io.ReadFull(k.r, got); err != nil || !bytes.Equal(got, p) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	b.wants(t, `steer_edge_websockets 1`)
	if err := k.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(k.r); err != nil || string(rest) != "bye" {
		t.Errorf("the end: %q, %v", rest, err)
	}
	if line := b.log.wait(t, 1); line["status"] != 101.0 || line["in"] != 450016.0 || line["out"] != 450025.0 {
		t.Errorf("log: %v", line)
	}
	b.wants(t, `steer_edge_websockets 0`)

	// An upgrade that the origin declines is an ordinary response.
	k = dial(t, b.addr)
	k.send("GET /chat HTTP/1.1", "Host: a", "Connection: Upgrade", "Upgrade: websocket", "", "")
	if r, _ := k.get("GET"); r.StatusCode != 400 || r.Close {
		t.Errorf("declined: %d, close %t", r.StatusCode, r.Close)
	}
}

// A new site serves the next request; those under way go on, and those of a route that is gone end at its deadline.
//
// Covers: issue6 reload, gateway T45, gateway fault 45
func TestReloadTouchesNoConnection(t *testing.T) {
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: upgrade", "", "")
		_, _ = io.Copy(k.TCPConn, k.r)
	})
	plain := origin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "old") })
	fresh := origin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "new") })
	site := func(addr string, withGone bool) *Site {
		d := paths{
			"kept":  {route: &Route{Service: "shop", Name: "kept"}, group: group(s.addr())},
			"plain": {route: &Route{Service: "shop", Name: "plain"}, group: group(addr)},
		}
		if withGone {
			d["gone"] = way{route: &Route{Service: "shop", Name: "gone", Drain: time.Millisecond}, group: group(s.addr())}
		}
		return siteOf(d)
	}
	b := start(t, Config{}, paths{})
	if err := b.Swap(site(plain, true)); err != nil {
		t.Fatal(err)
	}
	socket := func(path string) *talk {
		k := dial(t, b.addr)
		k.send("GET "+path+" HTTP/1.1", "Host: a", "Connection: Upgrade", "Upgrade: websocket", "", "")
		k.expect("HTTP/1.1 101 Switching Protocols|Connection: Upgrade|Upgrade: websocket||")
		return k
	}
	stays, ends := socket("/kept"), socket("/gone")
	k := dial(t, b.addr)
	for i := range 100 {
		k.send("GET /plain HTTP/1.1", "Host: a", "", "")
		want, addr := "old", plain
		if i%2 == 1 {
			want, addr = "new", plain
		} else {
			addr = fresh
		}
		if r, body := k.get("GET"); r.StatusCode != 200 || body != want {
			t.Fatalf("request %d: %d %q, want %q", i, r.StatusCode, body, want)
		}
		if err := b.Swap(site(addr, true)); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []*talk{stays, ends} {
		k.send("ping")
		k.expect("ping")
	}
	if err := b.Swap(site(plain, false)); err != nil {
		t.Fatal(err)
	}
	if err := ends.ended(); err != nil {
		t.Errorf("the route that is gone: %v", err)
	}
	stays.send("ping")
	stays.expect("ping")
}

// A gateway that is told to end closes idle connections, lets requests end, and then has nothing left.
//
// Covers: issue6 drain
func TestStopDrains(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(begun)
			<-finish
		}
		_, _ = io.WriteString(w, "done")
	})
	d, _ := one(addr)
	b := start(t, Config{}, d)
	quiet := dial(t, b.addr)
	quiet.send("GET / HTTP/1.1", "Host: a", "", "")
	quiet.get("GET")
	k := dial(t, b.addr)
	k.send("GET /slow HTTP/1.1", "Host: a", "", "")
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- b.stop() }()
	if err := quiet.ended(); err != nil {
		t.Errorf("idle connection: %v", err)
	}
	close(finish)
	if r, body := k.get("GET"); r.StatusCode != 200 || body != "done" || !r.Close {
		t.Errorf("request under way: %d %q, close %t", r.StatusCode, body, r.Close)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if line := b.log.wait(t, 2); line["target"] != "/slow" {
		t.Errorf("log: %v", line)
	}
}

// What does not end by itself is cut when its time is over.
//
// Covers: issue6 drain
func TestStopCutsWhatDoesNotEnd(t *testing.T) {
	s := script(t, func(_ int, k *talk) {
		head := k.readHead()
		if strings.Contains(head, "/socket") {
			k.say("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: upgrade", "", "")
		} else {
			k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "x", "")
		}
		_, _ = io.Copy(io.Discard, k.r)
	})
	d, _ := one(s.addr())
	b := start(t, Config{Drain: time.Millisecond}, d)
	stream, socket, half := dial(t, b.addr), dial(t, b.addr), dial(t, b.addr)
	stream.send("GET / HTTP/1.1", "Host: a", "", "")
	r := stream.head("GET")
	if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	socket.send("GET /socket HTTP/1.1", "Host: a", "Connection: Upgrade", "Upgrade: websocket", "", "")
	socket.expect("HTTP/1.1 101 Switching Protocols|Connection: Upgrade|Upgrade: websocket||")
	half.send("GET / HTTP/1.1", "Host: a", "X: ")
	b.wants(t, `steer_edge_connections 3`)
	stopped := make(chan error, 1)
	go func() { stopped <- b.stop() }()
	if _, err := io.ReadAll(r.Body); !isReset(err) {
		t.Errorf("stream: %v, want a cut", err)
	}
	if rest, err := io.ReadAll(socket.r); err != nil || string(rest) != "\x88\x02\x03\xe9" { // Close, 1001
		t.Errorf("WebSocket: %q, %v", rest, err)
	}
	_ = socket.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
