package edge

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steerpoint/edge/internal/direct"
)

// Where every origin is disabled the answer says so, and nobody is asked.
//
// Covers: issue6 proxy, gateway T17
func TestAllDisabled(t *testing.T) {
	s := script(t, func(_ int, k *talk) { t.Errorf("a disabled origin got %q", k.readHead()) })
	yaml := service(fmt.Sprintf(`originGroups:
  - name: web
    health: {interval: 1h, timeout: 10s}
    origins: [{name: a, address: "%[1]s", scheme: http}, {name: b, address: "%[1]s", scheme: http}]
routes: [{name: all, originGroup: web}]
`, s.addr()))
	gw := start(t, Config{}, paths{})
	e := compiled(t, yaml)
	for i := range e.Services[0].Groups[0].Origins {
		e.Services[0].Groups[0].Origins[i].Enabled = false // apply refuses a group like that; a snapshot from elsewhere may have it
	}
	if err := NewSnapshots(gw.Gateway, nil, nil).Apply(e, sessionKeys); err != nil {
		t.Fatal(err)
	}
	k := dial(t, gw.addr)
	k.send("GET / HTTP/1.1", "Host: a.example", "", "")
	if r, body := k.get("GET"); r.StatusCode != 503 || body != "503 Service Unavailable: no_enabled_origin\n" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
}

// Of a probe 200 is a success and nothing else is: not 204, and not a redirect, which is not followed.
//
// Covers: issue6 proxy, C9, gateway T19
func TestOnly200IsHealthy(t *testing.T) {
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/301":
			http.Redirect(w, r, "/landing", http.StatusMovedPermanently)
		case "/landing":
			t.Error("a probe followed a redirect")
		}
	})
	var yaml strings.Builder
	yaml.WriteString("originGroups:\n")
	for _, path := range []string{"200", "204", "301"} {
		for _, method := range []string{"GET", "HEAD"} {
			fmt.Fprintf(&yaml, `  - {name: by-%s-%s, health: {path: /%s, method: %s, scheme: http, interval: 10s, timeout: 10s, sampleSize: 1, successfulSamples: 1}, origins: [{name: a, address: "%s", scheme: http}]}
`, path, strings.ToLower(method), path, method, addr)
		}
	}
	yaml.WriteString("routes: [{name: all, originGroup: by-200-get}]\n")
	_, s := served(t, service(yaml.String()))
	eventually(t, "all probed", func() bool {
		for _, e := range s.site.Endpoints {
			if !e.Settled() {
				return false
			}
		}
		return len(s.site.Endpoints) == 6
	})
	for _, g := range s.site.Groups() {
		if got, want := g.Healthy().Has(0), strings.HasPrefix(g.Spec.Name, "by-200"); got != want {
			t.Errorf("%s: healthy %t", g.Spec.Name, got)
		}
	}
}

// probes is a gateway with nothing to serve, of which a test sends the probes by hand.
func probes(t *testing.T) *Snapshots {
	t.Helper()
	return NewSnapshots(start(t, Config{}, paths{}).Gateway, nil, nil)
}

// endpoint is what is probed at an address.
func endpoint(t *testing.T, addr string) *direct.Endpoint {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return &direct.Endpoint{Target: direct.Target{Scheme: "http", Host: host, Port: n, Method: "GET", Path: "/"}, Interval: time.Hour, Timeout: patience}
}

// The latency of a probe is that of the last octet, and each probe has a connection of its own, of which the handshake does
// not count for some and not for others.
//
// Covers: issue6 proxy, C8, gateway T22, gateway T23
func TestProbesMeasureTheWhole(t *testing.T) {
	const late = 80 * time.Millisecond
	heads := make(chan string, 10)
	s := script(t, func(n int, k *talk) {
		heads <- fmt.Sprintf("%d %s", n, k.readHead())
		k.say("HTTP/1.1 200 OK", "Content-Length: 4", "", "ab")
		time.Sleep(late) // what is measured: at least so much lies between the head and the last octet
		k.say("cd")
		_, _ = io.Copy(io.Discard, k.r)
	})
	sn, e := probes(t), endpoint(t, s.addr())
	for i := range 3 {
		status, took, err := sn.ask(t.Context(), e)
		if status != 200 || err != nil || took < late {
			t.Errorf("probe %d: %d, %v, %v: want 200 and at least %v", i, status, took, err, late)
		}
		head := <-heads
		if !strings.HasPrefix(head, fmt.Sprintf("%d GET / HTTP/1.1\r\n", i)) || !strings.Contains(head, "\r\nConnection: close\r\n") {
			t.Errorf("probe %d: connection and head %q", i, head)
		}
	}
}

