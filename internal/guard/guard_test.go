package guard_test

import (
	"net/netip"
	"testing"

	"steerpoint/internal/guard"
)

// TestCheck: what is refused, however it is written, and that ordinary and private addresses pass.
func TestCheck(t *testing.T) {
	for _, row := range []struct{ addr, want string }{
		{"192.0.2.1", ""},
		{"10.0.0.1", ""},
		{"100.64.0.1", ""},
		{"2001:db8::1", ""},
		{"fd00::1", ""},
		{"64:ff9b::192.0.2.1", ""},
		{"127.0.0.1", "a loopback address"},
		{"127.255.255.255", "a loopback address"},
		{"::1", "a loopback address"},
		{"::ffff:127.0.0.1", "a loopback address"},
		{"64:ff9b::127.0.0.1", "a loopback address"},
		{"0.0.0.0", "an address of this host"},
		{"0.1.2.3", "an address of this host"},
		{"::", "no address"},
		{"169.254.169.254", "a metadata address"},
		{"::ffff:169.254.169.254", "a metadata address"},
		{"fd00:ec2::254", "a metadata address"},
		{"fd00:ec2::254%eth0", "a metadata address"},
		{"100.100.100.200", "a metadata address"},
		{"169.254.1.1", "a link-local address"},
		{"fe80::1", "a link-local address"},
		{"fe80::1%eth0", "a link-local address"},
		{"224.0.0.1", "a multicast address"},
		{"ff02::1", "a multicast address"},
		{"ff0e::1", "a multicast address"},
		{"255.255.255.255", "the broadcast address"},
	} {
		if got := guard.Check(netip.MustParseAddr(row.addr)); got != row.want {
			t.Errorf("%s: got %q, want %q", row.addr, got, row.want)
		}
	}
	if guard.Check(netip.Addr{}) == "" {
		t.Error("the zero address passed")
	}
}
