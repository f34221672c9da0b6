package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// RenewWithin is for how long after its end a certificate still renews itself. Control may have been away that long;
// after it, the operator gives the node a new token.
const RenewWithin = 90 * 24 * time.Hour

// JudgeNode tells which node showed these certificates (its own first), judging the end of validity by now, control's
// clock. An expired certificate is a CERT_EXPIRED refusal unless maybeExpired; then only one that ended more than
// RenewWithin ago is refused, as CERT_TOO_OLD. The error is always a *Refusal.
func JudgeNode(pool *x509.CertPool, shown []*x509.Certificate, now time.Time, maybeExpired bool) (Identity, error) {
	id, err := NodeOf(pool, shown)
	if err != nil {
		return Identity{}, err
	}
	if err := id.JudgeEnd(now, maybeExpired); err != nil {
		return Identity{}, err
	}
	return id, nil
}

// NodeOf is the part of JudgeNode that never changes: whose certificates they are under an authority, whenever they end.
func NodeOf(pool *x509.CertPool, shown []*x509.Certificate) (Identity, error) {
	if len(shown) == 0 {
		return Identity{}, Refuse(CertMissing, "this call needs the node's certificate and none was shown",
			"join first: steer node --join URL --token FILE")
	}
	leaf := shown[0]
	if err := verifyChain(pool, shown, x509.ExtKeyUsageClientAuth); err != nil {
		return Identity{}, Refuse(CertUntrusted, "the certificate is not from this cluster's authority: "+err.Error(),
			"is this the right control? Otherwise remove the identity.* and node.* files and join again")
	}
	id, err := Identify(leaf)
	if err != nil {
		return Identity{}, Refuse(CertUntrusted, "the certificate is not that of a node: "+err.Error(),
			"show the certificate that the node got by joining")
	}
	return id, nil
}

// JudgeEnd is the part of JudgeNode that changes as time goes by.
func (i Identity) JudgeEnd(now time.Time, maybeExpired bool) error {
	over := now.Sub(i.NotAfter)
	switch {
	case over <= 0 || (maybeExpired && over <= RenewWithin):
		return nil
	case maybeExpired:
		return Refuse(CertTooOld,
			fmt.Sprintf("the certificate of node %s ended %d days ago; it renews itself for %d days", i.Name, days(over), days(RenewWithin)),
			"create a token and join again")
	}
	return Refuse(CertExpired,
		fmt.Sprintf("the certificate of node %s ended at %s by control's clock", i.Name, i.NotAfter.UTC().Format(time.RFC3339)),
		"a running node renews it by itself; look at its log")
}

func days(d time.Duration) int { return int(d / (24 * time.Hour)) }

// VerifyControl checks that a server's certificates (its own first) are control's under the pinned authority. Times
// are not judged: see the package comment.
func VerifyControl(pool *x509.CertPool, shown []*x509.Certificate) error {
	if len(shown) == 0 {
		return Refuse(CertMissing, "the server showed no certificate", "does --join name the node port (7072) of control?")
	}
	if err := verifyChain(pool, shown, x509.ExtKeyUsageServerAuth); err != nil {
		return Refuse(CertUntrusted, "the server is not of this cluster: "+err.Error(),
			"does --join name the right control, and is the token from it?")
	}
	uri, err := onlyURI(shown[0])
	if err == nil && (ValidName(uri.Host) != nil || controlURI(uri.Host).String() != uri.String()) {
		err = fmt.Errorf("certificate: %q does not name control", uri)
	}
	if err != nil {
		return Refuse(CertUntrusted, "the server is of this cluster but is not control: "+err.Error(),
			"somebody answers in control's place; find out who")
	}
	return nil
}

// PoolByHash is the pool of the one certificate among those shown whose SHA-256 is hash: the authority that a join
// token pins. A *Refusal with code CERT_UNTRUSTED if none is.
func PoolByHash(shown []*x509.Certificate, hash string) (*x509.CertPool, error) {
	for _, c := range shown {
		if HashOf(c) == hash && c.IsCA {
			pool := x509.NewCertPool()
			pool.AddCert(c)
			return pool, nil
		}
	}
	return nil, Refuse(CertUntrusted, "the server is not under the authority that the token names",
		"is the token from this control, and does --join name it?")
}

// HashOf is the hex SHA-256 of a certificate's DER.
func HashOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// ParseAuthority reads the one certificate of an authority from PEM.
func ParseAuthority(text []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != pemCertificate {
		return nil, errors.New("authority: no certificate in it")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("authority: more than one certificate in it")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	if !cert.IsCA || !cert.BasicConstraintsValid {
		return nil, errors.New("authority: its certificate may not sign others")
	}
	return cert, nil
}

// verifyChain checks signatures, constraints and usage at a moment at which every certificate of ours is valid: the
// start of the leaf, which is never before that of its authority. Its end is judged apart.
func verifyChain(pool *x509.CertPool, shown []*x509.Certificate, usage x509.ExtKeyUsage) error {
	leaf := shown[0]
	if leaf.IsCA {
		return errors.New("it is an authority's own certificate")
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: x509.NewCertPool(), CurrentTime: leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	return err
}
