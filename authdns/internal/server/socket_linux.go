package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// listenUDP opens n sockets on one address (the first may choose the port). The kernel spreads packets over them by
// a hash of addresses and ports.
func listenUDP(ctx context.Context, addr netip.AddrPort, n, readBuffer int) (conns []*net.UDPConn, err error) {
	defer func() {
		if err != nil {
			for _, c := range conns {
				_ = c.Close() // the error that matters is err
			}
			conns = nil
		}
	}()
	// A plain socket first: with SO_REUSEPORT alone a second process of the same user would silently share the port.
	port, err := probePort(ctx, addr)
	if err != nil {
		return nil, err
	}
	addr = netip.AddrPortFrom(addr.Addr(), port)
	wildcard := addr.Addr().IsUnspecified()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return control(c, func(fd int) error { return setUDPOptions(fd, addr.Addr().Is4(), wildcard) })
	}}
	for range n {
		pc, err := lc.ListenPacket(ctx, network("udp", addr.Addr()), addr.String())
		if err != nil {
			return conns, err
		}
		c := pc.(*net.UDPConn)
		conns = append(conns, c)
		// Best effort: the kernel caps it at net.core.rmem_max, which `steer doctor` looks at.
		_ = c.SetReadBuffer(readBuffer)
	}
	return conns, nil
}

func probePort(ctx context.Context, addr netip.AddrPort) (uint16, error) {
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(ctx, network("udp", addr.Addr()), addr.String())
	if err != nil {
		return 0, err
	}
	port := pc.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return port, pc.Close()
}

// network binds one family per socket, so that a client's address has one form.
func network(proto string, a netip.Addr) string {
	if a.Is4() {
		return proto + "4"
	}
	return proto + "6"
}

func control(c syscall.RawConn, set func(fd int) error) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = set(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}

// adoptUDP prepares a socket that somebody else opened for an address.
func adoptUDP(c *net.UDPConn, addr netip.Addr, readBuffer int) error {
	raw, err := c.SyscallConn()
	if err == nil {
		err = control(raw, func(fd int) error { return setReplyOptions(fd, addr.Is4(), addr.IsUnspecified()) })
	}
	if err != nil {
		return fmt.Errorf("inherited socket: %w", err)
	}
	_ = c.SetReadBuffer(readBuffer) // best effort, as in listenUDP
	return nil
}

func setUDPOptions(fd int, ipv4, wildcard bool) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fmt.Errorf("SO_REUSEPORT: %w", err)
	}
	if !ipv4 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return fmt.Errorf("IPV6_V6ONLY: %w", err)
		}
	}
	return setReplyOptions(fd, ipv4, wildcard)
}

// setReplyOptions says how replies leave, and has each query tell the address it was sent to where that is not the
// socket's own.
func setReplyOptions(fd int, ipv4, wildcard bool) error {
	// OMIT: no DF bit, and what ICMP says of a path's MTU is not believed, since anyone can send it (RFC 9715). Replies
	// of at most 1232 octets fit the smallest IPv6 path anyhow.
	var err error
	if ipv4 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
	} else {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
	}
	if err != nil || !wildcard {
		return err
	}
	if ipv4 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
}

// oobSize holds one packet-info control message of either family.
var oobSize = unix.CmsgSpace(unix.SizeofInet6Pktinfo)

// replyFrom turns the control message received with a query into the one to send with its reply, in place: the address
// the query was sent to becomes the source of the reply. nil: let the kernel choose (no message, or not one we know).
//
// Both directions use the same structure. In IPv4's (interface, local address, destination) the interface is cleared,
// since it would override the address; in IPv6's (address, interface) it is kept for link-local addresses, which mean
// nothing without it.
func replyFrom(oob []byte) []byte {
	if len(oob) < unix.SizeofCmsghdr {
		return nil
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	data := unix.CmsgLen(0)
	switch {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(oob) >= data+unix.SizeofInet4Pktinfo:
		binary.NativeEndian.PutUint32(oob[data:], 0)
		return oob[:min(len(oob), unix.CmsgSpace(unix.SizeofInet4Pktinfo))]
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(oob) >= data+unix.SizeofInet6Pktinfo:
		if local := netip.AddrFrom16([16]byte(oob[data : data+16])); !local.IsLinkLocalUnicast() {
			binary.NativeEndian.PutUint32(oob[data+16:], 0)
		}
		return oob[:min(len(oob), unix.CmsgSpace(unix.SizeofInet6Pktinfo))]
	default:
		return nil
	}
}
