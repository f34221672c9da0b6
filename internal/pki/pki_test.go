package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

func newTestAuthority(t testing.TB) *Authority {
	t.Helper()
	a, err := OpenAuthority(t.TempDir(), "test", testNow)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newRequest(t testing.TB) []byte {
	t.Helper()
	key, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := Request(key, "x")
	if err != nil {
		t.Fatal(err)
	}
	return request
}

func parsePEM(t testing.TB, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func sign(t testing.TB, a *Authority, name string, roles []string, now time.Time) *x509.Certificate {
	t.Helper()
	text, _, err := a.Sign(newRequest(t), name, roles, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return parsePEM(t, text)
}

// A token is read as it was written, with white space around it; anything else is refused without being repeated.
//
// Covers: A7, issue3 tokens
func TestToken(t *testing.T) {
	a := newTestAuthority(t)
	token := NewToken(a.Hash())
	got, err := ParseToken("\n " + token.String() + "\r\n")
	if err != nil || got != token {
		t.Fatalf("%+v became %+v, error %v", token, got, err)
	}
	if NewToken(a.Hash()).Secret == token.Secret || len(token.SecretHash()) != 64 || token.SecretHash() == NewToken(a.Hash()).SecretHash() {
		t.Error("two tokens share a secret")
	}
	text := token.String()
	for name, bad := range map[string]string{
		"empty": "", "two parts": token.ID + "." + token.Secret, "four parts": text + ".x", "a letter less": text[:len(text)-1],
		"a letter more": text + "0", "upper case": strings.ToUpper(text), "a short id": text[1:], "space inside": strings.Replace(text, ".", ". ", 1),
		"a secret with bits over": token.ID + "." + strings.Repeat("A", 42) + "B." + token.Authority,
		"a newline in the secret": token.ID + "." + token.Secret[:20] + "\n" + token.Secret[20:] + "." + token.Authority,
	} {
		_, err := ParseToken(bad)
		if CodeOf(err) != TokenMalformed {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), token.Secret) {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
	}
}

// Covers: A7, issue3 tokens
func FuzzParseToken(f *testing.F) {
	f.Add(NewToken(strings.Repeat("0", 64)).String())
	f.Add("a.b.c")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			if CodeOf(err) != TokenMalformed {
				t.Errorf("error %v has another code", err)
			}
			return
		}
		if token.String() != strings.TrimSpace(text) {
			t.Errorf("%q became %q", text, token.String())
		}
	})
}

