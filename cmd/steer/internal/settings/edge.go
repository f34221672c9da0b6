package settings

import "time"

// Roles of the gateway's listeners; unset: there is none. 80 and 443 are the usual ports.
const (
	RoleHTTP  = "http"  // the gateway, plain
	RoleHTTPS = "https" // the gateway over TLS
)

// Edge is how the gateway of this process behaves. The zero value of each field means the default.
type Edge struct {
	// AccessLog is a file that takes a line of JSON for each request; a relative path is in the data folder. "": no log.
	AccessLog string `yaml:"accessLog"`
	// TrustedProxies are networks of proxies in front: what they say of clients is believed. Default: nobody is.
	TrustedProxies []Network `yaml:"trustedProxies"`
	// Connections is how many may be open, default 10000; ConnectionsPerClient of one IPv4 address or IPv6 /64, default 1000.
	Connections          int `yaml:"connections"`
	ConnectionsPerClient int `yaml:"connectionsPerClient"`
	// DisableHTTP2 leaves HTTP/2 out. Streams is how many requests may be under way at once on a connection of it, default 100.
	DisableHTTP2 bool `yaml:"disableHTTP2"`
	Streams      int  `yaml:"streams"`
	// HeadTimeout is how long the head of a request may take (10s), IdleTimeout how long a connection may be idle (61s),
	// BodyTimeout the longest gap in a request's body (30s), Drain how long requests may go on after a stop (30s).
	HeadTimeout time.Duration `yaml:"headTimeout"`
	IdleTimeout time.Duration `yaml:"idleTimeout"`
	BodyTimeout time.Duration `yaml:"bodyTimeout"`
	Drain       time.Duration `yaml:"drain"`

	EdgeLimits `yaml:",inline"`
}
