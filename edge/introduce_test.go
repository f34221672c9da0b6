package edge

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"steerpoint/internal/proxyproto"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// The client that a proxy names is the peer: for rules, for X-Forwarded-For and in the log, plain and over TLS, in both
// versions; what it says in X-Forwarded-For is believed no more than of anybody.
//
// Covers: issue6 proxy protocol, gateway fault 47
func TestProxiesIntroduceClients(t *testing.T) {
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Forwarded-For")) })
	asked := make(chan string, 1)
	site := func() paths {
		d, _ := one(addr)
		w := d["*"]
		w.plan = func(a *Asked, _ *Plan) { asked <- fmt.Sprintf("%v %v %d", a.Socket, a.Client, a.Port) }
		d["*"] = w
		return d
	}
	client, server := netip.MustParseAddrPort("203.0.113.7:4711"), netip.MustParseAddrPort("198.51.100.1:8443")
	plain := start(t, Config{Proxies: loopback}, site())
	secured, roots := secure(t, Config{Proxies: loopback}, site())
	for name, header := range map[string]string{
		"version 1": "PROXY TCP4 203.0.113.7 198.51.100.1 4711 8443\r\n",
		"version 2": string(proxyproto.Append(nil, client, server, false)),
	} {
		for _, b := range []*bench{plain, secured} {
			k := dial(t, b.addr)
			k.send(header)
			if b == secured {
				c := tls.Client(k.TCPConn, &tls.Config{ServerName: "example.com", RootCAs: roots})
				if err := c.Handshake(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				k.r, k.tls = bufio.NewReader(c), c
			}
			for range 2 {
				k.send("GET / HTTP/1.1", "Host: a", "X-Forwarded-For: 192.0.2.1", "", "")
				if r, body := k.get("GET"); r.StatusCode != 200 || body != "192.0.2.1, 203.0.113.7" {
					t.Errorf("%s: %d, X-Forwarded-For %q", name, r.StatusCode, body)
				}
				if got, want := <-asked, "203.0.113.7:4711 203.0.113.7:4711 8443"; got != want {
					t.Errorf("%s: asked by %s, want %s", name, got, want)
				}
			}
		}
	}
	if line := plain.log.wait(t, 1); line["peer"] != "203.0.113.7:4711" {
		t.Errorf("log: %v", line)
	}
}

// A proxy whose connections begin without a header, or with a bad one, is not heard; from anybody else a header is no HTTP.
//
// Covers: issue6 proxy protocol
func TestHeadersAreDemandedOfProxies(t *testing.T) {
	s := script(t, func(_ int, k *talk) { t.Errorf("the origin got %q", k.readHead()) })
	d, _ := one(s.addr())
	b := start(t, Config{Proxies: loopback}, d)
	for _, data := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PROXY TCP4 nobody 198.51.100.1 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"} {
		k := dial(t, b.addr)
		k.send(data)
		if err := k.ended(); err != nil {
			t.Errorf("%q: %v", data, err)
		}
	}
	b.wants(t, `steer_edge_connections_ended_total{reason="proxy"} 2`)
	d, _ = one(s.addr())
	slow := start(t, Config{Proxies: loopback, HeadTimeout: 20 * time.Millisecond}, d)
	k := dial(t, slow.addr)
	k.send("PROXY TCP4 192.0.2.1 ")
	if err := k.ended(); err != nil {
		t.Errorf("half a header: %v", err)
	}
	d, _ = one(s.addr())
	other := start(t, Config{Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, d)
	k = dial(t, other.addr)
	k.send("PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := k.get("GET"); r.StatusCode != 400 || !r.Close {
		t.Errorf("a header of a stranger: %d, close %t", r.StatusCode, r.Close)
	}
}

// The cap of one source is that of the client that a proxy names, not of the proxy; the proxy itself has none.
//
// Covers: issue6 proxy protocol, issue6 proxy limits
func TestSourcesBehindProxiesAreCapped(t *testing.T) {
	addr := origin(t, func(http.ResponseWriter, *http.Request) {})
	d, _ := one(addr)
	b := start(t, Config{Proxies: loopback, MaxPerSource: 2}, d)
	ask := func(header string) (*talk, error) {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := fmt.Fprint(c, header, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return nil, err
		}
		k := &talk{TCPConn: c.(*net.TCPConn), r: bufio.NewReader(c), t: t}
		_, err = http.ReadResponse(k.r, &http.Request{Method: "GET"})
		return k, err
	}
	var of1 []*talk
	for i := range 6 { // three clients, two connections each, through one proxy; and its own
		k, err := ask(fmt.Sprintf("PROXY TCP4 192.0.2.%d 198.51.100.1 4711 443\r\n", i%3+1))
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			of1 = append(of1, k)
		}
	}
	for range 3 {
		if _, err := ask("PROXY UNKNOWN\r\n"); err != nil {
			t.Errorf("the proxy itself: %v", err)
		}
	}
	if _, err := ask("PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n"); err == nil {
		t.Error("a third connection of one client was heard")
	}
	b.wants(t, `steer_edge_connections_refused_total{reason="source"} 1`)
	_ = of1[0].Close()
	b.wants(t, `steer_edge_connections 8`)
	if _, err := ask("PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n"); err != nil {
		t.Errorf("after one had gone: %v", err)
	}
}
