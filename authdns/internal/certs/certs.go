// Package certs holds the certificate of the encrypted listeners: read from files and read again when they change, or
// made here. A pair of files that cannot be used changes nothing.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Source is one certificate, whichever is the newest. Its methods may be called concurrently.
type Source struct {
	cert, key string // files; "": made here
	current   atomic.Pointer[tls.Certificate]

	mu    sync.Mutex
	tried [2]stamp // of the files at the last try
}

// stamp tells one content of a file from the next, without reading it.
type stamp struct {
	size int64
	mod  time.Time
	file os.FileInfo // os.SameFile tells a file that was put in the place of another
}

// Load reads a certificate with its chain and its key, both in PEM form; key "": it is in the same file.
func Load(cert, key string) (*Source, error) {
	if key == "" {
		key = cert
	}
	s := &Source{cert: cert, key: key}
	if _, err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// madeLife is how long a certificate made here says it is valid. Nobody checks it; the process makes another at each
// start.
const madeLife = 10 * 365 * 24 * time.Hour

// Make makes a certificate nobody vouches for. It is for resolvers that encrypt without knowing the server (RFC 9539
// section 3.2), which keeps out those who only listen.
func Make(now time.Time) (*Source, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a TLS key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "steer name server"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(madeLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	s := new(Source)
	s.current.Store(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf})
	return s, nil
}

// Get is the certificate now, as tls.Config.GetCertificate wants it.
func (s *Source) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.current.Load(), nil }

// NotAfter is when the certificate ends.
func (s *Source) NotAfter() time.Time { return s.current.Load().Leaf.NotAfter }

// Made reports whether the certificate was made here.
func (s *Source) Made() bool { return s.cert == "" }

// Reload reads the files if they are not those of the last try, and reports whether there is another certificate. On an
// error the one before stays; the same files are not tried again.
func (s *Source) Reload() (changed bool, err error) {
	if s.Made() {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var now [2]stamp
	for i, file := range []string{s.cert, s.key} {
		info, err := os.Stat(file)
		if err != nil {
			s.tried = [2]stamp{}
			return false, fmt.Errorf("TLS certificate: %w", err)
		}
		now[i] = stamp{info.Size(), info.ModTime(), info}
	}
	if now[0].same(s.tried[0]) && now[1].same(s.tried[1]) {
		return false, nil
	}
	s.tried = now
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return false, fmt.Errorf("TLS certificate %s with the key in %s: %w", s.cert, s.key, err)
	}
	if pair.Leaf == nil {
		return false, errors.New("TLS certificate " + s.cert + ": it cannot be read")
	}
	s.current.Store(&pair)
	return true, nil
}

func (a stamp) same(b stamp) bool {
	return b.file != nil && a.size == b.size && a.mod.Equal(b.mod) && os.SameFile(a.file, b.file)
}
