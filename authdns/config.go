package authdns

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"runtime"
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
	// CookieSecret is the key of server cookies (RFC 9018), 16 octets; servers behind one address share it. Empty: a
	// random one for the life of the process.
	CookieSecret []byte

	TCPIdle      time.Duration // a connection without a query is closed after this; 0: 10s
	TCPMessage   time.Duration // a query must be complete this long after its first octet; 0: 5s
	TCPWrite     time.Duration // a client must take a reply within this; 0: 5s
	TCPTotal     int           // connections open at once; 0: 1000
	TCPPerClient int           // of them of one IPv4 address or IPv6 /64; 0: 50

	// StateFile keeps the newest map, so that a restart answers without control. Empty: nothing is kept. Its folder
	// must exist.
	StateFile string
	// StateEvery is the least time between two writes of StateFile; the first change is written at once. 0: 1s.
	StateEvery time.Duration

	// SilentAfter is after how long without a map or a Confirm control counts as silent: steered answers then say so in
	// an extended error (RFC 8914) with a text, and answer on. 0: never, control is in this process.
	SilentAfter time.Duration

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
	orInt(&c.TCPTotal, 1000)
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
	for _, a := range c.Listen {
		if !a.IsValid() {
			return c, fmt.Errorf("name server config: %q is not an address with a port", a)
		}
	}
	switch {
	case c.MaxUDP < 512 || c.MaxUDP > 4096:
		return c, fmt.Errorf("name server config: MaxUDP is %d: want 512 to 4096", c.MaxUDP)
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
	secret := new(cookie.Secret)
	if copy(secret[:], c.CookieSecret) == 0 {
		if _, err := rand.Read(secret[:]); err != nil {
			return answer.Config{}, fmt.Errorf("make cookie secret: %w", err)
		}
	}
	return answer.Config{
		MaxUDP: c.MaxUDP, NSID: c.NSID, Version: c.VersionText, Hostname: c.Hostname,
		Cookies: secret, TCPIdle: c.TCPIdle,
	}, nil
}

func (c *Config) sockets() server.Config {
	return server.Config{
		Listen: c.Listen, Sockets: c.Sockets, ReadBuffer: c.ReadBuffer, Inherited: c.Inherited,
		TCPIdle: c.TCPIdle, TCPMessage: c.TCPMessage, TCPWrite: c.TCPWrite,
		TCPTotal: c.TCPTotal, TCPPerClient: c.TCPPerClient,
	}
}
