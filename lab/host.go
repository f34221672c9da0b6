//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"steerpoint/lab/internal/tun"
)

// device is the name of the one device each host has besides lo.
const device = "wan0"

// Missing says what this machine does not have or does not let this process do, and a lab needs; nil: nothing. Tests skip
// with it. It tries, since root alone is not enough in a container.
func Missing() error {
	// Errors of containers and kernels that lack a part: a /proc/sys that is read only, namespaces that are used up or not
	// allowed at all, a TUN device without its driver, IPv6 turned off.
	absent := []error{unix.EROFS, unix.ENOSPC, unix.ENOSYS, unix.ENODEV, unix.ENXIO, unix.EAFNOSUPPORT, unix.EOPNOTSUPP}
	l, err := New(Config{Hosts: []string{"try"}})
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), slices.ContainsFunc(absent, func(e error) bool { return errors.Is(err, e) }):
		return fmt.Errorf("needs root, network namespaces and %s: %w", tun.Path, err)
	}
	return nil // whatever else is wrong is no reason to skip a test
}

// host is one network namespace.
type host struct {
	name         string
	addr4, addr6 netip.Addr
	mtu          int
	space        *os.File // the namespace
	device       int      // descriptor of its TUN device
}

// newHost makes the n-th host, counted from 1. home is the namespace of the process.
func newHost(name string, n, mtu int, home *os.File) (*host, error) {
	h := &host{
		name: name, mtu: mtu,
		addr4: netip.AddrFrom4([4]byte{10, 77, byte(n), 1}),
		addr6: netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 7: byte(n), 15: 1}),
	}
	enter := func() error { return os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET)) }
	if err := elsewhere(home, enter, h.open); err != nil {
		return nil, err
	}
	return h, nil
}

// open takes the new namespace that the calling thread is in, and makes the device in it.
func (h *host) open() (err error) {
	if h.space, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	// One way of sending for every machine that runs the lab: the one that each kernel lets a namespace choose.
	if err = os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte("reno"), 0o600); err == nil {
		h.device, err = tun.Open(device, h.mtu, netip.PrefixFrom(h.addr4, 16), netip.PrefixFrom(h.addr6, 48))
	}
	if err != nil {
		return errors.Join(err, h.space.Close())
	}
	return nil
}

func (h *host) close() error {
	return errors.Join(os.NewSyscallError("close", unix.Close(h.device)), h.space.Close())
}

// elsewhere runs f while the calling thread is in the namespace that enter takes it to, and brings it home.
//
// Threads are brought back and used on, never ended: a program is killed when the thread that started it ends (see
// Start), and that may have been any thread, on behalf of anybody in this process.
func elsewhere(home *os.File, enter, f func() error) (err error) {
	runtime.LockOSThread()
	if err := enter(); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("network namespace: %w", err)
	}
	defer func() {
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			// Still locked: nobody else is to run on a thread that is lost.
			err = errors.Join(err, fmt.Errorf("network namespace: back home: %w", os.NewSyscallError("setns", back)))
			return
		}
		runtime.UnlockOSThread()
	}()
	return f()
}

// Do runs f in a host's namespace: sockets that f makes itself, not in goroutines it starts, are the host's and stay so
// wherever they are used. f may block; it holds up nobody but Close.
func (l *Lab) Do(name string, f func() error) error {
	h, err := l.host(name)
	if err != nil {
		return err
	}
	l.life.RLock()
	defer l.life.RUnlock()
	if l.closed {
		return ErrClosed
	}
	enter := func() error { return os.NewSyscallError("setns", unix.Setns(int(h.space.Fd()), unix.CLONE_NEWNET)) }
	return elsewhere(l.home, enter, f)
}

// Start starts a program on a host. It is killed when the lab is closed, and when the calling process ends.
func (l *Lab) Start(name string, cmd *exec.Cmd) error {
	return l.Do(name, func() error {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // when the thread ends that starts it: with the process
		if err := cmd.Start(); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.programs = append(l.programs, cmd.Process)
		return nil
	})
}

// Listen listens on a host; network and address are as for net.Listen, the address a literal one.
func (l *Lab) Listen(name, network, address string) (net.Listener, error) {
	var got net.Listener
	err := l.Do(name, func() (err error) {
		got, err = new(net.ListenConfig).Listen(context.Background(), network, address)
		return err
	})
	return got, err
}

// ListenPacket is Listen for datagrams.
func (l *Lab) ListenPacket(name, network, address string) (net.PacketConn, error) {
	var got net.PacketConn
	err := l.Do(name, func() (err error) {
		got, err = new(net.ListenConfig).ListenPacket(context.Background(), network, address)
		return err
	})
	return got, err
}

// Dial connects from a host to a literal address.
func (l *Lab) Dial(ctx context.Context, name, network, address string) (net.Conn, error) {
	var got net.Conn
	err := l.Do(name, func() (err error) {
		got, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return got, err
}

// Namespace is a path that leads other processes into a host's namespace while this process lives, with Enter or, for a
// person who wants to look around, with nsenter --net=PATH.
func (l *Lab) Namespace(name string) (string, error) {
	h, err := l.host(name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.space.Fd()), nil
}

// Enter replaces the calling process by a program that runs in the namespace and is killed when its parent ends. The
// program is argv[0], found in $PATH. Enter returns only when it failed.
func Enter(namespace string, argv, env []string) error {
	if len(argv) == 0 {
		return errors.New("no program to run")
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the thread that enters must be the one that becomes the program
	space, err := os.Open(namespace)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("network namespace %s: %w", namespace, os.NewSyscallError("setns", err))
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return &os.PathError{Op: "exec", Path: path, Err: unix.Exec(path, argv, env)}
}
