package edge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// origin is an ordinary server.
func origin(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A request goes to the origin of its route and its response comes back, over one connection on each side however many
// there are; log and metrics say what happened.
//
// Covers: issue6 proxy, issue6 access log
func TestRequestsAreForwarded(t *testing.T) {
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Saw", r.Method+" "+r.RequestURI+" "+r.Host)
		w.WriteHeader(201)
		fmt.Fprintf(w, "got %s", body)
	})
	d, g := one(addr)
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	for i := range 3 {
		k.send("POST /a/b?c=d HTTP/1.1", "Host: Www.example.com:80", "User-Agent: \"x\"\x80", "Content-Length: 2", "", "hi")
		r, body := k.get("POST")
		if r.StatusCode != 201 || body != "got hi" || r.Header.Get("X-Saw") != "POST /a/b?c=d Www.example.com:80" || r.Close {
			t.Fatalf("response %d: %d %v %q, close %t", i, r.StatusCode, r.Header, body, r.Close)
		}
	}
	line := b.log.wait(t, 3)
	for field, want := range map[string]any{
		"status": 201.0, "method": "POST", "target": "/a/b?c=d", "host": "Www.example.com", "in": 2.0, "out": 6.0, "service": "shop",
		"route": "all", "group": "web", "origin": "o0", "tries": 1.0, "reused": true, "user_agent": "\"x\"\ufffd", "scheme": "http",
		"protocol": "HTTP/1.1", "reason": nil, "sent": nil,
	} {
		if line[field] != want {
			t.Errorf("log: %s is %v, want %v", field, line[field], want)
		}
	}
	b.wants(t, `steer_edge_requests_total{route="all",service="shop",status="2xx"} 3`,
		`steer_edge_origin_connects_total{group="web",origin="o0",service="shop"} 1`,
		`steer_edge_origin_requests_total{group="web",origin="o0",result="answers",service="shop"} 3`,
		`steer_edge_request_bytes_total{route="all",service="shop"} 6`, `steer_edge_connections 1`,
		`steer_edge_request_duration_seconds_count{route="all",service="shop"} 3`)
	if g.said() != "o0 0 o0 0 o0 0" {
		t.Errorf("reports: %s", g.said())
	}
}

// Every way in which a body can come arrives at the other side as it was.
//
// Covers: issue6 proxy
func TestBodiesArriveWhole(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20_000)
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
		if r.URL.Path == "/chunked" {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
		}
		_, _ = w.Write(body)
	})
	d, _ := one(addr)
	b := start(t, Config{}, d)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	for _, path := range []string{"/sized", "/chunked"} {
		for _, size := range []int{0, 1, 1000, 5000, len(big)} {
			for _, known := range []bool{true, false} {
				var body io.Reader = strings.NewReader(big[:size])
				if !known {
					body = io.MultiReader(body)
				}
				r, err := client.Post("http://"+b.addr+path, "text/plain", body)
				if err != nil {
					t.Fatalf("%s, %d octets, length known %t: %v", path, size, known, err)
				}
				got, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if err != nil || string(got) != big[:size] {
					t.Errorf("%s, %d octets, length known %t: got %d octets, %v", path, size, known, len(got), err)
				}
			}
		}
	}
}

// wants looks for lines among the metrics.
func (b *bench) wants(t *testing.T, want ...string) {
	t.Helper()
	var text string
	for _, w := range want {
		eventually(t, w, func() bool {
			text = metricsText(t, b.reg)
			return strings.Contains(text, "\n"+w+"\n")
		})
	}
}

