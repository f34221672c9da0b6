package spec

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// OriginGroup finds an origin group of the service by name, or nil.
func (s *Service) OriginGroup(name string) *OriginGroup {
	for i := range s.OriginGroups {
		if s.OriginGroups[i].Name == name {
			return &s.OriginGroups[i]
		}
	}
	return nil
}

// Host is the address or the name in the origin's address.
func (o *Origin) Host() string {
	host, _, err := net.SplitHostPort(string(o.Address))
	if err != nil {
		return "" // Parse returns none such
	}
	return host
}

// Port is the origin's port for http or https.
func (o *Origin) Port(scheme string) int {
	written, usual := o.HTTPPort, 80
	if scheme == "https" {
		written, usual = o.HTTPSPort, 443
	}
	switch {
	case scheme == o.Scheme:
		_, port, err := net.SplitHostPort(string(o.Address))
		n, bad := strconv.Atoi(port)
		if err == nil && bad == nil {
			return n
		}
	case written != 0:
		return written
	}
	return usual
}

// ServerName is the name looked for in the origin's certificate: tls.serverName, hostHeader, or the host in address.
func (o *Origin) ServerName() string {
	switch {
	case o.TLS.ServerName != "":
		return string(o.TLS.ServerName)
	case o.HostHeader != "":
		return string(o.HostHeader)
	}
	return o.Host()
}

// ProbeTimeout is the time one probe of the origins may take: 5s by default, and never more than the interval.
func (h *Health) ProbeTimeout() Duration {
	if h.Timeout != 0 {
		return h.Timeout
	}
	return min(defaultTimeout, h.Interval)
}

// BurstSize is how many requests may come at once: by default as many as are allowed in the whole time.
func (r *RateLimit) BurstSize() int {
	if r.Burst != 0 {
		return r.Burst
	}
	return r.Requests
}

// effectiveGateway fills in what origin groups and rate limits decide by themselves; the lists are copies afterwards.
func (s *Service) effectiveGateway() {
	s.OriginGroups = slices.Clone(s.OriginGroups)
	for i := range s.OriginGroups {
		g := &s.OriginGroups[i]
		g.Health.Timeout = g.Health.ProbeTimeout()
		g.Origins = slices.Clone(g.Origins)
		for j := range g.Origins {
			o := &g.Origins[j]
			o.HTTPPort, o.HTTPSPort = o.Port("http"), o.Port("https")
			if _, err := netip.ParseAddr(o.ServerName()); err != nil {
				o.TLS.ServerName = HostName(o.ServerName())
			}
		}
	}
	s.Policies.RateLimit = slices.Clone(s.Policies.RateLimit)
	for i := range s.Policies.RateLimit {
		s.Policies.RateLimit[i].Burst = s.Policies.RateLimit[i].BurstSize()
	}
}
