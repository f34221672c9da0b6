package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Config says where the demo edges listen.
type Config struct {
	// Port is the TCP port of every edge address. 0: Prefer, DefaultPort, or any free port, the first that is not taken.
	Port int
	// Prefer is tried first when Port is 0; 0: nothing is.
	Prefer int
}

// DefaultPort is tried first, so that what the demo prints is the same on most machines.
const DefaultPort = 8081

// freeTries is how many free ports are tried: one that is free on one address may be taken on another, and twenty
// never all are by chance.
const freeTries = 20

// Demo is the set of demo edges. Make one with New.
type Demo struct {
	port  int
	sites []*site
}

// edges of the demo and their addresses. Three edges, one of them with two addresses: enough to show a switch, a
// second scope, a fixed rule, and the loss of one address without a switch. Behind them three origins of the gateway.
func edges() []EdgeState {
	return []EdgeState{
		{Edge: "east", Addresses: []AddressState{{Address: netip.MustParseAddr("127.0.0.11")}}},
		{Edge: "west", Addresses: []AddressState{{Address: netip.MustParseAddr("127.0.0.12")}}},
		{Edge: "south", Addresses: []AddressState{
			{Address: netip.MustParseAddr("127.0.0.13")},
			{Address: netip.MustParseAddr("127.0.0.14")},
		}},
		{Edge: "near", Origin: true, Addresses: []AddressState{{Address: netip.MustParseAddr("127.0.0.15")}}},
		{Edge: "middle", Origin: true, Addresses: []AddressState{{Address: netip.MustParseAddr("127.0.0.16")}}},
		{Edge: "far", Origin: true, Addresses: []AddressState{{Address: netip.MustParseAddr("127.0.0.17")}}},
	}
}

// distance is how much later an origin answers, as if it were far away: enough apart that a busy machine does not hide it.
func distance(origin string) time.Duration {
	return map[string]time.Duration{"middle": 100 * time.Millisecond, "far": 200 * time.Millisecond}[origin]
}

// New binds every address of every edge to one port. Nothing is served before Run.
func New(cfg Config) (*Demo, error) {
	if cfg.Port < 0 || cfg.Port > 65535 {
		return nil, fmt.Errorf("demo port %d is not between 0 and 65535", cfg.Port)
	}
	if cfg.Port != 0 {
		return bind(cfg.Port)
	}
	ports := append([]int{DefaultPort}, make([]int, freeTries)...)
	if cfg.Prefer != 0 {
		ports = slices.Insert(ports, 0, cfg.Prefer)
	}
	var d *Demo
	var err error
	for _, port := range ports {
		if d, err = bind(port); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return d, err
}

// bind makes all sites on one port; port 0 takes one that is free on the first address.
func bind(port int) (*Demo, error) {
	d := &Demo{port: port}
	for _, e := range edges() {
		for _, a := range e.Addresses {
			l, err := net.Listen("tcp", netip.AddrPortFrom(a.Address, uint16(d.port)).String())
			if err != nil {
				d.stop()
				return nil, fmt.Errorf("demo edge %s: %w", e.Edge, err)
			}
			at := l.Addr().(*net.TCPAddr).AddrPort()
			d.port = int(at.Port())
			d.sites = append(d.sites, &site{edge: e.Edge, origin: e.Origin, distance: distance(e.Edge), addr: at, listener: l})
		}
	}
	return d, nil
}

// Port is the TCP port all demo edges listen on.
func (d *Demo) Port() int { return d.port }

// Run serves until ctx ends and returns when every edge has stopped.
func (d *Demo) Run(ctx context.Context) error {
	defer d.stop()
	for _, s := range d.sites {
		if err := s.start(); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// Close gives the ports back when Run will not be called.
func (d *Demo) Close() { d.stop() }

func (d *Demo) stop() {
	for _, s := range d.sites {
		s.stop()
	}
}

// Set changes how an edge behaves: all its addresses, or the one given.
func (d *Demo) Set(edge string, addr netip.Addr, b Behaviour) error {
	if err := b.Validate(); err != nil {
		return err
	}
	var hit []*site
	for _, s := range d.sites {
		if s.edge == edge && (!addr.IsValid() || s.addr.Addr() == addr) {
			hit = append(hit, s)
		}
	}
	if len(hit) == 0 {
		return d.unknown(edge, addr)
	}
	var errs []error
	for _, s := range hit {
		errs = append(errs, s.set(b))
	}
	return errors.Join(errs...)
}

// ErrUnknownEdge is wrapped by Set's error when no demo edge, or no such address of it, exists.
var ErrUnknownEdge = errors.New("no such demo edge")

func (d *Demo) unknown(edge string, addr netip.Addr) error {
	var known []string
	for _, s := range d.sites {
		if s.edge == edge {
			known = append(known, s.addr.Addr().String())
		}
	}
	if len(known) > 0 {
		return fmt.Errorf("%w: %s has %v, not %s", ErrUnknownEdge, edge, known, addr)
	}
	for _, s := range d.sites {
		if !slices.Contains(known, s.edge) {
			known = append(known, s.edge)
		}
	}
	return fmt.Errorf("%w: %q; there are %v", ErrUnknownEdge, edge, known)
}

// EdgeState is one demo edge as `steer demo list` shows it.
type EdgeState struct {
	Edge      string         `json:"edge"`
	Origin    bool           `json:"origin,omitempty"` // one of the gateway, and no edge
	Addresses []AddressState `json:"addresses"`
}

// AddressState is one address of a demo edge.
type AddressState struct {
	Address   netip.Addr `json:"address"`
	Port      int        `json:"port"`
	Behaviour Behaviour  `json:"behaviour"`
	Text      string     `json:"text"`     // the behaviour in words
	Requests  uint64     `json:"requests"` // since the start
}

// State lists every edge in a fixed order.
func (d *Demo) State() []EdgeState {
	out := edges()
	for i := range out {
		for j := range out[i].Addresses {
			a := &out[i].Addresses[j]
			for _, s := range d.sites {
				if s.addr.Addr() == a.Address {
					a.Port, a.Behaviour, a.Requests = d.port, s.now(), s.requests.Load()
					a.Text = a.Behaviour.String()
				}
			}
		}
	}
	return out
}
