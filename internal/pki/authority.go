package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	authorityLife = 20 * 365 * 24 * time.Hour
	// authorityBackdated is how far the authority starts in the past. It is made once, perhaps with a clock that runs
	// years ahead; what it signs once the clock is right must still fall into its time.
	authorityBackdated = 10 * 365 * 24 * time.Hour
	// backdated is the same of what it signs. It is for other programs that look at the certificate; we judge no start.
	backdated = 24 * time.Hour
	// serverLife is of control's own certificate; it is made anew at half of it.
	serverLife = 30 * 24 * time.Hour
	// clockEarliest is a time before which it never is (2000-01-01, Unix seconds). A machine without a clock of its own
	// boots in 1970, and an authority made then would have ended before anybody used it.
	clockEarliest = 946_684_800
	serialBits    = 127 // positive, and at most 20 bytes as RFC 5280 4.1.2.2 wants it

	fileCertificate = "ca.crt"
	fileKey         = "ca.key"
)

// Authority is a cluster's certificate authority. Its methods may be called at the same time.
type Authority struct {
	cluster string
	cert    *x509.Certificate
	key     crypto.Signer

	mu     sync.Mutex
	server *tls.Certificate
}

// OpenAuthority loads the authority of a cluster from <dir>/ca.crt and <dir>/ca.key, or makes it. The folder must
// exist. Every error names the file. A key without a certificate gets one (the making was interrupted); a certificate
// without its key is an error: a new key would turn away every node.
func OpenAuthority(dir, cluster string, now time.Time) (*Authority, error) {
	if err := ValidName(cluster); err != nil {
		return nil, fmt.Errorf("cluster name: %w", err)
	}
	certPath, keyPath := filepath.Join(dir, fileCertificate), filepath.Join(dir, fileKey)
	key, err := ReadKey(keyPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(certPath); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is there but %s is not: bring back the key from the backup, or remove both and let every node join again",
				certPath, keyPath)
		}
		if key, err = makeKey(keyPath); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	text, err := os.ReadFile(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makeAuthority(certPath, cluster, key, now)
	}
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return loadAuthority(certPath, cluster, text, key)
}

func makeKey(path string) (crypto.Signer, error) {
	key, text, err := NewKey()
	if err != nil {
		return nil, err
	}
	if err := WriteFile(path, text); err != nil {
		return nil, err
	}
	return key, nil
}

func makeAuthority(path, cluster string, key crypto.Signer, now time.Time) ([]byte, error) {
	if now.Unix() < clockEarliest {
		return nil, fmt.Errorf("make %s: this machine's clock says %s: set it first", path, now.UTC().Format(time.DateOnly))
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	own := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName(cluster)},
		NotBefore: now.Add(-authorityBackdated), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der})
	return text, WriteFile(path, text)
}

func commonName(cluster string) string { return "Steerpoint " + cluster }

func loadAuthority(path, cluster string, text []byte, key crypto.Signer) (*Authority, error) {
	cert, err := ParseAuthority(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if want := commonName(cluster); cert.Subject.CommonName != want {
		return nil, fmt.Errorf("%s is of %q, not of %q: is this the data folder of another cluster?", path, cert.Subject.CommonName, want)
	}
	if _, err := Pair(text, key); err != nil {
		return nil, fmt.Errorf("%s and %s beside it: %w", path, fileKey, err)
	}
	return &Authority{cluster: cluster, cert: cert, key: key}, nil
}

// Sign makes a node's certificate, PEM. It verifies the request's own signature and takes only the public key from it:
// name and roles are those given. A bad request is a *Refusal.
func (a *Authority) Sign(request []byte, name string, roles []string, now time.Time, life time.Duration) ([]byte, Identity, error) {
	csr, err := parseRequest(request)
	if err != nil {
		return nil, Identity{}, err
	}
	if err := ValidName(name); err != nil {
		return nil, Identity{}, Refuse(BadRequest, "node name: "+err.Error(), "choose another with --name")
	}
	roles, err = canonicalRoles(roles)
	if err != nil {
		return nil, Identity{}, Refuse(BadRequest, err.Error(), "")
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	der, err := a.issue(nodeURI(a.cluster, name, roles), name, csr.PublicKey, usage, now, life)
	if err != nil {
		return nil, Identity{}, fmt.Errorf("certificate of node %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, Identity{}, fmt.Errorf("certificate of node %s: %w", name, err)
	}
	id, err := Identify(cert)
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}), id, err
}

// ServerCertificate is control's own certificate, followed by the authority's so that a joining machine can compare it
// with its token. It is made on the first call and again when half of its life is over, so it can be asked for at
// every handshake.
func (a *Authority) ServerCertificate(now time.Time) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.server != nil {
		if left := a.server.Leaf.NotAfter.Sub(now); left > serverLife/2 && left <= serverLife {
			return a.server, nil
		}
	}
	key, _, err := NewKey()
	if err != nil {
		return nil, err
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := a.issue(controlURI(a.cluster), "control", key.Public(), usage, now, serverLife)
	if err != nil {
		return nil, fmt.Errorf("certificate of control: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate of control: %w", err)
	}
	a.server = &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}
	return a.server, nil
}

func (a *Authority) issue(uri *url.URL, name string, public crypto.PublicKey, usage []x509.ExtKeyUsage,
	now time.Time, life time.Duration,
) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	start := now.Add(-backdated)
	if start.Before(a.cert.NotBefore) { // control's clock was set back by years after the authority was made
		start = a.cert.NotBefore
	}
	return x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, URIs: []*url.URL{uri},
		NotBefore: start, NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage, BasicConstraintsValid: true,
	}, a.cert, public, a.key)
}

func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil // never 0
}

// Cluster is the cluster's name.
func (a *Authority) Cluster() string { return a.cluster }

// Pool is what certificates of the cluster are verified against.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Hash is the hex SHA-256 of the authority's certificate: what a join token pins.
func (a *Authority) Hash() string { return HashOf(a.cert) }

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: a.cert.Raw})
}