// What is about one connection is not passed on, in either direction; what says where a request came from is written anew.
//
// Covers: issue6 proxy, gateway fault 30, gateway fault 47
func TestFieldsOfHopsStay(t *testing.T) {
	heads := make(chan string, 10)
	s := script(t, func(_ int, k *talk) {
		for {
			head := k.readHead()
			if head == "" {
				return
			}
			heads <- head
			k.say("HTTP/1.1 200 OK", "Connection: keep-alive, X-Hop", "Keep-Alive: timeout=5", "X-Hop: 1", "Content-Length: 2", "X-End: 2", "Date: now", "", "ok")
		}
	})
	d, _ := one(s.addr())
	ask := func(b *bench) string {
		k := dial(t, b.addr)
		k.send("GET / HTTP/1.1", "Host: a.example", "Connection:", "Connection: X-Mine, x-forwarded-for", "X-Mine: 1", "TE: trailers", "Upgrade: h2c",
			"Proxy-Authorization: x", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Host: b.example", "X-Forwarded-Proto: gopher", "Forwarded: for=192.0.2.2", "Via: 1.1 other", "Accept: */*", "", "")
		r, body := k.get("GET")
		if body != "ok" || r.Header.Get("X-Hop") != "" || r.Header.Get("Keep-Alive") != "" || r.Header.Get("X-End") != "2" || r.Header.Get("Connection") != "" {
			t.Errorf("response: %v %q", r.Header, body)
		}
		return <-heads
	}
	want := strings.Join([]string{
		"GET / HTTP/1.1", "Host: a.example", "Via: 1.1 other", "Accept: */*", "Via: 1.1 steerpoint", "X-Forwarded-For: 127.0.0.1",
		"X-Forwarded-Host: a.example", "X-Forwarded-Proto: http", "", "",
	}, "\r\n")
	if got := ask(start(t, Config{}, d)); got != want {
		t.Errorf("untrusted:\n%s\nwant:\n%s", got, want)
	}
	d, _ = one(s.addr())
	want = strings.Join([]string{
		"GET / HTTP/1.1", "Host: a.example", "X-Forwarded-Host: b.example", "X-Forwarded-Proto: gopher", "Forwarded: for=192.0.2.2", "Via: 1.1 other",
		"Accept: */*", "Via: 1.1 steerpoint", "X-Forwarded-For: 127.0.0.1", "", "",
	}, "\r\n")
	if got := ask(start(t, Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, d)); got != want {
		t.Errorf("trusted:\n%s\nwant:\n%s", got, want)
	}
}

// The client is who the last proxy that is not ours was told by; what stands before that may be made up.
//
// Covers: issue6 proxy, gateway fault 47
func TestClientBehindProxies(t *testing.T) {
	asked := make(chan string, 1)
	addr := origin(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		trusted string
		fields  []string
		want    string
	}{
		{"192.0.2.0/24", []string{"X-Forwarded-For: 198.51.100.1"}, "127.0.0.1 http"},
		{"127.0.0.1/32", []string{"X-Forwarded-For: 198.51.100.1"}, "198.51.100.1 http"},
		{"127.0.0.1/32", []string{"X-Forwarded-For: 203.0.113.9, 198.51.100.1, 127.0.0.1", "X-Forwarded-Proto: https"}, "198.51.100.1 https"},
		{"127.0.0.1/32", []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 2001:db8::1"}, "2001:db8::1 http"},
		{"127.0.0.1/32", []string{"X-Forwarded-For: 203.0.113.9, unknown"}, "127.0.0.1 http"},
		{"127.0.0.1/32", []string{"X-Forwarded-For: 203.0.113.9, 198.51.100.1:4711"}, "198.51.100.1 http"}, // as Azure's application gateways
		{"127.0.0.1/32", []string{"X-Forwarded-For: 198.51.100.1, 127.0.0.1:80"}, "198.51.100.1 http"},
		{"127.0.0.1/32", []string{"X-Forwarded-For: [2001:db8::1]:4711"}, "2001:db8::1 http"},
		{"127.0.0.1/32", []string{"X-Forwarded-For: [2001:db8::1]"}, "2001:db8::1 http"},
		{"127.0.0.1/32", nil, "127.0.0.1 http"},
	} {
		d, _ := one(addr)
		w := d["*"]
		w.plan = func(a *Asked, _ *Plan) { asked <- a.Client.Addr().String() + " " + a.Scheme }
		d["*"] = w
		b := start(t, Config{Trusted: []netip.Prefix{netip.MustParsePrefix(c.trusted)}}, d)
		k := dial(t, b.addr)
		k.send(append(append([]string{"GET / HTTP/1.1", "Host: a"}, c.fields...), "", "")...)
		k.get("GET")
		if got := <-asked; got != c.want {
			t.Errorf("%v: client %s, want %s", c.fields, got, c.want)
		}
	}
}

// What the codec refuses gets its status and the end of the connection, and no octet of it reaches an origin.
//
// Covers: issue6 smuggling, gateway fault 32, gateway fault 35, gateway fault 36
func TestRefusedRequestsReachNobody(t *testing.T) {
	s := script(t, func(_ int, k *talk) { t.Errorf("the origin got %q", k.readHead()) })
	d, _ := one(s.addr())
	b := start(t, Config{MaxTarget: 100, MaxFields: 10, DisableHTTP2: true}, d)
	const hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
	for i, c := range []struct {
		data   string
		status int
	}{
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 400},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden, 501},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + hidden, 400},
		{"GET / HTTP/1.1\nHost: a\n\n" + hidden, 400},
		{"GET / HTTP/1.1\r\nHost : a\r\n\r\n" + hidden, 400},
		{"GET / HTTP/1.1\r\n\r\n" + hidden, 400},
		{"GET / HTTP/2.0\r\nHost: a\r\n\r\n" + hidden, 505},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"GET /" + strings.Repeat("x", 200) + " HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, 414},
		{"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 20) + "\r\n" + hidden, 431},
		{"\x16\x03\x01\x02\x00\x01\x00", 400},
	} {
		k := dial(t, b.addr)
		k.send(c.data)
		r, body := k.get("GET")
		if r.StatusCode != c.status || !r.Close || !strings.HasPrefix(body, fmt.Sprint(c.status)) {
			t.Errorf("case %d: %d %q, close %t: want %d", i, r.StatusCode, body, r.Close, c.status)
		}
		if err := k.ended(); err != nil {
			t.Errorf("case %d: after the answer: %v", i, err)
		}
	}
	if line := b.log.wait(t, 1); line["reason"] != "length_coding" || line["status"] != 400.0 {
		t.Errorf("log: %v", line)
	}
	b.wants(t, `steer_edge_failures_total{reason="length_coding"} 1`)
}

