package control

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"steerpoint/internal/hidden"
	"steerpoint/spec"
)

// pairProblem says why gateways cannot serve a chain with its key, or why clients would not take it; "": nothing. Without it only the
// log of each gateway would tell. It holds nothing of the key.
func pairProblem(w *spec.Certificate, chain string, key hidden.Text) string {
	pair, err := tls.X509KeyPair([]byte(chain), []byte(key.Reveal()))
	if err != nil {
		return "its chain and key cannot be served: " + strings.TrimPrefix(err.Error(), "tls: ")
	}
	leaf := pair.Leaf
	if leaf == nil {
		return "its chain cannot be read"
	}
	for _, n := range w.Names {
		if !slices.Contains(leaf.DNSNames, string(n)) && (n.Wildcard() || leaf.VerifyHostname(string(n)) != nil) {
			return fmt.Sprintf("its chain is not for %s; it is for %s", n, strings.Join(few(leaf.DNSNames), ", "))
		}
	}
	below := leaf
	for i, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		switch {
		case err != nil:
			return fmt.Sprintf("certificate %d of its chain cannot be read", i+2)
		case !bytes.Equal(below.RawIssuer, c.RawSubject):
			return fmt.Sprintf("certificate %d of its chain did not sign the one before it: write the server's first, then the one that signed it, and so on", i+2)
		}
		below = c
	}
	return ""
}
