package edge

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"steerpoint/edge/internal/h2test"
)

// two is a connection of HTTP/2 to the gateway, without TLS.
func (b *bench) two(t *testing.T, settings ...http2.Setting) *h2test.Client {
	t.Helper()
	return h2test.New(t, dial(t, b.addr).TCPConn, settings...)
}

// HTTP/2 over TLS is agreed on by ALPN and spoken beside HTTP/1.1; each request of it goes the way of one of HTTP/1.1, and log, metrics, rules
// and the origin are told the version.
//
// Covers: issue6 http2
func TestHTTP2OverTLS(t *testing.T) {
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Saw", fmt.Sprintf("%s %s %s %s %d %s", r.Method, r.RequestURI, r.Host, r.Header.Get("Via"), r.ContentLength, r.Header.Get("X-Forwarded-Proto")))
		w.Header().Add("Set-Cookie", "a=b")
		w.Header().Add("Set-Cookie", "c=d")
		if r.URL.Path == "/none" {
			w.WriteHeader(204)
			return
		}
		_, _ = w.Write(body)
	})
	d, _ := one(addr)
	versions := make(chan string, 20)
	w := d["*"]
	w.plan = func(a *Asked, _ *Plan) { versions <- a.Version }
	d["*"] = w
	b, roots := secure(t, Config{}, d)
	tr := &http.Transport{TLSClientConfig: &tls.Config{ServerName: "example.com", RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	client := &http.Client{Transport: tr}
	large := strings.Repeat("0123456789abcdef", 20_000)
	for i, c := range []struct{ method, path, body, saw string }{
		{"GET", "/a?b=c", "", "GET /a?b=c " + b.addr + " 2.0 steerpoint 0 https"},
		{"POST", "/small", "hello", "POST /small " + b.addr + " 2.0 steerpoint 5 https"},
		{"PUT", "/large", large, fmt.Sprintf("PUT /large %s 2.0 steerpoint %d https", b.addr, len(large))},
		{"HEAD", "/head", "", "HEAD /head " + b.addr + " 2.0 steerpoint 0 https"},
		{"GET", "/none", "", "GET /none " + b.addr + " 2.0 steerpoint 0 https"},
	} {
		r, err := http.NewRequest(c.method, "https://"+b.addr+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		body, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil || got.Proto != "HTTP/2.0" || string(body) != c.body || got.Header.Get("X-Saw") != c.saw || len(got.Header["Set-Cookie"]) != 2 || got.Header.Get("Date") == "" {
			t.Errorf("%s: %s %d octets %v %v", c.path, got.Proto, len(body), got.Header, err)
		}
		if v := <-versions; v != "2" {
			t.Errorf("%s: rules see version %q", c.path, v)
		}
		line := b.log.wait(t, i+1)
		if line["protocol"] != "HTTP/2.0" || line["method"] != c.method || line["scheme"] != "https" || line["in"] != float64(len(c.body)) || line["out"] != float64(len(c.body)) {
			t.Errorf("log: %v", line)
		}
	}
	b.wants(t, `steer_edge_protocol_requests_total{protocol="HTTP/2"} 5`, `steer_edge_http2_connections 1`, `steer_edge_http2_streams 0`, `steer_edge_connections 1`)

	d, _ = one(addr)
	b, roots = secure(t, Config{DisableHTTP2: true}, d)
	tr.TLSClientConfig.RootCAs = roots
	r, err := client.Get("https://" + b.addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	if _ = r.Body.Close(); r.Proto != "HTTP/1.1" {
		t.Errorf("where it is turned off: %s", r.Proto)
	}
	b.wants(t, `steer_edge_protocol_requests_total{protocol="HTTP/1"} 1`)

	// What HTTP/2 must not be spoken over is told so.
	d, _ = one(addr)
	b, roots = secure(t, Config{}, d)
	c := tls.Client(dial(t, b.addr).TCPConn, &tls.Config{
		ServerName: "example.com", RootCAs: roots, MaxVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA},
	})
	if err := c.Handshake(); err != nil {
		t.Logf("old ciphers are not spoken at all: %v", err)
	} else if code, told := h2test.New(t, c).End(); !told || code != http2.ErrCodeInadequateSecurity {
		t.Errorf("an old cipher: %v, told %t", code, told)
	}
}

// HTTP/2 without TLS begins with its preface, as the first thing on a connection; requests are answered side by side.
//
// Covers: issue6 http2
func TestHTTP2WithoutTLS(t *testing.T) {
	goOn := make(chan struct{})
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-goOn
		}
		fmt.Fprintf(w, "%s %s", r.Host, r.URL.Path)
	})
	d, _ := one(addr)
	b := start(t, Config{}, d)
	k := b.two(t)
	k.Headers(1, true, h2test.Get("/slow")...)
	k.Headers(3, true, h2test.Get("/quick")...)
	if a := k.Answer(3); a.Status != "200" || string(a.Body) != "example.com /quick" {
		t.Errorf("%v", a)
	}
	close(goOn)
	if a := k.Answer(1); string(a.Body) != "example.com /slow" {
		t.Errorf("%v", a)
	}
	for i, c := range []struct {
		fields []string
		status string
	}{ // what the judge of HTTP/1.1 refuses is answered, and its siblings go on
		{[]string{":method", "GET", ":scheme", "http", ":authority", "a b", ":path", "/"}, ""},
		{[]string{":method", "GET", ":scheme", "http", ":authority", "user@a", ":path", "/"}, "400"},
		{[]string{":method", "GET", ":scheme", "http", ":path", "/"}, "400"},
		{[]string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/\x80"}, "400"},
		{[]string{":method", "TRACE", ":scheme", "http", ":authority", "a", ":path", "/"}, "501"},
		{[]string{":method", "CONNECT", ":authority", "a:443"}, "501"},
		{append(h2test.Get("/"), "expect", "bread"), "417"},
		{append(h2test.Get("/"), "content-length", "x"), "400"},
		{append(h2test.Get("/"), "content-length", "0", "content-length", "0"), "400"},
		{h2test.Get("/" + strings.Repeat("x", 9000)), "414"},
		{append(h2test.Get("/"), "x", strings.Repeat("x", 70_000)), "431"},
		{append(h2test.Get("/"), "x", strings.Repeat("x", 17_000)), "431"},
		{h2test.Get("/after"), "200"},
	} {
		id := uint32(2*i + 5)
		block := k.Block(c.fields...)
		k.Must(k.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:min(len(block), 16<<10)], EndStream: true, EndHeaders: len(block) <= 16<<10}))
		for block = block[min(len(block), 16<<10):]; len(block) > 0; block = block[min(len(block), 16<<10):] {
			k.Must(k.WriteContinuation(id, len(block) <= 16<<10, block[:min(len(block), 16<<10)]))
		}
		if a := k.Answer(id); a.Status != c.status || (c.status == "") != (a.Reset != nil) {
			t.Errorf("case %d: %v, want %q", i, a, c.status)
		}
	}
	one := dial(t, b.addr) // not as a second thing
	one.send("GET /one HTTP/1.1", "Host: a", "", "")
	one.get("GET")
	one.send("PRI * HTTP/2.0", "", "SM", "", "")
	if r, _ := one.get("GET"); r.StatusCode != 505 {
		t.Errorf("a preface after a request: %d", r.StatusCode)
	}
}

