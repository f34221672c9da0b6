package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	pemKey         = "PRIVATE KEY" // PKCS#8
	pemCertificate = "CERTIFICATE"
	// maxRequest bounds a certificate request; one with a P-256 key and a 63-character name has about 300 bytes.
	maxRequest = 4 << 10
)

// NewKey makes a P-256 key, and its text: PKCS#8 in PEM. The text goes only into a file written by WriteFile.
func NewKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

// ParseKey reads the text of a key. The error never holds any of it.
func ParseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemKey {
		return nil, errors.New("no private key in it")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the private key in it is damaged")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the private key in it cannot sign")
	}
	if err := checkPublic(signer.Public()); err != nil {
		return nil, err
	}
	return signer, nil
}

// checkPublic allows the two kinds of keys that are short, fast and have no parameters to get wrong.
func checkPublic(key crypto.PublicKey) error {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return nil
		}
	case ed25519.PublicKey:
		return nil
	}
	return errors.New("the key is neither ECDSA P-256 nor Ed25519")
}

// Request asks for a certificate for a key: PKCS#10, DER. The name is for people who look at it; control decides the
// name, and takes nothing but the public key from a request.
func Request(key crypto.Signer, name string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, fmt.Errorf("request a certificate: %w", err)
	}
	return der, nil
}

// RequestKey is the public key of a request, DER, after its own signature was verified: who asks has the private key.
// Two requests with the same key are of the same machine. The error is a *Refusal with code BAD_REQUEST.
func RequestKey(request []byte) ([]byte, error) {
	csr, err := parseRequest(request)
	if err != nil {
		return nil, err
	}
	return csr.RawSubjectPublicKeyInfo, nil
}

func parseRequest(der []byte) (*x509.CertificateRequest, error) {
	bad := func(why string) (*x509.CertificateRequest, error) {
		return nil, Refuse(BadRequest, "the certificate request is refused: "+why, "")
	}
	if len(der) > maxRequest {
		return bad(fmt.Sprintf("it has %d bytes, at most %d are taken", len(der), maxRequest))
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return bad("it is not PKCS#10")
	}
	if err := checkPublic(csr.PublicKey); err != nil {
		return bad(err.Error())
	}
	if err := csr.CheckSignature(); err != nil {
		return bad("it is not signed by the key in it")
	}
	return csr, nil
}

// Pair joins a node's certificate (PEM) and its key into what TLS shows. The error says when they do not fit.
func Pair(certificate []byte, key crypto.Signer) (*tls.Certificate, error) {
	var out tls.Certificate
	for block, rest := pem.Decode(certificate); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == pemCertificate {
			out.Certificate = append(out.Certificate, block.Bytes)
		}
	}
	if len(out.Certificate) == 0 {
		return nil, errors.New("no certificate in it")
	}
	leaf, err := x509.ParseCertificate(out.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("the certificate is damaged: %w", err)
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(leaf.PublicKey) {
		return nil, errors.New("the certificate and the private key are not a pair")
	}
	out.Leaf, out.PrivateKey = leaf, key
	return &out, nil
}

// ReadKey reads a key file. One that everybody on the machine can read is refused: it is no secret any more.
func ReadKey(path string) (crypto.Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("key file %s can be used by everybody on this machine (mode %#o): chmod 600 it, and think of who may have read it",
			path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	key, err := ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return key, nil
}

// WriteFile replaces a PEM file, mode 0600, so that a reader finds the old text or the new one, whole, also after a
// power cut. These files have no header of ours: other programs read them.
func WriteFile(path string, text []byte) error {
	temp := path + ".tmp"
	if err := writeSynced(temp, text); err != nil {
		_ = os.Remove(temp) // the write error is what matters
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("write %s: sync its folder: %w", path, err)
	}
	return nil
}

func writeSynced(path string, text []byte) error {
	// One left behind by a killed process may have other rights: it is not written into.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
