//go:build linux

package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// loopback is the index of lo in every network namespace: it is made first.
const loopback = 1

// netlink is a socket to the kernel's network configuration, of the namespace of the thread that opens it.
type netlink struct {
	fd  int
	seq uint32
}

func openNetlink() (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", os.NewSyscallError("socket", err))
	}
	return &netlink{fd: fd}, nil
}

func (n *netlink) close() { _ = unix.Close(n.fd) } // a socket has nothing left to write

// up brings a device up, with an MTU and a length of its transmit queue in packets; 0 leaves either as it is.
func (n *netlink) up(index, mtu, queue int) error {
	// struct ifinfomsg: family, padding, type, index, flags, mask of the flags to change (rtnetlink(7)).
	body := []byte{unix.AF_UNSPEC, 0, 0, 0}
	body = binary.NativeEndian.AppendUint32(body, uint32(index))
	body = binary.NativeEndian.AppendUint32(body, unix.IFF_UP)
	body = binary.NativeEndian.AppendUint32(body, unix.IFF_UP)
	if mtu > 0 {
		body = attribute(body, unix.IFLA_MTU, binary.NativeEndian.AppendUint32(nil, uint32(mtu)))
	}
	if queue > 0 {
		body = attribute(body, unix.IFLA_TXQLEN, binary.NativeEndian.AppendUint32(nil, uint32(queue)))
	}
	return n.do(unix.RTM_NEWLINK, 0, body)
}

// address gives a device an address; everything in the prefix is then reached through it.
func (n *netlink) address(index int, p netip.Prefix) error {
	family := byte(unix.AF_INET)
	if p.Addr().Is6() {
		family = unix.AF_INET6
	}
	// struct ifaddrmsg: family, prefix length, flags, scope, index. NODAD: nobody else can have the address, and one
	// that is still being checked cannot be bound.
	body := []byte{family, byte(p.Bits()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE}
	body = binary.NativeEndian.AppendUint32(body, uint32(index))
	body = attribute(body, unix.IFA_LOCAL, p.Addr().AsSlice())
	body = attribute(body, unix.IFA_ADDRESS, p.Addr().AsSlice())
	return n.do(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
}

// local reports whether packets to addr are taken by this host.
func (n *netlink) local(addr netip.Addr) (bool, error) {
	family := byte(unix.AF_INET)
	if addr.Is6() {
		family = unix.AF_INET6
	}
	// struct rtmsg: family, length of the destination in bits, and what a question leaves 0.
	body := make([]byte, unix.SizeofRtMsg)
	body[0], body[1] = family, byte(addr.BitLen())
	body = attribute(body, unix.RTA_DST, addr.AsSlice())
	replies, err := n.ask(unix.RTM_GETROUTE, 0, body)
	if err != nil {
		return false, err
	}
	for _, r := range replies {
		if r.Header.Type == unix.RTM_NEWROUTE && len(r.Data) >= unix.SizeofRtMsg {
			return r.Data[7] == unix.RTN_LOCAL, nil // rtm_type
		}
	}
	return false, nil
}

// attribute appends a struct rtattr: length, kind, value; values here are whole words, so there is nothing to pad.
func attribute(body []byte, kind uint16, value []byte) []byte {
	body = binary.NativeEndian.AppendUint16(body, uint16(unix.SizeofRtAttr+len(value)))
	body = binary.NativeEndian.AppendUint16(body, kind)
	return append(body, value...)
}

// do sends one request and waits until the kernel has done it.
func (n *netlink) do(kind, flags uint16, body []byte) error {
	_, err := n.ask(kind, flags|unix.NLM_F_ACK, body)
	return err
}

// ask sends one request and gives the reply, less the acknowledgement.
func (n *netlink) ask(kind, flags uint16, body []byte) ([]syscall.NetlinkMessage, error) {
	n.seq++
	// struct nlmsghdr: length, kind, flags, sequence number, port.
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, flags|unix.NLM_F_REQUEST)
	m = binary.NativeEndian.AppendUint32(m, n.seq)
	m = binary.NativeEndian.AppendUint32(m, 0)
	if err := unix.Sendto(n.fd, append(m, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	reply := make([]byte, os.Getpagesize())
	size, _, err := unix.Recvfrom(n.fd, reply, 0)
	if err != nil {
		return nil, os.NewSyscallError("recvfrom", err)
	}
	messages, err := syscall.ParseNetlinkMessage(reply[:size])
	if err != nil {
		return nil, os.NewSyscallError("netlink", err)
	}
	if len(messages) == 0 {
		return nil, errors.New("the kernel did not answer")
	}
	if first := messages[0]; first.Header.Type == unix.NLMSG_ERROR && len(first.Data) >= 4 {
		// struct nlmsgerr: a negative error number, 0 for done.
		if code := int32(binary.NativeEndian.Uint32(first.Data)); code != 0 {
			return nil, syscall.Errno(-code)
		}
		return messages[1:], nil
	}
	return messages, nil
}