// A gateway that starts with a thousand origins spreads their first probes over the interval, however short that is.
//
// Covers: gateway fault 56
func TestFirstProbesAreSpread(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second} {
		var all []*direct.Endpoint
		for i := range 1000 {
			all = append(all, &direct.Endpoint{Target: direct.Target{Host: fmt.Sprint(i)}, Interval: interval})
		}
		p := newProber(nil)
		p.set(all)
		first := p.tasks[all[0].Target].next
		const parts = 20
		var in [parts]int
		for _, x := range p.tasks {
			part := int(x.next.Sub(first) * parts / interval)
			in[min(max(part, 0), parts-1)]++
		}
		for i, n := range in {
			if n > 1000/parts*2 {
				t.Errorf("interval %v: %d of 1000 first probes in part %d of %d: %v", interval, n, i, parts, in)
			}
		}
		was := map[direct.Target]time.Time{}
		for k, x := range p.tasks {
			was[k] = x.next
		}
		if p.set(all); len(p.tasks) != 1000 {
			t.Errorf("%d tasks", len(p.tasks))
		}
		for k, x := range p.tasks {
			if !x.next.Equal(was[k]) {
				t.Fatalf("a configuration that changes nothing moves a probe by %v", x.next.Sub(was[k]))
			}
		}
	}
}

// An origin that was removed gets no request and no probe from then on.
//
// Covers: issue6 reload, gateway fault 64, gateway T45
func TestRemovedOriginsAreLeftAlone(t *testing.T) {
	var asked, kept atomic.Int64
	a := origin(t, func(http.ResponseWriter, *http.Request) { kept.Add(1) })
	b := origin(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	yaml := func(origins string) string {
		return service(`originGroups:
  - name: web
    latencySensitivity: 1s
    health: {interval: 10s, timeout: 10s, scheme: http, sampleSize: 1, successfulSamples: 1}
    origins: [` + origins + `]
routes: [{name: all, originGroup: web}]
`)
	}
	one := fmt.Sprintf(`{name: a, address: "%s", scheme: http}`, a)
	gw, s := served(t, yaml(one+fmt.Sprintf(`, {name: b, address: "%s", scheme: http}`, b)))
	eventually(t, "both probed", func() bool { return asked.Load() > 0 && kept.Load() > 0 })
	if err := s.Apply(compiled(t, yaml(one)), sessionKeys); err != nil {
		t.Fatal(err)
	}
	before := asked.Load()
	k := dial(t, gw.addr)
	for range 20 {
		k.send("GET / HTTP/1.1", "Host: a.example", "", "")
		if r, _ := k.get("GET"); r.StatusCode != 200 {
			t.Fatalf("%d", r.StatusCode)
		}
	}
	for range 5 {
		was := s.probes.done.Load()
		kick(s)
		eventually(t, "a probe more", func() bool { return s.probes.done.Load() > was })
	}
	if n := asked.Load() - before; n > 1 { // the probe that was under way
		t.Errorf("the origin that is gone was asked %d times", n)
	}
	for target := range s.probes.tasks {
		if net.JoinHostPort(target.Host, strconv.Itoa(target.Port)) == b {
			t.Error("it is still to be probed")
		}
	}
}

// A request that is under way when the configuration changes is finished by the old one, and its origin, though that is in
// no configuration any more; the next request on the same connection goes by the new one.
//
// Covers: issue6 reload, gateway T45
func TestRequestsFinishByTheOldConfiguration(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	old := origin(t, func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "old")
	})
	fresh := origin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "new") })
	yaml := func(addr, header string) string {
		return service(fmt.Sprintf(`originGroups: [{name: web, health: {enabled: false}, origins: [{name: a, address: "%s", scheme: http}]}]
routes: [{name: all, originGroup: web}]
policies: {responseHeaders: [{set: {X-By: %s}}]}
`, addr, header))
	}
	gw, s := served(t, yaml(old, "first"))
	k := dial(t, gw.addr)
	k.send("GET / HTTP/1.1", "Host: a.example", "", "")
	<-begun
	if err := s.Apply(compiled(t, yaml(fresh, "second")), sessionKeys); err != nil {
		t.Fatal(err)
	}
	close(finish)
	for _, want := range []string{"old first", "new second"} {
		r, body := k.get("GET")
		if got := body + " " + r.Header.Get("X-By"); r.StatusCode != 200 || got != want {
			t.Errorf("%d %q, want %q", r.StatusCode, got, want)
		}
		k.send("GET / HTTP/1.1", "Host: a.example", "", "")
	}
}

