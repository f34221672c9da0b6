package edge

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// multiplexed is an ordinary server with HTTP/2 in the clear, and HTTP/1.1.
func multiplexed(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	s.Config.Protocols = &p
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// multiplexedTLS is one with HTTP/2 over TLS, as an origin of a group.
func multiplexedTLS(t *testing.T, h http.HandlerFunc) (string, *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	return s.Listener.Addr().String(), &tls.Config{ServerName: "example.com", RootCAs: trusted}
}

// two is one with origins that are asked by HTTP/2. Their connections stay, and may be slow to come: the machine may be busy.
func two(addrs ...string) (paths, *inOrder) {
	d, g := one(addrs...)
	d["*"].route.ConnectTimeout = patience
	for _, o := range g.origins {
		o.HTTP2, o.IdleTimeout = true, time.Hour
	}
	return d, g
}

// frames is an origin of HTTP/2, frame by frame. f is called with every request, and its whole body.
func scriptedOrigin(t *testing.T, f func(k *framed, id uint32, head *http2.MetaHeadersFrame, body string)) *scripted {
	t.Helper()
	return script(t, func(n int, k *talk) {
		if _, err := io.ReadFull(k.r, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		o := &framed{talk: k, n: n, Framer: http2.NewFramer(k, k.r), resets: make(chan http2.ErrCode, 100)}
		o.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if o.WriteSettings() != nil {
			return
		}
		heads, bodies := map[uint32]http2.MetaHeadersFrame{}, map[uint32]string{}
		for {
			got, err := o.ReadFrame()
			if err != nil {
				return
			}
			id, ended := got.Header().StreamID, false
			switch got := got.(type) {
			case *http2.MetaHeadersFrame:
				heads[id], ended = *got, got.StreamEnded()
			case *http2.DataFrame:
				bodies[id] += string(got.Data())
				ended = got.StreamEnded()
				_ = o.WriteWindowUpdate(0, max(1, got.Length))
				if !ended {
					_ = o.WriteWindowUpdate(id, max(1, got.Length))
				}
			case *http2.RSTStreamFrame:
				o.resets <- got.ErrCode
			}
			if ended {
				head := heads[id]
				f(o, id, &head, bodies[id])
			}
		}
	})
}

// framed is a connection of such an origin, the n-th.
type framed struct {
	*talk
	*http2.Framer
	n      int
	resets chan http2.ErrCode
}

// answer sends the head of a response.
func (o *framed) answer(id uint32, end bool, fields ...string) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // to memory
	}
	_ = o.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: end})
}

