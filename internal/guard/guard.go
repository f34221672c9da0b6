// Package guard says which addresses a process does not connect to because a resource names them.
//
// Whoever may write a service chooses what every probe point connects to, and whoever may write a notifier what control
// posts to. Without a guard that would reach the machine's own services and its cloud's metadata service, from inside.
package guard

import "net/netip"

// refused are the special ranges beyond those netip knows by name.
var refused = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an address of this host"},          // RFC 1122 section 3.2.1.3
	{netip.MustParsePrefix("255.255.255.255/32"), "the broadcast address"},   // RFC 919
	{netip.MustParsePrefix("fd00:ec2::254/128"), "a metadata address"},       // Amazon EC2, IPv6
	{netip.MustParsePrefix("100.100.100.200/32"), "a metadata address"},      // Alibaba Cloud
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata address"},        // Azure's host service
	{netip.MustParsePrefix("192.0.0.192/32"), "a metadata address"},          // Oracle Cloud
	{netip.MustParsePrefix("169.254.169.254/32"), "a metadata address"},      // most clouds
	{netip.MustParsePrefix("fec0::/10"), "a site-local address of old IPv6"}, // RFC 3879
}

// nat64 is the well-known prefix whose last 32 bits are an IPv4 address (RFC 6052 section 2.1).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Check returns why addr is not to be connected to, or "" when it may be.
func Check(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, r := range refused {
		if r.prefix.Contains(addr) {
			return r.what
		}
	}
	switch {
	case !addr.IsValid(), addr.IsUnspecified():
		return "no address"
	case addr.IsLoopback():
		return "a loopback address"
	case addr.IsLinkLocalUnicast():
		return "a link-local address"
	case addr.IsMulticast():
		return "a multicast address"
	}
	return ""
}
