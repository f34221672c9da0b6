// Package inherit hands the listening sockets of a process to the program that takes its place.
//
// A process that executes a newer program over itself keeps its number and whatever it leaves open. What its sockets
// receive meanwhile waits in the kernel, so that nobody who asks sees the change. Sockets passed by a process manager
// (LISTEN_FDS, see sd_listen_fds(3)) are taken the same way.
//
// Invariants: a socket that was handed over is used as it is or closed by Finish, never left open unread; every
// socket given out stays bound until the process ends or Close, even when its user closes it.
package inherit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Variable names the environment variable the sockets go down in: PID:FD=NAME,FD=NAME... The numbers are where the
// sockets lie, since the descriptors from 3 on, which LISTEN_FDS prescribes, belong to the runtime of a process that
// still runs.
const Variable = "STEER_SOCKETS"

// firstListenFD is SD_LISTEN_FDS_START of sd_listen_fds(3).
const firstListenFD = 3

// Sockets are the listening sockets of a process: those it was given and those it opened. A nil *Sockets opens sockets
// and keeps none.
type Sockets struct {
	mu    sync.Mutex
	given []socket // not asked for yet
	kept  []socket // to be handed on; each a descriptor of our own
}

// socket is one listening socket.
type socket struct {
	fd   int
	name string
	udp  bool
	addr netip.AddrPort
}

// FromEnvironment takes the sockets that env names, and closes them on exec until Exec says otherwise. unset is called
// with the variables that were used, so that no child reads them again. An error names what was handed over and cannot
// be used; the Sockets returned with it hold the rest.
func FromEnvironment(env func(string) string, unset func(string) error) (*Sockets, error) {
	s := &Sockets{}
	var errs []error
	handed, err := parse(env(Variable), os.Getpid())
	errs = append(errs, err)
	activated, err := parseListen(env("LISTEN_PID"), env("LISTEN_FDS"), env("LISTEN_FDNAMES"), os.Getpid())
	errs = append(errs, err)
	for _, name := range []string{Variable, "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if env(name) != "" {
			errs = append(errs, unset(name))
		}
	}
	for _, n := range append(handed, activated...) {
		sock, err := inspect(n.fd, n.name)
		if err != nil {
			errs = append(errs, fmt.Errorf("descriptor %d (%s) was handed over as a listening socket: %w", n.fd, n.name, err))
			continue
		}
		s.given = append(s.given, sock)
	}
	return s, errors.Join(errs...)
}

// numbered is a descriptor and what it is for.
type numbered struct {
	fd   int
	name string
}

// parse reads the value of Variable. One that was meant for another process is no error, and nothing.
func parse(value string, pid int) ([]numbered, error) {
	owner, list, ok := strings.Cut(value, ":")
	if !ok || owner != strconv.Itoa(pid) || list == "" {
		return nil, nil
	}
	var all []numbered
	for item := range strings.SplitSeq(list, ",") {
		number, name, ok := strings.Cut(item, "=")
		fd, err := strconv.ParseUint(number, 10, 16)
		if !ok || err != nil {
			return nil, fmt.Errorf("%s: %q is not FD=NAME", Variable, item)
		}
		if name, err = url.QueryUnescape(name); err != nil {
			return nil, fmt.Errorf("%s: %q is not FD=NAME: %w", Variable, item, err)
		}
		all = append(all, numbered{int(fd), name})
	}
	return all, nil
}

// parseListen reads what sd_listen_fds(3) describes.
func parseListen(owner, count, names string, pid int) ([]numbered, error) {
	if owner != strconv.Itoa(pid) {
		return nil, nil
	}
	n, err := strconv.ParseUint(count, 10, 10)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_FDS is %q: want a number", count)
	}
	given := strings.Split(names, ":")
	all := make([]numbered, n)
	for i := range all {
		all[i].fd = firstListenFD + i
		if i < len(given) {
			all[i].name = given[i]
		}
	}
	return all, nil
}

// inspect finds out what a descriptor is, and closes it on exec.
func inspect(fd int, name string) (socket, error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return socket{}, fmt.Errorf("it is not a socket: %w", err)
	}
	addr, err := boundTo(fd)
	if err != nil {
		return socket{}, err
	}
	unix.CloseOnExec(fd)
	switch kind {
	case unix.SOCK_DGRAM:
		return socket{fd: fd, name: name, udp: true, addr: addr}, nil
	case unix.SOCK_STREAM:
		listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if err != nil || listens == 0 {
			return socket{}, errors.Join(errors.New("it is a connection, and not a listener"), err)
		}
		return socket{fd: fd, name: name, addr: addr}, nil
	default:
		return socket{}, fmt.Errorf("it is a socket of type %d, and neither UDP nor TCP", kind)
	}
}

