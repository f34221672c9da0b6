// Package echo16 answers datagrams of exactly 16 bytes with the same 16 bytes, so that others can measure the way to
// this machine: kind udp16 of a probe, and clients that look for the nearest of several machines.
//
// It never sends more than it gets, so it multiplies nothing; what cannot be such a question, or comes too often from
// one place, gets no answer at all.
package echo16

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/internal/inherit"
	"steerpoint/internal/supervise"
)

// Size is that of the only datagrams that are answered.
const Size = 16

// Port is the usual one.
const Port = 7077

// Name is that of its sockets among those handed over by the program before.
const Name = "nearest"

// Config of a Responder. Listen is needed; the zero value of every other field is a default that works.
type Config struct {
	// Listen are the addresses to answer on. Port 0: any free one.
	Listen []netip.AddrPort
	// Rate is how many answers a second one source gets; a source is an IPv4 address or an IPv6 /64. 0: 50.
	Rate float64
	// Burst is how many it gets at once after a pause. 0: twice Rate.
	Burst float64
	// Inherited are sockets of the program that ran before in this process. nil: none.
	Inherited *inherit.Sockets
}

const defaultRate = 50 // ten probe points behind one address, each five times a second

func (c Config) withDefaults() (Config, error) {
	if len(c.Listen) == 0 || c.Rate < 0 || c.Burst < 0 {
		return c, errors.New("echo16 config: Listen is needed, and Rate and Burst may not be negative")
	}
	if c.Rate == 0 {
		c.Rate = defaultRate
	}
	if c.Burst == 0 {
		c.Burst = 2 * c.Rate
	}
	return c, nil
}

// Responder answers. Make one with New, which binds its sockets.
type Responder struct {
	log     *slog.Logger
	socks   []socket
	limit   *limiter
	metrics metrics
}

type metrics struct {
	answers                   prometheus.Counter
	size, rate, port, sending prometheus.Counter
}

// New binds every address. reg may be nil: then nothing is registered.
func New(cfg Config, reg prometheus.Registerer, log *slog.Logger) (*Responder, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Responder{log: log, limit: newLimiter(cfg.Rate, cfg.Burst)}
	if err := r.measure(reg); err != nil {
		return nil, fmt.Errorf("echo16 metrics: %w", err)
	}
	for _, addr := range cfg.Listen {
		socks, err := open(addr, cfg.Inherited)
		r.socks = append(r.socks, socks...)
		if err != nil && (!noSuchFamily(err) || len(cfg.Listen) == 1) { // ":port" is both families, and a machine may have one
			return nil, errors.Join(fmt.Errorf("listen on %s: %w", addr, err), r.Close())
		}
	}
	if len(r.socks) == 0 {
		return nil, fmt.Errorf("listen on %v: this machine has neither address family", cfg.Listen)
	}
	return r, nil
}

func noSuchFamily(err error) bool {
	return errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

func (r *Responder) measure(reg prometheus.Registerer) error {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "steer_nearest_refused_total",
		Help: "Datagrams without an answer, by reason: size (not 16 bytes), port (from a port that answers too), rate (too many from one source), sending (the answer could not be sent).",
	}, []string{"reason"})
	r.metrics = metrics{
		answers: prometheus.NewCounter(prometheus.CounterOpts{Name: "steer_nearest_answers_total", Help: "Datagrams that were sent back."}),
		size:    refused.WithLabelValues("size"), rate: refused.WithLabelValues("rate"), port: refused.WithLabelValues("port"),
		sending: refused.WithLabelValues("sending"),
	}
	if reg == nil {
		return nil
	}
	return errors.Join(reg.Register(r.metrics.answers), reg.Register(refused))
}

// open gives the sockets of one address: those handed over, or one of its own.
func open(addr netip.AddrPort, given *inherit.Sockets) ([]socket, error) {
	conns, err := given.UDP(Name, addr)
	if err != nil {
		return nil, err
	}
	if len(conns) == 0 {
		network := "udp4"
		if addr.Addr().Is6() {
			network = "udp6"
		}
		c, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(addr))
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
		if err := given.Keep(Name, c); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	var socks []socket
	for i, c := range conns {
		s, err := newSocket(c, addr.Addr())
		if err != nil {
			for _, rest := range conns[i:] {
				err = errors.Join(err, rest.Close())
			}
			return socks, err
		}
		socks = append(socks, s)
	}
	return socks, nil
}

// Addrs are the bound addresses.
func (r *Responder) Addrs() []netip.AddrPort {
	out := make([]netip.AddrPort, len(r.socks))
	for i := range r.socks {
		out[i] = r.socks[i].local
	}
	return out
}

// Run answers until ctx ends, and returns when its sockets are closed. A socket that cannot be read is tried again.
func (r *Responder) Run(ctx context.Context) error {
	g := supervise.New(ctx)
	for i := range r.socks {
		s := &r.socks[i]
		g.Go("echo16 on "+s.local.String(), func(ctx context.Context) error { return r.serve(ctx, s) })
	}
	return errors.Join(g.Wait(), r.Close())
}

// Close gives the sockets back, when Run will not be called.
func (r *Responder) Close() error {
	var errs []error
	for i := range r.socks {
		if err := r.socks[i].conn.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// serve answers on one socket.
func (r *Responder) serve(ctx context.Context, s *socket) error {
	defer context.AfterFunc(ctx, func() {
		s.conn.SetReadDeadline(time.Unix(1, 0)) // its only error is that the socket is closed already
	})()
	b := newBatch(s)
	for {
		n, err := b.read()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if !passing(err) {
				r.trouble(ctx, s, err)
			}
			continue
		}
		now := time.Now()
		b.answer(n, func(size int, from netip.AddrPort) bool { return r.admit(now, size, from, s.local.Port()) })
		sent, failed := b.write()
		r.metrics.answers.Add(float64(sent))
		r.metrics.sending.Add(float64(failed))
	}
}

// pause is how long a socket that cannot be read is left: the process has more important work than this one.
const pause = time.Second

// trouble says that a socket cannot be read, and waits.
func (r *Responder) trouble(ctx context.Context, s *socket, err error) {
	r.log.Warn("the echo for probes cannot read; tried again in a second", "address", s.local, "error", err)
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// passing are errors of a receiving UDP socket that say something of one datagram: an ICMP error about an answer that
// nobody took, or a moment without memory.
func passing(err error) bool {
	for _, e := range []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENOBUFS, syscall.ENOMEM, syscall.EINTR, syscall.EAGAIN} {
		if errors.Is(err, e) && !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
	}
	return false
}

// lowPorts are those of servers, of which some answer whatever comes (echo, chargen): a forged sender there would make
// two machines talk to each other for ever. So would another responder.
const lowPorts = 1024

// admit says whether a datagram is answered, and counts why not.
func (r *Responder) admit(now time.Time, size int, from netip.AddrPort, own uint16) bool {
	switch {
	case size != Size:
		r.metrics.size.Inc()
	case from.Port() < lowPorts, from.Port() == Port, from.Port() == own:
		r.metrics.port.Inc()
	case !r.limit.take(now, from.Addr()):
		r.metrics.rate.Inc()
	default:
		return true
	}
	return false
}
