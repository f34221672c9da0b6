package edge

import (
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
)

// Certificates chooses among certificates by the name that a client asks for: that name, or a wildcard one label above. Its
// zero value has none. Get is for Config.Certificate.
type Certificates struct {
	byName atomic.Pointer[map[string]*tls.Certificate]
}

// ErrNoCertificate is a TLS handshake for a name that there is no certificate of.
var ErrNoCertificate = errors.New("no certificate of that name")

// Set puts other certificates in the place of those until now, by name; *.example.com is one label deep. Handshakes that are
// under way go on with theirs.
func (c *Certificates) Set(byName map[string]*tls.Certificate) { c.byName.Store(&byName) }

// Get finds the certificate of a handshake. A client that names nobody gets none: which one it wants cannot be known.
func (c *Certificates) Get(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	all := c.byName.Load()
	if all == nil {
		return nil, ErrNoCertificate
	}
	name := strings.ToLower(strings.TrimSuffix(h.ServerName, "."))
	if found := (*all)[name]; found != nil {
		return found, nil
	}
	if _, above, ok := strings.Cut(name, "."); ok {
		if found := (*all)["*."+above]; found != nil {
			return found, nil
		}
	}
	return nil, ErrNoCertificate
}
