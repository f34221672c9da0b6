package edge

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"steerpoint/edge/internal/h1"
)

// Config is what a gateway needs besides its site. The zero value serves plain HTTP on 127.0.0.1:8080.
type Config struct {
	// Listen are the addresses of plain HTTP, ListenTLS those of HTTPS; port 0: any free one. Both empty: 127.0.0.1:8080.
	Listen, ListenTLS []netip.AddrPort
	// Certificate chooses the certificate of a TLS handshake. It must be set with ListenTLS.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Trusted are networks of proxies in front: what they say in X-Forwarded-For, -Proto and -Host is believed. Empty: nobody is.
	Trusted []netip.Prefix
	// Proxies are networks whose connections begin with a header of the PROXY protocol, version 1 or 2, before TLS too: the
	// client it names is the peer from there on. Without one they are ended. Empty: nobody sends one.
	Proxies []netip.Prefix
	// AccessLog takes a line of JSON for each request. nil: there is no log.
	AccessLog io.Writer

	// Tracing says which requests are traced. nil: none, and what a request says of its trace goes on as it came.
	Tracing *Tracing
	// ServerTiming: responses say in Server-Timing what the time until their head went to.
	ServerTiming bool

	HeadTimeout time.Duration // a head must be complete this long after its first octet; 0: 10s
	IdleTimeout time.Duration // a connection without a request is closed after this; 0: 61s
	BodyTimeout time.Duration // so long may pass between two parts of a request body; 0: 30s
	// BodyRate is the least rate of a request body in octets a second, looked at from BodyGrace on: below it the sender is
	// taken to hold the connection for its own sake. 0: 500.
	BodyRate  int
	BodyGrace time.Duration // 0: 20s
	// BodyMemory is how many octets of request bodies are kept at once, of all requests: for rules that look at them, and to
	// be sent again. 0: 64 MiB.
	BodyMemory int64
	// WriteTimeout is how long a client may take for what is sent to it at once (up to 32 KiB). 0: 30s.
	WriteTimeout time.Duration

	MaxHead   int // octets of a head; 0: 64 KiB, which is also the most
	MaxTarget int // octets of a request target; 0: 8 KiB
	MaxField  int // octets of a field; 0: 16 KiB
	MaxFields int // number of fields; 0: 128

	MaxConnections int // open at once; 0: 10,000
	// MaxPerSource is how many of them one IPv4 address or IPv6 /64 may have; those in Trusted are not counted. 0: 1,000.
	MaxPerSource int
	// DisableHTTP2 leaves HTTP/2 out. Else it is offered over TLS, and spoken on plain connections that begin with it.
	DisableHTTP2 bool
	// MaxStreams is how many requests may be under way at once on a connection of HTTP/2. 0: 100.
	MaxStreams int
	// MaxHops is how many gateways of Steerpoint a request may pass before it is taken to go in a circle. 0: 8.
	MaxHops int
	// Drain is how long requests may go on after Run was told to end. 0: 30s.
	Drain time.Duration
}

// viaName is how a gateway names itself in Via, for all gateways alike: who they are is nobody's business.
const viaName = "steerpoint"

func (c Config) withDefaults() (Config, error) {
	if len(c.Listen) == 0 && len(c.ListenTLS) == 0 {
		c.Listen = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 8080)}
	}
	if len(c.ListenTLS) > 0 && c.Certificate == nil {
		return c, fmt.Errorf("gateway config: ListenTLS without Certificate")
	}
	for _, a := range slices.Concat(c.Listen, c.ListenTLS) {
		if !a.IsValid() {
			return c, fmt.Errorf("gateway config: %q is not an address with a port", a)
		}
	}
	for v, zero := range map[*time.Duration]time.Duration{
		&c.HeadTimeout: 10 * time.Second, &c.IdleTimeout: 61 * time.Second, &c.BodyTimeout: 30 * time.Second,
		&c.BodyGrace: 20 * time.Second, &c.WriteTimeout: 30 * time.Second, &c.Drain: 30 * time.Second,
	} {
		if *v < 0 {
			return c, fmt.Errorf("gateway config: a duration is negative")
		}
		if *v == 0 {
			*v = zero
		}
	}
	if c.BodyMemory < 0 {
		return c, fmt.Errorf("gateway config: the memory for bodies is negative")
	}
	if c.BodyMemory == 0 {
		c.BodyMemory = 64 << 20
	}
	for v, zero := range map[*int]int{
		&c.BodyRate: 500, &c.MaxConnections: 10_000, &c.MaxPerSource: 1000, &c.MaxHops: 8,
		&c.MaxStreams: 100,
		&c.MaxHead:    0, &c.MaxTarget: 0, &c.MaxField: 0, &c.MaxFields: 0,
	} {
		if *v < 0 {
			return c, fmt.Errorf("gateway config: a count is negative")
		}
		if *v == 0 {
			*v = zero
		}
	}
	return c, nil
}

func (c *Config) limits() h1.Limits {
	return h1.Limits{Head: c.MaxHead, Target: c.MaxTarget, Field: c.MaxField, Fields: c.MaxFields}
}