// A response that breaks off is a stream that is reset, and never one that ends; its siblings, and the connection, go on.
//
// Covers: issue6 http2, gateway T41
func TestCutResponsesResetTheirStream(t *testing.T) {
	for name, head := range map[string]string{
		"length": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789", "chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			goOn := make(chan struct{})
			s := script(t, func(_ int, k *talk) {
				if !strings.Contains(k.readHead(), "/cut") {
					k.say("HTTP/1.1 200 OK", "Content-Length: 2", "", "ok")
					return
				}
				k.say(head)
				<-goOn
			})
			d, _ := one(s.addr())
			b := start(t, Config{}, d)
			k := b.two(t)
			k.Headers(1, true, h2test.Get("/cut")...)
			k.Until("10 octets", func() bool { return len(k.On(1).Body) == 10 })
			k.Headers(3, true, h2test.Get("/")...)
			if a := k.Answer(3); string(a.Body) != "ok" {
				t.Errorf("a sibling: %v", a)
			}
			close(goOn)
			if a := k.Answer(1); a.Ended || a.Reset == nil || *a.Reset != http2.ErrCodeInternal {
				t.Errorf("%v, want a reset", a)
			}
			k.Headers(5, true, h2test.Get("/")...)
			if a := k.Answer(5); string(a.Body) != "ok" {
				t.Errorf("after it: %v", a)
			}
			eventually(t, "the log", func() bool {
				for _, line := range b.log.all(t) {
					if line["reason"] == "origin_cut" && line["status"] == 502.0 && line["sent"] == 200.0 {
						return true
					}
				}
				return false
			})
		})
	}
}

