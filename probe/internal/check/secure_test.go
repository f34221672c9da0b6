package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"steerpoint/report"
)

const day = 24 * time.Hour

// signed makes a certificate that ends after left, of this authority; with ca it may sign others itself.
func (a *authority) signed(t *testing.T, ca bool, left time.Duration, key *ecdsa.PrivateKey) *authority {
	t.Helper()
	if key == nil {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "www.example.com"},
		NotBefore: time.Now().Add(-40 * day), NotAfter: time.Now().Add(left).Truncate(time.Second),
	}
	if ca {
		tmpl.Subject.CommonName, tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.KeyUsage = "intermediate", true, true, x509.KeyUsageCertSign
	} else {
		tmpl.DNSNames = []string{"www.example.com"}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

// serverOf presents certificates, the leaf first.
func serverOf(chain ...*authority) *tls.Config {
	c := tls.Certificate{PrivateKey: chain[0].key}
	for _, a := range chain {
		c.Certificate = append(c.Certificate, a.cert.Raw)
	}
	return &tls.Config{Certificates: []tls.Certificate{c}}
}

// TestCertExpiry: the end that counts is the first on the path that holds longest; expect.certDays fails what ends
// sooner, before anything is asked; an ended certificate still says when that was.
//
// Covers: issue4 certificate expiry
func TestCertExpiry(t *testing.T) {
	root, other := newAuthority(t), newAuthority(t)
	inter := root.signed(t, true, 20*day, nil)
	interLong := root.signed(t, true, 400*day, inter.key) // the same authority, signed anew
	interEnded := other.signed(t, true, -day, inter.key)  // a cross-signature that nobody needs
	leaf := inter.signed(t, false, 60*day, nil)
	leafShort := inter.signed(t, false, 5*day, nil)
	leafEnded := inter.signed(t, false, -2*day, nil)
	for _, row := range []struct {
		name   string
		server *tls.Config
		days   int
		blind  bool
		want   time.Time
		cause  report.Cause
		detail string
	}{
		{name: "leaf first", server: serverOf(leafShort, inter), want: leafShort.cert.NotAfter},
		{name: "intermediate first", server: serverOf(leaf, inter), want: inter.cert.NotAfter},
		{name: "the longer of two paths", server: serverOf(leaf, inter, interLong), want: leaf.cert.NotAfter},
		{name: "an ended certificate beside the path", server: serverOf(leaf, inter, interEnded), want: inter.cert.NotAfter},
		{name: "not verified: all that is shown", server: serverOf(leaf, interLong, interEnded), blind: true, want: interEnded.cert.NotAfter},
		{name: "days enough", server: serverOf(leaf, inter), days: 19, want: inter.cert.NotAfter},
		{name: "days too few", server: serverOf(leaf, inter), days: 21, want: inter.cert.NotAfter, cause: report.CauseTLS, detail: "ends on " + inter.cert.NotAfter.UTC().Format(time.RFC3339) + ", in fewer than 21 days"},
		{name: "days too few, not verified", server: serverOf(leafShort, inter), days: 6, blind: true, want: leafShort.cert.NotAfter, cause: report.CauseTLS, detail: "fewer than 6 days"},
		{name: "ended", server: serverOf(leafEnded, inter), want: leafEnded.cert.NotAfter, cause: report.CauseTLS, detail: "is valid from"},
	} {
		t.Run(row.name, func(t *testing.T) {
			hits := serve(t, "127.0.0.1:0", overTLS(row.server, answer("HTTP/1.1 200 OK\r\n\r\n")))
			tk := task("https", hits.addr)
			tk.CertDays, tk.TLSVerify = row.days, !row.blind
			o := run(t, newChecker(Config{Roots: root.roots}), tk)
			if !o.CertExpiry.Equal(row.want) {
				t.Errorf("expiry %v, want %v", o.CertExpiry, row.want)
			}
			switch {
			case row.cause != "":
				wantFailure(t, o, row.cause, row.detail)
				if o.Status != 0 {
					t.Errorf("asked all the same: %+v", o)
				}
			case !o.OK:
				t.Errorf("got %+v", o)
			}
		})
	}
}

// TestFamilies: of a name only the addresses of the task's family are probed, and it is said when there are none.
//
// Covers: issue4 families apart
func TestFamilies(t *testing.T) {
	p4 := serve(t, "127.0.0.1:0", answer(well))
	for _, row := range []struct {
		family  string
		addrs   []string
		want    string
		network string
		detail  string
	}{
		{family: "ipv4", network: "ip4", addrs: []string{"127.0.0.1"}, want: "127.0.0.1"},
		{family: "ipv4", network: "ip4", addrs: []string{"::1", "127.0.0.1", "2001:db8::1"}, want: "127.0.0.1"},
		{family: "ipv6", network: "ip6", addrs: []string{"127.0.0.1", "::ffff:127.0.0.1"}, detail: "has no IPv6 address"},
		{family: "ipv4", network: "ip4", addrs: []string{"::1"}, detail: "has no IPv4 address"},
	} {
		tk := task("http", p4.addr)
		tk.Address, tk.Family = "shop.example", row.family
		c := newChecker(Config{Resolver: names{network: row.network, want: "shop.example.", addrs: row.addrs}})
		for range 2 { // also in turn
			o := run(t, c, tk)
			if row.detail != "" {
				wantFailure(t, o, report.CauseDNS, row.detail)
			} else if !o.OK || o.Address.Addr().String() != row.want {
				t.Errorf("%+v: got %+v", row, o)
			}
		}
	}
	for _, address := range []string{"127.0.0.1", "::1"} {
		tk := task("http", p4.addr)
		tk.Address, tk.Family = address, "ipv4"
		if _, err := NewTarget(&tk); (err == nil) != !strings.Contains(address, ":") {
			t.Errorf("%s as ipv4: %v", address, err)
		}
	}
}

// TestCertBeyondTime: a certificate may end in a year that JSON does not have, by an offset from UTC. The observation can
// be written all the same: one that cannot would hold up all others of the point.
//
// Covers: issue4 certificate expiry
func TestCertBeyondTime(t *testing.T) {
	for _, row := range []struct{ ends, want string }{
		{"99991231235959-0100", "9999-12-31T23:59:59Z"},
		{"00000101000000+0100", "0000-01-01T00:00:00Z"},
		{"20300101000000+0100", "2029-12-31T23:00:00Z"},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		hits := serve(t, "127.0.0.1:0", overTLS(&tls.Config{
			Certificates: []tls.Certificate{{PrivateKey: key, Certificate: [][]byte{endsAt(t, key, row.ends)}}},
		}, answer(well)))
		for _, verify := range []bool{false, true} { // verified, it fails; an ended one still says when that was
			tk := task("https", hits.addr)
			tk.TLSVerify = verify
			o := run(t, newChecker(Config{}), tk)
			if o.OK == verify {
				t.Errorf("%s: got %+v", row.ends, o)
			}
			if _, err := json.Marshal(o); err != nil {
				t.Errorf("%s: %v", row.ends, err)
			}
			if got := o.CertExpiry.Format(time.RFC3339); !verify && got != row.want {
				t.Errorf("%s is taken as %s, want %s", row.ends, got, row.want)
			}
		}
	}
}

// endsAt makes a certificate whose end is written so, which x509 itself does not make.
func endsAt(t *testing.T, key *ecdsa.PrivateKey, ends string) []byte {
	t.Helper()
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(4), NotBefore: time.Now(), NotAfter: time.Now(), DNSNames: []string{"www.example.com"}}
	var cert struct {
		TBS, Algorithm asn1.RawValue
		Signature      asn1.BitString
	}
	if _, err := asn1.Unmarshal(must(x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)), &cert); err != nil {
		t.Fatal(err)
	}
	sequence := func(b []byte) []byte {
		return must(asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: b}))
	}
	var fields []byte
	const validity = 4 // behind version, serial number, algorithm and issuer (RFC 5280 section 4.1)
	for at, rest := 0, cert.TBS.Bytes; len(rest) > 0; at++ {
		var field asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &field); err != nil {
			t.Fatal(err)
		}
		if at != validity {
			fields = append(fields, field.FullBytes...)
			continue
		}
		begins := must(asn1.MarshalWithParams(time.Now().Add(-day).UTC(), "utc"))
		end := must(asn1.Marshal(asn1.RawValue{Tag: asn1.TagGeneralizedTime, Bytes: []byte(ends)}))
		fields = append(fields, sequence(append(begins, end...))...)
	}
	cert.TBS = asn1.RawValue{FullBytes: sequence(fields)}
	return must(asn1.Marshal(cert))
}
