package edge

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/internal/hidden"
	"steerpoint/snapshot"
)

// signer signs certificates for tests.
type signer struct {
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate
	roots *x509.CertPool
	n     int64
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	s := &signer{roots: x509.NewCertPool(), n: 1}
	var err error
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &s.key.PublicKey, s.key)
	if err != nil {
		t.Fatal(err)
	}
	if s.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	s.roots.AddCert(s.cert)
	return s
}

// pair makes a certificate for names; serial tells it from others.
func (s *signer) pair(t *testing.T, names ...string) (chain, key string, serial int64) {
	t.Helper()
	s.n++
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(s.n), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, s.cert, &k.PublicKey, s.key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})), s.n
}

// tlsGateway is a gateway with TLS that serves snapshots.
func tlsGateway(t *testing.T) (*bench, *Snapshots) {
	t.Helper()
	certs := &Certificates{}
	b := start(t, Config{ListenTLS: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Certificate: certs.Get}, paths{})
	s := NewSnapshots(b.Gateway, certs, nil)
	if err := b.reg.Register(s); err != nil {
		t.Fatal(err)
	}
	return b, s
}

// certified is a snapshot whose domains have certificates, answered by an origin.
func certified(t *testing.T, domains map[string]string, origin string) *snapshot.Edge {
	t.Helper()
	list := slices.Sorted(maps.Keys(domains))
	slices.Reverse(list) // a wildcard sorts before names, and the first one gives the host of probes
	for i, d := range list {
		list[i] = fmt.Sprintf("%q", d)
	}
	e := compiled(t, strings.Replace(service(fmt.Sprintf(`originGroups:
  - name: web
    health: {enabled: false}
    origins: [{name: a, address: "%s", scheme: http}]
routes: [{name: all, originGroup: web}]
`, origin)), "domains: [a.example]", "domains: ["+strings.Join(list, ", ")+"]", 1))
	e.Services[0].Certificates = domains
	return e
}

func pairOf(name, chain, key string) snapshot.EdgeKeyPair {
	return snapshot.EdgeKeyPair{Name: name, Chain: chain, Key: snapshot.Carried{Text: hidden.New(key)}}
}