// Requests go to origins by HTTP/2, in the clear and over TLS, on one connection, with all ways in which a body can come and with
// trailers; responses come back as they were.
//
// Covers: issue6 http2 origins
func TestOriginsWithHTTP2(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20_000)
	h := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("X-Saw", strings.Join([]string{
			r.Proto, r.Host, r.RequestURI, r.Header.Get("Via"), r.Header.Get("X-Forwarded-Proto"), r.Header.Get("Connection"), r.Trailer.Get("X-Up"),
		}, "|"))
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(204)
			return
		case "/trailer":
			w.Header().Set("Trailer", "X-Down")
			defer w.Header().Set("X-Down", "v")
		case "/sized":
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		_, _ = w.Write(body)
	}
	secureAddr, config := multiplexedTLS(t, h)
	d, g := two(multiplexed(t, h))
	sd, sg := two(secureAddr)
	sg.origins[0].TLS = config
	for name, d := range map[string]paths{"clear": d, "TLS": sd} {
		t.Run(name, func(t *testing.T) {
			b := start(t, Config{}, d)
			k := dial(t, b.addr)
			n := 0
			for _, path := range []string{"/sized", "/stream", "/trailer"} {
				for _, size := range []int{0, 1, 5000, 70_000, len(big)} {
					for _, chunked := range []bool{false, true} {
						head := []string{"POST " + path + "?q HTTP/1.1", "Host: a.example", "Connection: x", "Trailer: X-Up"}
						if chunked {
							k.send(append(head, "Transfer-Encoding: chunked", "", fmt.Sprintf("%x", size), big[:size])...)
							if size > 0 {
								k.send("", "0", "X-Up: u", "", "")
							} else {
								k.send("", "")
							}
						} else {
							k.send(append(head, fmt.Sprintf("Content-Length: %d", size), "", big[:size])...)
						}
						r, body := k.get("POST")
						n++
						saw := strings.Split(r.Header.Get("X-Saw"), "|")
						if r.StatusCode != 200 || body != big[:size] || len(saw) != 7 || saw[0] != "HTTP/2.0" || saw[1] != "a.example" ||
							saw[2] != path+"?q" || saw[3] != "1.1 steerpoint" || saw[4] != "http" || saw[5] != "" {
							t.Fatalf("%s, %d octets, chunked %t: %d, %d octets, the origin saw %q", path, size, chunked, r.StatusCode, len(body), saw)
						}
						if chunked && size > 5000 && saw[6] != "u" { // of one that came as a whole it is dropped
							t.Errorf("%s, %d octets: trailer up %q", path, size, saw[6])
						}
						if path == "/trailer" && r.Trailer.Get("X-Down") != "v" {
							t.Errorf("%d octets: trailer down %v", size, r.Trailer)
						}
					}
				}
			}
			k.send("HEAD /sized HTTP/1.1", "Host: a.example", "", "")
			if r, _ := k.get("HEAD"); r.StatusCode != 200 {
				t.Errorf("HEAD: %d", r.StatusCode)
			}
			k.send("GET /empty HTTP/1.1", "Host: a.example", "", "")
			if r, body := k.get("GET"); r.StatusCode != 204 || body != "" {
				t.Errorf("204: %d %q", r.StatusCode, body)
			}
			b.wants(t, `steer_edge_origin_connects_total{group="web",origin="o0",service="shop"} 1`,
				`steer_edge_origin_connections{group="web",origin="o0",service="shop",state="idle"} 1`,
				`steer_edge_origin_streams{group="web",origin="o0",service="shop"} 0`,
				fmt.Sprintf(`steer_edge_origin_requests_total{group="web",origin="o0",result="answers",service="shop"} %d`, n+2))
			if line := b.log.wait(t, 2); line["reused"] != true || line["tries"] != 1.0 {
				t.Errorf("log: %v", line)
			}
		})
	}
	_ = g
}

// An old client whose connection is kept gets what has no length by the end of its connection.
//
// Covers: issue6 http2 origins
func TestOldClientsOfHTTP2Origins(t *testing.T) {
	addr := multiplexed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "hello")
	})
	d, _ := two(addr)
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.0", "Connection: keep-alive", "", "")
	if r, body := k.get("GET"); r.StatusCode != 200 || body != "hello" || !r.Close {
		t.Errorf("%d %q, close %t", r.StatusCode, body, r.Close)
	}
}

