package issue

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// NewKey makes a key of a kind as spec.ACME names them, and gives it with its PEM form (PKCS #8).
func NewKey(kind string) (crypto.Signer, []byte, error) {
	var key crypto.Signer
	var err error
	switch kind {
	case "", "ecdsa-p256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ecdsa-p384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "rsa-2048":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "rsa-4096":
		key, err = rsa.GenerateKey(rand.Reader, 4096)
	default:
		err = fmt.Errorf("%q is no kind of key", kind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ParseKey reads the PEM form of NewKey. No error holds any of it.
func ParseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("key: not in PEM form")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("key: it cannot be read")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("key: it cannot sign")
	}
	return signer, nil
}

// csr is the request for a certificate. The names stand in it as alternative names only: a common name is limited to 64 octets, and
// nobody reads it.
func csr(key crypto.Signer, names []string) ([]byte, error) {
	b, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, key)
	if err != nil {
		return nil, fmt.Errorf("request for a certificate: %w", err)
	}
	return b, nil
}

// PEM is a chain in PEM form.
func PEM(chain [][]byte) string {
	var out []byte
	for _, der := range chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return string(out)
}

// Leaf is the first certificate of a chain in PEM form.
func Leaf(chain string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(chain))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the chain is not in PEM form")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the chain's first certificate: %w", err)
	}
	return c, nil
}
