package settings

import (
	"fmt"
	"strings"
	"time"

	"steerpoint/spec"
)

// EdgeLimits are what the gateway of this process withstands and shows, besides what is in Edge. The zero value of each field
// means the default.
type EdgeLimits struct {
	// AccessLogSize: when the access log would grow beyond it, it is renamed to FILE.1, and so on up to AccessLogKeep old ones
	// (5). 0: it grows. On SIGHUP the file is opened anew, for programs that rotate by themselves.
	AccessLogSize Octets `yaml:"accessLogSize"`
	AccessLogKeep int    `yaml:"accessLogKeep"`
	// ProxyProtocol are networks whose connections begin with a header of the PROXY protocol, version 1 or 2.
	ProxyProtocol []Network `yaml:"proxyProtocol"`
	// MaxHead bounds the head of a request (64KiB, which is also the most), MaxTarget its target (8KiB), MaxField a field
	// (16KiB), MaxFields their number (128).
	MaxHead   Octets `yaml:"maxHead"`
	MaxTarget Octets `yaml:"maxTarget"`
	MaxField  Octets `yaml:"maxField"`
	MaxFields int    `yaml:"maxFields"`
	// BodyRate is the least rate of a request body a second (500B), looked at from BodyGrace on (20s).
	BodyRate  Octets        `yaml:"bodyRate"`
	BodyGrace time.Duration `yaml:"bodyGrace"`
	// BodyMemory is how much of request bodies is kept at once, of all requests (64MiB).
	BodyMemory Octets `yaml:"bodyMemory"`
	// WriteTimeout is how long a client may take for 32 KiB of what is sent to it (30s).
	WriteTimeout time.Duration `yaml:"writeTimeout"`
	// ServerTiming: responses say where the time went.
	ServerTiming bool `yaml:"serverTiming"`
	// Tracing says which requests are traced. Default: none is.
	Tracing *EdgeTracing `yaml:"tracing"`
}

// EdgeTracing is how requests are traced.
type EdgeTracing struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP; without a path /v1/traces is meant.
	Endpoint string `yaml:"endpoint"`
	// Headers are sent to it, such as its key.
	Headers map[string]string `yaml:"headers"`
	// Sample is the share of new traces that is recorded, 0 to 1; default 0: only those whose parent is.
	Sample float64 `yaml:"sample"`
	// Parents says whose traceparent is believed: all (default), trusted (those in trustedProxies), none.
	Parents string `yaml:"parents"`
}

// Octets is a number of octets, written like 64KiB.
type Octets int64

// UnmarshalText reads one.
func (o *Octets) UnmarshalText(text []byte) error {
	var s spec.Size
	if s.UnmarshalText(text) != nil {
		return fmt.Errorf("%q is no size: write it like 64KiB or 100MiB", strings.TrimSpace(string(text)))
	}
	*o = Octets(s)
	return nil
}
