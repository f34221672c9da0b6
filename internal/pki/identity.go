package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The roles of nodes that the service definition knows. An authority signs others too: they are for later versions.
const (
	RoleDNS   = "dns"   // answers names
	RoleProbe = "probe" // a probe point
	RoleEdge  = "edge"  // a gateway
)

const (
	scheme      = "steer"
	nodePath    = "/node/"
	controlPath = "/control"
	maxName     = 63
	maxRoles    = 8
	maxRole     = 16
	maxURI      = 512
)

// Identity is what a node's certificate says of it.
type Identity struct {
	Name     string    `json:"name"`
	Roles    []string  `json:"roles"` // sorted, each once, at least one
	Serial   string    `json:"serial"`
	NotAfter time.Time `json:"notAfter"` // by control's clock
}

// Has reports whether the node has the role.
func (i Identity) Has(role string) bool { return slices.Contains(i.Roles, role) }

// Application is what a machine says when it asks to become a node.
type Application struct {
	Token   string            `json:"token"` // text of a Token
	Name    string            `json:"name"`
	Roles   []string          `json:"roles"`
	Labels  map[string]string `json:"labels,omitempty"`
	Request []byte            `json:"request"`           // PKCS#10, DER
	Version string            `json:"version"`           // of the program
	Address string            `json:"address,omitempty"` // where it came from: the server fills it in, whatever was sent
}

// Credential is what a node gets by joining and by renewing.
type Credential struct {
	Certificate []byte `json:"certificate"` // PEM, the node's own first
	Authority   []byte `json:"authority"`   // PEM
	// Lifetime is from now to the certificate's end: the node counts it by its own monotonic clock.
	Lifetime time.Duration `json:"lifetime"`
	Cluster  string        `json:"cluster"`
	Name     string        `json:"name"`
	Roles    []string      `json:"roles"`
}

// ValidName says what is wrong with the name of a node or a cluster: 1 to 63 of a-z, 0-9, "-" and ".", beginning and
// ending with a letter or digit. Such a name is safe as a file name, a label and a part of a URI.
func ValidName(name string) error {
	if name == "" {
		return errors.New("a name is missing")
	}
	if len(name) > maxName {
		return fmt.Errorf("a name has at most %d characters, this one %d", maxName, len(name))
	}
	for i, c := range []byte(name) {
		inner := i > 0 && i < len(name)-1
		if !letterOrDigit(c) && (!inner || (c != '-' && c != '.')) {
			return fmt.Errorf("%q is no name: allowed are a-z, 0-9, and - and . inside", name)
		}
	}
	if strings.Contains(name, "..") {
		return fmt.Errorf("%q is no name: two dots in a row", name)
	}
	return nil
}

// ValidRole says what is wrong with the name of a role: 1 to 16 of a-z.
func ValidRole(role string) error {
	if role == "" || len(role) > maxRole || strings.IndexFunc(role, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 {
		return fmt.Errorf("%q is no role: 1 to %d of a-z", role, maxRole)
	}
	return nil
}

func letterOrDigit(c byte) bool { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') }

// canonicalRoles is a sorted copy without repetitions.
func canonicalRoles(roles []string) ([]string, error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(roles)))
	if len(sorted) == 0 || len(sorted) > maxRoles {
		return nil, fmt.Errorf("a node has 1 to %d roles, not %d", maxRoles, len(sorted))
	}
	for _, r := range sorted {
		if err := ValidRole(r); err != nil {
			return nil, err
		}
	}
	return sorted, nil
}

func nodeURI(cluster, name string, roles []string) *url.URL {
	return &url.URL{Scheme: scheme, Host: cluster, Path: nodePath + name, RawQuery: "roles=" + strings.Join(roles, ",")}
}

func controlURI(cluster string) *url.URL {
	return &url.URL{Scheme: scheme, Host: cluster, Path: controlPath}
}

// Identify reads the node out of a certificate whose chain was verified before. It is strict: there is exactly one URI,
// and it is byte for byte what this package writes. What a later version adds belongs elsewhere than into that URI.
func Identify(cert *x509.Certificate) (Identity, error) {
	uri, err := onlyURI(cert)
	if err != nil {
		return Identity{}, err
	}
	name, ok := strings.CutPrefix(uri.Path, nodePath)
	if !ok {
		return Identity{}, fmt.Errorf("certificate: %q does not name a node", uri)
	}
	if err := errors.Join(ValidName(uri.Host), ValidName(name)); err != nil {
		return Identity{}, fmt.Errorf("certificate: %w", err)
	}
	list, ok := strings.CutPrefix(uri.RawQuery, "roles=")
	if !ok {
		return Identity{}, fmt.Errorf("certificate: %q names no roles", uri)
	}
	roles, err := canonicalRoles(strings.Split(list, ","))
	if err != nil {
		return Identity{}, fmt.Errorf("certificate: %w", err)
	}
	if nodeURI(uri.Host, name, roles).String() != uri.String() {
		return Identity{}, fmt.Errorf("certificate: %q is not written as it must be", uri)
	}
	return Identity{Name: name, Roles: roles, Serial: serialText(cert), NotAfter: cert.NotAfter}, nil
}

// onlyURI is the one URI of a certificate of ours. Other names in it could mean something to somebody: none is allowed.
func onlyURI(cert *x509.Certificate) (*url.URL, error) {
	if len(cert.URIs) != 1 || len(cert.DNSNames)+len(cert.EmailAddresses)+len(cert.IPAddresses) > 0 {
		return nil, errors.New("certificate: want one URI and no other name")
	}
	uri := cert.URIs[0]
	if uri.Scheme != scheme || uri.User != nil || uri.Fragment != "" || uri.Opaque != "" || len(uri.String()) > maxURI {
		return nil, fmt.Errorf("certificate: want a plain URI of scheme %s", scheme)
	}
	return uri, nil
}

func serialText(cert *x509.Certificate) string {
	if cert.SerialNumber == nil {
		return ""
	}
	return cert.SerialNumber.Text(16)
}
