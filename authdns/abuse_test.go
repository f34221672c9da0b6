package authdns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/authdns/internal/server"
	"steerpoint/internal/proxyproto"
	"steerpoint/snapshot"
)

// selfSigned makes a certificate for a name, and its key, in PEM form.
func selfSigned(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// withCookies is the test map with the cookie secrets of a time.
func withCookies(t *testing.T, master string, now time.Time) *snapshot.DNS {
	t.Helper()
	c, err := snapshot.CookiesAt([]byte(master), now)
	if err != nil {
		t.Fatal(err)
	}
	return share(t, dnstest.Map(t), snapshot.ServerSecrets{Cookies: c})
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cookieOf is the cookie in a reply, in hex; "" without one.
func cookieOf(t *testing.T, m *dns.Msg) string {
	t.Helper()
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if c, ok := o.(*dns.EDNS0_COOKIE); ok {
				return c.Cookie
			}
		}
	}
	return ""
}

// flood answers a query n times at one instant as if it came from an address, and gives the replies; nil: none.
func (r *running) flood(t *testing.T, n int, from string, q *dns.Msg) (replies []*dns.Msg) {
	t.Helper()
	h, b, now := r.handler(server.UDP), dnstest.Pack(t, q), r.epoch.Add(time.Hour) // the same for all of a test
	for range n {
		reply := h.Handle(nil, b, netip.MustParseAddr(from), now)
		if len(reply) == 0 {
			replies = append(replies, nil)
			continue
		}
		replies = append(replies, dnstest.Unpack(t, reply))
	}
	return replies
}

// TestRateLimit floods from a network that may be forged: what is over the limit is empty and cut, no longer than its
// query, and other networks, TCP and who shows a cookie get their answers.
//
// Covers: issue5 rate limit
func TestRateLimit(t *testing.T) {
	r := start(t, Config{RateLimit: RateLimit{Answers: 10}}, dnstest.Map(t))
	q := dnstest.Query("plain.gslb.example.net.", dns.TypeA)
	replies := r.flood(t, 100, "203.0.113.1", q)
	whole := 0
	for _, m := range replies {
		switch {
		case firstA(m) == "192.0.2.7":
			whole++
		case !m.Truncated || len(m.Answer)+len(m.Ns) > 0 || m.IsEdns0() == nil || m.Rcode != dns.RcodeSuccess:
			t.Fatalf("over the limit: %v", m)
		case len(dnstest.Pack(t, m)) > len(dnstest.Pack(t, q)):
			t.Fatalf("%d octets to a query of %d", len(dnstest.Pack(t, m)), len(dnstest.Pack(t, q)))
		}
	}
	if whole < 20 || whole > 22 { // two seconds' worth at once
		t.Errorf("%d of 100 were answered at a limit of 10", whole)
	}
	if n := r.metric(t, "steer_authdns_rate_limited_total", "action=truncated"); n != float64(100-whole) {
		t.Errorf("%v are counted", n)
	}
	if m := r.flood(t, 1, "198.51.100.1", q)[0]; firstA(m) != "192.0.2.7" {
		t.Errorf("another network: %v", m)
	}
	if m := r.flood(t, 1, "203.0.113.1", dnstest.Query("mail.example.com.", dns.TypeA))[0]; firstA(m) != "192.0.2.25" {
		t.Errorf("another name: %v", m)
	}
	tcp := r.handler(server.TCP)
	if m := dnstest.Unpack(t, tcp.Handle(nil, dnstest.Pack(t, q), netip.MustParseAddr("203.0.113.1"), time.Now())); firstA(m) != "192.0.2.7" {
		t.Errorf("over TCP: %v", m)
	}
}

