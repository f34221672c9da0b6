package check

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"steerpoint/report"
)

const well = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// TestHTTPResults: every way an HTTP answer can go, and the cause it is given.
//
// Covers: field 16
func TestHTTPResults(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	for _, row := range []struct {
		name   string
		handle func(net.Conn)
		get    string       // GET with this text expected in the body; "-": GET without; "": HEAD
		cause  report.Cause // "": ok
		detail string
		status int
	}{
		{name: "ok", handle: answer("HTTP/1.1 200 OK\r\n\r\n"), status: 200},
		{name: "ok from an old server", handle: answer("HTTP/1.0 204 No Content\r\n\r\n"), status: 204},
		{name: "ok with a body", handle: answer(well), get: "-", status: 200},
		{name: "ok after interim responses", handle: answer("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + well), get: "hello", status: 200},
		{name: "status not expected", handle: answer("HTTP/1.1 503 Busy\r\n\r\n"), cause: report.CauseStatus, detail: "503", status: 503},
		{name: "switching protocols is final", handle: answer("HTTP/1.1 101 Switching Protocols\r\n\r\n"), cause: report.CauseStatus, detail: "101", status: 101},
		{name: "text found", handle: answer(well), get: "ell", status: 200},
		{name: "text found in chunks", handle: answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"), get: "hello", status: 200},
		{name: "text found without a length", handle: answer("HTTP/1.1 200 OK\r\n\r\nhello"), get: "hello", status: 200},
		{name: "text found before an endless rest", handle: drip("HTTP/1.1 200 OK\r\n\r\nhello", " ", time.Millisecond), get: "hello", status: 200},
		{name: "text not there", handle: answer(well), get: "goodbye", cause: report.CauseBody, detail: "expected text", status: 200},
		{name: "text behind the limit", handle: answer("HTTP/1.1 200 OK\r\n\r\n" + long + "hello"), get: "hello", cause: report.CauseBody, status: 200},
		{name: "text at the very limit", handle: answer("HTTP/1.1 200 OK\r\n\r\n" + long[:bodyLimit-5] + "hello" + long), get: "hello", status: 200},
		{name: "text one byte behind it", handle: answer("HTTP/1.1 200 OK\r\n\r\n" + long[:bodyLimit-4] + "hello" + long), get: "hello", cause: report.CauseBody, status: 200},
		{name: "long body, no text expected", handle: answer("HTTP/1.1 200 OK\r\n\r\n" + long), get: "-", status: 200},
		{name: "no body, text expected", handle: answer("HTTP/1.1 204 No Content\r\n\r\n"), get: "hello", cause: report.CauseBody, status: 204},
		{name: "body breaks off", handle: answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"), get: "-", cause: report.CauseReset, detail: "reading the body", status: 200},
		{name: "chunks break off", handle: answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello"), get: "-", cause: report.CauseReset, status: 200},
		{name: "bad chunks", handle: answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello"), get: "-", cause: report.CauseProtocol, detail: "body", status: 200},
		{name: "silent", handle: hold, cause: report.CauseTimeout},
		{name: "closes at once", handle: func(net.Conn) {}, cause: report.CauseReset},
		{name: "closes after the request", handle: answer(""), cause: report.CauseReset, detail: "waiting for the response"},
		{name: "header breaks off", handle: answer("HTTP/1.1 200 OK\r\nServ"), cause: report.CauseReset, detail: "reading the response header"},
		{name: "resets", handle: reset, cause: report.CauseReset},
		{name: "header drips", handle: drip("HTTP/1.1 200 OK\r\n", "a", 5*time.Millisecond), cause: report.CauseTimeout},
		{name: "body drips", handle: drip("HTTP/1.1 200 OK\r\n\r\n", "a", 5*time.Millisecond), get: "-", cause: report.CauseTimeout, detail: "reading the body", status: 200},
		{name: "endless field", handle: drip("HTTP/1.1 200 OK\r\nA: ", long, 0), cause: report.CauseProtocol, detail: "64 KiB"},
		{name: "endless fields", handle: drip("HTTP/1.1 200 OK\r\n", "A: b\r\n", 0), cause: report.CauseProtocol, detail: "64 KiB"},
		{name: "endless interim responses", handle: drip("", "HTTP/1.1 100 Continue\r\n\r\n", 0), cause: report.CauseProtocol, detail: "64 KiB"},
		{name: "endless chunk framing", handle: drip("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1;"+long[:3000]+"\r\na\r\n", 0), get: "-", cause: report.CauseProtocol, status: 200},
		{name: "another protocol", handle: func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n"); hold(c) }, cause: report.CauseProtocol, detail: "header is not HTTP/1.1"},
		{name: "another protocol, without a line's end", handle: func(c net.Conn) { io.WriteString(c, "J\x00\x00\x00\n8.4.0\x00"); hold(c) }, cause: report.CauseProtocol},
		{name: "another protocol that closes", handle: answer("no\n"), cause: report.CauseProtocol},
		{name: "bare line feeds", handle: answer("HTTP/1.1 200 OK\nA: b\n\n"), status: 200},
		{name: "bad status", handle: answer("HTTP/1.1 2x0 OK\r\n\r\n"), cause: report.CauseProtocol},
		{name: "bad field", handle: answer("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), cause: report.CauseProtocol},
		{name: "two lengths", handle: answer("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), get: "-", cause: report.CauseProtocol},
		{name: "unknown coding", handle: answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: odd\r\n\r\nab"), get: "-", cause: report.CauseProtocol},
	} {
		t.Run(row.name, func(t *testing.T) {
			task := task("http", serve(t, "127.0.0.1:0", row.handle).addr)
			if row.get != "" {
				task.Method = "GET"
				task.Body = strings.Trim(row.get, "-")
			}
			var o report.Observation
			if row.cause == report.CauseTimeout {
				o = runOut(t, newChecker(Config{}), task, row.detail)
			} else {
				o = run(t, newChecker(Config{}), task)
			}
			if row.cause == "" {
				if !o.OK || o.Cause != "" || o.Latency <= 0 {
					t.Errorf("got %+v", o)
				}
			} else {
				wantFailure(t, o, row.cause, row.detail)
			}
			if o.Status != row.status {
				t.Errorf("status %d, want %d", o.Status, row.status)
			}
			if strings.Contains(o.Detail, "SSH") || strings.Contains(o.Detail, "hello") || strings.Contains(o.Detail, "colon") {
				t.Errorf("the detail holds what the target sent: %q", o.Detail)
			}
		})
	}
}

// reset reads a request and answers with RST.
func reset(c net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		c.(*net.TCPConn).SetLinger(0)
	}
}

// TestRequest: the request goes to the target's own address with the URL's host, path and query; nothing is followed
// or resolved.
//
// Covers: A6, field 30, field 31
func TestRequest(t *testing.T) {
	for _, row := range []struct{ url, host, uri string }{
		{"http://www.example.com/", "www.example.com", "/"},
		{"http://www.example.com", "www.example.com", "/"},
		{"http://www.example.com:80/a%20b?c=d", "www.example.com", "/a%20b?c=d"},
		{"http://www.example.com:8080/?x", "www.example.com:8080", "/?x"},
		{"http://WWW.Example.COM./", "www.example.com", "/"},
		{"http://bücher.example/ü?ä b", "xn--bcher-kva.example", "/%C3%BC?%C3%A4%20b"},
		{"http://商店.example/", "xn--czrs0t.example", "/"},
		{"http://a_b.example/", "a_b.example", "/"},
		{"http://192.0.2.7/", "192.0.2.7", "/"},
		{"http://[2001:DB8::7]/", "[2001:db8::7]", "/"},
		{"http://[2001:db8::7]:81/", "[2001:db8::7]:81", "/"},
	} {
		asked := make(chan *http.Request, 2)
		p := serve(t, "127.0.0.1:0", func(c net.Conn) {
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				t.Errorf("%s: the request cannot be read: %v", row.url, err)
				return
			}
			asked <- req
			fmt.Fprintf(c, "HTTP/1.1 302 Found\r\nLocation: http://%s/other\r\nContent-Length: 0\r\n\r\n", c.LocalAddr())
		})
		tk := task("http", p.addr)
		tk.URL = row.url
		o := run(t, newChecker(Config{Resolver: noResolver{t}}), tk)
		if !o.OK || o.Status != 302 || o.Address != p.addr {
			t.Errorf("%s: got %+v", row.url, o)
			continue
		}
		req := <-asked
		if req.Host != row.host || req.RequestURI != row.uri || req.Method != "HEAD" || req.UserAgent() != "steerpoint-probe/test" || !req.Close {
			t.Errorf("%s: asked %s %s of host %s as %q, close %v", row.url, req.Method, req.RequestURI, req.Host, req.UserAgent(), req.Close)
		}
		if n := p.count(); n != 1 {
			t.Errorf("%s: %d connections; a redirect was followed", row.url, n)
		}
	}
}

type noResolver struct{ t *testing.T }

func (r noResolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	r.t.Errorf("%s was resolved", host)
	return nil, io.ErrUnexpectedEOF
}

// TestNoProxy: the environment's proxy is not used: probes measure the edge, not the way through a proxy.
func TestNoProxy(t *testing.T) {
	proxy := serve(t, "127.0.0.1:0", answer("HTTP/1.1 200 OK\r\n\r\n"))
	for _, v := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"} {
		t.Setenv(v, "http://"+proxy.addr.String())
	}
	p := serve(t, "127.0.0.1:0", answer("HTTP/1.1 200 OK\r\n\r\n"))
	if o := run(t, newChecker(Config{}), task("http", p.addr)); !o.OK || p.count() != 1 || proxy.count() != 0 {
		t.Errorf("got %+v; %d connections to the target, %d to the proxy", o, p.count(), proxy.count())
	}
}

// TestPhases: each phase is measured from the end of the one before; latency is what ranks, the body's time is in
// none but the total.
func TestPhases(t *testing.T) {
	const pause = 30 * time.Millisecond
	p := serve(t, "127.0.0.1:0", func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		time.Sleep(pause)
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
		time.Sleep(pause)
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		time.Sleep(pause)
		io.WriteString(c, "hello")
	})
	tk := task("http", p.addr)
	tk.Method, tk.Body = "GET", "hello"
	o := run(t, newChecker(Config{}), tk)
	ph := o.Phases
	if !o.OK || ph.Connect <= 0 || ph.DNS != 0 || ph.TLS != 0 {
		t.Fatalf("got %+v", o)
	}
	if ph.FirstByte < 2*pause || o.Latency != ph.Connect+ph.FirstByte || ph.Total < o.Latency || ph.Total < 3*pause {
		t.Errorf("latency %v, phases %+v", o.Latency, ph)
	}
}

// TestMaxLatency: an answer slower than allowed is a failure that still shows its latency.
func TestMaxLatency(t *testing.T) {
	p := serve(t, "127.0.0.1:0", answer("HTTP/1.1 200 OK\r\n\r\n"))
	tk := task("http", p.addr)
	tk.MaxLatency = time.Nanosecond
	o := run(t, newChecker(Config{}), tk)
	wantFailure(t, o, report.CauseLatency, "more than the 1ns allowed")
	if o.Latency <= 0 || o.Status != 200 {
		t.Errorf("got %+v", o)
	}
	tk.MaxLatency = plenty
	if o := run(t, newChecker(Config{}), tk); !o.OK {
		t.Errorf("got %+v", o)
	}
}

// TestTCP: a tcp probe is a connection, no more.
func TestTCP(t *testing.T) {
	p := serve(t, "127.0.0.1:0", hold)
	o := run(t, newChecker(Config{}), task("tcp", p.addr))
	if !o.OK || o.Latency <= 0 || o.Latency != o.Phases.Connect || o.Address != p.addr || o.Point != "local" || o.Task != "t" {
		t.Errorf("got %+v", o)
	}
}

// nobody is a port that no program is given by chance, as one may be that was free a moment ago.
var nobody = netip.MustParseAddrPort("127.0.0.1:1")

// TestRefused: nobody listens.
func TestRefused(t *testing.T) {
	addr := nobody
	for _, kind := range []string{"tcp", "http", "https"} {
		wantFailure(t, run(t, newChecker(Config{}), task(kind, addr)), report.CauseRefused, addr.String())
	}
}

// TestIPv6: an IPv6 literal is connected to.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6 loopback: %v", err)
	}
	l.Close()
	p := serve(t, "[::1]:0", answer("HTTP/1.1 200 OK\r\n\r\n"))
	if o := run(t, newChecker(Config{}), task("http", p.addr)); !o.OK || o.Address != p.addr {
		t.Errorf("got %+v", o)
	}
}

// TestStopped: the end of the caller's context ends a probe in any phase, without a vote.
//
// Covers: field 13
func TestStopped(t *testing.T) {
	for name, handle := range map[string]func(net.Conn){
		"silent": hold,
		"header": drip("HTTP/1.1 200 OK\r\n", "a", time.Millisecond),
	} {
		reached := make(chan struct{}, 2) // of both kinds
		p := serve(t, "127.0.0.1:0", func(c net.Conn) {
			reached <- struct{}{}
			handle(c)
		})
		for _, kind := range []string{"http", "https"} {
			if kind == "https" && name != "silent" {
				continue
			}
			ctx, cancel := context.WithCancel(t.Context())
			tk := task(kind, p.addr)
			g, err := NewTarget(&tk)
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan report.Observation)
			go func() { got <- newChecker(Config{}).Run(ctx, g) }()
			if kind == "http" {
				<-reached
			}
			cancel()
			wantFailure(t, <-got, report.CauseLocal, "stopped")
		}
	}
}
