// Command gateway is the origin that gateways are measured before (tools/edgebench), and our gateway plane by itself with one
// route and one origin, for who looks where the time goes.
//
// Usage: gateway -origin ADDR, or gateway -listen ADDR -to ADDR [-tls ADDR -cert DIR] [-log FILE] [-cpuprofile FILE].
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/edge"
)

type config struct {
	origin, listen, to, log, profile, tls, cert string
}

func main() {
	var c config
	flag.StringVar(&c.origin, "origin", "", "be the origin, at this `address`")
	flag.StringVar(&c.listen, "listen", "127.0.0.1:8090", "`address` of the gateway")
	flag.StringVar(&c.tls, "tls", "", "`address` of the gateway over TLS; empty: none")
	flag.StringVar(&c.cert, "cert", ".", "`folder` of cert.pem and key.pem")
	flag.StringVar(&c.to, "to", "127.0.0.1:8080", "`address` of the origin")
	flag.StringVar(&c.log, "log", "", "`file` for the access log; empty: none")
	flag.StringVar(&c.profile, "cpuprofile", "", "`file` for a profile of the processor")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	if c.origin != "" {
		return serveOrigin(ctx, c.origin)
	}
	addr, err := netip.ParseAddrPort(c.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	cfg := edge.Config{Listen: []netip.AddrPort{addr}, MaxConnections: 20_000, MaxPerSource: 20_000}
	if c.tls != "" {
		if err := secure(&cfg, c); err != nil {
			return err
		}
	}
	if c.log != "" {
		f, err := os.Create(c.log)
		if err != nil {
			return fmt.Errorf("access log: %w", err)
		}
		defer f.Close()
		cfg.AccessLog = f
	}
	if c.profile != "" {
		f, err := os.Create(c.profile)
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	g, err := edge.New(cfg, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	d := &direct{
		route:  &edge.Route{Service: "bench", Name: "all"},
		origin: &edge.Origin{Service: "bench", Group: "one", Name: "origin", Address: c.to, MaxIdle: 256},
	}
	if err := g.Swap(&edge.Site{Director: d, Routes: []*edge.Route{d.route}, Origins: []*edge.Origin{d.origin}}); err != nil {
		return errors.Join(err, g.Close())
	}
	return g.Run(ctx)
}

// secure adds TLS.
func secure(cfg *edge.Config, c config) error {
	addr, err := netip.ParseAddrPort(c.tls)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(c.cert, "cert.pem"), filepath.Join(c.cert, "key.pem"))
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	cfg.ListenTLS = []netip.AddrPort{addr}
	cfg.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
	return nil
}

// direct sends everything to one origin.
type direct struct {
	route  *edge.Route
	origin *edge.Origin
}

func (d *direct) Direct(_ *edge.Asked, p *edge.Plan) { p.Route, p.Group = d.route, d }

func (d *direct) Choose(_ *edge.Asked, _ *edge.Plan, _ time.Duration, tried uint64) (*edge.Origin, string) {
	if tried != 0 {
		return nil, "no_origin"
	}
	return d.origin, ""
}

func (d *direct) Report(*edge.Origin, time.Duration, edge.Result) {}

func (d *direct) Fields(dst []byte, _ *edge.Answered, _ *edge.Plan, _ *edge.Origin) []byte {
	return dst
}