// TestRateLimitKinds: random names of a zone share a limit, errors share one, answers by client subnet have that of all
// together.
//
// Covers: issue5 rate limit
func TestRateLimitKinds(t *testing.T) {
	count := func(limits RateLimit, name func(i int) *dns.Msg) (answered, dropped int) {
		limits.Slip = -1
		r := start(t, Config{RateLimit: limits}, dnstest.Map(t))
		for i := range 100 {
			if r.flood(t, 1, "203.0.113.1", name(i))[0] == nil {
				dropped++
			} else {
				answered++
			}
		}
		if n := r.metric(t, "steer_authdns_dropped_packets_total", "reason=limited"); n != float64(dropped) {
			t.Errorf("%v drops are counted, of %d", n, dropped)
		}
		return answered, dropped
	}
	for _, row := range []struct {
		name   string
		limits RateLimit
		query  func(i int) *dns.Msg
		least  int
		most   int
	}{
		{"random names", RateLimit{NXDomains: 10}, func(i int) *dns.Msg { return dnstest.Query(fmt.Sprintf("x%d.gslb.example.net.", i), dns.TypeA) }, 20, 30},
		{"names of others", RateLimit{Errors: 10}, func(i int) *dns.Msg { return dnstest.Query(fmt.Sprintf("x%d.test.", i), dns.TypeA) }, 20, 30},
		{"one name for many networks", RateLimit{Answers: 10}, func(i int) *dns.Msg {
			return dnstest.Query("shop.gslb.example.net.", dns.TypeA, dnstest.ECS(fmt.Sprintf("198.51.%d.0/24", i)))
		}, 100, 100},
		{"the same, all together", RateLimit{Total: 10}, func(i int) *dns.Msg {
			return dnstest.Query("shop.gslb.example.net.", dns.TypeA, dnstest.ECS(fmt.Sprintf("198.51.%d.0/24", i)))
		}, 20, 30},
		{"names below a wildcard, all together", RateLimit{Total: 10}, func(i int) *dns.Msg {
			return dnstest.Query(fmt.Sprintf("x%d.wild.example.com.", i), dns.TypeTXT)
		}, 20, 30},
		{"limits off", RateLimit{Off: true, Answers: 1}, func(int) *dns.Msg { return dnstest.Query("plain.gslb.example.net.", dns.TypeA) }, 100, 100},
		{"no limit", RateLimit{Answers: -1, Total: -1}, func(int) *dns.Msg { return dnstest.Query("plain.gslb.example.net.", dns.TypeA) }, 100, 100},
	} {
		if answered, _ := count(row.limits, row.query); answered < row.least || answered > row.most {
			t.Errorf("%s: %d of 100 were answered, want %d to %d", row.name, answered, row.least, row.most)
		}
	}
}

// TestBadCookieOnlyUnderAttack: a client that could show a cookie is asked for it when there are too many replies, and not
// before; with the one it was given it is answered.
//
// Covers: field 55, issue5 rate limit, rfc 7873 bad, rfc 7873 client only
func TestBadCookieOnlyUnderAttack(t *testing.T) {
	r := start(t, Config{RateLimit: RateLimit{Answers: 10, Slip: -1}}, dnstest.Map(t))
	with := func(cookie string) *dns.Msg {
		return dnstest.Query("plain.gslb.example.net.", dns.TypeA, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie})
	}
	client := "1112131415161718"
	replies := r.flood(t, 100, "203.0.113.1", with(client))
	if m := replies[0]; m.Rcode != dns.RcodeSuccess || firstA(m) != "192.0.2.7" || len(cookieOf(t, m)) != 48 {
		t.Fatalf("the first: %v", m)
	}
	last := replies[99]
	if last.Rcode != dns.RcodeBadCookie || len(last.Answer) != 0 || last.Truncated {
		t.Fatalf("the last: %v", last)
	}
	given := cookieOf(t, last)
	for i, m := range r.flood(t, 100, "203.0.113.1", with(given)) {
		if firstA(m) != "192.0.2.7" {
			t.Fatalf("with a cookie, query %d: %v", i, m)
		}
	}
	// The cookie of one address is worth nothing at another.
	if m := r.flood(t, 1, "203.0.113.2", with(given))[0]; m.Rcode != dns.RcodeBadCookie {
		t.Errorf("a stolen cookie: %v", m)
	}
	if r.metric(t, "steer_authdns_rate_limited_total", "action=badcookie") < 70 || r.metric(t, "steer_authdns_queries_total", "rcode=BADCOOKIE") < 70 {
		t.Error("they are not counted")
	}
}

// TestUDPWithoutCookie: replies to who shows no cookie of ours are bounded apart, where that is configured.
//
// Covers: issue5 rate limit
func TestUDPWithoutCookie(t *testing.T) {
	d := dnstest.Map(t)
	big := snapshot.DNSRecord{Name: "big.example.com.", Type: "TXT", TTL: time.Minute}
	for i := range 10 {
		big.Data = append(big.Data, fmt.Sprintf("\"%080d\"", i))
	}
	d.Zones[1].Records = append(d.Zones[1].Records, big)
	r := start(t, Config{MaxUDPNoCookie: 512}, d)
	m := r.ask(t, "udp", dnstest.Query("big.example.com.", dns.TypeTXT, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "1112131415161718"}))
	if !m.Truncated || len(m.Answer) != 0 {
		t.Errorf("without a cookie of ours: %v", m)
	}
	m = r.ask(t, "udp", dnstest.Query("big.example.com.", dns.TypeTXT, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookieOf(t, m)}))
	if m.Truncated || len(m.Answer) != 10 {
		t.Errorf("with it: %v", m)
	}
}

