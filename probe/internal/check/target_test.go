package check

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"steerpoint/snapshot"
)

// TestBadTasks: each field that cannot be right is named, with what is wrong.
//
// Covers: field 38
func TestBadTasks(t *testing.T) {
	for _, row := range []struct {
		field, reason string
		change        func(*snapshot.ProbeTask)
	}{
		{"kind", `"quic"`, func(t *snapshot.ProbeTask) { t.Kind, t.Port = "quic", 0 }},
		{"port", "no ports", func(t *snapshot.ProbeTask) { t.Kind = "icmp" }},
		{"certDays", "-1", func(t *snapshot.ProbeTask) { t.CertDays = -1 }},
		{"certDays", "9999", func(t *snapshot.ProbeTask) { t.CertDays = 9999 }},
		{"certDays", "no certificate", func(t *snapshot.ProbeTask) { t.CertDays = 14 }},
		{"family", "neither", func(t *snapshot.ProbeTask) { t.Family = "ip" }},
		{"family", "192.0.2.1 is not an ipv6 address", func(t *snapshot.ProbeTask) { t.Family = "ipv6" }},
		{"url", "scheme", func(t *snapshot.ProbeTask) { t.Kind = "dns" }},
		{"url", "not a name", func(t *snapshot.ProbeTask) { t.Kind, t.URL = "dns", "dns://ns.example/?type=A&rcode=NOERROR" }},
		{"url", "not a name", func(t *snapshot.ProbeTask) { t.Kind, t.URL = "dns", "dns://ns.example/a/b?type=A&rcode=NOERROR" }},
		{"url", "not a name", func(t *snapshot.ProbeTask) { t.Kind, t.URL = "dns", "dns://ns.example/a..b?type=A&rcode=NOERROR" }},
		{"url", `type ""`, func(t *snapshot.ProbeTask) { t.Kind, t.URL = "dns", "dns://ns.example/a.example?rcode=NOERROR" }},
		{"url", `type "ANY"`, func(t *snapshot.ProbeTask) {
			t.Kind, t.URL = "dns", "dns://ns.example/a.example?type=ANY&rcode=NOERROR"
		}},
		{"url", `type "AXFR"`, func(t *snapshot.ProbeTask) {
			t.Kind, t.URL = "dns", "dns://ns.example/a.example?type=AXFR&rcode=NOERROR"
		}},
		{"url", `rcode "OK"`, func(t *snapshot.ProbeTask) { t.Kind, t.URL = "dns", "dns://ns.example/a.example?type=A&rcode=OK" }},
		{"url", `rcode "BADVERS"`, func(t *snapshot.ProbeTask) { t.Kind, t.URL = "dns", "dns://ns.example/a.example?type=A&rcode=BADVERS" }},
		{"body", "cannot be", func(t *snapshot.ProbeTask) {
			t.Kind, t.URL, t.Body = "dns", "dns://ns.example/a.example?type=A&rcode=NOERROR", strings.Repeat("x", 1<<16)
		}},
		{"url", "query", func(t *snapshot.ProbeTask) { t.Kind, t.URL = "grpc", "grpc://a.example:1/?a" }},
		{"url", "not the name", func(t *snapshot.ProbeTask) { t.Kind, t.URL = "grpc", "grpc://a.example:1/a/b" }},
		{"url", "not the name", func(t *snapshot.ProbeTask) { t.Kind, t.URL = "grpc", "grpc://a.example:1/a%20b" }},
		{"kind", `""`, func(t *snapshot.ProbeTask) { t.Kind = "" }},
		{"address", "neither", func(t *snapshot.ProbeTask) { t.Address = "" }},
		{"address", "neither", func(t *snapshot.ProbeTask) { t.Address = "192.0.2.1:80" }},
		{"address", "neither", func(t *snapshot.ProbeTask) { t.Address = "host" }},
		{"address", "neither", func(t *snapshot.ProbeTask) { t.Address = "a..example" }},
		{"address", "neither", func(t *snapshot.ProbeTask) { t.Address = "a b.example" }},
		{"address", "neither", func(t *snapshot.ProbeTask) { t.Address = strings.Repeat("a", 64) + ".example" }},
		{"address", "neither", func(t *snapshot.ProbeTask) { t.Address = strings.Repeat("a.", 127) + "example" }},
		{"port", "0", func(t *snapshot.ProbeTask) { t.Port = 0 }},
		{"port", "65536", func(t *snapshot.ProbeTask) { t.Port = 65536 }},
		{"interval", "0s", func(t *snapshot.ProbeTask) { t.Interval = 0 }},
		{"interval", "2h", func(t *snapshot.ProbeTask) { t.Interval = 2 * time.Hour }},
		{"timeout", "-1s", func(t *snapshot.ProbeTask) { t.Timeout = -time.Second }},
		{"timeout", "at most the interval", func(t *snapshot.ProbeTask) { t.Timeout = t.Interval + 1 }},
		{"maxLatency", "negative", func(t *snapshot.ProbeTask) { t.MaxLatency = -1 }},
		{"method", `"POST"`, func(t *snapshot.ProbeTask) { t.Method = "POST" }},
		{"method", `""`, func(t *snapshot.ProbeTask) { t.Method = "" }},
		{"body", "GET", func(t *snapshot.ProbeTask) { t.Body = "hello" }},
		{"body", "65536", func(t *snapshot.ProbeTask) { t.Method, t.Body = "GET", strings.Repeat("x", bodyLimit+1) }},
		{"statuses", "399-200", func(t *snapshot.ProbeTask) { t.Statuses = []snapshot.StatusRange{{Min: 399, Max: 200}} }},
		{"url", "scheme", func(t *snapshot.ProbeTask) { t.URL = "https://www.example.com/" }},
		{"url", "scheme", func(t *snapshot.ProbeTask) { t.URL = "" }},
		{"url", "no host", func(t *snapshot.ProbeTask) { t.URL = "http:///x" }},
		{"url", "no host", func(t *snapshot.ProbeTask) { t.URL = "http:www.example.com" }},
		{"url", "user", func(t *snapshot.ProbeTask) { t.URL = "http://a:b@www.example.com/" }},
		{"url", "neither", func(t *snapshot.ProbeTask) { t.URL = "http://a$b.example/" }},
		{"url", "control", func(t *snapshot.ProbeTask) { t.URL = "http://a.example/\r\nX: y" }},
	} {
		tk := task("http", netip.MustParseAddrPort("192.0.2.1:80"))
		row.change(&tk)
		_, err := NewTarget(&tk)
		var f *FieldError
		if !errors.As(err, &f) || f.Field != row.field || !strings.Contains(f.Reason, row.reason) {
			t.Errorf("%s: got %v, want it to say %q", row.field, err, row.reason)
		}
	}
}

// FuzzTarget: whatever a task holds, it is refused or makes a request of one line and clean fields.
func FuzzTarget(f *testing.F) {
	f.Add("http", "192.0.2.1", "http://www.example.com/a?b=c#d")
	f.Add("https", "shop.example", "https://bücher.example:8443/ü?x y")
	f.Add("http", "::1%lo", "http://[::1%25lo]/%0d%0aX:y")
	f.Fuzz(func(t *testing.T, kind, address, url string) {
		tk := task("http", netip.MustParseAddrPort("192.0.2.1:80"))
		tk.Kind, tk.Address, tk.URL = kind, address, url
		g, err := NewTarget(&tk)
		if err != nil || kind != "http" && kind != "https" {
			return
		}
		p := &probe{Checker: newChecker(Config{}), Target: g}
		lines := strings.Split(string(p.request()), "\r\n")
		if len(lines) != 8 || len(strings.Split(lines[0], " ")) != 3 || strings.ContainsAny(lines[1][len("Host: "):], " \t/@") {
			t.Errorf("request %q", lines)
		}
		for _, l := range lines {
			if strings.ContainsFunc(l, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("request line %q", l)
			}
		}
	})
}