// The authority is made once and is the same ever after; what is missing or damaged is an error that names the file and
// changes nothing.
//
// Covers: A7, issue3 authority
func TestOpenAuthority(t *testing.T) {
	dir := t.TempDir()
	first, err := OpenAuthority(dir, "test", testNow)
	if err != nil {
		t.Fatal(err)
	}
	second, err := OpenAuthority(dir, "test", testNow.AddDate(5, 0, 0))
	if err != nil || first.Hash() != second.Hash() {
		t.Fatalf("opened again it is %v, error %v", second, err)
	}
	keyPath, certPath := filepath.Join(dir, fileKey), filepath.Join(dir, fileCertificate)
	if info, err := os.Stat(keyPath); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v, error %v", info.Mode(), err)
	}
	if life := first.cert.NotAfter.Sub(testNow); life != authorityLife {
		t.Errorf("it lives for %s", life)
	}
	key, cert := read(t, keyPath), read(t, certPath)
	otherKey := read(t, filepath.Join(otherDir(t), fileKey))
	for _, row := range []struct {
		name    string
		change  func()
		cluster string
		want    string // in the error; "": none
	}{
		{"another cluster", func() {}, "other", certPath},
		{"a bad name", func() {}, "A/b", "cluster name"},
		{"no key", func() { remove(t, keyPath) }, "test", keyPath},
		{"a damaged key", func() { write(t, keyPath, key[:50], 0o600) }, "test", keyPath},
		{"an open key", func() { write(t, keyPath, key, 0o604) }, "test", keyPath},
		{"another key", func() { write(t, keyPath, otherKey, 0o600) }, "test", certPath},
		{"a damaged certificate", func() { write(t, certPath, cert[:100], 0o600) }, "test", certPath},
		{"two certificates", func() { write(t, certPath, append(slices.Clone(cert), cert...), 0o600) }, "test", certPath},
		{"a key in the certificate's place", func() { write(t, certPath, key, 0o600) }, "test", certPath},
		{"as it was", func() {}, "test", ""},
		{"the making was interrupted", func() { remove(t, certPath) }, "test", ""},
	} {
		write(t, keyPath, key, 0o600)
		write(t, certPath, cert, 0o600)
		row.change()
		before := [2][]byte{readIf(keyPath), readIf(certPath)}
		_, err := OpenAuthority(dir, row.cluster, testNow)
		if row.want == "" {
			if err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v does not name %s", row.name, err, row.want)
		}
		if after := [2][]byte{readIf(keyPath), readIf(certPath)}; string(after[0]) != string(before[0]) || string(after[1]) != string(before[1]) {
			t.Errorf("%s: a file was changed", row.name)
		}
	}
	if _, err := OpenAuthority(filepath.Join(dir, "none"), "test", testNow); err == nil {
		t.Error("a folder that is not there")
	}
	if _, err := OpenAuthority(t.TempDir(), "test", time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), "clock") {
		t.Errorf("an authority made in 1970: %v", err)
	}
}

