package check

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/idna"

	"steerpoint/snapshot"
)

// Target is a task made ready to be checked. It may be checked by several goroutines at once.
type Target struct {
	id, kind string
	addr     netip.Addr // zero: name is resolved at every check
	name     string     // FQDN in A-labels with the final dot
	port     uint16
	method   string
	host     string // Host header
	sni      string // the name or address the certificate must be for
	uri      string // path and query
	timeout  time.Duration
	statuses []snapshot.StatusRange
	body     string
	slowest  time.Duration // 0: no limit
	verify   bool
	certDays int           // the certificate must last so long; 0: as long as it is valid
	family   string        // of name's addresses: ipv4, ipv6; "": any
	service  string        // gRPC: whose health is asked, "" the server's
	question dns.Question  // of kind dns
	rcode    int           // of kind dns
	turn     atomic.Uint32 // of the addresses of name
}

// FieldError says which field of a task cannot be right, and why.
type FieldError struct{ Field, Reason string }

// Error is "field: reason".
func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

func bad(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// maxWait bounds interval and timeout: an hour is the longest the language of resources has.
const maxWait = time.Hour

// maxCertDays bounds certDays: no authority signs for longer than two years, and five are enough for a private one.
const maxCertDays = 5 * 365

// NewTarget checks every field of a task. The error is a *FieldError.
func NewTarget(t *snapshot.ProbeTask) (*Target, error) {
	g := &Target{
		id: t.ID, kind: t.Kind, timeout: t.Timeout, slowest: t.MaxLatency,
		statuses: t.Statuses, body: t.Body, method: t.Method, verify: t.TLSVerify, certDays: t.CertDays, family: t.Family,
	}
	switch {
	case !slices.Contains(snapshot.Kinds(), t.Kind):
		return nil, bad("kind", "%q is not one this point can probe: %s", t.Kind, strings.Join(snapshot.Kinds(), ", "))
	case t.Kind == snapshot.KindICMP && t.Port != 0:
		return nil, bad("port", "%d is there, and ICMP has no ports", t.Port)
	case t.Kind != snapshot.KindICMP && (t.Port < 1 || t.Port > 65535):
		return nil, bad("port", "%d is not one of 1 to 65535", t.Port)
	case t.Interval <= 0 || t.Interval > maxWait:
		return nil, bad("interval", "%v is not above 0 and at most %v", t.Interval, maxWait)
	case t.Timeout <= 0 || t.Timeout > t.Interval:
		return nil, bad("timeout", "%v is not above 0 and at most the interval, %v", t.Timeout, t.Interval)
	case t.MaxLatency < 0:
		return nil, bad("maxLatency", "%v is negative", t.MaxLatency)
	case t.CertDays < 0 || t.CertDays > maxCertDays:
		return nil, bad("certDays", "%d is not one of 0 to %d", t.CertDays, maxCertDays)
	case t.CertDays > 0 && t.Kind != snapshot.KindHTTPS && t.Kind != snapshot.KindGRPCS:
		return nil, bad("certDays", "kind %s has no certificate", t.Kind)
	case t.Family != "" && t.Family != snapshot.FamilyIPv4 && t.Family != snapshot.FamilyIPv6:
		return nil, bad("family", "%q is neither ipv4 nor ipv6", t.Family)
	}
	g.port = uint16(t.Port)
	if err := g.setAddress(t.Address); err != nil {
		return nil, err
	}
	switch t.Kind {
	case snapshot.KindHTTP, snapshot.KindHTTPS:
		return g, g.setHTTP(t)
	case snapshot.KindGRPC, snapshot.KindGRPCS:
		return g, g.setGRPC(t)
	case snapshot.KindDNS:
		return g, g.setDNS(t)
	}
	return g, nil // tcp, udp16 and icmp ask nothing that could be wrong
}

// grpc reports whether gRPC is spoken.
func (g *Target) grpc() bool { return g.kind == snapshot.KindGRPC || g.kind == snapshot.KindGRPCS }

func (g *Target) setAddress(address string) error {
	if a, err := netip.ParseAddr(address); err == nil {
		g.addr = a.Unmap()
		if g.family != "" && g.family != familyWord(g.addr) {
			return bad("family", "%s is not an %s address", g.addr, g.family)
		}
		return nil
	}
	name, err := asciiName(address)
	if err != nil || !strings.Contains(name, ".") && name != "localhost" {
		return bad("address", "%q is neither an IP address nor a full host name", address)
	}
	g.name = name + "."
	return nil
}

// asciiName turns a host name into lower-case A-labels without a final dot (RFC 5891). Names of letters, digits,
// hyphens and underscores pass as they are: some CDN names have underscores, which IDNA refuses.
func asciiName(name string) (string, error) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if strings.ContainsFunc(name, func(r rune) bool { return r > '~' }) {
		var err error
		if name, err = idna.Lookup.ToASCII(name); err != nil {
			return "", err
		}
	}
	if len(name) > maxName {
		return "", errors.New("it is too long")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("%q is not a label of a host name", label)
		}
	}
	return name, nil
}