// A stream that its client resets lets its origin go at once, in every phase, and so does a connection that ends.
//
// Covers: issue6 http2, gateway fault 20, gateway fault 21, gateway fault 23
func TestResetStreamsLetTheirOriginGo(t *testing.T) {
	for _, phase := range []string{"waiting", "response", "upload", "connection"} {
		t.Run(phase, func(t *testing.T) {
			gone := make(chan struct{})
			came := make(chan struct{}, 1)
			s := script(t, func(_ int, k *talk) {
				head := k.readHead()
				if strings.Contains(head, "/sibling") {
					k.say("HTTP/1.1 200 OK", "Content-Length: 2", "", "ok")
					return
				}
				if phase == "response" {
					k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "x", "")
				}
				came <- struct{}{}
				_, _ = io.Copy(io.Discard, k.r) // until the gateway closes it
				close(gone)
			})
			d, _ := one(s.addr())
			b := start(t, Config{}, d)
			k := b.two(t)
			if phase == "upload" {
				k.Headers(1, false, h2test.Post("/")...)
				k.Must(k.WriteData(1, false, make([]byte, 10_000)))
			} else {
				k.Headers(1, true, h2test.Get("/")...)
			}
			<-came
			if phase == "response" {
				k.Until("an octet", func() bool { return len(k.On(1).Body) == 1 })
			}
			if phase == "connection" {
				_ = k.Conn.Close()
			} else {
				k.Must(k.WriteRSTStream(1, http2.ErrCodeCancel))
			}
			select {
			case <-gone:
			case <-time.After(patience):
				t.Fatal("the origin is held")
			}
			if line := b.log.wait(t, 1); line["status"] != 499.0 || line["reason"] != "client_left" {
				t.Errorf("log: %v", line)
			}
			if phase != "connection" {
				k.Headers(3, true, h2test.Get("/sibling")...)
				if a := k.Answer(3); string(a.Body) != "ok" {
					t.Errorf("a sibling: %v", a)
				}
			}
			b.wants(t, `steer_edge_origin_connections{group="web",origin="o0",service="shop",state="active"} 0`, `steer_edge_http2_streams 0`)
		})
	}
}

