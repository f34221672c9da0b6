package control

import (
	"crypto/tls"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"steerpoint/internal/pki"
)

// Secure reports whether the API is TLS: it is, unless it listens on loopback alone, where nobody can listen in.
func (c *Control) Secure() bool {
	a, ok := c.ln.Addr().(*net.TCPAddr)
	return !ok || !a.IP.IsLoopback()
}

// hostNames are the names under which the API may be called: those that were configured, and over TLS the machine's
// own. A web page that points a name of its own at this address has neither.
func (c *Control) hostNames() []string {
	if !c.Secure() {
		return c.cfg.Hosts
	}
	return append(ownNames(), c.cfg.Hosts...)
}

func ownNames() []string {
	name, err := os.Hostname()
	if err != nil || !certifiable(name) {
		return nil
	}
	return []string{strings.ToLower(name)}
}

// apiCertificate keeps the certificate of the API, which the cluster's authority signs: for all names and addresses
// that this machine knows of itself, and those of Config.Hosts, such as that of an address translator before it.
type apiCertificate struct {
	authority *pki.Authority
	names     []string

	mu      sync.Mutex
	current *tls.Certificate
}

// config is for the listener of the API. TLS 1.2 is for scrapers and proxies that are old.
func (a *apiCertificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		// By the wall clock, not by control's own: it is judged by clients that have only theirs.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.get(time.Now()) },
	}
}

// get makes the certificate anew when half of its life is over, or the clock was set far back.
func (a *apiCertificate) get(now time.Time) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		life := a.current.Leaf.NotAfter.Sub(a.current.Leaf.NotBefore)
		if left := a.current.Leaf.NotAfter.Sub(now); left > life/2 && left <= life {
			return a.current, nil
		}
	}
	names, addrs := a.hosts()
	fresh, err := a.authority.HostCertificate(names, addrs, now)
	if err != nil {
		return nil, err
	}
	a.current = fresh
	return fresh, nil
}

func (a *apiCertificate) hosts() (names []string, addrs []net.IP) {
	names = []string{"localhost"}
	for _, n := range a.names {
		if ip := net.ParseIP(n); ip != nil {
			addrs = append(addrs, ip)
		} else if certifiable(n) && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	list, err := net.InterfaceAddrs()
	if err != nil { // the machine does not say; loopback is always there
		return names, append(addrs, net.IPv4(127, 0, 0, 1), net.IPv6loopback)
	}
	for _, i := range list {
		if n, ok := i.(*net.IPNet); ok {
			addrs = append(addrs, n.IP)
		}
	}
	return names, addrs
}

// certifiable keeps out what a certificate cannot hold as the name of a host.
func certifiable(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}
