package proxyproto

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// MaxLineLen bounds a header of version 1, with its CR LF (section 2.1 of the specification).
	MaxLineLen = 107
	// shortest is the shortest header of version 1, "PROXY UNKNOWN" CR LF: so many octets are of the header whatever it is.
	shortest = 15

	word = "PROXY "
)

// Need says how many octets a header of either version has at least when it begins with b: as many as b has, or fewer, and
// it is whole. So what reads a connection need not take an octet more than the header.
func Need(b []byte) (int, error) {
	if len(b) < shortest {
		if !begins(b, word) && !begins(b, signature) {
			return 0, fmt.Errorf("%w: it begins with neither signature", ErrHeader)
		}
		return shortest, nil
	}
	if begins(b, word) {
		return needLine(b)
	}
	if !begins(b, signature) {
		return 0, fmt.Errorf("%w: it begins with neither signature", ErrHeader)
	}
	if len(b) < FixedLen {
		return FixedLen, nil
	}
	return Len(b)
}

// begins reports whether b is a beginning of s, or s one of b.
func begins(b []byte, s string) bool {
	n := min(len(b), len(s))
	return string(b[:n]) == s[:n]
}

func needLine(b []byte) (int, error) {
	end := bytes.IndexByte(b[:min(len(b), MaxLineLen)], '\n')
	switch {
	case end >= 0 && b[end-1] == '\r':
		return end + 1, nil
	case end >= 0:
		return 0, fmt.Errorf("%w: its line ends with LF alone", ErrHeader)
	case len(b) >= MaxLineLen:
		return 0, fmt.Errorf("%w: its line is longer than %d octets", ErrHeader, MaxLineLen)
	case b[len(b)-1] == '\r':
		return len(b) + 1, nil
	}
	return len(b) + len("\r\n"), nil
}

// ParseStream reads a whole header of either version, as Need tells it, at the beginning of a TCP connection.
func ParseStream(b []byte) (Header, error) {
	if !begins(b, word) {
		h, n, err := Parse(b, false)
		if err == nil && n != len(b) {
			return Header{}, fmt.Errorf("%w: it ends after %d octets of %d", ErrHeader, n, len(b))
		}
		return h, err
	}
	line, ok := strings.CutSuffix(string(b), "\r\n")
	if !ok || len(b) > MaxLineLen || strings.ContainsAny(line, "\r\n") {
		return Header{}, fmt.Errorf("%w: it is not one line", ErrHeader)
	}
	return parseLine(strings.TrimPrefix(line, word))
}

// parseLine reads what follows PROXY in version 1: TCP4 or TCP6, both addresses, both ports, each after one space.
func parseLine(rest string) (Header, error) {
	family, rest, _ := strings.Cut(rest, " ")
	switch family {
	case "UNKNOWN": // whatever follows is to be skipped
		return Header{}, nil
	case "TCP4", "TCP6":
	default:
		return Header{}, fmt.Errorf("%w: protocol %q", ErrHeader, family)
	}
	parts := strings.Split(rest, " ")
	if len(parts) != 4 {
		return Header{}, fmt.Errorf("%w: %d parts where two addresses and two ports belong", ErrHeader, len(parts))
	}
	from, err := end(family, parts[0], parts[2])
	if err != nil {
		return Header{}, err
	}
	to, err := end(family, parts[1], parts[3])
	if err != nil {
		return Header{}, err
	}
	return Header{Client: from, Server: to}, nil
}

func end(family, addr, port string) (netip.AddrPort, error) {
	a, err := netip.ParseAddr(addr)
	if err != nil || a.Zone() != "" || a.Is4() != (family == "TCP4") {
		return netip.AddrPort{}, fmt.Errorf("%w: %q is no address of %s", ErrHeader, addr, family)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || len(port) > 1 && port[0] == '0' {
		return netip.AddrPort{}, fmt.Errorf("%w: %q is no port", ErrHeader, port)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}
