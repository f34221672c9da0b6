package check

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steerpoint/report"
	"steerpoint/snapshot"
)

// TestMain: no probe leaves a goroutine behind, however it ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	plenty = 20 * time.Second       // for probes that must succeed, on however slow a machine
	short  = 150 * time.Millisecond // for probes that must time out, wherever they are then
)

// peer is a server on loopback whose every connection is handled by a function; connections are closed when it
// returns, and at the end of the test.
type peer struct {
	addr netip.AddrPort
	mu   sync.Mutex
	hits int
}

func (p *peer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

// ownLoopback is a free port of an address of this machine that nobody else uses: one free for TCP is free for UDP.
func ownLoopback() string {
	return fmt.Sprintf("127.%d.%d.%d:0", 1+mathrand.IntN(254), mathrand.IntN(256), 1+mathrand.IntN(254))
}

func serve(t *testing.T, listen string, handle func(net.Conn)) *peer {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{addr: l.Addr().(*net.TCPAddr).AddrPort()}
	var wg sync.WaitGroup
	stopped := make(chan struct{})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.hits++
			p.mu.Unlock()
			wg.Go(func() {
				done := make(chan struct{})
				wg.Go(func() {
					select {
					case <-stopped:
					case <-done:
					}
					c.Close()
				})
				handle(c)
				close(done)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(stopped)
		wg.Wait()
	})
	return p
}

// hold keeps a connection open until the other side or the test ends.
func hold(c net.Conn) { io.Copy(io.Discard, c) }

// answer reads a request, writes text, and closes.
func answer(text string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, text)
		if tc, ok := c.(*net.TCPConn); ok {
			tc.CloseWrite() // let it be read in full
			hold(c)
		}
	}
}

// drip reads a request, writes head and then piece again and again.
func drip(head, piece string, every time.Duration) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, head)
		for {
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
			time.Sleep(every)
		}
	}
}

// overTLS handles connections inside TLS.
func overTLS(cfg *tls.Config, handle func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		s := tls.Server(c, cfg)
		if s.Handshake() == nil {
			handle(s)
			s.Close()
		}
	}
}

// authority makes certificates for a test.
type authority struct {
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert: cert, key: key, roots: x509.NewCertPool()}
	a.roots.AddCert(cert)
	return a
}

// config is a server's configuration with a certificate for names, valid until an hour from now or, when ended is
// set, until a minute ago.
func (a *authority) config(t *testing.T, ended bool, names ...string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if ended {
		tmpl.NotAfter = time.Now().Add(-time.Minute)
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func task(kind string, to netip.AddrPort) snapshot.ProbeTask {
	t := snapshot.ProbeTask{
		ID: "t", Kind: kind, Address: to.Addr().String(), Port: int(to.Port()), Interval: plenty, Timeout: plenty,
		Statuses: []snapshot.StatusRange{{Min: 200, Max: 399}}, TLSVerify: true, Method: "HEAD",
	}
	if kind != snapshot.KindTCP {
		t.URL = kind + "://www.example.com/"
	}
	return t
}

func newChecker(cfg Config) *Checker {
	cfg.Point, cfg.UserAgent, cfg.AllowLocal = "local", "steerpoint-probe/test", true
	c := New(cfg)
	c.late = time.Hour // a busy machine under test is no finding
	return c
}

func run(t *testing.T, c *Checker, task snapshot.ProbeTask) report.Observation {
	t.Helper()
	g, err := NewTarget(&task)
	if err != nil {
		t.Fatal(err)
	}
	return c.Run(context.Background(), g)
}

// runOut runs a probe that must come to a place named by detail and time out there. A machine that is busy gives it no time
// to come there at first.
func runOut(t *testing.T, c *Checker, task snapshot.ProbeTask, detail string) (o report.Observation) {
	t.Helper()
	for task.Timeout = short; task.Timeout < plenty; task.Timeout *= 3 {
		if o = run(t, c, task); o.Cause != report.CauseTimeout || strings.Contains(o.Detail, detail) {
			break
		}
	}
	return o
}

// wantFailure fails the test unless o failed with cause and a detail that holds part.
func wantFailure(t *testing.T, o report.Observation, cause report.Cause, part string) {
	t.Helper()
	if o.OK || o.Cause != cause || !strings.Contains(o.Detail, part) {
		t.Errorf("got ok=%v cause=%q detail=%q, want cause %q and a detail with %q", o.OK, o.Cause, o.Detail, cause, part)
	}
}
