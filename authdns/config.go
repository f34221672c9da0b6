package authdns

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"steerpoint/authdns/internal/answer"
	"steerpoint/authdns/internal/cookie"
	"steerpoint/authdns/internal/server"
	"steerpoint/internal/inherit"
)

// Config is what a name server needs besides its map. The zero value answers on 127.0.0.1:5300 and keeps nothing on
// disk.
type Config struct {
	// Listen are the addresses served, UDP and TCP on each; port 0: any port free for both. Empty: 127.0.0.1:5300.
	// A wildcard address serves its family only: 0.0.0.0 and [::] together serve everything.
	Listen []netip.AddrPort
	// Sockets is how many UDP sockets, each with its own goroutine, share an address. 0: GOMAXPROCS.
	Sockets int
	// ReadBuffer is the receive buffer of a UDP socket in octets. 0: 1 MiB. The kernel may give less.
	ReadBuffer int
	// Inherited are sockets of the program that ran before in this process: the addresses found among them are served by
	// them, the others by new ones, which are kept there for the next program. nil: none.
	Inherited *inherit.Sockets
	// MaxUDP is the largest UDP reply in octets, 512..4096, whatever the client offers. 0: 1232, which no path has to
	// fragment (RFC 9715).
	MaxUDP int

	// NSID names this server to who asks (RFC 5001), at most 128 octets. Empty: not told.
	NSID string
	// VersionText and Hostname are told to who asks for version.bind, and for hostname.bind or id.server, in class
	// CH; at most 128 octets each. Empty: REFUSED.
	VersionText, Hostname string
	// CookieSecret is the key of server cookies (RFC 9018), 16 octets, until a map brings those that all name servers of
	// the cluster share. Empty: a random one.
	CookieSecret []byte
	// MaxUDPNoCookie is MaxUDP for queries without a cookie of ours, which may come from elsewhere than they say.
	// 0: MaxUDP. Otherwise at least 512.
	MaxUDPNoCookie int
	// RateLimit bounds the replies over UDP to queries without a cookie of ours.
	RateLimit RateLimit

	// DoT and DoH are where encrypted queries are taken (RFC 7858, RFC 8484); port 0: any free one. Empty: nowhere.
	DoT, DoH []netip.AddrPort
	// Certificate and Key are files in PEM form, read again when they change; Key may be empty if both are in one. Empty:
	// a certificate that nobody vouches for is made at each start, for resolvers that encrypt without checking (RFC 9539).
	Certificate, Key string
	// Proxies are networks whose queries begin with a PROXY header (version 2), over every transport, that says who the
	// client is. Without one they are dropped. Empty: nobody's do.
	Proxies []netip.Prefix

	TCPIdle    time.Duration // a connection without a query is closed after this; 0: 10s
	TCPMessage time.Duration // a query must be complete this long after its first octet; 0: 5s
	TCPWrite   time.Duration // a client must take a reply within this; 0: 5s
	// TCPTotal is how many connections may be open at once, encrypted ones included. 0: 10,000, but no more than half the
	// files the process may open.
	TCPTotal     int
	TCPPerClient int // of them of one IPv4 address or IPv6 /64; 0: 50

	// StateFile keeps the newest map, so that a restart answers without control. Empty: nothing is kept. Its folder
	// must exist.
	StateFile string
	// StateEvery is the least time between two writes of StateFile; the first change is written at once. A map that takes
	// long to write is written less often: a twentieth of the time goes into it at most. 0: 1s.
	StateEvery time.Duration

	// SilentAfter is after how long without a map or a Confirm control counts as silent: steered answers then say so in
	// an extended error (RFC 8914) with a text, and answer on. 0: never, control is in this process.
	SilentAfter time.Duration

	// OpenKeys opens what is sealed for a use in a map: the private keys of signed zones (snapshot.SigningUse), and the
	// secrets that name servers share (snapshot.SecretsUse). It is called when a map brings others. nil: nobody can; signed
	// zones then fail for who asks for signatures, and messages that are signed by a key are refused.
	OpenKeys func(use string, sealed []byte) ([]byte, error)

	// Updates takes DNS UPDATE messages (RFC 2136) that are signed by a key of their zone. nil: all are refused.
	Updates Updates

	updateWait time.Duration // how long one is waited for, in tests; 0: as documented

	// Place names the place of an address in explanations. nil: they do not name it.
	Place func(netip.Addr) string
}