// from dials a server from another address of this machine.
func from(t *testing.T, network, local, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(local)}}
	if network == "tcp" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(local)}
	}
	c, err := d.DialContext(t.Context(), network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestProxy: behind a header the client is the header's, over every transport; the client subnet still wins, and the cookie
// is the true client's.
//
// Covers: field 5, issue5 proxy protocol
func TestProxy(t *testing.T) {
	r := start(t, Config{DoT: anyPort, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}, dnstest.Map(t))
	client := netip.MustParseAddrPort("198.51.100.200:4242") // of CN; loopback is of no place
	ask := func(network, local string, header []byte, q *dns.Msg) *dns.Msg {
		t.Helper()
		c := from(t, network, local, r.addr)
		b := dnstest.Pack(t, q)
		if network == "udp" {
			if _, err := c.Write(append(header, b...)); err != nil {
				t.Fatal(err)
			}
			reply := make([]byte, 4096)
			n, err := c.Read(reply)
			if err != nil {
				t.Fatal(err)
			}
			return dnstest.Unpack(t, reply[:n])
		}
		for _, octet := range append(header, frame(b)...) {
			if _, err := c.Write([]byte{octet}); err != nil {
				t.Fatal(err)
			}
		}
		return readTCP(t, c)
	}
	cookie := &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "2122232425262728"}
	for _, network := range []string{"udp", "tcp"} {
		us := r.Addrs()[0]
		header := func() []byte { return proxyproto.Append(nil, client, us, network == "udp") }
		m := ask(network, "127.0.0.2", header(), dnstest.Query("shop.gslb.example.net.", dns.TypeA, cookie))
		if firstA(m) != "198.51.100.1" {
			t.Errorf("%s: %v", network, m)
		}
		if made := unhex(t, cookieOf(t, m)); r.cookies.Check(made, client.Addr(), uint32(time.Now().Unix())) == 0 {
			t.Errorf("%s: the cookie is not the client's", network)
		}
		if m := ask(network, "127.0.0.2", header(), dnstest.Query("shop.gslb.example.net.", dns.TypeA, dnstest.ECS("203.0.113.0/28"))); firstA(m) != "203.0.113.1" {
			t.Errorf("%s, client subnet: %v", network, m)
		}
		if m := ask(network, "127.0.0.2", proxyproto.Append(nil, netip.AddrPort{}, us, network == "udp"), dnstest.Query("shop.gslb.example.net.", dns.TypeA)); firstA(m) != "192.0.2.1" {
			t.Errorf("%s, the proxy itself: %v", network, m)
		}
		if m := ask(network, "127.0.0.1", nil, dnstest.Query("shop.gslb.example.net.", dns.TypeA)); firstA(m) != "192.0.2.1" {
			t.Errorf("%s, beside the proxy: %v", network, m)
		}
	}
	refused := from(t, "tcp", "127.0.0.2", r.addr)
	if _, err := refused.Write(frame(dnstest.Pack(t, dnstest.Query("shop.gslb.example.net.", dns.TypeA)))); err != nil {
		t.Fatal(err)
	}
	ended(t, refused)
	// From who is not a proxy a header is no query.
	forged := from(t, "tcp", "127.0.0.3", r.addr)
	if _, err := forged.Write(proxyproto.Append(nil, client, r.Addrs()[0], false)); err != nil {
		t.Fatal(err)
	}
	if err := forged.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	ended(t, forged)
	silent := from(t, "udp", "127.0.0.2", r.addr)
	if _, err := silent.Write(dnstest.Pack(t, dnstest.Query("shop.gslb.example.net.", dns.TypeA))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are counted", func() bool {
		return r.metric(t, "steer_authdns_tcp_cut_total", "reason=proxy") == 1 && r.metric(t, "steer_authdns_dropped_packets_total", "reason=proxy") == 1
	})
}

// TestProxyDoT: the header stands before the handshake.
//
// Covers: field 5, issue5 proxy protocol, issue5 dot
func TestProxyDoT(t *testing.T) {
	r := start(t, Config{DoT: anyPort, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}, dnstest.Map(t))
	c := from(t, "tcp", "127.0.0.2", r.DoT()[0].String())
	if _, err := c.Write(proxyproto.Append(nil, netip.MustParseAddrPort("198.51.100.200:4242"), r.DoT()[0], false)); err != nil {
		t.Fatal(err)
	}
	over := tls.Client(c, trusting("dot"))
	if _, err := over.Write(frame(dnstest.Pack(t, dnstest.Query("shop.gslb.example.net.", dns.TypeA)))); err != nil {
		t.Fatal(err)
	}
	if m := readTCP(t, over); firstA(m) != "198.51.100.1" {
		t.Errorf("%v", m)
	}
}
