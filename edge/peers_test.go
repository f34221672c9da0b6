package edge

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// odd are bursts of requests that are written oddly, and how many of them the gateway takes. What it does not take ends the
// connection.
var odd = []struct {
	data string
	want int
}{
	{"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n", 3},
	{"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length:  0033\t \r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"POST /1 HTTP/1.1\r\nHost: a\r\ntransfer-encoding:CHUNKED\r\n\r\n21\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n00021;a=\"b\"\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n\r\n0;x\r\nX-Sum: 1\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n1\r\nx\r\n0\r\nContent-Length: 33\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"GET /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"POST /1 HTTP/1.1\r\nHost: a\r\nConnection: Content-Length, Host\r\nContent-Length: 33\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"POST /1 HTTP/1.1\r\nHost: a\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"GET http://a/1 HTTP/1.1\r\nHost: A\r\n\r\nGET http://a?2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nX-Content-Length: 33\r\nContent_Length: 33\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n", 1},
	{"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n", 1},
	{"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length : 33\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n", 1},
	{"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nabcde\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n", 1},
}

// tap is an origin that passes everything on to another server and keeps what went both ways.
type tap struct {
	mu    sync.Mutex
	conns []*[2]bytes.Buffer // requests, responses
}

func (p *tap) serve(to string) func(int, *talk) {
	return func(_ int, k *talk) {
		c, err := net.Dial("tcp", to)
		if err != nil {
			k.t.Error(err)
			return
		}
		defer c.Close()
		both := &[2]bytes.Buffer{}
		p.mu.Lock()
		p.conns = append(p.conns, both)
		p.mu.Unlock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(k.TCPConn, io.TeeReader(c, p.into(&both[1])))
			_ = k.TCPConn.Close()
		}()
		_, _ = io.Copy(c, io.TeeReader(k.r, p.into(&both[0])))
		_ = c.(*net.TCPConn).CloseWrite()
		<-done
	}
}

// into is a buffer behind the lock.
func (p *tap) into(b *bytes.Buffer) io.Writer {
	return writer(func(data []byte) (int, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return b.Write(data)
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// counts says how many requests net/http sees in what the gateway sent, and how many responses the other server gave.
func (p *tap) counts(t *testing.T) (requests, responses int, paths string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, both := range p.conns {
		r := bufio.NewReader(bytes.NewReader(both[0].Bytes()))
		for {
			q, err := http.ReadRequest(r)
			if err != nil {
				break
			}
			if _, err := io.Copy(io.Discard, q.Body); err != nil {
				break
			}
			requests++
			paths += q.URL.Path + " "
		}
		r = bufio.NewReader(bytes.NewReader(both[1].Bytes()))
		for {
			a, err := http.ReadResponse(r, nil)
			if err != nil {
				break
			}
			if _, err := io.Copy(io.Discard, a.Body); err != nil {
				break
			}
			responses++
		}
	}
	return requests, responses, paths
}

// However requests are written, the gateway, net/http and the origin behind it count the same of them, whichever server that
// is, and none sees the hidden one.
//
// Covers: issue6 smuggling, gateway fault 36
func TestOriginsCountTheSameRequests(t *testing.T) {
	servers := map[string]func(*testing.T) string{
		"net/http": func(t *testing.T) string { return origin(t, func(http.ResponseWriter, *http.Request) {}) },
		"nginx":    nginxOrigin, "haproxy": haproxyOrigin,
	}
	for name, serve := range servers {
		t.Run(name, func(t *testing.T) {
			addr := serve(t)
			for i, c := range odd {
				p := &tap{}
				s := script(t, p.serve(addr))
				d, _ := one(s.addr())
				b := start(t, Config{}, d)
				k := dial(t, b.addr)
				k.send(c.data)
				got := 0
				for range c.want {
					if r, _ := k.get("GET"); r.StatusCode < 500 { // 4xx is the origin's own: some take no POST
						got++
					}
				}
				requests, responses, paths := p.counts(t)
				if got != c.want || requests != c.want || responses != c.want || strings.Contains(paths, "hidden") {
					t.Errorf("case %d: the client got %d responses, the origin %d requests (%s) and gave %d: want %d of each", i, got, requests, paths, responses, c.want)
				}
				_ = k.Close()
			}
		})
	}
}

// program starts a server that is installed, and waits until it answers.
func program(t *testing.T, addr, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	eventually(t, name+" listens", func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
}

// installed finds a program, or skips the test.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path = "/usr/sbin/" + name; !executable(path) {
			t.Skipf("%s is not installed (Debian package %s)", name, name)
		}
	}
	return path
}

func executable(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.Mode()&0o111 != 0
}

// Each server listens on an address of its own in 127.0.0.0/8, where nobody else takes ports.

func nginxOrigin(t *testing.T) string {
	path, dir := installed(t, "nginx"), t.TempDir()
	addr := fmt.Sprintf("127.%d.%d.1:18080", 100+os.Getpid()%100, os.Getpid()/100%250)
	conf := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 256; }
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
server { listen %[2]s; location / { return 200 "ok"; } } }`, dir, addr)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, addr, path, "-c", file, "-e", filepath.Join(dir, "error.log"))
	return addr
}

func haproxyOrigin(t *testing.T) string {
	path, dir := installed(t, "haproxy"), t.TempDir()
	addr := fmt.Sprintf("127.%d.%d.2:18080", 100+os.Getpid()%100, os.Getpid()/100%250)
	conf := fmt.Sprintf("global\n maxconn 200\ndefaults\n mode http\n timeout client 60s\n timeout connect 60s\n timeout server 60s\nfrontend f\n bind %s\n http-request return status 200 content-type text/plain string ok\n", addr)
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, addr, path, "-db", "-f", file)
	return addr
}