// Trailer fields go through in both directions, and so does an end without a body; responses before the response too.
//
// Covers: issue6 http2, gateway fault 42
func TestTrailersAndInformation(t *testing.T) {
	bodies := make(chan string, 1)
	s := script(t, func(n int, k *talk) {
		for {
			head := k.readHead()
			switch {
			case head == "":
				return
			case strings.Contains(head, "/only"): // as gRPC refuses
				k.say("HTTP/1.1 200 OK", "Content-Length: 0", "Grpc-Status: 12", "", "")
			case strings.Contains(head, "/wait"):
				k.say("HTTP/1.1 103 Early Hints", "Link: </a>", "", "HTTP/1.1 100 Continue", "", "")
				var p [3]byte
				_, _ = io.ReadFull(k.r, p[:])
				k.say("HTTP/1.1 200 OK", "Content-Length: 3", "", string(p[:]))
			default:
				k.say("HTTP/1.1 200 OK", "Trailer: grpc-status", "Transfer-Encoding: chunked", "", "5", "first", "")
				var got bytes.Buffer
				for p := make([]byte, 1); !strings.HasSuffix(got.String(), "\r\n\r\n"); {
					if _, err := k.r.Read(p); err != nil {
						return
					}
					got.Write(p)
				}
				bodies <- got.String()
				k.say("6", "second", "0", "Grpc-Status: 0", "Content-Length: 7", "", "")
			}
		}
	})
	d, _ := one(s.addr())
	b := start(t, Config{}, d)
	k := b.two(t)
	k.Headers(1, false, append(h2test.Post("/"), "te", "trailers", "content-type", "application/grpc")...)
	k.Until("what comes before the request is whole", func() bool { return string(k.On(1).Body) == "first" })
	k.Must(k.WriteData(1, false, []byte("one")))
	k.Headers(1, true, "checksum", "9", "x-forwarded-for", "1.2.3.4")
	a := k.Answer(1)
	if string(a.Body) != "firstsecond" || fmt.Sprint(a.Trailer) != "[grpc-status: 0]" || a.Field("trailer") != "grpc-status" {
		t.Errorf("%v, trailer %v, fields %v", a, a.Trailer, a.Fields)
	}
	if got := <-bodies; got != "3\r\none\r\n0\r\nchecksum: 9\r\n\r\n" {
		t.Errorf("the origin got %q", got)
	}
	k.Headers(3, true, h2test.Get("/only")...)
	if a := k.Answer(3); a.Field("grpc-status") != "12" || len(a.Body) != 0 || !a.Ended {
		t.Errorf("%v %v", a, a.Fields)
	}
	k.Headers(5, false, append(h2test.Post("/wait"), "expect", "100-continue", "content-length", "3")...)
	k.Until("100 Continue", func() bool { return len(k.On(5).Early) == 2 })
	k.Must(k.WriteData(5, true, []byte("abc")))
	if a := k.Answer(5); string(a.Body) != "abc" || fmt.Sprint(a.Early) != "[103 100]" {
		t.Errorf("%v %v", a, a.Early)
	}
}

