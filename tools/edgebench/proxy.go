package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"steerpoint/tools/machine"
)

// proxy is a peer that runs.
type proxy struct {
	peer
	ports
	session *machine.Session
	h2      bool // it offers HTTP/2
	failed  bool // it is not measured any more
}

// roots are the certificates by which the proxies are known.
type roots = x509.CertPool

// writeCertificate makes a certificate (P-256) for the name that is asked for: cert.pem, key.pem, and both in one.
func writeCertificate(work string) (*roots, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: hostName}, DNSNames: []string{hostName},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(chain)
	return pool, errors.Join(os.WriteFile(filepath.Join(work, "cert.pem"), chain, 0o600), os.WriteFile(filepath.Join(work, "key.pem"), private, 0o600),
		os.WriteFile(filepath.Join(work, "both.pem"), append(chain, private...), 0o600))
}

// start starts a proxy on the first core and waits for its answers, plain and over TLS.
func (b *run) start(ctx context.Context, x peer, port int) (*proxy, error) {
	if _, err := exec.LookPath(x.program); err != nil {
		return nil, errors.New("not installed: " + x.from)
	}
	dir, err := os.MkdirTemp(b.work, x.name)
	if err != nil {
		return nil, err
	}
	p := &proxy{peer: x, ports: ports{port, port + 1, port + 2}}
	if err := x.write(dir, b.work, p.ports); err != nil {
		return nil, err
	}
	if p.session, err = machine.Start(0, x.args(x.program, dir, p.ports), x.env, filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	if err := b.ready(ctx, p, dir); err != nil {
		p.session.Stop()
		return nil, err
	}
	return p, nil
}

// ready waits for the first answers, and sees whether HTTP/2 is offered.
func (b *run) ready(ctx context.Context, p *proxy, dir string) error {
	var apply []string
	if p.ours {
		apply = []string{p.program, "apply", "--data", filepath.Join(dir, "data"), "-f", filepath.Join(dir, "site.yaml")}
	}
	err := p.session.Ready(ctx, startWait, apply, func() error {
		return errors.Join(b.check(ctx, p, false, 1024), b.check(ctx, p, true, 1024))
	})
	if err != nil {
		return err
	}
	d := tls.Dialer{Config: &tls.Config{ServerName: hostName, RootCAs: b.roots, NextProtos: []string{"h2", "http/1.1"}}}
	c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", p.tls))
	if err != nil {
		return err
	}
	if t, ok := c.(*tls.Conn); ok {
		p.h2 = t.ConnectionState().NegotiatedProtocol == "h2"
	}
	return c.Close()
}

// check asks once, on a new connection, and looks at the answer: what is fast and wrong does not count.
func (b *run) check(ctx context.Context, p *proxy, secure bool, size int) error {
	scheme, port := "http", p.plain
	if secure {
		scheme, port = "https", p.tls
	}
	tr := &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: false, TLSClientConfig: &tls.Config{ServerName: hostName, RootCAs: b.roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
		},
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s://%s/%d", scheme, hostName, size), nil)
	if err != nil {
		return err
	}
	r, err := tr.RoundTrip(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK || len(body) != size {
		return fmt.Errorf("%s gets %d with %d octets, want 200 with %d", q.URL, r.StatusCode, len(body), size)
	}
	return nil
}

// workload is a kind of load.
type workload struct {
	name, what string
	size       int
	tls, h2    bool
	fresh      bool // each request on a connection of its own
}

var workloads = []workload{
	{name: "plain", what: "HTTP/1.1, 64 kept connections, 1 KB", size: 1024},
	{name: "plain-64k", what: "the same with 64 KB", size: 65536},
	{name: "tls", what: "HTTP/1.1 over TLS 1.3 (AES-128-GCM, P-256), 64 kept connections, 1 KB", size: 1024, tls: true},
	{name: "tls-64k", what: "the same with 64 KB", size: 65536, tls: true},
	{name: "h2", what: "HTTP/2 over TLS 1.3, 32 connections of 10 streams, 1 KB", size: 1024, tls: true, h2: true},
	{name: "h2-64k", what: "the same with 64 KB", size: 65536, tls: true, h2: true},
	{name: "new", what: "HTTP/1.1, a connection a request, 1 KB", size: 1024, fresh: true},
	{name: "tls-new", what: "the same over TLS 1.3, a full handshake each (X25519)", size: 1024, tls: true, fresh: true},
}

// sample is one workload of one proxy in one round.
type sample struct {
	proxy, workload string
	round           int
	cpu             float64 // seconds for 100,000 requests
	rate            float64 // requests a second
	resident        int64   // octets
}

// warm is how long a proxy gets the load before it is measured.
const warm = time.Second

// load has a proxy do a workload.
func (b *run) load(ctx context.Context, p *proxy, w workload) (sample, error) {
	s := sample{proxy: p.name, workload: w.name}
	if err := b.check(ctx, p, w.tls, w.size); err != nil {
		return s, err
	}
	if _, err := b.ask(ctx, p, w, warm); err != nil {
		return s, err
	}
	before, _, err := p.session.Used()
	if err != nil {
		return s, err
	}
	began := time.Now()
	n, err := b.ask(ctx, p, w, time.Duration(b.Seconds)*time.Second)
	if err != nil {
		return s, err
	}
	took := time.Since(began)
	after, resident, err := p.session.Used()
	if err != nil {
		return s, err
	}
	if n == 0 {
		return s, errors.New("nothing was answered")
	}
	s.cpu, s.rate, s.resident = (after-before).Seconds()/float64(n)*1e5, float64(n)/took.Seconds(), resident
	return s, b.check(ctx, p, w.tls, w.size)
}

var (
	wrkCount   = regexp.MustCompile(`(\d+) requests in`)
	wrkFaults  = regexp.MustCompile(`Non-2xx or 3xx responses: \d+|Socket errors: .*`)
	h2Count    = regexp.MustCompile(`requests: \d+ total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored`)
	h2Statuses = regexp.MustCompile(`status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx`)
	freshCount = regexp.MustCompile(`^(\d+) requests`)
)

// ask sends the load of a workload for a time, and gives the number of its answers.
func (b *run) ask(ctx context.Context, p *proxy, w workload, long time.Duration) (n int, err error) {
	seconds := strconv.Itoa(int(long.Seconds()))
	switch {
	case w.fresh:
		args := []string{"-client", "fresh", "-to", fmt.Sprintf("127.0.0.1:%d", p.plain), "-size", strconv.Itoa(w.size), "-for", long.String()}
		if w.tls {
			args[3] = fmt.Sprintf("127.0.0.1:%d", p.tls)
			args = append(args, "-roots", filepath.Join(b.work, "cert.pem"))
		}
		return counted(ctx, freshCount, nil, os.Args[0], args...)
	case w.tls:
		args := []string{"-t1", "-D", seconds, "--connect-to", fmt.Sprintf("127.0.0.1:%d", p.tls)}
		if w.h2 {
			args = append(args, "-c", "32", "-m", "10")
		} else {
			args = append(args, "--h1", "-c", "64")
		}
		return h2load(ctx, append(args, fmt.Sprintf("https://%s/%d", hostName, w.size)))
	}
	return counted(ctx, wrkCount, wrkFaults, "wrk", "-t1", "-c64", "-d"+seconds+"s", "-H", "Host: "+hostName, fmt.Sprintf("http://127.0.0.1:%d/%d", p.plain, w.size))
}

// counted runs a client on the second core and finds in what it says how many answers it got, and whether any was wrong.
func counted(ctx context.Context, count, faults *regexp.Regexp, name string, args ...string) (int, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	if faults != nil && faults.Match(out) {
		return 0, fmt.Errorf("%s: %s", name, faults.Find(out))
	}
	m := count.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s said nothing of %s:\n%s", name, count, out)
	}
	return strconv.Atoi(string(m[1]))
}

func h2load(ctx context.Context, args []string) (int, error) {
	out, err := exec.CommandContext(ctx, "h2load", args...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("h2load: %w: %s", err, out)
	}
	return h2Answers(out)
}

// h2Answers reads what h2load says: how many answers there were, all of them good.
func h2Answers(out []byte) (int, error) {
	m, st := h2Count.FindSubmatch(out), h2Statuses.FindSubmatch(out)
	if m == nil || st == nil {
		return 0, fmt.Errorf("h2load said nothing of its requests:\n%s", out)
	}
	for _, bad := range [][]byte{m[3], m[4], st[2], st[3], st[4]} {
		if string(bad) != "0" {
			return 0, fmt.Errorf("h2load: %s, %s", m[0], st[0])
		}
	}
	return strconv.Atoi(string(m[2]))
}
