package check

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	"steerpoint/report"
)

// handshake makes conn a TLS connection with the URL's host as SNI, and verifies the certificate against it. Only one
// protocol is offered, and sessions are never resumed: each probe measures the same thing.
func (p *probe) handshake(conn net.Conn) (net.Conn, error) {
	p.phase = "in the TLS handshake"
	protocol := "http/1.1"
	if p.grpc() {
		protocol = "h2"
	}
	c := tls.Client(conn, &tls.Config{
		ServerName:             p.sni,
		RootCAs:                p.cfg.Roots,
		InsecureSkipVerify:     !p.verify, // the operator's own word: expect.tlsVerify
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true,
		MinVersion:             tls.VersionTLS12,
	})
	if err := c.Handshake(); err != nil {
		return nil, p.tlsFailure(err)
	}
	p.o.Phases.TLS = p.lap()
	p.o.Latency += p.o.Phases.TLS
	state := c.ConnectionState()
	p.o.CertExpiry = expiry(&state)
	if err := p.lastsLong(p.o.CertExpiry); err != nil {
		return nil, err
	}
	if p.grpc() && state.NegotiatedProtocol != protocol {
		return nil, failf(report.CauseTLS, "the server does not offer HTTP/2 (ALPN h2), which gRPC needs")
	}
	return c, nil
}

// expiry is until when clients can trust the server. Servers present certificates that nobody needs, such as an ended
// cross-signature beside the path that holds: so of the paths that were verified the one that lasts longest counts,
// until its first certificate ends, the root of this point's own store left out. Where nothing was verified it is the
// first end among all that were presented.
func expiry(s *tls.ConnectionState) time.Time {
	if len(s.VerifiedChains) == 0 {
		return firstEnd(s.PeerCertificates)
	}
	var last time.Time
	for _, chain := range s.VerifiedChains {
		if end := firstEnd(chain[:max(1, len(chain)-1)]); end.After(last) {
			last = end
		}
	}
	return last
}

func firstEnd(chain []*x509.Certificate) (end time.Time) {
	for i, c := range chain {
		if i == 0 || c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return written(end)
}

// written is the end of a certificate in UTC, as far as it can be written: a certificate may end in an offset from UTC
// that puts it before the year 0 or after 9999, which JSON does not have, and one such observation would hold up all
// others of the point.
func written(end time.Time) time.Time {
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	switch end = end.UTC(); {
	case end.Before(first):
		return first
	case end.After(last):
		return last
	}
	return end
}

// lastsLong judges expect.certDays, by this point's clock as all of the verification is.
func (p *probe) lastsLong(end time.Time) error {
	if left := time.Until(end); p.certDays > 0 && left < time.Duration(p.certDays)*24*time.Hour {
		return failf(report.CauseTLS, "the certificate ends on %s, in fewer than %d days", end.Format(time.RFC3339), p.certDays)
	}
	return nil
}