// A request that an origin refused, or had not begun on when it closed the connection, goes on with all of its body, whatever its method;
// one that it may have begun on does not, unless nobody can tell.
//
// Covers: gateway T39, gateway T40, gateway fault 24, gateway fault 25, gateway fault 26, issue6 http2 origins
func TestHTTP2RetriesOnlyWhenSafe(t *testing.T) {
	body := strings.Repeat("x", 3000)
	cases := []struct {
		name, method string
		do           func(o *framed, id uint32)
		status       int
		reason       string
		reports      string
	}{
		{"refused", "POST", func(o *framed, id uint32) { _ = o.WriteRSTStream(id, http2.ErrCodeRefusedStream) }, 200, "", "o0 3 o1 0"},
		{"goaway", "POST", func(o *framed, _ uint32) { _ = o.WriteGoAway(0, http2.ErrCodeNo, nil) }, 200, "", "o0 3 o1 0"},
		{"reset", "POST", func(o *framed, id uint32) { _ = o.WriteRSTStream(id, http2.ErrCodeInternal) }, 502, "origin_reset", "o0 3"},
		{"reset", "PUT", func(o *framed, id uint32) { _ = o.WriteRSTStream(id, http2.ErrCodeInternal) }, 200, "", "o0 3 o1 0"},
		{"closed", "POST", func(o *framed, _ uint32) { _ = o.Close() }, 502, "origin_closed", "o0 3"},
		{"closed", "PUT", func(o *framed, _ uint32) { _ = o.Close() }, 200, "", "o0 3 o1 0"},
		{"malformed", "PUT", func(o *framed, id uint32) { o.answer(id, true, "x-a", "b") }, 502, "origin_h2_malformed", "o0 3"},
	}
	for _, c := range cases {
		t.Run(c.name+" "+c.method, func(t *testing.T) {
			bad := scriptedOrigin(t, func(o *framed, id uint32, _ *http2.MetaHeadersFrame, _ string) { c.do(o, id) })
			good := multiplexed(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
			d, g := two(bad.addr(), good)
			b := start(t, Config{}, d)
			k := dial(t, b.addr)
			k.send(c.method+" / HTTP/1.1", "Host: a", "Content-Length: 3000", "", body)
			r, got := k.get(c.method)
			if r.StatusCode != c.status || c.status == 200 && got != body {
				t.Errorf("%d, %d octets", r.StatusCode, len(got))
			}
			if line := b.log.wait(t, 1); c.reason != "" && line["reason"] != c.reason {
				t.Errorf("log: %v", line)
			}
			if g.said() != c.reports {
				t.Errorf("reports: %s, want %s", g.said(), c.reports)
			}
		})
	}
}

// A connection that the origin ends while a request is on its way to it is replaced by a new one to the same origin, which is no fault
// of it.
//
// Covers: gateway fault 26, issue6 http2 origins
func TestStaleHTTP2ConnectionsAreReplaced(t *testing.T) {
	s := scriptedOrigin(t, func(o *framed, id uint32, _ *http2.MetaHeadersFrame, body string) {
		if o.n == 0 && id > 1 {
			_ = o.WriteGoAway(1, http2.ErrCodeNo, nil)
			return
		}
		o.answer(id, false, ":status", "200")
		_ = o.WriteData(id, true, []byte(body))
	})
	d, g := two(s.addr())
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	for i := range 3 {
		k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 2", "", "hi")
		if r, body := k.get("POST"); r.StatusCode != 200 || body != "hi" {
			t.Fatalf("request %d: %d %q", i, r.StatusCode, body)
		}
	}
	if g.said() != "o0 0 o0 0 o0 0" {
		t.Errorf("reports: %s", g.said())
	}
	b.wants(t, `steer_edge_origin_stale_total{group="web",origin="o0",service="shop"} 1`, `steer_edge_origin_connects_total{group="web",origin="o0",service="shop"} 2`)
}

// A response that breaks off is passed on as broken, and is not tried again.
//
// Covers: gateway T41, issue6 http2 origins
func TestCutStreamsStayCut(t *testing.T) {
	for name, cut := range map[string]func(o *framed, id uint32){
		"reset":  func(o *framed, id uint32) { _ = o.WriteRSTStream(id, http2.ErrCodeCancel) },
		"closed": func(o *framed, _ uint32) { _ = o.Close() },
		"short":  func(o *framed, id uint32) { _ = o.WriteData(id, true, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			goOn := make(chan struct{})
			s := scriptedOrigin(t, func(o *framed, id uint32, _ *http2.MetaHeadersFrame, _ string) {
				fields := []string{":status", "200"}
				if name == "short" {
					fields = append(fields, "content-length", "100")
				}
				o.answer(id, false, fields...)
				_ = o.WriteData(id, false, []byte("0123456789"))
				<-goOn
				cut(o, id)
			})
			d, g := two(s.addr())
			b := start(t, Config{}, d)
			k := dial(t, b.addr)
			k.send("GET / HTTP/1.1", "Host: a", "", "")
			r := k.head("GET")
			if _, err := io.ReadFull(r.Body, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			close(goOn)
			if rest, err := io.ReadAll(r.Body); !isReset(err) {
				t.Errorf("%q, then %v", rest, err)
			}
			if line := b.log.wait(t, 1); line["status"] != 502.0 || line["sent"] != 200.0 || line["reason"] != "origin_cut" || line["tries"] != 1.0 {
				t.Errorf("log: %v", line)
			}
			if g.said() != "o0 0 o0 3" {
				t.Errorf("reports: %s", g.said())
			}
		})
	}
}

// A client that leaves has its stream reset at once, before the response and in the middle of it; the connection goes on.
//
// Covers: gateway fault 20, gateway fault 21, issue6 http2 origins
func TestStreamsAreLetGoWithTheClient(t *testing.T) {
	came, left := make(chan struct{}, 1), make(chan string, 1)
	addr := multiplexed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			w.(http.Flusher).Flush()
		}
		if r.URL.Path == "/early" {
			came <- struct{}{}
		}
		if r.URL.Path != "/ok" {
			<-r.Context().Done()
			left <- r.URL.Path
		}
	})
	d, _ := two(addr)
	b := start(t, Config{}, d)
	for i, path := range []string{"/early", "/late"} {
		k := dial(t, b.addr)
		k.send("GET "+path+" HTTP/1.1", "Host: a", "", "")
		if path == "/late" {
			k.head("GET")
		} else {
			<-came // a stream is counted before it is begun
			b.wants(t, `steer_edge_origin_streams{group="web",origin="o0",service="shop"} 1`)
		}
		_ = k.Close()
		if got := <-left; got != path {
			t.Errorf("%s was let go", got)
		}
		if line := b.log.wait(t, i+1); line["status"] != 499.0 {
			t.Errorf("log: %v", line)
		}
	}
	k := dial(t, b.addr)
	k.send("GET /ok HTTP/1.1", "Host: a", "", "")
	if r, _ := k.get("GET"); r.StatusCode != 200 {
		t.Errorf("%d", r.StatusCode)
	}
	b.wants(t, `steer_edge_origin_connects_total{group="web",origin="o0",service="shop"} 1`)
}