func otherDir(t *testing.T) string {
	dir := t.TempDir()
	if _, err := OpenAuthority(dir, "test", testNow); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readIf(path string) []byte {
	data, _ := os.ReadFile(path) // nothing where nothing is
	return data
}

func write(t *testing.T, path string, data []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// Only the public key is taken from a request: whoever asks for more gets a plain node's certificate.
//
// Covers: A7, issue3 join
func TestSignTakesOnlyTheKey(t *testing.T) {
	a := newTestAuthority(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	evil, err := url.Parse("steer://test/control")
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "control", Organization: []string{"root"}}, URIs: []*url.URL{evil},
		DNSNames: []string{"control"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	text, id, err := a.Sign(request, "n1", []string{"probe", "dns", "probe"}, testNow, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert := parsePEM(t, text)
	if cert.IsCA || len(cert.URIs) != 1 || cert.URIs[0].String() != "steer://test/node/n1?roles=dns,probe" || len(cert.DNSNames)+len(cert.IPAddresses) > 0 {
		t.Errorf("the certificate says CA %v, %v, %v, %v", cert.IsCA, cert.URIs, cert.DNSNames, cert.IPAddresses)
	}
	if cert.Subject.CommonName != "n1" || len(cert.Subject.Organization) > 0 {
		t.Errorf("subject %v", cert.Subject)
	}
	if id.Name != "n1" || !id.Has("dns") || !id.Has("probe") || id.Has("edge") || len(id.Roles) != 2 || id.Serial != cert.SerialNumber.Text(16) {
		t.Errorf("identity %+v", id)
	}
	if !cert.NotBefore.Equal(testNow.Add(-24*time.Hour)) || !cert.NotAfter.Equal(testNow.Add(time.Hour)) {
		t.Errorf("valid from %s to %s", cert.NotBefore, cert.NotAfter)
	}
	if other := sign(t, a, "n1", []string{"dns"}, testNow); other.SerialNumber.Cmp(cert.SerialNumber) == 0 {
		t.Error("two certificates have one serial number")
	}
}

// Requests that are not proper are refused with BAD_REQUEST, and so are names and roles that are none.
//
// Covers: A7, issue3 join
func TestSignRefuses(t *testing.T) {
	a := newTestAuthority(t)
	good := newRequest(t)
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(key any) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	roles := []string{"dns"}
	for _, row := range []struct {
		what    string
		request []byte
		name    string
		roles   []string
		ok      bool
	}{
		{"good", good, "n1", roles, true},
		{"Ed25519", request(ed), "n1", roles, true},
		{"its signature forged", forged, "n1", roles, false},
		{"RSA", request(rsaKey), "n1", roles, false},
		{"P-384", request(p384), "n1", roles, false},
		{"nothing", nil, "n1", roles, false},
		{"large", make([]byte, maxRequest+1), "n1", roles, false},
		{"something after it", append(slices.Clone(good), 0), "n1", roles, false},
		{"no name", good, "", roles, false},
		{"a name with a slash", good, "a/../control", roles, false},
		{"a name with a query", good, "a?roles=dns", roles, false},
		{"upper case", good, "N1", roles, false},
		{"a long name", good, strings.Repeat("n", 64), roles, false},
		{"the longest name", good, strings.Repeat("n", 63), roles, true},
		{"two dots", good, "a..b", roles, false},
		{"a dot at the end", good, "a.", roles, false},
		{"no roles", good, "n1", nil, false},
		{"an empty role", good, "n1", []string{""}, false},
		{"a role with a comma", good, "n1", []string{"dns,probe"}, false},
		{"nine roles", good, "n1", []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}, false},
	} {
		_, id, err := a.Sign(row.request, row.name, row.roles, testNow, time.Hour)
		if row.ok != (err == nil) || (err != nil && CodeOf(err) != BadRequest) {
			t.Errorf("%s: identity %+v, error %v", row.what, id, err)
		}
	}
	if k1, err := RequestKey(good); err != nil || len(k1) == 0 {
		t.Errorf("the key of a request: %v", err)
	}
	if _, err := RequestKey(forged); CodeOf(err) != BadRequest {
		t.Errorf("the key of a forged request: %v", err)
	}
}

// custom is a certificate of the authority that Sign would never make.
func custom(t *testing.T, a *Authority, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	key, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(9), NotBefore: testNow.Add(-time.Hour), NotAfter: testNow.Add(time.Hour), BasicConstraintsValid: true,
		URIs: []*url.URL{nodeURI("test", "n1", []string{"dns"})}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	change(c)
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func withURI(text string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		u, err := url.Parse(text)
		if err != nil {
			panic(err)
		}
		c.URIs = []*url.URL{u}
	}
}

// Only a URI written as we write it names a node.
//
// Covers: A7, issue3 roles in the certificate
func TestIdentify(t *testing.T) {
	a := newTestAuthority(t)
	two := nodeURI("test", "n2", []string{"dns"})
	for _, row := range []struct {
		what   string
		change func(*x509.Certificate)
		ok     bool
	}{
		{"good", func(*x509.Certificate) {}, true},
		{"no URI", func(c *x509.Certificate) { c.URIs = nil }, false},
		{"two URIs", func(c *x509.Certificate) { c.URIs = append(c.URIs, two) }, false},
		{"a DNS name beside it", func(c *x509.Certificate) { c.DNSNames = []string{"n1"} }, false},
		{"an address beside it", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(1, 2, 3, 4)} }, false},
		{"a mailbox beside it", func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.com"} }, false},
		{"another scheme", withURI("spiffe://test/node/n1?roles=dns"), false},
		{"control", withURI("steer://test/control"), false},
		{"control with roles", withURI("steer://test/control?roles=dns"), false},
		{"no roles", withURI("steer://test/node/n1"), false},
		{"empty roles", withURI("steer://test/node/n1?roles="), false},
		{"roles twice", withURI("steer://test/node/n1?roles=dns&roles=probe"), false},
		{"roles out of order", withURI("steer://test/node/n1?roles=probe,dns"), false},
		{"a role twice", withURI("steer://test/node/n1?roles=dns,dns"), false},
		{"more in the query", withURI("steer://test/node/n1?roles=dns&x=1"), false},
		{"a fragment", withURI("steer://test/node/n1?roles=dns#x"), false},
		{"an empty fragment", withURI("steer://test/node/n1?roles=dns#"), true}, // not written in the URI: the same bytes
		{"a user", withURI("steer://root@test/node/n1?roles=dns"), false},
		{"a port", withURI("steer://test:1/node/n1?roles=dns"), false},
		{"no cluster", withURI("steer:///node/n1?roles=dns"), false},
		{"escaped letters", withURI("steer://test/node/n%31?roles=dns"), false},
		{"a longer path", withURI("steer://test/node/a/n1?roles=dns"), false},
		{"dots", withURI("steer://test/node/../n1?roles=dns"), false},
		{"no name", withURI("steer://test/node/?roles=dns"), false},
		{"upper case", withURI("steer://test/node/N1?roles=dns"), false},
	} {
		id, err := Identify(custom(t, a, row.change))
		if (err == nil) != row.ok {
			t.Errorf("%s: %+v, error %v", row.what, id, err)
		}
	}
}

// Covers: A7, issue3 roles in the certificate
func FuzzIdentify(f *testing.F) {
	a := newTestAuthority(f)
	f.Add(sign(f, a, "n1", []string{"dns", "probe"}, testNow).Raw, "steer://test/node/n1?roles=dns,probe")
	server, err := a.ServerCertificate(testNow)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(server.Certificate[0], "steer://test/control")
	f.Add(a.cert.Raw, "steer://test/node/n%31?roles=dns#")
	check := func(t *testing.T, cert *x509.Certificate) {
		id, err := Identify(cert)
		if err != nil {
			return
		}
		if ValidName(id.Name) != nil || len(id.Roles) == 0 || !slices.IsSorted(id.Roles) {
			t.Errorf("identity %+v", id)
		}
		if want := nodeURI(cert.URIs[0].Host, id.Name, id.Roles).String(); cert.URIs[0].String() != want {
			t.Errorf("%q was taken for %q", cert.URIs[0], want)
		}
	}
	f.Fuzz(func(t *testing.T, der []byte, text string) {
		if cert, err := x509.ParseCertificate(der); err == nil {
			check(t, cert)
		}
		if u, err := url.Parse(text); err == nil {
			check(t, &x509.Certificate{URIs: []*url.URL{u}})
		}
		if key, err := RequestKey(der); (err == nil) != (key != nil) {
			t.Errorf("a key %v with the error %v", key, err)
		}
	})
}

// Who may call, by the certificate alone.
//
// Covers: A7, issue3 a wrong CA, issue3 an expired certificate
func TestJudgeNode(t *testing.T) {
	a, other := newTestAuthority(t), newTestAuthority(t)
	const day = 24 * time.Hour
	server, err := a.ServerCertificate(testNow)
	if err != nil {
		t.Fatal(err)
	}
	good := sign(t, a, "n1", []string{"dns"}, testNow)
	noClient := custom(t, a, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	authority := custom(t, a, func(c *x509.Certificate) { c.IsCA = true })
	for _, row := range []struct {
		what         string
		shown        []*x509.Certificate
		at           time.Time
		maybeExpired bool
		want         string
	}{
		{"good", []*x509.Certificate{good}, testNow, false, ""},
		{"good, with the authority", []*x509.Certificate{good, a.cert}, testNow, false, ""},
		{"none", nil, testNow, false, CertMissing},
		{"of another authority", []*x509.Certificate{sign(t, other, "n1", []string{"dns"}, testNow)}, testNow, false, CertUntrusted},
		{"of another authority, renewal", []*x509.Certificate{sign(t, other, "n1", []string{"dns"}, testNow)}, testNow, true, CertUntrusted},
		{"another's with ours behind it", []*x509.Certificate{sign(t, other, "n1", []string{"dns"}, testNow), good, a.cert}, testNow, false, CertUntrusted},
		{"control's", []*x509.Certificate{server.Leaf}, testNow, false, CertUntrusted},
		{"not for clients", []*x509.Certificate{noClient}, testNow, false, CertUntrusted},
		{"an authority below", []*x509.Certificate{authority}, testNow, false, CertUntrusted},
		{"the authority itself", []*x509.Certificate{a.cert}, testNow, false, CertUntrusted},
		{"no node", []*x509.Certificate{custom(t, a, withURI("steer://test/robot/x"))}, testNow, false, CertUntrusted},
		{"at its last instant", []*x509.Certificate{good}, testNow.Add(time.Hour), false, ""},
		{"just ended", []*x509.Certificate{good}, testNow.Add(time.Hour + time.Second), false, CertExpired},
		{"just ended, renewal", []*x509.Certificate{good}, testNow.Add(time.Hour + time.Second), true, ""},
		{"90 days, renewal", []*x509.Certificate{good}, testNow.Add(time.Hour + 90*day), true, ""},
		{"over 90 days, renewal", []*x509.Certificate{good}, testNow.Add(time.Hour + 90*day + time.Second), true, CertTooOld},
		{"over 90 days", []*x509.Certificate{good}, testNow.Add(time.Hour + 90*day + time.Second), false, CertExpired},
		{"control's clock is back by a year", []*x509.Certificate{good}, testNow.AddDate(-1, 0, 0), false, ""},
	} {
		id, err := JudgeNode(a.Pool(), row.shown, row.at, row.maybeExpired)
		if CodeOf(err) != row.want || (err == nil) != (id.Name == "n1") {
			t.Errorf("%s: %+v, error %v, want %q", row.what, id, err, row.want)
		}
	}
}

// The authority was made while the clock ran five years ahead; what it signs once the clock is right is good.
//
// Covers: A7, issue3 a clock that is off
func TestAuthorityMadeAhead(t *testing.T) {
	a, err := OpenAuthority(t.TempDir(), "test", testNow.AddDate(5, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := JudgeNode(a.Pool(), []*x509.Certificate{sign(t, a, "n1", []string{"dns"}, testNow)}, testNow, false); err != nil {
		t.Error(err)
	}
	server, err := a.ServerCertificate(testNow)
	if err != nil {
		t.Fatal(err)
	}
	if err := VerifyControl(a.Pool(), []*x509.Certificate{server.Leaf}); err != nil {
		t.Error(err)
	}
}

// Control's certificate is kept until half of its life is over, and is made anew then, and when the clock went back.
//
// Covers: A7, issue3 short certificates
func TestServerCertificate(t *testing.T) {
	a := newTestAuthority(t)
	at := func(d time.Duration) *tls.Certificate {
		t.Helper()
		c, err := a.ServerCertificate(testNow.Add(d))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := at(0)
	if at(serverLife/2-time.Second) != first {
		t.Error("made anew before half of its life was over")
	}
	second := at(serverLife/2 + time.Second)
	if second == first || at(serverLife/2+time.Minute) != second {
		t.Error("not made anew at half of its life, or at every call")
	}
	if at(0) == second {
		t.Error("kept although the clock went back before its making")
	}
	if len(first.Certificate) != 2 || HashOf(parseDER(t, first.Certificate[1])) != a.Hash() {
		t.Error("the authority does not come with it: a joining machine could not compare it with its token")
	}
}

func parseDER(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Only control's own certificate passes for control; times do not matter, nor does what else is shown.
//
// Covers: A7, issue3 a wrong CA
func TestVerifyControl(t *testing.T) {
	a, other := newTestAuthority(t), newTestAuthority(t)
	control, err := a.ServerCertificate(testNow.AddDate(-8, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.ServerCertificate(testNow)
	if err != nil {
		t.Fatal(err)
	}
	node := sign(t, a, "n1", []string{"dns"}, testNow)
	for _, row := range []struct {
		what  string
		shown []*x509.Certificate
		want  string
	}{
		{"control, long ended", []*x509.Certificate{control.Leaf}, ""},
		{"none", nil, CertMissing},
		{"another's", []*x509.Certificate{foreign.Leaf, a.cert}, CertUntrusted},
		{"a node", []*x509.Certificate{node}, CertUntrusted},
		{"a node, control behind it", []*x509.Certificate{node, control.Leaf}, CertUntrusted},
		{"control with a query", []*x509.Certificate{custom(t, a, withURI("steer://test/control?x"))}, CertUntrusted},
		{"the authority", []*x509.Certificate{a.cert}, CertUntrusted},
	} {
		if err := VerifyControl(a.Pool(), row.shown); CodeOf(err) != row.want {
			t.Errorf("%s: %v, want %q", row.what, err, row.want)
		}
	}
	if _, err := PoolByHash([]*x509.Certificate{control.Leaf, a.cert}, a.Hash()); err != nil {
		t.Error(err)
	}
	if _, err := PoolByHash([]*x509.Certificate{foreign.Leaf, other.cert}, a.Hash()); CodeOf(err) != CertUntrusted {
		t.Errorf("another authority: %v", err)
	}
	if _, err := PoolByHash([]*x509.Certificate{node}, HashOf(node)); CodeOf(err) != CertUntrusted {
		t.Errorf("the hash of a node's certificate: %v", err)
	}
	if _, err := ParseAuthority(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: node.Raw})); err == nil {
		t.Error("a node's certificate is taken for an authority")
	}
}

// A node's files: the key is written for its owner alone and read back; a pair is a pair.
//
// Covers: A7, issue3 own key
func TestKeysAndPairs(t *testing.T) {
	a := newTestAuthority(t)
	key, text, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "node.key")
	write(t, path+".tmp", []byte("of a killed process"), 0o644)
	if err := WriteFile(path, text); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v, error %v", info.Mode(), err)
	}
	if _, err := os.Stat(path + ".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a temporary file stays: %v", err)
	}
	back, err := ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	request, err := Request(back, "n1")
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := a.Sign(request, "n1", []string{"dns"}, testNow, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Pair(cert, key); err != nil || p.Leaf == nil || len(p.Certificate) != 1 {
		t.Errorf("a pair: %+v, error %v", p, err)
	}
	stranger, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Pair(cert, stranger); err == nil {
		t.Error("a stranger's key and the certificate are a pair")
	}
	if _, err := Pair([]byte("x"), key); err == nil {
		t.Error("no certificate is a pair")
	}
	if err := WriteFile(filepath.Join(t.TempDir(), "none", "x"), text); err == nil {
		t.Error("written into no folder")
	}
}

// Refusals are told apart by their code, have the status of it, and know whether asking again helps.
//
// Covers: A7, issue3 refusals
func TestRefusal(t *testing.T) {
	r := Refuse(NodeRevoked, "it was revoked", "join again")
	wrapped := errors.Join(errors.New("x"), r)
	if !errors.Is(wrapped, &Refusal{Code: NodeRevoked}) || errors.Is(wrapped, &Refusal{Code: Busy}) || CodeOf(wrapped) != NodeRevoked || CodeOf(nil) != "" {
		t.Error("a refusal is not told by its code")
	}
	if got := r.Error(); got != "NODE_REVOKED: it was revoked; join again" {
		t.Errorf("text %q", got)
	}
	for code, lasting := range map[string]bool{NodeRevoked: true, CertTooOld: true, TokenUsed: true, Busy: false, CertExpired: false, "LATER": false} {
		r := Refuse(code, "x", "")
		if r.Lasting() != lasting || r.Status < 400 {
			t.Errorf("%s: lasting %v, status %d", code, r.Lasting(), r.Status)
		}
	}
}
