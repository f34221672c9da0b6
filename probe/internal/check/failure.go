package check

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"steerpoint/report"
	"steerpoint/snapshot"
)

// failure is why a probe failed, with one short sentence for people.
type failure struct {
	cause  report.Cause
	detail string
}

// Error is the sentence.
func (f *failure) Error() string { return f.detail }

func failf(cause report.Cause, format string, args ...any) *failure {
	return &failure{cause, fmt.Sprintf(format, args...)}
}

// round makes a duration short to read: four digits at most.
func round(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d
}

// isTimeout takes a deadline of ours and one of the kernel's (ETIMEDOUT) alike.
func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// pointsOwn are errors of connect(2) and socket(2) that come from this machine and say nothing of the target.
var pointsOwn = []struct {
	errno syscall.Errno
	what  string
}{
	{syscall.EMFILE, "this process has no file descriptor left"},
	{syscall.ENFILE, "this machine has no file descriptor left"},
	{syscall.ENOBUFS, "this machine has no buffer space left"},
	{syscall.ENOMEM, "this machine has no memory left"},
	{syscall.EADDRNOTAVAIL, "this machine has no address or port left to connect from"},
	{syscall.EAFNOSUPPORT, "this machine does not have the address family"},
	{syscall.EINVAL, "this machine cannot connect to such an address"},
	{syscall.EACCES, "this machine's rules do not let it connect there"},
	{syscall.EPERM, "this machine's rules do not let it connect there"},
}

func local(err error) *failure {
	for _, own := range pointsOwn {
		if errors.Is(err, own.errno) {
			return failf(report.CauseLocal, "%s", own.what)
		}
	}
	return nil
}

// connectFailure names why a connection was not made.
func (p *probe) connectFailure(err error) error {
	if f := local(err); f != nil {
		return f
	}
	to := p.o.Address
	switch {
	case isTimeout(err):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return failf(report.CauseRefused, "%s", p.refusal())
	case errors.Is(err, syscall.ECONNRESET):
		return failf(report.CauseReset, "%s reset the connection while it was made", to)
	case !p.routed(to.Addr()) && !p.connected(to.Addr()):
		return failf(report.CauseLocal, "this machine has no route to any %s address", family(to.Addr()))
	}
	return failf(report.CauseUnreachable, "no way to %s: %s", to, errnoText(err))
}

// refusal says what a closed port means: TCP resets, for UDP the host says so by ICMP (port unreachable).
func (p *probe) refusal() string {
	switch {
	case p.kind == snapshot.KindICMP:
		return fmt.Sprintf("%s does not take ICMP echo", p.o.Address.Addr())
	case p.over == "udp":
		return fmt.Sprintf("nothing listens at %s (UDP)", p.o.Address)
	}
	return fmt.Sprintf("%s refused the connection", p.o.Address)
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

func errnoText(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return clean(err.Error())
}

// farAway are addresses that stand for "anything": root name servers a, k and m
// (https://www.iana.org/domains/root/servers). Nothing is sent to them.
var farAway = map[string][]string{
	"IPv4": {"198.41.0.4", "193.0.14.129", "202.12.27.33"},
	"IPv6": {"2001:503:ba3e::2:30", "2001:7fd::1", "2001:dc3::35"},
}

// connected reports whether this machine has a route to anything far away in a's family.
func (c *Checker) connected(a netip.Addr) bool {
	return slices.ContainsFunc(farAway[family(a)], func(far string) bool { return c.routed(netip.MustParseAddr(far)) })
}

// routed reports whether this machine has a route to a. Connecting a UDP socket asks the routing table and sends
// nothing; the port does not matter.
func routed(a netip.Addr) bool {
	conn, err := net.Dial("udp", netip.AddrPortFrom(a, 53).String())
	if err != nil {
		return false
	}
	conn.Close() // it was never used
	return true
}

// ioFailure names what went wrong on a connection that was made.
func (p *probe) ioFailure(err error) *failure {
	if f := local(err); f != nil {
		return f
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failf(report.CauseReset, "closed by the other side while %s", p.phase)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return failf(report.CauseReset, "reset by the other side while %s", p.phase)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		return failf(report.CauseUnreachable, "the way broke while %s: %s", p.phase, errnoText(err))
	}
	// With TLS 1.3 a server's refusal (a missing client certificate) comes as an alert after the handshake.
	if op := new(net.OpError); errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") {
		return failf(report.CauseTLS, "TLS broke while %s: %s", p.phase, clean(op.Error()))
	}
	return failf(report.CauseProtocol, "%s while %s", clean(err.Error()), p.phase)
}

// tlsFailure names why a handshake failed, in words that tell which of the usual causes it is.
func (p *probe) tlsFailure(err error) error {
	if isTimeout(err) || local(err) != nil {
		return err
	}
	var (
		invalid x509.CertificateInvalidError
		host    x509.HostnameError
		unknown x509.UnknownAuthorityError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		c := invalid.Cert
		p.o.CertExpiry = written(c.NotAfter)
		return failf(report.CauseTLS, "the certificate of %s is valid from %s to %s, not now",
			certName(c), c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &host):
		return failf(report.CauseTLS, "the certificate is for %s, not for %s", certName(host.Certificate), p.sni)
	case errors.As(err, &unknown):
		return failf(report.CauseTLS, "the certificate of %s is not signed by an authority this point trusts", certName(unknown.Cert))
	case errors.As(err, &record):
		return failf(report.CauseTLS, "what answers does not speak TLS")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failf(report.CauseTLS, "closed by the other side in the TLS handshake")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return failf(report.CauseTLS, "reset by the other side in the TLS handshake")
	}
	return failf(report.CauseTLS, "TLS handshake: %s", clean(strings.TrimPrefix(err.Error(), "tls: ")))
}

// certName is the first name a certificate is for.
func certName(c *x509.Certificate) string {
	switch {
	case c == nil:
		return "an unknown name"
	case len(c.DNSNames) > 0:
		return clean(c.DNSNames[0])
	case len(c.IPAddresses) > 0:
		return c.IPAddresses[0].String()
	}
	return strconv.Quote(clean(c.Subject.CommonName))
}

// detailLimit bounds what a peer can put into a sentence.
const detailLimit = 120

// clean makes text that a peer may have written harmless: printable ASCII, and short.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	if len(s) > detailLimit {
		return s[:detailLimit] + "..."
	}
	return s
}