// A stream becomes a WebSocket before an origin of HTTP/1.1: octets in both directions, until both sides have ended. An origin that does
// not prove that it took the handshake is none.
//
// Covers: issue6 http2 websocket, gateway fault 44
func TestWebSocketsOverHTTP2(t *testing.T) {
	ask := func(path string) []string {
		return []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "a", ":path", path, "sec-websocket-version", "13", "sec-websocket-protocol", "chat"}
	}
	s := script(t, func(_ int, k *talk) {
		head := k.readHead()
		_, key, _ := strings.Cut(head, "sec-websocket-key: ")
		key, _, _ = strings.Cut(key, "\r\n")
		if !strings.HasPrefix(head, "GET ") || !strings.Contains(head, "Connection: Upgrade\r\nUpgrade: websocket\r\n") {
			t.Errorf("the origin got %q", head)
		}
		switch {
		case strings.Contains(head, "/refused"):
			k.say("HTTP/1.1 403 Forbidden", "Content-Length: 2", "", "no")
			return
		case strings.Contains(head, "/lies"):
			key = "another"
		}
		k.say("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Accept: "+string(accepted(key)), "", "hello ")
		for p := make([]byte, 100); ; {
			n, err := k.r.Read(p)
			if err != nil {
				k.say("bye")
				return
			}
			k.say(strings.ToUpper(string(p[:n])))
		}
	})
	d, _ := one(s.addr())
	b := start(t, Config{}, d)
	k := b.two(t)
	k.Headers(1, false, ask("/chat")...)
	a := k.On(1)
	k.Until("hello", func() bool { return string(a.Body) == "hello " })
	if a.Status != "200" || a.Field("sec-websocket-accept") != "" || a.Field("upgrade") != "" || a.Field("sec-websocket-protocol") != "chat" {
		t.Errorf("%v %v", a, a.Fields)
	}
	b.wants(t, `steer_edge_websockets 1`)
	k.Must(k.WriteData(1, false, []byte("one ")))
	k.Until("an answer", func() bool { return string(a.Body) == "hello ONE " })
	k.Headers(3, true, ask("/refused")...)
	if a := k.Answer(3); a.Status != "403" || string(a.Body) != "no" {
		t.Errorf("one refused: %v", a)
	}
	k.Headers(5, false, ask("/lies")...)
	if a := k.Answer(5); a.Status != "502" || string(a.Body) != "502 Bad Gateway: origin_websocket\n" {
		t.Errorf("one that is none: %v", a)
	}
	k.Must(k.WriteData(1, true, []byte("two ")))
	if k.Answer(1); string(a.Body) != "hello ONE TWO bye" || !a.Ended {
		t.Errorf("%v", a)
	}
	b.wants(t, `steer_edge_websockets 0`)
	k.Headers(7, false, ask("/chat")...)
	k.Until("hello", func() bool { return string(k.On(7).Body) == "hello " })
	k.Must(k.WriteRSTStream(7, http2.ErrCodeCancel))
	b.wants(t, `steer_edge_websockets 0`, `steer_edge_origin_connections{group="web",origin="o0",service="shop",state="active"} 0`)
}