// Clients that leave at any moment leave no stream behind, and the connection to the origin serves on.
//
// Covers: gateway fault 22, issue6 http2 origins
func TestAbortsLeaveNoStreams(t *testing.T) {
	addr := multiplexed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			_, _ = w.Write(make([]byte, 100_000))
			w.(http.Flusher).Flush()
		}
		if r.URL.Path != "/ok" {
			<-r.Context().Done()
		}
	})
	d, _ := two(addr)
	b := start(t, Config{}, d)
	for i := range 100 {
		k := dial(t, b.addr)
		switch i % 3 {
		case 0:
			k.send("GET /early HTTP/1.1", "Host: a", "", "")
		case 1:
			k.send("GET /late HTTP/1.1", "Host: a", "", "")
			k.head("GET")
		case 2:
			k.send("POST /body HTTP/1.1", "Host: a", "Content-Length: 1000000", "", "x")
		}
		_ = k.SetLinger(0)
		_ = k.Close()
	}
	b.log.wait(t, 100)
	b.wants(t, `steer_edge_origin_streams{group="web",origin="o0",service="shop"} 0`, `steer_edge_connections 0`,
		`steer_edge_origin_connects_total{group="web",origin="o0",service="shop"} 1`)
	k := dial(t, b.addr)
	k.send("GET /ok HTTP/1.1", "Host: a", "", "")
	if r, _ := k.get("GET"); r.StatusCode != 200 {
		t.Errorf("%d", r.StatusCode)
	}
}

// An origin may answer before it has taken the body, and refuse the rest.
//
// Covers: issue6 http2 origins
func TestEarlyAnswersOverHTTP2(t *testing.T) {
	addr := multiplexed(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(413) })
	d, _ := two(addr)
	b := start(t, Config{}, d)
	for _, all := range []bool{true, false} {
		k := dial(t, b.addr)
		size := 300_000 // more than the window of the stream
		k.send("POST / HTTP/1.1", "Host: a", fmt.Sprintf("Content-Length: %d", size), "", strings.Repeat("x", 1000))
		if all {
			go func() { _, _ = io.WriteString(k.TCPConn, strings.Repeat("x", size-1000)) }() // the gateway may end it
		}
		if r := k.head("POST"); r.StatusCode != 413 {
			t.Errorf("%d", r.StatusCode)
		}
	}
}