// Who is answered with what caches may keep is given no session, and is divided anew at the next request; who has a session
// keeps it whatever later responses say, without a new cookie.
//
// Covers: issue6 proxy, C6, gateway T29, gateway T32, gateway R12, gateway R13
func TestWhatEstablishesSessions(t *testing.T) {
	var well atomic.Bool
	well.Store(true)
	gw, s := served(t, service(fmt.Sprintf(`originGroups:
  - name: sticky
    sessionAffinity: true
    latencySensitivity: 1s
    health: {path: /healthz, interval: 10s, timeout: 10s, scheme: http, sampleSize: 2, successfulSamples: 1}
    origins: [{name: a, address: "%s", scheme: http}, {name: b, address: "%s", scheme: http}]
routes: [{name: cart, originGroup: sticky}]
`, named(t, "a", &well), named(t, "b", &well))))
	k := dial(t, gw.addr)
	eventually(t, "both probed", func() bool { return shares(s, k, 10) == "map[a:5 b:5]" })
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	visit := func(cache string) (name string, set int) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+gw.addr+"/?cache="+cache, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = "a.example"
		lines := []string{"GET /?cache=" + cache + " HTTP/1.1", "Host: a.example"}
		for _, c := range jar.Cookies(q.URL) {
			lines = append(lines, "Cookie: "+c.String())
		}
		k.send(append(lines, "", "")...)
		r, body := k.get("GET")
		jar.SetCookies(q.URL, r.Cookies())
		return strings.Fields(body)[0], len(r.Cookies())
	}
	seen := map[string]bool{}
	for range 4 {
		name, set := visit("max-age%3D60")
		if set > 0 {
			t.Fatal("T29: a response that caches may keep established a session")
		}
		seen[name] = true
	}
	if len(seen) != 2 {
		t.Errorf("T29: without a session only %v were asked", seen)
	}
	home, set := visit("private")
	if set == 0 {
		t.Fatal("no session was established")
	}
	for i := range 6 {
		cache := []string{"max-age%3D60", "no-store"}[i%2]
		if name, set := visit(cache); name != home || set > 0 {
			t.Errorf("T32: after %s the session of %s goes to %s, %d new cookies", cache, home, name, set)
		}
	}
}

// An address in a cookie is never connected to.
//
// Covers: issue6 proxy, gateway T34, gateway fault 53
func TestCookiesAreNoTargets(t *testing.T) {
	inner := script(t, func(_ int, k *talk) { t.Errorf("what a cookie named was connected to and got %q", k.readHead()) })
	var well atomic.Bool
	well.Store(true)
	gw, _ := served(t, service(fmt.Sprintf(`originGroups:
  - {name: sticky, sessionAffinity: true, health: {enabled: false}, origins: [{name: a, address: "%s", scheme: http}]}
routes: [{name: all, originGroup: sticky}]
`, named(t, "a", &well))))
	k := dial(t, gw.addr)
	addr := inner.addr()
	for _, value := range []string{addr, "http://" + addr, base64.StdEncoding.EncodeToString([]byte(addr)), base64.RawURLEncoding.EncodeToString([]byte("http://" + addr + "/"))} {
		for _, name := range []string{"ASLBSA", "ASLBSACORS"} {
			k.send("GET /?cache=no-store HTTP/1.1", "Host: a.example", "Cookie: "+name+"="+value, "", "")
			if r, body := k.get("GET"); r.StatusCode != 200 || !strings.HasPrefix(body, "a ") || r.Header.Get("Set-Cookie") == "" {
				t.Errorf("%s=%s: %d %q %v", name, value, r.StatusCode, body, r.Header)
			}
		}
	}
}

