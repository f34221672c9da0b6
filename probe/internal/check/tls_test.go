package check

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"steerpoint/report"
)

// TestTLS: every way a handshake can go. The certificate is held against the URL's host, whatever the address.
//
// Covers: field 33, field 37
func TestTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	ok := answer("HTTP/1.1 200 OK\r\n\r\n")
	good := ca.config(t, false, "www.example.com", "xn--bcher-kva.example", "192.0.2.7", "2001:db8::7")
	wantsClient := good.Clone()
	wantsClient.ClientAuth = tls.RequireAnyClientCert
	wantsClient12 := wantsClient.Clone()
	wantsClient12.MaxVersion = tls.VersionTLS12
	old := good.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for _, row := range []struct {
		name    string
		handle  func(net.Conn)
		url     string
		blind   bool // tlsVerify: false
		timeout time.Duration
		cause   report.Cause
		detail  string
	}{
		{name: "ok", handle: overTLS(good, ok)},
		{name: "ok by IDN", handle: overTLS(good, ok), url: "https://Bücher.example/"},
		{name: "ok by address", handle: overTLS(good, ok), url: "https://192.0.2.7/"},
		{name: "ok by IPv6 address", handle: overTLS(good, ok), url: "https://[2001:db8::7]/"},
		{name: "ended", handle: overTLS(ca.config(t, true, "www.example.com"), ok), cause: report.CauseTLS, detail: "certificate of www.example.com is valid from"},
		{name: "wrong name", handle: overTLS(ca.config(t, false, "*.cdn.example"), ok), cause: report.CauseTLS, detail: "is for *.cdn.example, not for www.example.com"},
		{name: "wrong address", handle: overTLS(good, ok), url: "https://192.0.2.8/", cause: report.CauseTLS, detail: "not for 192.0.2.8"},
		{name: "unknown authority", handle: overTLS(other.config(t, false, "www.example.com"), ok), cause: report.CauseTLS, detail: "authority"},
		{name: "ended, not verified", handle: overTLS(ca.config(t, true, "www.example.com"), ok), blind: true},
		{name: "wrong name, not verified", handle: overTLS(ca.config(t, false, "a.example"), ok), blind: true},
		{name: "unknown authority, not verified", handle: overTLS(other.config(t, false, "www.example.com"), ok), blind: true},
		{name: "not TLS", handle: func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); hold(c) }, cause: report.CauseTLS, detail: "does not speak TLS"},
		{name: "closes in the handshake", handle: closeAfterHello, cause: report.CauseTLS, detail: "closed by the other side"},
		{name: "resets in the handshake", handle: resetAfterHello, cause: report.CauseTLS, detail: "reset by the other side"},
		{name: "half a handshake", handle: halfHandshake, timeout: short, cause: report.CauseTimeout},
		{name: "silent", handle: hold, timeout: short, cause: report.CauseTimeout},
		{name: "no certificate to give", handle: overTLS(&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, io.EOF }}, ok), cause: report.CauseTLS, detail: "TLS handshake"},
		{name: "wants a client certificate", handle: overTLS(wantsClient, ok), cause: report.CauseTLS, detail: "certificate"},
		{name: "wants a client certificate, TLS 1.2", handle: overTLS(wantsClient12, ok), cause: report.CauseTLS},
		{name: "only old versions", handle: overTLS(old, ok), cause: report.CauseTLS, detail: "version"},
		{name: "body breaks off inside TLS", handle: overTLS(good, answer("HTTP/1.1 200 OK\r\nServ")), cause: report.CauseReset},
	} {
		t.Run(row.name, func(t *testing.T) {
			tk := task("https", serve(t, "127.0.0.1:0", row.handle).addr)
			tk.TLSVerify = !row.blind
			if row.url != "" {
				tk.URL = row.url
			}
			if row.timeout > 0 {
				tk.Timeout = row.timeout
			}
			o := run(t, newChecker(Config{Roots: ca.roots}), tk)
			if row.cause != "" {
				wantFailure(t, o, row.cause, row.detail)
				return
			}
			if ph := o.Phases; !o.OK || ph.TLS <= 0 || o.Latency != ph.Connect+ph.TLS+ph.FirstByte {
				t.Errorf("got %+v", o)
			}
		})
	}
}

// TestSystemRoots: without roots of its own a checker trusts the system's, not whoever signs.
//
// Covers: field 33
func TestSystemRoots(t *testing.T) {
	ca := newAuthority(t)
	p := serve(t, "127.0.0.1:0", overTLS(ca.config(t, false, "www.example.com"), answer(well)))
	wantFailure(t, run(t, newChecker(Config{}), task("https", p.addr)), report.CauseTLS, "authority")
}

// TestSNI: the name in the handshake is the URL's host in A-labels; an address sends none (RFC 6066 section 3).
//
// Covers: field 30, field 31
func TestSNI(t *testing.T) {
	ca := newAuthority(t)
	for url, want := range map[string]string{
		"https://www.example.com:8443/": "www.example.com",
		"https://bücher.example/":       "xn--bcher-kva.example",
		"https://192.0.2.7/":            "",
	} {
		cfg := ca.config(t, false, "www.example.com", "xn--bcher-kva.example", "192.0.2.7")
		hello := make(chan *tls.ClientHelloInfo, 1)
		cfg.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			hello <- h
			return nil, nil
		}
		tk := task("https", serve(t, "127.0.0.1:0", overTLS(cfg, answer(well))).addr)
		tk.URL = url
		if o := run(t, newChecker(Config{Roots: ca.roots}), tk); !o.OK {
			t.Errorf("%s: got %+v", url, o)
			continue
		}
		if h := <-hello; h.ServerName != want || len(h.SupportedProtos) != 1 || h.SupportedProtos[0] != "http/1.1" {
			t.Errorf("%s: server name %q, protocols %q", url, h.ServerName, h.SupportedProtos)
		}
	}
}

func readHello(c net.Conn) {
	c.Read(make([]byte, 4096)) // whatever came of it, the handshake ends here
}

func closeAfterHello(c net.Conn) { readHello(c) }

func resetAfterHello(c net.Conn) {
	readHello(c)
	c.(*net.TCPConn).SetLinger(0)
}

// halfHandshake answers with the beginning of a record and no more.
func halfHandshake(c net.Conn) {
	readHello(c)
	c.Write([]byte{22, 3, 3, 0, 90, 2, 0})
	hold(c)
}
