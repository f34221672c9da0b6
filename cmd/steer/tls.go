package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"

	"steerpoint/cmd/steer/internal/fault"
)

// trusting makes an HTTP client that takes a server only when an authority in the file vouches for it.
func trusting(file string) (*http.Client, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.BadInput("CA_UNUSABLE", "the authority cannot be read", err.Error(), "give --ca FILE; the file is <data>/ca/ca.crt of the control")
	}
	return trustingText(b, file)
}

// trustingText is trusting for the text of certificates; from says where it is from.
func trustingText(b []byte, from string) (*http.Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fault.BadInput("CA_UNUSABLE", from+" holds no certificate", "it must be in PEM form", "give --ca FILE; the file is <data>/ca/ca.crt of the control")
	}
	transport := &http.Transport{}
	if usual, ok := http.DefaultTransport.(*http.Transport); ok { // with its time-outs and its proxy
		transport = usual.Clone()
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{
		Transport: transport,
		// A redirect would carry the token to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// untrusted reports whether a server was reached and nobody vouches for it.
func untrusted(err error) bool {
	var bad *tls.CertificateVerificationError
	return errors.As(err, &bad)
}
