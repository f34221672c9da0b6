package edge

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// maker makes bursts of requests that programs like to read differently, each part of a request chosen by itself.
type maker struct {
	*rand.Rand
	burst int
}

func pick[T any](m *maker, of ...T) T { return of[m.IntN(len(of))] }

// odds reports true once in n times.
func (m *maker) odds(n int) bool { return m.IntN(n) == 0 }

// path is that of the i-th request of the burst; a hidden one stands in a body.
func (m *maker) path(i int, hidden bool) string {
	if hidden {
		return fmt.Sprintf("/c%d/h%d", m.burst, i)
	}
	return fmt.Sprintf("/c%d/r%d", m.burst, i)
}

// make gives a burst of one to three requests, and one after them that ends the connection.
func (m *maker) make() string {
	var b strings.Builder
	n := 1 + m.IntN(3)
	for i := range n {
		b.WriteString(m.request(i))
	}
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", m.path(n, false))
	return b.String()
}

// request is one request. Most of it is as it should be: what is odd is read only where the rest is taken.
func (m *maker) request(i int) string {
	plain, hidden := m.path(i, false), "GET "+m.path(i, true)+" HTTP/1.1\r\nHost: a\r\n\r\n"
	method, target, version, host := pick(m, "GET", "POST", "PUT", "OPTIONS", "DELETE", "PATCH"), plain, "HTTP/1.1", "Host: a\r\n"
	if m.odds(8) {
		target = pick(m, "http://a"+plain, "http://A"+plain, "http://b"+plain, "http://a:80"+plain, "https://a"+plain, "http://a@b"+plain, "*", plain+"#x", plain+"?a=b&c", plain+"?"+"http://b/")
	}
	if m.odds(15) {
		version = pick(m, "HTTP/1.0", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", "HTTP/01.1")
	}
	if m.odds(12) {
		host = pick(m, "Host:a\r\n", "Host: \ta \r\n", "host: A\r\n", "Host: a\r\nHost: a\r\n", "Host: a\r\nHost: b\r\n", "Host: b\r\n", "Host : a\r\n", "", "Host:\r\n", "Host: a:80\r\n", "Host: a\r\n b\r\n", " Host: a\r\n")
	}
	if m.odds(25) {
		method = pick(m, "TRACE", "CONNECT", "get", "G(T", "M-SEARCH")
	}
	framing, body := m.framed(hidden)
	fields := []string{host, framing}
	if m.odds(2) {
		fields = append(fields, m.field())
	}
	m.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	start := method + " " + target + " " + version + "\r\n"
	if m.odds(40) {
		start = pick(m, "\r\n"+start, "\r\n\r\n"+start, "\n"+start, " "+start, strings.Replace(start, " ", "  ", 1), strings.Replace(start, " ", "\t", 1), strings.TrimSuffix(start, "\r\n")+"\n")
	}
	return start + strings.Join(fields, "") + "\r\n" + body
}

// framed is how the length of a body is told, and a body that ends where one of the ways to read that says.
func (m *maker) framed(hidden string) (fields, body string) {
	body = pick(m, "", "abc", hidden, "0\r\n\r\n", "5\r\nabcde\r\n0\r\n\r\n"+hidden)
	length := len(body)
	sized := fmt.Sprintf("Content-Length: %d\r\n", length)
	switch m.IntN(10) {
	case 0, 1:
		return "", ""
	case 2, 3, 4:
		if m.odds(4) {
			sized = fmt.Sprintf(pick(m, "Content-Length: 00%d\r\n", "Content-Length:%d\r\n", "content-length: \t%d \t\r\n", "Content-Length: +%d\r\n", "Content-Length: -%d\r\n", "Content-Length : %d\r\n",
				"Content-Length: %[1]d, %[1]d\r\n", "Content-Length: %[1]d\r\nContent-Length: %[1]d\r\n", "Content-Length: %[1]d\r\nContent-Length: 0\r\n", "Content-Length:\r\nContent-Length: %d\r\n",
				"Content-Length: 0x%x\r\n", "Content-Length: %d.0\r\n", "Content-Length: %d\x00\r\n", "Content-Length: \x0b%d\r\n", "Content-Length:\r\n %d\r\n", "X: y\rContent-Length: %d\r\n",
				"Content_Length: %d\r\n", "Content-Length: %d\n", "Content-Length: %d;\r\n", "Content-Length: 1844674407370955161%d\r\n"), length)
		}
		return sized, body
	}
	coding := "Transfer-Encoding: chunked\r\n"
	if m.odds(4) {
		coding = pick(m, "transfer-encoding:CHUNKED\r\n", "Transfer-Encoding: \tchunked \r\n", "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: identity, chunked\r\n", "Transfer-Encoding: chunked,\r\n",
			"Transfer-Encoding: ,chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: \"chunked\"\r\n", "Transfer-Encoding: chunked;q=1\r\n", "Transfer-Encoding : chunked\r\n",
			"Transfer-Encoding:\r\n chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
			"Transfer-Encoding: \x0bchunked\r\n", "Transfer-Encoding: chunked\x00\r\n", "X: y\rTransfer-Encoding: chunked\r\n", "Transfer_Encoding: chunked\r\n", "Transfer-Encoding: chunked\n", "Transfer-Encoding:\r\n", "TE: chunked\r\n", "Transfer-Encoding: chun\r\n ked\r\n")
	}
	if m.odds(10) {
		coding += sized
	}
	return coding, m.chunks(body, hidden)
}

// chunks is a body in chunks, of which one thing may be odd.
func (m *maker) chunks(body, hidden string) string {
	size := fmt.Sprintf("%x", len(body))
	if len(body) == 0 {
		body, size = "x", "1"
	}
	end, trailer := "\r\n", "\r\n"
	last := "0"
	switch m.IntN(10) {
	case 0:
		size = pick(m, "000"+size, strings.ToUpper(size), size+";a=b", size+";a=\"b;c\"", size+" ;a", size+";", size+"\t", " "+size, "0x"+size, "+"+size, size+"_", size+";\n", size+";a\rb", size+"\r", "1000000000000000"+size, "ffffffffffffffff"+size, "", size+" x")
	case 1:
		end = pick(m, "\n", "", "\rx", "x\r\n", "\r\n\r\n", "\r")
	case 2:
		last = pick(m, "00000", "0;x", "0; x=\"y\"", "0 ", "0x", "-0", "0\r", "0;\n", "", "0\n", "0 0")
	case 3:
		trailer = pick(m, "X-Sum: 1\r\n\r\n", "Content-Length: 33\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n", "Host: b\r\n\r\n", "X : y\r\n\r\n", " fold\r\n\r\n", "X\r\n\r\n", "\n", "X: y\n\r\n", "X: y\r\r\n\r\n", "Connection: close\r\n\r\n", "GET /x HTTP/1.1\r\n\r\n", "\r"+hidden)
	}
	return size + "\r\n" + body + end + last + "\r\n" + trailer
}

// field is one that has nothing to do with the length, or seems to.
func (m *maker) field() string {
	return pick(m, "Accept: */*\r\n", "X-A:\r\n", "X-A: \t b \t\r\n", "Cookie: a=b; c=d\r\n", "Connection: keep-alive\r\n", "Connection: Content-Length\r\n", "Connection: Transfer-Encoding, Host\r\n",
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n", "Keep-Alive: timeout=5\r\n", "Trailer: Content-Length\r\n", "TE: trailers\r\n",
		"X-Content-Length: 33\r\n", "Content-Length-X: 3\r\n", "X: y\r\n z\r\n", "X: y\rz\r\n", "X: y\x00\r\n", "X: \x7f\r\n", "X\x00: y\r\n", ": y\r\n", "X\r\n", "X: y\n", "X: \xff\r\n", "Expect: 100-continue\r\n", "X-HTTP-Method-Override: PUT\r\n", "Max-Forwards: 0\r\n",
		"Connection:\r\nConnection: close\r\n", "Proxy-Connection: close\r\n")
}

// sawField is how the servers of this test say which request they answer.
const sawField = "X-Saw"

var sawPath = regexp.MustCompile(`/c\d+/[rh]\d+`)

// reading is what one program made of a burst: the requests that it answered, in order, and whether it then refused or closed.
type reading struct {
	saw     []string
	refused string // what it was refused with; "": the last request was answered and the connection ended as it asked
}

// readings reads the answers to a burst, most of them at most: -1 for all there are. What waits for more is not waited for any
// longer than patience.
func readings(t *testing.T, addr, burst string, most int) (r reading) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, burst) // who refuses may close before it has all
	br := bufio.NewReader(c)
	for most < 0 || len(r.saw) < most {
		a, err := http.ReadResponse(br, nil)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && br.Buffered() == 0:
			return r
		case err != nil:
			r.refused = err.Error()
			return r
		case a.StatusCode < 200:
			continue
		}
		_, bodyErr := io.Copy(io.Discard, a.Body)
		saw := a.Header.Get(sawField)
		if saw == "" || a.StatusCode >= 400 {
			r.refused = a.Status
			return r
		}
		if p := sawPath.FindString(saw); p != "" {
			saw = p
		}
		if r.saw = append(r.saw, saw); bodyErr != nil {
			r.refused = bodyErr.Error()
			return r
		}
	}
	return r
}