// The query is the same for who judges it and for the origin: nothing of it is parsed and put together again.
//
// Covers: issue6 proxy, gateway fault 38
func TestQueriesStayAsTheyAre(t *testing.T) {
	saw := make(chan string, 1)
	s := script(t, func(_ int, k *talk) {
		for head := k.readHead(); head != ""; head = k.readHead() {
			line, _, _ := strings.Cut(head, "\r\n")
			judged := "not judged"
			if strings.Contains(head, "\r\nX-Judged: yes\r\n") {
				judged = "judged"
			}
			saw <- line + " " + judged
			k.say("HTTP/1.1 200 OK", "Content-Length: 0", "", "")
		}
	})
	for _, query := range []string{"a=1;b=%zz", "a=1&a=2;&&=", "%", "a=%26b=2", "?x?", "a=b%00"} {
		gw, _ := served(t, service(fmt.Sprintf(`originGroups: [{name: web, health: {enabled: false}, origins: [{name: a, address: "%s", scheme: http}]}]
routes: [{name: all, originGroup: web, ruleSets: [front]}]
---
apiVersion: steerpoint/v1
kind: RuleSet
name: front
rules:
  - name: same
    conditions: [{on: query, operator: equals, values: ['%s']}]
    actions: [{requestHeader: {operation: set, name: X-Judged, value: "yes"}}]
`, s.addr(), query)))
		k := dial(t, gw.addr)
		k.send("GET /x?"+query+" HTTP/1.1", "Host: a.example", "", "")
		if r, _ := k.get("GET"); r.StatusCode != 200 {
			t.Errorf("%s: %d", query, r.StatusCode)
			continue
		}
		if got, want := <-saw, "GET /x?"+query+" HTTP/1.1 judged"; got != want {
			t.Errorf("the origin saw %q, want %q", got, want)
		}
	}
}

// When no origin is healthy that is told: a line in the log, and a counter of what was chosen all the same.
//
// Covers: issue6 proxy, gateway fault 54
func TestFailOpenIsCounted(t *testing.T) {
	var well atomic.Bool
	addrs := [2]string{named(t, "a", &well), named(t, "b", &well)}
	gw, s := served(t, service(fmt.Sprintf(`originGroups:
  - name: web
    latencySensitivity: 1s
    health: {path: /healthz, interval: 10s, timeout: 10s, scheme: http, sampleSize: 1, successfulSamples: 1}
    origins: [{name: a, address: "%s", scheme: http}, {name: b, address: "%s", scheme: http, priority: 2}]
routes: [{name: all, originGroup: web}]
`, addrs[0], addrs[1])))
	if err := gw.reg.Register(s); err != nil {
		t.Fatal(err)
	}
	k := dial(t, gw.addr)
	if got := shares(s, k, 10); got != "map[a:5 b:5]" { // before the first probe, and after it
		t.Errorf("nobody healthy: %s", got)
	}
	gw.wants(t, `steer_edge_fail_open_total{group="web",service="shop"} 10`)
	well.Store(true)
	eventually(t, "a alone", func() bool { return shares(s, k, 10) == "map[a:10]" })
	was := metricsText(t, gw.reg)
	if shares(s, k, 10); !strings.Contains(was, "steer_edge_fail_open_total") || countOf(metricsText(t, gw.reg)) != countOf(was) {
		t.Error("choices are counted as made with nobody healthy, while somebody is")
	}
}

