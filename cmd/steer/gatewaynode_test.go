package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"steerpoint/control/api"
)

const tlsNodeSite = `
apiVersion: steerpoint/v1
kind: Zone
name: hosted
zone: example.com
ns: [{name: ns.example.net}]
---
apiVersion: steerpoint/v1
kind: Service
name: web
domains: [www.example.com]
certificates: {www.example.com: given}
edges: [{name: only, addresses: [192.0.2.80]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [only], probe: {enabled: false}}]
originGroups: [{name: a, health: {enabled: false}, origins: [{name: one, address: "ORIGIN", scheme: http}]}]
routes: [{name: all, originGroup: a, forwardProtocol: http}]
---
apiVersion: steerpoint/v1
kind: Certificate
name: given
names: [www.example.com]
chainFrom: {secret: tls, key: chain}
keyFrom: {secret: tls, key: key}
---
apiVersion: steerpoint/v1
kind: Secret
name: tls
data:
  chain: |
CHAIN
  key: |
KEY
`

// TestGatewayNodeOverTLS has a gateway on another machine serve HTTPS by a certificate of a Secret, which is in no file of its
// folder that can be read, and stop while a request is under way: it takes no more connections, and the request is answered whole.
// Covers: issue6 node, issue6 tls, issue6 drain, A7
func TestGatewayNodeOverTLS(t *testing.T) {
	t.Parallel()
	asked, release := make(chan bool, 1), make(chan bool)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			asked <- true
			<-release
		}
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(origin.Close)
	chain, key, roots := selfSignedFor(t, "www.example.com")
	data, dir := t.TempDir(), t.TempDir()
	launch(t, "steer", "control", "--data", data, "--listen", "api=127.0.0.1:0", "--listen", "nodes=127.0.0.1:0")
	control := operator(t, data)
	applySite(t, control, strings.NewReplacer("ORIGIN", strings.TrimPrefix(origin.URL, "http://"), "CHAIN", indented(chain), "KEY", indented(key)).Replace(tlsNodeSite))
	join, err := control.CreateToken(t.Context(), api.TokenRequest{Roles: []string{"edge"}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(join.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	node := launch(t, "steer", "node", "--roles", "edge", "--data", dir, "--name", "g1", "--token", file, "--join", "https://"+listener(t, data, "nodes"),
		"--listen", "https=127.0.0.1:0", "--listen", "health=127.0.0.1:0")
	gateway := listener(t, dir, "https")
	client := &http.Client{Timeout: startWait, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "www.example.com"},
	}}
	ask := func(path string) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+gateway+path, nil)
		if err != nil {
			return "", err
		}
		req.Host = "www.example.com"
		res, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", string(body)), err
	}
	for end := time.Now().Add(startWait); ; time.Sleep(poll) {
		got, err := ask("/")
		if err == nil && got == "200 ok" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not serve by the certificate: %q, %v", got, err)
		}
	}
	unreadable(t, dir, strings.Split(key, "\n")[1]) // a line of the key

	type result struct {
		text string
		err  error
	}
	answered := make(chan result, 1)
	go func() {
		text, err := ask("/wait")
		answered <- result{text, err}
	}()
	<-asked
	node.stop()
	for end := time.Now().Add(startWait); ; time.Sleep(poll) {
		c, err := net.Dial("tcp", gateway)
		if errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if err == nil {
			_ = c.Close()
		}
		if time.Now().After(end) {
			t.Fatal("it goes on taking connections")
		}
	}
	close(release)
	if got := <-answered; got.err != nil || got.text != "200 ok" {
		t.Errorf("the request that was under way: %q, %v", got.text, got.err)
	}
}

// unreadable asserts that no file below a folder has a text in it.
func unreadable(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			t.Errorf("the key can be read in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// selfSignedFor makes a certificate of a name, with its key, both PEM.
func selfSignedFor(t *testing.T, name string) (chain, key string, roots *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(7), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	chain = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(chain))
	return chain, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})), roots
}

// indented is a text as a block of YAML has it.
func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}