// served is the serial number of the certificate that a name gets; 0: the handshake is refused.
func (s *signer) served(t *testing.T, addr, name string) int64 {
	t.Helper()
	k, err := dialTLS(t, addr, &tls.Config{ServerName: name, RootCAs: s.roots})
	if err != nil {
		if !strings.Contains(err.Error(), "unrecognized name") && !strings.Contains(err.Error(), "internal error") {
			t.Errorf("%s: %v", name, err)
		}
		return 0
	}
	c, _ := k.tls.(*tls.Conn)
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestCertificatesAreFollowed: each name gets its certificate, from files and from what control sends; a renewed one is served
// from the next handshake on, and no connection is dropped for it; one that is broken changes nothing; a name that nobody has a
// certificate for is refused.
//
// Covers: issue6 tls
func TestCertificatesAreFollowed(t *testing.T) {
	ca := newSigner(t)
	addr := origin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	gw, s := tlsGateway(t)
	dir := t.TempDir()
	chainFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	put := func(chain, key string) {
		t.Helper()
		for name, text := range map[string]string{chainFile: chain, keyFile: key} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(name+".new", name); err != nil {
				t.Fatal(err)
			}
		}
		s.keys.reread(s.g.log)
	}
	want := func(what, name string, serial int64) {
		t.Helper()
		if got := ca.served(t, gw.addr, name); got != serial {
			t.Errorf("%s: %s gets %d, want %d", what, name, got, serial)
		}
	}
	e := certified(t, map[string]string{"a.example": "files", "b.example": "sent", "*.w.example": "sent", "none.example": "missing"}, addr)
	e.Certificates = []snapshot.EdgeCertificate{{Name: "files", ChainFile: chainFile, KeyFile: keyFile}, {Name: "sent"}, {Name: "missing"}}
	chain, key, sent := ca.pair(t, "b.example", "*.w.example")
	secrets := &snapshot.EdgeSecrets{Certificates: []snapshot.EdgeKeyPair{pairOf("sent", chain, key)}}
	apply := func() {
		t.Helper()
		if err := s.Apply(e, secrets); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	want("before the files are there", "a.example", 0)
	c1, k1, files := ca.pair(t, "a.example")
	put(c1, k1)
	want("from files", "a.example", files)
	want("as sent", "b.example", sent)
	want("by its wildcard", "x.w.example", sent)
	want("two labels below a wildcard", "x.y.w.example", 0)
	want("the parent of a wildcard", "w.example", 0)
	want("without a certificate", "none.example", 0)
	want("of nobody", "other.example", 0)
	eventually(t, "the metric of its end", func() bool {
		text := metricsText(t, gw.reg)
		return strings.Contains(text, `steer_edge_certificate_expiry_timestamp_seconds{certificate="files"} `) && !strings.Contains(text, `{certificate="missing"}`)
	})

	held, err := dialTLS(t, gw.addr, &tls.Config{ServerName: "a.example", RootCAs: ca.roots})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(what string) {
		t.Helper()
		held.send("GET / HTTP/1.1", "Host: a.example", "", "")
		if _, body := held.get("GET"); body != "ok" {
			t.Errorf("%s: %q", what, body)
		}
	}
	ask("before")
	c2, k2, renewed := ca.pair(t, "a.example")
	put(c2, "") // the chain alone: its key is not there yet
	want("with half of a pair", "a.example", files)
	put("", k2)
	want("renewed", "a.example", renewed)
	put("nonsense", "")
	want("broken", "a.example", renewed)
	apply() // another snapshot does not forget it
	want("broken, after another snapshot", "a.example", renewed)
	chain, key, next := ca.pair(t, "b.example", "*.w.example")
	secrets = &snapshot.EdgeSecrets{Certificates: []snapshot.EdgeKeyPair{pairOf("sent", chain, key)}}
	apply()
	want("sent anew", "b.example", next)
	secrets = &snapshot.EdgeSecrets{Certificates: []snapshot.EdgeKeyPair{pairOf("sent", chain, "nonsense")}}
	apply()
	want("sent broken", "b.example", next)
	secrets = &snapshot.EdgeSecrets{}
	apply()
	want("sent no more", "b.example", next)
	ask("after all of it")
}

// TestAnotherCertificateIsAwaited: a domain that is to have another certificate, which is still ordered, or whose files are not
// there yet, keeps the one it has until then; a domain that is to have none any more has none.
//
// Covers: issue6 tls
func TestAnotherCertificateIsAwaited(t *testing.T) {
	ca := newSigner(t)
	addr := origin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	gw, s := tlsGateway(t)
	c1, k1, first := ca.pair(t, "a.example")
	c2, k2, second := ca.pair(t, "a.example")
	missing := filepath.Join(t.TempDir(), "tls.crt")
	for _, step := range []struct {
		what, certificate string
		has               []snapshot.EdgeKeyPair
		want              int64
	}{
		{"the first", "old", []snapshot.EdgeKeyPair{pairOf("old", c1, k1)}, first},
		{"one that is still ordered", "ordered", nil, first},
		{"the same, after another snapshot", "ordered", nil, first},
		{"one of files that are not there", "files", nil, first},
		{"one that cannot be used", "ordered", []snapshot.EdgeKeyPair{pairOf("ordered", c2, k1)}, first},
		{"the ordered one", "ordered", []snapshot.EdgeKeyPair{pairOf("ordered", c2, k2)}, second},
		{"none any more", "", nil, 0},
		{"one that is still ordered, where there was none", "old", nil, 0},
	} {
		domains := map[string]string{"a.example": step.certificate}
		e := certified(t, domains, addr)
		switch step.certificate {
		case "":
			delete(domains, "a.example")
		case "files":
			e.Certificates = []snapshot.EdgeCertificate{{Name: "files", ChainFile: missing, KeyFile: missing}}
		default:
			e.Certificates = []snapshot.EdgeCertificate{{Name: step.certificate}}
		}
		if err := s.Apply(e, &snapshot.EdgeSecrets{Certificates: step.has}); err != nil {
			t.Fatal(err)
		}
		if got := ca.served(t, gw.addr, "a.example"); got != step.want {
			t.Errorf("%s: the domain gets %d, want %d", step.what, got, step.want)
		}
	}
}

// TestSessionsAreResumedAnywhere: a TLS session that began at one gateway is resumed at another and after a restart, over the
// days' change of keys, and not once its key is over.
//
// Covers: issue6 tickets
func TestSessionsAreResumedAnywhere(t *testing.T) {
	ca := newSigner(t)
	addr := origin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	chain, key, _ := ca.pair(t, "a.example")
	master, day := bytes.Repeat([]byte{1}, 32), time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	gateway := func(now time.Time) (*bench, func(time.Time)) {
		gw, s := tlsGateway(t)
		e := certified(t, map[string]string{"a.example": "sent"}, addr)
		e.Certificates = []snapshot.EdgeCertificate{{Name: "sent"}}
		apply := func(now time.Time) {
			t.Helper()
			secrets := &snapshot.EdgeSecrets{Certificates: []snapshot.EdgeKeyPair{pairOf("sent", chain, key)}}
			if !now.IsZero() {
				var err error
				if secrets.Tickets, err = snapshot.TicketKeysAt(master, now); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Apply(e, secrets); err != nil {
				t.Fatal(err)
			}
		}
		apply(now)
		return gw, apply
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		conf := &tls.Config{ServerName: "a.example", RootCAs: ca.roots, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
		visit := func(what string, gw *bench, want bool) {
			t.Helper()
			k, err := dialTLS(t, gw.addr, conf)
			if err != nil {
				t.Fatal(err)
			}
			k.send("GET / HTTP/1.1", "Host: a.example", "Connection: close", "", "")
			if _, body := k.get("GET"); body != "ok" {
				t.Errorf("%s: %q", what, body)
			}
			c, _ := k.tls.(*tls.Conn)
			if got := c.ConnectionState().DidResume; got != want {
				t.Errorf("TLS %x, %s: resumed %t", version, what, got)
			}
		}
		one, _ := gateway(day)
		two, turn := gateway(day)
		visit("the first time", one, false)
		visit("at another gateway", two, true)
		if err := one.stop(); err != nil {
			t.Fatal(err)
		}
		restarted, _ := gateway(day)
		visit("after a restart", restarted, true)
		ahead, _ := gateway(day.Add(snapshot.TicketPeriod))
		visit("where the next day has begun", ahead, true)
		visit("and back", two, true)
		turn(day.Add(snapshot.TicketPeriod))
		visit("the next day", two, true)
		turn(time.Time{}) // control cannot open what keys are made of
		visit("without keys from control", two, true)
		turn(day.Add(4 * snapshot.TicketPeriod))
		visit("days later", two, false)
		lonely, _ := gateway(time.Time{})
		visit("at a gateway with keys of its own", lonely, false)
	}
}

// TestChallengesAreAnswered: an authority gets its proof before redirects and policies, by http and by the names it asks for, and
// nothing else is answered there.
//
// Covers: issue6 acme
func TestChallengesAreAnswered(t *testing.T) {
	addr := origin(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("origin " + r.URL.Path)) })
	for _, tt := range []struct {
		route, policy string
		other         int // status of what is no proof
	}{
		{", httpsRedirect: true", "", 307},
		{"", `policies: {access: [{action: deny, paths: ["/.well-known/*"]}]}`, 403},
		{"", "", 200}, // an origin may prove the name for itself
	} {
		yaml := service(fmt.Sprintf(`originGroups:
  - name: web
    health: {enabled: false}
    origins: [{name: a, address: "%s", scheme: http}]
routes: [{name: all, originGroup: web%s}]
%s
`, addr, tt.route, tt.policy))
		gw, s := served(t, yaml)
		e := compiled(t, yaml)
		e.Challenges = []snapshot.EdgeChallenge{{Host: "a.example", Token: "tok_en-1", Value: "tok_en-1.print"}, {Host: "nobody.example", Token: "two", Value: "two.print"}}
		if err := s.Apply(e, sessionKeys); err != nil {
			t.Fatal(err)
		}
		k := dial(t, gw.addr)
		ask := func(host, path string, status int, want string) {
			t.Helper()
			k.send("GET "+path+" HTTP/1.1", "Host: "+host, "", "")
			if r, body := k.get("GET"); r.StatusCode != status || want != "" && body != want {
				t.Errorf("%+v: %s%s: %d %q", tt, host, path, r.StatusCode, body)
			}
		}
		const at = "/.well-known/acme-challenge/"
		ask("a.example", at+"tok_en-1", 200, "tok_en-1.print")
		ask("A.Example:80", at+"tok_en-1", 200, "tok_en-1.print")
		ask("nobody.example", at+"two", 200, "two.print") // no route has it
		ask("a.example", at+"two", tt.other, "")
		ask("a.example", at, tt.other, "")
		ask("a.example", at+"tok_en-1/", tt.other, "")
		ask("nobody.example", "/", 400, "")
		e.Challenges = nil
		if err := s.Apply(e, sessionKeys); err != nil {
			t.Fatal(err)
		}
		ask("a.example", at+"tok_en-1", tt.other, "")
	}
}