// A removed route ends its streams at its deadline, and none else; requests that were under way when the gateway stops are answered, and
// the client is told to begin no more.
//
// Covers: issue6 http2 drain, gateway fault 45, gateway T45
func TestStreamsEndWithTheirRoute(t *testing.T) {
	goOn := make(chan struct{})
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "x", "")
		select {
		case <-goOn:
			k.say("1", "y", "0", "", "")
		case <-time.After(patience):
		}
	})
	stays, goes := group(s.addr()), group(s.addr())
	goes.origins[0].Service = "old"
	b := start(t, Config{}, paths{
		"stays": {route: &Route{Service: "shop", Name: "stays"}, group: stays},
		"goes":  {route: &Route{Service: "old", Name: "goes", Drain: 10 * time.Millisecond}, group: goes},
	})
	k := b.two(t)
	k.Headers(1, true, h2test.Get("/stays")...)
	k.Headers(3, true, h2test.Get("/goes")...)
	k.Until("both", func() bool { return len(k.On(1).Body) == 1 && len(k.On(3).Body) == 1 })
	again := group(s.addr())
	if err := b.Swap(siteOf(paths{"stays": {route: &Route{Service: "shop", Name: "stays"}, group: again}})); err != nil {
		t.Fatal(err)
	}
	if a := k.Answer(3); a.Ended || a.Reset == nil {
		t.Errorf("of the removed route: %v", a)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- b.stop() }()
	k.Until("GOAWAY", func() bool { return len(k.GoAways) == 2 })
	close(goOn)
	if a := k.Answer(1); string(a.Body) != "xy" || !a.Ended {
		t.Errorf("of the other: %v", a)
	}
	if code, told := k.End(); !told || code != http2.ErrCodeNo {
		t.Errorf("at the end: %v, told %t", code, told)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A stream whose client is too slow ends alone; its siblings, slow or not, go on, and so does one whose origin says nothing.
//
// Covers: issue6 http2 limits, gateway fault 46, gateway fault 28
func TestSlowStreamsEndAlone(t *testing.T) {
	s := script(t, func(_ int, k *talk) {
		for {
			head := k.readHead()
			if head == "" {
				return
			}
			if strings.Contains(head, "/hung") || strings.Contains(head, "/slow") {
				_, _ = io.Copy(io.Discard, k.r)
				return
			}
			k.say("HTTP/1.1 200 OK", "Content-Length: 2", "", "ok")
		}
	})
	d, _ := one(s.addr())
	b := start(t, Config{BodyTimeout: 50 * time.Millisecond}, d)
	k := b.two(t)
	k.Headers(1, true, h2test.Get("/hung")...)
	k.Headers(3, false, h2test.Post("/slow")...)
	k.Must(k.WriteData(3, false, []byte("x")))
	if a := k.Answer(3); a.Status != "408" || string(a.Body) != "408 Request Timeout: body_timeout\n" {
		t.Errorf("%v", a)
	}
	k.Headers(5, true, h2test.Get("/")...)
	if a := k.Answer(5); string(a.Body) != "ok" {
		t.Errorf("a sibling: %v", a)
	}
	if k.On(1).Over() {
		t.Errorf("the one whose origin says nothing: %v", k.On(1))
	}
}

// Resets by the thousand end with the connection, before the origin has seen many of them, and cost others nothing but time.
//
// Covers: issue6 http2 floods, gateway fault 39
func TestRapidResets(t *testing.T) {
	var floods atomic.Int32
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flood" {
			floods.Add(1)
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
	d, _ := one(addr)
	const most = 20
	b := start(t, Config{MaxStreams: most}, d)
	other := b.two(t)
	var flood sync.WaitGroup
	flooding := b.two(t)
	flood.Go(func() {
		fr := http2.NewFramer(flooding.Conn, nil)
		block := flooding.Block(h2test.Get("/flood")...)
		for id := uint32(1); id < 200_000; id += 2 {
			if fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true, EndHeaders: true}) != nil || fr.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				return
			}
		}
	})
	for i := range 20 {
		id := uint32(2*i + 1)
		other.Headers(id, true, h2test.Get("/")...)
		if a := other.Answer(id); string(a.Body) != "ok" {
			t.Errorf("another client: %v", a)
		}
	}
	flooding.End()
	_ = flooding.Conn.Close()
	flood.Wait()
	b.wants(t, `steer_edge_http2_faults_total{code="enhance_your_calm",reason="resets"} 1`, `steer_edge_connections_ended_total{reason="h2_resets"} 1`)
	if n := floods.Load(); n > 10_000 { // of 100,000: 300 at once, and 30 a second
		t.Errorf("the origin had %d requests", n)
	}
}

// A connection that has nothing to do holds next to nothing, whatever it did before.
//
// Covers: issue6 http2, gateway fault 40
func TestIdleConnectionsHoldLittle(t *testing.T) {
	if underRace {
		t.Skip("the race detector takes memory of its own")
	}
	const conns, size = 100, 200_000
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	d, _ := one(addr)
	b := start(t, Config{}, d)
	open := func() *net.TCPConn {
		k := b.two(t)
		k.Until("SETTINGS", func() bool { return len(k.Settings) > 0 })
		window := int(k.Settings[http2.SettingInitialWindowSize])
		k.Headers(1, false, h2test.Post("/")...)
		part := make([]byte, 16<<10)
		for sent := 0; sent < size; sent += len(part) {
			k.Until("room", func() bool { return window+k.On(1).Credit-sent >= len(part) })
			k.Must(k.WriteData(1, false, part))
		}
		k.Must(k.WriteData(1, true, nil))
		if a := k.Answer(1); a.Status != "200" {
			t.Fatalf("%v", a)
		}
		return k.Conn.(*net.TCPConn)
	}
	held := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	keep := []*net.TCPConn{open()}
	before := held()
	for range conns {
		keep = append(keep, open())
	}
	b.wants(t, `steer_edge_http2_streams 0`)
	after := held()
	if each := (int64(after) - int64(before)) / conns; each > 64<<10 {
		t.Errorf("%d octets a connection", each)
	} else {
		t.Logf("%d octets a connection, those of the client's end and its origin included", each)
	}
	runtime.KeepAlive(keep)
}

