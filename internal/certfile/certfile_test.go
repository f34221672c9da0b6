package certfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair is a certificate and its key in PEM form.
func pair(t *testing.T) (cert, key []byte) {
	t.Helper()
	s, err := Make("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	made := s.current.Load()
	der, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// put replaces a file as people and programs do: by another in its place.
func put(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// serves reports whether a source gives the certificate of a PEM text.
func serves(t *testing.T, s *Source, cert []byte) bool {
	t.Helper()
	c, err := s.Get(new(tls.ClientHelloInfo))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(cert)
	return bytes.Equal(c.Certificate[0], block.Bytes)
}

// TestReload replaces a certificate, its key first and last, by a right one and by wrong ones: what can be used is, and
// nothing else changes anything.
//
// Covers: issue5 dot
func TestReload(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	cert1, key1 := pair(t)
	put(t, certFile, cert1)
	put(t, keyFile, key1)
	s, err := Load(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, cert []byte, changed bool, failure string) {
		t.Helper()
		got, err := s.Reload()
		switch {
		case got != changed || (err != nil) != (failure != ""):
			t.Errorf("%s: changed %t, %v", what, got, err)
		case err != nil && !strings.Contains(err.Error(), failure):
			t.Errorf("%s: %v, want %q", what, err, failure)
		case !serves(t, s, cert):
			t.Errorf("%s: the wrong certificate", what)
		}
	}
	expect("nothing new", cert1, false, "")
	cert2, key2 := pair(t)
	put(t, certFile, cert2)
	expect("the certificate without its key", cert1, false, "private key does not match")
	expect("the same again", cert1, false, "")
	put(t, keyFile, key2)
	expect("both", cert2, true, "")
	put(t, keyFile, []byte("nonsense"))
	expect("no key", cert2, false, "tls: failed to find any PEM data")
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	expect("no file", cert2, false, "no such file")
	put(t, keyFile, key2)
	expect("the file is back", cert2, true, "")
	if time.Until(s.NotAfter()) < time.Hour || s.Made() {
		t.Errorf("ends %s, made here %t", s.NotAfter(), s.Made())
	}
	if changed, err := (&Source{}).Reload(); changed || err != nil {
		t.Errorf("one that was made here: %t, %v", changed, err)
	}
}

// TestFilesThatMayNotBeReadAreTriedAgain: what makes a file readable, its mode or its owner, changes nothing else of it, so that it is
// tried again until it can be read.
//
// Covers: issue6 tls
func TestFilesThatMayNotBeReadAreTriedAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	cert, key := pair(t)
	put(t, certFile, cert)
	if err := os.Mkdir(keyFile, 0o700); err != nil { // who runs tests may be somebody who reads every file
		t.Fatal(err)
	}
	s := Follow(certFile, keyFile)
	for range 2 {
		if changed, err := s.Reload(); changed || err == nil || !strings.Contains(err.Error(), keyFile) {
			t.Errorf("%t, %v", changed, err)
		}
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	put(t, keyFile, key)
	if changed, err := s.Reload(); !changed || err != nil || !serves(t, s, cert) {
		t.Errorf("%t, %v", changed, err)
	}
}

// TestLoad: both in one file, and what cannot be used at the start.
//
// Covers: issue5 dot
func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "both.pem")
	if _, err := Load(file, ""); err == nil {
		t.Error("a missing file was taken")
	}
	cert, key := pair(t)
	put(t, file, append(key, cert...))
	s, err := Load(file, "")
	if err != nil || !serves(t, s, cert) {
		t.Errorf("both in one file: %v", err)
	}
}
