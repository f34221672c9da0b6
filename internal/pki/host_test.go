package pki

import (
	"crypto/x509"
	"net"
	"testing"
	"time"
)

// The certificate of a host is good for its names and addresses, and for nothing inside of the cluster: nobody takes
// who has it for control or for a node.
// Covers: issue3 api tls
func TestHostCertificate(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	a, err := OpenAuthority(t.TempDir(), "test", now)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.HostCertificate([]string{"api.example.net"}, []net.IP{net.IPv4(192, 0, 2, 1)}, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, good := range map[string]bool{"api.example.net": true, "192.0.2.1": true, "other.example.net": false, "192.0.2.2": false} {
		_, err := c.Leaf.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: name, CurrentTime: now})
		if (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := VerifyControl(a.Pool(), []*x509.Certificate{c.Leaf}); CodeOf(err) != CertUntrusted {
		t.Errorf("as control: %v", err)
	}
	if _, err := JudgeNode(a.Pool(), []*x509.Certificate{c.Leaf}, now, false); CodeOf(err) != CertUntrusted {
		t.Errorf("as a node: %v", err)
	}
}
