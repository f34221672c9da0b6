package control

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"testing"
	"time"

	"steerpoint/internal/pki"
)

// The API is TLS on every listener that is not on loopback.
// Covers: issue3 api tls
func TestSecure(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "0.0.0.0:0": true, ":0": true} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skipf("this machine cannot listen on %s: %v", addr, err)
		}
		c := &Control{ln: l, cfg: Config{Hosts: []string{"api.example.net"}}}
		if c.Secure() != want {
			t.Errorf("%s: secure is %v", addr, !want)
		}
		if names := c.hostNames(); !slices.Contains(names, "api.example.net") || !want && len(names) != 1 {
			t.Errorf("%s: names %v", addr, names)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The certificate is good for the machine and for what the operator added, is kept for half of its life, and is made
// anew then, or when the clock was set back.
// Covers: issue3 api tls
func TestAPICertificate(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	authority, err := pki.OpenAuthority(t.TempDir(), "test", now)
	if err != nil {
		t.Fatal(err)
	}
	a := &apiCertificate{authority: authority, names: []string{"api.example.net", "203.0.113.7", "bad name", "api.example.net"}}
	get := func(at time.Time) *tls.Certificate {
		t.Helper()
		c, err := a.get(at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get(now)
	for _, name := range []string{"localhost", "127.0.0.1", "api.example.net", "203.0.113.7"} {
		if _, err := first.Leaf.Verify(x509.VerifyOptions{Roots: authority.Pool(), DNSName: name, CurrentTime: now}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if get(now.Add(24*time.Hour)) != first {
		t.Error("it is made anew every time")
	}
	second := get(now.Add(20 * 24 * time.Hour))
	if second == first {
		t.Error("it is not made anew when half of its life is over")
	}
	if get(now.Add(-40*24*time.Hour)) == second {
		t.Error("a certificate that is far from this time is kept")
	}
}
