package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// patience is how long a test waits for what must come. Nothing is judged by it but whether it comes at all.
const patience = 30 * time.Second

// lines is an access log in memory.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// all are the lines, as objects.
func (l *lines) all(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for line := range strings.Lines(l.buf.String()) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		all = append(all, o)
	}
	return all
}

// wait waits for the n-th line, counted from 1.
func (l *lines) wait(t *testing.T, n int) map[string]any {
	t.Helper()
	var line map[string]any
	eventually(t, fmt.Sprintf("log line %d", n), func() bool {
		all := l.all(t)
		if len(all) < n {
			return false
		}
		line = all[n-1]
		return true
	})
	return line
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not come about in %v", what, patience)
}

// paths is a director that chooses a route by the first element of the path; * is for all others.
type paths map[string]way

type way struct {
	route *Route
	group Group
	plan  func(*Asked, *Plan) // besides
}

func (d paths) Direct(a *Asked, p *Plan) {
	first, _, _ := strings.Cut(strings.TrimPrefix(string(a.Path), "/"), "/")
	w, ok := d[first]
	if !ok {
		w, ok = d["*"]
	}
	if !ok {
		p.Status, p.Reason = 400, "no_route"
		return
	}
	p.Route, p.Group = w.route, w.group
	if w.plan != nil {
		w.plan(a, p)
	}
}

// inOrder is a group that takes the first origin that was not tried.
type inOrder struct {
	origins []*Origin

	mu      sync.Mutex
	reports []string
}

func (g *inOrder) Choose(_ *Asked, _ *Plan, _ time.Duration, tried uint64) (*Origin, string) {
	for _, o := range g.origins {
		if tried>>o.Index&1 == 0 {
			return o, ""
		}
	}
	return nil, "no_origin"
}

func (g *inOrder) Report(o *Origin, _ time.Duration, r Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.reports) < 100 {
		g.reports = append(g.reports, fmt.Sprintf("%s %d", o.Name, r))
	}
}

func (g *inOrder) Fields(dst []byte, _ *Answered, _ *Plan, _ *Origin) []byte { return dst }

func (g *inOrder) said() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.reports, " ")
}

// group makes a group of the addresses given.
func group(addrs ...string) *inOrder {
	g := &inOrder{}
	for i, a := range addrs {
		g.origins = append(g.origins, &Origin{Service: "shop", Group: "web", Name: fmt.Sprintf("o%d", i), Index: i, Address: a})
	}
	return g
}

// bench is a gateway under test.
type bench struct {
	*Gateway
	addr string
	log  *lines
	reg  *prometheus.Registry
	stop func() error
}

// start runs a gateway until the test ends.
func start(t *testing.T, cfg Config, d paths) *bench {
	t.Helper()
	b := &bench{log: &lines{}, reg: prometheus.NewRegistry()}
	if len(cfg.ListenTLS) == 0 {
		cfg.Listen = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	}
	if cfg.AccessLog == nil {
		cfg.AccessLog = b.log
	}
	g, err := New(cfg, b.reg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b.Gateway, b.addr = g, g.Addrs()[0].String()
	if err := g.Swap(siteOf(d)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	b.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Errorf("gateway: %v", err)
		}
	})
	return b
}

func siteOf(d paths) *Site {
	s := &Site{Director: d}
	seen := map[*Origin]bool{}
	for _, w := range d {
		if w.route != nil {
			s.Routes = append(s.Routes, w.route)
		}
		if g, ok := w.group.(*inOrder); ok {
			for _, o := range g.origins {
				if !seen[o] {
					seen[o] = true
					s.Origins = append(s.Origins, o)
				}
			}
		}
	}
	return s
}

// one is the director with one route to the origins given.
func one(addrs ...string) (paths, *inOrder) {
	g := group(addrs...)
	return paths{"*": {route: &Route{Service: "shop", Name: "all"}, group: g}}, g
}

// talk is a connection to the gateway, octet by octet.
type talk struct {
	*net.TCPConn
	r   *bufio.Reader
	t   *testing.T
	tls io.Writer // nil: plain
}

func dial(t *testing.T, addr string) *talk {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &talk{TCPConn: c.(*net.TCPConn), r: bufio.NewReader(c), t: t}
}

func (k *talk) send(lines ...string) {
	k.t.Helper()
	w := io.Writer(k)
	if k.tls != nil {
		w = k.tls
	}
	if _, err := io.WriteString(w, strings.Join(lines, "\r\n")); err != nil {
		k.t.Fatal(err)
	}
}

// get reads a response to a method, with its body.
func (k *talk) get(method string) (*http.Response, string) {
	k.t.Helper()
	r := k.head(method)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		k.t.Fatalf("body of %d: %q, then %v", r.StatusCode, body, err)
	}
	return r, string(body)
}

func (k *talk) head(method string) *http.Response {
	k.t.Helper()
	r, err := http.ReadResponse(k.r, &http.Request{Method: method})
	if err != nil {
		k.t.Fatalf("response: %v", err)
	}
	return r
}

// ended reports whether the gateway closes the connection, without another octet.
func (k *talk) ended() error {
	p, err := io.ReadAll(k.r)
	if len(p) > 0 {
		return fmt.Errorf("%q came", p)
	}
	if err != nil && !strings.Contains(err.Error(), "reset") {
		return err
	}
	return nil
}

// scripted is an origin that does what the script says with each of its connections, which it numbers from 0.
type scripted struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func script(t *testing.T, f func(n int, k *talk)) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{Listener: l}
	s.wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Go(func() {
				defer c.Close()
				f(n, &talk{TCPConn: c.(*net.TCPConn), r: bufio.NewReader(c), t: t})
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *scripted) addr() string { return s.Addr().String() }

// readHead reads a head, octet for octet; "" when the connection ends.
func (k *talk) readHead() string {
	var b strings.Builder
	for {
		line, err := k.r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return ""
		}
		if line == "\r\n" {
			return b.String()
		}
	}
}

// say writes what an origin says; that the gateway has gone is no fault of it.
func (k *talk) say(lines ...string) bool {
	_, err := io.WriteString(k, strings.Join(lines, "\r\n"))
	return err == nil
}

// refusing is an address that nobody listens on: the port stays bound, so that nobody else gets it.
func refusing(t *testing.T) string {
	t.Helper()
	fd, addr, err := boundSocket()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSocket(fd) })
	return addr
}

// isReset reports whether an error says that a message was cut.
func isReset(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || err != nil && strings.Contains(err.Error(), "reset")
}