const (
	defaultPort = 5300
	// safeUDP is the reply size of DNS Flag Day 2020 and RFC 9715: 1280, the least IPv6 MTU, less headers.
	safeUDP = 1232
	maxText = 128 // so that OPT always fits beside the longest question in 512 octets
)

// withDefaults fills in what is zero and refuses what cannot be.
func (c Config) withDefaults() (Config, error) {
	if len(c.Listen) == 0 {
		c.Listen = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), defaultPort)}
	}
	orInt(&c.Sockets, runtime.GOMAXPROCS(0))
	orInt(&c.ReadBuffer, 1<<20)
	orInt(&c.MaxUDP, safeUDP)
	orInt(&c.TCPTotal, connectionsFor(openFiles()))
	if err := c.RateLimit.withDefaults(); err != nil {
		return c, err
	}
	orInt(&c.TCPPerClient, 50)
	orDuration(&c.TCPIdle, 10*time.Second)
	orDuration(&c.TCPMessage, 5*time.Second)
	orDuration(&c.TCPWrite, 5*time.Second)
	orDuration(&c.StateEvery, time.Second)
	for name, text := range map[string]string{"NSID": c.NSID, "VersionText": c.VersionText, "Hostname": c.Hostname} {
		if len(text) > maxText {
			return c, fmt.Errorf("name server config: %s has %d octets: at most %d", name, len(text), maxText)
		}
	}
	for _, a := range slices.Concat(c.Listen, c.DoT, c.DoH) {
		if !a.IsValid() {
			return c, fmt.Errorf("name server config: %q is not an address with a port", a)
		}
	}
	switch {
	case c.MaxUDP < 512 || c.MaxUDP > 4096:
		return c, fmt.Errorf("name server config: MaxUDP is %d: want 512 to 4096", c.MaxUDP)
	case c.MaxUDPNoCookie != 0 && (c.MaxUDPNoCookie < 512 || c.MaxUDPNoCookie > c.MaxUDP):
		return c, fmt.Errorf("name server config: MaxUDPNoCookie is %d: want 0, or 512 to %d (MaxUDP)", c.MaxUDPNoCookie, c.MaxUDP)
	case min(c.Sockets, c.ReadBuffer, c.TCPTotal, c.TCPPerClient) < 0:
		return c, fmt.Errorf("name server config: a count is negative")
	case min(c.TCPIdle, c.TCPMessage, c.TCPWrite, c.StateEvery, c.SilentAfter) < 0:
		return c, fmt.Errorf("name server config: a duration is negative")
	case len(c.CookieSecret) != 0 && len(c.CookieSecret) != len(cookie.Secret{}):
		return c, fmt.Errorf("name server config: the cookie secret has %d octets: want %d", len(c.CookieSecret), len(cookie.Secret{}))
	}
	return c, nil
}

func orInt(v *int, zero int) {
	if *v == 0 {
		*v = zero
	}
}

func orDuration(v *time.Duration, zero time.Duration) {
	if *v == 0 {
		*v = zero
	}
}

func (c *Config) answers() (answer.Config, error) {
	var secret cookie.Secret
	if copy(secret[:], c.CookieSecret) == 0 {
		if _, err := rand.Read(secret[:]); err != nil {
			return answer.Config{}, fmt.Errorf("make cookie secret: %w", err)
		}
	}
	return answer.Config{
		MaxUDP: c.MaxUDP, NSID: c.NSID, Version: c.VersionText, Hostname: c.Hostname,
		Cookies: cookie.NewKeys(cookie.Set{Sign: secret}), TCPIdle: c.TCPIdle,
		MaxUDPNoCookie: c.MaxUDPNoCookie, Limit: c.RateLimit.limiter(),
	}, nil
}

func (c *Config) sockets() server.Config {
	return server.Config{
		Listen: c.Listen, Sockets: c.Sockets, ReadBuffer: c.ReadBuffer, Inherited: c.Inherited,
		TCPIdle: c.TCPIdle, TCPMessage: c.TCPMessage, TCPWrite: c.TCPWrite,
		TCPTotal: c.TCPTotal, TCPPerClient: c.TCPPerClient,
		DoT: c.DoT, DoH: c.DoH, Proxies: c.Proxies,
	}
}
