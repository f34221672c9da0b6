package settings

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

// Roles of the name server's encrypted listeners; unset: there are none. 853 and 443 are the usual ports.
const (
	RoleDoT = "dot" // DNS over TLS
	RoleDoH = "doh" // DNS over HTTPS
)

// DNS is how the name server of this process behaves. The zero value of each field means the default.
type DNS struct {
	// Certificate and Key are files in PEM form for DoT and DoH, read again when they change. A relative path is in the
	// data folder. Key "": it is in the file of the certificate. Both "": a certificate nobody vouches for is made.
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	// Proxies are networks that say by a PROXY header (version 2) who asks.
	Proxies []Network `yaml:"proxies"`
	// NSID names this server to who asks for it.
	NSID string `yaml:"nsid"`
	// MaxUDP is the largest reply over UDP in octets, default 1232; MaxUDPWithoutCookie the same for who has shown no
	// cookie of ours, default MaxUDP.
	MaxUDP              int `yaml:"maxUDP"`
	MaxUDPWithoutCookie int `yaml:"maxUDPWithoutCookie"`
	// Connections is how many may be open, over TCP, DoT and DoH together, default 10000; ConnectionsPerClient of one IPv4
	// address or IPv6 /64, default 50.
	Connections          int `yaml:"connections"`
	ConnectionsPerClient int `yaml:"connectionsPerClient"`
	// RateLimit bounds the replies a second over UDP to one network.
	RateLimit DNSRateLimit `yaml:"rateLimit"`
}

// DNSRateLimit is limits in replies a second to an IPv4 /24 or IPv6 /56 that shows no cookie of ours; -1: no limit.
type DNSRateLimit struct {
	Off       bool `yaml:"off"`
	Answers   int  `yaml:"answers"`   // of one name; default 200
	NXDomains int  `yaml:"nxdomains"` // of one zone; default 200
	Errors    int  `yaml:"errors"`    // default 100
	Total     int  `yaml:"total"`     // of all; default 5000
	// Slip: of so many replies over a limit one is sent empty, with TC, and the others dropped; default 1, -1: none.
	Slip int `yaml:"slip"`
	// Exempt are networks without limits, besides loopback.
	Exempt []Network `yaml:"exempt"`
}

// Network is a network, or one address.
type Network netip.Prefix

// UnmarshalText reads one.
func (n *Network) UnmarshalText(text []byte) error {
	s := string(text)
	if !strings.Contains(s, "/") {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			*n = Network(netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
			return nil
		}
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf("%q is no network: write it like 192.0.2.0/24 or 2001:db8::/32", s)
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 { // an IPv4 network in IPv6 form: addresses are compared as IPv4
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	*n = Network(p.Masked())
	return nil
}

// Prefixes are networks as the name server takes them.
func Prefixes(list []Network) (p []netip.Prefix) {
	for _, n := range list {
		p = append(p, netip.Prefix(n))
	}
	return p
}

// in puts relative paths into the data folder.
func (d *DNS) in(dir string) {
	for _, path := range []*string{&d.Certificate, &d.Key} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
}

// BindIf is Bind for a role that may be unset: then it binds nowhere.
func (s *Settings) BindIf(role string) ([]netip.AddrPort, error) {
	if s.Listen[role] == "" {
		return nil, nil
	}
	return s.Bind(role)
}
