package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
)

// Registry knows the nodes. Its errors that are *pki.Refusal reach the node as they are; others become BUSY and are
// logged.
type Registry interface {
	Join(ctx context.Context, a pki.Application) (pki.Credential, error)
	Renew(ctx context.Context, node pki.Identity, request []byte) (pki.Credential, error)
	// Admit is asked on every call with a certificate, and on every keep-alive of a stream: it must be quick. nil: the
	// node may call.
	Admit(node pki.Identity) error
}

// Sink takes what nodes say. Its methods are called at the same time for different nodes.
type Sink interface {
	// Observe takes observations; the point of each is the node that sent it.
	Observe(node string, list []report.Observation)
	Acked(node string, a report.Ack)
	Reported(node string, s report.NodeStatus)
}

// Presence hears which nodes follow. Calls come one at a time, in the order in which things happened; a node that
// connects again before it was missed is Connected twice and Gone once.
type Presence interface {
	Connected(node, snapshot, remote string)
	Gone(node, snapshot string)
}

// HubConfig is how a Hub listens and what it bears. A zero number means the default.
type HubConfig struct {
	Listen string // host:port; port 0: any free one
	// Certificate is control's certificate, asked for at every handshake.
	Certificate func() (*tls.Certificate, error)
	Pool        *x509.CertPool // the cluster's authority
	Program     string         // control's version, told to nodes

	// KeepAlive is the longest silence on a stream. Default 5 s. A node takes three of them for the end of the stream.
	KeepAlive time.Duration
	// SlowAfter is how long a node may leave 64 KiB of a stream unread before it is let go. Default 15 s; at least
	// twice KeepAlive.
	SlowAfter time.Duration
	// CallTimeout is for reading one call's body and answering it. Default 15 s.
	CallTimeout time.Duration
	// HandshakeTimeout is for the TLS handshake, and for the header of a call. Default 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout closes a connection without a call. Default 60 s.
	IdleTimeout time.Duration
	// MaxConnections at once; one more is closed at once. Default 16,000: two thirds of a usual limit of open files.
	MaxConnections int
	// MaxStrangers is how many of them may not have shown a good certificate yet. Default 4,096.
	MaxStrangers int
	// MaxStrangersPerSite is how many of those one address (IPv6: one /64) may have, so that one machine cannot take all
	// places and keep nodes from coming back. Default 256: nodes behind one address are strangers for a moment each.
	MaxStrangersPerSite int
	// MaxStreams is the number of calls at once on one connection. Default 16.
	MaxStreams int
	// MaxHeader is the most bytes of a call's header. Default 16 KiB.
	MaxHeader int
	// JoinsPerMinute is how many joins one address (IPv6: one /64) may try, in a burst or spread. Default 60.
	JoinsPerMinute int
	// Bases is how many versions of a snapshot are kept to make deltas from. Default 8.
	Bases int
	// Update does what a DNS UPDATE says that a node took. nil: none can be done.
	Update func(ctx context.Context, node string, u report.Update) (report.UpdateResult, error)
	// Now is control's wall clock, by which certificates end. Default time.Now.
	Now func() time.Time
}

const (
	defaultKeepAlive   = 5 * time.Second
	defaultSlowAfter   = 15 * time.Second
	defaultCallTimeout = 15 * time.Second
	defaultHandshake   = 10 * time.Second
	defaultIdle        = time.Minute
	defaultConnections = 16_000
	defaultStrangers   = 4096
	defaultPerSite     = 256
	defaultStreams     = 16
	defaultHeader      = 16 * kib
	defaultJoins       = 60
	defaultBases       = 8
	silentKeepAlives   = 3
	maxBatch           = 1000 // observations in one call; a point sends 500
	maxDetail          = 512  // bytes of an observation's sentence
	maxAsks            = 64   // asked of one node and not answered
)

func (c HubConfig) withDefaults() (HubConfig, error) {
	setDefault(&c.KeepAlive, defaultKeepAlive)
	setDefault(&c.SlowAfter, defaultSlowAfter)
	setDefault(&c.CallTimeout, defaultCallTimeout)
	setDefault(&c.HandshakeTimeout, defaultHandshake)
	setDefault(&c.IdleTimeout, defaultIdle)
	setDefault(&c.MaxConnections, defaultConnections)
	setDefault(&c.MaxStrangers, defaultStrangers)
	setDefault(&c.MaxStrangersPerSite, defaultPerSite)
	setDefault(&c.MaxStreams, defaultStreams)
	setDefault(&c.MaxHeader, defaultHeader)
	setDefault(&c.JoinsPerMinute, defaultJoins)
	setDefault(&c.Bases, defaultBases)
	if c.Now == nil {
		c.Now = time.Now
	}
	switch {
	case c.Certificate == nil || c.Pool == nil:
		return c, errors.New("wire: a hub needs control's certificate and the authority")
	case c.SlowAfter < 2*c.KeepAlive:
		return c, fmt.Errorf("wire: SlowAfter %s is below twice KeepAlive %s", c.SlowAfter, c.KeepAlive)
	}
	return c, nil
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