// A response gets no body where it has none, and a client of HTTP/1.0 gets none of what it does not know.
//
// Covers: issue6 proxy
func TestResponsesWithoutBody(t *testing.T) {
	s := script(t, func(_ int, k *talk) {
		for {
			head := k.readHead()
			method, _, _ := strings.Cut(head, " ")
			switch {
			case head == "":
				return
			case method == "HEAD":
				k.say("HTTP/1.1 200 OK", "Content-Length: 7", "", "")
			case strings.Contains(head, "/204"):
				k.say("HTTP/1.1 204 No Content", "", "")
			case strings.Contains(head, "/304"):
				k.say("HTTP/1.1 304 Not Modified", "Content-Length: 9", "ETag: x", "", "")
			case strings.Contains(head, "/0"):
				k.say("HTTP/1.1 200 OK", "Content-Length: 0", "", "")
			case strings.Contains(head, "/chunks"):
				k.say("HTTP/1.1 103 Early Hints", "Link: </a>", "", "HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "2", "ab", "2", "cd", "0", "X-Sum: 4", "Host: b", "", "")
			case strings.Contains(head, "/end"):
				k.say("HTTP/1.1 200 OK", "", "to the end")
				return
			}
		}
	})
	d, _ := one(s.addr())
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	for _, c := range []struct{ request, want string }{
		{"HEAD /", "HTTP/1.1 200 OK|Content-Length: 7||"},
		{"GET /204", "HTTP/1.1 204 No Content||"},
		{"GET /304", "HTTP/1.1 304 Not Modified|ETag: x|Content-Length: 9||"},
		{"GET /0", "HTTP/1.1 200 OK|Content-Length: 0||"},
		{"GET /chunks", "HTTP/1.1 103 Early Hints|Link: </a>||HTTP/1.1 200 OK|Transfer-Encoding: chunked||4|abcd|0|X-Sum: 4||"},
		{"GET /end", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||a|to the end|0||"},
	} {
		k.send(c.request+" HTTP/1.1", "Host: a", "", "")
		k.expect(c.want)
	}
	for _, c := range []struct{ request, want string }{
		{"GET /chunks", "HTTP/1.1 200 OK|Connection: close||abcd"},
		{"GET /end", "HTTP/1.1 200 OK|Connection: close||to the end"},
	} {
		old := dial(t, b.addr)
		old.send(c.request+" HTTP/1.0", "Host: a", "", "")
		old.expect(c.want)
		if err := old.ended(); err != nil {
			t.Errorf("HTTP/1.0 %s: %v", c.request, err)
		}
	}
	old := dial(t, b.addr)
	old.send("GET /0 HTTP/1.0", "Connection: keep-alive", "", "")
	old.expect("HTTP/1.1 200 OK|Content-Length: 0|Connection: keep-alive||")
	old.send("GET /0 HTTP/1.0", "", "")
	old.expect("HTTP/1.1 200 OK|Content-Length: 0|Connection: close||")
}

// expect reads exactly what is wanted; | stands for CRLF, and Date is passed over.
func (k *talk) expect(want string) {
	k.t.Helper()
	var got strings.Builder
	for want = strings.ReplaceAll(want, "|", "\r\n"); got.Len() < len(want); {
		rest := want[got.Len():]
		if !strings.Contains(rest, "\n") {
			p := make([]byte, len(rest))
			if _, err := io.ReadFull(k.r, p); err != nil {
				k.t.Fatalf("got %q, then %v: want %q", got.String(), err, want)
			}
			got.Write(p)
			break
		}
		line, err := k.r.ReadString('\n')
		if err != nil {
			k.t.Fatalf("got %q, then %v: want %q", got.String()+line, err, want)
		}
		if !strings.HasPrefix(line, "Date: ") {
			got.WriteString(line)
		}
	}
	if got.String() != want {
		k.t.Fatalf("got %q, want %q", got.String(), want)
	}
}

// A request that has gone in a circle is stopped.
//
// Covers: issue6 proxy, gateway T44
func TestLoopsAreStopped(t *testing.T) {
	d, _ := one("127.0.0.1:1")
	b := start(t, Config{MaxHops: 3, IdleTimeout: time.Minute}, d)
	d, _ = one(b.addr) // itself
	if err := b.Swap(siteOf(d)); err != nil {
		t.Fatal(err)
	}
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "", "")
	if r, body := k.get("GET"); r.StatusCode != 508 || body != "508 Loop Detected: loop\n" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
}

// Answers without an origin keep the connection when nothing of the request is left to come.
//
// Covers: issue6 proxy
func TestAnswersWithoutOrigin(t *testing.T) {
	d := paths{"moved": {plan: func(_ *Asked, p *Plan) {
		p.Status, p.Reason, p.Location = 301, "redirect", []byte("https://a/")
	}}, "limited": {plan: func(_ *Asked, p *Plan) {
		p.Status, p.Reason, p.Retry = 429, "rate", 1500*time.Millisecond
	}}, "none": {route: &Route{Name: "none"}, group: group()}}
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("POST /moved HTTP/1.1", "Host: a", "Content-Length: 2", "", "xxGET /limited HTTP/1.1", "Host: a", "", "HEAD /none HTTP/1.1", "Host: a", "", "GET /other HTTP/1.1", "Host: a", "", "")
	if r, _ := k.get("POST"); r.StatusCode != 301 || r.Header.Get("Location") != "https://a/" {
		t.Errorf("moved: %d %v", r.StatusCode, r.Header)
	}
	if r, _ := k.get("GET"); r.StatusCode != 429 || r.Header.Get("Retry-After") != "2" {
		t.Errorf("limited: %d %v", r.StatusCode, r.Header)
	}
	if r, _ := k.get("HEAD"); r.StatusCode != 503 {
		t.Errorf("none: %d", r.StatusCode)
	}
	if r, body := k.get("GET"); r.StatusCode != 400 || body != "400 Bad Request: no_route\n" {
		t.Errorf("other: %d %q", r.StatusCode, body)
	}
	k.send("POST /moved HTTP/1.1", "Host: a", "Content-Length: 100", "", "only this")
	if r, _ := k.get("POST"); r.StatusCode != 301 || !r.Close {
		t.Errorf("with a body that does not come: %d, close %t", r.StatusCode, r.Close)
	}
	if err := k.ended(); err != nil {
		t.Error(err)
	}
}

// One address has its share of connections and no more; so has everybody together.
//
// Covers: issue6 proxy limits
func TestConnectionsAreCapped(t *testing.T) {
	addr := origin(t, func(http.ResponseWriter, *http.Request) {})
	d, _ := one(addr)
	b := start(t, Config{MaxPerSource: 2}, d)
	var open []*talk
	for range 2 {
		k := dial(t, b.addr)
		k.send("GET / HTTP/1.1", "Host: a", "", "")
		k.get("GET")
		open = append(open, k)
	}
	if c, err := net.Dial("tcp", b.addr); err == nil { // it may have been reset before the dial was over
		k := &talk{TCPConn: c.(*net.TCPConn), r: bufio.NewReader(c), t: t}
		if err := k.ended(); err != nil {
			t.Errorf("the third connection: %v", err)
		}
		_ = c.Close()
	}
	b.wants(t, `steer_edge_connections_refused_total{reason="source"} 1`)
	_ = open[0].Close()
	b.wants(t, `steer_edge_connections 1`)
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "", "")
	if r, _ := k.get("GET"); r.StatusCode != 200 {
		t.Errorf("after one had gone: %d", r.StatusCode)
	}
	for a, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8:1:2:3::4": "2001:db8:1:2::"} {
		if got := source(netip.MustParseAddr(a)).String(); got != want {
			t.Errorf("%s is counted as %s, want %s", a, got, want)
		}
	}
}

