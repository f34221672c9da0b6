// Package proxyproto reads the header that a proxy puts before what it passes on, to say who the client is: version 2 of
// the PROXY protocol, before a datagram or at the beginning of a connection (Parse), and version 1, of text, at the
// beginning of a connection (Need and ParseStream).
//
// A header is believed from whoever sends it: the caller asks only those it trusts.
package proxyproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

const (
	// FixedLen is the part of a header before its addresses.
	FixedLen = 16
	// MaxLen bounds a whole header. Addresses of IPv6 take 36 octets; the rest is for what proxies add (TLS, cloud IDs).
	MaxLen = 2048

	signature = "\r\n\r\n\x00\r\nQUIT\n"
)

// ErrHeader is matched by the error for what is not a header of version 2.
var ErrHeader = errors.New("no PROXY header")

// Header is who sent what follows it.
type Header struct {
	// Client is the address of the client, and its port. It is not valid where the proxy speaks for itself, such as when
	// it looks whether we live.
	Client netip.AddrPort
	// Server is what the client connected to, at the proxy; not valid with Client.
	Server netip.AddrPort
}

// Len is the length of a whole header whose first FixedLen octets are given.
func Len(fixed []byte) (int, error) {
	if len(fixed) < FixedLen || string(fixed[:len(signature)]) != signature {
		return 0, fmt.Errorf("%w: it does not begin with the signature", ErrHeader)
	}
	if v := fixed[12] >> 4; v != 2 {
		return 0, fmt.Errorf("%w: version %d", ErrHeader, v)
	}
	n := FixedLen + int(binary.BigEndian.Uint16(fixed[14:]))
	if n > MaxLen {
		return 0, fmt.Errorf("%w: %d octets are too many", ErrHeader, n)
	}
	return n, nil
}

// Parse reads the header at the beginning of b and says how long it is. datagram says what it stands before: a header of
// the other transport is refused.
func Parse(b []byte, datagram bool) (h Header, n int, err error) {
	if n, err = Len(b); err != nil {
		return Header{}, 0, err
	}
	if n > len(b) {
		return Header{}, 0, fmt.Errorf("%w: it ends after %d octets of %d", ErrHeader, len(b), n)
	}
	switch command := b[12] & 0xF; command {
	case 0: // LOCAL: whatever stands in it is to be skipped
		return Header{}, n, nil
	case 1:
	default:
		return Header{}, 0, fmt.Errorf("%w: command %d", ErrHeader, command)
	}
	family, transport := b[13]>>4, b[13]&0xF
	want := byte(1)
	if datagram {
		want = 2
	}
	if transport != want {
		return Header{}, 0, fmt.Errorf("%w: transport %d, and it came by %d", ErrHeader, transport, want)
	}
	if h, err = ends(family, b[FixedLen:n]); err != nil {
		return Header{}, 0, err
	}
	return h, n, nil
}

// ends reads both addresses, then both ports.
func ends(family byte, b []byte) (Header, error) {
	size := 0
	switch family {
	case 1:
		size = 4
	case 2:
		size = 16
	default:
		return Header{}, fmt.Errorf("%w: address family %d", ErrHeader, family)
	}
	if len(b) < 2*size+4 {
		return Header{}, fmt.Errorf("%w: its addresses are cut", ErrHeader)
	}
	from, _ := netip.AddrFromSlice(b[:size])
	to, _ := netip.AddrFromSlice(b[size : 2*size])
	return Header{
		Client: netip.AddrPortFrom(from.Unmap(), binary.BigEndian.Uint16(b[2*size:])),
		Server: netip.AddrPortFrom(to.Unmap(), binary.BigEndian.Uint16(b[2*size+2:])),
	}, nil
}

// Append appends the header for a client that asked a server; with a client that is not valid, the proxy's own.
func Append(dst []byte, client, server netip.AddrPort, datagram bool) []byte {
	dst = append(dst, signature...)
	if !client.IsValid() {
		return append(dst, 0x20, 0, 0, 0)
	}
	transport := byte(1)
	if datagram {
		transport = 2
	}
	from, to := client.Addr(), server.Addr()
	if from.Is4() && to.Is4() {
		dst = append(dst, 0x21, 0x10|transport, 0, 12)
		dst = append(append(dst, from.AsSlice()...), to.AsSlice()...)
	} else {
		a, b := from.As16(), to.As16()
		dst = append(dst, 0x21, 0x20|transport, 0, 36)
		dst = append(append(dst, a[:]...), b[:]...)
	}
	dst = binary.BigEndian.AppendUint16(dst, client.Port())
	return binary.BigEndian.AppendUint16(dst, server.Port())
}

// Trusted are the networks of proxies. Those in them are believed and must send a header; others cannot send one.
type Trusted []netip.Prefix

// Contains reports whether an address is a proxy's.
func (t Trusted) Contains(a netip.Addr) bool {
	for i := range t {
		if t[i].Contains(a) {
			return true
		}
	}
	return false
}
