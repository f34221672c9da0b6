package edge

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// secure runs a gateway with TLS in front, with the certificate of a test server.
func secure(t *testing.T, cfg Config, d paths) (*bench, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	cert := s.TLS.Certificates[0]
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	s.Close()
	cfg.ListenTLS = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	cfg.Certificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName != "example.com" {
			return nil, fmt.Errorf("no certificate of %q", h.ServerName)
		}
		return &cert, nil
	}
	return start(t, cfg, d), roots
}

func dialTLS(t *testing.T, addr string, config *tls.Config) (*talk, error) {
	t.Helper()
	k := dial(t, addr)
	c := tls.Client(k.TCPConn, config)
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	k.r = bufio.NewReader(c)
	k.tls = c
	return k, nil
}

// TLS in front and behind: the certificate is that of the name asked for, and an origin is verified.
//
// Covers: issue6 tls
func TestTLSOnBothSides(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d", r.Header.Get("X-Forwarded-Proto"), r.TLS.ServerName, len(body))
	}))
	t.Cleanup(s.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	addr := s.Listener.Addr().String()
	good, stranger, misnamed := group(addr), group(addr), group(addr)
	good.origins[0].TLS = &tls.Config{ServerName: "example.com", RootCAs: trusted}
	stranger.origins[0].TLS = &tls.Config{ServerName: "example.com", RootCAs: x509.NewCertPool()}
	misnamed.origins[0].TLS = &tls.Config{ServerName: "example.org", RootCAs: trusted}
	d := paths{
		"good":     {route: &Route{Service: "shop", Name: "good"}, group: good},
		"stranger": {route: &Route{Service: "shop", Name: "stranger"}, group: stranger},
		"misnamed": {route: &Route{Service: "shop", Name: "misnamed"}, group: misnamed},
	}
	b, roots := secure(t, Config{}, d)
	k, err := dialTLS(t, b.addr, &tls.Config{ServerName: "example.com", RootCAs: roots, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 100, 100_000} {
		k.send("POST /good HTTP/1.1", "Host: example.com", fmt.Sprintf("Content-Length: %d", size), "", strings.Repeat("x", size))
		if r, body := k.get("POST"); r.StatusCode != 200 || body != fmt.Sprintf("https example.com %d", size) {
			t.Errorf("%d %q", r.StatusCode, body)
		}
	}
	for _, path := range []string{"stranger", "misnamed"} {
		k.send("GET /"+path+" HTTP/1.1", "Host: example.com", "", "")
		if r, body := k.get("GET"); r.StatusCode != 502 || body != "502 Bad Gateway: connect_failed\n" {
			t.Errorf("%s: %d %q", path, r.StatusCode, body)
		}
	}
	if line := b.log.wait(t, 1); line["scheme"] != "https" {
		t.Errorf("log: %v", line)
	}
	if _, err := dialTLS(t, b.addr, &tls.Config{ServerName: "example.org", RootCAs: roots}); err == nil {
		t.Error("a handshake for another name succeeded")
	}
	b.wants(t, `steer_edge_connections_ended_total{reason="handshake"} 1`)
}

// A response that is cut over TLS ends without the word of TLS that says that all was sent.
//
// Covers: issue6 tls, gateway T41
func TestCutResponsesStayCutOverTLS(t *testing.T) {
	goOn := make(chan struct{})
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "x", "")
		<-goOn
	})
	d, _ := one(s.addr())
	b, roots := secure(t, Config{}, d)
	k, err := dialTLS(t, b.addr, &tls.Config{ServerName: "example.com", RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	k.send("GET / HTTP/1.0", "Host: a", "", "") // the end of the connection is all that tells the end
	r := k.head("GET")
	if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if _, err := io.ReadAll(r.Body); !isReset(err) {
		t.Errorf("the end: %v, want a cut", err)
	}
}
