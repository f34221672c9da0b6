package authdns

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/dnstest"
)

var anyPort = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}

// trusting takes any certificate: whose it is, TestCertificate asks.
func trusting(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
}

func dialTLS(t *testing.T, addr string, cfg *tls.Config) *tls.Conn {
	t.Helper()
	d := tls.Dialer{Config: cfg}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*tls.Conn)
}

func frame(b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// TestDoT asks over TLS of both versions: by a record an octet, a hundred at once, and again with the session of before.
//
// Covers: issue5 dot, rfc 7858
func TestDoT(t *testing.T) {
	r := start(t, Config{DoT: anyPort}, dnstest.Map(t))
	addr := r.DoT()[0].String()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cfg := trusting("dot")
		cfg.MinVersion, cfg.MaxVersion, cfg.ClientSessionCache = version, version, tls.NewLRUClientSessionCache(4)
		for round := range 2 {
			c := dialTLS(t, addr, cfg)
			q := dnstest.Query("plain.gslb.example.net.", dns.TypeA, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE})
			for _, octet := range frame(dnstest.Pack(t, q)) {
				if _, err := c.Write([]byte{octet}); err != nil {
					t.Fatal(err)
				}
			}
			m := readTCP(t, c)
			if m.Id != q.Id || firstA(m) != "192.0.2.7" || len(m.IsEdns0().Option) != 1 {
				t.Errorf("TLS %x: %v", version, m)
			}
			if s := c.ConnectionState(); s.NegotiatedProtocol != "dot" || s.DidResume != (round == 1) {
				t.Errorf("TLS %x, round %d: protocol %q, resumed %t", version, round, s.NegotiatedProtocol, s.DidResume)
			}
			var burst []byte
			for id := range uint16(100) {
				q := dnstest.Query("mail.example.com.", dns.TypeA)
				q.Id = id
				burst = append(burst, frame(dnstest.Pack(t, q))...)
			}
			if _, err := c.Write(burst); err != nil {
				t.Fatal(err)
			}
			for id := range uint16(100) {
				if m := readTCP(t, c); m.Id != id || len(m.Answer) != 2 {
					t.Fatalf("TLS %x: reply %d: %v", version, id, m)
				}
			}
		}
	}
	eventually(t, "the replies are counted", func() bool {
		return r.metric(t, "steer_authdns_queries_total", "transport=dot", "rcode=NOERROR") == 404
	})
	noProtocol := dialTLS(t, addr, trusting()) // ALPN is not asked of clients
	if _, err := noProtocol.Write(frame(dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", dns.TypeA)))); err != nil {
		t.Fatal(err)
	}
	if m := readTCP(t, noProtocol); firstA(m) != "192.0.2.7" {
		t.Errorf("without ALPN: %v", m)
	}
}

