// Command gateway is the gateway plane by itself, with one route and one origin, and the origin: what is measured beside
// HAProxy and NGINX (run.sh).
//
// Usage: gateway -origin ADDR [-size N], or gateway -listen ADDR -to ADDR [-log FILE].
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/edge"
)

type config struct {
	origin, listen, to, log, profile string
	size                             int
}

func main() {
	var c config
	flag.StringVar(&c.origin, "origin", "", "be the origin, at this `address`")
	flag.IntVar(&c.size, "size", 1024, "octets of a response of the origin")
	flag.StringVar(&c.listen, "listen", "127.0.0.1:8090", "`address` of the gateway")
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
		return serveOrigin(ctx, c)
	}
	addr, err := netip.ParseAddrPort(c.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	cfg := edge.Config{Listen: []netip.AddrPort{addr}, MaxConnections: 20_000, MaxPerSource: 20_000}
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

// serveOrigin answers every request with the same octets, at as little cost as can be. What comes is not looked at: it is
// for a benchmark alone, in which requests have no bodies.
func serveOrigin(ctx context.Context, c config) error {
	l, err := net.Listen("tcp", c.origin)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nServer: bench\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
		c.size, strings.Repeat("x", c.size))
	stream := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n")
	for {
		k, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go answer(k, response, stream)
	}
}

func answer(k net.Conn, response, stream []byte) {
	defer k.Close()
	r := bufio.NewReaderSize(k, 2048)
	for {
		events := false
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if bytes.HasPrefix(line, []byte("GET /sse")) {
				events = true
			}
			if len(line) == 2 {
				break
			}
		}
		if events {
			sendEvents(k, stream)
			return
		}
		if _, err := k.Write(response); err != nil {
			return
		}
	}
}

// sendEvents sends an event a second until the other side leaves.
func sendEvents(w io.Writer, head []byte) {
	if _, err := w.Write(head); err != nil {
		return
	}
	for {
		event := fmt.Appendf(nil, "data: %d %s\n\n", time.Now().UnixNano(), strings.Repeat("t", 128))
		if _, err := fmt.Fprintf(w, "%x\r\n%s\r\n", len(event), event); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}
