package proxyproto

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
)

var (
	four = netip.MustParseAddrPort("192.0.2.9:4321")
	six  = netip.MustParseAddrPort("[2001:db8::9]:4321")
	us   = netip.MustParseAddrPort("198.51.100.53:53")
)

// TestRoundTrip: what one side writes the other reads, and what follows is left alone.
//
// Covers: field 5
func TestRoundTrip(t *testing.T) {
	for _, client := range []netip.AddrPort{four, six, {}} {
		for _, datagram := range []bool{false, true} {
			b := append(Append(nil, client, us, datagram), "query"...)
			h, n, err := Parse(b, datagram)
			if err != nil || h.Client != client || string(b[n:]) != "query" {
				t.Errorf("%s, datagram %t: %s, %q, %v", client, datagram, h.Client, b[n:], err)
			}
		}
	}
}

// TestParse reads headers as proxies write them, and such as nobody should.
//
// Covers: field 5, issue5 proxy protocol
func TestParse(t *testing.T) {
	udp4 := Append(nil, four, us, true)
	edit := func(at int, v ...byte) []byte {
		b := bytes.Clone(udp4)
		copy(b[at:], v)
		return b
	}
	withTLV := append(edit(14, 0, 12+7), 0x04, 0, 4, 1, 2, 3, 4) // a NOOP behind the addresses
	local := edit(12, 0x20)
	for _, row := range []struct {
		name string
		b    []byte
		want string
		n    int
	}{
		{"UDP over IPv4", udp4, "192.0.2.9:4321", 28},
		{"with more behind the addresses", withTLV, "192.0.2.9:4321", 35},
		{"of an IPv4 address in IPv6", Append(nil, netip.MustParseAddrPort("[::ffff:192.0.2.9]:4321"), six, true), "192.0.2.9:4321", 52},
		{"the proxy itself, whatever it says", local, "invalid AddrPort", 28},
		{"the proxy itself, of no family", append([]byte(signature), 0x20, 0, 0, 0), "invalid AddrPort", 16},
		{"nothing", nil, "", 0},
		{"the signature alone", []byte(signature), "", 0},
		{"version 1", []byte("PROXY UDP4 192.0.2.9 198.51.100.53 4321 53\r\n"), "", 0},
		{"version 3", edit(12, 0x31), "", 0},
		{"another command", edit(12, 0x22), "", 0},
		{"TCP", edit(13, 0x11), "", 0},
		{"no transport", edit(13, 0x10), "", 0},
		{"no family", edit(13, 0x02), "", 0},
		{"a Unix socket", edit(13, 0x32), "", 0},
		{"longer than what is there", edit(14, 0, 13), "", 0},
		{"addresses cut", edit(14, 0, 11), "", 0},
		{"IPv6 in the length of IPv4", edit(13, 0x22), "", 0},
		{"endless", append(edit(14, 0xFF, 0xFF), make([]byte, 1<<16)...), "", 0},
		{"a DNS query", []byte{1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}, "", 0},
	} {
		h, n, err := Parse(row.b, true)
		switch {
		case row.want == "":
			if !errors.Is(err, ErrHeader) || n != 0 || h.Client.IsValid() {
				t.Errorf("%s: %v, %d octets, %v", row.name, h, n, err)
			}
		case err != nil || h.Client.String() != row.want || n != row.n:
			t.Errorf("%s: %s, %d octets, %v; want %s, %d", row.name, h.Client, n, err, row.want, row.n)
		}
	}
}

// TestTrusted: a network of proxies, and nobody beside it.
//
// Covers: issue5 proxy protocol
func TestTrusted(t *testing.T) {
	list := Trusted{netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("2001:db8::/64")}
	for addr, want := range map[string]bool{"192.0.2.1": true, "192.0.2.128": false, "2001:db8::1": true, "2001:db8:0:1::1": false} {
		if got := list.Contains(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %t", addr, got)
		}
	}
}

// FuzzParse: a hostile header is refused or read within its length, and what is read can be written again.
//
// Covers: issue5 proxy protocol
func FuzzParse(f *testing.F) {
	for _, b := range [][]byte{Append(nil, four, us, true), Append(nil, six, us, false), Append(nil, netip.AddrPort{}, us, true), nil} {
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, datagram bool) {
		h, n, err := Parse(b, datagram)
		if err != nil {
			if n != 0 || h.Client.IsValid() {
				t.Fatalf("refused, and read: %v, %d", h, n)
			}
			return
		}
		if n < FixedLen || n > len(b) || n > MaxLen {
			t.Fatalf("%d octets of %d", n, len(b))
		}
		if h.Client.IsValid() {
			again, _, err := Parse(Append(nil, h.Client, h.Server, datagram), datagram)
			if err != nil || again != h {
				t.Fatalf("%v was written as %v, %v", h, again, err)
			}
		}
	})
}