// countOf is the line of the counter of choices made with nobody healthy.
func countOf(metrics string) string {
	_, rest, _ := strings.Cut(metrics, "\nsteer_edge_fail_open_total")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// An origin that closes each connection when it likes after a response costs a request that can be sent again nothing:
// 100,000 of them with STEER_LONG.
//
// Covers: issue6 proxy retries, gateway fault 26
func TestClosingOriginsCostNothing(t *testing.T) {
	n := 600
	if os.Getenv("STEER_LONG") != "" {
		n = 100_000
	}
	s := script(t, func(c int, k *talk) {
		random := rand.New(rand.NewPCG(26, uint64(c)))
		for left := random.IntN(4); ; left-- {
			head := k.readHead()
			if head == "" {
				return
			}
			body := make([]byte, 5)
			if _, err := io.ReadFull(k.r, body); err != nil || string(body) != "12345" {
				t.Errorf("body %q, %v", body, err)
			}
			if !k.say("HTTP/1.1 200 OK", "Content-Length: 2", "", "ok") {
				return
			}
			if left > 0 {
				continue
			}
			for range random.IntN(2000) { // some microseconds, in which the next request may be on its way
				_ = random.Uint64()
			}
			if random.IntN(2) == 0 {
				_ = k.SetLinger(0)
			}
			return
		}
	})
	d, g := one(s.addr())
	b := start(t, Config{}, d)
	var clients sync.WaitGroup
	for c := range 4 {
		k := dial(t, b.addr)
		_ = k.SetDeadline(time.Time{})
		clients.Go(func() {
			for i := range n / 4 {
				if _, err := io.WriteString(k, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"); err != nil {
					t.Errorf("client %d, request %d: %v", c, i, err)
					return
				}
				r, err := http.ReadResponse(k.r, nil)
				if err != nil {
					t.Errorf("client %d, request %d: %v", c, i, err)
					return
				}
				body, err := io.ReadAll(r.Body)
				if r.StatusCode != 200 || string(body) != "ok" || err != nil {
					t.Errorf("client %d, request %d: %d %q %v", c, i, r.StatusCode, body, err)
					return
				}
			}
		})
	}
	clients.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, said := range g.reports {
		if said != "o0 0" {
			t.Errorf("the origin is said to have failed: %s", said)
			break
		}
	}
}

// Parts of any size go on as they come, each before the next is sent, and no octet is another.
//
// Covers: issue6 proxy streams, gateway fault 5
func TestStreamsOfRandomParts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	next := make(chan []byte)
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", "", "")
		for part := range next {
			k.say(fmt.Sprintf("%x", len(part)), string(part), "")
		}
		k.say("0", "", "")
	})
	d, _ := one(s.addr())
	k := dial(t, start(t, Config{}, d).addr)
	k.send("GET / HTTP/1.1", "Host: a", "", "")
	r := k.head("GET")
	for i := range 200 {
		part := make([]byte, 1+random.IntN(4000))
		for j := range part {
			part[j] = byte(random.Uint32())
		}
		next <- part
		got := make([]byte, len(part))
		if _, err := io.ReadFull(r.Body, got); err != nil || !bytes.Equal(got, part) {
			t.Fatalf("part %d of %d octets: %v", i, len(part), err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(r.Body); len(rest) > 0 || err != nil {
		t.Errorf("after the last part: %q, %v", rest, err)
	}
}

// A flood of requests from one address that says each is another's is one client's: what an untrusted neighbour says is not
// believed, and the limit counts the socket.
//
// Covers: issue6 proxy limits, gateway fault 47
func TestLimitsCountTheSocket(t *testing.T) {
	var well atomic.Bool
	yaml := service(fmt.Sprintf(`originGroups: [{name: web, health: {enabled: false}, origins: [{name: a, address: "%s", scheme: http}]}]
routes: [{name: all, originGroup: web}]
policies: {rateLimit: [{requests: 3, per: 1h}]}
`, named(t, "a", &well)))
	ask := func(cfg Config, field string) (admitted int) {
		b := start(t, cfg, paths{})
		s := NewSnapshots(b.Gateway, nil, nil)
		if err := s.Apply(compiled(t, yaml), sessionKeys); err != nil {
			t.Fatal(err)
		}
		k := dial(t, b.addr)
		for i := range 10 {
			k.send("GET / HTTP/1.1", "Host: a.example", fmt.Sprintf(field, i), "", "")
			if r, _ := k.get("GET"); r.StatusCode == 200 {
				admitted++
			} else if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
				t.Errorf("%d %v", r.StatusCode, r.Header)
			}
		}
		return admitted
	}
	trusted := Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, tt := range []struct {
		cfg   Config
		field string
		want  int
	}{
		{Config{}, "X-Forwarded-For: 192.0.2.%d", 3},
		{trusted, "X-Forwarded-For: 192.0.2.%d", 10},
		{trusted, "X-Forwarded-For: 192.0.2.%d, 198.51.100.1", 3},
	} {
		if got := ask(tt.cfg, tt.field); got != tt.want {
			t.Errorf("%s, trusted %v: %d of 10 admitted, want %d", tt.field, tt.cfg.Trusted, got, tt.want)
		}
	}
}

// A connect that takes too long is a 504, whichever clock notices it first.
//
// Covers: issue6 proxy
func TestSlowConnectsAreTimeouts(t *testing.T) {
	fd, addr, err := boundSocket()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSocket(fd) })
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	full := false
	for range 16 { // nobody accepts: once the queue is full, the system lets connects wait
		c, err := net.DialTimeout("tcp", addr, 500*time.Millisecond)
		if full = err != nil; full {
			break
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	if !full {
		t.Skip("this system takes connections that nobody accepts, however many")
	}
	d, _ := one(addr)
	d["*"].route.ConnectTimeout = time.Millisecond
	k := dial(t, start(t, Config{}, d).addr)
	for range 20 {
		k.send("GET / HTTP/1.1", "Host: a", "", "")
		if r, body := k.get("GET"); r.StatusCode != 504 || body != "504 Gateway Timeout: connect_timeout\n" {
			t.Fatalf("%d %q", r.StatusCode, body)
		}
	}
}
