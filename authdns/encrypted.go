package authdns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/answer"
	"steerpoint/authdns/internal/cookie"
	"steerpoint/authdns/internal/doh"
	"steerpoint/authdns/internal/server"
	"steerpoint/internal/certfile"
	"steerpoint/internal/proxyproto"
	"steerpoint/snapshot"
)

// ErrCertificate is matched by the error of New for a certificate that cannot be used. Its text begins with
// DNS_CERTIFICATE.
var ErrCertificate = errors.New("no certificate")

// certificateEvery is how often the files of the certificate are looked at.
const certificateEvery = 10 * time.Second

// DoT are the addresses really bound for DNS over TLS, DoH those for DNS over HTTPS, in the order of the configuration.
func (s *Server) DoT() []netip.AddrPort { return s.sockets.Encrypted(server.DoT) }

// DoH are the addresses really bound for DNS over HTTPS.
func (s *Server) DoH() []netip.AddrPort { return s.sockets.Encrypted(server.DoH) }

// openEncrypted adds to the sockets what encryption needs, if there is any.
func (s *Server) openEncrypted(sockets *server.Config, reg prometheus.Registerer) error {
	if len(s.cfg.DoT)+len(s.cfg.DoH) == 0 {
		return nil
	}
	var err error
	if s.cfg.Certificate == "" {
		s.certs, err = certfile.Make("steer name server", time.Now())
		s.log.Info("the certificate of DoT and DoH is made here, and nobody vouches for it: name one with --dns-certificate FILE")
	} else {
		s.certs, err = certfile.Load(s.cfg.Certificate, s.cfg.Key)
	}
	if err != nil {
		return fmt.Errorf("DNS_CERTIFICATE: the encrypted listeners cannot be opened: %w: give a certificate and its key in PEM form "+
			"with --dns-certificate FILE and --dns-key FILE: %w", err, ErrCertificate)
	}
	ends := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "steer_authdns_certificate_end_seconds", Help: "When the certificate of DoT and DoH ends, in seconds since 1970.",
	}, func() float64 { return float64(s.certs.NotAfter().Unix()) })
	if err := reg.Register(ends); err != nil {
		return fmt.Errorf("name server metrics: %w", err)
	}
	sockets.TLS, sockets.Web = server.TLS(s.certs.Get), doh.New(s.webAnswer())
	return nil
}

// webAnswer makes the function that answers queries of DoH. Handlers are used again: there is one for each query under
// way, not for each connection.
func (s *Server) webAnswer() doh.Answer {
	pool := sync.Pool{New: func() any { return s.handler(server.DoH) }}
	return func(dst, query []byte, client netip.Addr) (reply []byte, private bool) {
		h, _ := pool.Get().(*handler)
		defer pool.Put(h)
		reply = h.Handle(dst, query, client, time.Now())
		return reply, h.x.Result.Source == answer.SourceResolver
	}
}

// FailedRole is the role whose listener the error of New is about: dns, dot or doh.
func FailedRole(err error) string {
	if e, ok := errors.AsType[*server.ListenError](err); ok {
		return e.Transport.String()
	}
	return "dns"
}

// watchCertificate takes in another certificate when its files change.
func (s *Server) watchCertificate(ctx context.Context) {
	if s.certs == nil || s.certs.Made() {
		return
	}
	tick := time.NewTicker(certificateEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			said = s.reloadCertificate(ctx, said)
		}
	}
}

// reloadCertificate looks at the files and returns what is wrong with them, which is said once.
func (s *Server) reloadCertificate(ctx context.Context, said string) string {
	changed, err := s.certs.Reload()
	switch {
	case err != nil && err.Error() != said:
		s.log.ErrorContext(ctx, "the new certificate of DoT and DoH cannot be used: the one before stays",
			"code", "DNS_CERTIFICATE", "error", err, "ends", s.certs.NotAfter())
		return err.Error()
	case changed:
		s.log.InfoContext(ctx, "another certificate for DoT and DoH", "ends", s.certs.NotAfter())
		return ""
	case err == nil:
		return ""
	}
	return said
}

// useCookies changes to the secrets of a map. Without any those in use stay.
func (s *Server) useCookies(c *snapshot.CookieSecrets) {
	if c == nil {
		return
	}
	set := cookie.Set{Sign: cookie.Secret(c.Sign)}
	for _, a := range c.Accept {
		set.Accept = append(set.Accept, cookie.Secret(a))
	}
	s.cookies.Use(set)
}

// unwrap takes the header of a proxy from the beginning of a datagram. false: there is none, or none that can be read.
func (s *Server) unwrap(peer netip.Addr, msg []byte) (client netip.Addr, query []byte, ok bool) {
	if !proxyproto.Trusted(s.cfg.Proxies).Contains(peer) {
		return peer, msg, true
	}
	h, n, err := proxyproto.Parse(msg, true)
	if err != nil {
		s.metrics.proxied.Inc()
		return peer, nil, false
	}
	if h.Client.IsValid() {
		peer = h.Client.Addr()
	}
	return peer, msg[n:], true
}
