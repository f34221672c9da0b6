package check

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"steerpoint/report"
	"steerpoint/snapshot"
)

// serveUDP is a server of datagrams on loopback that hands each one to handle, until the end of the test.
func serveUDP(t *testing.T, listen string, handle func(c *net.UDPConn, from netip.AddrPort, b []byte)) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(listen)))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, 2048)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			handle(c, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), b[:n])
		}
	})
	t.Cleanup(func() {
		c.Close()
		wg.Wait()
	})
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func send(c *net.UDPConn, to netip.AddrPort, b []byte) { c.WriteToUDPAddrPort(b, to) }

// flood sends until the end of the test: of how many arrive at a busy receiver nothing can be said.
func flood(c *net.UDPConn, to netip.AddrPort, b []byte) {
	for {
		if _, err := c.WriteToUDPAddrPort(b, to); err != nil {
			return
		}
		time.Sleep(50 * time.Microsecond) // or the receiver's buffer drops most
	}
}

func echoTask(to netip.AddrPort) snapshot.ProbeTask {
	return snapshot.ProbeTask{ID: "t", Kind: snapshot.KindUDP16, Address: to.Addr().String(), Port: int(to.Port()), Interval: plenty, Timeout: plenty}
}

// TestEcho: the same 16 bytes come back, or the probe fails: lost, wrong, longer, flooded, from another address.
//
// Covers: issue4 probe udp16
func TestEcho(t *testing.T) {
	stranger, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stranger.Close() })
	for _, row := range []struct {
		name   string
		handle func(c *net.UDPConn, from netip.AddrPort, b []byte)
		cause  report.Cause
		detail string
	}{
		{name: "ok", handle: send},
		{name: "lost", handle: func(*net.UDPConn, netip.AddrPort, []byte) {}, cause: report.CauseTimeout, detail: "waiting for the answer"},
		{name: "right after wrong ones", handle: func(c *net.UDPConn, to netip.AddrPort, b []byte) {
			for _, wrong := range []string{"", strings.Repeat("x", 16), string(b[:15]), string(b) + "x"} {
				send(c, to, []byte(wrong))
			}
			send(c, to, b)
		}, detail: "4 wrong answers were ignored"},
		{name: "only wrong", handle: func(c *net.UDPConn, to netip.AddrPort, b []byte) { send(c, to, b[1:]) }, cause: report.CauseTimeout, detail: "1 wrong answer was ignored"},
		{name: "flood", handle: func(c *net.UDPConn, to netip.AddrPort, _ []byte) { flood(c, to, make([]byte, 1400)) }, cause: report.CauseProtocol, detail: "256 datagrams"},
		{name: "from a stranger", handle: func(_ *net.UDPConn, to netip.AddrPort, b []byte) { send(stranger, to, b) }, cause: report.CauseTimeout, detail: "waiting"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tk := echoTask(serveUDP(t, "127.0.0.1:0", row.handle))
			if row.cause == report.CauseTimeout {
				wantFailure(t, runOut(t, newChecker(Config{}), tk, row.detail), row.cause, row.detail)
				return
			}
			o := run(t, newChecker(Config{}), tk)
			if row.cause != "" {
				wantFailure(t, o, row.cause, row.detail)
				return
			}
			if !o.OK || o.Detail != row.detail || o.Latency <= 0 || o.Latency != o.Phases.FirstByte || o.Phases.Connect != 0 {
				t.Errorf("got %+v", o)
			}
		})
	}
}

// TestEchoOverIPv6: the other family works alike.
func TestEchoOverIPv6(t *testing.T) {
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6 loopback: %v", err)
	}
	c.Close()
	if o := run(t, newChecker(Config{}), echoTask(serveUDP(t, "[::1]:0", send))); !o.OK {
		t.Errorf("got %+v", o)
	}
}

// TestEchoRefused: a host on which nothing listens says so, and is not waited for.
func TestEchoRefused(t *testing.T) {
	wantFailure(t, run(t, newChecker(Config{}), echoTask(nobody)), report.CauseRefused, "nothing listens at "+nobody.String())
}
