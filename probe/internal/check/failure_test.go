package check

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"steerpoint/report"
)

// TestConnectFailures: what the kernel may say of a connection, and whose trouble it is.
func TestConnectFailures(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("192.0.2.1:80"), netip.MustParseAddrPort("[2001:db8::1]:80")
	all := func(netip.Addr) bool { return true }
	none := func(netip.Addr) bool { return false }
	rest := func(a netip.Addr) bool { return a != v4.Addr() } // all but the target
	for _, row := range []struct {
		errno  syscall.Errno
		to     netip.AddrPort
		routed func(netip.Addr) bool
		cause  report.Cause
		detail string
	}{
		{syscall.ECONNREFUSED, v4, all, report.CauseRefused, "192.0.2.1:80 refused"},
		{syscall.ECONNRESET, v4, all, report.CauseReset, "reset"},
		{syscall.ETIMEDOUT, v4, all, report.CauseTimeout, "while connecting"},
		{syscall.ENETUNREACH, v4, all, report.CauseUnreachable, "network is unreachable"},
		{syscall.ENETUNREACH, v4, rest, report.CauseUnreachable, "192.0.2.1:80"},
		{syscall.EHOSTUNREACH, v4, all, report.CauseUnreachable, "no route to host"},
		{syscall.ENETUNREACH, v4, none, report.CauseLocal, "any IPv4 address"},
		{syscall.ENETDOWN, v4, none, report.CauseLocal, "any IPv4 address"},
		{syscall.ENETUNREACH, v6, netip.Addr.Is4, report.CauseLocal, "any IPv6 address"},
		{syscall.EAFNOSUPPORT, v6, all, report.CauseLocal, "address family"},
		{syscall.EADDRNOTAVAIL, v6, all, report.CauseLocal, "address or port"},
		{syscall.EMFILE, v4, all, report.CauseLocal, "descriptor"},
		{syscall.ENFILE, v4, all, report.CauseLocal, "descriptor"},
		{syscall.ENOBUFS, v4, all, report.CauseLocal, "buffer"},
		{syscall.ENOMEM, v4, all, report.CauseLocal, "memory"},
		{syscall.EACCES, v4, all, report.CauseLocal, "rules"},
		{syscall.EPERM, v4, all, report.CauseLocal, "rules"},
		{syscall.EINVAL, v4, all, report.CauseLocal, "such an address"},
		{syscall.EPROTO, v4, all, report.CauseUnreachable, "protocol error"},
	} {
		c := newChecker(Config{})
		c.routed = row.routed
		p := &probe{Checker: c, Target: &Target{}, phase: "connecting", o: report.Observation{Address: row.to}}
		p.judge(p.connectFailure(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", row.errno)}))
		wantFailure(t, p.o, row.cause, row.detail)
		if p.o.Counts() != (row.cause != report.CauseLocal) {
			t.Errorf("%v: it counts: %v", row.errno, p.o.Counts())
		}
	}
}

// TestClean: what a peer may have written cannot harm a terminal, a log or a page, nor fill it.
func TestClean(t *testing.T) {
	if got := clean("a\x1b[31m\nü"); got != "a?[31m??" {
		t.Errorf("got %q", got)
	}
	if got := clean(strings.Repeat("x", 1000)); len(got) > detailLimit+3 {
		t.Errorf("%d bytes are left", len(got))
	}
}