// TestDoTRefusals: old versions, other protocols and who speaks no TLS at all are cut and counted; others are answered
// meanwhile.
//
// Covers: issue5 dot, rfc 7858
func TestDoTRefusals(t *testing.T) {
	r := start(t, Config{DoT: anyPort}, dnstest.Map(t))
	addr := r.DoT()[0].String()
	old := trusting("dot")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for name, cfg := range map[string]*tls.Config{"TLS 1.1": old, "HTTP": trusting("h2")} {
		d := tls.Dialer{Config: cfg}
		if c, err := d.DialContext(t.Context(), "tcp", addr); err == nil {
			t.Errorf("%s was taken", name)
			_ = c.Close()
		}
	}
	plain := dialTCP(t, addr)
	if _, err := plain.Write(frame(dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", dns.TypeA)))); err != nil {
		t.Fatal(err)
	}
	ended(t, plain)
	eventually(t, "the three are counted", func() bool {
		return r.metric(t, "steer_authdns_tcp_cut_total", "reason=handshake") == 3
	})
	c := dns.Client{Net: "tcp-tls", TLSConfig: trusting("dot"), Timeout: patience}
	if m, _, err := c.Exchange(dnstest.Query("plain.gslb.example.net.", dns.TypeA), addr); err != nil || firstA(m) != "192.0.2.7" {
		t.Errorf("afterwards: %v, %v", m, err)
	}
}

// requests is an HTTPS client for the DoH listener.
func (r *running) requests(t *testing.T, version2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: trusting(), ForceAttemptHTTP2: version2}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// TestDoH asks by GET and POST, over HTTP/1.1 and HTTP/2.
//
// Covers: issue5 doh, rfc 8484, rfc 7871 caches
func TestDoH(t *testing.T) {
	r := start(t, Config{DoH: anyPort}, dnstest.Map(t))
	target := "https://" + r.DoH()[0].String() + "/dns-query"
	for _, version2 := range []bool{false, true} {
		client := r.requests(t, version2)
		ask := func(q *dns.Msg, post bool) (*http.Response, *dns.Msg) {
			q.Id = 0 // RFC 8484 section 4.1: so that caches find equal queries equal
			b := dnstest.Pack(t, q)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target+"?dns="+base64.RawURLEncoding.EncodeToString(b), nil)
			if post {
				req, err = http.NewRequestWithContext(t.Context(), http.MethodPost, target, bytes.NewReader(b))
			}
			if err != nil {
				t.Fatal(err)
			}
			if post {
				req.Header.Set("Content-Type", "application/dns-message")
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%s, %v, %s", res.Status, err, body)
			}
			return res, dnstest.Unpack(t, body)
		}
		for _, post := range []bool{false, true} {
			for _, row := range []struct{ name, ecs, answer, cache string }{
				{"plain.gslb.example.net.", "", "192.0.2.7", "max-age=30"},
				{"mail.example.com.", "", "192.0.2.25", "max-age=60"},
				{"shop.gslb.example.net.", "", "192.0.2.1", "private, max-age=30"},
				{"shop.gslb.example.net.", "198.51.100.128/25", "198.51.100.1", "max-age=30"},
				{"no.gslb.example.net.", "", "", "max-age=60"},
				{"elsewhere.test.", "", "", "no-store"},
			} {
				options := []dns.EDNS0{&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE}}
				if row.ecs != "" {
					options = append(options, dnstest.ECS(row.ecs))
				}
				res, m := ask(dnstest.Query(row.name, dns.TypeA, options...), post)
				if firstA(m) != row.answer || res.Header.Get("Cache-Control") != row.cache || res.ProtoMajor == 2 != version2 {
					t.Errorf("%+v, %s: %s, %v", row, res.Proto, res.Header, m)
				}
				for _, o := range m.IsEdns0().Option {
					if o.Option() == dns.EDNS0TCPKEEPALIVE {
						t.Errorf("HTTP has a keepalive of its own, and the reply another: %v", m)
					}
				}
			}
		}
	}
	if n := r.metric(t, "steer_authdns_queries_total", "transport=doh", "rcode=NOERROR"); n != 16 {
		t.Errorf("%v replies are counted", n)
	}
	if n := r.metric(t, "steer_authdns_tcp_connections"); n != 2 {
		t.Errorf("%v connections are counted, of two clients", n)
	}
}

// TestDoHGivesWay: connections that ask nothing give way to those that do, as everywhere.
//
// Covers: issue5 doh
func TestDoHGivesWay(t *testing.T) {
	r := start(t, Config{DoH: anyPort, TCPTotal: 2, TCPIdle: time.Hour, TCPMessage: time.Hour}, dnstest.Map(t))
	addr := r.DoH()[0].String()
	first, second := dialTLS(t, addr, trusting("http/1.1")), dialTCP(t, addr)
	eventually(t, "both places are taken", func() bool { return r.metric(t, "steer_authdns_tcp_connections") == 2 })
	q := dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", dns.TypeA))
	res, err := r.requests(t, true).Post("https://"+addr+"/dns-query", "application/dns-message", bytes.NewReader(q))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("%s", res.Status)
	}
	ended(t, first)
	eventually(t, "the eviction is counted", func() bool { return r.metric(t, "steer_authdns_tcp_cut_total", "reason=evicted") == 1 })
	_ = second
}

// TestDoHEnds: a server that ends waits for no idle client of HTTP.
//
// Covers: issue5 doh
func TestDoHEnds(t *testing.T) {
	r := start(t, Config{DoH: anyPort, TCPIdle: time.Hour, TCPMessage: time.Hour}, dnstest.Map(t))
	addr := r.DoH()[0].String()
	client := r.requests(t, true)
	q := dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", dns.TypeA))
	res, err := client.Post("https://"+addr+"/dns-query", "application/dns-message", bytes.NewReader(q))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	silent := dialTCP(t, addr)
	eventually(t, "both are there", func() bool { return r.metric(t, "steer_authdns_tcp_connections") == 2 })
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	ended(t, silent)
}

