package pki

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"time"
)

// HostCertificate makes a certificate for a server that programs of others talk to, such as browsers and scrapers: it
// holds names and addresses of hosts, and no URI. So nobody takes its owner for control or for a node, whose
// certificates hold a URI and nothing else. It ends after thirty days; ask again at half of that.
func (a *Authority) HostCertificate(names []string, addrs []net.IP, now time.Time) (*tls.Certificate, error) {
	key, _, err := NewKey()
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	start := now.Add(-backdated)
	if start.Before(a.cert.NotBefore) {
		start = a.cert.NotBefore
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName(a.cluster) + " API"},
		DNSNames: names, IPAddresses: addrs, NotBefore: start, NotAfter: now.Add(serverLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of hosts: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate of hosts: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}