// agree reports whether two programs that read the same octets read the same requests, up to where one of them refuses.
func agree(a, b reading) bool {
	n := min(len(a.saw), len(b.saw))
	switch {
	case !slices.Equal(a.saw[:n], b.saw[:n]):
		return false
	case len(a.saw) > n:
		return b.refused != ""
	case len(b.saw) > n:
		return a.refused != ""
	}
	return true
}

// peer is a server that says which requests it sees.
type peer struct {
	name string
	run  func(*testing.T) string
}

var differentialPeers = []peer{{"net/http", netOrigin}, {"nginx", seeingNginx}, {"haproxy", seeingHAProxy}}

func netOrigin(t *testing.T) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set(sawField, r.RequestURI)
	}))
	s.Config.DisableGeneralOptionsHandler = true // it would answer OPTIONS * without a word of what it saw
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func seeingNginx(t *testing.T) string {
	path, dir := installed(t, "nginx"), t.TempDir()
	addr := fmt.Sprintf("127.%d.%d.3:18080", 100+os.Getpid()%100, os.Getpid()/100%250)
	conf := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
server { listen %[2]s; keepalive_requests 1000000000; add_header %[3]s $request_uri always; location / { return 200 "ok"; } } }`, dir, addr, sawField)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, addr, path, "-c", file, "-e", filepath.Join(dir, "error.log"))
	return addr
}

func seeingHAProxy(t *testing.T) string {
	path, dir := installed(t, "haproxy"), t.TempDir()
	addr := fmt.Sprintf("127.%d.%d.4:18080", 100+os.Getpid()%100, os.Getpid()/100%250)
	conf := fmt.Sprintf(`global
 maxconn 1000
