package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
)

func postRaw(t *testing.T, c *http.Client, url, encoding string, body io.Reader) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var refusal pki.Refusal
	if resp.StatusCode >= 300 {
		if err := json.NewDecoder(resp.Body).Decode(&refusal); err != nil {
			t.Fatal(err)
		}
	}
	return refusal.Code
}

// A body that is too large, is not whole or is not JSON is refused with its code; one with fields of a newer node is not.
//
// Covers: A7, issue3 limits
func TestBodies(t *testing.T) {
	r := newRig(t, nil)
	c := rawClient(t, pair(t, r.authority, "p1", []string{RoleProbe}, time.Now(), time.Hour))
	zeros, err := pack(make([]byte, 300*kib)) // some hundred bytes that unpack to more than status takes
	if err != nil {
		t.Fatal(err)
	}
	good, err := pack([]byte(`{"version":"1.4.0","newField":{"a":[1]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, encoding, body, want string }{
		{"largest", "", `{"version":"` + strings.Repeat("x", 255*kib) + `"}`, ""},
		{"too large", "", `{"version":"` + strings.Repeat("x", 256*kib) + `"}`, pki.BodyTooLarge},
		{"unpacks to too much", "gzip", string(zeros), pki.BodyTooLarge},
		{"packed", "gzip", string(good), ""},
		{"packed and cut", "gzip", string(good[:len(good)/2]), pki.BadRequest},
		{"not packed as it says", "gzip", "{}", pki.BadRequest},
		{"empty", "", "", pki.BadRequest},
		{"not JSON", "", "hello", pki.BadRequest},
		{"more than one value", "", "{}{}", pki.BadRequest},
		{"of another shape", "", `{"uptime":"long"}`, pki.BadRequest},
		{"of a newer node", "", `{"version":"1.4.0","newField":{"a":[1]}}`, ""},
	} {
		if got := postRaw(t, c, r.url()+"/v1/status", row.encoding, strings.NewReader(row.body)); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	if got := postRaw(t, c, r.url()+"/v1/result", "", strings.NewReader(`{"id":"x"}`)); got != pki.BadRequest {
		t.Errorf("a result that is none: %q", got)
	}
	if n := r.metric(t, "steer_wire_refused_calls_total"); n != 9 {
		t.Errorf("%v refusals are counted, want 9", n)
	}
}

// A call whose body never comes is given up, and costs nobody else anything.
//
// Covers: A7, issue3 slow clients
func TestBodyThatNeverComes(t *testing.T) {
	r := newRig(t, func(c *HubConfig) { c.CallTimeout = 100 * time.Millisecond })
	c := rawClient(t, pair(t, r.authority, "p1", []string{RoleProbe}, time.Now(), time.Hour))
	body, never := io.Pipe()
	defer never.Close()
	if got := postRaw(t, c, r.url()+"/v1/status", "", body); got != pki.BadRequest {
		t.Errorf("code %q, want %s", got, pki.BadRequest)
	}
}

// An application names nobody who is not there: the header and the protocol are checked too.
//
// Covers: A7, issue3 limits, issue3 version skew
func TestHeaders(t *testing.T) {
	r := newRig(t, nil)
	c := rawClient(t, pair(t, r.authority, "n1", []string{RoleDNS}, time.Now(), time.Hour))
	for _, row := range []struct{ key, value, want string }{
		{headerProtocol, "1", ""},
		{headerProtocol, "2", pki.BadRequest},
		{headerProtocol, "0", pki.BadRequest},
		{headerProtocol, "new", pki.BadRequest},
		{"Steer-Later", "whatever", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url()+"/v1/status", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(row.key, row.value)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var refusal pki.Refusal
		_ = json.NewDecoder(resp.Body).Decode(&refusal) // an answer without a body leaves it empty
		if err := resp.Body.Close(); err != nil || refusal.Code != row.want {
			t.Errorf("%s: %s: %q, want %q (%v)", row.key, row.value, refusal.Code, row.want, err)
		}
	}
	for _, have := range []string{"-1", "x", "99999999999999999999"} {
		if code, _ := tryCall(t, c, http.MethodGet, r.url()+"/v1/dns?have="+have, nil); code != pki.BadRequest {
			t.Errorf("have=%s: %q", have, code)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url()+"/v1/status", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Long", strings.Repeat("x", 1<<20))
	if resp, err := c.Do(req); err == nil {
		if resp.StatusCode < 400 {
			t.Errorf("a header of 1 MiB: %s", resp.Status)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// One address may try so many joins; then it waits, and others do not.
//
// Covers: A7, issue3 limits
func TestJoinRate(t *testing.T) {
	now := time.Now()
	r := newRig(t, func(c *HubConfig) {
		c.JoinsPerMinute = 3
		c.Now = func() time.Time { return now } // or on a slow machine there is room for one more by then
	})
	c := rawClient(t, nil)
	for i := range 4 {
		want := ""
		if i == 3 {
			want = pki.Busy
		}
		if code, _ := tryCall(t, c, http.MethodPost, r.url()+"/v1/join", bodyFor(t, r, "join", "")); code != want {
			t.Errorf("join %d: %q, want %q", i, code, want)
		}
	}
}

// The bucket fills again with time, one /64 is one address, and strange addresses cannot fill the memory.
//
// Covers: A7, issue3 limits
func TestRateLimit(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	addr := netip.MustParseAddr
	l := newRateLimit(2)
	take := func(a string, want bool) {
		t.Helper()
		if got := l.allow(addr(a), now); got != want {
			t.Errorf("%s at %s: %v, want %v", a, now, got, want)
		}
	}
	take("2001:db8::1", true)
	take("2001:db8::2", true)
	take("2001:db8::3", false)
	take("2001:db8:0:1::3", true)
	take("192.0.2.1", true)
	take("::ffff:192.0.2.1", true)
	take("192.0.2.1", false)
	take("192.0.2.2", true)
	now = now.Add(30 * time.Second)
	take("192.0.2.1", true)
	take("192.0.2.1", false)
	now = now.Add(-time.Hour) // the clock was set back: nobody is locked out for an hour longer
	take("192.0.2.1", false)
	now = now.Add(31 * time.Second)
	take("192.0.2.1", true)

	l = newRateLimit(2)
	for i := range maxBuckets + 10 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if !l.allow(a, now) {
			t.Fatalf("address %d is held back", i)
		}
	}
	if len(l.buckets) > maxBuckets {
		t.Errorf("%d addresses are remembered", len(l.buckets))
	}
	if l.allow(netip.Addr{}, now.Add(time.Hour)); len(l.buckets) > 2 {
		t.Errorf("%d addresses are remembered after an hour", len(l.buckets))
	}
}

// Beyond the limit a connection is closed at once; those of nodes are not counted among the strangers, who have few
// places, so that no stranger takes a node's.
//
// Covers: A7, issue3 limits
func TestConnectionLimits(t *testing.T) {
	// A stranger says nothing, and stays as long as the test takes.
	r := newRig(t, func(c *HubConfig) { c.MaxConnections, c.MaxStrangers, c.HandshakeTimeout = 4, 2, 2*patience })
	f := followDNS(t, r.node(t, "n1", RoleDNS), 0)
	r.control.await(t, "connected n1 dns", 1)
	strangers := make([]net.Conn, 0, 3)
	for range 2 {
		strangers = append(strangers, dial(t, r))
	}
	waitMetric(t, r, "steer_wire_connections", 3)
	if third := dial(t, r); !closedSoon(t, third) {
		t.Error("a third stranger is let in")
	}
	if n := r.metric(t, "steer_wire_refused_connections_total"); n != 1 {
		t.Errorf("%v refused connections are counted, want 1", n)
	}
	if err := strangers[0].Close(); err != nil {
		t.Fatal(err)
	}
	waitMetric(t, r, "steer_wire_connections", 2)
	if err := r.node(t, "n2", RoleDNS).Report(t.Context(), report.NodeStatus{}); err != nil {
		t.Errorf("a node beside a stranger: %v", err)
	}
	r.hub.PublishDNS(dnsMap(1, 1))
	f.next(t)
}

// One address has few places for strangers, so that it cannot keep nodes elsewhere from coming back; a place is given
// back by who proves to be a node, and by who leaves.
//
// Covers: A7, issue3 limits
func TestStrangersOfOneAddress(t *testing.T) {
	r := newRig(t, func(c *HubConfig) { c.MaxStrangersPerSite, c.HandshakeTimeout = 2, 2*patience })
	for _, name := range []string{"n1", "n2", "n3"} {
		if err := r.node(t, name, RoleDNS).Report(t.Context(), report.NodeStatus{}); err != nil {
			t.Errorf("node %s behind the address: %v", name, err)
		}
	}
	first := dial(t, r)
	dial(t, r)
	waitMetric(t, r, "steer_wire_connections", 5)
	if third := dial(t, r); !closedSoon(t, third) {
		t.Error("a third stranger of one address is let in")
	}
	if !r.hub.door.enter(siteOf(netip.MustParseAddr("192.0.2.1"))) {
		t.Error("another address has no place")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	waitMetric(t, r, "steer_wire_connections", 4)
	if err := r.node(t, "n4", RoleDNS).Report(t.Context(), report.NodeStatus{}); err != nil {
		t.Errorf("a node beside a stranger: %v", err)
	}
}

// What strangers are refused is counted, and logged a few times: they could fill a disk. What a node is refused is
// logged every time, since nobody else can make it so.
//
// Covers: A7, issue3 limits
func TestRefusalsOfStrangersInTheLog(t *testing.T) {
	var log logged
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOn(t, listener, slog.New(slog.NewTextHandler(&log, nil)), func(c *HubConfig) { c.JoinsPerMinute = 3 })
	stranger, began := r.client(t, nil), time.Now()
	for range 20 {
		wantCode(t, stranger.Report(t.Context(), report.NodeStatus{}), pki.CertMissing)
	}
	most := 3 + 3*int(time.Since(began)/time.Minute+1)
	if n := log.count("a call is refused"); n < 3 || n > most {
		t.Errorf("20 refusals of a stranger are %d lines of the log", n)
	}
	if n := r.metric(t, "steer_wire_refused_calls_total"); n != 20 {
		t.Errorf("%v are counted", n)
	}
	r.control.revoke("n1")
	node := r.node(t, "n1", RoleDNS)
	for range 20 {
		wantCode(t, node.Report(t.Context(), report.NodeStatus{}), pki.NodeRevoked)
	}
	if n := log.count("node=n1"); n != 20 {
		t.Errorf("20 refusals of a node are %d lines of the log", n)
	}
}

// logged is a log that is counted.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// Whoever connects and does not speak TLS is let go.
//
// Covers: A7, issue3 slow clients
func TestHandshakeTimeout(t *testing.T) {
	r := newRig(t, func(c *HubConfig) { c.HandshakeTimeout = 50 * time.Millisecond })
	if c := dial(t, r); !closedSoon(t, c) {
		t.Error("a connection without a handshake stays")
	}
}

func dial(t *testing.T, r *rig) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.hub.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // may be closed already
	return c
}

func closedSoon(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	var timeout net.Error
	return err != nil && (!errors.As(err, &timeout) || !timeout.Timeout())
}

func waitMetric(t *testing.T, r *rig, name string, want float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for r.metric(t, name) != want {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is %v, want %v", name, r.metric(t, name), want)
		}
	}
}

// A panic in what control does for one node is that call's failure alone.
//
// Covers: A7, issue3 nodes
func TestPanicIsOneCalls(t *testing.T) {
	r := newRig(t, nil)
	r.control.admitted = func(n pki.Identity) error {
		if n.Name == "bad" {
			panic("in control")
		}
		return nil
	}
	wantCode(t, r.node(t, "bad", RoleDNS).Report(t.Context(), report.NodeStatus{}), pki.Busy)
	if err := r.node(t, "good", RoleDNS).Report(t.Context(), report.NodeStatus{}); err != nil {
		t.Error(err)
	}
}

// Nothing is kept of a configuration that cannot work.
//
// Covers: issue3 limits
func TestHubConfig(t *testing.T) {
	a := newAuthority(t)
	control := newFakeControl(a)
	serve := func() (*tls.Certificate, error) { return a.ServerCertificate(time.Now()) }
	for name, cfg := range map[string]HubConfig{
		"no certificate": {Listen: "127.0.0.1:0"},
		"slower than it speaks": {
			Listen: "127.0.0.1:0", Pool: a.Pool(), Certificate: serve, KeepAlive: time.Second, SlowAfter: time.Second,
		},
		"no address": {Listen: "nowhere", Pool: a.Pool(), Certificate: serve},
	} {
		if _, err := NewHub(cfg, control, control, control, newRegistry(), quiet()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
