//go:build linux

package lab

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"sync"

	"steerpoint/lab/internal/wan"
)

// Pair is how packets of one host travel to one other; see the fields. The zero value is a perfect cable.
type Pair = wan.Pair

// Counts says what became of the packets of an ordered pair of hosts since the start.
type Counts = wan.Counts

// ErrClosed is the failure of everything that is asked of a lab after Close.
var ErrClosed = errors.New("the lab is closed")

// maxHosts is what the addresses have room for; the emulator is meant for a dozen.
const maxHosts = 250

// Config of a lab.
type Config struct {
	// Hosts are the names, in the order of their addresses: the n-th, counted from 1, is 10.77.n.1 and fd77:0:0:n::1.
	Hosts []string
	// Seed of loss and jitter; any value, 0 included, is a seed of its own.
	Seed uint64
	// MTU of every host in bytes; 0: 1500. IPv6 needs 1280.
	MTU int
}

func (c *Config) validate() error {
	if len(c.Hosts) == 0 || len(c.Hosts) > maxHosts {
		return fmt.Errorf("%d hosts: a lab has 1 to %d", len(c.Hosts), maxHosts)
	}
	for i, name := range c.Hosts {
		if name == "" || slices.Contains(c.Hosts[:i], name) {
			return fmt.Errorf("host %d: the name %q is empty or stands twice", i+1, name)
		}
	}
	if c.MTU == 0 {
		c.MTU = 1500
	}
	if c.MTU < 1280 || c.MTU > math.MaxUint16 {
		return fmt.Errorf("MTU %d is not between 1280 and 65535", c.MTU)
	}
	return nil
}

// Lab is a number of hosts and the network between them. Close ends it. Its methods may be called by several goroutines.
type Lab struct {
	hosts []*host
	index map[string]int
	net   *forwarder
	home  *os.File   // the namespace of the process
	ended chan error // what the forwarder returned

	life   sync.RWMutex // held for reading while a namespace is used
	closed bool

	mu       sync.Mutex
	programs []*os.Process // those of Start; some have ended
}

// New makes the hosts and joins them with perfect cables. What is wrong with this machine for it is the error.
func New(cfg Config) (*Lab, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	l := &Lab{index: map[string]int{}, ended: make(chan error, 1)}
	var err error
	if l.home, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return nil, fmt.Errorf("lab: network namespace: %w", err)
	}
	for i, name := range cfg.Hosts {
		h, err := newHost(name, i+1, cfg.MTU, l.home)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lab: host %s: %w", name, err), l.release())
		}
		l.hosts = append(l.hosts, h)
		l.index[name] = i
	}
	if l.net, err = newForwarder(l.hosts, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("lab: %w", err), l.release())
	}
	go func() { l.ended <- l.net.run() }()
	return l, nil
}

// Close takes the network away, kills what was started with Start and still runs, and releases the hosts. It waits for
// functions that Do runs.
func (l *Lab) Close() error {
	l.life.Lock()
	defer l.life.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.closed = true
	err := l.net.stop()
	if err == nil {
		err = <-l.ended
	}
	return errors.Join(err, l.release())
}

func (l *Lab) release() error {
	var errs []error
	l.mu.Lock()
	for _, p := range l.programs {
		if err := p.Kill(); !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	l.mu.Unlock()
	for _, h := range l.hosts {
		errs = append(errs, h.close())
	}
	return errors.Join(append(errs, l.home.Close())...)
}

// Hosts are the names, in the order of Config.Hosts.
func (l *Lab) Hosts() []string {
	names := make([]string, 0, len(l.hosts))
	for _, h := range l.hosts {
		names = append(names, h.name)
	}
	return names
}

// Addr4 is a host's IPv4 address, the zero Addr if there is no such host.
func (l *Lab) Addr4(name string) netip.Addr {
	h, err := l.host(name)
	if err != nil {
		return netip.Addr{}
	}
	return h.addr4
}

// Addr6 is a host's IPv6 address, the zero Addr if there is no such host.
func (l *Lab) Addr6(name string) netip.Addr {
	h, err := l.host(name)
	if err != nil {
		return netip.Addr{}
	}
	return h.addr6
}

func (l *Lab) host(name string) (*host, error) {
	i, ok := l.index[name]
	if !ok {
		return nil, fmt.Errorf("lab: there is no host %q", name)
	}
	return l.hosts[i], nil
}

// pair gives the indices of two different hosts.
func (l *Lab) pair(from, to string) (i, j int, err error) {
	i, okFrom := l.index[from]
	j, okTo := l.index[to]
	switch {
	case !okFrom:
		return 0, 0, fmt.Errorf("lab: there is no host %q", from)
	case !okTo:
		return 0, 0, fmt.Errorf("lab: there is no host %q", to)
	case i == j:
		return 0, 0, fmt.Errorf("lab: %s reaches itself without a network", from)
	}
	return i, j, nil
}

// Link sets how packets travel between two hosts, both ways alike. Packets on their way are not touched.
func (l *Lab) Link(a, b string, p Pair) error {
	return errors.Join(l.LinkOneWay(a, b, p), l.LinkOneWay(b, a, p))
}

// LinkOneWay sets how packets travel in one direction.
func (l *Lab) LinkOneWay(from, to string, p Pair) error {
	return l.Change(from, to, func(old *Pair) { *old = p })
}

// Change lets change alter how packets travel in one direction; what it leaves alone stays.
func (l *Lab) Change(from, to string, change func(*Pair)) error {
	i, j, err := l.pair(from, to)
	if err != nil {
		return err
	}
	if err := l.net.change(i, j, change); err != nil {
		return fmt.Errorf("lab: %s to %s: %w", from, to, err)
	}
	return nil
}

// Pair is how packets travel in one direction now.
func (l *Lab) Pair(from, to string) (Pair, error) {
	i, j, err := l.pair(from, to)
	if err != nil {
		return Pair{}, err
	}
	return l.net.pair(i, j), nil
}

// Counts of the packets of one direction. Packets to addresses that no host has are counted nowhere.
func (l *Lab) Counts(from, to string) (Counts, error) {
	i, j, err := l.pair(from, to)
	if err != nil {
		return Counts{}, err
	}
	return l.net.counts(i, j), nil
}

// Cut drops everything between two hosts from now on, both ways; nobody is told.
func (l *Lab) Cut(a, b string) error { return errors.Join(l.CutOneWay(a, b), l.CutOneWay(b, a)) }

// CutOneWay drops everything of one direction; the other stays as it is.
func (l *Lab) CutOneWay(from, to string) error {
	return l.Change(from, to, func(p *Pair) { p.Cut = true })
}

// Heal ends a cut between two hosts, both ways.
func (l *Lab) Heal(a, b string) error { return errors.Join(l.HealOneWay(a, b), l.HealOneWay(b, a)) }

// HealOneWay ends a cut of one direction.
func (l *Lab) HealOneWay(from, to string) error {
	return l.Change(from, to, func(p *Pair) { p.Cut = false })
}
