// Package check does one probe: it connects to a target's own address, asks, and says what came of it.
//
// One probe is one goroutine and one connection, both gone when Run returns. Everything a peer sends is bounded, in
// bytes and by the target's timeout. Nothing a peer sends leaves the package but the status code and, in part and
// quoted, what certificates say.
package check

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"time"

	"steerpoint/internal/guard"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// Resolver turns a name into addresses. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config of a Checker. Point and UserAgent are needed.
type Config struct {
	Point     string         // put into every observation
	UserAgent string         // sent with every request
	Resolver  Resolver       // nil: the system's, through Go's own resolver
	Roots     *x509.CertPool // nil: the system's
	// AllowLocal lets loopback, link-local, multicast and metadata addresses be probed.
	AllowLocal bool
}

// Checker does probes. Make one with New. It may be used by several goroutines at once.
type Checker struct {
	cfg    Config
	dialer net.Dialer
	routed func(netip.Addr) bool // whether this machine has a route; replaced in tests
	// The sockets an ICMP probe tries, in this order; replaced in tests.
	pings []func(netip.Addr) (pinger, error)
	late  time.Duration // see tooLate; replaced in tests
}

// tooLate is how long after its deadline a probe that failed may end. Timers fire within milliseconds where there is
// a processor for them: half a second says that this process did not run, so that it was the point that missed the
// time and maybe not the target. Without it a starved point would vote everything down.
const tooLate = 500 * time.Millisecond

// New makes a checker.
func New(cfg Config) *Checker {
	if cfg.Resolver == nil {
		cfg.Resolver = &net.Resolver{PreferGo: true}
	}
	// A probe's connection lives for seconds: keep-alive packets would only cost. Negative: none.
	return &Checker{
		cfg: cfg, dialer: net.Dialer{KeepAlive: -1}, routed: routed, late: tooLate,
		pings: []func(netip.Addr) (pinger, error){pingSocket, rawSocket},
	}
}

// Run does one probe. It returns within the target's timeout, or soon after ctx ends; that is then no vote.
func (c *Checker) Run(parent context.Context, g *Target) report.Observation {
	p := &probe{Checker: c, Target: g, begun: time.Now()}
	p.mark = p.begun
	p.deadline = p.begun.Add(g.timeout)
	p.o = report.Observation{Task: g.id, Point: c.cfg.Point}
	ctx, cancel := context.WithDeadline(parent, p.deadline)
	defer cancel()
	err := p.run(ctx)
	p.o.Phases.Total = time.Since(p.begun)
	if err != nil && parent.Err() != nil {
		err = failf(report.CauseLocal, "stopped before there was a result, while %s", p.phase)
	}
	p.judge(err)
	if over := p.o.Phases.Total - p.timeout; !p.o.OK && p.o.Cause != report.CauseLocal && over > c.late {
		p.judge(failf(report.CauseLocal, "this machine was too busy to probe: the time-out of %v was noticed %v late, while %s",
			p.timeout, over.Round(time.Millisecond), p.phase))
	}
	return p.o
}

// probe is one probe on its way.
type probe struct {
	*Checker
	*Target
	o        report.Observation
	begun    time.Time
	mark     time.Time // when the present phase began
	deadline time.Time
	phase    string // what it is doing, for people
	over     string // tcp or udp: what connect was called for last
}

// lap ends a phase: it returns how long the phase took and begins the next one.
func (p *probe) lap() time.Duration {
	now := time.Now()
	d := now.Sub(p.mark)
	p.mark = now
	return d
}

func (p *probe) run(ctx context.Context) error {
	addr, err := p.address(ctx)
	if err != nil {
		return err
	}
	p.o.Address = netip.AddrPortFrom(addr, p.port)
	switch p.kind {
	case snapshot.KindUDP16:
		return p.echo(ctx)
	case snapshot.KindDNS:
		return p.query(ctx)
	case snapshot.KindICMP:
		return p.ping(ctx)
	}
	conn, err := p.connect(ctx, "tcp")
	if err != nil {
		return err
	}
	defer conn.Close() // everything was read that is wanted: its error says nothing
	p.o.Latency = p.o.Phases.Connect
	if p.kind == snapshot.KindTCP {
		return nil
	}
	defer p.bound(ctx, conn)()
	if p.kind == snapshot.KindHTTPS || p.kind == snapshot.KindGRPCS {
		secure, err := p.handshake(conn)
		if err != nil {
			return err
		}
		conn = secure
	}
	if p.grpc() {
		return p.healthCheck(conn)
	}
	return p.exchange(conn)
}

// bound makes the probe's deadline that of all reads and writes of a connection; the end of ctx (a task removed, a
// stop) sets it to now. The result is called when the connection is no longer used. The only errors are of connections
// that are closed already, and those say so at the next read.
func (p *probe) bound(ctx context.Context, conn interface{ SetDeadline(time.Time) error }) (release func() bool) {
	conn.SetDeadline(p.deadline)
	return context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
}

// connect opens the connection. Only addresses come here, never names, and they have passed the guard. For UDP it sends
// nothing: the kernel then takes datagrams from that address alone, and tells of ICMP errors.
func (p *probe) connect(ctx context.Context, network string) (net.Conn, error) {
	p.phase, p.over = "connecting", network
	p.mark = time.Now()
	conn, err := p.dialer.DialContext(ctx, network, p.o.Address.String())
	if err != nil {
		return nil, p.connectFailure(err)
	}
	if d := p.lap(); network == "tcp" {
		p.o.Phases.Connect = d
	}
	return conn, nil
}

// judge sets the outcome from what run returned.
func (p *probe) judge(err error) {
	var f *failure
	switch {
	case err == nil && p.slowest > 0 && p.o.Latency > p.slowest:
		f = failf(report.CauseLatency, "took %v, more than the %v allowed", round(p.o.Latency), p.slowest)
	case err == nil:
		p.o.OK = true
		return
	case isTimeout(err):
		f = failf(report.CauseTimeout, "no result within %v, while %s", p.timeout, p.phase)
	case !errors.As(err, &f):
		f = p.ioFailure(err)
	}
	p.o.Cause, p.o.Detail = f.cause, f.detail
}

// Refuses returns why the guard does not let addr be probed, or "".
func (c *Checker) Refuses(addr netip.Addr) string {
	if c.cfg.AllowLocal {
		return ""
	}
	return guard.Check(addr)
}
