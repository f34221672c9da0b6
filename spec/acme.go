package spec

import (
	"crypto/x509"
	"slices"
	"strings"
	"time"
)

// autoPrefix is that of the names of certificates that nobody wrote; no resource can have such a name.
const autoPrefix = "auto:"

// AutoCertificate is the name of the certificate that is ordered for a domain whose service says auto.
func AutoCertificate(d Domain) string { return autoPrefix + string(d) }

// DefaultACME is how a certificate is ordered for which nothing is written.
func DefaultACME() ACME {
	return ACME{Directory: LetsEncrypt, KeyType: "ecdsa-p256", RenewBefore: Duration(30 * 24 * time.Hour)}
}

// LetsEncrypt is the directory of the authority that is asked unless another is named.
const LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// AutoCertificates are the certificates of domains whose services have routes and say auto, each ordered by itself, so that one
// domain that cannot be proved holds up no other.
func (s *Set) AutoCertificates(how ACME) []*Certificate {
	var out []*Certificate
	for _, v := range s.services {
		if len(v.Routes) == 0 {
			continue
		}
		for _, d := range v.Domains {
			if v.Certificates[string(d)] == "auto" {
				acme := how
				out = append(out, &Certificate{Name: AutoCertificate(d), Names: []Domain{d}, ACME: &acme})
			}
		}
	}
	slices.SortFunc(out, func(a, b *Certificate) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// The ways to prove that a domain is ours (RFC 8555 section 8).
const (
	HTTP01 = "http-01"
	DNS01  = "dns-01"
)

// ChallengeFor is how a name of a certificate is proved: as it says, or else by dns-01 where a zone of ours holds the name.
func (s *Set) ChallengeFor(a *ACME, d Domain) string {
	switch {
	case a.Challenge != "":
		return a.Challenge
	case s.HostingZone(string(d)) != nil:
		return DNS01
	}
	return HTTP01
}

// provable checks that the names of certificates that are to be ordered can be proved.
func (k *setChecker) provable() {
	if !k.whole {
		return // the zone may be elsewhere
	}
	k.each(func(r *Resource) {
		switch {
		case r.Certificate != nil && r.Certificate.ACME != nil:
			for i, d := range r.Certificate.Names {
				k.provableName(r, at("names[%d]", i), r.Certificate.ACME, d)
			}
		case r.Service != nil && len(r.Service.Routes) > 0:
			how := DefaultACME()
			for _, d := range r.Service.Domains {
				if r.Service.Certificates[string(d)] == "auto" {
					k.provableName(r, "certificates."+string(d), &how, d)
				}
			}
		}
	})
}

func (k *setChecker) provableName(r *Resource, path string, a *ACME, d Domain) {
	if k.set.HostingZone(string(d)) != nil {
		return
	}
	why := ""
	switch {
	case a.Challenge == DNS01:
		why = "cannot be proved by dns-01: that takes a record in its zone, and no Zone here holds it"
	case d.Wildcard():
		why = "cannot be ordered by ACME: a wildcard is proved by a record in its zone (dns-01), and no Zone here holds it"
	default:
		return
	}
	k.fail(r, path, string(d), valueError{CodeContradiction, why, "a name in a Zone of ours, or a Certificate with chainFrom and keyFrom or files", ""})
}

// authorityRoots checks what an authority's own certificate is checked by.
func (c *checker) authorityRoots(a *ACME) {
	if a.Roots != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(a.Roots)) {
		c.fail("acme.roots", "", valueError{CodeBadValue, "holds no certificate", "certificates in PEM form, each between BEGIN CERTIFICATE and END CERTIFICATE", ""})
	}
}
