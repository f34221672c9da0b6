package doh

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// echo answers with what it was asked, made by reply.
func echo(t *testing.T, reply func(q *dns.Msg) *dns.Msg, private bool) http.Handler {
	return New(func(dst, query []byte, client netip.Addr) ([]byte, bool) {
		q := new(dns.Msg)
		if q.Unpack(query) != nil {
			return dst, false
		}
		if client != netip.MustParseAddr("192.0.2.77") {
			t.Errorf("client %s", client)
		}
		b, err := reply(q).Pack()
		if err != nil {
			t.Error(err)
		}
		return append(dst, b...), private
	})
}

func records(t *testing.T, lines ...string) (rrs []dns.RR) {
	t.Helper()
	for _, l := range lines {
		rr, err := dns.NewRR(l)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	return rrs
}

func query(t *testing.T) []byte {
	t.Helper()
	b, err := new(dns.Msg).SetQuestion("www.example.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func send(h http.Handler, method, target, contentType string, body io.Reader) *http.Response {
	r := httptest.NewRequest(method, target, body)
	r.RemoteAddr = "192.0.2.77:1234"
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestRequests sends a query in every way there is, and what is none.
//
// Covers: issue5 doh
func TestRequests(t *testing.T) {
	h := echo(t, func(q *dns.Msg) *dns.Msg { return new(dns.Msg).SetReply(q) }, false)
	q := query(t)
	text := base64.RawURLEncoding.EncodeToString(q)
	for _, row := range []struct {
		name, method, target, kind string
		body                       []byte
		want                       int
	}{
		{"GET", "GET", "/dns-query?dns=" + text, "", nil, 200},
		{"GET with more", "GET", "/dns-query?ct=x&dns=" + text, "", nil, 200},
		{"HEAD", "HEAD", "/dns-query?dns=" + text, "", nil, 200},
		{"POST", "POST", "/dns-query", mediaType, q, 200},
		{"POST with a parameter", "POST", "/dns-query", mediaType + "; x=1", q, 200},
		{"no query", "GET", "/dns-query", "", nil, 400},
		{"padded", "GET", "/dns-query?dns=" + text + "=", "", nil, 400},
		{"base64 of the other kind", "GET", "/dns-query?dns=%2B%2F%2B%2F", "", nil, 400},
		{"GET too long", "GET", "/dns-query?dns=" + strings.Repeat("A", 6000), "", nil, 414},
		{"POST too long", "POST", "/dns-query", mediaType, make([]byte, maxQuery+1), 413},
		{"POST of the longest", "POST", "/dns-query", mediaType, make([]byte, maxQuery), 200},
		{"POST of nothing", "POST", "/dns-query", mediaType, nil, 400},
		{"no media type", "POST", "/dns-query", "", q, 415},
		{"JSON", "POST", "/dns-query", "application/dns-json", q, 415},
		{"another method", "PUT", "/dns-query", mediaType, q, 405},
		{"another path", "GET", "/resolve?dns=" + text, "", nil, 404},
		{"no DNS", "POST", "/dns-query", mediaType, []byte("nonsense"), 400},
	} {
		res := send(h, row.method, row.target, row.kind, bytes.NewReader(row.body))
		got, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != row.want {
			t.Errorf("%s: %s, %v, want %d", row.name, res.Status, err, row.want)
		}
		if row.want != 200 {
			continue
		}
		m := new(dns.Msg)
		if err := m.Unpack(got); err != nil || !m.Response || res.Header.Get("Content-Type") != mediaType {
			t.Errorf("%s: %v, %v, %s", row.name, m, err, res.Header)
		}
	}
	if res := send(h, "DELETE", "/dns-query", "", nil); res.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow: %q", res.Header.Get("Allow"))
	}
}

// TestFreshness: a reply keeps in HTTP no longer than in DNS, and not for others where it is for one.
//
// Covers: issue5 doh
func TestFreshness(t *testing.T) {
	soa := "example. 300 IN SOA ns. admin. 1 2 3 4 60"
	for _, row := range []struct {
		name              string
		answer, authority []string
		rcode             int
		private, cut      bool
		want              string
	}{
		{name: "one record", answer: []string{"www.example. 30 IN A 192.0.2.1"}, want: "max-age=30"},
		{name: "the least", answer: []string{"www.example. 300 IN CNAME x.example.", "x.example. 20 IN A 192.0.2.1"}, want: "max-age=20"},
		{name: "for one client", answer: []string{"www.example. 30 IN A 192.0.2.1"}, private: true, want: "private, max-age=30"},
		{name: "no such name", authority: []string{soa}, rcode: dns.RcodeNameError, want: "max-age=60"},
		{name: "no such type", authority: []string{"example. 5 IN SOA ns. admin. 1 2 3 4 60"}, want: "max-age=5"},
		{name: "authority behind others", authority: []string{"example. 5 IN NS ns.", soa}, want: "max-age=60"},
		{name: "a referral", authority: []string{"example. 5 IN NS ns."}, want: "no-store"},
		{name: "an error", rcode: dns.RcodeServerFailure, want: "no-store"},
		{name: "nothing", want: "no-store"},
		{name: "cut", answer: []string{"www.example. 30 IN A 192.0.2.1"}, cut: true, want: "no-store"},
	} {
		h := echo(t, func(q *dns.Msg) *dns.Msg {
			m := new(dns.Msg).SetRcode(q, row.rcode)
			m.Truncated = row.cut
			m.Answer, m.Ns = records(t, row.answer...), records(t, row.authority...)
			return m
		}, row.private)
		if got := send(h, "POST", Path, mediaType, bytes.NewReader(query(t))).Header.Get("Cache-Control"); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	whole, err := new(dns.Msg).SetRcode(new(dns.Msg).SetQuestion("www.example.", dns.TypeA), dns.RcodeNameError).Pack()
	if err != nil {
		t.Fatal(err)
	}
	whole[9] = 9 // nine records of authority that are not there
	for i := range whole {
		if s, ok := freshness(whole[:i]); ok {
			t.Errorf("cut after %d octets it keeps %d s", i, s)
		}
	}
}
