// Package certfile follows the files of a certificate and its key: they are read again when they change, and a pair that
// cannot be used changes nothing. It also makes a certificate that nobody vouches for, for who has none.
package certfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
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

// ErrNone is a certificate that could not be read yet.
var ErrNone = errors.New("the certificate was not read yet")

// Follow names the files of a certificate with its chain and of its key, both in PEM form; key "": it is in the same file.
// Nothing is read before Reload.
func Follow(cert, key string) *Source {
	if key == "" {
		key = cert
	}
	return &Source{cert: cert, key: key}
}

// Load is Follow for who cannot do without: it fails when the files cannot be used now.
func Load(cert, key string) (*Source, error) {
	s := Follow(cert, key)
	if _, err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// madeLife is how long a certificate made here says it is valid. Nobody checks it; the process makes another at each
// start.
const madeLife = 10 * 365 * 24 * time.Hour

// Make makes a certificate for name that nobody vouches for. It is for clients that encrypt without knowing the server, such as
// resolvers (RFC 9539 section 3.2), which keeps out those who only listen.
func Make(name string, now time.Time) (*Source, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a TLS key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
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
func (s *Source) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := s.Current(); c != nil {
		return c, nil
	}
	return nil, ErrNone
}

// Current is the certificate now; nil: none could be read yet. Its Leaf is set.
func (s *Source) Current() *tls.Certificate { return s.current.Load() }

// NotAfter is when the certificate ends; zero: there is none yet.
func (s *Source) NotAfter() time.Time {
	if c := s.Current(); c != nil {
		return c.Leaf.NotAfter
	}
	return time.Time{}
}

// Made reports whether the certificate was made here.
func (s *Source) Made() bool { return s.cert == "" }

// Files are the files that are followed; the same one twice when both are in it.
func (s *Source) Files() (cert, key string) { return s.cert, s.key }

// Reload reads the files if they are not those of the last try, and reports whether there is another certificate. On an
// error the one before stays. Files that could be read and not used are not tried again before they change; the error of a
// file that is missing, or that may not be read, comes back each time.
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
		if _, unread := errors.AsType[*fs.PathError](err); unread {
			s.tried = [2]stamp{} // what is put right, such as its mode or its owner, shows in no stamp
		}
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
