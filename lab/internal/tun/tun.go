//go:build linux

// Package tun makes the one network device of an emulated host: what a program in the host's namespace sends is read
// from the device, and what is written to the device arrives there.
//
// Everything here acts on the network namespace of the calling thread. It needs root.
package tun

import (
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Path is the device that TUN devices are made with.
const Path = "/dev/net/tun"

// queueLength is how many packets wait between a host's programs and the emulator: at 1,500 bytes each more than any
// rate that is emulated fills while the emulator waits for a processor.
const queueLength = 5000

// Open makes the device name with the addresses, each with the prefix that is reached through it, and brings it and lo
// up. mtu is in bytes. The descriptor reads and writes one IP packet at a time and does not block.
func Open(name string, mtu int, addrs ...netip.Prefix) (fd int, err error) {
	fd, err = unix.Open(Path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("TUN device: %w", &os.PathError{Op: "open", Path: Path, Err: err})
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	request, err := unix.NewIfreq(name)
	if err != nil {
		return 0, fmt.Errorf("TUN device %s: %w", name, err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return 0, fmt.Errorf("TUN device %s: %w", name, os.NewSyscallError("TUNSETIFF", err))
	}
	if err := configure(name, mtu, addrs); err != nil {
		return 0, fmt.Errorf("TUN device %s: %w", name, err)
	}
	return fd, nil
}

func configure(name string, mtu int, addrs []netip.Prefix) error {
	n, err := openNetlink()
	if err != nil {
		return err
	}
	defer n.close()
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(n.fd, unix.SIOCGIFINDEX, request); err != nil {
		return os.NewSyscallError("SIOCGIFINDEX", err)
	}
	index := int(request.Uint32())
	if err := n.up(loopback, 0, 0); err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	if err := n.up(index, mtu, queueLength); err != nil {
		return err
	}
	for _, a := range addrs {
		if err := n.address(index, a); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
		if err := n.settle(a.Addr()); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	return nil
}

// settleTime bounds the wait for an address; it takes a millisecond.
const settleTime = 10 * time.Second

// settle waits until packets to the address are taken. The kernel adds an IPv6 address at once, and tells its routing
// later, in a thread of its own: what comes before that is dropped.
func (n *netlink) settle(addr netip.Addr) error {
	for end := time.Now().Add(settleTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if local, err := n.local(addr); err != nil || local {
			return err
		}
	}
	return fmt.Errorf("not usable after %v", settleTime)
}