// What comes of a stream goes on at once, and what an origin says before its response too.
//
// Covers: gateway fault 1, gateway fault 5, issue6 http2 origins
func TestStreamsOfHTTP2AreNotHeldBack(t *testing.T) {
	goOn := make(chan struct{})
	addr := multiplexed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(103)
		<-goOn
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for i := range 3 {
			<-goOn
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	})
	d, _ := two(addr)
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "", "")
	if r := k.head("GET"); r.StatusCode != 103 {
		t.Fatalf("%d", r.StatusCode)
	}
	goOn <- struct{}{}
	r := k.head("GET")
	events := bufio.NewReader(r.Body)
	for i := range 3 {
		goOn <- struct{}{}
		line, err := events.ReadString('\n')
		if _, more := events.ReadString('\n'); err != nil || more != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, line, errors.Join(err, more))
		}
	}
	if _, err := events.ReadString('\n'); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// An origin that is said to speak HTTP/2 and does not is told from one that is not there.
//
// Covers: issue6 http2 origins
func TestOriginsWithoutHTTP2(t *testing.T) {
	clear := origin(t, func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	d, g := two(clear, s.Listener.Addr().String())
	g.origins[1].TLS = &tls.Config{ServerName: "example.com", RootCAs: trusted}
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "", "")
	r, _ := k.get("GET")
	line := b.log.wait(t, 1)
	if r.StatusCode != 502 || line["tries"] != 2.0 || g.said() != "o0 2 o1 2" {
		t.Errorf("%d, log %v, reports %s", r.StatusCode, line, g.said())
	}
	if reason := line["reason"]; reason != "origin_not_http2" && reason != "connect_failed" { // a server of TLS may refuse what it does not know
		t.Errorf("reason %v", reason)
	}
}

// A WebSocket goes to an origin with HTTP/2 by HTTP/1.1.
//
// Covers: issue6 websocket, issue6 http2 origins
func TestWebSocketsOfHTTP2Origins(t *testing.T) {
	addr := multiplexed(t, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
		_, _ = io.Copy(c, rw)
	})
	d, _ := two(addr)
	b := start(t, Config{}, d)
	k := dial(t, b.addr)
	k.send("GET / HTTP/1.1", "Host: a", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x", "", "hello")
	if r := k.head("GET"); r.StatusCode != 101 {
		t.Fatalf("%d", r.StatusCode)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(k.r, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// Two clients of whom one does not read what it asked for: the other one, on the same connection to the origin, is not held up.
//
// Covers: gateway fault 28, issue6 http2 origins
func TestSlowReadersHoldNobodyUp(t *testing.T) {
	addr := multiplexed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ok" {
			return
		}
		for range 1 << 10 { // 64 MiB: more than sockets and windows hold
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	d, _ := two(addr)
	b := start(t, Config{}, d)
	slow, k := dial(t, b.addr), dial(t, b.addr)
	slow.send("GET /big HTTP/1.1", "Host: a", "", "")
	slow.head("GET")
	for range 20 {
		k.send("GET /ok HTTP/1.1", "Host: a", "", "")
		if r, _ := k.get("GET"); r.StatusCode != 200 {
			t.Errorf("%d", r.StatusCode)
		}
	}
	b.wants(t, `steer_edge_origin_connects_total{group="web",origin="o0",service="shop"} 1`)
}

// An origin with HTTP/2 is probed by it, and YAML makes all of this.
//
// Covers: issue6 http2 origins
func TestSnapshotsWithHTTP2(t *testing.T) {
	var mu sync.Mutex
	probed := ""
	addr := multiplexed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			mu.Lock()
			probed = r.Proto + " " + r.Method + " " + r.Host
			mu.Unlock()
			return
		}
		_, _ = io.WriteString(w, r.Proto)
	})
	b, _ := served(t, service(fmt.Sprintf(`originGroups:
  - name: web
    health: {path: /healthz, interval: 1s, sampleSize: 1, successfulSamples: 1}
    connections: {max: 3}
    origins: [{name: a, address: "%s", scheme: http, protocol: http2, hostHeader: origin.example}]
routes: [{name: all, originGroup: web}]
`, addr)))
	k := dial(t, b.addr)
	k.send("GET /x HTTP/1.1", "Host: a.example", "", "")
	if r, body := k.get("GET"); r.StatusCode != 200 || body != "HTTP/2.0" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	eventually(t, "a probe", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return probed == "HTTP/2.0 HEAD origin.example"
	})
}

