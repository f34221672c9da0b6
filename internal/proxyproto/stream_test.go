package proxyproto

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// read reads a header as a connection brings it: by what Need asks for, and no octet more.
func read(b []byte) (h Header, n int, err error) {
	for {
		need, err := Need(b[:n])
		if err != nil {
			return Header{}, n, err
		}
		if need <= n {
			h, err := ParseStream(b[:n])
			return h, n, err
		}
		if need > len(b) {
			return Header{}, n, errors.New("it goes on")
		}
		n = need
	}
}

// TestStreams reads headers of both versions at the beginning of a connection: what follows is not touched.
//
// Covers: issue6 proxy protocol
func TestStreams(t *testing.T) {
	v2 := string(Append(nil, four, us, false))
	for _, row := range []struct{ name, b, client, server string }{
		{"version 2", v2, "192.0.2.9:4321", "198.51.100.53:53"},
		{"version 2 of IPv6", string(Append(nil, six, us, false)), "[2001:db8::9]:4321", "198.51.100.53:53"},
		{"version 2, the proxy itself", string(Append(nil, netip.AddrPort{}, us, false)), "", ""},
		{"version 1", "PROXY TCP4 192.0.2.9 198.51.100.1 4321 443\r\n", "192.0.2.9:4321", "198.51.100.1:443"},
		{"version 1 of IPv6", "PROXY TCP6 2001:db8::9 2001:db8::1 1 65535\r\n", "[2001:db8::9]:1", "[2001:db8::1]:65535"},
		{"version 1 of an IPv4 address in IPv6", "PROXY TCP6 ::ffff:192.0.2.9 ::1 1 0\r\n", "192.0.2.9:1", "[::1]:0"},
		{"version 1, the proxy itself", "PROXY UNKNOWN\r\n", "", ""},
		{"version 1, the proxy itself, with more", "PROXY UNKNOWN ffff:f...f 1 2 3\r\n", "", ""},
		{"the longest line", "PROXY UNKNOWN " + strings.Repeat("x", MaxLineLen-16) + "\r\n", "", ""},
	} {
		h, n, err := read([]byte(row.b + "GET / HTTP/1.1\r\n"))
		if err != nil || n != len(row.b) {
			t.Errorf("%s: %d octets of %d, %v", row.name, n, len(row.b), err)
			continue
		}
		if h.Client.IsValid() != (row.client != "") || row.client != "" && (h.Client.String() != row.client || h.Server.String() != row.server) {
			t.Errorf("%s: %v", row.name, h)
		}
	}
	for _, b := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaaa", "PROXX TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
		"PROXY TCP4 192.0.2.9 198.51.100.1 4321\r\n", "PROXY TCP4 192.0.2.9 198.51.100.1 4321 443 \r\n", "PROXY TCP4  192.0.2.9 198.51.100.1 4321 443\r\n",
		"PROXY TCP4 192.0.2.09 198.51.100.1 4321 443\r\n", "PROXY TCP4 ::1 ::1 1 2\r\n", "PROXY TCP6 192.0.2.9 198.51.100.1 4321 443\r\n",
		"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "PROXY TCP4 192.0.2.9 198.51.100.1 04321 443\r\n", "PROXY TCP4 192.0.2.9 198.51.100.1 65536 443\r\n",
		"PROXY TCP4 192.0.2.9 198.51.100.1 -1 443\r\n", "PROXY UDP4 192.0.2.9 198.51.100.1 1 443\r\n", "PROXY tcp4 192.0.2.9 198.51.100.1 1 443\r\n",
		"PROXY TCP4 192.0.2.9 198.51.100.1 4321 443\n", "PROXY TCP4 192.0.2.9\r198.51.100.1 1 2\r\n", "PROXY UNKNOWN " + strings.Repeat("x", MaxLineLen-15) + "\r\n",
		string(Append(nil, four, us, true)), "\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x0c............",
	} {
		if h, n, err := read([]byte(b + "and more")); !errors.Is(err, ErrHeader) || h.Client.IsValid() {
			t.Errorf("%q: %v, %d octets, %v", b, h, n, err)
		}
	}
}

// FuzzStream: of whatever comes no octet more is taken than a header has, and never without end.
//
// Covers: issue6 proxy protocol
func FuzzStream(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.9 198.51.100.1 4321 443\r\n"))
	f.Add(Append(nil, four, us, false))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := read(b)
		if n > MaxLen {
			t.Fatalf("%d octets were taken", n)
		}
		if err == nil && h.Client.IsValid() != h.Server.IsValid() {
			t.Fatalf("half of it was read: %v", h)
		}
	})
}
