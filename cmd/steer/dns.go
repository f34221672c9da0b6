package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/spf13/cobra"

	"steerpoint/authdns"
	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/settings"
)

// dnsFlags are the options of the name server, over what steer.yaml says of it.
type dnsFlags struct {
	certificate, key string
	proxies          []string
}

func (f *dnsFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.certificate, "dns-certificate", "", "file with the certificate for dot and doh, in PEM form (default: one that nobody vouches for)")
	c.Flags().StringVar(&f.key, "dns-key", "", "file with its key (default: in the file of the certificate)")
	c.Flags().StringArrayVar(&f.proxies, "dns-proxy", nil, "network whose queries begin with a PROXY v2 header (repeatable)")
}

// over puts the options over the settings. Paths of options are as seen from here.
func (f *dnsFlags) over(s *settings.Settings) error {
	if f.key != "" && f.certificate == "" {
		return fault.Usage("--dns-key without --dns-certificate", "give both")
	}
	if f.certificate != "" {
		s.DNS.Certificate, s.DNS.Key = f.certificate, f.key
	}
	for _, path := range []*string{&s.DNS.Certificate, &s.DNS.Key} {
		if *path == "" {
			continue
		}
		whole, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = whole
	}
	for _, p := range f.proxies {
		var n settings.Network
		if err := n.UnmarshalText([]byte(p)); err != nil {
			return fault.Usage("--dns-proxy "+p+": "+err.Error(), "")
		}
		s.DNS.Proxies = append(s.DNS.Proxies, n)
	}
	return nil
}

// dnsConfig adds to a configuration of the name server where it listens and what the settings say of it.
func dnsConfig(s *settings.Settings, c authdns.Config) (authdns.Config, error) {
	var err error
	if c.Listen, err = s.Bind(settings.RoleDNS); err != nil {
		return c, err
	}
	if c.DoT, err = s.BindIf(settings.RoleDoT); err != nil {
		return c, err
	}
	if c.DoH, err = s.BindIf(settings.RoleDoH); err != nil {
		return c, err
	}
	d := &s.DNS
	c.Certificate, c.Key, c.Proxies, c.NSID = d.Certificate, d.Key, settings.Prefixes(d.Proxies), d.NSID
	c.MaxUDP, c.MaxUDPNoCookie = d.MaxUDP, d.MaxUDPWithoutCookie
	c.TCPTotal, c.TCPPerClient = d.Connections, d.ConnectionsPerClient
	l := &d.RateLimit
	c.RateLimit = authdns.RateLimit{
		Off: l.Off, Answers: l.Answers, NXDomains: l.NXDomains, Errors: l.Errors, Total: l.Total, Slip: l.Slip,
	}
	if len(l.Exempt) > 0 {
		c.RateLimit.Exempt = append(authdns.Loopback(), settings.Prefixes(l.Exempt)...)
	}
	return c, nil
}

// dnsFault says why the name server does not start.
func dnsFault(s *settings.Settings, err error) error {
	if errors.Is(err, authdns.ErrCertificate) {
		return &fault.Error{
			Exit: fault.ExitBadInput, Code: "DNS_CERTIFICATE", What: "the certificate for dot and doh cannot be used", Why: err.Error(),
			Do: "give a certificate and its key in PEM form with --dns-certificate FILE and --dns-key FILE, or neither", Err: err,
		}
	}
	role := authdns.FailedRole(err)
	return startFault(role, s.Listen[role], err)
}

// dnsListeners adds where the encrypted listeners are bound.
func dnsListeners(l map[string]string, s *authdns.Server) {
	for role, bound := range map[string][]netip.AddrPort{settings.RoleDoT: s.DoT(), settings.RoleDoH: s.DoH()} {
		if len(bound) > 0 {
			l[role] = bound[0].String()
		}
	}
}

// encrypted tells people where the encrypted listeners are; "" where there are none.
func encrypted(s *authdns.Server) string {
	text := ""
	if dot := s.DoT(); len(dot) > 0 {
		text += fmt.Sprintf(", DNS over TLS on %s", addrs(dot))
	}
	if doh := s.DoH(); len(doh) > 0 {
		text += fmt.Sprintf(", DNS over HTTPS on %s", addrs(doh))
	}
	return text
}