// Limits of names (RFC 1035 section 2.3.4): 255 octets on the wire are at most 253 of text.
const (
	maxName  = 253
	maxLabel = 63
)

func (g *Target) setHTTP(t *snapshot.ProbeTask) error {
	if t.Method != "HEAD" && t.Method != "GET" {
		return bad("method", "%q is not HEAD or GET", t.Method)
	}
	if t.Body != "" && t.Method == "HEAD" {
		return bad("body", "an answer to HEAD has no body; the method must be GET")
	}
	if len(t.Body) > bodyLimit {
		return bad("body", "%d bytes cannot be in the first %d of a body", len(t.Body), bodyLimit)
	}
	for _, r := range t.Statuses {
		if r.Min < 100 || r.Max > 999 || r.Min > r.Max {
			return bad("statuses", "%d-%d is not a range of status codes", r.Min, r.Max)
		}
	}
	u, err := g.parse(t)
	if err != nil {
		return err
	}
	g.host, g.uri = hostHeader(g.sni, u), requestTarget(u)
	return nil
}

// parse reads the URL of a task, whose scheme is its kind, and its host.
func (g *Target) parse(t *snapshot.ProbeTask) (*url.URL, error) {
	u, err := url.Parse(t.URL)
	switch {
	case err != nil:
		return nil, bad("url", "%v", err)
	case u.Scheme != t.Kind:
		return nil, bad("url", "the scheme of %q is not %s", t.URL, t.Kind)
	case u.Hostname() == "":
		return nil, bad("url", "%q has no host", t.URL)
	case u.User != nil:
		return nil, bad("url", "it holds a user; credentials have no place in a probe")
	}
	if g.sni, err = hostOf(u.Hostname()); err != nil {
		return nil, bad("url", "its host %q is neither an IP address nor a host name", u.Hostname())
	}
	return u, nil
}

func hostOf(host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.WithZone("").String(), nil
	}
	return asciiName(host)
}

// hostHeader is host[:port] as RFC 9110 section 7.2 wants it: the port only when it is not the scheme's own.
func hostHeader(host string, u *url.URL) string {
	port := u.Port()
	usual := strconv.Itoa(defaultPort(u.Scheme))
	if port != "" && port != usual {
		return net.JoinHostPort(host, port)
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// requestTarget is path and query, with what may not stand in a request line escaped (RFC 9112 section 3.2).
func requestTarget(u *url.URL) string {
	var b strings.Builder
	for _, c := range []byte(u.RequestURI()) {
		if c <= ' ' || c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func defaultPort(scheme string) int {
	switch scheme {
	case snapshot.KindHTTPS, snapshot.KindGRPCS:
		return 443
	case snapshot.KindHTTP:
		return 80
	}
	return 0 // gRPC in the clear has none
}

// accepts reports whether a status is in the expectation.
func (g *Target) accepts(status int) bool {
	for _, r := range g.statuses {
		if r.Min <= status && status <= r.Max {
			return true
		}
	}
	return len(g.statuses) == 0
}

// Literal is the address that is probed, or the zero Addr for a named target.
func (g *Target) Literal() netip.Addr { return g.addr }