func boundTo(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("its address cannot be read: %w", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		a := netip.AddrFrom16(sa.Addr)
		if sa.ZoneId != 0 {
			a = a.WithZone(strconv.FormatUint(uint64(sa.ZoneId), 10))
		}
		return netip.AddrPortFrom(a, uint16(sa.Port)), nil
	default:
		return netip.AddrPort{}, errors.New("it is neither of IPv4 nor of IPv6")
	}
}

// fits reports whether the socket is what was asked for: the same address, and the same port; port 0, any free one,
// is the one that a socket of that name had before.
func (s *socket) fits(name string, udp bool, addr netip.AddrPort) bool {
	if s.udp != udp || s.addr.Addr().WithZone("") != addr.Addr().WithZone("") {
		return false
	}
	return s.addr.Port() == addr.Port() || addr.Port() == 0 && s.name == name
}

// take moves the given sockets that fit to the kept ones.
func (s *Sockets) take(name string, udp bool, addr netip.AddrPort) []socket {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var fit, rest []socket
	for _, g := range s.given {
		// Of several ports that fit a port 0, one is taken: the others are for who asks next. A listener is one socket.
		if g.fits(name, udp, addr) && (len(fit) == 0 || udp && fit[0].addr.Port() == g.addr.Port()) {
			fit = append(fit, g)
			continue
		}
		rest = append(rest, g)
	}
	s.given, s.kept = rest, append(s.kept, fit...)
	return fit
}

// Has reports whether a socket of that name was handed over and not yet taken.
func (s *Sockets) Has(name string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.given {
		if g.name == name {
			return true
		}
	}
	return false
}

// UDP gives every UDP socket that was handed over for an address: none, and the caller opens its own and calls Keep.
// Packets are spread over all sockets of one address, so one that nobody reads would swallow its share.
func (s *Sockets) UDP(name string, addr netip.AddrPort) ([]*net.UDPConn, error) {
	var conns []*net.UDPConn
	for _, sock := range s.take(name, true, addr) {
		f, err := duplicate(sock)
		if err != nil {
			return conns, err
		}
		pc, err := net.FilePacketConn(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return conns, fmt.Errorf("handed-over socket %s: %w", sock.addr, err)
		}
		conns = append(conns, pc.(*net.UDPConn))
	}
	return conns, nil
}

// Listen is net.ListenConfig.Listen for TCP, unless the listener was handed over. network is tcp, tcp4 or tcp6; a host
// that is not an address is never found among what was handed over.
func (s *Sockets) Listen(ctx context.Context, name, network, address string) (net.Listener, error) {
	addr, err := netip.ParseAddrPort(address)
	if err != nil && strings.HasPrefix(address, ":") {
		addr, err = netip.ParseAddrPort("[::]" + address)
	}
	if err == nil {
		if got := s.take(name, false, addr); len(got) > 0 {
			return listener(got[0])
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := s.Keep(name, l.(*net.TCPListener)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func listener(sock socket) (net.Listener, error) {
	f, err := duplicate(sock)
	if err != nil {
		return nil, err
	}
	l, err := net.FileListener(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("handed-over listener %s: %w", sock.addr, err)
	}
	return l, nil
}

func duplicate(sock socket) (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(sock.fd), unix.F_DUPFD_CLOEXEC, firstListenFD)
	if err != nil {
		return nil, fmt.Errorf("handed-over socket %s: %w", sock.addr, err)
	}
	return os.NewFile(uintptr(fd), sock.name), nil
}

// Keep makes a socket one that is handed on. It then stays bound when c is closed.
func (s *Sockets) Keep(name string, c syscall.Conn) error {
	if s == nil {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("keep socket %s: %w", name, err)
	}
	own := -1
	var dupErr error
	err = raw.Control(func(fd uintptr) { own, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, firstListenFD) })
	if err = errors.Join(err, dupErr); err != nil {
		return fmt.Errorf("keep socket %s: %w", name, err)
	}
	sock, err := inspect(own, name)
	if err != nil {
		return errors.Join(fmt.Errorf("keep socket %s: %w", name, err), unix.Close(own))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, sock)
	return nil
}

// Finish closes the sockets that were handed over and that nobody took, because the settings changed. It returns what
// they were, for the log.
func (s *Sockets) Finish() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var closed []string
	for _, g := range s.given {
		_ = unix.Close(g.fd) // nothing was promised on it
		closed = append(closed, g.String())
	}
	s.given = nil
	return closed
}

func (s *socket) String() string {
	proto := "tcp"
	if s.udp {
		proto = "udp"
	}
	return strings.TrimSpace(s.name + " " + proto + " " + s.addr.String())
}

// Close closes the process's own copies: what is kept is no longer bound once its user closes it too.
func (s *Sockets) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, k := range append(s.given, s.kept...) {
		errs = append(errs, unix.Close(k.fd))
	}
	s.given, s.kept = nil, nil
	return errors.Join(errs...)
}
