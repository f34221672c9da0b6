package control

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/control/api"
	"steerpoint/control/internal/issue"
	"steerpoint/snapshot"
)

// pebble is that authority, which looks names up at a name server of the test and finds all of them at its gateway.
type pebble struct {
	directory, roots string
	lead             atomic.Bool // names lead to the gateway
	cmd              *exec.Cmd
	log              bytes.Buffer
	start            func()
}

// freeAddr is an address that is free now. Pebble binds its own.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// writeServerPair makes a certificate for 127.0.0.1 and gives it in PEM form.
func writeServerPair(t *testing.T, certFile, keyFile string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, b := range map[string][]byte{certFile: text, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return string(text)
}

// names answers pebble: every name is at 127.0.0.1, unless they lead nowhere, and TXT records are those that control published.
func (p *pebble) names(t *testing.T, o *ordering) string {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	answer := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		name, kind := strings.ToLower(q.Question[0].Name), q.Question[0].Qtype
		h := dns.RR_Header{Name: q.Question[0].Name, Rrtype: kind, Class: dns.ClassINET}
		switch {
		case kind == dns.TypeA && p.lead.Load():
			m.Answer = append(m.Answer, &dns.A{Hdr: h, A: net.IPv4(127, 0, 0, 1)})
		case kind == dns.TypeTXT:
			for _, text := range o.published(name, "TXT") {
				m.Answer = append(m.Answer, &dns.TXT{Hdr: h, Txt: []string{strings.Trim(text, `"`)}})
			}
		}
		_ = w.WriteMsg(m) // pebble asks again
	})
	for _, s := range []*dns.Server{{Listener: tcp, Handler: answer}, {PacketConn: udp, Handler: answer}} {
		ready, ended := make(chan struct{}), make(chan error, 1)
		s.NotifyStartedFunc = func() { close(ready) }
		go func() { ended <- s.ActivateAndServe() }()
		<-ready
		t.Cleanup(func() { _ = s.Shutdown(); <-ended })
	}
	return udp.LocalAddr().String()
}

// startPebble runs pebble. It rejects a third of all good nonces, as it does to find out who cannot stand that.
func startPebble(t *testing.T, o *ordering) *pebble {
	t.Helper()
	binary := os.Getenv("PEBBLE")
	if binary == "" {
		t.Skip("PEBBLE names no program of that name: make acme builds it and runs this")
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	p := &pebble{}
	p.lead.Store(true)
	p.roots = writeServerPair(t, file("tls.crt"), file("tls.key"))
	listen := freeAddr(t)
	_, port, err := net.SplitHostPort(o.g.dial(""))
	if err != nil {
		t.Fatal(err)
	}
	n, err := json.Number(port).Int64()
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": listen, "managementListenAddress": freeAddr(t), "certificate": file("tls.crt"), "privateKey": file("tls.key"),
		"httpPort": n, "tlsPort": 1, "ocspResponderURL": "", "externalAccountBindingRequired": false,
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles":   map[string]any{"default": map[string]any{"description": "90 days", "validityPeriod": 90 * 24 * 3600}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	names := p.names(t, o)
	p.directory = "https://" + listen + "/dir"
	p.start = func() {
		t.Helper()
		p.cmd = exec.Command(binary, "-config", file("config.json"), "-dnsserver", names, "-strict")
		p.cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=33", "PEBBLE_AUTHZREUSE=0")
		p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(p.roots))
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
		o.await("pebble listens", func() bool {
			res, err := c.Get(p.directory)
			if err == nil {
				_ = res.Body.Close() // nothing of it is read
			}
			return err == nil
		})
	}
	p.start()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%+v\n%s", o.orders.get("web").state, p.log.String())
		}
	})
	return p
}

func (p *pebble) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// yaml is a service with a Certificate from pebble.
func (p *pebble) yaml(o *ordering, names string) string {
	text := orderedYAML(o.ca, names, "")
	return strings.NewReplacer(o.ca.Directory(), p.directory, strings.ReplaceAll(o.ca.Roots(), "\n", `\n`), strings.ReplaceAll(p.roots, "\n", `\n`)).Replace(text)
}

// TestPebble orders from pebble by http-01 and by dns-01, a wildcard too, while a third of all nonces is refused; renews; fails
// where the name leads nowhere, and where pebble is gone, and goes on when that is over; an account that pebble forgot when it
// was started anew is registered again.
//
// Covers: issue6 acme pebble
func TestPebble(t *testing.T) {
	o := startOrdering(t, nil)
	p := startPebble(t, o)
	o.apply(zoneYAML, dynamicZone, secretYAML("updates", "k", tsigValue), p.yaml(o, "a.example.com, app.plain.example, *.app.plain.example"))
	first := o.issued(snapshot.EdgeKeyPair{})
	leaf, err := issue.Leaf(first.Chain)
	if err != nil || leaf.VerifyHostname("a.example.com") != nil || leaf.VerifyHostname("x.app.plain.example") != nil {
		t.Fatalf("%v, for %v", err, leaf.DNSNames)
	}
	o.await("the records are gone", func() bool { return o.published("_acme-challenge.app.plain.example.", "TXT") == nil })
	o.pass(61 * 24 * time.Hour)
	second := o.issued(first)

	p.lead.Store(false)
	o.apply(p.yaml(o, "a.example.com, b.example.com"))
	if v := o.fails(1, issue.Unproved); v.Do == "" {
		t.Errorf("%+v", v)
	}
	p.stop()
	o.pass(5 * time.Minute)
	o.fails(2, issue.Unreachable)
	if !o.g.has(second) {
		t.Error("the certificate before is not served any more")
	}
	p.lead.Store(true)
	p.start() // with nothing of what it knew
	o.pass(time.Hour)
	o.fails(3, issue.NoAccount)
	o.pass(time.Hour)
	o.issued(second)
	if v := o.certificate("web"); v.State != api.CertificateValid || v.Failures != 0 {
		t.Errorf("%+v", v)
	}
}