defaults
 mode http
 timeout client 60s
 timeout connect 60s
 timeout server 60s
frontend f
 bind %s
 http-request return status 200 content-type text/plain string ok hdr %s %%[url]
`, addr, sawField)
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, addr, path, "-db", "-f", file)
	return addr
}

// sequences are, for each connection to the origin, the requests that net/http sees in what the gateway sent, and those that
// the origin says it saw.
func (p *tap) sequences() (sent, saw [][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, both := range p.conns {
		var out, back []string
		r := bufio.NewReader(bytes.NewReader(both[0].Bytes()))
		for {
			q, err := http.ReadRequest(r)
			if err != nil {
				break
			}
			path := q.RequestURI
			if f := sawPath.FindString(path); f != "" {
				path = f
			}
			out = append(out, path)
			if _, err := io.Copy(io.Discard, q.Body); err != nil {
				break
			}
		}
		r = bufio.NewReader(bytes.NewReader(both[1].Bytes()))
		for {
			a, err := http.ReadResponse(r, nil)
			if err != nil {
				break
			}
			if a.StatusCode < 200 {
				continue
			}
			path := a.Header.Get(sawField)
			if f := sawPath.FindString(path); f != "" {
				path = f
			}
			if back = append(back, path); path == "" {
				back[len(back)-1] = a.Status
			}
			if _, err := io.Copy(io.Discard, a.Body); err != nil {
				break
			}
		}
		sent, saw = append(sent, out), append(saw, back)
	}
	return sent, saw
}

// Whatever a client writes, the gateway reads the requests that net/http, NGINX and HAProxy read in the same octets, up to
// where one of them refuses; and of what it sends on, each of them as an origin sees the same requests, which are those that
// the gateway says it forwarded. Bursts are made by chance, always the same ones: 500 of them with each, and 20,000 with
// STEER_LONG.
//
// Covers: issue6 smuggling, gateway fault 30, gateway fault 33, gateway fault 34, gateway fault 35, gateway fault 36
func TestNoTwoProgramsDisagree(t *testing.T) {
	bursts := 500
	if os.Getenv("STEER_LONG") != "" {
		bursts = 20_000
	}
	for _, p := range differentialPeers {
		t.Run(p.name, func(t *testing.T) {
			addr := p.run(t)
			tapped := &tap{}
			s := script(t, tapped.serve(addr))
			d, _ := one(s.addr())
			b := start(t, Config{BodyTimeout: 5 * time.Second}, d)
			var whole, refused, taken int
			var mu sync.Mutex
			var workers sync.WaitGroup
			const parallel = 8
			for w := range parallel {
				workers.Go(func() {
					for i := w; i < bursts; i += parallel {
						m := &maker{rand.New(rand.NewPCG(36, uint64(i))), i}
						burst := m.make()
						ours := readings(t, b.addr, burst, -1)
						most := -1
						if ours.refused != "" {
							most = len(ours.saw) // what comes after that nobody gets to see through us
						}
						theirs := readings(t, addr, burst, most)
						if !agree(ours, theirs) {
							t.Errorf("burst %d:\n%q\nours: %v, %s\n%s: %v, %s", i, burst, ours.saw, ours.refused, p.name, theirs.saw, theirs.refused)
						}
						mu.Lock()
						taken += len(ours.saw)
						if ours.refused == "" {
							whole++
						} else {
							refused++
						}
						mu.Unlock()
					}
				})
			}
			workers.Wait()
			if whole < bursts/10 || refused < bursts/10 {
				t.Errorf("%d bursts were taken and %d refused: too little is tried", whole, refused)
			}
			t.Logf("%d bursts taken whole, %d refused, %d requests answered", whole, refused, taken)
			if err := b.stop(); err != nil { // so that the log is written to its end
				t.Error(err)
			}
			sent, saw := tapped.sequences()
			forwarded := map[string]bool{}
			for i := range sent {
				if n := len(saw[i]); n > 0 && n == len(sent[i]) && strings.HasPrefix(saw[i][n-1], "4") {
					sent[i], saw[i] = sent[i][:n-1], saw[i][:n-1] // refused, with the end of the connection: nothing of it is read otherwise
				}
				if !slices.Equal(sent[i], saw[i]) {
					t.Errorf("connection %d: of what the gateway sent net/http sees\n%v\nand %s\n%v", i, tail(sent[i]), p.name, tail(saw[i]))
				}
				for _, path := range sent[i] {
					forwarded[path] = true
				}
			}
			for _, line := range b.log.all(t) {
				if line["origin"] != nil {
					target, _ := line["target"].(string)
					if f := sawPath.FindString(target); f != "" {
						target = f
					}
					delete(forwarded, target)
				}
			}
			for path := range forwarded {
				t.Errorf("an origin got %s, which the gateway does not say that it forwarded", path)
			}
		})
	}
}

// tail is the end of a long list.
func tail(list []string) []string { return list[max(0, len(list)-6):] }

// agree is what the test above depends on, so that it is tested itself.
//
// Covers: issue6 smuggling
func TestAgree(t *testing.T) {
	for _, tt := range []struct {
		a, b reading
		want bool
	}{
		{reading{saw: []string{"1", "2"}}, reading{saw: []string{"1", "2"}}, true},
		{reading{saw: []string{"1"}}, reading{saw: []string{"1", "2"}}, false},
		{reading{saw: []string{"1"}, refused: "400"}, reading{saw: []string{"1", "2"}}, true},
		{reading{saw: []string{"1"}, refused: "400"}, reading{saw: []string{"h"}}, false},
		{reading{saw: []string{"1", "2"}}, reading{refused: "400"}, true},
		{reading{saw: []string{"1", "2"}}, reading{saw: []string{"1"}}, false},
		{reading{refused: "400"}, reading{refused: "501"}, true},
	} {
		if got := agree(tt.a, tt.b); got != tt.want {
			t.Errorf("%+v and %+v: %t", tt.a, tt.b, got)
		}
	}
}