// With no idle connection to be kept, each request has one of its own, by either version of HTTP.
//
// Covers: issue6 http2 origins, issue6 proxy pool
func TestNoConnectionIsUsedTwice(t *testing.T) {
	addr := multiplexed(t, func(http.ResponseWriter, *http.Request) {})
	for _, protocol := range []string{"http1", "http2"} {
		b, _ := served(t, service(fmt.Sprintf(`originGroups:
  - name: web
    health: {enabled: false}
    connections: {idle: 0}
    origins: [{name: a, address: "%s", scheme: http, protocol: %s}]
routes: [{name: all, originGroup: web}]
`, addr, protocol)))
		k := dial(t, b.addr)
		for range 3 {
			k.send("GET /x HTTP/1.1", "Host: a.example", "", "")
			if r, _ := k.get("GET"); r.StatusCode != 200 {
				t.Errorf("%s: %d", protocol, r.StatusCode)
			}
		}
		b.wants(t, `steer_edge_origin_connects_total{group="web",origin="a",service="shop"} 3`)
	}
}

// distant passes everything on to a server that is so far away, in both directions.
func distant(t *testing.T, to string, oneWay time.Duration) string {
	t.Helper()
	s := script(t, func(_ int, k *talk) {
		c, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer c.Close()
		var both sync.WaitGroup
		both.Go(func() { late(c, k.TCPConn, oneWay); _ = c.(*net.TCPConn).CloseWrite() })
		both.Go(func() { late(k.TCPConn, c, oneWay); _ = k.TCPConn.CloseWrite() })
		both.Wait()
	})
	return s.addr()
}

type parcel struct {
	due  time.Time
	data []byte
}

func late(to io.Writer, from io.Reader, after time.Duration) {
	way := make(chan parcel, 1<<16)
	var out sync.WaitGroup
	out.Go(func() {
		for p := range way {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data)
		}
	})
	for {
		room := make([]byte, 64<<10)
		n, err := from.Read(room)
		if n > 0 {
			way <- parcel{time.Now().Add(after), room[:n]}
		}
		if err != nil {
			break
		}
	}
	close(way)
	out.Wait()
}

// 100 MB come by HTTP/2 nearly as fast as by HTTP/1.1 from an origin that is 20 ms away: the window of a stream that is read grows.
// It fails at three times the figure; what is measured is in the log.
//
// Covers: gateway fault 41
func TestBulkOverHTTP2(t *testing.T) {
	if os.Getenv("STEER_LONG") == "" || underRace {
		t.Skip("takes some seconds and compares times: make bars-hold runs it")
	}
	const size = 100 << 20
	far := distant(t, multiplexed(t, func(w http.ResponseWriter, _ *http.Request) {
		for range size >> 16 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}), 10*time.Millisecond)
	took := map[bool]time.Duration{}
	for _, h2 := range []bool{false, true} {
		d, g := one(far)
		g.origins[0].HTTP2 = h2
		b := start(t, Config{}, d)
		for range 3 {
			begun := time.Now()
			q, err := http.NewRequestWithContext(context.Background(), "GET", "http://"+b.addr+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if err != nil || n != size {
				t.Fatalf("%d octets, %v", n, err)
			}
			if d := time.Since(begun); took[h2] == 0 || d < took[h2] {
				took[h2] = d
			}
		}
	}
	t.Logf("100 MB at 20 ms: HTTP/1.1 %v, HTTP/2 %v", took[false], took[true])
	if took[true] > 3*took[false]*5/4 {
		t.Errorf("HTTP/2 took %v, HTTP/1.1 %v: it is to have 80%% of its speed, and has not a third of that", took[true], took[false])
	}
}