// Who sends a head or a body octet by octet is not waited for without end.
//
// Covers: issue6 proxy limits, gateway fault 46
func TestSlowClientsAreEnded(t *testing.T) {
	s := script(t, func(_ int, k *talk) { _, _ = io.Copy(io.Discard, k) })
	d, _ := one(s.addr())
	b := start(t, Config{HeadTimeout: 50 * time.Millisecond, BodyTimeout: 50 * time.Millisecond}, d)
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "X-Slow: ")
	if r, body := k.get("GET"); r.StatusCode != 408 || body != "408 Request Timeout: head_timeout\n" {
		t.Errorf("head: %d %q", r.StatusCode, body)
	}
	k = dial(t, b.addr)
	k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 100", "", "x")
	if r, body := k.get("POST"); r.StatusCode != 408 || body != "408 Request Timeout: body_timeout\n" {
		t.Errorf("body: %d %q", r.StatusCode, body)
	}
	d, _ = one(s.addr())
	b = start(t, Config{IdleTimeout: 50 * time.Millisecond}, d)
	if err := dial(t, b.addr).ended(); err != nil {
		t.Errorf("without a request: %v", err)
	}
	d, _ = one(s.addr())
	b = start(t, Config{BodyGrace: time.Nanosecond, BodyRate: 1 << 30}, d)
	k = dial(t, b.addr)
	k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 100", "", "x")
	if r, _ := k.get("POST"); r.StatusCode != 408 {
		t.Errorf("below the least rate: %d", r.StatusCode)
	}
}

