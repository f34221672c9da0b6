package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"strconv"
	"time"
)

// tlsSite is the program `tlssite ADDR:PORT DAYS`: an HTTPS edge that answers 200 until it is killed, with a certificate of
// its own making that ends in so many days.
func tlsSite() {
	fmt.Fprintln(os.Stderr, "tlssite:", serveTLS())
	os.Exit(1)
}

func serveTLS() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: tlssite ADDR:PORT DAYS")
	}
	days, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Duration(days)*24*time.Hour + time.Hour),
		DNSNames: []string{"www.example.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return err
	}
	s := &http.Server{
		Addr: os.Args[1], ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }),
	}
	return s.ListenAndServeTLS("", "")
}
