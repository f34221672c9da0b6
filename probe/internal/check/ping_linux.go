package check

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pingConn is a ping socket (icmp(7)): it sends echo requests and hears their replies, and needs no privilege beyond
// a group in net.ipv4.ping_group_range.
type pingConn struct{ *net.UDPConn }

// ReadFromAddr reads one message.
func (c pingConn) ReadFromAddr(b []byte) (int, netip.Addr, error) {
	n, from, err := c.ReadFromUDPAddrPort(b)
	return n, from.Addr(), err
}

// pingSocket is connected, so that ICMP errors about what it sent come back as errors of its calls.
func pingSocket(to netip.Addr) (pinger, error) {
	family, proto, addr := unix.AF_INET, unix.IPPROTO_ICMP, unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte(to.AsSlice()[:4])})
	if to.Is6() {
		sa := &unix.SockaddrInet6{Addr: to.As16()}
		if to.Zone() != "" {
			ifi, err := net.InterfaceByName(to.Zone())
			if err != nil {
				return nil, err
			}
			sa.ZoneId = uint32(ifi.Index)
		}
		family, proto, addr = unix.AF_INET6, unix.IPPROTO_ICMPV6, sa
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "ping")
	defer f.Close() // FileConn has a copy of its own
	if err := unix.Connect(fd, addr); err != nil {
		return nil, os.NewSyscallError("connect", err)
	}
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(syscall.EPROTOTYPE, conn.Close())
	}
	return pingConn{udp}, nil
}