// A body above its limit is refused: before anything is sent when its length says so, and as it comes when not.
//
// Covers: issue6 proxy limits
func TestBodiesAreBounded(t *testing.T) {
	s := script(t, func(_ int, k *talk) { _, _ = io.Copy(io.Discard, k) })
	d, _ := one(s.addr())
	d["*"].route.MaxBody = 10
	b := start(t, Config{}, d)
	for _, head := range []string{"Content-Length: 11", "Transfer-Encoding: chunked"} {
		k := dial(t, b.addr)
		k.send("POST / HTTP/1.1", "Host: a", head, "", "6", "012345", "6", "012345", "")
		if r, body := k.get("POST"); r.StatusCode != 413 || body != "413 Content Too Large: length_big\n" {
			t.Errorf("%s: %d %q", head, r.StatusCode, body)
		}
	}
}

// Before the first site there is an answer, and a site that cannot be served changes nothing.
//
// Covers: issue6 reload, gateway T11
func TestSitesAreChecked(t *testing.T) {
	addr := origin(t, func(http.ResponseWriter, *http.Request) {})
	d, _ := one(addr)
	b := start(t, Config{}, d)
	bad, _ := one("")
	if err := b.Swap(siteOf(bad)); err == nil {
		t.Error("an origin without address was taken")
	}
	if err := b.Swap(&Site{}); err == nil {
		t.Error("a site without director was taken")
	}
	if err := b.Swap(siteOf(d)); err == nil {
		t.Error("a site was taken twice")
	}
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "", "")
	if r, _ := k.get("GET"); r.StatusCode != 200 {
		t.Errorf("after sites that cannot be served: %d", r.StatusCode)
	}
}