// A client that takes nothing keeps the origin waiting: what it was sent waits at the origin, and not here.
//
// Covers: issue6 http2 flow control
func TestSlowReadersHoldTheirOrigin(t *testing.T) {
	var written atomic.Int64
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		part := make([]byte, 64<<10)
		for {
			n, err := w.Write(part)
			if written.Add(int64(n)); err != nil {
				return
			}
		}
	})
	d, _ := one(addr)
	b := start(t, Config{}, d)
	k := b.two(t)
	k.Greedy = false
	k.Headers(1, true, h2test.Get("/")...)
	k.Until("all the windows let through", func() bool { return len(k.On(1).Body) == 1<<16-1 })
	last := int64(-1)
	eventually(t, "the origin waits", func() bool { // as long as it takes to fill what the systems hold
		time.Sleep(50 * time.Millisecond)
		n := written.Load()
		same := n == last
		last = n
		return same
	})
	if n := written.Load(); n > 64<<20 {
		t.Errorf("the origin wrote %d octets", n)
	}
	if len(k.On(1).Body) > 1<<16-1 {
		t.Errorf("%d octets came", len(k.On(1).Body))
	}
	k.Must(k.WriteRSTStream(1, http2.ErrCodeCancel))
	b.wants(t, `steer_edge_http2_streams 0`)
}

// Streams that were aborted leave nothing behind.
//
// Covers: issue6 http2, gateway fault 22
func TestAbortedStreamsLeaveNothing(t *testing.T) {
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "x", "")
		_, _ = io.Copy(io.Discard, k.r)
	})
	d, _ := one(s.addr())
	b := start(t, Config{}, d)
	k := b.two(t)
	id := uint32(1)
	abort := func() {
		k.Headers(id, true, h2test.Get("/")...)
		k.Until("an octet", func() bool { return len(k.On(id).Body) == 1 })
		k.Must(k.WriteRSTStream(id, http2.ErrCodeCancel))
		id += 2
	}
	abort()
	b.wants(t, `steer_edge_http2_streams 0`)
	before := runtime.NumGoroutine()
	for range 200 {
		abort()
	}
	b.wants(t, `steer_edge_http2_streams 0`, `steer_edge_origin_connections{group="web",origin="o0",service="shop",state="active"} 0`)
	eventually(t, "goroutines back", func() bool { return runtime.NumGoroutine() <= before+2 }) // of the origin, which ends when it may
}

// A request of HTTP/2 may be tried again as one of HTTP/1.1 may: what came of its body with the head is kept.
//
// Covers: issue6 http2, gateway T39, gateway fault 24
func TestStreamsAreRetried(t *testing.T) {
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %s", r.ContentLength, body)
	})
	closing := script(t, func(_ int, k *talk) { k.readHead() })
	d, _ := one(refusing(t), closing.addr(), addr)
	b := start(t, Config{}, d)
	k := b.two(t)
	// In one write, so that the body is there with the head.
	var both bytes.Buffer
	fr := http2.NewFramer(&both, nil)
	k.Must(fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: k.Block(append([]string{":method", "PUT"}, h2test.Get("/")[2:]...)...), EndHeaders: true}))
	k.Must(fr.WriteData(1, true, []byte("all of it")))
	if _, err := k.Conn.Write(both.Bytes()); err != nil {
		t.Fatal(err)
	}
	if a := k.Answer(1); a.Status != "200" || string(a.Body) != "9 all of it" {
		t.Errorf("%v", a)
	}
	if line := b.log.wait(t, 1); line["tries"] != 3.0 {
		t.Errorf("log: %v", line)
	}
}