// certificate writes one for a name into a folder.
func certificate(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	cert, key := selfSigned(t, name)
	certFile, keyFile = filepath.Join(dir, "dns.crt"), filepath.Join(dir, "dns.key")
	for file, b := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file+".new", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestCertificate: that of the files is shown, and the next one when they change; with files that cannot be used a server
// does not start, and one that runs keeps what it has and says so once.
//
// Covers: issue5 dot
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := certificate(t, dir, "one.example")
	r := start(t, Config{DoT: anyPort, Certificate: certFile, Key: keyFile}, dnstest.Map(t))
	shown := func() string {
		return dialTLS(t, r.DoT()[0].String(), trusting("dot")).ConnectionState().PeerCertificates[0].DNSNames[0]
	}
	if got := shown(); got != "one.example" {
		t.Errorf("shows %s", got)
	}
	if end := r.metric(t, "steer_authdns_certificate_end_seconds"); end < float64(time.Now().Unix()) {
		t.Errorf("it ends at %v", end)
	}
	if err := os.WriteFile(keyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := r.reloadCertificate(t.Context(), "")
	said = r.reloadCertificate(t.Context(), said)
	if got := shown(); got != "one.example" || strings.Count(r.log.String(), "DNS_CERTIFICATE") != 1 {
		t.Errorf("shows %s, log:\n%s", got, r.log)
	}
	certificate(t, dir, "two.example")
	said = r.reloadCertificate(t.Context(), said)
	if got := shown(); got != "two.example" || said != "" {
		t.Errorf("shows %s, %q", got, said)
	}
	_, err := New(Config{Listen: anyPort, DoT: anyPort, Certificate: filepath.Join(dir, "gone")}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrCertificate) || !strings.HasPrefix(err.Error(), "DNS_CERTIFICATE: ") {
		t.Errorf("without the file: %v", err)
	}
}

// TestEncryptedPortTaken: a taken port of the encrypted listeners is named with its role.
//
// Covers: issue5 dot, issue2 ports
func TestEncryptedPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := []netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())}
	for role, cfg := range map[string]Config{"dot": {DoT: taken}, "doh": {DoH: taken}} {
		cfg.Listen = anyPort
		_, err := New(cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if !errors.Is(err, ErrPortTaken) || FailedRole(err) != role || !strings.Contains(err.Error(), "--listen "+role+"=") {
			t.Errorf("%s: role %s, %v", role, FailedRole(err), err)
		}
	}
}

// TestSharedCookies: the cookie of one name server is good at another with the same map, also on the day after, and
// nothing else makes it so.
//
// Covers: field 55, issue5 cookies, rfc 9018 secrets
func TestSharedCookies(t *testing.T) {
	day := time.Now()
	one, other, alone := start(t, Config{}, withCookies(t, "master of a cluster", day)), start(t, Config{}, withCookies(t, "master of a cluster", day.Add(24*time.Hour))), start(t, Config{}, dnstest.Map(t))
	ask := func(r *running, cookie string) string {
		t.Helper()
		m := r.ask(t, "udp", dnstest.Query("plain.gslb.example.net.", dns.TypeA, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie}))
		if firstA(m) != "192.0.2.7" {
			t.Fatalf("a cookie changed the answer: %v", m)
		}
		return cookieOf(t, m)
	}
	client := "0102030405060708"
	made := ask(one, client)
	if got := ask(one, made); got != made {
		t.Errorf("its own cookie was not kept: %s, %s", made, got)
	}
	if one.cookies.Check(unhex(t, made), netip.MustParseAddr("127.0.0.1"), uint32(time.Now().Unix())) == 0 {
		t.Error("its own cookie is unknown")
	}
	if other.cookies.Check(unhex(t, made), netip.MustParseAddr("127.0.0.1"), uint32(time.Now().Unix())) == 0 {
		t.Error("a server that is a day ahead does not know it")
	}
	if alone.cookies.Check(unhex(t, made), netip.MustParseAddr("127.0.0.1"), uint32(time.Now().Unix())) != 0 {
		t.Error("a server with a secret of its own knows it")
	}
	// A map without secrets, as of an older control, leaves those in use.
	if err := one.Adopt(dnstest.Map(t)); err != nil {
		t.Fatal(err)
	}
	if got := ask(one, made); got != made {
		t.Error("a map without secrets took them away")
	}
}
